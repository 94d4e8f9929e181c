"""The division of the samples of a file or bundled set over the agents, by a problem's settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypedDict

import numpy as np

from ...protocols import Array, Collective, Index
from ...settings import Count, Form, Positive, Settings
from ..base import AgentProblem, View
from ..deferred import Deferred, Outline
from .checks import sparse_samples
from .pooled_rows import AS_GIVEN, ASIS, HERE, Missing, Units, Wanted, in_units
from .pooled_rows import rows as number_of_rows

if TYPE_CHECKING:
    from ...data import Columns
    from ...data.array_files import Extent
    from ...data.sites import Sites

SampleFile = Annotated[
    str,
    "A file with one sample per row (.npy, .npz, .csv, .parquet, .mat, svmlight, Matrix Market "
    "or idx), the files of sites, one for each agent (north.csv,south.csv, a folder, a pattern, "
    "site-{agent}.npy), or bundled data (digits).",
]
AgentSamples = Annotated[Count, "Samples of each agent (generated data)."]
Shuffling = Annotated[
    bool, "Shuffle the file's rows over the agents by the seed; otherwise consecutive rows."
]
Centering = Annotated[bool, "Subtract from each column its mean over all samples."]


def _switch(value: object) -> bool:
    """A value of ``scale``; a TypeError for the number that it was once."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(
        f"scale must be true or false, got {value!r}: to divide all samples by one number give "
        "divide_by"
    )


Scaling = Annotated[bool, Form(_switch)]
TABULAR = ("columns", "label_column", "exclude", "drop_missing", "missing", "key")
DIVIDED = ("partition", "labels", "dirichlet_alpha", "shuffle", "scale", *TABULAR)


@dataclass(frozen=True, kw_only=True)
class Sourced(Settings):
    """Settings of data of files, or generated."""

    _source_field: ClassVar[str] = "data"
    """The setting that names the file."""
    _generators: ClassVar[tuple[str | None, ...]] = (None,)
    """Its values with which the data are generated."""
    _for_generated: ClassVar[tuple[str, ...]] = ()
    """The settings of generated data."""
    _for_files: ClassVar[tuple[str, ...]] = ()
    """The settings of data of files."""

    @property
    def source(self) -> Any:
        """The file of the data, or what they are generated from."""
        return vars(self)[self._source_field]

    @property
    def from_file(self) -> bool:
        """True unless the data are generated."""
        return self.source not in self._generators

    def idle(self) -> dict[str, str]:
        """The settings that have no effect, and why."""
        named = " or ".join(filter(None, self._generators))
        if self.from_file:
            given = f"{self._source_field} {named}" if named else f"no {self._source_field}"
            return dict.fromkeys(self._for_generated, f"it is for generated data ({given})")
        return dict.fromkeys(self._for_files, "it is for data of a file")


