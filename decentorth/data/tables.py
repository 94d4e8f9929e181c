"""Tables with named columns: delimited text with a line of names, and Parquet (needs the extra
``tables``).

Without a line of names the columns of text are called 1, 2 and so on. A cell that is empty, NA,
N/A, NaN, null or none is missing. Text is read as a stream, Parquet by row groups, of which those
without a wanted row are skipped.
"""

from __future__ import annotations

import csv
import math
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from decentorth.data.arrays import Content, Extent, Reader
from decentorth.data.checks import DROP, LEAVE_OUT
from decentorth.data.labels import Labels, typed
from decentorth.data.optional import needing
from decentorth.data.text import about_lines, delimiter_of, shown, text_labels
from decentorth.protocols import Array, Index
from topologies.matrix_files import reading, require_unpacked
from topologies.memory import SMALL, require
from topologies.words import is_number, suggestion

_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))
_BATCH = 1 << 12
"""Rows of Parquet that are held at a time, besides the wanted numbers."""
_ROW_BYTES = 100
"""The bytes of the numbers of the wanted rows, for each row, while they are read."""
_LISTED = 20


class Columns(NamedTuple):
    """The columns of a table that are read.

    Examples
    --------
    >>> from decentorth.data import Columns
    >>> Columns(samples=("height", "mass"), drop_missing=True)
    Columns(samples=('height', 'mass'), label=None, drop_missing=True, exclude=(), keep_missing=False, keep_sparse=False)
    """

    samples: tuple[str, ...] = ()
    """The names of the columns of numbers, in their order; none for all but that of the labels."""
    label: str | None = None
    """The name of the column of labels."""
    drop_missing: bool = False
    """Leave out the rows in which a cell of these columns is missing."""
    exclude: tuple[str, ...] = ()
    """The names of columns that are left out, where ``samples`` names none."""
    keep_missing: bool = False
    """Return missing cells as NaN; otherwise they are refused."""
    keep_sparse: bool = False
    """Return the rows of sparse files as a ``csr_array``; otherwise they are made dense."""

    @property
    def by_name(self) -> bool:
        """True if columns are chosen by name, or rows by their cells, which needs a table."""
        return self._replace(keep_missing=False, keep_sparse=False) != Columns()

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of the column of labels, if there is one."""
        return (self.label,) if self.label is not None else ()

    def given(self) -> str:
        """The choices as text, in the form of keyword arguments."""
        settings = self._replace(keep_missing=False, keep_sparse=False)._asdict()
        return ", ".join(f"{name}={value!r}" for name, value in settings.items() if value)


ALL = Columns()
"""All columns of numbers."""
Rows: TypeAlias = Iterator[tuple[int, Sequence[Any]]]
"""The numbers and the cells of rows."""


class Table(Reader):
    """A matrix in columns of a table, with labels in another column."""

    repair = DROP

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(path)
        self.columns = columns

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""

    @abstractmethod
    def count(self) -> int:
        """The number of all rows."""

    def about(self) -> int:
        """Return the number of rows, estimated if no header holds it."""
        return self.count()

    @abstractmethod
    def _cells(self, places: Sequence[int], wanted: Index | None) -> Rows:
        """The numbers of the ``wanted`` rows (sorted; None: all) and, in the columns at ``places``,
        their cells."""

    def place_of(self, row: int, name: str) -> str:
        """Describe a cell of the row with this number, counted from 0."""
        return f"row {row} (counted from 0), column {name!r}"

    def number(self, name: str) -> int:
        """The number of a column; ValueError if none or several have that name."""
        count = self.names.count(name)
        if count == 1:
            return self.names.index(name)
        listed = ", ".join([*self.names[:_LISTED], *["..."] * (len(self.names) > _LISTED)])
        wrong = f"{count} columns {name!r};"
        if not count:
            wrong = f"no column {name!r}{suggestion(name, self.names) or ';'}"
        raise ValueError(f"{self.path} has {wrong} its columns are {listed}")

    def numbers(self, names: Sequence[str], wanted: Index | None = None) -> Array:
        """``(k, len(names))``: the wanted rows of some columns as numbers, NaN where a cell is
        missing."""
        rows = self._cells([self.number(name) for name in names], wanted)
        found = chain.from_iterable(self._row(row, cells, names) for row, cells in rows)
        return np.fromiter(found, np.float64).reshape(-1, len(names))

    def _row(self, row: int, cells: Sequence[Any], names: Sequence[str]) -> list[float]:
        """The cells of a row as numbers; the ValueError names all columns whose cell is none."""
        numbers = [number for number in map(_number, cells) if number is not None]
        if len(numbers) < len(cells):
            texts = [place for place, cell in enumerate(cells) if _number(cell) is None]
            first, out = texts[0], tuple(names[place] for place in texts)
            raise ValueError(
                f"{self.path}: {self.place_of(row, names[first])}: "
                f"{shown(str(cells[first]).strip())} is not a number; leave such columns out, "
                f"exclude={(*self.columns.exclude, *out)!r}, or take this one as that of the "
                f"labels, label={names[first]!r}"
            )
        return numbers

    def words(self, name: str, wanted: Index | None = None, repair: str = LEAVE_OUT) -> Labels:
        """``(k,)``: the wanted cells of a column as labels, as they are written; none may be
        missing."""
        texts: list[str] = []
        for row, (cell,) in self._cells([self.number(name)], wanted):
            if _is_missing(cell):
                where = self.place_of(row, name)
                raise ValueError(f"{self.path}: {where}: the cell is missing. {repair}")
            texts.append(sys.intern(_text(cell)))  # equal labels take memory once
        return text_labels(texts, self.path)

    @cached_property
    def samples(self) -> tuple[str, ...]:
        """The names of the columns of the matrix."""
        out = (*self.columns.exclude, *self.columns.labels)
        found = self.columns.samples or tuple(name for name in self.names if name not in out)
        absent = () if self.columns.samples else self.columns.exclude
        for name in (*found, *self.columns.labels, *absent):
            self.number(name)
            if found.count(name) > 1:
                raise ValueError(f"column {name!r} is named more than once in columns: leave one")
        if not found:
            raise ValueError(f"{self.path} holds only the columns {', '.join(out)}: name fewer")
        return found

    @cached_property
    def _kept(self) -> Index:
        """The numbers of the rows that are read."""
        places = [self.number(name) for name in (*self.samples, *self.columns.labels)]
        total = self.count()
        if not total:
            raise ValueError(f"{self.path} is empty: it holds no rows")
        if not self.columns.drop_missing:
            return np.arange(total)
        rows = self._cells(places, None)
        whole = (row for row, cells in rows if not any(map(_is_missing, cells)))
        kept = np.fromiter(whole, np.int64)
        if not kept.size:
            raise ValueError(f"{self.path} has a missing cell in every row")
        return kept

    def place(self, row: int, column: int) -> str:
        return self.place_of(int(self._kept[row]), self.samples[column])

    @cached_property
    def shape(self) -> tuple[int, int]:
        return len(self._kept), len(self.samples)

    def extent(self) -> Extent:
        if self.path.stat().st_size <= SMALL:
            return super().extent()
        rows = self.about()
        return Extent(rows, len(self.samples), float(_ROW_BYTES * rows))

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        needed = self._kept[slice(None) if wanted is None else wanted]
        require(8.0 * len(needed) * len(self.samples), "the matrix")
        block = self.numbers(self.samples, needed)
        if len(block) != len(needed):
            raise ValueError(
                f"{self.path} is truncated: {len(block)} of {len(needed)} rows are there"
            )
        return block

    @property
    def has_both(self) -> bool:
        return self.columns.label is not None

    def labels(self) -> Labels:
        """The labels as they are written."""
        if self.columns.label is not None:
            return self.words(self.columns.label, self._kept, DROP)
        if len(self.names) > 1:
            raise ValueError(
                f"{self.path} has {len(self.names)} columns: name that of the labels, as "
                f"label={self.names[-1]!r}"
            )
        return self.words(self.names[0])


def _text(cell: Any) -> str:
    """The text of a cell."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return str(cell).strip()


