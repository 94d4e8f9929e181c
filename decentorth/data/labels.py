"""Class labels of samples: one integer or one string each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Labels = NDArray[np.int64] | NDArray[np.str_]
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})(?:\.0+)?")
"""An integer label; ``1.0``, which pandas writes beside missing cells, is 1, and ``01`` is text."""


def typed(written: Labels) -> Labels:
    """``(m,)``: labels as integers if every one is written as an integer, else as they are
    written."""
    if written.dtype.kind != "U" or not all(map(_INTEGER.fullmatch, written.tolist())):
        return written
    return np.array([int(text.partition(".")[0]) for text in written.tolist()], dtype=np.int64)


def agreed(written: Sequence[Labels], everyone: Callable[[bytes], list[bytes]]) -> list[Labels]:
    """The labels of sites, which are integers only if they are at every site; called by all ranks.

    ``everyone`` gives the bytes of every rank.
    """
    found = [typed(labels) for labels in written]
    own = json.dumps([labels.dtype.kind == "i" for labels in found])
    if all(integers for part in everyone(own.encode()) for integers in json.loads(part)):
        return found
    return [labels.astype(np.str_) for labels in written]


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
