"""DPRSRM: tracking of recursive-momentum estimates from mini-batches, with a projection.

Deng, Hu, "Decentralized projected Riemannian stochastic recursive momentum method for nonconvex
optimization", AAAI 2025 (arXiv 2412.02382). The text was not at hand: the abstract has hybrid
estimators, tracking and projection, and (1) to (3) are derived from it. From a common feasible
start, d_i(0) and s_i(0) being the gradient of a batch, agents repeat

    x_i <- P_M(sum_j [W^t]_ij x_j - a_k P_{x_i}(s_i))                                   (1)
    d_i <- g_i(new x_i) + (1 - tau_k) (d_i - g_i(old x_i))                              (2)
    s_i <- sum_j [W^t]_ij s_j + new d_i - old d_i                                       (3)

with both Riemannian gradients g_i of (2) from one batch, drawn in this iteration: their difference
is small where the points are close, so that the noise of d_i falls while tau_k does. Exact
gradients make d_i = g_i(x_i), and this `dprgt`.

    [W^t]_ij   network.mix, rounds t     a_k    step_size  (n_local,), from base
    x_i        state.x                   tau_k  (k + 1)^-forgetting
    s_i        state.tracker             g_i    constraint.tangent(x, gradient)
    d_i        state.field               P_M    constraint.project

The defaults a_k ~ k^(-1/3) and tau_k = k^(-2/3) are those with which estimates of this kind (STORM)
have their rate; forgetting 0 forgets at once: then it tracks plain batch gradients. An iteration
takes two gradients of ``batch_size`` samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from ...protocols import Array, Network, Projection, Riemannian, Streams
from ...settings import NotNegative
from ..common import Mixing, StepSize, advanced, blockwise, riemannian
from .tracking import Manifold, projected, start_on_manifold
from .tracking import TrackingState as State


@dataclass(frozen=True, kw_only=True)
class DPRSRM(Mixing):
    """Decentralized projected Riemannian stochastic recursive momentum (after the abstract of Deng,
    Hu 2025).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DPRSRM()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)

    step_size: StepSize = "diminishing:power=0.3333333333333333"
    forgetting: Annotated[NotNegative, "The power by which the weight of new gradients falls."] = (
        2 / 3
    )

    def init(self, problem: Manifold, network: Network, streams: Streams, x0: Array) -> State:
        return start_on_manifold(self, problem, network, streams, x0)

    def step(self, problem: Manifold, network: Network, streams: Streams, state: State) -> State:
        mixed, s = self.mix(network, state.x, state.tracker)
        x = projected(problem, state.x, mixed, state.tracker, state.step_size)  # (1)
        k = state.k + 1
        oracle = self.oracle(problem, streams, k)
        kept = 1.0 - (k + 1) ** -self.forgetting
        d = blockwise(riemannian, oracle, x)
        if kept > 0.0:
            d += kept * (state.field - blockwise(riemannian, oracle, state.x))  # (2)
        s += d - state.field  # (3)
        spent = 2 if kept > 0.0 else 1
        return advanced(self.step_size, state, spent, x=x, tracker=s, field=d)
