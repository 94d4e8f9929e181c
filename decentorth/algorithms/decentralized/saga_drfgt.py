"""SAGA-DRFGT: tracking of the landing field with the last gradient of every sample.

Our own: `drfgt` along the estimates of SAGA (Defazio, Bach, Lacoste-Julien, 2014), as GT-SAGA has
them for gradients in Euclidean space (Xin, Khan, Kar, "Variance-reduced decentralized stochastic
optimization with accelerated convergence", 2020). Agent i keeps a gradient T_is for each of its m_i
samples, at first those at the common start. It repeats

    x_i <- sum_j W_ij x_j - alpha y_i                                                   (1)
    v_i <- mean_s T_is + mean_{s in b} (G_is(new x_i) - T_is)                           (2)
    T_is <- G_is(new x_i)        for s in b                                             (3)
    y_i <- sum_j W_ij y_j + Lambda_i(new x_i; v_i) - Lambda_i(old x_i; old v_i)         (4)

with the field Lambda_i of `vr_drfgt` and a batch b that is drawn in each iteration. Where the
points rest all T_is are the gradients there, so the noise vanishes, and a constant step is exact.
Unlike `vr_drfgt` no iteration takes all samples, and one takes b gradients in place of 2 b; the
price is the memory of m_i points.

    W_ij    network.mix             alpha   step_size  (n_local,)      b       batch_size samples
    x_i     state.x                 lambda  penalty    (n_local,)      T_is    state.table
    y_i     state.tracker           Lambda  constraint.landing, state.field    mean_s T_is  state.average
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from topologies.line import memory

from ...protocols import Array, Index, Landing, Network, Streams
from ...settings import Count
from ..common import Decentralized, TrackingPenalty, advanced, resolve, schedule, tracking_aim
from ..common.fields import OnSamples, SampledProblem, blockwise, gradient


class TableState(NamedTuple):
    """The arrays that change are x, tracker (y), field (Lambda at x) and average (of the table),
    each ``(n_local, d, r)``, table ``(n_local, most samples of any agent, d, r)``, and step_size
    ``(n_local,)``; base, the steps at the start, and penalty ``(n_local,)`` do not."""

    x: Array
    tracker: Array
    field: Array
    average: Array
    table: Array
    step_size: Array
    base: Array
    penalty: Array
    k: int
    gradients: int


def _of_samples(problem: P, x: Array, samples: Index) -> Array:
    """The gradient of one sample ``(n_local,)`` of each agent."""
    return blockwise(gradient, OnSamples(problem, samples[:, None]), x)


P = SampledProblem[Landing]


@dataclass(frozen=True, kw_only=True)
class SagaDRFGT(Decentralized):
    """DRFGT with the last gradient of every sample: mini-batches, and exact with a constant step.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3, samples=40)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.SagaDRFGT(batch_size=8)
    >>> result = do.solve(problem, method, "ring", iterations=600)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    gradient_factor: ClassVar[float] = 2.0

    batch_size: Annotated[Count, "Samples of each agent in an iteration."] = 8
    penalty: TrackingPenalty = "auto"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> TableState:
        aim = partial(tracking_aim, network, "combine-then-adapt", self.step_size)
        base, penalty, spent = resolve(self, problem, network, streams, x0, aim)
        step = base * schedule(self.step_size).scale(0)
        counts = problem.n_samples
        most = counts[:, None].astype(np.float64)
        for _ in range(network.flooding_rounds):
            (most,) = network.mix_and_max(most)
        memory.require(x0.nbytes * float(most[0, 0]), "a gradient of every sample")
        table = np.zeros((len(x0), int(most[0, 0]), *x0.shape[1:]))
        for s in range(table.shape[1]):
            own = _of_samples(problem, x0, np.minimum(s, counts - 1))
            table[:, s] = np.where((s < counts)[:, None, None], own, 0.0)
        v = blockwise(gradient, problem, x0)
        field = problem.constraint.landing(x0, v, penalty)
        return TableState(
            x0.copy(), field.copy(), field, v, table, step, base, penalty, 0, spent + 1
        )

    def step(self, problem: P, network: Network, streams: Streams, state: TableState) -> TableState:
        x, y = network.mix(state.x, state.tracker)
        x -= state.step_size[:, None, None] * state.tracker  # (1)
        counts = problem.n_samples
        table = state.table
        agents = np.arange(len(x))
        drawn = streams.integers("batch", state.k + 1, self.batch_size, counts).T
        new = [_of_samples(problem, x, samples) for samples in drawn]
        v = state.average.copy()
        average = state.average.copy()
        for samples, own in zip(drawn, new, strict=True):
            v += (own - table[agents, samples]) / self.batch_size  # (2)
        for samples, own in zip(drawn, new, strict=True):
            average += (own - table[agents, samples]) / counts[:, None, None]
            table[agents, samples] = own  # (3)
        field = problem.constraint.landing(x, v, state.penalty)
        y += field - state.field  # (4)
        return advanced(self.step_size, state, x=x, tracker=y, field=field, average=average)
