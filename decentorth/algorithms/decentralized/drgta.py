"""DRGTA: decentralized Riemannian gradient tracking.

Chen, Garcia, Hong, Shahrampour, "Decentralized Riemannian gradient descent on the Stiefel
manifold", ICML 2021, Algorithm 2. From a common feasible start x_i(0) = x_0 and y_i(0) =
g_i(x_i(0)), every agent repeats

    x_i <- R_{x_i}(a P_{x_i}(sum_j [W^t]_ij x_j - x_i) - b P_{x_i}(y_i))               (1)
    y_i <- sum_j [W^t]_ij y_j + g_i(new x_i) - g_i(old x_i)                            (2)

where g_i = P_{x_i}(G_i(x_i)) is the Riemannian gradient of f_i. The first term of (1) is a step of
Riemannian gradient descent towards consensus, the second one towards the minimum. Both sums use the
values of the same iteration, so one message per neighbour and round carries x and y. P is linear,
so the two terms of (1) are projected together.

    [W^t]_ij   network.mix, rounds t     a   consensus_step
    x_i        state.x                   b   step_size  (n_local,)
    y_i        state.tracker             g_i constraint.tangent(x, gradient), state.field
    P_x        constraint.tangent        R_x constraint.retract

The equations are those of the authors' published program. Beyond the paper: Chebyshev polynomials
of W in place of W^t, other retractions than polar, ``step_size="auto"``; ``order="accelerated"``
(see `tracking`), whose point retracts P_{x_i}(sum - x_i); directed graphs, with row-stochastic A in
the place of W in (1) and column-stochastic B in (2), as in `push_pull`. With one agent it is
Riemannian gradient descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...protocols import (
    Array,
    Limits,
    Network,
    Problem,
    RetractableManifold,
    Riemannian,
    Spectrum,
    Streams,
)
from ..common import (
    Momenta,
    Retracting,
    advanced,
    blockwise,
    mix_loopless,
    refresh,
    riemannian,
)
from .tracking import (
    OrderedOnManifold,
    accelerated_on_manifold,
    descended,
    limits_on_manifold,
    start_on_manifold,
)
from .tracking import TrackingState as State

P = Problem[RetractableManifold]


@dataclass(frozen=True, kw_only=True)
class DRGTA(OrderedOnManifold, Retracting):
    """Decentralized Riemannian gradient tracking (Chen, Garcia, Hong, Shahrampour 2021, Algorithm
    2).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRGTA()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    directed: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = Retracting.requires_set

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order == "accelerated" and self.consensus_step != 1.0:
            raise ValueError(
                "order accelerated has consensus_step 1: leave it out, or take order "
                f"combine-then-adapt; got {self.consensus_step:g}"
            )

    def limits(self, spectrum: Spectrum) -> Limits:
        if self.order == "accelerated":
            return accelerated_on_manifold(spectrum)
        return limits_on_manifold(self, spectrum, self.consensus_step)

    def init(
        self, problem: Problem[Riemannian], network: Network, streams: Streams, x0: Array
    ) -> State:
        pull = self.consensus_step
        return start_on_manifold(self, problem, network, streams, x0, pull, order=self.order)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        if self.order == "accelerated":
            return self._accelerated(problem, network, streams, state)
        a = self.consensus_step
        mixed, y = self.mix(network, state.x, push=(state.tracker,))

        def moved(f: P, x: Array, mixed: Array, y: Array, b: Array) -> Array:
            direction = f.constraint.tangent(x, a * (mixed - x) - b[:, None, None] * y)
            return f.constraint.retract(x, direction, self.retraction)  # (1)

        x = blockwise(moved, problem, state.x, mixed, state.tracker, state.step_size)
        # (2)
        field = refresh(riemannian, self.oracle(problem, streams, state.k + 1), x, y, state.field)
        return advanced(self.step_size, state, x=x, tracker=y, field=field)

    def _accelerated(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        def moved(f: P, x: Array, mixed: Array) -> Array:
            return f.constraint.retract(x, f.constraint.tangent(x, mixed - x), self.retraction)

        # x_i <- R_{x_i}(P_{x_i}(sum_j V_ij (p_j + eta u_j) - x_i)),  p_i = x_i - b P_{x_i}(y_i)
        p = descended(problem, state.x, state.tracker, state.step_size)
        mixed, y = mix_loopless(network, p, state.tracker, state.momenta)
        x = blockwise(moved, problem, state.x, mixed)
        momenta = Momenta(x - p, y - state.tracker)
        # y_i <- sum_j V_ij (y_j + eta v_j) + g_i(new x_i) - g_i(old x_i)
        field = refresh(riemannian, self.oracle(problem, streams, state.k + 1), x, y, state.field)
        return advanced(self.step_size, state, x=x, tracker=y, field=field, momenta=momenta)
