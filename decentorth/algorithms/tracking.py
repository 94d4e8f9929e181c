"""The states of methods that track a field.

Every agent keeps the field F_i at its point x_i and a tracker y_i, from y_i(0) = F_i(x_i(0)) on. Once its new point is known,

    y_i <- sum_j W_ij y_j + F_i(new x_i) - F_i(old x_i)

so that the mean of the trackers stays the mean of the fields (`fields.track`). In Euclidean space the points move by either of

    x_i <- sum_j W_ij x_j - alpha y_i            combine-then-adapt
    x_i <- sum_j W_ij (x_j - alpha y_j)          adapt-then-combine

and with the second the trackers are mixed last too: sum_j W_ij (y_j + F_j(new x_j) - F_j(old x_j)).
"""

from __future__ import annotations

from typing import NamedTuple

from ..protocols import Array


class TrackingState(NamedTuple):
    """The arrays that change are x, tracker (y), field (F at x), each ``(n_local, d, r)``, and step_size ``(n_local,)``; base, the
    steps at the start, does not."""

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