@dataclass(frozen=True, kw_only=True)
class DividedSettings(Sourced):
    """Settings of samples that are divided over the agents.

    Parameters
    ----------
    columns
        The names of the columns of the samples in a table (.csv, .parquet); by default all but that
        of the labels.
    label_column
        The name of the column of labels in a table.
    exclude
        The names of columns of a table that are left out, as an identifier; the others are the
        samples.
    drop_missing
        Leave out the rows of a table in which a cell of these columns is missing.
    missing
        Missing cells are refused, or each gets the mean of its column over all agents' samples.
    key
        The name of a column by which the rows of the sites' files are matched, where each has
        features of the same samples (split features); by default row by row.
    partition
        How samples are divided: even, by-label (each agent sees few labels), dirichlet (shares of
        each label drawn at random) or by-column (an agent for each label, as a station).
    labels
        File with one label per sample, for all but even; bundled data, svmlight files and tables
        with label_column bring their own.
    dirichlet_alpha
        Concentration of dirichlet: small is heterogeneous, large is even.
    shuffle
        Shuffle the samples by the seed before an even division; otherwise consecutive rows.
    scale
        Subtract from each column its mean, and divide it by its standard deviation, over all
        agents' samples.
    """

    columns: tuple[str, ...] = ()
    label_column: str | None = None
    exclude: tuple[str, ...] = ()
    drop_missing: bool = False
    missing: Missing = "refuse"
    key: str | None = None
    partition: Literal["even", "by-label", "dirichlet", "by-column"] = "even"
    labels: str | None = None
    dirichlet_alpha: Positive = 0.5
    shuffle: bool = True
    scale: Scaling = False

    _for_files: ClassVar[tuple[str, ...]] = DIVIDED
    keeps_sparse: ClassVar[bool] = False
    """True if the problem keeps the samples of sparse files sparse."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drop_missing and self.missing == "mean":
            raise ValueError(
                "drop_missing leaves out rows whose cells missing mean fills: give one"
            )
        if self.columns and self.exclude:
            raise ValueError("columns are read, and exclude is left out: give one of the two")

    def selected(self) -> tuple[tuple[str, ...], str | None, bool, tuple[str, ...], bool]:
        """The columns that are read, as `data.Columns` has them."""
        fill = self.missing == "mean"
        return self.columns, self.label_column, self.drop_missing, self.exclude, fill

    @property
    def wanted(self) -> Wanted:
        """The units requested for the samples of the problem."""
        return Wanted(scale=self.scale is True, missing=self.missing)

    def idle(self) -> dict[str, str]:
        found = {}
        if self.partition != "dirichlet":
            found["dirichlet_alpha"] = "it is for partition dirichlet"
        if self.partition == "even":
            found["labels"] = "they are for partition by-label, dirichlet and by-column"
            return found | super().idle()
        if self.labels is not None:
            found["label_column"] = "labels has them"
        return found | {"shuffle": "it is for an even partition"} | super().idle()


@dataclass(frozen=True, kw_only=True)
class Centred(DividedSettings):
    """Settings of samples that may be centred."""

    center: Centering = True

    @property
    def wanted(self) -> Wanted:
        return super().wanted._replace(center=self.center)


_ROW_NUMBERS = 16.0
"""The bytes of the numbers of all rows, for each row, while they are divided over the agents."""
Build = Callable[[slice, Collective], AgentProblem[Any]]
"""The problem of a rank's agents; called by all ranks."""
Draw = Callable[[int, int], "SampleSource"]
"""Generated samples, for a number of agents and a seed."""


class SampleSource(ABC):
    """The samples of all agents, from files or generated; `read` gives those of some agents, one
    list for each view."""

    n_agents: int
    counts: Sequence[int]
    """The number of samples of each agent."""
    width: int
    """The number of columns of all views together."""

    sites: tuple[str, ...] = ()
    """The names of the sites, where each agent has files of its own."""
    units: tuple[Units, ...] = ()
    """The common units of each view, once samples are read that are to be in these."""
    column_names: Sequence[Sequence[str]] = ()
    """The names of the columns of each view, once samples are read."""
    about_columns: Mapping[str, str] = MappingProxyType({})
    """Notes on the columns, once samples are read (`AgentProblem.about_columns`)."""
    copies: float = 1.0
    """How many times samples are held while they are read."""
    beside: float = 0.0
    """The bytes that a process takes, beside the samples, while it reads."""
    stored: float | None = None
    """The numbers that a sample takes on average, where the samples stay sparse."""
    wanted: Wanted = ASIS
    """The units in which samples are given."""

    @property
    def as_given(self) -> bool:
        """True for samples of a user that could be centred and scaled, and are not."""
        return False

    @abstractmethod
    def found(self, agents: slice, collective: Collective) -> list[View]:
        """The samples ``(m_i, d)`` of each agent in ``agents`` as they are, for each view, and the
        names of its columns."""

    def read(self, agents: slice, collective: Collective = HERE) -> list[list[Array]]:
        """Return the samples in the requested units, for each view.

        All ranks call it, and fail together.
        """
        views = self.found(agents, collective)
        with collective.together():
            views = [(sparse_samples(view, agents.start), names) for view, names in views]
        scaled = [in_units(view, collective, self.wanted, names) for view, names in views]
        self.units = tuple(one for _, found in scaled for one in found)
        self.column_names = [names for _, names in views]
        if self.as_given:
            self.about_columns = AS_GIVEN
        return [view for view, _ in scaled]

    def deferred(self, build: Build, outline: Callable[[], Outline]) -> Deferred:
        """The problem of these samples, whose ``outline`` lacks their numbers and what reading
        takes."""

        def built(agents: slice, collective: Collective) -> AgentProblem[Any]:
            problem = build(agents, collective).with_units(self.units, self.column_names)
            problem.about_columns = dict(self.about_columns)
            return problem

        def sizes() -> Outline:
            size = outline()
            return size._replace(
                counts=self.counts,
                width=size.width or self.width,
                views=size.views or (self.width,),
                copies=max(size.copies, self.copies),
                beside=self.beside,
                wanted=self.wanted,
                stored=self.stored,
                about_columns=AS_GIVEN if self.as_given else {},
            )

        private = bool(self.sites)
        return Deferred(self.n_agents, built, sizes, self.open, sites=self.sites, private=private)

    # Generated samples are in no file.
    def open(self, agents: slice, collective: Collective) -> None:  # noqa: B027
        """Open the files of sites; called by all ranks before the sizes are asked for, each with
        its agents."""

    def numbers(self) -> int:
        """The number of entries of all samples."""
        return sum(self.counts) * self.width


