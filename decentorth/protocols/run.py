"""Methods and their states, and the records, rules and recorders of a run."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from .arrays import Array
from .network import Collective, Network, Spectrum, Streams
from .problems import Problem

SETUP = logging.getLogger("decentorth.setup")
"""The name of each long part of the set-up goes to this logger: "NAME", or "NAME, N of M" where it
has parts."""
Quantity = Literal["gradient", "movement", "disagreement", "feasibility"]
"""A quantity that an agent computes for itself; see `stopping.LocalMaximum`."""


class State(Protocol):
    """A NamedTuple of agent-stacked arrays and integer counters, with at least these."""

    @property
    def x(self) -> Array: ...
    @property
    def k(self) -> int:
        """The number of iterations made."""

    @property
    def gradients(self) -> int:
        """The number of local gradient evaluations made, per agent."""


class Observed(State, Protocol):
    """The entries of states that metrics, agreement, rank losses and unreliable networks read by
    name, ``(n_local, ...)`` each.

    A method's state has the ones that apply.
    """

    tracker: Array
    field: Array
    """The tracked quantities: trackers have the same mean."""
    product_tracker: Array
    """The trackers of B x, where no agent knows B."""
    step_size: Array
    base: Array
    """The steps of iteration 0."""
    penalty: Array
    """The penalty of the landing field."""
    flops: Array
    """The floating-point operations so far."""
    drift: Array
    """The largest infeasibility that a re-orthogonalisation has found."""
    point: Any
    """The point x of a single agent with ``gradient``, the gradient there, which the method carries
    along."""


S = TypeVar("S", bound=State)
_S_contra = TypeVar("_S_contra", bound=State, contravariant=True)
P = TypeVar("P", bound=Problem[object])
_P_contra = TypeVar("_P_contra", bound=Problem[object], contravariant=True)


class Algorithm(Protocol[_P_contra, S]):
    """A frozen dataclass of numbers and names. ``step`` OWNS the state it is given and may reuse
    its arrays; a caller that keeps a state copies it. It never changes problem data or x0.

    The type of its problems names the capabilities that it always needs, `Declared.requires` and
    `Declared.requires_set` those for these settings.
    """

    network: ClassVar[Literal["decentralized", "single-agent"]]

    def init(self, problem: _P_contra, network: Network, streams: Streams, x0: Array) -> S: ...
    def step(self, problem: _P_contra, network: Network, streams: Streams, state: S) -> S: ...


@runtime_checkable
class Ending(Protocol[_P_contra, _S_contra]):
    """A single-agent method that can detect the end of a run: it has converged, or there is no
    minimiser."""

    def ending(self, problem: _P_contra, state: _S_contra) -> Stop | None:
        """The reason to stop here, or None to continue; called before every step, so it must be
        cheap."""


@runtime_checkable
class Completing(Protocol[_P_contra, S]):
    """A method whose steps use other variables, and compute the point x only when it is
    recorded."""

    def completed(self, problem: _P_contra, state: S) -> S:
        """The state with its point x."""


class Limits(NamedTuple):
    """The facts of a method by which its steps are judged on a network."""

    gap: float
    """The share of the slowest disagreement that an exchange removes."""
    most: float = math.inf
    """The largest m of steps that are 2^(m/6) times the first."""


@runtime_checkable
class Judged(Protocol):
    """A method that is exact with a constant step, so that others can judge and change it.

    Its state has ``step_size``. `Declared.scaled` and `Declared.penalty_follows` name what changes
    with it.
    """

    def limits(self, spectrum: Spectrum) -> Limits:
        """The limits of steps on a network with these eigenvalues."""


@runtime_checkable
class Asynchronous(Algorithm[Any, Any], Protocol):
    """A method whose agents have no common iterations; its state holds them as ``agents``."""

    activations: int
    """The largest number of activations over all agents, in place of iterations."""
    log: str | None
    counts: ClassVar[str]

    def check_channel(self, channel: Any) -> None:
        """Raise a ValueError for faults that the agents do not tolerate."""

    def check_place(self) -> None:
        """Raise an OSError or a ValueError if the log cannot be written."""

    def recover(self, agents: Any, folder: Path) -> int:
        """Let the agents continue from their own checkpoints in the folder; return their
        activations."""

    def write_log(self, agents: Any, facts: Mapping[str, Any], collective: Collective) -> None:
        """Write the logs of all agents, with the facts; called by every rank."""


@runtime_checkable
class Scheduled(Protocol):
    """Steps that follow a schedule."""

    initial: float | str

    def scale(self, k: int) -> float: ...


class Declared:
    """The facts of a method that a run reads beside its steps, with their defaults.
    `algorithms.common.method.Method` has them."""

    directed: ClassVar[bool] = False
    """True if the method runs on directed networks."""
    on_devices: ClassVar[bool] = False
    """True if its iterations can be made on a device."""
    on_changing: ClassVar[bool] = False
    """True if it finds automatic steps on networks that change over time."""
    by_moments: ClassVar[bool] = False
    """True if several agents only add the sums on which the problem depends
    (`protocols.Moments`)."""
    only_sums: ClassVar[bool] = False
    """True if its agents send nothing but exact sums (`Network.total`)."""
    on_time: ClassVar[bool] = False
    """True if it does not converge where most messages are late."""
    nonsmooth: ClassVar[bool] = False
    """True if it is for problems that need not be differentiable."""
    sends: ClassVar[tuple[str, ...]] = ("x", "tracker", "product_tracker")
    """The entries of its state that it sends, where the state has them, in the order of a
    message."""
    counts: ClassVar[str] = "iterations"
    """The steps of the method: all agents' common iterations, or "activations" of single agents."""
    scaled: ClassVar[tuple[str, ...]] = ()
    """The entries of its state that are multiples of the step."""
    without: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Settings of runs that do not apply, and what to do instead."""
    resumable: ClassVar[tuple[str, ...]] = ()
    """The settings that may change when a run is resumed."""
    batch_size: Any = None
    safe: Any = False
    eps: float = 0.0
    """The most that safe steps let the feasibility be."""
    chebyshev: bool = False
    kernel: str = "numpy"
    step_size: Any = None
    penalty: Any = None
    momentum: Any = 0.0
    order: Any = None
    """The order in which a method mixes and moves, where it has several."""
    varsigma: Any = None
    """Of a method that minimises a majoriser: its constant, or the name of the rule that finds
    it."""
    agrees: ClassVar[bool] = True
    """False if its agents stay apart, in proportion to the step, however long it runs."""
    gradient_factor: ClassVar[float | None] = None
    """Of a method whose trackers have the mean of fields F_i that stand for Riemannian gradients:
    where x^T x = I, a Riemannian gradient is at most this many times as long as F_i, whatever the
    objective."""

    @property
    def requires(self) -> tuple[type, ...]:
        """The capabilities that its problem must have."""
        return ()

    @property
    def requires_set(self) -> tuple[type, ...]:
        """The capabilities that the problem's constraint set must have."""
        return ()

    @property
    def mixes(self) -> bool:
        """False if its agents only add up, and never mix with their neighbours."""
        return True

    @property
    def penalty_follows(self) -> bool:
        """True if its penalties are multiples of 1 / step.

        A method with trackers then has ``field(problem, x, penalty)``, the field that they follow.
        """
        return False

    def for_network(self, network: Any) -> Any:
        """Return the method with the settings chosen that depend on the network.

        Raises ValueError if it cannot run on this network.
        """
        return self

    def for_problem(self, problem: Any) -> Any:
        """Return the method with the settings chosen that depend on the problem."""
        return self

    @staticmethod
    def of(method: object) -> Declared:
        """Return the facts of a method.

        Defaults replace facts that a class without this base leaves out.
        """
        return method if isinstance(method, Declared) else _Other(method)

    @property
    def first_step(self) -> Any:
        """The step of iteration 0, of a schedule too: a number, or "auto"; None for a method
        without a step size."""
        match self.step_size:
            case Scheduled(initial=first):
                return first
        return self.step_size

    @property
    def scale(self) -> Callable[[int], float] | None:
        """The steps as multiples of the first, if they follow a schedule."""
        return self.step_size.scale if isinstance(self.step_size, Scheduled) else None


