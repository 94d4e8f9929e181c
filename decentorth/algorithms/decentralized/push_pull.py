"""Push-pull (AB): the landing algorithm with gradient tracking on directed graphs.

Pu, Shi, Xu, Nedic, "Push-pull gradient methods for distributed optimization in networks", IEEE
Trans. Autom. Control 2021; Xin, Khan, "A linear algorithm for optimization over directed graphs
with geometric convergence", IEEE Control Syst. Lett. 2018. They are in Euclidean space, and track
gradients; here agents track the landing field Lambda_i of `drfgt`, for which no paper was found.
From a common start x_i(0) = x_0 and y_i(0) = Lambda_i(x_i(0)), every agent repeats

    x_i <- sum_j A_ij (x_j - alpha y_j)                                                (1)
    y_i <- sum_j B_ij y_j + Lambda_i(new x_i) - Lambda_i(old x_i)                      (2)

The rows of A and the columns of B sum to 1: points are pulled, so that agents which agree stay
agreed, and trackers are pushed, so that their sum stays the sum of the fields. Each needs the
degrees of one end of an edge only. One message along each directed edge carries x_j - alpha y_j and
y_j.

    A_ij, B_ij  network.mix, push   alpha   step_size  (n_local,)
    x_i         state.x             lambda  penalty    (n_local,)
    y_i         state.tracker       Lambda  constraint.landing(x, gradient, penalty), state.field

With pi^T A = pi^T and B v = v, both of sum 1, y_i tends to n v_i times the mean field, and so the
mean pi^T x moves by alpha n pi^T v times the mean field: ``gain`` = n pi^T v. On an undirected
graph A = B = W and gain = 1. On `sets.Euclidean` the landing field is the gradient, and this the
method of the papers: gradient tracking without a constraint, on directed graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...protocols import Array, Landing, Network, Problem, Streams
from ...settings import Positive
from ..common import Auto, Decentralized, advanced, push_pull_aim, resolve, schedule
from ..common.fields import blockwise, landing, refresh
from .tracking import PenalisedState as State

P = Problem[Landing]


@dataclass(frozen=True, kw_only=True)
class PushPull(Decentralized):
    """Push-pull gradient tracking of the landing field, for directed graphs.

    Parameters
    ----------
    penalty
        lambda > 0 of the landing field, or auto: 0.1 / (step_size gain), smaller where the graph
        mixes slowly.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.PushPull()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    gradient_factor: ClassVar[float] = 2.0
    directed: ClassVar[bool] = True

    penalty: Positive | Auto = "auto"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        aim = partial(push_pull_aim, network)
        base, penalty, spent = resolve(self, problem, network, streams, x0, aim, self.batch_size)
        step = base * schedule(self.step_size).scale(0)
        field = blockwise(landing, self.oracle(problem, streams, 0), x0, penalty)
        return State(x0.copy(), field.copy(), field, step, base, penalty, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        f = self.oracle(problem, streams, state.k + 1)
        alpha = state.step_size
        ahead = state.x - alpha[:, None, None] * state.tracker
        x, y = network.mix(ahead, push=(state.tracker,))  # (1)
        field = refresh(landing, f, x, y, state.field, state.penalty)  # (2)
        return advanced(self.step_size, state, x=x, tracker=y, field=field)
