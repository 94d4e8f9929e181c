"""The base class of problems: the agents of this process, restriction to fewer, and blocks that fit
in cache."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ..display import Shown
from ..protocols import Array, Collective, ConstraintSet, Index
from ..settings import check
from .common.gradient_check import GradientCheck, random_direction, taylor_slopes, worst
from .common.pooled_rows import Units

BLOCK_BYTES = 1 << 18
"""The bytes of the points of a run of agents that are evaluated together, so that temporaries stay
in cache."""

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
    about_columns: Mapping[str, str] = MappingProxyType({})
    """Notes on the columns of the samples, by the names of their lines: which were left out, and
    that they are as given."""
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
