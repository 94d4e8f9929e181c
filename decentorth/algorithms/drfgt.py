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
at the price of two dependent exchanges an iteration (the same bytes in twice the rounds); ``step_size="auto"``. With one agent it
is the landing algorithm. It runs on any constraint set that has a landing field.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args

from ..protocols import Array, Landing, Network, Streams
from .steps import Auto, Order, better_order, check_positive, landing_field, resolve


class DRFGTState(NamedTuple):
    """What changes: x, tracker, landing (the field at x), each ``(n_local, d, r)``; what does not: the steps."""

    x: Array
    tracker: Array
    landing: Array
    step_size: Array
    penalty: Array
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class DRFGT:
    """Decentralized retraction-free gradient tracking (paper 004, Algorithm 1).

    Parameters
    ----------
    step_size
        alpha > 0, or auto: from the agents' Lipschitz constants and the spectrum of W.
    penalty
        lambda > 0 of the landing field, or auto: 0.1 / step_size, smaller where W has eigenvalues near -1.
    order
        combine-then-adapt is the paper's (one exchange an iteration); adapt-then-combine is stable at larger steps (two exchanges);
        auto is the paper's, but with step_size auto the other where W is such that it needs fewer rounds.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    step_size: float | Auto = "auto"
    penalty: float | Auto = "auto"
    order: Order | Auto = "auto"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("penalty", self.penalty)
        if self.order not in (*get_args(Order), "auto"):
            raise ValueError(f"order must be one of {', '.join(get_args(Order))} or auto, got {self.order!r}")

    def resolved(self, network: Network) -> DRFGT:
        """This method with the order that auto means on this network."""
        if self.order != "auto":
            return self
        return replace(self, order=better_order(network.spectrum) if self.step_size == "auto" else "combine-then-adapt")

    def init(self, problem: Any, network: Network, streams: Streams, x0: Array) -> DRFGTState:
        order = cast(Order, self.resolved(network).order)
        step, penalty, spent = resolve(self, problem, network, streams, x0, order)
        field = landing_field(problem, x0, penalty)
        return DRFGTState(x0.copy(), field.copy(), field, step, penalty, 0, spent + 1)

    def step(self, problem: Any, network: Network, streams: Streams, state: DRFGTState) -> DRFGTState:
        alpha = state.step_size[:, None, None]
        if self.resolved(network).order == "combine-then-adapt":
            x, y = network.mix(state.x, state.tracker)
            descent = state.tracker
            descent *= alpha  # in place: this state is ours, and its tracker is not needed again
            x -= descent  # (10)
            _replace(problem, x, state, y)  # (10)
        else:
            y = state.tracker
            (x,) = network.mix(state.x - alpha * y)
            _replace(problem, x, state, y)
            (y,) = network.mix(y)
        return DRFGTState(x, y, state.landing, state.step_size, state.penalty, state.k + 1, state.gradients + 1)


def _replace(problem: Any, x: Array, state: DRFGTState, y: Array) -> None:
    """``y += Lambda(x) - landing`` and ``landing = Lambda(x)``, in place, in blocks of agents that stay in cache."""
    for block, part in problem.blocks():
        points, old, tracker = x[block], state.landing[block], y[block]
        field = part.constraint.landing(points, part.gradient(points), state.penalty[block])
        tracker += field
        tracker -= old
        old[...] = field
