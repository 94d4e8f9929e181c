"""The base class of problems: the agents of this process, restriction to fewer, and blocks that fit
in cache."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from ..display import Shown
from ..protocols import Array, Collective, ConstraintSet, Index
from ..settings import check
from .common.checks import matrices, same_columns, same_names
from .common.gradient_check import GradientCheck, random_direction, taylor_slopes, worst
from .common.pooled import ASIS, Missing, Units, Wanted, in_units

BLOCK_BYTES = 1 << 18
"""The bytes of the points of a run of agents that are evaluated together, so that temporaries stay
in cache."""

FEW = 2
"""The random samples of each agent that stand for its data where only sizes matter."""

C = TypeVar("C", bound=ConstraintSet)
"""The type of a problem's constraint set."""
T = TypeVar("T")
Selection = slice | Index
"""A selection of local agents: a slice, or ascending numbers."""
View = tuple[Sequence[Any], Sequence[str]]
"""The samples of some agents, and the names of their columns, if these have names."""


_SHARED = 0xFFFFFFFF
"""The key of the shared stream, in place of an agent's number; stream 0 of it gives the start
(`AgentProblem.start`)."""


def stream(seed: int, agent: int | None = None, purpose: int = 0) -> np.random.Generator:
    """The generator of an agent's data, or of another ``purpose``; without an agent, of shared
    data, the same on every rank."""
    key = (_SHARED, 1) if agent is None else (agent, purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def selected(items: Sequence[T], local: Selection) -> list[T]:
    """The items of the local agents in ``local``."""
    return [items[i] for i in np.arange(len(items))[local]]


def as_selection(numbers: Index) -> Selection:
    """Return consecutive numbers as a slice, which gives views; return other numbers unchanged."""
    run = slice(int(numbers[0]), int(numbers[-1]) + 1)
    if run.stop - run.start == len(numbers):
        return run
    return numbers


def held(given: Sequence[object], n_agents: int | None, first_agent: int) -> tuple[int, slice]:
    """The number of all agents, and the agents whose data are given, as `AgentProblem` takes
    them."""
    return n_agents or len(given), slice(first_agent, first_agent + len(given))


@cache
def _computed(kind: type) -> frozenset[str]:
    """The names of the class's values that are computed once."""
    members = [member for one in kind.__mro__ for member in vars(one).items()]
    return frozenset(name for name, value in members if type(value) is cached_property)


class AgentProblem(Shown, ABC, Generic[C]):
    """The objectives f_i of the agents in ``agents``; subclasses add data and formulas.

    Subclasses that take the data of each agent may be given those of some agents only: ``n_agents``
    is then the number of all agents, and ``first_agent`` the global number of the first one given.
    Arrays that are already float64 and C-contiguous may be referenced, not copied: do not change
    them afterwards. A ValueError names the agent whose data have an entry that is not finite, or do
    not fit those of the others or the rank.

    Parameters
    ----------
    n_agents
        The number of agents in the whole network.
    agents
        The agents whose data this process holds, a slice of the global order.
    constraint
        The feasible set; its ``shape`` is a point's shape.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> isinstance(problem, do.problems.AgentProblem), problem.n_agents
    (True, 4)
    """

    sites: tuple[str, ...] = ()
    """The names of all agents' sites, if they have names."""
    units: tuple[Units, ...] = ()
    """The common units of the samples, or of each of two views, where the problem was made with
    some."""
    columns: tuple[tuple[str, ...], ...] | None = None
    """The names of the columns of each view of the samples, empty where they have none; None where
    the rows of a point do not belong to columns."""
    classes: Mapping[str, int] = MappingProxyType({})
    """The number of samples of each class, where samples have classes."""
    nonsmooth: bool = False
    """True if the gradients are subgradients."""
    holds_out: bool = False
    """True if some entries are held out."""
    evaluations: tuple[str, ...] = ()
    """The names of the measures of a point that are taken at the end of a run."""
    error_name: str = ""
    """The name of the error, where the answer is known; for some problems once `prepare` has
    computed it."""
    optimal_value: float | None = None
    """The least value, where it is known; for some problems once `prepare` has computed it."""

    def __init__(self, n_agents: int, agents: slice, constraint: C) -> None:
        self.n_agents = check("n_agents", int, n_agents)
        self.agents = agents
        self.constraint = constraint
        self._blocks: list[tuple[slice, Self]] | None = None

    def with_units(self, units: tuple[Units, ...], names: Sequence[Sequence[str]] = ()) -> Self:
        """This problem, whose samples are in these units and have columns of these names for each
        view, if any."""
        self.units = units
        if self.columns is not None:
            pairs = zip_longest(self.columns, names[: len(self.columns)], fillvalue=())
            self.columns = tuple([tuple(map(str, given)) or own for own, given in pairs])
        return self

    def _facts(self) -> Mapping[str, object]:
        facts: dict[str, object] = {"n_agents": self.n_agents}
        if self.n_local < self.n_agents:
            facts["here"] = f"{self.agents.start}..{self.agents.stop - 1}"
        return facts | {"constraint": self.constraint}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a point."""
        return self.constraint.shape

    @property
    def n_local(self) -> int:
        """The number of agents in this process."""
        return int(self.agents.stop - self.agents.start)

    @abstractmethod
    def _take(self, local: Any) -> None:
        """Keep only the data of the local agents in the `Selection` ``local`` (``self`` is a fresh
        shallow copy)."""

    @abstractmethod
    def value(self, x: Array) -> Array:
        """``(n_local,)``: f_i(x_i)."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """Return the Euclidean gradients G_i(x_i) in a new array, ``(n_local, *shape)``."""

    # Most problems need nothing from other agents.
    def prepare(self, collective: Collective) -> None:
        """Compute quantities of all agents' data, such as a pooled optimum, once before a run."""

    def restrict(self, agents: slice) -> Self:
        """Return the problem for the agents in ``agents`` (global numbers) only.

        Nothing is copied or chosen again.
        """
        if agents == self.agents:
            return self
        first = self.agents.start
        last = self.agents.stop
        if not first <= agents.start < agents.stop <= last:
            raise ValueError(
                f"agents {agents.start} to {agents.stop - 1} were asked for, but this problem "
                f"holds only {first} to {last - 1}"
            )
        part = self._copied()
        part._take(slice(agents.start - first, agents.stop - first))
        part.agents = agents
        return part

    def without(self, lost: Index) -> Self:
        """The problem of the remaining agents, once the agents in ``lost`` (global numbers) have
        left for good.

        The remaining agents are renumbered in their order. Their data and the constraint set, with
        its own data, stay unchanged; data is copied only where agents in between leave. A
        ValueError says that none of this process's agents is left.
        """
        own = np.arange(self.agents.start, self.agents.stop)
        left = np.flatnonzero(~np.isin(own, lost))
        if not left.size:
            raise ValueError(f"agents {own[0]} to {own[-1]} have all left this process")
        part = self._copied()
        if left.size < own.size:
            part._take(as_selection(left))
        gone = np.unique(lost)
        first = self.agents.start - int(np.searchsorted(gone, self.agents.start))
        part.agents = slice(first, first + left.size)
        part.n_agents = self.n_agents - gone.size
        return part

    def blocks(self) -> Sequence[tuple[slice, Self]]:
        """The runs of local agents whose points fit in `BLOCK_BYTES`, as (local slice, restricted
        problem)."""
        if self._blocks is None:
            size = max(1, BLOCK_BYTES // (8 * int(np.prod(self.shape))))
            n = self.n_local
            first = self.agents.start
            runs = [slice(a, min(a + size, n)) for a in range(0, n, size)]
            globally = [slice(first + run.start, first + run.stop) for run in runs]
            self._blocks = list(zip(runs, map(self.restrict, globally), strict=True))
        return self._blocks

    def on(self, put: Callable[[Array], Array]) -> Self:
        """The same problem for points on a device, to which ``put`` brings an array; a ValueError
        where it cannot be there."""
        raise ValueError(
            f"{type(self).__name__} does not run on a device: PCA, Procrustes "
            "and FunctionProblem with stacked=True do; leave device out"
        )

    def _in_one_block(self) -> Self:
        """A copy in one block, whose data the caller brings to a device."""
        if not getattr(self.constraint, "on_devices", False):
            raise ValueError(
                f"{self.constraint!r} does not run on a device: Stiefel and Euclidean do; leave "
                "device out"
            )
        placed = self._copied()
        placed._blocks = [(slice(0, self.n_local), placed)]
        return placed

    def _copied(self) -> Self:
        """A shallow copy without the values that were computed from its agents' data and cached."""
        other = copy.copy(self)
        other._blocks = None
        for name in _computed(type(other)) & vars(other).keys():
            del vars(other)[name]
        return other

    def _check_whole(self) -> None:
        """Raise a ValueError unless all agents are in this process."""
        if self.n_local != self.n_agents:
            raise ValueError(
                f"pooled() needs all {self.n_agents} agents, but only {self.n_local} are in this "
                "process"
            )

    def _alone(self) -> Self:
        """A copy of this problem of all agents for a single agent, whose data the caller sets."""
        self._check_whole()
        alone = self._copied()
        alone.n_agents = 1
        alone.agents = slice(0, 1)
        return alone

    def start(self, seed: int) -> Array:
        """``shape``: a random feasible point from the seed, the same on every rank."""
        sequence = np.random.SeedSequence(seed, spawn_key=(_SHARED, 0))
        return self.constraint.random(np.random.default_rng(sequence))

    def check_gradient(self, x: Array | None = None, *, seed: int = 0) -> GradientCheck:
        """The Taylor test of the gradients of the agents in this process, along one random
        direction.

        The error of f(x + t v) ~ f(x) + t <G(x), v> falls with slope 2 in t where the gradient is
        right, and with slope 1 where it is wrong (Boumal 2023, An Introduction to Optimization on
        Smooth Manifolds, section 4.8).

        Parameters
        ----------
        x
            One point, of ``shape``; by default the start from the seed, moved by a tenth of its
            length (it may be at a kink).
        seed
            Of the point and the direction.

        Raises
        ------
        ValueError
            For a point of another shape.
        """
        point = np.array(self.start(seed) if x is None else x, dtype=np.float64)
        if x is None:
            point += 0.1 * random_direction(point, seed + 1)
        if point.shape != self.shape:
            raise ValueError(f"x must have the shape of a point, {self.shape}, got {point.shape}")
        points = np.repeat(point[None], self.n_local, axis=0)
        slopes = taylor_slopes(self.value, self.gradient, points, random_direction(point, seed))
        return worst(slopes, self.agents.start, slopes)

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The named variables of a stacked point, as views."""
        return {"x": x}


class Outline(NamedTuple):
    """The sizes of a problem's data, from its settings and the headers of files, before there are
    data."""

    counts: Sequence[int] = ()
    """The number of rows of each of all agents."""
    width: int = 0
    """The numbers in a row."""
    copies: float = 1.0
    """How many times the rows are held while the problem is made, at least."""
    more: Callable[[Sequence[int]], int] = lambda counts: 0
    """The numbers that agents with these counts of rows hold beside the rows."""
    made: Callable[[list[Array], slice, Collective], Any] | None = None
    """The problem of agents with other, fewer rows; None where the data decide more than
    numbers."""
    point: int = 0
    """The numbers of an agent's point, at least."""
    beside: float = 0.0
    """The bytes that a process takes, beside the rows, while it reads."""
    views: Sequence[int] = ()
    """The numbers of columns of each view of the samples."""
    wanted: Wanted = ASIS
    """The units in which samples are wanted, for which agents add up."""
    stored: float | None = None
    """The numbers that a row takes on average where rows stay sparse; nothing is then held beside
    them."""

    def needed(self, agents: slice, points: int = 0) -> float:
        """The bytes that a process needs, at least, to make the problem of its agents, and for this
        number of points."""
        own = self.counts[agents]
        held = self.copies * self.width * sum(own) + self.more(own)
        if self.stored is not None:
            held = self.copies * self.stored * sum(own)
        return 8.0 * (held + self.point * points) + self.beside


def holders(n_agents: int, sites: Sequence[str]) -> list[str]:
    """The agents in words: their sites, if these have names, or their numbers."""
    if sites:
        return [f"site {name}" for name in sites]
    return [f"agent {agent}" for agent in range(n_agents)]


class Deferred(NamedTuple):
    """A problem that each rank builds for its own agents, so that no rank holds the data of all.

    It holds functions, so joblib and cloudpickle can send it to other processes, and pickle cannot.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> def load(agent):
    ...     return np.random.default_rng(agent).standard_normal((30, 6))
    >>> problem = do.problems.PCA.from_loader(load, 4, 2)
    >>> isinstance(problem, do.problems.Deferred), problem.n_agents
    (True, 4)
    """

    n_agents: int
    build: Callable[[slice, Collective], object]
    """Called on every rank with its agents; may use the collective in the same order on all of
    them."""
    outline: Callable[[], Outline] | None = None
    """The sizes of the data, which are compared with the free memory before anything is built."""
    open: Callable[[slice, Collective], None] | None = None
    """Called on every rank with its agents before ``outline``: opens their files, and learns the
    sizes of all."""
    sizes: Outline | None = None
    """Of a problem of random samples, the sizes of the data for which they stand."""
    sites: tuple[str, ...] = ()
    """The names of all agents' sites, if they have names."""
    private: bool = False
    """True if each rank reads the samples of its own agents only; whatever is derived from them
    then goes along the edges of the network, counted."""
    given: Mapping[str, object] = MappingProxyType({})
    """The settings that the problem is made from, by name; every rank must have the same."""

    @property
    def holders(self) -> list[str]:
        """The agents in words, for the errors of others; none if every rank reads all samples."""
        return holders(self.n_agents, self.sites) if self.private else []

    def __repr__(self) -> str:
        return f"Deferred(n_agents={self.n_agents}, sites={self.sites})"

    def stand_in(self, more: int = 0) -> Deferred:
        """Return the problem with `FEW` and ``more`` random rows for each agent.

        An agent has at most its own number of rows. Without an outline the problem itself is
        returned. If the sizes depend on more than the rows, there are as many random samples as
        true ones.
        """
        sizes = None if self.outline is None else self.outline()
        if sizes is None or sizes.made is None:
            return self
        few = FEW + more
        make = sizes.made

        def drawn(agents: slice, d: int) -> list[Array]:
            shapes = [(min(count, few), d) for count in sizes.counts[agents]]
            each = enumerate(shapes, agents.start)
            return [stream(few, agent).standard_normal(shape) for agent, shape in each]

        def made(agents: slice, collective: Collective) -> Any:
            wanted = [in_units(drawn(agents, d), collective, sizes.wanted) for d in sizes.views]
            found = make(drawn(agents, sizes.width), agents, collective)
            known = tuple(one for _, units in wanted for one in units)
            return found.with_units(known or found.units)

        known = sizes if sizes.width else None
        return self._replace(build=made, open=None, sizes=known)


Sizes = Callable[[], Outline]
"""The sizes of a problem's data, computed when they are asked for."""


def on_each_rank(
    n_agents: int, make: Callable[[slice], object], outline: Sizes | None = None
) -> Deferred:
    """A problem that each rank makes for its agents without the others; where one fails, all
    fail."""

    def build(agents: slice, collective: Collective) -> object:
        with collective.together():
            return make(agents)

    return Deferred(n_agents, build, outline)


class Loadable:
    """A problem of one array, or a few, of each agent; its arguments are lists of them, settings,
    ``n_agents``, ``first_agent``."""

    _arrays: ClassVar[int] = 1
    """The number of arrays of each agent."""
    _keeps_sparse: ClassVar[bool] = False
    """True if sparse arrays stay sparse."""

    @classmethod
    def from_loader(
        cls,
        loader: Callable[[int], object],
        n_agents: int,
        *settings: object,
        center: bool = False,
        scale: bool = False,
        missing: Missing = "refuse",
        **more: object,
    ) -> Deferred:
        """A problem whose ranks each load their own agents.

        Parameters
        ----------
        loader
            From an agent's number to its array, or to a tuple of its arrays.
        center
            Subtract from each column its mean over all agents' samples.
        scale
            Also divide each column by its standard deviation over all agents' samples.
        missing
            ``"refuse"``, or ``"mean"`` for the mean of the column over all agents' samples in place
            of each NaN.
        settings, more
            The settings of the class.
        """

        cls._check_settings("from_loader(loader, n_agents, ...)", "n_agents", settings, more)

        def read(agents: slice, collective: Collective) -> list[View]:
            with collective.together():
                data = [loader(agent) for agent in range(agents.start, agents.stop)]
                views = zip(*data, strict=True) if cls._arrays > 1 else [data]
                views = [list(view) for view in views]
            named = zip("AB", views, strict=False)
            return [(same_names(name, view, agents.start, collective), ()) for name, view in named]

        wanted = Wanted(center, scale, missing)
        build = cls._builder(read, wanted, settings, {"n_agents": n_agents, **more})
        compared = cls._given(settings, more, wanted)
        return Deferred(n_agents, build, private=True, given=compared)

    @classmethod
    def from_sites(
        cls,
        sites: Any,
        *settings: object,
        columns: Any = None,
        center: bool = False,
        scale: bool = False,
        missing: Missing = "refuse",
        **more: object,
    ) -> Deferred:
        """A problem of sites that each hold their own samples; a rank opens only those of its own
        agents.

        Parameters
        ----------
        sites
            A dictionary from the names of the sites to their samples, a list or generator of
            samples, or their files as one text: ``"north.csv,south.csv"``, a folder or a pattern.
            Samples are an array, a sparse matrix of SciPy, a frame of pandas or polars, a file, or
            a function without arguments that returns one of these. A problem of several arrays
            takes a tuple of them for each site. None stands for the samples of other ranks.
        columns
            A `data.Columns` of the tables, whose columns are matched by name; by default all
            columns.
        center
            Subtract from each column its mean over the samples of all sites.
        scale
            Also divide each column by its standard deviation over the samples of all sites.
        missing
            ``"refuse"``, or ``"mean"`` for the mean of the column over the samples of all sites in
            place of each NaN.
        settings, more
            The other parameters of the class, such as its rank.

        Raises
        ------
        ValueError, TypeError
            On every rank, when the run begins: the samples of a site cannot be used; names site,
            row and column.
        """
        from ..data.sites import Sites, naming, sites_of
        from ..data.tables import Columns

        if misplaced := sorted({"exclude", "drop_missing", "label"} & more.keys()):
            listed = ", ".join(f"{name}={more[name]!r}" for name in misplaced)
            raise TypeError(
                f"{', '.join(misplaced)}: give columns=Columns({listed}), of decentorth.data"
            )
        cls._check_settings("from_sites(sites, ...)", "sites", settings, more)
        given, names = sites_of(sites)
        every = [name for name, _ in given]

        def entries(agents: slice) -> list[list[tuple[str, object]]]:
            own: list[Any] = [None] * len(given)
            for agent, (_, samples) in enumerate(given[agents], agents.start):
                own[agent] = samples() if callable(samples) else samples
            views = [own]
            if cls._arrays > 1:
                numbers = range(cls._arrays)
                views = [[None if one is None else one[k] for one in own] for k in numbers]
            return [list(zip(every, view, strict=True)) for view in views]

        wanted = Wanted(center, scale, missing)
        read = columns or Columns()
        read = read._replace(keep_missing=wanted.fill, keep_sparse=cls._keeps_sparse)
        found = Sites(entries, read)

        def outline() -> Outline:
            return Outline(found.counts, found.width, beside=found.beside, stored=found.stored)

        arguments = {"n_agents": len(given), **more}
        build = cls._builder(found.read, wanted, settings, arguments, lambda: naming(every))
        compared = cls._given(settings, more, wanted, columns=columns)
        return Deferred(
            len(given), build, outline, found.open, sites=names, private=True, given=compared
        )

    @classmethod
    def _builder(
        cls,
        read: Callable[[slice, Collective], Sequence[View]],
        wanted: Wanted,
        settings: Sequence[Any],
        more: Mapping[str, Any],
        named: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Callable[[slice, Collective], object]:
        """The function that makes a rank's problem of the views that ``read`` gives; errors are
        ``named``."""
        make: Callable[..., Any] = cls

        def build(agents: slice, collective: Collective) -> object:
            views = read(agents, collective)
            with named():
                lists, units = _in_units(views, agents.start, collective, wanted)
            place = {
                "first_agent": agents.start,
                **cls._of_all(lists[0], collective, units),
                **more,
            }
            with collective.together(), named():
                return make(*lists, *settings, **place).with_units(
                    units, [names for _, names in views]
                )

        return build

    @classmethod
    def _given(
        cls, settings: Sequence[Any], more: Mapping[str, Any], wanted: Wanted, **data: object
    ) -> dict[str, object]:
        """The settings of a problem by name, with the type of the problem and what is done to the
        data."""
        names = [*inspect.signature(cls).parameters][cls._arrays :]
        by_name = dict(zip(names, settings, strict=False))
        return {"type": cls, **by_name, **more, **wanted._asdict(), **data}

    @classmethod
    def _check_settings(
        cls, call: str, last: str, settings: Sequence[object], more: Mapping[str, object]
    ) -> None:
        """Raise a TypeError unless the class takes these settings, which follow the argument
        ``last`` of ``call``."""
        arrays = [None] * cls._arrays
        try:
            inspect.signature(cls).bind(*arrays, *settings, n_agents=1, first_agent=0, **more)
        except TypeError as error:
            call = f"{cls.__name__}.{call} takes the settings of {cls.__name__}"
            _, _, wrong = str(error).rpartition("bind() ")
            raise TypeError(f"{call} after {last}: {wrong}") from None

    @classmethod
    def _of_all(
        cls, data: list[Array], collective: Collective, units: Sequence[Units]
    ) -> dict[str, object]:
        """The arguments that need the data of all agents, of which ``data`` are those here, in
        these ``units``."""
        return {}


def _in_units(
    views: Sequence[View], first: int, collective: Collective, wanted: Wanted
) -> tuple[list[list[Any]], tuple[Units, ...]]:
    """The samples of each view in the units that are wanted, and these; ``first`` is the first
    agent's number."""
    if not wanted.any:
        return [list(view) for view, _ in views], ()
    found = []
    for view, names in views:
        with collective.together():
            checked = matrices("A", view, first, missing=wanted.fill, sparse=True)
            width = same_columns("A", checked, first)
        collective.same("the number of columns", str(width).encode())
        found.append(in_units(checked, collective, wanted, names))
    return [scaled for scaled, _ in found], tuple(one for _, units in found for one in units)


class SeparateColumns(ABC):
    """`decentorth.protocols.ColumnOracle` for a problem whose ``gradient`` takes points with any
    number of columns."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """The gradient, of the shape of ``x``."""

    def cache(self, x: Array) -> Array:
        """``(n_local, 0)``: an empty cache."""
        return np.empty((len(x), 0))

    # Not every column oracle has a cache.
    def refresh(self, cache: Array, x: Array, columns: Index) -> None:  # noqa: B027
        """The cache is empty: nothing to refresh."""

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """``(n_local, d, c)``: the columns ``(c,)`` of the gradient."""
        return self.gradient(x.take(columns, -1))
