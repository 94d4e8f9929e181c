"""Conjugate gradients: the centralized Riemannian method with the hybrid of Hestenes & Stiefel and
Dai & Yuan.

Sakai, Iiduka, "Hybrid Riemannian conjugate gradient methods with global convergence properties",
Computational Optimization and Applications 2020:

    x <- y = R_x(a d),   d <- -z + beta P_y(d),   z = grad f(y)
    beta = max(0, min(beta_HS, beta_DY)),   beta_DY = <z, z> / q,   beta_HS = <z, z - P_y(grad f(x))> / q
    q = <z, P_y(d)> - <grad f(x), d>

    x   state.point     grad f   state.point.field, in the metric of `rgd`    P_y   constraint.tangent or natural_projection
    d   state.tangent   a        `line_search`, |phi'(a)| <= SIGMA |phi'(0)|  R_x   constraint.retract or retract_with

The first trial step of an iteration is `line_search.taylor`; where there is none, it expects the
decrease of the iteration before, a phi'(0) as there. Where d does not descend, or no step along it
is found, it becomes -z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...protocols import Array, Network, Problem, RetractableManifold, Streams
from .line_search import Searching, last, search, taylor
from .search_points import Point, Vector, begun, field, transported, viewed

SIGMA = 0.5
"""The share of the slope that may be left after a step."""


class ConjugateGradientsState(NamedTuple):
    """The point x ``(1, n, p)``; the `Point` of the iteration in its variables; the direction and
    its product with B, tangent and along; the step that led to x (zero at the start, and where none
    was found) and the next trial step (zero where none is left), each ``(1,)``."""

    x: Array
    point: Point
    tangent: Array
    along: Array
    step_size: Array
    trial: Array
    k: int
    gradients: int


P = Problem[RetractableManifold]
State = ConjugateGradientsState


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(Searching):
    """Riemannian conjugate gradients for a single agent (Sakai, Iiduka 2020).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.ConjugateGradients()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        point, first = begun(problem, x0)
        return State(x0.copy(), point, *field(point).times(-1.0), np.zeros(1), first, 0, 1)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        k = state.k + 1
        view = viewed(problem)
        d = Vector(state.tangent, state.along)
        minimiser = taylor(view, state.point, d)
        trial, more = (float(state.trial[0]), 0) if np.isnan(minimiser) else (minimiser, 1)
        point, step, slope, spent = search(view, state.point, d, trial, SIGMA, self.retraction, k)
        before = field(state.point)
        z = field(point)
        start = before.inner(d)
        squared = z.inner(z)
        ahead = z.times(-1.0)
        following = float(state.trial[0])
        if step > 0.0:
            beta = 0.0
            if slope > start:
                beta = min(squared, squared - z.inner(before)) / (slope - start)
            if beta > 0.0:
                ahead.add(beta, transported(view, point, d))
            down = z.inner(ahead)
            if not down < 0.0:
                ahead = z.times(-1.0)
                down = -squared
            following = step * start / down if down < 0.0 else step
        elif last(state.point, d, step):
            following = 0.0
        spent = spent + more
        return State(
            state.x,
            point,
            *ahead,
            np.array([step]),
            np.array([following]),
            k,
            state.gradients + spent,
        )
