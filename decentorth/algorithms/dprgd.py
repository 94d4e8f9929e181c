"""DPRGD: decentralized projected Riemannian gradient descent.

Deng & Hu, "Decentralized projected Riemannian gradient method for smooth optimization on compact submanifolds", 2023 (arXiv
2304.08241). From a common feasible start, every agent repeats

    x_i <- P_M(sum_j [W^t]_ij x_j - a_k grad f_i(x_i)),    a_k = eta / sqrt(k)                        (1)

with the Riemannian gradient grad f_i. The agents pull apart: with a constant a the points stop within a distance of order a of a
minimiser, with a_k they approach it.

    [W^t]_ij   network.mix, rounds t     a_k   step_size  (n_local,), eta base
    x_i        state.x                   grad  constraint.tangent(x, gradient)
    P_M        constraint.project

Beyond the paper: gradients from mini-batches; Chebyshev polynomials of W in place of W^t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..protocols import Array, Network, Oracle, Problem, ProjectableManifold, Projection, Riemannian, Streams
from .descent import DescentState, step_on_manifold
from .fields import BatchSize, blockwise, on_samples, riemannian
from .method import Method
from .mixing import Chebyshev, Rounds, mix
from .step_sizes import StepSize, policy


@dataclass(frozen=True, kw_only=True)
class DPRGD(Method):
    """Decentralized projected Riemannian gradient descent (Deng & Hu 2023).

    Parameters
    ----------
    step_size
        eta > 0; auto: from the agents' Lipschitz constants and the spectrum of W; or a policy: diminishing (eta / sqrt(k), the
        paper's and the default), horizon (eta / sqrt(iterations) throughout).
    """

    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)

    step_size: StepSize = "diminishing"
    rounds: Rounds = 1
    chebyshev: Chebyshev = False
    batch_size: BatchSize = None

    def init(self, problem: Problem[ProjectableManifold], network: Network, streams: Streams, x0: Array) -> DescentState:
        base, spent = step_on_manifold(self, problem, network, streams, x0)
        return DescentState(x0.copy(), base * policy(self.step_size).scale(0), base, 0, spent)

    def step(self, problem: Problem[ProjectableManifold], network: Network, streams: Streams, state: DescentState) -> DescentState:
        f, k = on_samples(problem, streams, state.k, self.batch_size), state.k + 1
        (mixed,) = mix(network, self.rounds, self.chebyshev, state.x)

        def moved(part: Oracle[ProjectableManifold], x: Array, mixed: Array, a: Array) -> Array:
            return part.constraint.project(mixed - a[:, None, None] * riemannian(part, x), "polar")  # (1)

        x = blockwise(moved, f, state.x, mixed, state.step_size)
        return DescentState(x, state.base * policy(self.step_size).scale(k), state.base, k, state.gradients + 1)
