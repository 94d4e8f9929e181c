"""Tables with named columns: delimited text and Parquet.

Without a line of names the columns of text are called 1, 2 and so on. A cell that is empty, NA,
N/A, NaN, null or none is missing, and in text also a number ``?``, ``-`` or ``.``. A table is read
in blocks of rows, once: its numbers, the labels beside them, and which rows stay.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from scipy import sparse

from decentorth.data.array_files import Content, Extent, Reader
from decentorth.data.labels import Labels, as_labels, typed
from decentorth.data.row_checks import DROP, LEAVE_OUT
from decentorth.data.text_head import UNDECODED, shown
from decentorth.protocols import Array, Index
from topologies.line.matrix_files import reading, require_unpacked
from topologies.line.memory import require
from topologies.line.words import suggestion

_LISTED = 20
"""The most columns that an error names."""
_BESIDE = 1 << 25
"""The bytes that reading a long table takes beside its numbers: 32 MiB."""


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


class Block(NamedTuple):
    """Some rows of a table."""

    rows: Index
    """The numbers of the rows in the file."""
    numbers: Array
    """``(k, d)``, NaN where a cell is missing."""
    texts: list[list[str | None]]
    """The cells of each column of texts, None where one is missing."""
    end: int
    """The number of rows of the file up to here."""

    def at(self, places: Index) -> Block:
        """Some of the rows, by their places in the block."""
        texts = [[cells[place] for place in places] for cells in self.texts]
        return Block(self.rows[places], self.numbers[places], texts, self.end)


class _Seen(NamedTuple):
    """All rows, once they are read, beside their numbers."""

    total: int
    """The number of rows that stay."""
    kept: Index | None
    """Their numbers in the file, where some may not stay."""
    labels: list[str | None]


class Table(Reader):
    """A matrix in columns of a table, with labels in another column.

    ``opened`` is the beginning of the file, if it is known.
    """

    repair = DROP
    short: bool = False
    """True if the whole is in memory already; its sizes are exact then."""
    _seen: _Seen | None = None
    _numbers: Array | None = None
    """The numbers of a short table, until they are given away."""

    def __init__(self, path: Path, columns: Columns, opened: Any = None) -> None:
        super().__init__(path)
        self.columns = columns
        self._opened = opened

    _start: Any
    """The beginning of the file, for `choosing`."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""

    @abstractmethod
    def about(self) -> int:
        """Return the number of rows, estimated if no header holds it."""

    @abstractmethod
    def blocks(
        self, numbers: Sequence[int], texts: Sequence[int], needed: Index | None
    ) -> Iterator[Block]:
        """The rows in blocks, with the columns of ``numbers`` and of ``texts``.

        At least the ``needed`` rows (sorted; None: all) are in them.
        """

    @abstractmethod
    def check_first(self, numbers: Sequence[int]) -> None:
        """Raise ValueError if the first row has a text in a column of ``numbers``."""

    def forget(self) -> None:
        """Drop what is kept of the file beside its beginning."""

    def place_of(self, row: int, name: str) -> str:
        """Describe a cell of the row with this number, counted from 0."""
        return f"row {row} (counted from 0), column {name!r}"

    def choosing(self, columns: Columns) -> Self:
        """The same table with other columns; its beginning is not read again."""
        return self if columns == self.columns else type(self)(self.path, columns, self._start)

    def number(self, name: str) -> int:
        """The number of a column; ValueError if none or several have that name."""
        count = self._counts[name]
        if count == 1:
            return self._places[name]
        if count:
            columns = listed(self.names)
            raise ValueError(f"{self.path} has {count} columns {name!r}; its columns are {columns}")
        raise ValueError(lacking(str(self.path), name, self.names))

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(self.names)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def tell_of_index(self) -> None:
        """Warn of a column of row numbers, which is left out."""
        warnings.warn(
            f"{self.path}: a column without a name is left out, as the numbers of the rows",
            stacklevel=2,
        )

    def refuse_text(self, where: str, texts: dict[str, str], ending: str = "") -> NoReturn:
        """Raise ValueError for the columns of a row that hold a text; ``where`` is the place of the
        first."""
        first = next(iter(texts))
        raise ValueError(
            f"{where}: {shown(texts[first])} is not a number; leave such columns out, "
            f"exclude={(*self.columns.exclude, *texts)!r}, or take this one as that of the labels, "
            f"label={first!r}{ending}"
        )

    @cached_property
    def samples(self) -> tuple[str, ...]:
        """The names of the columns of the matrix."""
        out = {*self.columns.exclude, *self.columns.labels}
        found = self.columns.samples or tuple(name for name in self.names if name not in out)
        absent = () if self.columns.samples else self.columns.exclude
        for name in (*found, *self.columns.labels, *absent):
            self.number(name)
        twice, count = Counter(found).most_common(1)[0] if found else ("", 0)
        if count > 1:
            raise ValueError(f"column {twice!r} is named more than once in columns: leave one")
        if not found:
            only = ", ".join(dict.fromkeys((*self.columns.exclude, *self.columns.labels)))
            raise ValueError(f"{self.path} holds only the columns {only}: name fewer")
        return found

    def _whole(self, keep: bool) -> tuple[Array, _Seen]:
        """Read all rows once: the numbers of the rows that stay, if wanted, and the rest."""
        drop = self.columns.drop_missing
        names = self.samples if keep or drop else ()
        numbers = [self.number(name) for name in names]
        texts = [self.number(name) for name in self.columns.labels]
        found = _Growing(self.about() if keep else 0, len(numbers))
        kept: list[Index] = []
        labels: list[str | None] = []
        end = count = 0
        for block in self.blocks(numbers, texts, None):
            end = block.end
            if drop:
                block = block.at(_whole_rows(block))
                kept.append(block.rows)
            if keep:
                found.append(block.numbers)
            for cells in block.texts:
                labels += cells
            count += len(block.rows)
        self.forget()
        if not end:
            raise ValueError(f"{self.path} is empty: it holds no rows")
        if not count:
            raise ValueError(f"{self.path} has a missing cell in every row")
        return found.cut(), _Seen(count, np.concatenate(kept) if drop else None, labels)

    def _known(self) -> _Seen:
        """All rows beside their numbers; the numbers of a short table are kept."""
        if self._seen is None:
            found, self._seen = self._whole(keep=self.short)
            self._numbers = found if self.short else None
        return self._seen

    @property
    def shape(self) -> tuple[int, int]:
        return self._known().total, len(self.samples)

    def extent(self) -> Extent:
        if self.short:
            return super().extent()
        self.check_first([self.number(name) for name in self.samples])
        return Extent(self.about(), len(self.samples), float(_BESIDE))

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        if wanted is not None and not self.short:
            kept = self._known().kept
            return self._some(wanted if kept is None else kept[wanted])
        found = self._numbers
        self._numbers = None
        if found is None:
            found, self._seen = self._whole(keep=True)
        if wanted is None:
            return found
        self._numbers = found
        return found[wanted]

    def _some(self, needed: Index) -> Array:
        """The numbers of the rows ``needed``, by their numbers in the file."""
        numbers = [self.number(name) for name in self.samples]
        require(8.0 * len(needed) * len(numbers), "the matrix")
        found = np.empty((len(needed), len(numbers)))
        taken = 0
        for block in self.blocks(numbers, (), needed):
            own = block.numbers[np.isin(block.rows, needed)]
            found[taken : taken + len(own)] = own
            taken += len(own)
            if taken == len(needed):
                return found
        raise ValueError(f"{self.path} is truncated: {taken} of {len(needed)} rows are there")

    def place(self, row: int, column: int) -> str:
        kept = self._known().kept
        return self.place_of(row if kept is None else int(kept[row]), self.samples[column])

    @property
    def has_both(self) -> bool:
        return self.columns.label is not None

    def labels(self) -> Labels:
        """The labels as they are written."""
        if self.columns.label is not None:
            seen = self._known()
            return self.written(seen.labels, self.columns.label, seen.kept, DROP)
        if len(self.names) > 1:
            raise ValueError(
                f"{self.path} has {len(self.names)} columns: name that of the labels, as "
                f"label={self.names[-1]!r}"
            )
        cells = [cell for block in self.blocks((), (0,), None) for cell in block.texts[0]]
        return self.written(cells, self.names[0])

    def written(
        self,
        cells: Sequence[str | None],
        name: str,
        kept: Index | None = None,
        repair: str = LEAVE_OUT,
    ) -> Labels:
        """``(k,)``: the cells of a column as labels, of which none may be missing."""
        texts = [cell for cell in cells if cell is not None]
        if len(texts) < len(cells):
            row = cells.index(None)
            where = self.place_of(row if kept is None else int(kept[row]), name)
            raise ValueError(f"{self.path}: {where}: the cell is missing. {repair}")
        return text_labels(texts, self.path)


