"""DPRGT: decentralized projected Riemannian gradient tracking.

Deng & Hu, "Decentralized projected Riemannian gradient method for smooth optimization on compact submanifolds", 2023. From a common
feasible start x_i(0) = x_0 and s_i(0) = grad f_i(x_i(0)), every agent repeats

    x_i <- P_M(sum_j [W^t]_ij x_j - a P_{x_i}(s_i))                                    (1)
    s_i <- sum_j [W^t]_ij s_j + grad f_i(new x_i) - grad f_i(old x_i)                  (2)

where P_M is the nearest point of the manifold, P_x the projection to the tangent space at x and grad f_i = P_{x_i}(G_i) the
Riemannian gradient. Both sums use the values of the same iteration, so one message per neighbour and round carries x and s.

    [W^t]_ij   network.mix, rounds t     a    step_size  (n_local,)
    x_i        state.x                   P_M  constraint.project
    s_i        state.tracker             P_x  constraint.tangent
    grad f_i   state.field

The equations are those of the authors' published program. Beyond the paper: Chebyshev polynomials of W in place of W^t,
``step_size="auto"``. With one agent it is projected Riemannian gradient descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..protocols import Array, Network, Problem, ProjectableManifold, Projection, Riemannian, Streams
from .fields import BatchSize, blockwise, on_samples, riemannian, track
from .method import Method
from .mixing import Chebyshev, Rounds, mix
from .step_sizes import StepSize, policy
from .steps import manifold_step
from .tracking import TrackingState


@dataclass(frozen=True, kw_only=True)
class DPRGT(Method):
    """Decentralized projected Riemannian gradient tracking (Deng & Hu 2023).

    Parameters
    ----------
    step_size
        a > 0; auto: from the agents' Lipschitz constants and the spectrum of W; or a schedule (diminishing, horizon).
    """

    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)
    gradient_factor: ClassVar[float] = 1.0

    step_size: StepSize = "auto"
    rounds: Rounds = 1
    chebyshev: Chebyshev = False
    batch_size: BatchSize = None

    def init(self, problem: Problem[ProjectableManifold], network: Network, streams: Streams, x0: Array) -> TrackingState:
        base, spent = manifold_step(self, problem, network, streams, x0)
        field = blockwise(riemannian, on_samples(problem, streams, 0, self.batch_size), x0)
        return TrackingState(x0.copy(), field.copy(), field, base * policy(self.step_size).scale(0), base, 0, spent + 1)

    def step(
        self, problem: Problem[ProjectableManifold], network: Network, streams: Streams, state: TrackingState
    ) -> TrackingState:
        k = state.k + 1
        mixed, s = mix(network, self.rounds, self.chebyshev, state.x, state.tracker)

        def moved(part: Problem[ProjectableManifold], x: Array, mixed: Array, s: Array, a: Array) -> Array:
            return part.constraint.project(mixed - a[:, None, None] * part.constraint.tangent(x, s), "polar")  # (1)

        x = blockwise(moved, problem, state.x, mixed, state.tracker, state.step_size)
        field = track(riemannian, on_samples(problem, streams, k, self.batch_size), x, s, state.field)  # (2)
        return TrackingState(x, s, field, state.base * policy(self.step_size).scale(k), state.base, k, state.gradients + 1)
