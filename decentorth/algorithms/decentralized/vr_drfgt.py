"""VR-DRFGT: tracking of the landing field with variance-reduced gradients, exact with a constant
step.

Our own: `drfgt` along the estimates of SPIDER (Fang, Li, Lin, Zhang, "SPIDER: near-optimal
non-convex optimization via stochastic path-integrated differential estimator", NeurIPS 2018). From
a common start, with v_i(0) = G_i(x_0) and y_i(0) = Lambda_i(x_0; v_i(0)), every agent repeats

    x_i <- sum_j W_ij x_j - alpha y_i                                                   (1)
    v_i <- v_i + G_i(new x_i; b) - G_i(old x_i; b), or G_i(new x_i) every q iterations  (2)
    y_i <- sum_j W_ij y_j + Lambda_i(new x_i; v_i) - Lambda_i(old x_i; old v_i)         (3)
    Lambda_i(x; v) = skew(v x^T) x + lambda x (x^T x - I)

where the batch b is drawn in each iteration. Both gradients of (2) fall together as the points come
to rest, so the noise vanishes with the moves, and a constant step leads to a stationary point:
linearly, where `drfgt` does.

    W_ij    network.mix             alpha   step_size  (n_local,)      q   period
    x_i     state.x                 lambda  penalty    (n_local,)      b   batch_size samples
    y_i     state.tracker           Lambda  constraint.landing, state.field
    v_i     state.average

An iteration takes two gradients of b samples, or one of all. Without ``batch_size`` it is `drfgt`
in the order combine-then-adapt, and automatic steps are that one's constant steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

from ...protocols import Array, Landing, Network, Problem, Streams
from ...settings import Count
from ..common import Decentralized, TrackingPenalty, advanced, blockwise, gradient, schedule
from ..common.automatic_steps import resolve, tracking_aim


class VRState(NamedTuple):
    """The state of VR-DRFGT.

    The changing arrays are x, tracker (y), field (Lambda at x) and average (v), each
    ``(n_local, d, r)``, and step_size ``(n_local,)``. The steps of iteration 0, ``base``, and
    ``penalty`` ``(n_local,)`` are constant.
    """

    x: Array
    tracker: Array
    field: Array
    average: Array
    step_size: Array
    base: Array
    penalty: Array
    k: int
    gradients: int


P = Problem[Landing]


@dataclass(frozen=True, kw_only=True)
class VRDRFGT(Decentralized):
    """DRFGT with variance-reduced gradients: mini-batches, and exact with a constant step.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.VRDRFGT()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    gradient_factor: ClassVar[float] = 2.0

    penalty: TrackingPenalty = "auto"
    period: Annotated[Count, "q, the iterations between two gradients of all samples."] = 20

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> VRState:
        aim = partial(tracking_aim, network, "combine-then-adapt", self.step_size)
        base, penalty, spent = resolve(self, problem, network, streams, x0, aim)
        step = base * schedule(self.step_size).scale(0)
        v = blockwise(gradient, problem, x0)
        field = problem.constraint.landing(x0, v, penalty)
        return VRState(x0.copy(), field.copy(), field, v, step, base, penalty, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: VRState) -> VRState:
        k = state.k + 1
        spent = 1
        x, y = network.mix(state.x, state.tracker)
        x -= state.step_size[:, None, None] * state.tracker  # (1)
        if self.batch_size is None or k % self.period == 0:
            v = blockwise(gradient, problem, x)
        else:
            spent = 2
            oracle = self.oracle(problem, streams, k)
            old = blockwise(gradient, oracle, state.x)
            v = state.average + blockwise(gradient, oracle, x) - old  # (2)
        field = problem.constraint.landing(x, v, state.penalty)
        y += field - state.field  # (3)
        return advanced(self.step_size, state, spent, x=x, tracker=y, field=field, average=v)
