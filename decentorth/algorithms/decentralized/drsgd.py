"""DRSGD: decentralized Riemannian stochastic gradient descent.

Chen, Garcia, Hong, Shahrampour, "Decentralized Riemannian gradient descent on the Stiefel
manifold", ICML 2021, Algorithm 1. From a common feasible start, every agent repeats

    x_i <- R_{x_i}(a P_{x_i}(sum_j [W^t]_ij x_j - x_i) - b_k P_{x_i}(G_i(x_i)))                       (1)

with the gradient G_i of f_i, or an unbiased estimate of it. The first term is a Riemannian gradient
step of the consensus problem, the second one of the objective. The agents pull apart: with a
constant b the points stop within a distance of order b of a minimiser, with b_k = b_0 / sqrt(k)
they approach it.

    [W^t]_ij   network.mix, rounds t     a    consensus_step
    x_i        state.x                   b_k  step_size  (n_local,), b_0 base
    P_x        constraint.tangent        R_x  constraint.retract

P is linear, so both terms are projected together. Beyond the paper: Chebyshev polynomials of W in
place of W^t; other retractions than polar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...protocols import Array, Network, Oracle, Problem, RetractableManifold, Streams
from ..common import Retracting, advanced, blockwise
from .descent import Descent
from .descent import DescentState as State

P = Problem[RetractableManifold]


@dataclass(frozen=True, kw_only=True)
class DRSGD(Descent, Retracting):
    """Decentralized Riemannian (stochastic) gradient descent (Chen, Garcia, Hong, Shahrampour
    2021).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRSGD()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    on_devices: ClassVar[bool] = True

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        a, (mixed,) = self.consensus_step, self.mix(network, state.x)

        def move(f: Oracle[RetractableManifold], x: Array, mixed: Array, b: Array) -> Array:
            direction = f.constraint.tangent(x, a * (mixed - x) - b[:, None, None] * f.gradient(x))
            return f.constraint.retract(x, direction, self.retraction)  # (1)

        x = blockwise(move, self.oracle(problem, streams, state.k), state.x, mixed, state.step_size)
        return advanced(self.step_size, state, x=x)
