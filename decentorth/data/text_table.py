"""Tables in delimited text, with two readers.

The plain reader, of Python's ``csv``, defines the format. A text of more than a mebibyte is cut
into pieces at ends of rows, and pyarrow reads them several times as fast where it is installed. A
piece that it would read in another way, or that needs a message, is left to the plain reader, so
that both give the same bits.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from decentorth.data.arrow import arrow_block, has_arrow
from decentorth.data.labels import Labels, as_labels
from decentorth.data.tables import Block, Table, text_labels
from decentorth.data.text_head import MISSING, TextStart, delimiter_of, number_in, open_text, shown
from decentorth.protocols import Index
from topologies.line.words import is_number

PIECE = 1 << 20
"""The bytes of a long text that are parsed at a time: 1 MiB."""
_UNCUT = 16
"""The pieces in which a row must end; otherwise the plain reader takes the text."""
_WIDEST = 512
"""The most columns for pyarrow, whose time grows with the columns of a piece."""
_ROWS = 1 << 12
"""The rows that the plain reader holds beside the numbers."""
_CODE = re.compile(r"[+-]?0[0-9]")
"""The beginning of a code with a leading zero, which is a label as text."""
_COMMA = re.compile(r"[-+]?[0-9.]*,[0-9]+(?:[eE][-+]?[0-9]+)?")
"""A number with a decimal comma, and perhaps points between thousands."""


class TextTable(Table):
    """A table in delimited text; quoted cells may hold the delimiter."""

    @cached_property
    def _start(self) -> TextStart:
        if self._opened is None:
            self._opened = TextStart(self.path)
            if self._opened.index:
                self.tell_of_index()
        start: TextStart = self._opened
        return start

    @property
    def names(self) -> tuple[str, ...]:
        return self._start.names

    @cached_property
    def short(self) -> bool:  # type: ignore[override]  # known once the text is opened
        return self._start.content is not None

    def about(self) -> int:
        return self._start.about()

    def forget(self) -> None:
        self._start.content = None

    def check_first(self, numbers: Sequence[int]) -> None:
        first = io.BytesIO(self._start.first)
        next(self._plain_blocks(numbers, (), None, first, self._start.lines, 0))

    def blocks(
        self, numbers: Sequence[int], texts: Sequence[int], needed: Index | None
    ) -> Iterator[Block]:
        start = self._start
        plain = partial(self._plain_blocks, numbers, texts, needed)
        width = len(start.names) + start.index
        quick = not self.short and start.mark is not None and 1 < width <= _WIDEST
        quick = quick and not {*numbers} & {*texts} and has_arrow()
        if not quick:
            with start.rows() as body:
                yield from plain(body, start.lines, 0)
            return
        row = 0
        line = start.lines
        done = 0
        with start.rows() as body:
            for piece in _pieces(body):
                if piece is None or not _is_regular(piece, str(start.mark).encode("latin-1")):
                    break
                block = arrow_block(piece, start, numbers, texts, row)
                for one in [block] if block else plain(io.BytesIO(piece), line, row):
                    yield one
                    row = one.end
                done += len(piece)
                line += _line_ends(piece)
            else:
                return
        with start.rows(done) as body:
            yield from plain(body, line, row)

    def _rows(self, text: IO[bytes], before: int) -> Iterator[tuple[int, list[str]]]:
        """The number of the last line of each row, counted from 1, and its cells; the text has
        ``before`` lines before it."""
        start = self._start
        width = len(start.names) + start.index
        with io.TextIOWrapper(text, "utf-8", "surrogateescape", newline="") as lines:
            reader = start.cells(lines)
            try:
                for cells in reader:
                    if len(cells) == width and not (width == 1 and cells[0].isspace()):
                        yield before + reader.line_num, cells
                    elif any(map(str.strip, cells)):
                        others = "names" if start.headed else "in the first row"
                        raise ValueError(
                            f"{self.path}: line {before + reader.line_num} has {len(cells)} "
                            f"columns, but there are {width} {others}"
                        )
            except csv.Error as error:
                raise ValueError(
                    f"{self.path}: line {before + reader.line_num}: {error}"
                ) from error

    def _plain_blocks(
        self,
        numbers: Sequence[int],
        texts: Sequence[int],
        needed: Index | None,
        text: IO[bytes],
        before: int,
        row: int,
    ) -> Iterator[Block]:
        """The ``needed`` rows of a text, parsed by Python; ``row`` is the number of the first."""
        index = self._start.index
        decimal = self._start.decimal
        places = [place + index for place in numbers]
        every = places == list(range(len(self.names)))
        wanted = None if needed is None else _mask(needed)
        rows = array("q")
        values = array("d")
        words: list[list[str | None]] = [[] for _ in texts]

        def block() -> Block:
            found = np.array(values).reshape(len(rows), len(numbers))
            return Block(np.array(rows), found, words, row)

        for line, cells in self._rows(text, before):
            if wanted is not None and row >= len(wanted):
                break
            if wanted is None or wanted[row]:
                own = cells if every else [cells[place] for place in places]
                if decimal == "," or not _parsed(own, values):
                    parsed = [number_in(cell, decimal) for cell in own]
                    if None in parsed:
                        self._refuse(line, [self.names[place] for place in numbers], own, parsed)
                    values.extend(number for number in parsed if number is not None)
                for place, column in zip(texts, words, strict=True):
                    column.append(word_in(cells[place + index]))
                rows.append(row)
            row += 1
            if len(rows) == _ROWS:
                yield block()
                rows = array("q")
                values = array("d")
                words = [[] for _ in texts]
        yield block()

    def _refuse(
        self,
        line: int,
        names: Sequence[str],
        cells: Sequence[str],
        parsed: Sequence[float | None],
    ) -> NoReturn:
        """Raise ValueError for the cells of a row that are no numbers."""
        pairs = zip(names, cells, parsed, strict=True)
        texts = {name: cell.strip() for name, cell, number in pairs if number is None}
        (name, text), *_ = texts.items()
        where = f"{self.path}: line {line}, column {name!r}"
        comma = _COMMA.fullmatch(text) is not None
        if comma and self._start.mark == ",":
            raise ValueError(
                f"{where}: {shown(text)} has a decimal comma, which is read between semicolons or "
                "tabs: write such a delimiter, or decimal points"
            )
        if comma or (self._start.decimal == "," and is_number(text)):
            this, others = ("comma", "point") if self._start.decimal == "." else ("point", "comma")
            raise ValueError(
                f"{where}: {shown(text)} has a {this}, and numbers here have a decimal {others}: "
                "write one decimal mark, and none between thousands"
            )
        ending = ""
        if not self._start.headed and line == self._start.lines + 1:
            ending = "; a line of names holds no numbers"
        self.refuse_text(where, texts, ending)

    def place_of(self, row: int, name: str) -> str:
        with self._start.rows() as body:
            line, _ = next(islice(self._rows(body, self._start.lines), row, None))
        return f"line {line}, column {name!r}"

    def labels(self) -> Labels:
        if self.columns.label is not None:
            return super().labels()
        return label_lines(self.path)


def _parsed(cells: Sequence[str], values: array[float]) -> bool:
    """Append the numbers in cells, where Python reads all of them as the format does."""
    before = len(values)
    text = "".join(cells)
    if text.isascii() and "_" not in text:
        try:
            values.extend(map(float, cells))
        except ValueError:
            del values[before:]
        else:
            return True
    return False


def _mask(needed: Index) -> bytes:
    """A byte for each row up to the last one that is needed: 1 if it is."""
    mask = np.zeros(int(needed[-1]) + 1 if len(needed) else 0, dtype=np.bool_)
    mask[needed] = True
    return mask.tobytes()


def word_in(cell: str) -> str | None:
    """The text of a cell; None where it is missing. Equal texts take memory once."""
    word = cell.strip()
    return None if word.lower() in MISSING else sys.intern(word)


def _pieces(file: IO[bytes]) -> Iterator[bytes | None]:
    """The rest of a file in pieces that end with a row: with a line, and an even number of quotes.

    The last one is None if no row ends for long, or within a quote.
    """
    rest = b""
    while read := file.read(PIECE):
        piece = rest + read
        end = piece.rfind(b"\n") + 1
        quotes = piece.count(b'"', 0, end) if b'"' in piece else 0
        while quotes % 2:
            before = piece.rfind(b"\n", 0, end - 1) + 1
            quotes -= piece.count(b'"', before, end)
            end = before
        rest = piece[end:]
        if end:
            yield piece[:end]
        elif len(rest) > _UNCUT * PIECE:
            yield None
            return
    if rest:
        yield None if rest.count(b'"') % 2 else rest


def _line_ends(piece: bytes) -> int:
    """The number of lines in a piece; NumPy counts them faster than Python."""
    ends = np.count_nonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
    if b"\r" in piece:
        ends += piece.count(b"\r") - piece.count(b"\r\n")
    return int(ends)


def _is_regular(piece: bytes, mark: bytes) -> bool:
    """True if every quote in a piece begins or ends a cell, or is doubled inside of one."""
    if piece.startswith(b"\xef\xbb\xbf"):
        return False
    ends = b"[\r\n" + re.escape(mark) + b"]"
    cell = rb'(?:\A|(?<=%b))"[^"]*(?:""[^"]*)*"(?=%b|\Z)' % (ends, ends)
    return b'"' not in piece or b'"' not in re.sub(cell, b"", piece)


def label_lines(path: Path) -> Labels:
    """The labels in a text, one per line: all numbers, or else strings; a header above numbers is
    skipped."""
    lines: list[tuple[int, str]] = []
    with io.TextIOWrapper(open_text(path), "utf-8-sig", "surrogateescape") as file:
        for number, line in enumerate(file, 1):
            text = line.rstrip("\n")
            if "\0" in text:
                raise ValueError(
                    f"{path} is not plain text (it holds zero bytes): save it as UTF-8"
                )
            if text.strip(" ") and (lines or not text.startswith("#")):
                lines.append((number, text))
    if not lines:
        raise ValueError(f"{path} is empty: it holds no labels")
    for expected, (number, text) in enumerate(lines, lines[0][0]):
        if number != expected:
            raise ValueError(f"{path}: line {expected} is blank, but each line must hold one label")
        fields = text.split(delimiter_of(text))
        if delimiter_of(text) or (len(fields) > 1 and all(map(is_number, fields))):
            raise ValueError(
                f"{path}: line {number} must hold one label, but holds {len(fields)}: {shown(text)}"
            )
    texts = [text.strip() for _, text in lines]
    if len(texts) > 1 and not is_number(texts[0]) and all(map(is_number, texts[1:])):
        texts = texts[1:]
    if all(map(is_number, texts)) and not any(map(_CODE.match, texts)):
        return as_labels(np.array(texts, dtype=np.float64), str(path))
    return text_labels(texts, path)
