"""The samples of sites, one for each agent: their files, and tables whose columns are matched by
name."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from decentorth.data.array_files import Extent
from decentorth.data.bundled import BUNDLED
from decentorth.data.files import MatrixFile, extension
from decentorth.data.frames import Frame, frame_rows
from decentorth.data.tables import Columns, lacking
from decentorth.protocols import Array, Collective
from topologies.line.words import suggestion

PLACE = "{agent}"
"""The place of an agent's number in the name of a file."""
_ARCHIVE = re.compile(r"(?i)(\.(?:npz|mat)):.*$")


def site_files(spec: str, n_agents: int | None = None) -> tuple[str, ...]:
    """The files that ``spec`` names, one for each site; none where it names a single file or a
    bundled set.

    Parameters
    ----------
    spec
        Files with commas between them, in their order; or a folder, a pattern (``sites/*.csv``) or
        a name with ``{agent}``, in natural order.
    n_agents
        With ``{agent}`` and fewer files in reach, the files of the agents 0 to ``n_agents - 1``.

    Raises
    ------
    ValueError
        There is no such file, or two have the same name without folder and ending.
    """
    path = Path(spec).expanduser()
    if spec in BUNDLED or (path.exists() and not path.is_dir()):
        return ()
    if path.is_dir():
        inside = [file for file in path.iterdir() if not file.name.startswith(".")]
        found = [str(file) for file in inside if extension(file)]
    elif "," in spec:
        return _named_apart(map(str.strip, spec.split(",")))
    elif PLACE in spec:
        found = glob.glob("[0-9]*".join(map(glob.escape, str(path).split(PLACE))))
        if len(found) < (n_agents or 0):
            return tuple(str(path).replace(PLACE, str(agent)) for agent in range(n_agents or 0))
    elif re.search(r"[*?\[]", spec):
        found = glob.glob(str(path))
    else:
        return ()
    if not found:
        raise ValueError(
            f"data {spec!r} names no file, seen from {Path.cwd()}: give those of the sites, as "
            "north.csv,south.csv"
        )
    return _named_apart(sorted(found, key=_natural))


def site_names(files: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the sites: their file names without folders and endings."""
    paths = [Path(_ARCHIVE.sub(r"\1", file)) for file in files]
    return tuple(path.name[: len(path.name) - len(extension(path))] for path in paths)


def _named_apart(given: Iterable[str]) -> tuple[str, ...]:
    """The files; ValueError if two of them give sites the same name."""
    files = tuple(given)
    names = site_names(files)
    if "" in names:
        raise ValueError(
            f"data {','.join(files)!r:.200} has an empty name: leave one comma between two files"
        )
    twice, count = Counter(names).most_common(1)[0]
    if count > 1:
        same = " and ".join(file for file, name in zip(files, names, strict=True) if name == twice)
        raise ValueError(
            f"{count} sites are named {twice!r}, after {same}: give each file a name of its own, "
            "or leave one out"
        )
    return files


def _natural(text: str) -> list[str | int]:
    """The key that sorts ``site-2`` before ``site-10``."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", text)]


class Opened(NamedTuple):
    """The samples of a site in the columns that are read."""

    extent: Extent
    """The numbers of samples that `read` makes and of their columns."""
    read: Callable[[], Array]
    """The samples ``(m_i, d)``."""


def _of_file(file: MatrixFile, columns: Columns) -> Opened:
    chosen = file.choosing(columns)
    return Opened(chosen.extent(), chosen.matrix)


def _of_frame(site: str, frame: Frame, columns: Columns) -> Opened:
    extent = Extent(len(frame), len(frame.columns))
    return Opened(extent, partial(frame_rows, site, frame, columns))


