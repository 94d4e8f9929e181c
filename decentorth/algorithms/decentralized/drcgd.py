"""DRCGD: decentralized Riemannian conjugate directions, with a projection.

After the abstract of Chen, Ye, Wang, Huang, Dai, Tsang, Liu, "Decentralized Riemannian conjugate
gradient method on the Stiefel manifold", ICLR 2024 (arXiv 2308.10547): projections in the place of
retractions and transports, and consensus of directions. The paper's text was not at hand; (1) to
(3) are derived. From a common feasible start, p_i(0) = P(y_i(0)) and d_i(0) = -p_i(0), every agent
repeats

    x_i <- P_M(sum_j [W^t]_ij x_j + a_k P_{x_i}(d_i))                                   (1)
    d_i <- -p_i + b_i P_{x_i}(sum_j [W^t]_ij d_j)     at the new x_i                    (2)
    b_i = min(cap, ||new p_i||^2 / ||old p_i||^2),    p_i = P_{x_i}(y_i)                (3)

- ``tracked=False``: y_i is the agent's own Riemannian gradient, as in the abstract. Where agents
  are unlike it does not vanish, and with constant steps the points stop at a distance of the order
  of a.
- ``tracked=True``, our own: y_i tracks the gradients as in `dprgt`, in one array more. Where all
  rest y_i is zero: a constant step is exact.

    [W^t]_ij   network.mix, rounds t     a_k  step_size  (n_local,), from base     P_x  constraint.tangent
    x_i        state.x                   d_i  state.direction                      P_M  constraint.project
    y_i        state.tracker             state.field  the own Riemannian gradient

Without a line search the ratio of Fletcher and Reeves in (3) needs a bound below 1: where it is 1,
nothing damps the points. Automatic steps are those of `dprgt` times 1 - cap, as for a momentum of
that size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from ...numerics.ordered_sums import sums
from ...protocols import Array, Network, Projection, Riemannian, Streams
from ...settings import Probability
from ..common import Mixing, advanced, blockwise, riemannian
from .tracking import Manifold, projected, start_on_manifold


class DRCGDState(NamedTuple):
    """The arrays that change are x, direction (d), tracker (y) and field (the gradient at x), each
    ``(n_local, d, r)``, and step_size ``(n_local,)``; base, the steps at the start, does not."""

    x: Array
    direction: Array
    tracker: Array
    field: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class DRCGD(Mixing):
    """Decentralized Riemannian conjugate directions, after the abstract of Chen and others 2024.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRCGD()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    sends: ClassVar[tuple[str, ...]] = ("x", "direction", "tracker")
    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)

    cap: Annotated[Probability, "The largest share of the last direction that is kept."] = 0.9
    tracked: Annotated[
        bool, "Follow tracked gradients, exact with constant steps, not the agent's own."
    ] = False

    def init(self, problem: Manifold, network: Network, streams: Streams, x0: Array) -> DRCGDState:
        shortening = 1.0 - self.cap
        first = start_on_manifold(self, problem, network, streams, x0, shortening=shortening)
        x, y, field, step_size, base, k, spent, *_ = first
        return DRCGDState(x, -field, y, field, step_size, base, k, spent)

    def step(
        self, problem: Manifold, network: Network, streams: Streams, state: DRCGDState
    ) -> DRCGDState:
        tangent = problem.constraint.tangent
        if self.tracked:
            mixed, direction, y = self.mix(network, state.x, state.direction, state.tracker)
        else:
            mixed, direction = self.mix(network, state.x, state.direction)
        x = projected(problem, state.x, mixed, -state.direction, state.step_size)  # (1)
        field = blockwise(riemannian, self.oracle(problem, streams, state.k + 1), x)
        if self.tracked:
            y += field - state.field
        else:
            y = field.copy()
        p = tangent(x, y)
        old = tangent(state.x, state.tracker)
        before = sums(old * old)
        ratio = np.minimum(sums(p * p) / np.where(before > 0.0, before, np.inf), self.cap)  # (3)
        direction = ratio[:, None, None] * tangent(x, direction) - p  # (2)
        return advanced(self.step_size, state, x=x, direction=direction, tracker=y, field=field)
