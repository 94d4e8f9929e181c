"""RMTracking: Riemannian gradient tracking with momentum.

After the abstract of Chen, Zhu, Ye, Liu, Dai, Liu, Jiang, Tsang, "Riemannian momentum tracking:
distributed optimization with momentum on compact submanifolds", 2026 (arXiv 2602.13646); the
paper's text was not at hand. From a common feasible start, s_i(0) = m_i(0) = grad f_i(x_i(0)),
every agent repeats

    x_i <- P_M(sum_j [W^t]_ij x_j - a P_{x_i}(m_i))                                    (1)
    s_i <- sum_j [W^t]_ij s_j + grad f_i(new x_i) - grad f_i(old x_i)                  (2)
    m_i <- beta m_i + s_i                                                              (3)

`dprgt` explains (1) and (2), and is this method with beta = 0. (3) is derived here: a heavy ball
along the tracked gradient. Agents that track momenta of their own gradients have the same points,
since both filters are linear (tested). Where everything rests, all s_i are zero: a constant step
leads to a stationary point of the mean.

    [W^t]_ij   network.mix, rounds t     a     step_size  (n_local,)
    x_i        state.x                   beta  momentum
    s_i        state.tracker             m_i   state.average
    grad f_i   state.field               P_M   constraint.project

Steps of length a move as far as 1 / (1 - beta) times that without momentum, which is the abstract's
claim; so automatic steps are those of `dprgt` times 1 - beta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from ...protocols import Array, Network, Streams
from ...settings import Probability
from ..common import advanced, refresh, riemannian
from .tracking import Manifold, ManifoldTracking, projected, start_on_manifold


class MomentumState(NamedTuple):
    """The state of Riemannian gradient tracking with momentum.

    The changing arrays are x, tracker (s), field (grad f at x) and average (m), each
    ``(n_local, d, r)``, and step_size ``(n_local,)``. ``base`` holds the steps of iteration 0.
    """

    x: Array
    tracker: Array
    field: Array
    average: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


State = MomentumState


@dataclass(frozen=True, kw_only=True)
class RMTracking(ManifoldTracking):
    """Riemannian gradient tracking with momentum, after the abstract of Chen and others 2026.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.RMTracking()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    momentum: Annotated[Probability, "beta, the share of the last direction that is kept."] = 0.8

    # the state has m too
    def init(self, problem: Manifold, network: Network, streams: Streams, x0: Array) -> State:  # type: ignore[override]
        shortening = 1.0 - self.momentum
        first = start_on_manifold(self, problem, network, streams, x0, shortening=shortening)
        x, s, field, step_size, base, k, spent, *_ = first
        return State(x, s, field, s.copy(), step_size, base, k, spent)

    def step(self, problem: Manifold, network: Network, streams: Streams, state: State) -> State:
        mixed, s = self.mix(network, state.x, state.tracker)
        x = projected(problem, state.x, mixed, state.average, state.step_size)  # (1)
        # (2)
        field = refresh(riemannian, self.oracle(problem, streams, state.k + 1), x, s, state.field)
        m = self.momentum * state.average + s  # (3)
        return advanced(self.step_size, state, x=x, tracker=s, field=field, average=m)
