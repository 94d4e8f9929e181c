"""The beginning of delimited text: its delimiter, its names, and the place of its first row.

The file is ``.csv``, ``.tsv`` or ``.txt``, or one of these compressed by gzip (``.csv.gz``).

Comments (``#``), blank lines and Excel's ``sep=;`` may come first. Columns are separated by
semicolons, tabs, commas or white space, the first of these that occurs in the first two lines. The
first line is one of names if it has letters and no number, or if its cells are in quotes and those
below are not. A first column without a name, which pandas and R write, numbers the rows and is left
out with a warning. Between semicolons or tabs numbers may have a decimal comma.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from topologies.line.matrix_files import TEXT_EXPANSION, TEXT_LIMIT, reading
from topologies.line.words import is_number

SHORT = 1 << 20
"""The bytes of a text that is kept when its beginning is read, and not opened again: 1 MiB."""
_BEGINNING = 1 << 20
"""The bytes that stand for the rest of a text."""
_LONGEST = 1 << 26
"""The bytes of the first lines of a text: 64 MiB."""
_LINES = 200
"""The lines in which the names and the first row end."""
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))
"""The cells without a value, in lower case."""
MARKS = frozenset(("?", "-", "."))
"""Further marks of missing numbers. As labels they are text."""
_INDEX = ("", "Unnamed: 0")
"""The names of a column of row numbers: none, or the one that pandas gives it when it reads it."""
_BOM = b"\xef\xbb\xbf"
_QUOTED = re.compile(r'"[^"]*"')
UNDECODED = re.compile(r"[\udc80-\udcff]")
"""A byte that is not UTF-8, as the error handler "surrogateescape" gives it."""
_NUMBER = r'(?m)(?:^|[;\t])[ "]*[-+]?[0-9]*{}[0-9]+(?:[eE][-+]?[0-9]+)?[ "]*(?=[;\t\r]|$)'
_DECIMALS = {mark: re.compile(_NUMBER.format(re.escape(mark)).encode()) for mark in ",."}
"""A cell between semicolons or tabs that holds a number with this decimal mark."""
_SHOWN = 40


def is_packed(path: Path) -> bool:
    """True for a text that gzip compressed."""
    return path.name.lower().endswith(".gz")


def open_text(path: Path) -> Any:
    """Open a text, which may be compressed, for reading its bytes."""
    if not is_packed(path):
        return path.open("rb")
    return io.BufferedReader(_Unpacked(path), 1 << 16)


class TextStart:
    """The beginning of a text, by which the rest is read.

    Raises
    ------
    ValueError
        The text is empty, not UTF-8 or damaged, or its names do not fit its first row.
    """

    content: bytes | None = None
    """All of a short text, until it is parsed."""
    mark: str | None
    """The delimiter; None for runs of white space."""
    names: tuple[str, ...]
    """The names of the columns, or their numbers counted from 1."""
    headed: bool
    """True if a line has the names."""
    index: bool
    """True if each row begins with a cell that is in no column."""
    decimal: str
    """The decimal mark of numbers."""
    lines: int
    """The number of lines before the first row."""
    offset: int
    """The number of bytes before the first row."""
    first: bytes
    """The lines of the first row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packed = is_packed(path)
        with open_text(path) as file:
            start, whole = _beginning(file)
            used = file.raw.used if self._packed else len(start)
        if b"\0" in start:
            raise ValueError(f"{path} is not plain text (it holds zero bytes): save it as UTF-8")
        self._size = len(start)
        if not whole:
            self._size = path.stat().st_size * len(start) // used
        if whole and len(start) <= SHORT:
            self.content = start
        self._recognise(start, whole)

    def rows(self, after: int = 0) -> Any:
        """Open the text at its first row, or ``after`` some bytes of the rows."""
        if self.content is not None:
            return io.BytesIO(self.content[self.offset + after :])
        file = open_text(self.path)
        if self._packed:
            file.read(self.offset + after)
        else:
            file.seek(self.offset + after)
        return file

    def about(self) -> int:
        """The number of rows, estimated from the size of the file and the lengths of its first
        lines."""
        return max(1, round((self._size - self.offset) * self._rows_per_byte))

    def _recognise(self, start: bytes, whole: bool) -> None:
        begin = len(_BOM) * start.startswith(_BOM)
        lines = start[begin:].splitlines(keepends=True)
        filled = (at for at, line in enumerate(lines) if line.strip() and line[:1] != b"#")
        first = next(filled, len(lines))
        given = re.fullmatch(b"sep=(.)", lines[first].rstrip()) if first < len(lines) else None
        first += given is not None  # Excel's line about the delimiter
        texts = [_decoded(line) for line in lines[first : first + _LINES]]
        if not any(map(str.strip, texts)):
            raise ValueError(f"{self.path} is empty: it holds no rows")
        second = next(filter(str.strip, texts[1:]), "")
        self.mark = given[1].decode("latin-1") if given else _delimiter(texts[0], second)
        self._quotes = '"' in texts[0] + second
        (height, cells), *others = self._first_rows(texts, first)
        fields = list(map(str.strip, cells))
        end, row = others[0] if others else (height, [])
        self.headed = self._has_names(texts[0], fields, second, row)
        self.index = self.headed and len(fields) > 1 and fields[0] in _INDEX
        if self.headed and row and len(row) == len(fields) + 1 and _is_named_row(second, row):
            # R's write.table does not name it
            self.index = True
            fields = ["", *fields]
        width = len(row) if self.headed and row else len(fields)
        self.names = tuple(str(number) for number in range(1, width + 1))
        if self.headed and len(fields) == width:
            self.names = tuple(fields[self.index :])
            self._check_names(first, second)
        elif self.headed and self.mark is not None:
            raise ValueError(
                f"{self.path}: line {first + height + 1} has {width} columns, but the line of "
                f"names, line {first + 1}, has {len(fields)}"
            )
        self.lines = first + height * self.headed
        self.offset = begin + sum(map(len, lines[: self.lines]))
        self.first = b"".join(lines[self.lines : first + (end if self.headed else height)])
        rest = start[self.offset :]
        self._rows_per_byte = (rest.count(b"\n") or rest.count(b"\r") or 1) / max(1, len(rest))
        self.decimal = "."
        if self.mark in (";", "\t") and _DECIMALS[","].search(rest):
            self.decimal = "." if _DECIMALS["."].search(rest) else ","

    def _first_rows(self, texts: list[str], before: int) -> list[tuple[int, list[str]]]:
        """The number of lines up to the end of each of the first two rows, and its cells."""
        reader = self.cells(texts, strict=False)
        try:
            filled = ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
            return list(islice(filled, 2))
        except csv.Error as error:
            raise ValueError(f"{self.path}: line {before + reader.line_num}: {error}") from error

    def _has_names(self, first: str, fields: list[str], second: str, row: list[str]) -> bool:
        """True if the first line is one of names."""
        if self._all_quoted(first) and second and not self._all_quoted(second):
            return True
        numbers = [is_number(field) for field in fields]
        if fields == ["", *map(str, range(len(fields) - 1))] and len(row) == len(fields) > 1:
            # pandas numbers the columns and the rows of an array
            return row[0].strip() == "0" or _is_named_row(second, row)
        return not any(numbers) and any(map(str.isalpha, first))

    def _all_quoted(self, line: str) -> bool:
        """True if every cell of a line is in quotes."""
        cells = _QUOTED.sub('"', line).split(self.mark)
        return all(set(cell.strip()) == {'"'} for cell in cells)

    def _check_names(self, first: int, second: str) -> None:
        """Raise ValueError for names that are not UTF-8, or without a row below."""
        wrong = next(filter(UNDECODED.search, self.names), None)
        if wrong is not None:
            raise ValueError(
                f"{self.path}: line {first + 1} is not in UTF-8: save the file as UTF-8"
            )
        if not second:
            raise ValueError(f"{self.path} is empty: it holds no rows")

    def cells(self, lines: Iterable[str], strict: bool = True) -> Any:
        """The reader of the cells of lines: that of csv, or one that splits at white space."""
        if self.mark is None and not self._quotes:
            return _Words(lines)
        spaced = self.mark is None
        return csv.reader(lines, delimiter=self.mark or " ", skipinitialspace=spaced, strict=strict)


