"""Coded messages: the sent values of an array and their places, the size of a message, and the choice of entries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array, Index
from .draws import Mask, Source


class Wire(NamedTuple):
    """The size of an agent's array in a message."""

    values: int
    """The number of numbers."""
    bits: int
    """The bits of each number."""
    beside: int = 0
    """The bytes in addition to the numbers: positions, scales, checksums."""

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
        """The code with some of its values, given by their positions in the flat array of values, ``(n_local, fewer)``."""
        return Code(self.values.take(chosen), chosen if self.places is None else self.places.take(chosen))

    def put(self, out: Array) -> None:
        """Write the sent values into ``out``, ``(n_local, size)``, C-contiguous, and 0 for the others."""
        if self.places is None:
            out[...] = self.values
        else:
            out[...] = 0.0
            out.reshape(-1)[self.places] = self.values

    def add_to(self, said: Array, x: Array, rest: Array) -> None:
        """Add the sent values to ``said``, and write ``x - said`` into the sent entries of ``rest``; the others hold it already.

        All arrays are ``(n_local, size)``, C-contiguous.
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
    """``(n, kept)``: positions in the flat array of each row's largest absolute values, ascending; among equal ones the first.

    Absolute values have the order of their bits, and almost always that of their single-precision roundings.
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
    mask: Mask = rows >= np.partition(rows, -kept, axis=1)[:, -kept, None]
    return mask


def _largest(rows: NDArray[Any], kept: int) -> Mask:
    """The mask of the ``kept`` largest of each row; among equal ones the first."""
    chosen = _at_least(rows, kept)
    if np.count_nonzero(chosen) > len(rows) * kept:
        least = np.where(chosen, rows, np.iinfo(rows.dtype).max).min(axis=1, keepdims=True)
        above, tied = rows > least, rows == least
        chosen = above | (tied & (np.cumsum(tied, axis=1) <= kept - above.sum(axis=1, keepdims=True)))
    return chosen


def random_places(source: Source, number: int, size: int, kept: int) -> Index:
    """``(n_local, kept)``: for each agent distinct places in the flat array, all subsets of a row equally likely.

    Where few entries are kept, an agent draws as many as it needs, with replacement, and then replaces repeated ones, some at a
    time. Where few are left out, these are drawn instead. Otherwise each entry gets a random number, and the largest are kept.
    """
    n = source.agents.stop - source.agents.start
    fewer = min(kept, size - kept)
    if 8 * fewer > size:
        return np.flatnonzero(_largest(source.words(number, size), kept)).reshape(n, kept)
    begin = size * np.arange(n)[:, None]
    drawn = np.zeros(n * size, dtype=np.bool_)
    runs = _draws(source, number, size, fewer)
    found: Index = np.sort(next(runs), axis=1) + begin
    drawn[found] = True
    twice = np.zeros(found.shape, dtype=np.bool_)
    np.equal(found[:, 1:], found[:, :-1], out=twice[:, 1:])
    missing = twice.sum(axis=1)
    rows, made_up = np.flatnonzero(missing), []
    while rows.size:
        tried = next(runs)[rows] + begin[rows]
        again = ((tried[:, :, None] == tried[:, None, :]) & _before(tried.shape[1])).any(axis=2)
        new = ~(drawn[tried] | again)
        new &= np.cumsum(new, axis=1) <= missing[rows, None]
        places = tried[new]
        drawn[places] = True
        made_up.append(places)
        missing[rows] -= new.sum(axis=1)
        rows = rows[missing[rows] > 0]
    if made_up:
        places = np.concatenate(made_up)
        found[twice] = places[np.argsort(places // size, kind="stable")]
    if fewer < kept:
        found = np.flatnonzero(~drawn).reshape(n, kept)
    return found


def _draws(source: Source, number: int, size: int, first: int) -> Iterator[NDArray[np.uint32]]:
    """Places in a row, drawn with replacement: ``(n_local, first)``, then further arrays without end."""
    some, begin = max(12, first // 16), first
    for stretch in count():
        words = source.words(number, begin + 2 * some, stretch) * np.uint64(size)
        words >>= np.uint64(32)
        places = words.astype(np.uint32)
        if stretch == 0:
            yield places[:, :first]
        for column in range(begin, begin + 2 * some, some):
            yield places[:, column : column + some]
        begin = 0


@cache
def _before(number: int) -> Mask:
    """The mask ``[i, j]`` of j < i, for ``number`` indices."""
    return np.tri(number, k=-1, dtype=np.bool_)
