"""Matrices and labels in delimited text: ``.csv``, ``.tsv`` and ``.txt``.

The full format: one row per line, columns separated by semicolons, tabs, commas or white space, the
first of these that occurs in the first row of numbers. Blank lines are ignored. The file may begin
with comment lines (``#``) and then one header line, which is a line of names: letters, and no
column that is a number. Numbers are decimal and are rounded correctly to float64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decentorth.data.arrays import Extent, Reader
from decentorth.data.labels import Labels, as_labels
from decentorth.protocols import Array, Index
from topologies.matrix_files import reading, require_unpacked
from topologies.memory import SMALL, require
from topologies.words import is_number

_CODE = re.compile(r"[+-]?0[0-9]")
"""The beginning of a code with a leading zero, which is a label as text."""
_UNDECODED = re.compile(r"[\udc80-\udcff]")
"""A byte that is not UTF-8, as the error handler "surrogateescape" gives it."""
_SHOWN = 40
_HEAD = 1 << 20
"""The bytes at the beginning of a text whose lines stand for all."""


class _Layout(NamedTuple):
    first_line: int
    """The number of the first line of data, counted from 1."""
    delimiter: str | None
    """The delimiter; None for runs of white space."""
    columns: int
    names: tuple[str, ...]
    """The names of the columns, or their numbers counted from 1."""


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The pairs ``(number counted from 1, text)`` of the lines that are not blank, after the
    leading comments."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        leading = True
        for number, line in enumerate(file, 1):
            text = line.rstrip("\n")
            leading = leading and (text.startswith("#") or not text.strip(" "))
            if not leading and text.strip(" "):
                yield number, text


def about_lines(path: Path) -> int:
    """The number of lines of a text, estimated from its size and the lengths of its first lines;
    ValueError for zero bytes."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if b"\0" in head:
        raise ValueError(f"{path} is not plain text (it holds zero bytes): save it as UTF-8")
    return max(1, path.stat().st_size * head.count(b"\n") // len(head))


def delimiter_of(text: str) -> str | None:
    """The delimiter in a line; None for white space."""
    return next((mark for mark in ";\t," if mark in text), None)


def has_delimiter(path: Path) -> bool:
    """True if the first line has a delimiter other than white space.

    Cells between such delimiters may be empty.
    """
    return any(delimiter_of(text) for _, text in islice(_lines(path), 1))


def shown(text: str) -> str:
    """The first 40 characters of ``text`` at most, for messages."""
    return repr(text[:_SHOWN]) + "..." * (len(text) > _SHOWN)


def text_labels(texts: Sequence[str], path: Path) -> Labels:
    """``(m,)``: the labels in a file as they are written; ValueError where one is not in UTF-8."""
    wrong = next((text for text in texts if not text.isascii() and _UNDECODED.search(text)), None)
    if wrong is not None:
        raise ValueError(
            f"{path}: the label {shown(wrong)} is not in UTF-8: save the file as UTF-8"
        )
    with reading(path):
        longest = max(map(len, texts))  # an array has room for it in each cell
        require_unpacked(4 * len(texts) * longest, path.stat().st_size)
    return as_labels(np.array(texts, dtype=np.str_), str(path))


class TextReader(Reader):
    """A matrix in delimited text, parsed by NumPy.

    Every line is counted, but only the requested ones are parsed.
    """

    @cached_property
    def _layout(self) -> _Layout:
        about_lines(self.path)
        lines = _lines(self.path)
        number, text = next(lines, (0, ""))
        if not number:
            raise ValueError(f"{self.path} is empty: it holds no numbers")
        fields = text.split(delimiter_of(text))
        if any(map(is_number, fields)) or not any(map(str.isalpha, text)):
            numbers = tuple(str(i) for i in range(1, len(fields) + 1))
            return _Layout(number, delimiter_of(text), len(fields), numbers)
        first, row = next(lines, (0, ""))
        if not first:
            raise ValueError(
                f"{self.path} is empty: line {number} ({shown(text)}) holds no number, and no "
                "line follows"
            )
        mark = delimiter_of(row)
        columns, names = len(row.split(mark)), [name.strip(' "') for name in text.split(mark)]
        if mark is not None and '"' not in text and len(names) != columns:
            raise ValueError(
                f"{self.path}: line {first} has {columns} columns, but the header, line "
                f"{number}, has {len(names)}"
            )
        return _Layout(first, mark, columns, tuple(names))

    def _data(self) -> Iterator[tuple[int, str]]:
        return (line for line in _lines(self.path) if line[0] >= self._layout.first_line)

    @cached_property
    def shape(self) -> tuple[int, int]:
        return sum(1 for _ in self._data()), self._layout.columns

    def extent(self) -> Extent:
        if self.path.stat().st_size <= SMALL:
            return super().extent()
        return Extent(about_lines(self.path), self._layout.columns)

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        m, d = self.shape
        chosen = np.zeros(m, dtype=bool)
        chosen[slice(None) if wanted is None else wanted] = True
        count = int(chosen.sum())
        require(8.0 * count * d, "the matrix")
        if not count:
            return np.empty((0, d))
        texts = (text for _, text in compress(self._data(), chosen.tobytes()))
        try:
            mark = self._layout.delimiter
            block: Array = np.loadtxt(texts, delimiter=mark, comments=None, ndmin=2)
        except ValueError as error:
            self._refuse(chosen)
            raise ValueError(f"{self.path} cannot be read: {error}") from error
        if block.shape != (count, d):
            self._refuse(chosen)
        return block

    def _refuse(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Raise for the first of the ``chosen`` lines that is no row of numbers."""
        first, mark, columns, names = self._layout
        for number, text in compress(self._data(), chosen.tobytes()):
            fields = text.split(mark)
            if len(fields) != columns:
                raise ValueError(
                    f"{self.path}: line {number} has {len(fields)} columns, but line {first} has "
                    f"{columns}"
                )
            if words := [column for column, field in enumerate(fields) if not is_number(field)]:
                raise ValueError(
                    f"{self.path}: line {number}, column {words[0] + 1} (counted from 1): "
                    f"{shown(fields[words[0]])} is not a number; leave such columns out, "
                    f"exclude={tuple(names[column] for column in words if column < len(names))!r}; "
                    "a line of names holds no numbers"
                )

    def labels(self) -> Labels:
        """The labels, one per line: all integers, or else strings; a header above integers is
        skipped."""
        lines = list(_lines(self.path))
        if not lines:
            raise ValueError(f"{self.path} is empty: it holds no labels")
        for expected, (number, text) in enumerate(lines, lines[0][0]):
            if number != expected:
                wrong = "is blank, but each line must hold one label"
                raise ValueError(f"{self.path}: line {expected} {wrong}")
            fields = text.split(delimiter_of(text))
            if delimiter_of(text) or (len(fields) > 1 and all(map(is_number, fields))):
                wrong = f"must hold one label, but holds {len(fields)}: {shown(text)}"
                raise ValueError(f"{self.path}: line {number} {wrong}")
        texts = [text.strip() for _, text in lines]
        if len(texts) > 1 and not is_number(texts[0]) and all(map(is_number, texts[1:])):
            texts = texts[1:]
        if all(map(is_number, texts)) and not any(map(_CODE.match, texts)):
            return as_labels(np.array(texts, dtype=np.float64), str(self.path))
        return text_labels(texts, self.path)
