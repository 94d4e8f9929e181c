"""Codings of messages: compression, rounding and noise, and the number of bytes that a coded message takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array, Index
from ..settings import NotNegative, Range, Share
from .draws import Mask, normal, uniform
from .faults import Fault, Source

_FEW = 256
"""Rows of up to this many entries are searched in full, without a sample."""


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


@dataclass(frozen=True)
class Coding(Fault, ABC):
    """A fault that changes the content of a message: compression, rounding or noise.

    With ``feedback`` the difference to the sum of the earlier messages is coded, and every receiver adds the messages up: entries
    that a message leaves out stay in the difference and are sent later.
    """

    cached: ClassVar[int] = 1 << 16
    """The number of numbers to code at a time, so that they stay in the processor's cache."""

    feedback: bool = False

    @abstractmethod
    def coded(self, code: Code, source: Source, number: int) -> Code:
        """The code after this coding, in fresh arrays."""

    @abstractmethod
    def wire(self, wire: Wire) -> Wire:
        """The size of the array after this coding."""


@dataclass(frozen=True)
class _Sparse(Coding):
    share: Share = 0.1
    feedback: bool = True

    def kept(self, size: int) -> int:
        """The number of entries that are sent of ``size``."""
        return max(1, round(self.share * size))


@dataclass(frozen=True)
class TopK(_Sparse):
    """The largest entries of an array in absolute value, with their positions; among equal ones the first.

    Parameters
    ----------
    share
        In (0, 1].
    feedback
        Entries that are left out are sent later (Richtarik, Sokolov, Fatkhullin, "EF21", 2021; between neighbours Koloskova, Stich,
        Jaggi, "CHOCO", 2019).
    """

    name: ClassVar[str] = "topk"

    def coded(self, code: Code, source: Source, number: int) -> Code:
        return code.only(_largest(code.values, self.kept(code.values.shape[1])))

    def wire(self, wire: Wire) -> Wire:
        kept = self.kept(wire.values)
        positions = 0 if kept == wire.values else min(kept * math.ceil(math.log2(wire.values)), wire.values)  # or a bit for each
        return Wire(kept, wire.bits, wire.beside + -(-positions // 8))


@dataclass(frozen=True)
class RandomK(_Sparse):
    """A share of an array's entries that both ends draw, so that positions are not sent.

    Parameters
    ----------
    share
        In (0, 1].
    feedback
        As for topk; without it entries are divided by the share that is sent, so that the coding is unbiased.
    """

    name: ClassVar[str] = "randomk"

    def coded(self, code: Code, source: Source, number: int) -> Code:
        size = code.values.shape[1]
        kept = self.kept(size)
        sent = code.only(_subsets(source, number, size, kept))
        if not self.feedback:
            np.multiply(sent.values, size / kept, out=sent.values)
        return sent

    def wire(self, wire: Wire) -> Wire:
        return Wire(self.kept(wire.values), wire.bits, wire.beside)


@dataclass(frozen=True)
class Quantize(Coding):
    """Stochastic uniform quantization: whole multiples of the largest entry / (2^(bits - 1) - 1), rounded up or down at random so
    that it is unbiased (QSGD, Alistarh et al. 2017) up to 2^-17 of such a unit, as 16 random bits decide.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    bits
        The bits of a number, 2 to 32.
    """

    name: ClassVar[str] = "quantize"

    bits: Annotated[int, Range(least=2, most=32)] = 8

    def coded(self, code: Code, source: Source, number: int) -> Code:
        x = code.values
        unit = np.abs(x).max(axis=1, keepdims=True) / (2.0 ** (self.bits - 1) - 1.0)
        multiples = x / np.where(unit > 0.0, unit, 1.0)
        multiples += uniform(source.short_words(number, x.shape[1]))
        np.floor(multiples, out=multiples)
        multiples *= unit
        return code._replace(values=multiples)

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, self.bits, wire.beside + 8)


class _Rounded(Coding):
    kind: ClassVar[type[np.floating[Any]]]
    """The type that numbers are rounded to."""

    def coded(self, code: Code, source: Source, number: int) -> Code:
        return code._replace(values=code.values.astype(self.kind).astype(np.float64))

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, np.finfo(self.kind).bits, wire.beside)


@dataclass(frozen=True)
class Float32(_Rounded):
    """Numbers rounded to single precision.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    """

    name: ClassVar[str] = "float32"
    kind = np.float32


@dataclass(frozen=True)
class Float16(_Rounded):
    """Numbers rounded to half precision; those above 65,504 become infinite.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    """

    name: ClassVar[str] = "float16"
    kind = np.float16


