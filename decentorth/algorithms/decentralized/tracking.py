"""The states of methods that track a field, and the common parts of those on a manifold.

Every agent keeps the field F_i at its point x_i and a tracker y_i, from y_i(0) = F_i(x_i(0)) on.
Once its new point is known,

    y_i <- sum_j W_ij y_j + F_i(new x_i) - F_i(old x_i)

so that the mean of the trackers stays the mean of the fields (`fields.refresh`). In Euclidean space
the points move by either of

    x_i <- sum_j W_ij x_j - alpha y_i            combine-then-adapt
    x_i <- sum_j W_ij (x_j - alpha y_j)          adapt-then-combine

and with the second the trackers are mixed last too: sum_j W_ij (y_j + F_j(new x_j) - F_j(old x_j)).
Accelerated mixing (`loopless`) on a manifold M, with nothing beyond one exchange an iteration, is

    p_i <- x_i - alpha P_{x_i}(y_i)
    x_i <- the point of M that replaces sum_j V_ij (p_j + eta u_j),      u_i <- x_i - p_i
    y_i <- sum_j V_ij (y_j + eta v_j) + F_i(new x_i) - F_i(old x_i)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

from ...protocols import (
    Array,
    Limits,
    Network,
    Problem,
    ProjectableManifold,
    Projection,
    Riemannian,
    Spectrum,
    Streams,
)
from ...settings import Positive
from ..common import (
    Auto,
    GrowingStepSize,
    Mixing,
    Momenta,
    Order,
    Ordered,
    blockwise,
    check_order,
    landing,
    riemannian,
    schedule,
    steepness,
)
from ..common.automatic_steps import (
    consensus_gap,
    curved_step,
    most_growth,
    push_pull_step,
    start,
    tracking_step,
)
from .safe import Eps


class TrackingState(NamedTuple):
    """The state of gradient tracking.

    The changing arrays are x, tracker (y) and field (F at x), each ``(n_local, d, r)``, and
    step_size ``(n_local,)``. ``base`` holds the steps of iteration 0.
    """

    x: Array
    tracker: Array
    field: Array
    step_size: Array
    base: Array
    k: int
    gradients: int
    momenta: Any = ()
    """The `Momenta` of accelerated mixing."""


class PenalisedState(NamedTuple):
    """A `TrackingState` with constant penalties ``(n_local,)``.

    The penalties belong to a field that draws points to the manifold.
    """

    x: Array
    tracker: Array
    field: Array
    step_size: Array
    base: Array
    penalty: Array
    k: int
    gradients: int
    momenta: Any = ()
    """The `Momenta` of accelerated mixing."""


Manifold = Problem[ProjectableManifold]


def projected(problem: Manifold, x: Array, mixed: Array, along: Array, step: Array) -> Array:
    """Return the nearest points of the manifold to ``mixed - step P_x(along)``.

    The work is done in blocks of agents; ``step`` is ``(n_local,)``.
    """

    def moved(f: Manifold, x: Array, mixed: Array, along: Array, a: Array) -> Array:
        ahead = mixed - a[:, None, None] * f.constraint.tangent(x, along)
        return f.constraint.project(ahead, "polar")

    return blockwise(moved, problem, x, mixed, along, step)


P = Problem[Riemannian]


def descended(problem: P, x: Array, along: Array, step: Array) -> Array:
    """Return ``x - step P_x(along)``, in blocks of agents; ``step`` is ``(n_local,)``."""

    def moved(f: P, x: Array, along: Array, a: Array) -> Array:
        return x - a[:, None, None] * f.constraint.tangent(x, along)

    return blockwise(moved, problem, x, along, step)


def gap_and_aim(mixing: Spectrum, pull: float) -> tuple[float, float]:
    """The gap of points that move the share ``pull`` of the way to their neighbours' mean, and the
    target of automatic steps for the product of step and curvature."""
    gap = pull * (1.0 - mixing.lambda_2)
    return gap, tracking_step(Spectrum(1.0 - gap, mixing.lambda_min), "combine-then-adapt")


def limits_on_manifold(method: Mixing, spectrum: Spectrum, pull: float = 1.0) -> Limits:
    """The limits of steps of a method that tracks Riemannian gradients; see `start_on_manifold`."""
    gap, aim = gap_and_aim(method.mixing(spectrum), pull)
    return Limits(1.0 - spectrum.lambda_2, most_growth(gap, aim))


_ACCELERATED_CAP = 2.0
"""The longest step of accelerated mixing on a manifold, in units of sqrt(gap) / curvature. With
2^1.5 DRGTA takes 1.7 in place of 0.5 times the iterations of combine-then-adapt on Procrustes over
a star."""


def accelerated_on_manifold(spectrum: Spectrum) -> Limits:
    """The limits of steps of accelerated mixing on a manifold."""
    gap = consensus_gap(spectrum, "accelerated")
    aim = tracking_step(spectrum, "accelerated")
    return Limits(gap, most_growth(gap, aim, _ACCELERATED_CAP))


def start_on_manifold(
    method: Mixing,
    problem: P,
    network: Network,
    streams: Streams,
    x0: Array,
    pull: float = 1.0,
    shortening: float = 1.0,
    order: Order = "combine-then-adapt",
) -> TrackingState:
    """Return the first state of a method that tracks Riemannian gradients, with its first steps.

    Automatic steps are those of `curved_step` with ``c = min(0.5 u, sqrt(gap))``. Here u is the
    tracking limit (combine-then-adapt) of the matrix with which an iteration mixes. For a single
    agent c = 0.7. On a directed graph c is that of `push_pull_step`, late, and the steps are
    divided by the gain. A schedule whose steps may grow starts with steps that are smaller by the
    same factor: on a curved set larger steps make the agents lose consensus permanently.

    Parameters
    ----------
    pull
        The share of the way to their neighbours' mean that points move, by which the gap is
        smaller.
    shortening
        A factor of automatic steps.
    order
        Accelerated mixing has its own limit and gap, and momenta of zero.
    """
    momenta: Any = ()
    if order == "accelerated":
        momenta = Momenta(0.0 * x0, 0.0 * x0)

    def automatic() -> tuple[Array, int]:
        c, gap, gain = 0.7, 1.0, 1.0
        if network.directed:
            found = network.push_pull_spectrum
            c = push_pull_step(found, late=True)
            gain = found.gain
            gap = pull * (1.0 - found.sigma)
        elif order == "accelerated":
            gap = consensus_gap(network.spectrum, order)
            c = tracking_step(network.spectrum, order)
        elif network.n_agents > 1:
            gap, c = gap_and_aim(method.mixing(network.spectrum), pull)
        steep, spent = steepness(problem, network, streams, x0)
        step = curved_step(steep, c, gap) / (gain * schedule(method.step_size).most)
        return shortening * step, spent

    step, base, spent = start(method.step_size, len(x0), automatic)
    field = blockwise(riemannian, method.oracle(problem, streams, 0), x0)
    return TrackingState(x0.copy(), field.copy(), field, step, base, 0, spent + 1, momenta)


@dataclass(frozen=True, kw_only=True)
class ManifoldTracking(Mixing):
    """Tracking of Riemannian gradients by points that stay on a manifold."""

    gradient_factor: ClassVar[float] = 1.0
    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)

    step_size: GrowingStepSize = "auto"

    def limits(self, spectrum: Spectrum) -> Limits:
        return limits_on_manifold(self, spectrum)

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> TrackingState:
        return start_on_manifold(self, problem, network, streams, x0)


@dataclass(frozen=True, kw_only=True)
class OrderedOnManifold(ManifoldTracking):
    """Tracking of Riemannian gradients, with accelerated mixing if asked for.

    Parameters
    ----------
    order
        combine-then-adapt mixes W^rounds x; accelerated mixes with momentum, once an iteration, on
        a network that stays as it is.
    """

    order: Literal["combine-then-adapt", "accelerated"] = "combine-then-adapt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order == "accelerated" and (self.rounds > 1 or self.chebyshev):
            raise ValueError(
                "order accelerated mixes once an iteration: leave out rounds and chebyshev, or "
                "take order combine-then-adapt"
            )

    def for_network(self, network: Network) -> Self:
        """This method; a ValueError for an order that the network does not allow."""
        check_order(self.order, network)
        return super().for_network(network)

    def limits(self, spectrum: Spectrum) -> Limits:
        if self.order == "accelerated":
            return accelerated_on_manifold(spectrum)
        return super().limits(spectrum)

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> TrackingState:
        return start_on_manifold(self, problem, network, streams, x0, order=self.order)


@dataclass(frozen=True, kw_only=True)
class PenalisedTracking(Ordered):
    """Gradient tracking along a field that draws points to the manifold, with safe steps if asked
    for.

    Parameters
    ----------
    penalty
        The weight of infeasibility, above 0, or auto.
    safe
        Halve steps that turn out too large and start over, so that no agent ever leaves the safety
        region. With a given step, an automatic penalty is adjusted as well.
    """

    gradient_factor: ClassVar[float] = 1.0
    requires_set: ClassVar[tuple[type, ...]]

    step_size: GrowingStepSize = "auto"
    penalty: Positive | Auto = "auto"
    safe: bool = False
    eps: Eps = 0.5

    @property
    def penalty_follows(self) -> bool:
        return self.penalty == "auto"

    def field(self, problem: Any, x: Array, penalty: Array) -> Array:
        """Return the tracked field at x, which is the landing field, shaped like ``x``.

        ``penalty`` is ``(n_local,)``.
        """
        return landing(problem, x, penalty)

    def limits(self, spectrum: Spectrum) -> Limits:
        order = cast(Order, self.order)
        gap = self.gap(spectrum)
        if order != "combine-then-adapt":
            return Limits(gap)
        return Limits(gap, most_growth(gap, self.aim(spectrum, order)))