class SiteTable(NamedTuple):
    """The samples of a site before the columns of all sites are known to agree."""

    site: str
    """The site in words."""
    known: tuple[str, ...] | None
    """The names of all columns; None for samples without names."""
    width: int
    """The number of columns of samples without names."""
    open: Callable[[Columns], Opened]
    """The samples in these columns."""

    @classmethod
    def of(cls, name: str, samples: Any) -> SiteTable:
        """Describe the samples in a file, a frame or an array.

        Of a file only the names or the header are read.
        """
        site = f"site {name}"
        known = None
        width = 0
        match samples:
            case None:
                raise ValueError(
                    f"{site} belongs to this rank, and its samples are None here: give them, or "
                    "their file"
                )
            case str() | os.PathLike():
                file = MatrixFile(samples)
                if file.table is None:
                    width = file.extent().columns
                else:
                    known = file.table.names
                return cls(f"{site} ({file.name})", known, width, partial(_of_file, file))
            case Frame():
                known = tuple(map(str, samples.columns))
                return cls(site, known, 0, partial(_of_frame, site, samples))
        if np.ndim(samples) == 2:  # others are refused by the problem
            width = np.shape(samples)[1]
        return cls(site, None, width, lambda _: Opened(Extent(0, width), lambda: samples))

    def chosen(self, columns: Columns) -> tuple[str, ...]:
        """The names of the columns of the samples, in their order here."""
        out = (*columns.exclude, columns.label)
        return columns.samples or tuple(name for name in self.known or () if name not in out)

    def check(self, first: SiteTable, columns: Columns) -> None:
        """Raise ValueError unless the columns are those of the first site, in any order."""
        if self.known is None or first.known is None:
            if self.known != first.known:
                without, beside = (self, first) if self.known is None else (first, self)
                raise ValueError(
                    f"{without.site} lacks names of columns, and {beside.site} has: give all sites "
                    "a line of names"
                )
            if self.width != first.width:
                raise ValueError(
                    f"{self.site} has {self.width} columns, and {first.site} has {first.width}: "
                    "give all the same"
                )
            return
        wanted = first.chosen(columns)
        own = self.chosen(columns)
        for name in (*columns.samples, *columns.labels):
            if name not in self.known:
                raise ValueError(lacking(self.site, name, self.known))
        others = [name for name in self.known if name not in wanted]
        for name in wanted:
            if name not in self.known:
                near = suggestion(name, others) or ":"
                raise ValueError(
                    f"{self.site} lacks the column {name!r}{near} add it, or leave it out, "
                    f"exclude={(*columns.exclude, name)!r}"
                )
        for name in own:
            if name not in wanted:
                raise ValueError(
                    f"{self.site} has a column {name!r}, and {first.site} has none: leave it out, "
                    f"exclude={(*columns.exclude, name)!r}"
                )


def sites_of(sites: Any) -> tuple[list[tuple[str, Any]], tuple[str, ...]]:
    """The name and the samples of each site, and the names where they have any, else none.

    ``sites`` is a dictionary from names to samples, a list or generator of samples, or a text for
    `site_files`.
    """
    match sites:
        case str() | os.PathLike():
            sites = site_files(os.fspath(sites)) or (os.fspath(sites),)
        case Frame():
            raise TypeError(
                "sites is one frame: give a dictionary of frames, as data.split_frame(frame, "
                "by=...) makes it"
            )
        case Mapping():
            given = [(str(name), samples) for name, samples in sites.items()]
            return given, tuple(name for name, _ in given)
        case _ if callable(sites):
            raise TypeError(
                "sites is a function: give it to from_loader, with the number of agents"
            )
    every = list(sites)
    if every and all(isinstance(one, str | os.PathLike) for one in every):
        files = _named_apart(map(os.fspath, every))
        return list(zip(site_names(files), files, strict=True)), site_names(files)
    return [(str(number), samples) for number, samples in enumerate(every)], ()


