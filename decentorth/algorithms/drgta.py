"""DRGTA: decentralized Riemannian gradient tracking.

Chen, Garcia, Hong, Shahrampour, "Decentralized Riemannian gradient descent on the Stiefel manifold", ICML 2021, Algorithm 2. From a
common feasible start x_i(0) = x_0 and y_i(0) = g_i(x_i(0)), every agent repeats

    x_i <- R_{x_i}(a P_{x_i}(sum_j [W^t]_ij x_j - x_i) - b P_{x_i}(y_i))               (1)
    y_i <- sum_j [W^t]_ij y_j + g_i(new x_i) - g_i(old x_i)                            (2)

where g_i = P_{x_i}(G_i(x_i)) is the Riemannian gradient of f_i. The first term of (1) is a step of Riemannian gradient descent
towards consensus, the second one towards the minimum. Both sums use the values of the same iteration, so one message per neighbour
and round carries x and y. P is linear, so the two terms of (1) are projected together.

    [W^t]_ij   network.mix, rounds t     a   consensus_step
    x_i        state.x                   b   step_size  (n_local,)
    y_i        state.tracker             g_i constraint.tangent(x, gradient), state.field
    P_x        constraint.tangent        R_x constraint.retract

The equations are those of the authors' published program. Beyond the paper: Chebyshev polynomials of W in place of W^t, other
retractions than polar, ``step_size="auto"``. With one agent it is Riemannian gradient descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..protocols import Array, Network, Problem, Retractable, RetractableManifold, Riemannian, Streams
from .fields import BatchSize, blockwise, on_samples, riemannian, track
from .method import Method
from .mixing import Chebyshev, ConsensusStep, Rounds, mix
from .step_sizes import StepSize, policy
from .steps import RetractionName, manifold_step
from .tracking import TrackingState


@dataclass(frozen=True, kw_only=True)
class DRGTA(Method):
    """Decentralized Riemannian gradient tracking (Chen, Garcia, Hong, Shahrampour 2021, Algorithm 2).

    Parameters
    ----------
    step_size
        b > 0; auto: from the agents' Lipschitz constants and the spectrum of W; or a schedule (diminishing, horizon).
    """

    requires_set: ClassVar[tuple[type, ...]] = (Riemannian, Retractable)
    gradient_factor: ClassVar[float] = 1.0

    step_size: StepSize = "auto"
    consensus_step: ConsensusStep = 1.0
    rounds: Rounds = 1
    chebyshev: Chebyshev = False
    retraction: RetractionName = "polar"
    batch_size: BatchSize = None

    def init(self, problem: Problem[RetractableManifold], network: Network, streams: Streams, x0: Array) -> TrackingState:
        base, spent = manifold_step(self, problem, network, streams, x0, self.consensus_step)
        field = blockwise(riemannian, on_samples(problem, streams, 0, self.batch_size), x0)
        return TrackingState(x0.copy(), field.copy(), field, base * policy(self.step_size).scale(0), base, 0, spent + 1)

    def step(
        self, problem: Problem[RetractableManifold], network: Network, streams: Streams, state: TrackingState
    ) -> TrackingState:
        k, a = state.k + 1, self.consensus_step
        mixed, y = mix(network, self.rounds, self.chebyshev, state.x, state.tracker)

        def moved(part: Problem[RetractableManifold], x: Array, mixed: Array, y: Array, b: Array) -> Array:
            direction = part.constraint.tangent(x, a * (mixed - x) - b[:, None, None] * y)
            return part.constraint.retract(x, direction, self.retraction)  # (1)

        x = blockwise(moved, problem, state.x, mixed, state.tracker, state.step_size)
        field = track(riemannian, on_samples(problem, streams, k, self.batch_size), x, y, state.field)  # (2)
        return TrackingState(x, y, field, state.base * policy(self.step_size).scale(k), state.base, k, state.gradients + 1)
