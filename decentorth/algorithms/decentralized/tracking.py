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

from ...protocols import Array, Network, Problem, Spectrum, Streams
from ..common.automatic_steps import curved_step, push_pull_step, start, steepness, tracking_step
from ..common.method import Mixing
from ..common.step_sizes import schedule


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


def manifold_step(
    method: Mixing, problem: Problem[object], network: Network, streams: Streams, x0: Array, consensus_step: float = 1.0
) -> tuple[Array, int]:
    """The first steps ``(n_local,)`` of a method that tracks Riemannian gradients, and the gradients spent.

    Automatic steps are those of `curved_step` with ``c = min(0.5 u, sqrt(gap))``, u the tracking limit (combine-then-adapt), of the
    matrix with which an iteration mixes; for a single agent c = 0.7. Where the points go only the share ``consensus_step``, at most
    1, of the way to their neighbours' mean, the gap is that much smaller. A schedule whose steps may grow starts with steps as much
    smaller: on a curved set larger steps make the agents lose consensus for good. On a directed graph c is that of
    `push_pull_step`, late, and the steps are divided by the gain.
    """

    def automatic() -> tuple[Array, int]:
        c, gap = 0.7, 1.0
        gain = 1.0
        if network.directed:
            found = network.push_pull_spectrum
            c, gap, gain = push_pull_step(found, late=True), consensus_step * (1.0 - found.sigma), found.gain
        elif network.n_agents > 1:
            mixing = method.mixing(network)
            gap = consensus_step * (1.0 - mixing.lambda_2)
            c = tracking_step(Spectrum(1.0 - gap, mixing.lambda_min), "combine-then-adapt")
        steep, spent = steepness(problem, network, streams, x0)
        return curved_step(steep, c, gap) / (gain * schedule(method.step_size).most), spent

    return start(method.step_size, len(x0), automatic)