def _number(cell: Any) -> float | None:
    """The number in a cell, NaN where it is missing; None for other cells."""
    if _is_missing(cell):
        return math.nan
    if not isinstance(cell, str) or is_number(cell.strip()):
        with suppress(TypeError):  # of dates and lists
            return float(cell)
    return None


def _is_missing(cell: Any) -> bool:
    """True for a cell without a value."""
    return cell is None or _text(cell).lower() in _MISSING


class TextTable(Table):
    """A table in delimited text; quoted cells may hold the delimiter."""

    @cached_property
    def _start(self) -> tuple[int, str, tuple[str, ...], bool]:
        """The number of lines before the first row or line of names, the delimiter, the names, and
        True if a line has them."""
        about_lines(self.path)
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for before, line in enumerate(file):
                if not line.strip() or line.startswith("#"):
                    continue
                mark = delimiter_of(line) or ","
                fields = [field.strip() for field in next(csv.reader([line], delimiter=mark), [])]
                if all(map(is_number, fields)):
                    return before, mark, tuple(str(i) for i in range(1, len(fields) + 1)), False
                return before, mark, tuple(fields), True
        raise ValueError(f"{self.path} is empty: write a line of names")

    @property
    def names(self) -> tuple[str, ...]:
        return self._start[2]

    def count(self) -> int:
        return sum(1 for _ in self._data())

    def about(self) -> int:
        return about_lines(self.path)

    def _data(self) -> Iterator[tuple[int, list[str]]]:
        """The number of the last line of each row, counted from 1, and its cells."""
        before, mark, names, headed = self._start
        with self.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for _ in range(before + headed):
                next(file)
            reader = csv.reader(file, delimiter=mark, strict=True)
            try:
                for fields in reader:
                    line = before + headed + reader.line_num
                    if len(fields) == len(names):
                        yield line, fields
                    elif any(map(str.strip, fields)):
                        raise ValueError(
                            f"{self.path}: line {line} has {len(fields)} columns, but there are "
                            f"{len(names)} names"
                        )
            except csv.Error as error:
                line = before + headed + reader.line_num
                raise ValueError(f"{self.path}: line {line}: {error}") from error

    def _cells(self, places: Sequence[int], wanted: Index | None) -> Rows:
        chosen = None if wanted is None else frozenset(wanted.tolist())
        for row, (_, fields) in enumerate(self._data()):
            if chosen is None or row in chosen:
                yield row, [fields[place] for place in places]

    def place_of(self, row: int, name: str) -> str:
        line, _ = next(islice(self._data(), row, None))
        return f"line {line}, column {name!r}"


