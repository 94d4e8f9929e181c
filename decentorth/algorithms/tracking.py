"""Gradient tracking: what the methods have in common that track a field, whatever they do with it.

Every agent keeps the field F_i at its point x_i and a tracker y_i, from y_i(0) = F_i(x_i(0)) on. Once its new point is known,

    y_i <- sum_j W_ij y_j + F_i(new x_i) - F_i(old x_i)                                (1)

so that the mean of the trackers stays the mean of the fields. In Euclidean space the points move by either of

    x_i <- sum_j W_ij x_j - alpha y_i            combine-then-adapt                    (2)
    x_i <- sum_j W_ij (x_j - alpha y_j)          adapt-then-combine                    (3)

and with (3) the trackers are mixed last too: sum_j W_ij (y_j + F_j(new x_j) - F_j(old x_j)).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from ..protocols import Array, Network
from .fields import Field, advance, evaluate
from .step_sizes import StepPolicy
from .steps import Order


class TrackingState(NamedTuple):
    """What changes: x, tracker (y), field (F at x), each ``(n_local, d, r)``, step_size ``(n_local,)``; what does not: where the
    steps started, base."""

    x: Array
    tracker: Array
    field: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


class PenalisedState(NamedTuple):
    """A `TrackingState` with the penalties ``(n_local,)`` of a field that draws points to the manifold; they do not change."""

    x: Array
    tracker: Array
    field: Array
    step_size: Array
    base: Array
    penalty: Array
    k: int
    gradients: int


S = TypeVar("S", bound=Any)
"""A NamedTuple with at least the fields of `TrackingState`."""


def begin(problem: Any, x0: Array, field: Field, base: Array, spent: int, policy: StepPolicy) -> TrackingState:
    """The state at the common start: trackers are fields; ``spent`` gradients were needed for the steps ``base``."""
    value = evaluate(problem, x0, field)
    return TrackingState(x0.copy(), value.copy(), value, base * policy.scale(0), base, 0, spent + 1)


def begin_penalised(
    problem: Any, x0: Array, field: Field, base: Array, penalty: Array, spent: int, policy: StepPolicy
) -> PenalisedState:
    """The same with the penalties that the field has."""
    state = begin(problem, x0, field, base, spent, policy)
    return PenalisedState(*state[:5], penalty, *state[5:])


def carry_on(problem: Any, state: S, x: Array, tracker: Array, field: Field, policy: StepPolicy) -> S:
    """The state at the new points ``x``, with the change of the fields added to ``tracker``. ``state`` is used up."""
    k = state.k + 1
    change = advance(problem, x, state.x, state.field, tracker, field, policy)
    following = policy.following(k, state.base, state.step_size, *change)
    carried: S = state._replace(x=x, tracker=tracker, step_size=following, k=k, gradients=state.gradients + 1)
    return carried


def track(problem: Any, network: Network, order: Order, state: S, field: Field, policy: StepPolicy) -> S:
    """One iteration of gradient tracking of ``field`` in Euclidean space. ``state`` is used up."""
    alpha = state.step_size[:, None, None]
    if order == "combine-then-adapt":
        x, y = network.mix(state.x, state.tracker)
        descent = state.tracker
        descent *= alpha
        x -= descent  # (2)
        return carry_on(problem, state, x, y, field, policy)  # (1)
    (x,) = network.mix(state.x - alpha * state.tracker)  # (3)
    adapted = carry_on(problem, state, x, state.tracker, field, policy)
    (y,) = network.mix(adapted.tracker)
    combined: S = adapted._replace(tracker=y)
    return combined