class _Growing:
    """Rows of numbers in one array, which grows where the estimate of their number is too small."""

    def __init__(self, about: int, columns: int) -> None:
        require(8.0 * about * columns, "the matrix")
        self._rows = np.empty((about, columns))
        self._count = 0

    def append(self, block: Array) -> None:
        end = self._count + len(block)
        if end > len(self._rows):
            self._resize(end + end // 8)
        self._rows[self._count : end] = block
        self._count = end

    def cut(self) -> Array:
        """The rows alone; they are given away."""
        self._resize(self._count)
        return self._rows

    def _resize(self, count: int) -> None:
        columns = self._rows.shape[1]
        require(8.0 * columns * (count - len(self._rows)), "the matrix")
        self._rows.resize((count, columns), refcheck=False)


def listed(names: Sequence[str]) -> str:
    """The names of columns in a line; of many the first and the last ones."""
    if len(names) <= _LISTED:
        return ", ".join(names)
    half = _LISTED // 2
    return ", ".join([*names[:half], "...", *names[-half:]])


def lacking(where: str, name: str, names: Sequence[str]) -> str:
    """The words about a table without the column ``name``, which was asked for."""
    near = suggestion(name, names) or ";"
    return f"{where} lacks the column {name!r}{near} its columns are {listed(names)}"


def _whole_rows(block: Block) -> Index:
    """The places in a block of the rows without a missing cell."""
    whole = ~np.isnan(block.numbers).any(-1)
    for cells in block.texts:
        whole &= np.array([cell is not None for cell in cells], dtype=np.bool_)
    return np.flatnonzero(whole)


def text_labels(texts: Sequence[str], path: Path) -> Labels:
    """``(m,)``: the labels in a file as they are written; ValueError where one is not in UTF-8."""
    wrong = next((text for text in texts if not text.isascii() and UNDECODED.search(text)), None)
    if wrong is not None:
        raise ValueError(
            f"{path}: the label {shown(wrong)} is not in UTF-8: save the file as UTF-8"
        )
    with reading(path):
        longest = max(map(len, texts))  # an array has room for it in each cell
        require_unpacked(4 * len(texts) * longest, path.stat().st_size)
    return as_labels(np.array(texts, dtype=np.str_), str(path))


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
    *texts, number = [table.number(name) for name in names]
    blocks = list(table.blocks([number], texts, None))
    table.forget()
    values = np.concatenate([block.numbers[:, 0] for block in blocks])
    if not len(values):
        raise ValueError(f"{table.path} is empty: it holds no rows")
    cells = [[cell for block in blocks for cell in block.texts[place]] for place in (0, 1)]
    written = [table.written(own, name) for own, name in zip(cells, names[:2], strict=True)]
    users, user = np.unique(typed(written[0]), return_inverse=True)
    items, item = np.unique(typed(written[1]), return_inverse=True)
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