@dataclass
class Division(SampleSource):
    """The samples of files or bundled sets, one for each view, divided over the agents by rows.

    All views are divided in the same way. Nothing is read before it is used; if a file has a
    header, the sizes need only that. The labels are those of the first view.
    """

    data: Sequence[str]
    settings: DividedSettings
    n_agents: int
    seed: int

    @cached_property
    def views(self) -> list[Any]:
        """The opened files or bundled sets."""
        from ...data import resolve

        columns = self.columns
        self._refuse_key()
        if len(self.data) > 1 and columns.by_name:
            raise ValueError(
                f"{columns.given()} is for one table, not one for each view: leave it out"
            )
        return [resolve(name, columns) for name in self.data]

    @property
    def columns(self) -> Columns:
        """The columns that are read."""
        from ...data import Columns

        read = Columns(*self.settings.selected())
        return read._replace(keep_sparse=self.settings.keeps_sparse)

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The names of the columns of each view; none without names."""
        return [view.names for view in self.views]

    @cached_property
    def parts(self) -> list[Index]:
        """The rows of each agent."""
        from ...data import load_labels, partition

        settings = self.settings
        first = self.views[0]
        for view in self.views[1:]:
            if view.shape[0] != first.shape[0]:
                raise ValueError(
                    f"views must have a row for each sample, but {first.name} has {first.shape[0]} "
                    f"rows and {view.name} {view.shape[0]}"
                )
        labels = None
        alpha = settings.dirichlet_alpha
        if settings.partition != "even":
            labels = first.labels if settings.labels is None else load_labels(settings.labels)
        return partition(
            settings.partition,
            first.shape[0],
            self.n_agents,
            labels,
            self.seed,
            alpha,
            settings.shuffle,
        )

    @cached_property
    def _extents(self) -> list[Extent]:
        return [view.extent() for view in self.views]

    @cached_property
    def counts(self) -> Sequence[int]:  # type: ignore[override]  # computed at first use
        if self.files:
            return self._sites.counts
        rows = {extent.rows for extent in self._extents}
        if self.settings.partition != "even" or len(rows) > 1 or max(rows) < self.n_agents:
            return [len(part) for part in self.parts]
        return even_counts(max(rows), self.n_agents)

    @cached_property
    def width(self) -> int:  # type: ignore[override]
        if self.files:
            return self._sites.width
        return sum(extent.columns for extent in self._extents)

    @property
    def wanted(self) -> Wanted:  # type: ignore[override]
        return self.settings.wanted

    @property
    def as_given(self) -> bool:
        from ...data.bundled import BUNDLED

        settings = self.settings
        if not isinstance(settings, Centred) or self.data[0] in BUNDLED:
            return False
        return not (settings.center or settings.scale)

    @property
    def copies(self) -> float:  # type: ignore[override]
        return 1.0 + self.wanted.any

    @cached_property
    def beside(self) -> float:  # type: ignore[override]
        if self.files:
            return self._sites.beside
        return max(extent.beside + _ROW_NUMBERS * extent.rows for extent in self._extents)

    @cached_property
    def stored(self) -> float | None:  # type: ignore[override]
        if not self.settings.keeps_sparse:
            return None
        stored = self._sites.stored if self.files else self._extents[0].stored
        return None if stored is None else min(stored, float(self.width))

    @cached_property
    def files(self) -> list[tuple[str, ...]]:
        """The files of the sites, for each view; empty for views whose rows are divided."""
        from ...data.sites import site_files

        files = [site_files(name, self.n_agents) for name in self.data]
        if not any(files):
            return []
        for name, view in zip(self.data, files, strict=True):
            if len(view) != self.n_agents:
                raise ValueError(
                    f"data {name!r:.200} names {max(len(view), 1)} files, one for each agent, "
                    f"but n_agents is {self.n_agents}: leave it out"
                )
        if self.settings.partition != "even":
            raise ValueError(
                f"partition {self.settings.partition} divides one table, and here each site has "
                "its own: leave it out"
            )
        return files

    @cached_property
    def sites(self) -> tuple[str, ...]:  # type: ignore[override]
        from ...data.sites import site_names

        return site_names(self.files[0]) if self.files else ()

    @cached_property
    def _sites(self) -> Sites:
        from ...data.sites import Sites

        self._refuse_key()
        given = [list(zip(self.sites, files, strict=True)) for files in self.files]
        return Sites(lambda agents: given, self.columns)

    def _refuse_key(self) -> None:
        if self.settings.key is not None:
            raise ValueError(
                "key matches the rows of files with features of the same samples: split features, "
                "with a file for each site, or exclude the column"
            )

    def open(self, agents: slice, collective: Collective) -> None:
        if self.files:
            self._sites.open(agents, collective)

    def found(self, agents: slice, collective: Collective) -> list[View]:
        if self.files:
            return [*self._sites.read(agents, collective)]
        with collective.together():
            views = [view.divided(self.parts[agents]) for view in self.views]
            return list(zip(views, self.names, strict=True))


@dataclass
class Generated(SampleSource):
    """Samples that are drawn agent by agent: ``draw`` maps an agent's number to its arrays, one for
    each view."""

    counts: Sequence[int]
    width: int
    draw: Callable[[int], Sequence[Array]]
    wanted: Wanted = ASIS

    @property
    def n_agents(self) -> int:  # type: ignore[override]
        return len(self.counts)

    def found(self, agents: slice, collective: Collective) -> list[View]:
        with collective.together():
            drawn = [self.draw(agent) for agent in range(agents.start, agents.stop)]
        return [(list(view), ()) for view in zip(*drawn, strict=True)]


class DataPlace(TypedDict):
    """The arguments of a problem that has the data of some agents only."""

    n_agents: int
    first_agent: int


class PooledPlace(DataPlace):
    """The arguments of a problem that adds up the data of all agents too."""

    collective: Collective


def placed(n_agents: int, agents: slice, collective: Collective) -> PooledPlace:
    """The arguments of a problem of the data of ``agents``, which adds up those of all."""
    return {"n_agents": n_agents, "first_agent": agents.start, "collective": collective}


class Part(NamedTuple):
    """The samples of one rank's agents, or random samples in their place."""

    rows: list[Array]
    place: DataPlace
    total: int
    """The number of samples of all agents; the counts of a source may be estimates."""


