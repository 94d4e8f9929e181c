"""RSM: the centralized Riemannian subgradient method, for functions that need not be
differentiable.

Li, Chen, Deng, Qu, Zhu, So, "Weakly convex optimization over Stiefel manifold using Riemannian
subgradient-type methods", SIAM Journal on Optimization 2021; the rival of paper 002 (Cheung, Wang,
Yue, So):

    x <- R_x(-gamma_k P_x(G(x))),   G(x) a subgradient of f

    gamma_k   step_size, from base             P_x   constraint.tangent
    x         state.x                          R_x   constraint.retract

``step_size="auto"`` takes the schedule that the problem recommends (the published ones, for those
of paper 002), otherwise 1 / (L sqrt(k + 1)) with L a Lipschitz constant of f. Beyond the paper: the
count of floating-point operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from decentorth.algorithms.common import RetractionName, advanced
from decentorth.protocols import (
    Array,
    Network,
    Problem,
    Retractable,
    RetractableManifold,
    Riemannian,
    Streams,
)

from .subgradient import Subgradient, iteration_flops


class RSMState(NamedTuple):
    """The changing x ``(1, d, r)``, step_size and flops (operations made) ``(1,)``, and the
    constant base (Delta)."""

    x: Array
    step_size: Array
    flops: Array
    base: Array
    k: int
    gradients: int


P = Problem[RetractableManifold]


@dataclass(frozen=True, kw_only=True)
class RSM(Subgradient):
    """Riemannian subgradient method for a single agent (Li, Chen, Deng, Qu, Zhu, So 2021).

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.RSRSettings(dimension=30).problem(1, seed=0)
    >>> method = do.RSM()
    >>> result = do.solve(problem, method, iterations=300)
    >>> error = result.history["error"]
    >>> bool(error[-1] < 1e-2 * error[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Riemannian, Retractable)

    retraction: RetractionName = "polar"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> RSMState:
        step, base, spent = self.for_problem(problem).first_steps(problem, x0)
        return RSMState(x0.copy(), step, 0.0 * base, base, 0, spent)

    def step(self, problem: P, network: Network, streams: Streams, state: RSMState) -> RSMState:
        tangent = problem.constraint.tangent(state.x, problem.gradient(state.x))
        gamma = state.step_size
        x = problem.constraint.retract(state.x, -gamma[:, None, None] * tangent, self.retraction)
        flops = state.flops + iteration_flops(problem, problem.shape[1])
        return advanced(self.for_problem(problem).step_size, state, x=x, flops=flops)