@contextlib.contextmanager
def naming(names: Sequence[str]) -> Iterator[None]:
    """Return a context in which errors name sites in place of agent numbers."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = re.sub(r"\bagent (\d+)\b", lambda found: f"site {names[int(found[1])]}", str(error))
        error.args = (text,)
        raise


View: TypeAlias = Sequence[tuple[str, Any]]
"""The name of each of all sites, and its samples."""
Samples: TypeAlias = tuple[list[Array], tuple[str, ...]]
Matched: TypeAlias = tuple[list[SiteTable], Columns]


class Sites:
    """The samples of all sites; a rank opens only those of its own agents.

    Headers are read first, then the rest.

    Parameters
    ----------
    entries
        A function of the slice of a rank's agents. For each view it returns the name and the
        samples of every site: a file, frame or array. None may stand for the samples of other
        ranks.
    columns
        The columns that are read, in the order of those of the first site.

    Raises
    ------
    ValueError
        On every rank: samples cannot be read, or their columns differ from those of the first
        site. The message names site and column.
    """

    counts: list[int]
    """The number of samples of each of all sites that reading makes, once they are open."""
    width: int
    """The number of the columns of all views."""
    beside: float
    """The most bytes that reading a site takes beside its samples."""
    stored: float | None
    """The most numbers that a row takes on average at a site here, where all are sparse files."""

    def __init__(self, entries: Callable[[slice], Sequence[View]], columns: Columns) -> None:
        for name, given in columns._asdict().items():
            if name != "label" and isinstance(given, str):
                raise TypeError(
                    f"{name} of Columns must be a tuple of names, such as {(given,)!r}, got "
                    f"{given!r}"
                )
        self._entries = entries
        self._columns = columns
        self._agents: slice | None = None
        self._views: list[tuple[list[Opened], tuple[str, ...]]] = []

    def open(self, agents: slice, collective: Collective) -> None:
        """Open the sites ``agents``, unless they are open; called by all ranks."""
        if self._agents == agents:
            return
        with collective.together():
            views = self._entries(agents)
        matched = [_matched(view, self._columns, agents, collective) for view in views]
        with collective.together():
            self._views = [
                ([table.open(columns) for table in tables], columns.samples)
                for tables, columns in matched
            ]
        extents = [[one.extent for one in view] for view, _ in self._views]
        rows = json.dumps([extent.rows for extent in extents[0]])
        every = collective.everyone(rows.encode())
        self.counts = [count for part in every for count in json.loads(part)]
        self.width = sum(view[0].columns for view in extents)
        self.beside = max(extent.beside for view in extents for extent in view)
        kept = [extent.stored for extent in extents[0]] if self._columns.keep_sparse else [None]
        self.stored = None if None in kept else max(filter(None, kept), default=0.0)
        self._agents = agents

    def read(self, agents: slice, collective: Collective) -> list[Samples]:
        """For each view the samples of the sites ``agents``, and the columns' names, if any; called
        by all ranks."""
        self.open(agents, collective)
        views = self._views
        self._views = []
        self._agents = None
        with collective.together():
            return [([one.read() for one in sites], names) for sites, names in views]


def _matched(given: View, columns: Columns, agents: slice, collective: Collective) -> Matched:
    """The sites ``agents`` and the columns that are read of them, in the order of those of the
    first site."""
    with collective.together():
        tables = [SiteTable.of(*given[agent]) for agent in range(agents.start, agents.stop)]
    first = [tables[0].site, tables[0].known, tables[0].width] if agents.start == 0 else None
    known = {name for one in tables for name in one.known or ()}
    told = json.dumps([first, sorted(known.intersection(columns.exclude))]).encode()
    every = [json.loads(text) for text in collective.everyone(told)]
    site, names, width = next(head for head, _ in every if head)
    known_there = None if names is None else tuple(names)
    leading = tables[0]._replace(site=site, known=known_there, width=width)
    with collective.together():
        if names is None and columns.by_name:
            raise ValueError(
                f"{site} lacks names of columns: leave out {columns.given()}, which is for tables"
            )
        for name in columns.exclude:
            if not any(name in found for _, found in every):
                near = suggestion(name, leading.known or ())
                raise ValueError(f"no site has the column {name!r} to exclude{near}")
        for one in tables:
            one.check(leading, columns)
        common = columns
        if names is not None:
            common = columns._replace(samples=leading.chosen(columns))
    return tables, common
