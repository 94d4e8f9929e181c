"""Matrices and labels in delimited text: ``.csv``, ``.tsv`` and ``.txt``.

The full format: one row per line, columns separated by semicolons, tabs, commas or white space, the first of these that
occurs in the first row of numbers. Blank lines are ignored. The file may begin with comment lines (``#``) and then one
header line, which is a line of names: letters, and no column that is a number. Numbers are decimal and are rounded correctly to
float64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decentorth.data.labels import Labels, as_labels
from decentorth.protocols import Array, Index
from topologies.matrix_files import EXPANSION, UNPACKED_LIMIT

INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
"""An integer label."""
_UNDECODED = re.compile(r"[\udc80-\udcff]")
"""A byte that is not UTF-8, as the error handler "surrogateescape" gives it."""
_SHOWN = 40


class _Layout(NamedTuple):
    first_line: int
    """The number of the first line of data, counted from 1."""
    delimiter: str | None
    """The delimiter; None for runs of white space."""
    columns: int


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The pairs ``(number counted from 1, text)`` of the lines that are not blank, after the leading comments."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        leading = True
        for number, line in enumerate(file, 1):
            text = line.rstrip("\n")
            leading = leading and (text.startswith("#") or not text.strip(" "))
            if not leading and text.strip(" "):
                yield number, text


def delimiter_of(text: str) -> str | None:
    """The delimiter in a line; None for white space."""
    return next((mark for mark in ";\t," if mark in text), None)


def is_number(text: str) -> bool:
    """True if ``text`` is a decimal number (NaN and infinity included), without underscores or other scripts' digits."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def shown(text: str) -> str:
    """The first 40 characters of ``text`` at most, for messages."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def text_labels(texts: Sequence[str], path: Path) -> Labels:
    """``(m,)``: the labels in a file as strings; ValueError where one is not in UTF-8, or they would take too much memory."""
    for text in texts:
        if not text.isascii() and _UNDECODED.search(text):
            raise ValueError(f"{path}: the label {shown(text)} is not in UTF-8: save the file as UTF-8")
    longest = max(texts, key=len, default="")
    most = max(UNPACKED_LIMIT, EXPANSION * path.stat().st_size)
    if 4 * len(texts) * len(longest) > most:
        raise ValueError(
            f"{path}: {len(texts)} labels with room for the longest, {shown(longest)} of {len(longest)} characters, "
            f"would take more than {most / 2**30:.3g} GiB: shorten it"
        )
    return as_labels(np.array(texts, dtype=np.str_), str(path))


class TextReader:
    """A matrix in delimited text, read as a stream: every line is counted, only the wanted ones are parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _layout(self) -> _Layout:
        lines = _lines(self.path)
        number, text = next(lines, (0, ""))
        if not number:
            raise ValueError(f"{self.path} is empty: it has no row of numbers")
        if "\0" in text:
            raise ValueError(f"{self.path} is not plain text (it holds zero bytes): save it as UTF-8")
        fields = text.split(delimiter_of(text))
        numeric = [is_number(field) for field in fields]
        if any(numeric) or not any(map(str.isalpha, text)):
            if not all(numeric):
                self._refuse(number, fields, "; a line of names has letters and no number, a row of data only numbers")
            return _Layout(number, delimiter_of(text), len(fields))
        first, row = next(lines, (0, ""))
        if not first:
            raise ValueError(f"{self.path} is empty: line {number} ({shown(text)}) has no number in it, and no line follows")
        layout = _Layout(first, delimiter_of(row), len(row.split(delimiter_of(row))))
        if layout.delimiter is not None and '"' not in text and len(text.split(layout.delimiter)) != layout.columns:
            names = len(text.split(layout.delimiter))
            raise ValueError(f"{self.path}: line {first} has {layout.columns} columns, but the header, line {number}, has {names}")
        return layout

    def _data(self) -> Iterator[tuple[int, str]]:
        return (line for line in _lines(self.path) if line[0] >= self._layout.first_line)

    @cached_property
    def shape(self) -> tuple[int, int]:
        first, delimiter, columns = self._layout
        m = 0
        for number, text in self._data():
            found = len(text.split()) if delimiter is None else text.count(delimiter) + 1
            if found != columns:
                raise ValueError(f"{self.path}: line {number} has {found} columns, but line {first} has {columns}")
            m += 1
        return m, columns

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        m, d = self.shape
        numbers = range(m) if wanted is None else wanted.tolist()
        block = np.empty((len(numbers), d))
        lines = enumerate(self._data())
        for place, row in enumerate(numbers):
            number, text = next(line for at, line in lines if at == row)
            block[place] = self._parse(number, text)
        return block

    def _parse(self, number: int, text: str) -> list[float]:
        fields = text.split(self._layout.delimiter)
        if text.isascii() and "_" not in text:
            try:
                return [float(field) for field in fields]
            except ValueError:
                pass
        self._refuse(
            number, fields, "; choose the columns of numbers by their names (columns)" if self._layout.first_line > 1 else ""
        )
        return [float(field) for field in fields]

    def _refuse(self, number: int, fields: list[str], repair: str) -> None:
        """Raise unless all fields of line ``number`` are numbers."""
        for column, field in enumerate(fields, 1):
            if not is_number(field):
                got = f"{shown(field)} is not a number" if field.strip() else "there is nothing"
                raise ValueError(f"{self.path}: line {number}, column {column} (counted from 1): {got}{repair}")

    def labels(self) -> Labels:
        """The labels, one per line: all integers, or else strings; a header above integers is skipped."""
        lines = list(_lines(self.path))
        if not lines:
            raise ValueError(f"{self.path} is empty: it has no label")
        for (before, _), (number, text) in zip([(lines[0][0] - 1, ""), *lines], lines, strict=False):
            if number != before + 1:
                raise ValueError(f"{self.path}: line {before + 1} is blank, but each line must hold one label")
            fields = text.split(delimiter_of(text))
            if delimiter_of(text) or (len(fields) > 1 and all(map(is_number, fields))):
                raise ValueError(f"{self.path}: line {number} must hold one label, but holds {len(fields)}: {shown(text)}")
        texts = [text.strip() for _, text in lines]
        if len(texts) > 1 and not is_number(texts[0]) and all(map(is_number, texts[1:])):
            texts = texts[1:]
        if all(map(INTEGER.fullmatch, texts)):
            return np.array([int(text) for text in texts], dtype=np.int64)
        if all(map(is_number, texts)):
            return as_labels(np.array([float(text) for text in texts]), str(self.path))
        return text_labels(texts, self.path)
