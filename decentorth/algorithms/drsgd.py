"""DRSGD: decentralized Riemannian stochastic gradient descent.

Chen, Garcia, Hong, Shahrampour, "Decentralized Riemannian gradient descent on the Stiefel manifold", ICML 2021, Algorithm 1. From a
common feasible start, every agent repeats

    x_i <- R_{x_i}(a P_{x_i}(sum_j [W^t]_ij x_j - x_i) - b_k P_{x_i}(G_i(x_i)))                       (1)

with the gradient G_i of f_i, or an unbiased estimate of it. The first term is a Riemannian gradient step of the consensus problem,
the second one of the objective. The agents pull apart: with a constant b the points stop within a distance of order b of a
minimiser, with b_k = b_0 / sqrt(k) they approach it.

    [W^t]_ij   network.mix, rounds t     a    consensus_step
    x_i        state.x                   b_k  step_size  (n_local,), b_0 base
    P_x        constraint.tangent        R_x  constraint.retract

P is linear, so both terms are projected together. Beyond the paper: Chebyshev polynomials of W in place of W^t; other retractions
than polar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..protocols import Array, Network, Oracle, Problem, Retractable, RetractableManifold, Riemannian, Streams
from .descent import DescentState, step_on_manifold
from .fields import BatchSize, blockwise, on_samples
from .method import Method
from .mixing import Chebyshev, ConsensusStep, Rounds, mix
from .step_sizes import StepSize, policy
from .steps import RetractionName


@dataclass(frozen=True, kw_only=True)
class DRSGD(Method):
    """Decentralized Riemannian (stochastic) gradient descent (Chen, Garcia, Hong, Shahrampour 2021).

    Parameters
    ----------
    step_size
        b_0 > 0; auto: from the agents' Lipschitz constants and the spectrum of W; or a policy: diminishing (b_0 / sqrt(k), or
        power=1 for b_0 / k; the default), horizon (b_0 / sqrt(iterations) throughout).
    """

    requires_set: ClassVar[tuple[type, ...]] = (Riemannian, Retractable)

    step_size: StepSize = "diminishing"
    consensus_step: ConsensusStep = 1.0
    rounds: Rounds = 1
    chebyshev: Chebyshev = False
    retraction: RetractionName = "polar"
    batch_size: BatchSize = None

    def init(self, problem: Problem[RetractableManifold], network: Network, streams: Streams, x0: Array) -> DescentState:
        base, spent = step_on_manifold(self, problem, network, streams, x0)
        return DescentState(x0.copy(), base * policy(self.step_size).scale(0), base, 0, spent)

    def step(self, problem: Problem[RetractableManifold], network: Network, streams: Streams, state: DescentState) -> DescentState:
        f, k, a = on_samples(problem, streams, state.k, self.batch_size), state.k + 1, self.consensus_step
        (mixed,) = mix(network, self.rounds, self.chebyshev, state.x)

        def moved(part: Oracle[RetractableManifold], x: Array, mixed: Array, b: Array) -> Array:
            direction = part.constraint.tangent(x, a * (mixed - x) - b[:, None, None] * part.gradient(x))
            return part.constraint.retract(x, direction, self.retraction)  # (1)

        x = blockwise(moved, f, state.x, mixed, state.step_size)
        return DescentState(x, state.base * policy(self.step_size).scale(k), state.base, k, state.gradients + 1)