class ParquetTable(Table):
    """A table in a Parquet file, through pyarrow."""

    @cached_property
    def _file(self) -> Any:
        with needing("pyarrow", f"reading {self.path} (Parquet)"):
            from pyarrow import parquet
        with reading(self.path, " as Parquet"):
            return parquet.ParquetFile(self.path)

    @cached_property
    def names(self) -> tuple[str, ...]:
        with reading(self.path, " as Parquet"):
            return tuple(self._file.schema_arrow.names)

    def count(self) -> int:
        rows = int(self._file.metadata.num_rows)
        with reading(self.path, " as Parquet"):
            require_unpacked(8 * rows, self.path.stat().st_size)
        return rows

    def _cells(self, places: Sequence[int], wanted: Index | None) -> Rows:
        chosen = None if wanted is None else frozenset(wanted.tolist())
        names = [self.names[place] for place in places]
        end = 0
        for number in range(self._file.num_row_groups):
            begin, end = end, end + self._file.metadata.row_group(number).num_rows
            if wanted is None or np.diff(np.searchsorted(wanted, [begin, end]))[0]:
                for row, cells in enumerate(self._group(number, names), begin):
                    if chosen is None or row in chosen:
                        yield row, cells

    def _group(self, number: int, names: list[str]) -> Iterator[Sequence[Any]]:
        """The rows of a row group."""
        with reading(self.path, " as Parquet"):
            size = self._file.metadata.row_group(number).total_byte_size
            require_unpacked(size, self.path.stat().st_size)
            chosen = {"row_groups": [number], "columns": names}
            for batch in self._file.iter_batches(_BATCH, use_threads=False, **chosen):
                columns = [batch.column(name).to_pylist() for name in names]
                yield from zip(*columns, strict=True)


def triplets(table: Table) -> Content:
    """Return a sparse matrix from a table with one row (user, item, value) per stored entry.

    The rows of the matrix are the users and its columns the items, both sorted by number or
    name. Further columns, such as times, are ignored.
    """
    names = table.columns.samples or table.names[:3]
    if len(names) != 3:
        raise ValueError(
            f"{table.path} must have three columns, of users, items and values, but has "
            f"{', '.join(names)}"
        )
    if not table.count():
        raise ValueError(f"{table.path} is empty: it holds no rows")
    users, user = np.unique(typed(table.words(names[0])), return_inverse=True)
    items, item = np.unique(typed(table.words(names[1])), return_inverse=True)
    values = table.numbers(names[2:])[:, 0]
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        place = table.place_of(int(wrong[0]), names[2])
        raise ValueError(f"{table.path}: {place}: the value is {values[wrong[0]]}. {LEAVE_OUT}")
    _, first = np.unique(user * len(items) + item, return_index=True)
    if len(first) < len(values):
        twice = np.setdiff1d(np.arange(len(values)), first)[0]
        raise ValueError(
            f"{table.path}: row {twice} (counted from 0) has a user and an item that an earlier "
            "row has: leave one"
        )
    return Content(sparse.coo_array((values, (user, item)), shape=(len(users), len(items))))
