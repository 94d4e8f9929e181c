"""DPRGT: decentralized projected Riemannian gradient tracking.

Deng & Hu, "Decentralized projected Riemannian gradient method for smooth optimization on compact
submanifolds", 2023. From a common feasible start x_i(0) = x_0 and s_i(0) = grad f_i(x_i(0)), every
agent repeats

    x_i <- P_M(sum_j [W^t]_ij x_j - a P_{x_i}(s_i))                                    (1)
    s_i <- sum_j [W^t]_ij s_j + grad f_i(new x_i) - grad f_i(old x_i)                  (2)

where P_M is the nearest point of the manifold, P_x the projection to the tangent space at x and
grad f_i = P_{x_i}(G_i) the Riemannian gradient. Both sums use the values of the same iteration, so
one message per neighbour and round carries x and s.

    [W^t]_ij   network.mix, rounds t     a    step_size  (n_local,)
    x_i        state.x                   P_M  constraint.project
    s_i        state.tracker             P_x  constraint.tangent
    grad f_i   state.field

The equations are those of the authors' published program. Beyond the paper: Chebyshev polynomials
of W in place of W^t, ``step_size="auto"``, ``order="accelerated"`` (see `tracking`), where (1) is
the nearest point to the sum over p. With one agent it is projected Riemannian gradient
descent.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...protocols import Array, Network, Streams
from ..common import Momenta, advanced, blockwise, mix_loopless, refresh, riemannian
from .tracking import Manifold, OrderedOnManifold, descended, projected
from .tracking import TrackingState as State


@dataclass(frozen=True, kw_only=True)
class DPRGT(OrderedOnManifold):
    """Decentralized projected Riemannian gradient tracking (Deng & Hu 2023).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DPRGT()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    def step(self, problem: Manifold, network: Network, streams: Streams, state: State) -> State:
        momenta = state.momenta
        if self.order == "accelerated":
            # x_i <- P_M(sum_j V_ij (p_j + eta u_j)),  p_i = x_i - a P_{x_i}(s_i)
            p = descended(problem, state.x, state.tracker, state.step_size)
            mixed, s = mix_loopless(network, p, state.tracker, momenta)
            x = blockwise(_nearest, problem, mixed)
            momenta = Momenta(x - p, s - state.tracker)
        else:
            mixed, s = self.mix(network, state.x, state.tracker)
            x = projected(problem, state.x, mixed, state.tracker, state.step_size)  # (1)
        # (2)
        field = refresh(riemannian, self.oracle(problem, streams, state.k + 1), x, s, state.field)
        return advanced(self.step_size, state, x=x, tracker=s, field=field, momenta=momenta)


def _nearest(problem: Manifold, y: Array) -> Array:
    return problem.constraint.project(y, "polar")