class _Words:
    """Lines split at white space, with the interface of `csv.reader`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.line_num = 0

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self.line_num += 1
        return next(self._lines).split()


class _Unpacked(io.RawIOBase):
    """The content of a text that gzip compressed; a ValueError says that it is damaged, or out of
    proportion to its size."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = path.open("rb")
        self._file = gzip.GzipFile(fileobj=self._raw)
        self._left = max(TEXT_LIMIT, TEXT_EXPANSION * path.stat().st_size)

    @property
    def used(self) -> int:
        """The number of compressed bytes that are read."""
        return self._raw.tell()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with reading(self._path, " as text compressed by gzip"):
            count = self._file.readinto(buffer)
            self._left -= count
            if self._left < 0:
                raise ValueError(
                    f"it unpacks to more than {TEXT_LIMIT >> 20} MiB and {TEXT_EXPANSION} times "
                    "its size: unpack it yourself"
                )
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _beginning(file: IO[bytes]) -> tuple[bytes, bool]:
    """The first mebibyte of a file, and more until two rows are whole; True if that is all."""
    start = file.read(_BEGINNING + 1)
    if len(start) <= _BEGINNING:
        return start, True
    while _filled_lines(start) <= 2 and len(start) < _LONGEST:
        more = file.read(len(start))
        if not more:
            return start, True
        start += more
    end = max(start.rfind(b"\n"), start.rfind(b"\r")) + 1
    return start[:end] or start, False


def _filled_lines(start: bytes) -> int:
    """The number of lines that are neither blank nor comments, up to three."""
    lines = start.splitlines()
    return len(list(islice((one for one in lines if one.strip() and one[:1] != b"#"), 3)))


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n") + "\n"


def _delimiter(first: str, second: str) -> str | None:
    """The delimiter of two lines, outside of quotes; None for white space."""
    above, below = (
        [mark for mark in ";\t," if mark in _QUOTED.sub("", line)] for line in (first, second)
    )
    if not below and len(second.split()) > 1:
        return None
    common = [mark for mark in above if mark in below]
    return next(iter(common or below or above), None)


def _is_named_row(line: str, row: list[str]) -> bool:
    """True if a row begins with a name of its own: a cell in quotes, or a text."""
    return line.lstrip().startswith('"') or not (is_number(row[0].strip()) or not row[-1].strip())


def number_in(cell: str, decimal: str = ".") -> float | None:
    """The number in a cell, NaN where it is missing; None for other cells."""
    word = cell.strip()
    if word.lower() in MISSING or word in MARKS:
        return math.nan
    if decimal == ",":
        if "." in word:
            return None
        word = word.replace(",", ".")
    return float(word) if is_number(word) else None


def delimiter_of(text: str) -> str | None:
    """The delimiter in a line; None for white space."""
    return next((mark for mark in ";\t," if mark in text), None)


def shown(text: str) -> str:
    """The first 40 characters of ``text`` at most, for messages."""
    return repr(text[:_SHOWN]) + "..." * (len(text) > _SHOWN)
