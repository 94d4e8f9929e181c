"""Class labels of samples: one integer or one string each."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Labels = NDArray[np.int64] | NDArray[np.str_]


def as_labels(values: ArrayLike, what: str = "labels") -> Labels:
    """``(m,)``: the labels as int64 or as strings; integral floating-point numbers are accepted.

    A TypeError or ValueError says what else was found, or that there is no label or more than one
    dimension.
    """
    given = np.asarray(values)
    if given.ndim != 1:
        raise ValueError(f"{what} must have 1 dimension, but has shape {given.shape}")
    if not given.size:
        raise ValueError(f"{what}: empty, there is no label")
    if given.dtype.kind in "UT":
        return given.astype(np.str_)
    if given.dtype.kind == "S":
        try:
            return np.char.decode(given, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{what} must be integers or strings in UTF-8: {error}") from error
    if given.dtype.kind == "f":
        wrong = np.flatnonzero(~(np.abs(given) < 2.0**53) | (given != np.trunc(given)))
        if wrong.size:
            raise ValueError(
                f"{what} must be integers or strings, but label {wrong[0]} (counted from 0) is "
                f"{given[wrong[0]]}"
            )
    elif given.dtype.kind == "u" and given.max() > np.iinfo(np.int64).max:
        raise ValueError(
            f"{what} must fit in 64-bit signed integers, but the largest is {given.max()}"
        )
    elif given.dtype.kind not in "biu":
        raise TypeError(f"{what} must be integers or strings, but the array holds {given.dtype}")
    return given.astype(np.int64)
