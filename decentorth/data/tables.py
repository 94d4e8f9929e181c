"""Tables with named columns: delimited text with a line of names, and Parquet (needs the extra ``tables``).

Without a line of names the columns of text are called 1, 2 and so on. A cell of text that is empty, NA, N/A, NaN, null or none is
missing; in Parquet null, NaN and an empty text are. Text is read as a stream, Parquet by row groups, of which those without a
wanted row are skipped.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from decentorth.data.checks import DROP, LEAVE_OUT
from decentorth.data.labels import Labels
from decentorth.data.sparse import StoredReader
from decentorth.data.text import INTEGER, delimiter_of, is_number, shown, text_labels
from decentorth.protocols import Array, Index
from topologies.matrix_files import Stored, require_unpacked
from topologies.words import suggestion

_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))
_BATCH = 1 << 12
"""Rows that are held at a time, besides the wanted ones."""
_LISTED = 20
_CHOOSE = "choose the columns of numbers (columns), or name this one as that of the labels (label_column)"


class Columns(NamedTuple):
    """The columns of a table that are read."""

    samples: tuple[str, ...] = ()
    """The names of the columns of numbers, in their order; none for all but that of the labels."""
    label: str | None = None
    """The name of the column of labels."""
    drop_missing: bool = False
    """Leave out the rows in which a cell of these columns is missing."""


class _Batch(NamedTuple):
    """Some consecutive rows."""

    first: int
    """The number of the first row, counted from 0."""
    numbers: Array
    """``(k, columns)``: NaN where a cell is missing, or the row is not wanted."""
    texts: list[list[str]]
    """The ``k`` cells of each column of text; empty where they are missing or the row is not wanted."""


class TableReader(ABC):
    """A matrix in the columns of a table, and labels in another one."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path = path
        self.columns = columns

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""

    @abstractmethod
    def _batches(self, numeric: Sequence[str], text: Sequence[str], wanted: Index | None = None) -> Iterator[_Batch]:
        """The rows of these columns, in their order; runs without a ``wanted`` row (sorted; None: all) may be left out."""

    @abstractmethod
    def _count(self) -> int:
        """The number of all rows."""

    def _place(self, name: str) -> int:
        """The number of a column; a ValueError says that there is none of that name, or more than one."""
        count = self.names.count(name)
        if count != 1:
            listed = ", ".join([*self.names[:_LISTED], *(["..."] if len(self.names) > _LISTED else [])])
            wrong = f"no column {name!r}{suggestion(name, self.names) or ';'}" if not count else f"{count} columns {name!r};"
            raise ValueError(f"{self.path} has {wrong} its columns are {listed}")
        return self.names.index(name)

    @cached_property
    def _samples(self) -> tuple[str, ...]:
        """The names of the columns of the matrix."""
        found = self.columns.samples or tuple(name for name in self.names if name != self.columns.label)
        for name in (*found, *filter(None, [self.columns.label])):
            self._place(name)
        if len(set(found)) < len(found):
            twice = next(name for name in found if found.count(name) > 1)
            raise ValueError(f"column {twice!r} is named more than once in columns: leave one")
        if not found:
            raise ValueError(f"{self.path} has no column beside that of the labels, {self.columns.label!r}")
        return found

    @cached_property
    def _kept(self) -> Index:
        """The numbers of the rows that are read."""
        samples, label = self._samples, () if self.columns.label is None else (self.columns.label,)
        total = self._count()
        if not total:
            raise ValueError(f"{self.path} is empty: it has no row")
        if not self.columns.drop_missing:
            return np.arange(total)
        whole = [
            ~np.isnan(numbers).any(-1) & np.array([bool(cell) for cell in texts[0]] if label else True)
            for _, numbers, texts in self._batches(samples, label)
        ]
        rows = np.flatnonzero(np.concatenate(whole))
        if not rows.size:
            raise ValueError(f"{self.path} has no row without a missing cell")
        return rows

    def _place_of(self, row: int, name: str) -> str:
        """The words for a cell of the row that has this number, counted from 0."""
        return f"row {row} (counted from 0), column {name!r}"

    def place(self, row: int, column: int) -> str:
        """The words for the place in the file of an entry of the matrix."""
        return self._place_of(int(self._kept[row]), self._samples[column])

    @cached_property
    def shape(self) -> tuple[int, int]:
        return len(self._kept), len(self._samples)

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        needed = self._kept if wanted is None else self._kept[wanted]
        block = np.empty((len(needed), len(self._samples)))
        filled = 0
        for first, numbers, _ in self._batches(self._samples, (), needed):
            a, b = np.searchsorted(needed, [first, first + len(numbers)])
            block[a:b] = numbers[needed[a:b] - first]
            filled += int(b - a)
        if filled != len(needed):
            raise ValueError(f"{self.path} is truncated: {filled} of {len(needed)} rows are there")
        return block

    def labels(self) -> Labels:
        """The labels, all integers or else strings."""
        name = self.columns.label
        if name is None:
            if len(self.names) > 1:
                raise ValueError(f"{self.path} has {len(self.names)} columns: name that of the labels (label_column)")
            name = self.names[0]
        self._place(name)
        cells = [cell for _, _, texts in self._batches((), (name,)) for cell in texts[0]]
        kept = np.array(cells, dtype=object)[self._kept] if self.columns.label is not None else cells
        return self._categories(list(kept), name, LEAVE_OUT if self.columns.label is None else DROP)

    def _categories(self, cells: Sequence[str], name: str, repair: str) -> Labels:
        """``(m,)``: all cells of a column as integers if all are, else as strings; none may be missing."""
        if "" in cells:
            raise ValueError(f"{self.path}: {self._place_of(cells.index(''), name)}: the cell is missing. {repair}")
        if all(map(INTEGER.fullmatch, cells)):
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        return text_labels(cells, self.path)