def samples_of(
    settings: DividedSettings, n_agents: int, seed: int, draw: Draw | None = None
) -> SampleSource:
    """The samples of all agents: those of a file, which the seed divides over the agents, or those
    that ``draw`` generates."""
    if settings.from_file or draw is None:
        return Division([settings.source], settings, n_agents, seed)
    return draw(n_agents, seed)


def files_of_features(settings: DividedSettings, n_agents: int) -> Division | None:
    """The files of the sites, where each has features of the same samples; else None."""
    source = Division([settings.source], settings, n_agents, 0)
    if not settings.from_file or not source.files:
        return None
    if settings.drop_missing:
        raise ValueError(
            "drop_missing leaves out rows that other sites have: leave it out, or give "
            "missing='mean'"
        )
    return source


def of_one_view(
    source: SampleSource,
    make: Callable[[Part], AgentProblem[Any]],
    outline: Callable[[int], Outline],
    prepare: Callable[[list[Array], Collective], list[Array]],
) -> Deferred:
    """A problem of the samples of each agent, in one view, that is made without asking other ranks.

    Parameters
    ----------
    make
        The problem of the samples of some agents.
    outline
        The sizes, for samples of d numbers, beside those of the samples themselves.
    prepare
        The samples as the problem has them; may use the collective.
    """

    def part(rows: list[Array], agents: slice, total: int) -> Part:
        return Part(rows, DataPlace(n_agents=source.n_agents, first_agent=agents.start), total)

    def build(agents: slice, collective: Collective) -> AgentProblem[Any]:
        (rows,) = source.read(agents, collective)
        rows = prepare(rows, collective)
        total = number_of_rows(rows, collective, source.units)
        with collective.together():
            return make(part(rows, agents, total))

    def made(rows: list[Array], agents: slice, collective: Collective) -> AgentProblem[Any]:
        total = source.n_agents * len(rows[0])
        if not source.wanted.any:
            total = number_of_rows(rows, collective)  # counted as for the true samples
        return make(part(rows, agents, total))

    return source.deferred(build, lambda: outline(source.width)._replace(made=made))


def even_counts(total: int, n_agents: int) -> list[int]:
    """The number of rows of each agent in an even division."""
    each, more = divmod(total, n_agents)
    return [each + (agent < more) for agent in range(n_agents)]
