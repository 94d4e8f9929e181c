"""Messages that say less than what their sender has: how an array is coded, and how that is written on the wire."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array, Index
from .draws import Mask, normal, uniform
from .faults import Fault, Source

_FEW = 256
"""Up to so many entries are looked at in full."""
_FEW_DRAWS = 16
"""So many draws are compared with one another."""


class Wire(NamedTuple):
    """How an agent's array is written on the wire."""

    values: int
    """How many numbers."""
    bits: int
    """Of each."""
    beside: int = 0
    """Bytes beside them: positions, scales, checksums."""

    @property
    def bytes(self) -> int:
        """All together."""
        return -(-self.values * self.bits // 8) + self.beside


class Code(NamedTuple):
    """What is sent of an array ``(n_local, size)``."""

    values: Array
    """``(n_local, kept)``."""
    places: Index | None = None
    """``(n_local, kept)``: where they stand in the flat array; None where all entries are sent."""

    def only(self, chosen: Index) -> Code:
        """The code with some of its values, given by their numbers in the flat array of values, ``(n_local, fewer)``."""
        return Code(self.values.take(chosen), chosen if self.places is None else self.places.take(chosen))

    def put(self, out: Array) -> None:
        """Write into ``out``, ``(n_local, size)``, C-contiguous, what is sent, and 0 for what is not."""
        if self.places is None:
            out[...] = self.values
        else:
            out[...] = 0.0
            out.reshape(-1)[self.places] = self.values

    def add_to(self, said: Array, x: Array, rest: Array) -> None:
        """Add what is sent to ``said``, and write ``x - said`` into ``rest``, which has it already where nothing is sent.

        All ``(n_local, size)``, C-contiguous.
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
class Coding(Fault):
    """A message says less than the array that its sender has.

    With ``feedback`` what is coded is the difference to what was sent so far, which every receiver adds up: what a message leaves
    out stays in the difference and is sent later.
    """

    cached: ClassVar[int] = 1 << 16
    """How many numbers to code at a time; what is worked on should stay in the processor's cache."""

    feedback: bool = False

    def coded(self, code: Code, source: Source, number: int) -> Code:
        """What becomes of what is sent, in fresh arrays."""
        raise NotImplementedError

    def wire(self, wire: Wire) -> Wire:
        """How that is written."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Sparse(Coding):
    share: float = 0.1
    feedback: bool = True

    def __post_init__(self) -> None:
        self._check("share must be above 0 and at most 1", 0.0 < self.share <= 1.0, self.share)

    def kept(self, size: int) -> int:
        """How many of ``size`` numbers are sent."""
        return max(1, round(self.share * size))


@dataclass(frozen=True)
class TopK(_Sparse):
    """The share of an array's entries that is largest in absolute value, with their positions; of equals the first.

    Parameters
    ----------
    share
        In (0, 1].
    feedback
        What is left out comes later (Richtarik, Sokolov, Fatkhullin, "EF21", 2021; between neighbours Koloskova, Stich, Jaggi,
        "CHOCO", 2019).
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
        As for topk; without it entries are divided by the share that is sent, so that their mean is right.
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
    that the mean is right (QSGD, Alistarh et al. 2017), but for 2^-17 of such a unit, as 16 random bits decide.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    bits
        Of a number, 2 to 32.
    """

    name: ClassVar[str] = "quantize"

    bits: int = 8

    def __post_init__(self) -> None:
        self._check("bits must be from 2 to 32", 2 <= self.bits <= 32, self.bits)

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


@dataclass(frozen=True)
class Float32(Coding):
    """Numbers rounded to single precision.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    """

    name: ClassVar[str] = "float32"

    def coded(self, code: Code, source: Source, number: int) -> Code:
        return code._replace(values=code.values.astype(np.float32).astype(np.float64))

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, 32, wire.beside)


@dataclass(frozen=True)
class Float16(Coding):
    """Numbers rounded to half precision; those above 65,504 become infinite.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    """

    name: ClassVar[str] = "float16"

    def coded(self, code: Code, source: Source, number: int) -> Code:
        return code._replace(values=code.values.astype(np.float16).astype(np.float64))

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, 16, wire.beside)


@dataclass(frozen=True)
class Noise(Coding):
    """Gaussian noise that the sender adds to what it sends, as for privacy; it has 65,536 values, the quantiles, and mean 0.

    Parameters
    ----------
    feedback
        Add it to the difference to what was sent so far.
    std
        Its standard deviation, at least 0.
    """

    name: ClassVar[str] = "noise"

    std: float = 1e-3

    def __post_init__(self) -> None:
        self._check("std must be at least 0 and finite", 0.0 <= self.std < math.inf, self.std)

    def coded(self, code: Code, source: Source, number: int) -> Code:
        noise = normal(source.short_words(number, code.values.shape[1]))
        noise *= self.std
        noise += code.values
        return code._replace(values=noise)

    def wire(self, wire: Wire) -> Wire:
        return wire


def _largest(x: Array, kept: int) -> Index:
    """``(n, kept)``: where in the flat array the largest absolute values of each row stand, ascending; of equals the first.

    Absolute values are ordered as their bits are, and almost always as they are in single precision. Of a long row only what is
    not below the threshold of a sample is parted, which is a fifth of it where a tenth is asked for.
    """
    n, size = x.shape
    exact = np.abs(x).view(np.int64)
    with np.errstate(over="ignore", under="ignore"):
        coarse = exact.view(np.float64).astype(np.float32).view(np.int32)
    places = _hopeful(coarse, kept)
    inside: Mask | None = None
    if places is not None:
        width = np.diff(np.searchsorted(places, np.arange(n + 1) * size))
        inside = np.arange(width.max()) < width[:, None]
    for keys in (coarse, exact):
        rows: NDArray[Any] = keys
        if inside is not None:
            rows = np.full(inside.shape, -1, dtype=keys.dtype)
            rows[inside] = keys.reshape(-1)[places]
        least = np.partition(rows, -kept, axis=1)[:, -kept, None]
        chosen = rows >= least
        if np.count_nonzero(chosen) == n * kept:
            break
    else:
        above, tied = rows > least, rows == least
        chosen = above | (tied & (np.cumsum(tied, axis=1) <= kept - above.sum(axis=1, keepdims=True)))
    found: Index = np.flatnonzero(chosen) if places is None else places.compress(chosen[inside])
    return found.reshape(n, kept)


def _hopeful(keys: NDArray[np.int32], kept: int) -> Index | None:
    """Where in the flat array what may be among the ``kept`` largest of a row stands, ascending; None if that would be too much.

    The threshold is one of a sample's order statistics, four standard deviations on the safe side; where it takes too few of some
    row in spite of that, that row's block is looked at in full.
    """
    n, size = keys.shape
    columns = _sample(size)
    usual = kept * len(columns) / size
    rank = math.ceil(usual + 4.0 * math.sqrt(usual) + 1.0)
    if 2 * rank > len(columns):
        return None
    least = np.partition(keys[:, columns], -rank, axis=1)[:, -rank, None]
    places: Index = np.flatnonzero(keys >= least)
    counts = np.diff(np.searchsorted(places, np.arange(n + 1) * size))
    return places if counts.min() >= kept else None


@cache
def _sample(size: int) -> Index:
    """Some columns, spread evenly whatever repeats itself in a row; none of a short one."""
    number = 0 if size <= _FEW else size // 7
    golden: Index = np.sort(np.floor(size * (np.arange(number) * 0.6180339887498949 % 1.0)).astype(np.int64))
    return golden


def _subsets(source: Source, number: int, size: int, kept: int) -> Index:
    """``(n_local, kept)``: for each agent distinct places in the flat array, ascending, all subsets of a row alike.

    An agent draws with replacement until it has drawn enough that are distinct, and so many at a time as nobody could do without.
    What is drawn are the entries that are left out, where these are fewer.
    """
    n = source.agents.stop - source.agents.start
    fewer = min(kept, size - kept)
    width = fewer + fewer // 4 + _FEW_DRAWS
    drawn = np.zeros((n, size), dtype=np.bool_)
    flat, rows = drawn.reshape(-1), np.arange(n if fewer else 0)
    missing = np.full(len(rows), fewer)
    stretch, column = -1, width
    while rows.size:
        if column == width:
            stretch, column = stretch + 1, 0
            words = source.words(number, width, stretch) * np.uint64(size)
            words >>= np.uint64(32)
            places = words.view(np.int64)
            places += size * np.arange(n)[:, None]
        together = int(missing.min())
        many = together > _FEW_DRAWS // 2
        draws = slice(column, min(column + (together if many else _FEW_DRAWS), width))
        column = draws.stop
        tried = np.ascontiguousarray(places[:, draws] if rows.size == n else places[rows, draws])
        if many:
            flat[tried] = True
            missing = fewer - drawn.view(np.uint8).sum(axis=1, dtype=np.uint32).astype(np.int64)[rows]
        else:
            again = np.tril(tried[:, :, None] == tried[:, None, :], -1).any(axis=2)
            new = ~(again | flat[tried])
            number_of = np.cumsum(new, axis=1)
            flat[tried[new & (number_of <= missing[:, None])]] = True
            missing = missing - number_of[:, -1]
        open_ = missing > 0
        rows, missing = rows[open_], missing[open_]
    found: Index = np.flatnonzero(flat if fewer == kept else ~flat).reshape(n, kept)
    return found
