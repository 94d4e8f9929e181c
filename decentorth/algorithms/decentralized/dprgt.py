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

from ...protocols import Array, Network, Problem, ProjectableManifold, Projection, Riemannian, Streams
from ..common.fields import blockwise, riemannian, track
from ..common.method import Mixing
from ..common.step_sizes import following, schedule
from .growing_steps import Exact
from .tracking import TrackingState, manifold_step


@dataclass(frozen=True, kw_only=True)
class DPRGT(Exact, Mixing):
    """Decentralized projected Riemannian gradient tracking (Deng & Hu 2023)."""

    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)
    gradient_factor: ClassVar[float] = 1.0

    def init(self, problem: Problem[ProjectableManifold], network: Network, streams: Streams, x0: Array) -> TrackingState:
        base, spent = manifold_step(self, problem, network, streams, x0)
        field = blockwise(riemannian, self.oracle(problem, streams, 0), x0)
        return TrackingState(x0.copy(), field.copy(), field, base * schedule(self.step_size).scale(0), base, 0, spent + 1)

    def step(
        self, problem: Problem[ProjectableManifold], network: Network, streams: Streams, state: TrackingState
    ) -> TrackingState:
        k = state.k + 1
        mixed, s = self.mix(network, state.x, state.tracker)

        def moved(f: Problem[ProjectableManifold], x: Array, mixed: Array, s: Array, a: Array) -> Array:
            return f.constraint.project(mixed - a[:, None, None] * f.constraint.tangent(x, s), "polar")  # (1)

        x = blockwise(moved, problem, state.x, mixed, state.tracker, state.step_size)
        field = track(riemannian, self.oracle(problem, streams, k), x, s, state.field)  # (2)
        return TrackingState(x, s, field, following(self.step_size, state), state.base, k, state.gradients + 1)