class _Other(Declared):
    """The facts of a user's method, or of a class, which need not inherit them: the one place that
    looks for attributes."""

    requires: tuple[type, ...] = ()
    requires_set: tuple[type, ...] = ()
    mixes: bool = True
    penalty_follows: bool = False

    def __init__(self, method: object) -> None:
        properties = ("requires", "requires_set", "mixes", "penalty_follows")
        for name in (*properties, *Declared.__annotations__):
            setattr(self, name, getattr(method, name, getattr(_Other, name)))
        for name in ("for_network", "for_problem"):
            setattr(self, name, getattr(method, name, lambda *given: method))


class Metric(Protocol):
    """Columns of the history, with the same numbers on every rank."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    def __call__(
        self, problem: Problem[Any], state: Any, collective: Collective
    ) -> tuple[float, ...]: ...


class Agreed(NamedTuple):
    """The quantities that all agents know after a max-consensus."""

    iteration: int
    rounds: int
    """The rounds of the max-consensus."""
    maxima: Mapping[str, float]
    """The largest over the agents of each quantity."""
    usual: tuple[str, ...]
    """The default quantities for this method's agents."""


class Row(NamedTuple):
    """One line of the history. Counts are per agent and edge of the graph, so they do not depend on
    the number of ranks."""

    iteration: int
    rounds: int
    """The number of exchanges with the neighbours so far."""
    messages: int
    """The number of messages over directed edges so far, over the whole network."""
    bytes: int
    """The payload of these messages."""
    gradients: int
    """The number of local gradient evaluations so far, per agent."""
    seconds: float
    """The wall time of the iterations on rank 0, without the time of measuring."""
    values: Mapping[str, float]
    agreed: Agreed | None = None
    """The result of the agents' max-consensus, if one was made at this iteration; not part of the
    table."""

    def columns(self) -> dict[str, float]:
        """The counts and the metrics, by their names in the history."""
        counts: Any = zip(self._fields[:6], self, strict=False)
        return {**dict(counts), **self.values}

    def __getitem__(self, name: Any) -> Any:
        """A count or a metric by its name in the history, as ``row["gradient_norm"]``."""
        if not isinstance(name, str):
            return tuple.__getitem__(self, name)
        columns = self.columns()
        if name not in columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(columns)}")
        return columns[name]

    def __contains__(self, name: object) -> bool:
        """True for the name of a column: ``"gradient_norm" in row``."""
        return name in self.columns()


