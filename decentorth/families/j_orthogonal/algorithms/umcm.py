"""UMCM: the unconstrained multiplier correction method under J-orthogonality, by gradients.

Paper 001, "Block coordinate descent methods for optimization under J-orthogonality constraints with
applications", appendix F.4: a multiplier of x^T J x = J, with the closed form J x^T G that it has
at a solution, and a quadratic term make f a function on the whole space,

    h(x) = f(x) - 1/2 <J x^T G(x), E> + beta/2 ||E||_F^2,    E = x^T J x - J

    grad h = G - 1/2 (G E J + DG[x J E]) + J x (2 beta E - sym(J x^T G))                   (1)

    G    problem.gradient           beta   penalty         x <- x - eta grad h(x)
    DG   problem.hessian_product    eta    step_size       grad h   state.field

For f(x) = tr(x^T H x)/2 the second term is G sym(J E), and an iteration has 5 products of n x n
matrices, otherwise 7.

Differences from the paper: it differentiates h by PyTorch in place of (1). It takes Adagrad's steps
(``optimizer="adagrad"``, a step for each entry, rates 5e-4 to 5e-3). These stall far from a
minimiser, so the default is Barzilai-Borwein steps. Its beta grows, from 1e2 to 1e5 on, "similarly"
to that of ADMM (``schedule="published"``: the same doublings). By default beta is constant, 3 L_f:
1.5 L_f to 5 L_f converge, with 0.5 L_f x may diverge. x becomes feasible as it converges, not
before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from decentorth.algorithms.common import (
    Auto,
    BarzilaiBorwein,
    Constant,
    SingleAgentMethod,
    given_or,
    steepest,
)
from decentorth.algorithms.common.step_sizes import MeasuredStepSize, checked, measured, schedule
from decentorth.protocols import (
    Array,
    HessianProducts,
    Network,
    Problem,
    Signature,
    Streams,
    TraceForm,
)
from decentorth.settings import Positive

from .doubling import START, Growth, grown

PUBLISHED = 5e-3
"""The default rate of Adagrad."""
SMALL = 1e-10
"""Added to Adagrad's root, so that a slope of zero does not move."""


class UMCMState(NamedTuple):
    """The point x and field (grad h), each ``(1, n, n)``; squares (Adagrad's sums), the same or
    ``(1, 0, 0)``; step_size, base (the first step) and penalty, ``(1,)``."""

    x: Array
    field: Array
    squares: Array
    step_size: Array
    base: Array
    penalty: Array
    k: int
    gradients: int


class CurvedProblem(Problem[Signature], HessianProducts, Protocol):
    """A problem under J-orthogonality that can differentiate its gradients."""


P = CurvedProblem


@dataclass(frozen=True, kw_only=True)
class UMCM(SingleAgentMethod):
    """Unconstrained multiplier correction, for a single agent under J-orthogonality (a rival in
    paper 001).

    Parameters
    ----------
    step_size
        eta > 0, or a schedule (diminishing, horizon, bb); auto: bb; with Adagrad its rate, auto:
        0.005.
    penalty
        beta > 0, where it starts; auto: 3 times f's Lipschitz constant, estimated where it is not
        known, and 1000 for the published schedule.
    schedule
        constant; or published: beta doubled every 5 iterations while it is at most 1e9, from 1e2 to
        1e5 on in the paper.
    optimizer
        gradient; or adagrad, a step for each entry, as published.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> method = do.UMCM()
    >>> result = do.solve(problem, method, iterations=50)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    requires: ClassVar[tuple[type, ...]] = (HessianProducts,)
    requires_set: ClassVar[tuple[type, ...]] = (Signature,)

    step_size: MeasuredStepSize = "auto"
    penalty: Positive | Auto = "auto"
    schedule: Growth = "constant"
    optimizer: Literal["gradient", "adagrad"] = "gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "adagrad":
            rate = checked(self.step_size, (Constant,), "Adagrad has a rate")
            object.__setattr__(self, "step_size", rate)

    def for_network(self, network: Network) -> UMCM:
        """This method with automatic steps resolved."""
        if self.step_size != "auto":
            return self
        if self.optimizer == "adagrad":
            return replace(self, step_size=PUBLISHED)
        return replace(self, step_size=BarzilaiBorwein())

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> UMCMState:
        steps = schedule(self.for_network(network).step_size)
        spent = 0
        own = np.zeros(1)
        measured_penalty = self.penalty == "auto" and self.schedule == "constant"
        if measured_penalty or steps.initial == "auto":
            own, spent = steepest(problem, streams, x0)
        automatic = {"constant": 3.0 * own, "published": np.full(1, START)}
        penalty = given_or(self.penalty, automatic[self.schedule])
        size = np.linalg.norm(x0, 2, axis=(-2, -1))
        if measured_penalty:
            own = penalty / 3.0
        # the curvature of the quadratic term is at most 4 beta ||x||_2^2
        base = given_or(steps.initial, 1.0 / (2.0 * own + 4.0 * penalty * size * size))
        field = _field(problem, x0, penalty)
        squares = field * field if self.optimizer == "adagrad" else np.empty((1, 0, 0))
        step = base * steps.scale(0)
        return UMCMState(x0.copy(), field, squares, step, base, penalty, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: UMCMState) -> UMCMState:
        k = state.k + 1
        squares = state.squares
        direction = state.field
        if squares.size:
            direction = direction / (np.sqrt(squares) + SMALL)
        x = state.x - state.step_size[:, None, None] * direction
        penalty = grown(self.schedule, state.penalty, k)
        field = _field(problem, x, penalty)
        if squares.size:
            squares = squares + field * field
        step_size = measured(self.for_network(network).step_size, state, x, field)
        return UMCMState(x, field, squares, step_size, state.base, penalty, k, state.gradients + 1)


def _field(problem: P, x: Array, penalty: Array) -> Array:
    """The gradient grad h (1)."""
    J = problem.constraint.signs
    g = problem.gradient(x)
    jx = J[:, None] * x
    xt = x.swapaxes(-1, -2)
    e = xt @ jx - np.diag(J)
    multiplier = J[:, None] * (xt @ g)
    je = J[:, None] * e
    ej = e * J
    exact = isinstance(problem, TraceForm)
    curved = g @ (je + ej) if exact else g @ ej + problem.hessian_product(x, x @ je)
    inner = 2.0 * penalty[:, None, None] * e - 0.5 * (multiplier + multiplier.swapaxes(-1, -2))
    return g - 0.5 * curved + jx @ inner
