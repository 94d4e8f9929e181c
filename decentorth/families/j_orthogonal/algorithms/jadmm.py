"""JADMM: the alternating direction method of multipliers under J-orthogonality, linearised.

Paper 001, "Block coordinate descent methods for optimization under J-orthogonality constraints with
applications", appendix F.3, which writes x^T J x = J as x^T y = J, y = J x, with the augmented
Lagrangian

    f(x) + <x^T y - J, z> + <J x - y, w> + beta/2 ||x^T y - J||^2 + beta/2 ||J x - y||^2

in turn minimised over x, with f replaced by f(x_k) + <G, x - x_k> + l/2 ||x - x_k||^2, and over y,
then ascended in z and w:

    x <- (l I + beta (y y^T + I))^{-1} (l x - G - y z^T - J w + beta y J + beta J y)       (1)
    y <- (beta (x x^T + I))^{-1} (-x z + w + beta x J + beta J x)                          (2)
    z <- z + beta (x^T y - J),   w <- w + beta (J x - y)                                   (3)

    x, y, z, w   state.x, y, z, w       l   state.curvature       beta   state.penalty      G   problem.gradient

Differences from the paper: its printed updates have errors; those here are the minimisers (tested).
y starts at J x, z and w at zero. Its schedule, beta doubled every 5 iterations while it is at most
1e9, freezes x at a feasible point that is not optimal, so by default beta is constant, 0.3 l;
``schedule="published"`` is the other. x becomes feasible as it converges, not before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from decentorth.algorithms.common import Auto, SingleAgentMethod, given_or, start, steepest
from decentorth.protocols import Array, Network, Problem, Signature, Streams
from decentorth.settings import Positive

from .doubling import START, Growth, grown


class JADMMState(NamedTuple):
    """The variables x, y and the multipliers z (of x^T y = J) and w (of J x = y), each ``(1, n,
    n)``; penalty (beta) and curvature (l), ``(1,)``."""

    x: Array
    y: Array
    z: Array
    w: Array
    penalty: Array
    curvature: Array
    k: int
    gradients: int


P = Problem[Signature]


@dataclass(frozen=True, kw_only=True)
class JADMM(SingleAgentMethod):
    """Alternating direction method of multipliers, for a single agent under J-orthogonality (a
    rival in paper 001).

    Parameters
    ----------
    curvature
        l > 0 of the quadratic term that replaces f's; auto: f's Lipschitz constant, estimated where
        it is not known.
    penalty
        beta > 0, where it starts; auto: 0.3 l, and 1000 for the published schedule.
    schedule
        constant; or published: beta doubled every 5 iterations while it is at most 1e9, from 1e2 to
        1e5 on in the paper.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> method = do.JADMM()
    >>> result = do.solve(problem, method, iterations=50)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-1 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Signature,)

    curvature: Positive | Auto = "auto"
    penalty: Positive | Auto = "auto"
    schedule: Growth = "constant"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> JADMMState:
        curvature, _, spent = start(self.curvature, 1, lambda: steepest(problem, streams, x0))
        automatic = {"constant": 0.3 * curvature, "published": np.full(1, START)}
        penalty = given_or(self.penalty, automatic[self.schedule])
        zero = np.zeros_like(x0)
        y = problem.constraint.signs[:, None] * x0
        return JADMMState(x0.copy(), y, zero, zero.copy(), penalty, curvature, 0, spent)

    def step(self, problem: P, network: Network, streams: Streams, state: JADMMState) -> JADMMState:
        J = problem.constraint.signs
        x = state.x
        y = state.y
        z = state.z
        w = state.w
        k = state.k + 1
        curve = state.curvature[:, None, None]
        beta = state.penalty[:, None, None]
        right = curve * x - problem.gradient(x) - y @ z.swapaxes(-1, -2) - J[:, None] * w
        x = _solved(curve + beta, beta, y, right + beta * (y * J + J[:, None] * y))  # (1)
        jx = J[:, None] * x
        y = _solved(beta, beta, x, beta * (x * J + jx) + w - x @ z)  # (2)
        z = z + beta * (x.swapaxes(-1, -2) @ y - np.diag(J))  # (3)
        w = w + beta * (jx - y)
        penalty = grown(self.schedule, state.penalty, k)
        return JADMMState(x, y, z, w, penalty, state.curvature, k, state.gradients + 1)


def _solved(shift: Array, beta: Array, y: Array, right: Array) -> Array:
    """The solution (shift I + beta y y^T)^{-1} right; NaN once y is so large that rounding removes
    the first term."""
    gram = beta * (y @ y.swapaxes(-1, -2))
    diagonal = gram.reshape(1, -1)[:, :: y.shape[-1] + 1]
    if not diagonal.sum(-1)[0] * np.finfo(np.float64).eps < shift[0, 0, 0]:
        return np.full_like(right, np.nan)
    diagonal += shift[0]
    return np.linalg.solve(gram, right).astype(np.float64, copy=False)