@dataclass(frozen=True)
class Noise(Coding):
    """Gaussian noise that the sender adds to its messages, as for privacy; it takes 65,536 values, the quantiles, with mean 0.

    Parameters
    ----------
    feedback
        Add it to the difference to what was sent so far.
    std
        Its standard deviation, at least 0.
    """

    name: ClassVar[str] = "noise"

    std: NotNegative = 1e-3

    def coded(self, code: Code, source: Source, number: int) -> Code:
        noise = normal(source.short_words(number, code.values.shape[1]))
        noise *= self.std
        noise += code.values
        return code._replace(values=noise)

    def wire(self, wire: Wire) -> Wire:
        return wire


def _largest(x: Array, kept: int) -> Index:
    """``(n, kept)``: positions in the flat array of each row's largest absolute values, ascending; among equal ones the first.

    Absolute values have the order of their bits, and almost always that of their single-precision roundings. Of a long row only the
    entries above the threshold of a sample are partitioned, about a fifth of the row where a tenth is kept.
    """
    n = len(x)
    with np.errstate(over="ignore", under="ignore"):
        keys: NDArray[Any] = x.astype(np.float32).view(np.int32)
    keys &= np.int32(0x7FFFFFFF)
    places, inside = _hopeful(keys, kept)
    chosen = _at_least(_gathered(keys, places, inside), kept)
    if np.count_nonzero(chosen) > n * kept:
        chosen = _chosen(_gathered(np.abs(x).view(np.int64), places, inside), kept)
    found: Index = np.flatnonzero(chosen) if inside is None else places.compress(chosen[inside])
    return found.reshape(n, kept)


def _at_least(rows: NDArray[Any], kept: int) -> Mask:
    """The mask of the entries that are at least the ``kept``-th largest of their row."""
    mask: Mask = rows >= np.partition(rows, -kept, axis=1)[:, -kept, None]
    return mask


def _chosen(rows: NDArray[Any], kept: int) -> Mask:
    """The mask of the ``kept`` largest of each row; among equal ones the first."""
    chosen = _at_least(rows, kept)
    if np.count_nonzero(chosen) > len(rows) * kept:
        least = np.where(chosen, rows, np.iinfo(rows.dtype).max).min(axis=1, keepdims=True)
        above, tied = rows > least, rows == least
        chosen = above | (tied & (np.cumsum(tied, axis=1) <= kept - above.sum(axis=1, keepdims=True)))
    return chosen


def _hopeful(keys: NDArray[np.int32], kept: int) -> tuple[Index, Mask | None]:
    """Positions in the flat array, ascending, of the candidates for the ``kept`` largest of each row, and the mask that places them
    in an array with one row per row of keys; an empty array and None if sampling does not pay.

    The threshold is an order statistic of a sample, four standard deviations on the safe side; where it still leaves too few
    candidates in some row, all rows are searched in full.
    """
    n, size = keys.shape
    nothing = np.empty(0, dtype=np.int64)
    columns = _sample(size)
    usual = kept * len(columns) / size
    rank = math.ceil(usual + 4.0 * math.sqrt(usual) + 1.0)
    if 2 * rank > len(columns):
        return nothing, None
    least = np.partition(keys[:, columns], -rank, axis=1)[:, -rank, None]
    places: Index = np.flatnonzero(keys >= least)
    counts = np.diff(np.searchsorted(places, np.arange(0, (n + 1) * size, size)))
    if counts.min() < kept:
        return nothing, None
    return places, np.arange(counts.max()) < counts[:, None]


def _gathered(keys: NDArray[Any], places: Index, inside: Mask | None) -> NDArray[Any]:
    """The keys at the places, row by row, padded with -1; all keys if ``inside`` is None."""
    if inside is None:
        return keys
    rows = np.full(inside.shape, -1, dtype=keys.dtype)
    rows[inside] = keys.take(places)
    return rows


@cache
def _sample(size: int) -> Index:
    """A sample of the columns, evenly spread and without a period; empty for a short row."""
    number = 0 if size <= _FEW else size // 7
    golden: Index = np.sort(np.floor(size * (np.arange(number) * 0.6180339887498949 % 1.0)).astype(np.int64))
    return golden


def _subsets(source: Source, number: int, size: int, kept: int) -> Index:
    """``(n_local, kept)``: for each agent distinct places in the flat array, all subsets of a row equally likely.

    Where few entries are kept, an agent draws as many as it needs, with replacement, and then replaces repeated ones, some at a
    time. Where few are left out, these are drawn instead. Otherwise each entry gets a random number, and the largest are kept.
    """
    n = source.agents.stop - source.agents.start
    fewer = min(kept, size - kept)
    if 8 * fewer > size:
        return np.flatnonzero(_chosen(source.words(number, size), kept)).reshape(n, kept)
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
