"""Samples of a file of which some rows and columns are drawn, as paper 001 draws subsets of its
data sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decentorth.data import resolve
from decentorth.problems.base import stream
from decentorth.problems.common.division import Sourced
from decentorth.protocols import Array, Index
from decentorth.settings import Count, Positive

_DRAW = 2
"""The purpose of the stream of the draws."""


class DrawnSamples:
    """The drawn rows and columns of the samples at ``source``, in the file's order, all divided by
    one number.

    Parameters
    ----------
    with_entries
        Draw only rows that have an entry other than 0 in the drawn columns.

    Raises
    ------
    ValueError
        For more rows or columns than there are, and for rows without an entry where all are read.
    """

    def __init__(
        self, source: str, chosen: DrawnSettings, seed: int, with_entries: bool = False
    ) -> None:
        self._file = resolve(source)
        self._divisor = chosen.divide_by
        m, n = self._file.shape
        rng = stream(seed, 0, _DRAW)
        limit = f"draw_columns must be at most {n}, the columns of {source}"
        columns = _draw(rng, np.arange(n), chosen.draw_columns, limit)
        self._columns = columns
        candidates = np.arange(m)
        words = f"the rows of {source}"
        asked = (chosen.draw_rows, chosen.draw_columns) != (None, None)
        if asked and with_entries:
            candidates = np.flatnonzero(self._file.part(candidates, columns).any(axis=-1))
            words += f" that are not zero in {len(columns)} of its {n} columns"
        left = m - len(candidates)
        if left and chosen.draw_rows is None:
            raise ValueError(
                f"{left} rows of {source} are zero in the drawn columns: leave them out by "
                f"draw_rows {m - left}"
            )
        limit = f"draw_rows must be at most {len(candidates)}, {words}"
        self._drawn = _draw(rng, candidates, chosen.draw_rows, limit)

    @property
    def shape(self) -> tuple[int, int]:
        """``(m, n)``: the numbers of rows and columns."""
        return len(self._drawn), len(self._columns)

    def rows(self, index: Index) -> Array:
        """``(len(index), n)``: the rows ``index`` of those drawn."""
        found = self._file.part(self._drawn[index], self._columns)
        if self._divisor != 1.0:
            found /= self._divisor
        return found


def _draw(rng: np.random.Generator, numbers: Index, count: int | None, limit: str) -> Index:
    """``count`` of the numbers in their order, all of them for None."""
    if count is None:
        return numbers
    if count > len(numbers):
        raise ValueError(f"{limit}, got {count}")
    return np.sort(rng.choice(numbers, count, replace=False))


@dataclass(frozen=True, kw_only=True)
class DrawnSettings(Sourced):
    """Settings of samples from a file.

    Parameters
    ----------
    draw_rows
        Draw this many of the file's rows by the seed; by default all are read.
    draw_columns
        Draw this many of the file's columns by the seed; by default all are read.
    divide_by
        Divide all samples of the file by this: 255 brings images of bytes to [0, 1].
    """

    draw_rows: Count | None = None
    draw_columns: Count | None = None
    divide_by: Positive = 1.0

    _for_files = "draw_rows", "draw_columns", "divide_by"
