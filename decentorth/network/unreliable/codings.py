"""Coded messages: the sent values of an array and their places, the size of a message, and the
choice of entries."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...protocols import Array, Index
from .draws import Mask, Source

_SHIFT, _HIGH, _REPEATED = np.uint64(32), np.uint64(0xFFFFFFFF << 32), np.uint32(0xFFFFFFFF)


class Wire(NamedTuple):
    """The size of an agent's array in a message."""

    values: int
    """The number of numbers."""
    bits: int
    """The bits of each number."""
    beside: int = 0
    """The bytes in addition to the numbers: positions and scales."""

    @property
    def bytes(self) -> int:
        """The bytes in total."""
        return -(-self.values * self.bits // 8) + self.beside


class Code(NamedTuple):
    """The sent values of an array ``(n_local, size)``."""

    values: Array
    """``(n_local, kept)``."""
    places: Index | None = None
    """``(n_local, kept)``: their positions in the flat array; None if all entries are sent."""

    def only(self, chosen: Index) -> Code:
        """The code with some of its values, given by their positions in the flat array of values,
        ``(n_local, fewer)``."""
        places = chosen if self.places is None else self.places.take(chosen)
        return Code(self.values.take(chosen), places)

    def put(self, out: Array) -> None:
        """Write the sent values into ``out``, ``(n_local, size)``, C-contiguous, and 0 for the
        others."""
        if self.places is None:
            out[...] = self.values
        else:
            out[...] = 0.0
            out.reshape(-1)[self.places] = self.values

    def add_to(self, said: Array, x: Array, rest: Array) -> None:
        """Add the sent values to ``said``, and update the sent entries of ``rest`` to ``x - said``.

        The other entries of ``rest`` must be correct already. All arrays are
        ``(n_local, size)``, C-contiguous.
        """
        if self.places is None:
            said += self.values
            np.subtract(x, said, out=rest)
        else:
            now = said.take(self.places)
            now += self.values
            said.reshape(-1)[self.places] = now
            np.subtract(x.take(self.places), now, out=now)
            rest.reshape(-1)[self.places] = now


def largest_places(x: Array, kept: int) -> Index:
    """``(n, kept)``: positions in the flat array of each row's largest absolute values, ascending;
    among equal ones the first.

    Absolute values have the order of their bits, and almost always that of their single-precision
    roundings.
    """
    with np.errstate(over="ignore", under="ignore"):
        keys: NDArray[Any] = x.astype(np.float32).view(np.int32)
    keys &= np.int32(0x7FFFFFFF)
    chosen = _at_least(keys, kept)
    if np.count_nonzero(chosen) > len(x) * kept:
        chosen = _largest(np.abs(x).view(np.int64), kept)
    return np.flatnonzero(chosen).reshape(len(x), kept)


def _at_least(rows: NDArray[Any], kept: int) -> Mask:
    """The mask of the entries that are at least the ``kept``-th largest of their row."""
    return rows >= np.partition(rows, -kept, axis=1)[:, -kept, None]


def _largest(rows: NDArray[Any], kept: int) -> Mask:
    """The mask of the ``kept`` largest of each row; among equal ones the first."""
    chosen = _at_least(rows, kept)
    if np.count_nonzero(chosen) > len(rows) * kept:
        least = np.where(chosen, rows, np.iinfo(rows.dtype).max).min(axis=1, keepdims=True)
        above = rows > least
        tied = rows == least
        room = kept - above.sum(axis=1, keepdims=True)
        chosen = above | (tied & (np.cumsum(tied, axis=1) <= room))
    return chosen


def random_places(source: Source, number: int, size: int, kept: int) -> Index:
    """``(n_local, kept)``: for each agent distinct places in the flat array, all subsets of a row
    equally likely.

    Where few entries are kept, an agent draws with replacement until it has as many distinct places
    as it needs. Where few are left out, these are drawn instead. Otherwise each entry gets a random
    number, and the largest are kept.
    """
    n = source.agents.stop - source.agents.start
    fewer = min(kept, size - kept)
    if 8 * fewer > size:
        return np.flatnonzero(_largest(source.words(number, size), kept)).reshape(n, kept)
    if fewer == 0:
        return np.arange(n * size).reshape(n, size)
    more = 2 * max(12, fewer // 16)
    words = source.words(number, fewer + more).astype(np.uint64)
    for stretch in count(1):
        draws = ((words * np.uint64(size)) & _HIGH) | np.arange(words.shape[1], dtype=np.uint64)
        draws.sort(axis=1)  # by place, then by turn
        places = draws >> _SHIFT
        turns = draws.astype(np.uint32)
        turns[:, 1:][places[:, 1:] == places[:, :-1]] = _REPEATED
        last = np.partition(turns, fewer - 1, axis=1)[:, fewer - 1, None]
        if last.max() < _REPEATED:
            break
        words = np.concatenate((words, source.words(number, more, stretch)), axis=1)
    found: Index = places[turns <= last].reshape(n, fewer).astype(np.int64)
    found += size * np.arange(n)[:, None]
    if fewer < kept:
        left_out = np.zeros(n * size, dtype=np.bool_)
        left_out[found] = True
        found = np.flatnonzero(~left_out).reshape(n, kept)
    return found