class TextTable(TableReader):
    """A table in delimited text; quoted cells may hold the delimiter."""

    @cached_property
    def _start(self) -> tuple[int, str, tuple[str, ...], bool]:
        """The number of lines before the first row or line of names, the delimiter, the names, and True if a line has them."""
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for before, line in enumerate(file):
                if line.strip() and not line.startswith("#"):
                    if "\0" in line:
                        raise ValueError(f"{self.path} is not plain text (it holds zero bytes): save it as UTF-8")
                    mark = delimiter_of(line) or ","
                    fields = tuple(field.strip() for field in next(csv.reader([line], delimiter=mark), []))
                    headed = not all(map(is_number, fields))
                    return before, mark, fields if headed else tuple(str(i) for i in range(1, len(fields) + 1)), headed
        raise ValueError(f"{self.path} is empty: it has no line of names")

    @property
    def names(self) -> tuple[str, ...]:
        return self._start[2]

    def _count(self) -> int:
        return sum(1 for _ in self._data())

    def _batches(self, numeric: Sequence[str], text: Sequence[str], wanted: Index | None = None) -> Iterator[_Batch]:
        places, others = [self._place(name) for name in numeric], [self._place(name) for name in text]
        chosen = None if wanted is None else frozenset(wanted.tolist())
        numbers: list[list[float]] = []
        texts: list[list[str]] = [[] for _ in others]
        unread = [np.nan] * len(places)
        first = 0
        for row, (line, fields) in enumerate(self._data()):
            read = chosen is None or row in chosen
            numbers.append([self._number(fields[place], line, place) for place in places] if read else unread)
            for cells, place in zip(texts, others, strict=True):
                cell = fields[place].strip()
                cells.append("" if not read or cell.lower() in _MISSING else cell)
            if len(numbers) == _BATCH:
                yield _Batch(first, np.array(numbers).reshape(len(numbers), len(places)), texts)
                first, numbers, texts = row + 1, [], [[] for _ in others]
        if numbers:
            yield _Batch(first, np.array(numbers).reshape(len(numbers), len(places)), texts)

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
                        raise ValueError(f"{self.path}: line {line} has {len(fields)} columns, but there are {len(names)} names")
            except csv.Error as error:
                raise ValueError(f"{self.path}: line {before + headed + reader.line_num}: {error}") from error

    def _place_of(self, row: int, name: str) -> str:
        line, _ = next(islice(self._data(), row, None))
        return f"line {line}, column {name!r}"

    def _number(self, cell: str, line: int, place: int) -> float:
        text = cell.strip()
        if text.lower() in _MISSING:
            return float("nan")
        if not is_number(text):
            raise ValueError(f"{self.path}: line {line}, column {self.names[place]!r}: {shown(text)} is not a number; {_CHOOSE}")
        return float(text)


