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
from typing import Any, ClassVar, Literal, cast

from ..protocols import Array, Landing, Network, Streams
from . import safe
from .fields import check_batch_size, gradients, landing, sampled
from .policies import Auto, check_positive
from .safe import SafeState
from .step_sizes import StepSize, checked, policy
from .steps import Order, check_eps, check_order, resolve, with_order
from .tracking import PenalisedState, S, begin_penalised, track


@dataclass(frozen=True, kw_only=True)
class DRFGT:
    """Decentralized retraction-free gradient tracking (paper 004, Algorithm 1).

    Parameters
    ----------
    step_size
        alpha > 0; auto: from the agents' Lipschitz constants, the spectrum of W and a given penalty; or a policy (diminishing,
        horizon, bb).
    penalty
        lambda > 0 of the landing field, or auto: 0.1 / step_size, smaller where W has eigenvalues near -1.
    order
        combine-then-adapt is the paper's (one exchange an iteration); adapt-then-combine is stable at larger steps (two exchanges);
        auto is the paper's, but with step_size auto the other where W is such that it needs fewer rounds.
    safe
        Halve steps that turn out too large and start over, so that no agent ever leaves the safety region; penalty auto follows the
        step, a given one stays.
    eps
        The safety region ||x^T x - I||_F <= eps of safe, in (0, 3/4).
    batch_size
        Samples of each agent in a gradient; by default all.
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"
    gradient_factor: ClassVar[float] = 2.0

    step_size: StepSize = "auto"
    penalty: float | Auto = "auto"
    order: Order | Auto = "auto"
    safe: bool = False
    eps: float = 0.5
    batch_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", checked(self.step_size))
        check_positive("penalty", self.penalty)
        check_order(self.order)
        check_eps(self.eps)
        check_batch_size(self.batch_size)

    @property
    def requires(self) -> tuple[type, ...]:
        """Samples, where a batch of them is asked for."""
        return sampled(self.batch_size)

    def resolved(self, network: Network) -> DRFGT:
        """This method with the order that auto means on this network."""
        return with_order(self, network)

    def init(self, problem: Any, network: Network, streams: Streams, x0: Array) -> PenalisedState | SafeState:
        order = cast(Order, self.resolved(network).order)
        base, penalty, spent = resolve(self, problem, network, streams, x0, order)
        field = landing(gradients(problem, streams, 0, self.batch_size), penalty)
        state = begin_penalised(problem, x0, field, base, penalty, spent, policy(self.step_size))
        return safe.begin(problem, state, self.eps, self.penalty == "auto") if self.safe else state

    def step(self, problem: Any, network: Network, streams: Streams, state: Any) -> PenalisedState | SafeState:
        if self.safe:
            return safe.proceed(self._step, problem, network, streams, state, self.eps, self.penalty == "auto")
        moved: PenalisedState = self._step(problem, network, streams, state)
        return moved

    def _step(self, problem: Any, network: Network, streams: Streams, state: S) -> S:
        order = cast(Order, self.resolved(network).order)
        field = landing(gradients(problem, streams, state.k + 1, self.batch_size), state.penalty)
        return track(problem, network, order, state, field, policy(self.step_size))  # (10)