class Stop(NamedTuple):
    """The reason why a run ended."""

    status: str
    """One word: converged, iterations, time_limit, objective_floor, unbounded, terminated,
    diverged, left_safe_region, interrupted (by Ctrl-C), stopped (by a callback, or a rule that
    returned True)."""
    converged: bool
    message: str


class StoppingRule(Protocol):
    """A rule that is evaluated on each recorded row; rules combine with ``|`` and ``&``. It may
    also be a function of the row alone, and return True."""

    def __call__(self, row: Row, collective: Collective) -> Stop | None: ...


class Recorder(Protocol):
    """A recorder of a run: rank 0 gets rows as they are made."""

    def record(self, row: Row) -> object:
        """Record a row. If this returns True or raises StopIteration, the run ends there on all
        ranks."""


class Followed(Protocol):
    """A run, between two rows."""

    iteration: int
    """The number of its last iteration."""


@runtime_checkable
class Follower(Protocol):
    """A recorder that also shows a run between two rows."""

    def follow(self, run: Followed) -> None:
        """Accept, on rank 0, the run that begins."""


@runtime_checkable
class Rewound(Protocol):
    """A recorder that is notified when a run has gone back after a loss of ranks."""

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """Accept, on the new rank 0, the remaining rows and a description of the loss."""
