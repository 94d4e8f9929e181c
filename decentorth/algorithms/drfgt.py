"""DRFGT: decentralized retraction-free gradient tracking.

Sun, Chen, Garcia, Shahrampour, "Global convergence of decentralized retraction-free optimization on the Stiefel manifold"
(paper 004), Algorithm 1. From a common start x_i(0) = x_0 and y_i(0) = Lambda_i(x_i(0)), every agent repeats

    x_i <- sum_j W_ij x_j - alpha y_i                                                  (10)
    y_i <- sum_j W_ij y_j + Lambda_i(new x_i) - Lambda_i(old x_i)                      (10)

where Lambda_i is the landing field of f_i with penalty lambda (5). Both sums use the values of the same iteration, so one message
per neighbour carries x and y. The mean of the trackers y_i stays the mean of the landing fields.

    W_ij    network.mix             alpha   step_size  (n_local,)
    x_i     state.x                 lambda  penalty    (n_local,)
    y_i     state.tracker           Lambda  constraint.landing(x, gradient, penalty)

Beyond the paper: ``order="adapt-then-combine"``, x_i <- sum_j W_ij (x_j - alpha y_j), and the same for y: stable at larger steps,
at the price of two dependent exchanges an iteration (the same bytes in twice the rounds); ``step_size="auto"``; ``safe=True``
(see `safe`). With one agent it is the landing algorithm. It runs on any constraint set that has a landing field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from ..protocols import Array, Landing, Network, Problem, Streams
from ..settings import Positive
from .fields import BatchSize, blockwise, landing, on_samples, track
from .method import Method
from .policies import Auto
from .safe import Eps, Safe
from .step_sizes import StepSize, policy
from .steps import MixingOrder, Order, resolve, with_order
from .tracking import PenalisedState


@dataclass(frozen=True, kw_only=True)
class DRFGT(Method):
    """Decentralized retraction-free gradient tracking (paper 004, Algorithm 1).

    Parameters
    ----------
    step_size
        alpha > 0; auto: from the agents' Lipschitz constants, the spectrum of W and a given penalty; or a schedule (diminishing,
        horizon).
    penalty
        lambda > 0 of the landing field, or auto: 0.1 / step_size, smaller where W has eigenvalues near -1.
    safe
        Halve steps that turn out too large and start over, so that no agent ever leaves the safety region; penalty auto follows the
        step, a given one stays.
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    gradient_factor: ClassVar[float] = 2.0

    step_size: StepSize = "auto"
    penalty: Positive | Auto = "auto"
    order: MixingOrder = "auto"
    safe: bool = False
    eps: Eps = 0.5
    batch_size: BatchSize = None

    def resolved(self, network: Network) -> DRFGT:
        """This method with ``order="auto"`` resolved for this network."""
        return with_order(self, network)

    def running(self) -> DRFGT | Safe:
        """The method that runs: this one, or `Safe` around it if ``safe`` is set."""
        return Safe(self, self.eps, follows=self.penalty == "auto") if self.safe else self

    def init(self, problem: Problem[Landing], network: Network, streams: Streams, x0: Array) -> PenalisedState:
        base, penalty, spent = resolve(self, problem, network, streams, x0, cast(Order, self.order))
        field = blockwise(landing, on_samples(problem, streams, 0, self.batch_size), x0, penalty)
        step_size = base * policy(self.step_size).scale(0)
        return PenalisedState(x0.copy(), field.copy(), field, step_size, base, penalty, 0, spent + 1)

    def step(self, problem: Problem[Landing], network: Network, streams: Streams, state: PenalisedState) -> PenalisedState:
        k, alpha, penalty = state.k + 1, state.step_size[:, None, None], state.penalty
        f = on_samples(problem, streams, k, self.batch_size)
        if self.order == "combine-then-adapt":
            x, y = network.mix(state.x, state.tracker)
            x -= np.multiply(alpha, state.tracker, out=state.tracker)  # (10): x_i <- sum_j W_ij x_j - alpha y_i
            field = track(landing, f, x, y, state.field, penalty)  # y_i <- sum_j W_ij y_j + Lambda_i(new x_i) - Lambda_i(old x_i)
        else:
            (x,) = network.mix(state.x - alpha * state.tracker)  # x_i <- sum_j W_ij (x_j - alpha y_j)
            field = track(landing, f, x, state.tracker, state.field, penalty)
            (y,) = network.mix(state.tracker)  # y_i <- sum_j W_ij (y_j + Lambda_j(new x_j) - Lambda_j(old x_j))
        step_size = state.base * policy(self.step_size).scale(k)
        return PenalisedState(x, y, field, step_size, state.base, penalty, k, state.gradients + 1)
