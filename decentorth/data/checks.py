"""Checks of requested rows and of values read."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from decentorth.protocols import Array, Index

LEAVE_OUT = "Remove such rows or fill in the values"
DROP = "Fill in the values, or leave out the rows with missing cells (drop_missing)"


class Source(Protocol):
    """The file of a matrix."""

    repair: str
    """The cure for missing values."""

    def place(self, row: int, column: int) -> str:
        """The words for the place of an entry."""


def require_rows(rows: ArrayLike, m: int, what: str) -> Index:
    """The indices ``rows`` into ``m`` rows as int64, in the order given; raise unless they are integers in ``[0, m)``."""
    given = np.asarray(rows)
    if given.ndim != 1:
        raise ValueError(f"the rows wanted of {what} must be a 1-D list of row numbers, but have shape {given.shape}")
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"the rows wanted of {what} must be integers, but are {given.dtype}")
    outside = given[(given < 0) | (given >= m)]
    if outside.size:
        raise ValueError(f"{what} has rows 0 to {m - 1}, but row {outside[0]} was asked for")
    return given.astype(np.int64)


def require_finite(block: Array, rows: Index | None, what: str, source: Source, missing: bool = False) -> None:
    """Raise unless all values are finite, or NaN where values may be ``missing``; the message has the place of the first wrong one.

    ``rows`` are the numbers of the block's rows in the matrix of ``source`` (None: all of them).
    """
    bad = np.isinf(block) if missing else ~np.isfinite(block)
    count = int(np.count_nonzero(bad))
    if not count:
        return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    place = source.place(row if rows is None else int(rows[row]), column)
    nans = int(np.count_nonzero(np.isnan(block[bad])))
    raise ValueError(
        f"{what}: {count} of the {block.size} values read are not finite ({nans} NaN, {count - nans} infinite); "
        f"the first is {block[row, column]} at {place}. {source.repair if nans == count else LEAVE_OUT}"
    )
