"""Tables that pyarrow reads (the extra ``tables``): pieces of long delimited text, and Parquet."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from decentorth.data.optional import needing
from decentorth.data.tables import Block, Table
from decentorth.data.text_head import MARKS, MISSING, TextStart
from decentorth.protocols import Array, Index
from topologies.line.matrix_files import reading, require_unpacked
from topologies.line.words import is_number

_BATCH = 1 << 14
"""The rows of Parquet that are held at a time, beside the wanted numbers."""
_INDEX = r"__index_level_[0-9]+__"
"""The names that pandas gives to numbers or names of rows."""
_MISSING = [*{form(word) for word in MISSING for form in (str, str.upper, str.title)}, "NaN"]


def has_arrow() -> bool:
    """True if pyarrow is installed."""
    try:
        import pyarrow.csv  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def arrow_block(
    piece: bytes, start: TextStart, numbers: Sequence[int], texts: Sequence[int], begin: int
) -> Block | None:
    """The rows in a piece of delimited text, which count from ``begin``; None for a piece that the
    plain reader must read, with cells that pyarrow knows in another form or refuses."""
    import pyarrow
    from pyarrow import csv

    if piece.isspace():
        return None
    columns = [str(place) for place in range(-start.index, len(start.names))]
    kinds = {str(place): pyarrow.float64() for place in numbers}
    kinds |= {str(place): pyarrow.string() for place in texts}
    if not kinds:  # to count rows
        kinds = {columns[-1]: pyarrow.string()}
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(piece),
            csv.ReadOptions(use_threads=False, column_names=columns, block_size=len(piece) + 1),
            csv.ParseOptions(delimiter=start.mark, newlines_in_values=True),
            csv.ConvertOptions(
                column_types=kinds,
                include_columns=list(kinds),
                null_values=[*_MISSING, *MARKS],
                decimal_point=start.decimal,
            ),
        )
    except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError):
        return None
    block = np.empty((len(numbers), table.num_rows)).T  # columns are written one by one
    missing = 0
    for at, place in enumerate(numbers):
        column = table.column(str(place))
        missing += column.null_count
        block[:, at] = np.concatenate([numbers_of(chunk) for chunk in column.chunks])
    if np.count_nonzero(np.isnan(block)) > missing:
        return None  # such as nan(1)
    rows = np.arange(begin, begin + table.num_rows)
    words = [_words(table.column(str(place))) for place in texts]
    return Block(rows, block, words, begin + table.num_rows)


def numbers_of(column: Any) -> Array:
    """A column of float64, NaN where a cell is missing; its own ``to_numpy`` imports pandas."""
    if not len(column):
        return np.empty(0)
    valid, buffer = column.buffers()
    found: Array = np.frombuffer(buffer, np.float64, len(column), 8 * column.offset)
    if column.null_count:
        bits = np.unpackbits(
            np.frombuffer(valid, np.uint8),
            count=column.offset + len(column),
            bitorder="little",
        )
        found = np.where(bits[column.offset :], found, math.nan)
    return found


def _words(column: Any) -> list[str | None]:
    """The texts in a column, None where one is missing."""
    return [_word(cell) for cell in column.to_pylist()]


def _word(cell: Any) -> str | None:
    if cell is None:
        return None
    text = cell.decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else str(cell)
    word = text.strip()
    return None if word.lower() in MISSING else sys.intern(word)


def _number(cell: Any) -> float | None:
    """The number in a cell of any kind, NaN where it is missing; None for other cells."""
    if _word(cell) is None:
        return math.nan
    if not isinstance(cell, str) or is_number(cell.strip()):
        with suppress(TypeError):  # of dates and lists
            return float(cell)
    return None


class _Header(NamedTuple):
    names: tuple[str, ...]
    metadata: Any


class ParquetTable(Table):
    """A table in a Parquet file. Row groups without a needed row are skipped."""

    @cached_property
    def _start(self) -> _Header:
        if self._opened is None:
            with self._file() as file, reading(self.path, " as Parquet"):
                every = tuple(file.schema_arrow.names)
                names = tuple(name for name in every if not re.fullmatch(_INDEX, name))
                self._opened = _Header(names or every, file.metadata)
            if len(self._opened.names) < len(every):
                self.tell_of_index()
        header: _Header = self._opened
        return header

    def _file(self) -> Any:
        with needing("pyarrow", f"reading {self.path} (Parquet)"):
            from pyarrow import parquet
        with reading(self.path, " as Parquet"):
            return parquet.ParquetFile(self.path)

    @property
    def names(self) -> tuple[str, ...]:
        return self._start.names

    def about(self) -> int:
        rows = int(self._start.metadata.num_rows)
        with reading(self.path, " as Parquet"):
            require_unpacked(8 * rows, self.path.stat().st_size)
        return rows

    def check_first(self, numbers: Sequence[int]) -> None:
        next(self.blocks(numbers, (), np.arange(1)))

    def blocks(
        self, numbers: Sequence[int], texts: Sequence[int], needed: Index | None
    ) -> Iterator[Block]:
        names = list(dict.fromkeys(self.names[place] for place in (*numbers, *texts)))
        end = self.about()
        if not names:
            yield Block(np.arange(end), np.empty((end, 0)), [], end)
            return
        end = 0
        with self._file() as file:
            for group in range(file.num_row_groups):
                begin = end
                end = end + file.metadata.row_group(group).num_rows
                if needed is None or np.diff(np.searchsorted(needed, [begin, end]))[0]:
                    for batch in self._batches(file, group, names):
                        yield self._block(batch, numbers, texts, begin)
                        begin += batch.num_rows
        yield Block(np.arange(0), np.empty((0, len(numbers))), [[] for _ in texts], end)

    def _batches(self, file: Any, group: int, names: list[str]) -> Iterator[Any]:
        """The rows of a row group, in parts."""
        with reading(self.path, " as Parquet"):
            size = file.metadata.row_group(group).total_byte_size
            require_unpacked(size, self.path.stat().st_size)
            yield from file.iter_batches(
                _BATCH, row_groups=[group], columns=names, use_threads=False
            )

    def _block(self, batch: Any, numbers: Sequence[int], texts: Sequence[int], begin: int) -> Block:
        from pyarrow import float64, types

        block = np.empty((batch.num_rows, len(numbers)))
        odd = {}
        for at, place in enumerate(numbers):
            column = batch.column(self.names[place])
            kind = column.type
            if types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
                block[:, at] = numbers_of(column.cast(float64(), safe=False))
            else:
                odd[at] = column.to_pylist()
        for at, cells in odd.items():
            parsed = [_number(cell) for cell in cells]
            if None in parsed:
                self._refuse(begin, {self.names[numbers[one]]: odd[one] for one in odd})
            block[:, at] = parsed
        rows = np.arange(begin, begin + batch.num_rows)
        words = [_words(batch.column(self.names[place])) for place in texts]
        return Block(rows, block, words, begin + batch.num_rows)

    def _refuse(self, begin: int, columns: dict[str, list[Any]]) -> None:
        """Raise ValueError for the first row in which a cell is no number."""
        rows = zip(*columns.values(), strict=True)
        for row, cells in enumerate(rows, begin):
            pairs = zip(columns, cells, strict=True)
            texts = {name: str(cell).strip() for name, cell in pairs if _number(cell) is None}
            if texts:
                where = f"{self.path}: {self.place_of(row, next(iter(texts)))}"
                self.refuse_text(where, texts)
