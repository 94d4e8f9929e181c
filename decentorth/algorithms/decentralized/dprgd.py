"""DPRGD: decentralized projected Riemannian gradient descent.

Deng & Hu, "Decentralized projected Riemannian gradient method for smooth optimization on compact
submanifolds", 2023 (arXiv 2304.08241). From a common feasible start, every agent repeats

    x_i <- P_M(sum_j [W^t]_ij x_j - a_k grad f_i(x_i)),    a_k = eta / sqrt(k)                        (1)

with the Riemannian gradient grad f_i. The agents pull apart: with a constant a the points stop
within a distance of order a of a minimiser, with a_k they approach it.

    [W^t]_ij   network.mix, rounds t     a_k   step_size  (n_local,), eta base
    x_i        state.x                   grad  constraint.tangent(x, gradient)
    P_M        constraint.project

Beyond the paper: gradients from mini-batches; Chebyshev polynomials of W in place of W^t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...protocols import (
    Array,
    Network,
    Oracle,
    ProjectableManifold,
    Projection,
    Riemannian,
    Streams,
)
from ..common import advanced, blockwise, riemannian
from .descent import Descent
from .descent import DescentState as State
from .tracking import Manifold


@dataclass(frozen=True, kw_only=True)
class DPRGD(Descent):
    """Decentralized projected Riemannian gradient descent (Deng & Hu 2023).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DPRGD()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)

    def step(self, problem: Manifold, network: Network, streams: Streams, state: State) -> State:
        (mixed,) = self.mix(network, state.x)

        def move(f: Oracle[ProjectableManifold], x: Array, mixed: Array, a: Array) -> Array:
            return f.constraint.project(mixed - a[:, None, None] * riemannian(f, x), "polar")  # (1)

        x = blockwise(move, self.oracle(problem, streams, state.k), state.x, mixed, state.step_size)
        return advanced(self.step_size, state, x=x)
