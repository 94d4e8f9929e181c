"""The check of requested rows, and words for missing values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from decentorth.protocols import Index

LEAVE_OUT = "Remove such rows or fill in the values"
DROP = (
    "Take the means of the columns, missing='mean', or leave out the rows with missing cells, "
    "drop_missing=True"
)


def require_rows(rows: ArrayLike, m: int, what: str) -> Index:
    """The indices ``rows`` into ``m`` rows as int64, in the order given; raise unless they are
    integers in ``[0, m)``."""
    given = np.asarray(rows)
    if given.ndim != 1:
        raise ValueError(
            f"the rows wanted of {what} must be a 1-D list of row numbers, but have shape "
            f"{given.shape}"
        )
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"the rows wanted of {what} must be integers, but are {given.dtype}")
    outside = given[(given < 0) | (given >= m)]
    if outside.size:
        raise ValueError(f"{what} has rows 0 to {m - 1}, but row {outside[0]} was asked for")
    return given.astype(np.int64)
