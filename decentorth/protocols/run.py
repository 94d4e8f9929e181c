"""Methods and their states, and the records, rules and recorders of a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from .arrays import Array
from .network import Collective, Network, Streams
from .problems import Problem

SETUP = logging.getLogger("decentorth.setup")
"""The name of each long part of the set-up goes to this logger: "NAME", or "NAME, N of M" where it has parts."""
Quantity = Literal["gradient", "movement", "disagreement", "feasibility"]
"""What an agent can tell of itself; see `stopping.LocalMaximum`."""


class State(Protocol):
    """A NamedTuple of agent-stacked arrays and integer counters, with at least these."""

    @property
    def x(self) -> Array: ...
    @property
    def k(self) -> int:
        """Iterations made."""

    @property
    def gradients(self) -> int:
        """Local gradient evaluations made, per agent."""


S = TypeVar("S", bound=State)
P = TypeVar("P", bound=Problem[object])
P_contra = TypeVar("P_contra", bound=Problem[object], contravariant=True)


class Algorithm(Protocol[P_contra, S]):
    """A frozen dataclass of numbers and names. ``step`` OWNS the state it is given and may reuse its arrays; who keeps a state
    copies it. It never touches problem data or x0.

    The type of its problems says what it always needs of them, `requires` and `requires_set` what it needs with these settings.
    """

    @property
    def requires(self) -> tuple[type, ...]:
        """Capabilities the problem must have; a class variable where no setting changes them."""

    @property
    def requires_set(self) -> tuple[type, ...]:
        """Capabilities the problem's constraint must have."""

    network: ClassVar[Literal["decentralized", "single-agent"]]

    def init(self, problem: P_contra, network: Network, streams: Streams, x0: Array) -> S: ...
    def step(self, problem: P_contra, network: Network, streams: Streams, state: S) -> S: ...


@runtime_checkable
class Ending(Protocol):
    """A single-agent method that can tell when there is nothing left to do: it has converged, or there is no minimiser."""

    def ending(self, problem: Any, state: Any) -> Stop | None:
        """Why to stop here, or None to go on; asked before every step, so it must cost next to nothing."""


@runtime_checkable
class TracksGradient(Protocol):
    """A method whose trackers, ``state.tracker``, have the mean of fields F_i that stand for Riemannian gradients.

    At a point with x^T x = I the Riemannian gradient is at most ``gradient_factor`` times as long as F_i, whatever the objective.
    """

    gradient_factor: float


class Metric(Protocol):
    """Columns of the history, the same numbers on every rank."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    def __call__(self, problem: Any, state: Any, collective: Collective) -> tuple[float, ...]: ...


class Agreed(NamedTuple):
    """What all agents know of all of them, by max-consensus."""

    iteration: int
    rounds: int
    """Of the max-consensus."""
    maxima: Mapping[str, float]
    """The largest over the agents of each quantity."""
    usual: tuple[str, ...]
    """The quantities by which this method's agents judge themselves when none is named."""


class Row(NamedTuple):
    """One line of the history. Counts are per agent and edge of the graph, so they do not depend on the number of ranks."""

    iteration: int
    rounds: int
    """Exchanges with the neighbours so far."""
    messages: int
    """Messages over directed edges so far, over the whole network."""
    bytes: int
    """Payload of those messages."""
    gradients: int
    """Local gradient evaluations so far, per agent."""
    seconds: float
    """Wall time of the iterations on rank 0, the clock stopped while measuring."""
    values: Mapping[str, float]
    agreed: Agreed | None = None
    """What the agents know, where they have agreed at this iteration; no part of the table."""


class Stop(NamedTuple):
    """Why a run ended."""

    status: str
    """One word: converged, iterations, time_limit, objective_floor, unbounded, terminated, diverged, left_safe_region."""
    converged: bool
    message: str


class StoppingRule(Protocol):
    """Looks at each recorded row; rules combine with ``|`` and ``&``."""

    def __call__(self, row: Row, collective: Collective) -> Stop | None: ...


class Recorder(Protocol):
    """Watches a run: rank 0 gets rows as they are made."""

    def record(self, row: Row) -> None: ...


@runtime_checkable
class Rewound(Protocol):
    """A recorder that is told when a run has gone back, because ranks were lost."""

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """Called on the rank that is rank 0 from now on, with the rows that there still are and what was lost, in words."""