class ParquetTable(TableReader):
    """A table in a Parquet file, through pyarrow."""

    @cached_property
    def _file(self) -> Any:
        try:
            import pyarrow.parquet as parquet
        except ModuleNotFoundError as error:
            repair = 'pip install "decentorth[tables]"'
            raise ModuleNotFoundError(
                f"reading {self.path} (Parquet) needs pyarrow ({error}): {repair}", name=error.name
            ) from error
        with _reading(self.path):
            return parquet.ParquetFile(self.path)

    @cached_property
    def names(self) -> tuple[str, ...]:
        with _reading(self.path):
            return tuple(self._file.schema_arrow.names)

    def _count(self) -> int:
        rows = int(self._file.metadata.num_rows)
        require_unpacked(rows, self.path.stat().st_size, str(self.path))
        return rows

    def _batches(self, numeric: Sequence[str], text: Sequence[str], wanted: Index | None = None) -> Iterator[_Batch]:
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        strings = []
        for name in (*numeric, *text):
            kind = self._file.schema_arrow.types[self._place(name)]
            numbers_of = arrow.types.is_integer, arrow.types.is_floating, arrow.types.is_boolean, arrow.types.is_decimal
            if name in numeric and not any(fits(kind) for fits in numbers_of):
                raise ValueError(f"{self.path}: column {name!r} holds {kind}, not numbers; {_CHOOSE}")
            if name in text and arrow.types.is_nested(kind):
                raise ValueError(f"{self.path}: column {name!r} holds {kind}, not labels: name another one (label_column)")
            if name in text and str(kind) in ("string", "large_string", "binary", "large_binary"):
                strings.append(name)
        about = self._file.metadata
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        places = [at for at in range(about.num_columns) if about.schema.column(at).path in text]
        held = sum(group.column(at).total_uncompressed_size for group in groups for at in places)
        require_unpacked(max(about.num_rows * max(len(numeric), 1), held // 8), self.path.stat().st_size, str(self.path))
        first = 0
        known: dict[str, str] = {}
        with _reading(self.path):
            file = parquet.ParquetFile(self.path, metadata=about, read_dictionary=strings)  # a string that repeats is held once
            for number, group in enumerate(groups):
                end = first + group.num_rows
                if wanted is None or np.diff(np.searchsorted(wanted, [first, end]))[0]:
                    at = first
                    both = list(dict.fromkeys([*numeric, *text]))
                    for batch in file.iter_batches(_BATCH, row_groups=[number], columns=both, use_threads=False):
                        columns = [batch.column(name).cast(arrow.float64(), safe=False) for name in numeric]
                        numbers = np.empty((batch.num_rows, len(columns)))
                        for place, column in enumerate(columns):
                            numbers[:, place] = column.to_numpy(zero_copy_only=False)
                        yield _Batch(at, numbers, [_texts(batch.column(name), known) for name in text])
                        at += batch.num_rows
                first = end


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else cell.decode() if isinstance(cell, bytes) else str(cell)


def _texts(column: Any, known: dict[str, str]) -> list[str]:
    """The cells of a column as text, empty where they are missing; equal strings of dictionaries are one string of ``known``."""
    if not hasattr(column, "dictionary"):
        return list(map(_text, column.to_pylist()))
    codes, places = np.unique(column.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False), return_inverse=True)
    cells = column.dictionary.take(codes[codes >= 0]).to_pylist() if codes[-1] >= 0 else []
    words = [known.setdefault(word, word) for word in map(_text, cells)]
    words = [""] * (len(codes) - len(words)) + words
    return [words[place] for place in places.tolist()]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Make the errors of pyarrow ValueErrors that name the file."""
    import pyarrow as arrow

    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} holds text that is not in UTF-8: save it as UTF-8") from error
    except (arrow.ArrowException, OSError, MemoryError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())[:200]}") from error


class TripletReader(StoredReader):
    """A sparse matrix in a table with a row (user, item, value) for each stored entry; further columns, as times, are passed over.

    The rows of the matrix are the users and its columns the items, both in sorted order of their numbers or names.
    """

    def __init__(self, table: TableReader) -> None:
        super().__init__(table.path)
        self._table = table

    @cached_property
    def _content(self) -> Stored:
        names = self._table.columns.samples or self._table.names[:3]
        if len(names) != 3:
            raise ValueError(f"{self.path} must have three columns, of users, items and values, but has {', '.join(names)}")
        batches = list(self._table._batches(names[2:], names[:2]))
        if not batches:
            raise ValueError(f"{self.path} has no row")
        values = np.concatenate([batch.numbers[:, 0] for batch in batches])
        codes, sizes = [], []
        for place, name in enumerate(names[:2]):
            cells = self._table._categories([cell for batch in batches for cell in batch.texts[place]], name, LEAVE_OUT)
            known, code = np.unique(cells, return_inverse=True)
            codes.append(code)
            sizes.append(len(known))
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            where = self._table._place_of(int(wrong[0]), names[2])
            raise ValueError(f"{self.path}: {where}: the value is {values[wrong[0]]}. {LEAVE_OUT}")
        pairs, counts = np.unique(codes[0] * sizes[1] + codes[1], return_counts=True)
        if len(pairs) < len(values):
            twice = int(np.flatnonzero(codes[0] * sizes[1] + codes[1] == pairs[counts.argmax()])[1])
            raise ValueError(f"{self.path}: row {twice} (counted from 0) has a user and an item that an earlier row has: leave one")
        matrix: Stored = sparse.coo_array((values, (codes[0], codes[1])), shape=(sizes[0], sizes[1]))
        return matrix
