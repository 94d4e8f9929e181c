"""Problems that each rank builds for its own agents, and the sizes of their data before there are
data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ..protocols import Array, Collective
from .base import stream
from .common.pooled_rows import ASIS, Wanted, in_units

FEW = 2
"""The random samples of each agent that stand for its data where only sizes matter."""


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
    about_columns: Mapping[str, str] = MappingProxyType({})
    """Notes on the columns that are known in advance (`AgentProblem.about_columns`)."""

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
            found = found.with_units(known or found.units)
            found.about_columns = dict(sizes.about_columns)
            return found

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
