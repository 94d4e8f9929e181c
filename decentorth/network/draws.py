"""Random numbers of an unreliable network: pure functions of the seed, the fault, the agents and the round.

Both ends of an edge, and all ranks, draw the same. Draws for messages, edges and agents are words of Philox4x32-10 with the counter
(first agent, second agent, round / 4, fault), four rounds at a time; draws for every entry of a message are a run of Philox4x64-10
(NumPy's), in which each agent has its own segment.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array, Index
from ..streams import philox

Mask = NDArray[np.bool_]
Words = NDArray[np.uint32]
ShortWords = NDArray[np.uint16]
_FAULTS = 0xFA000000
"""The tag of faults, above the number of every purpose of the agents' streams."""
_UNIT = 1.0 / 2.0**32


class Draws:
    """Numbers in [0, 1) for some pairs of agents, or for single ones as pairs with themselves.

    Parameters
    ----------
    seed
        Up to 64 bits are used.
    number
        The number of the fault, below 2^20: faults draw independently.
    first, second
        The pairs.
    """

    def __init__(self, seed: int, number: int, first: Index, second: Index) -> None:
        self._key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
        self._first, self._second = first.astype(np.uint64), second.astype(np.uint64)
        self._tag = np.full(len(first), _FAULTS | number, dtype=np.uint64)
        self._block = -1
        self._numbers: tuple[Array, ...] = ()

    def __call__(self, t: int) -> Array:
        """The numbers of round ``t``."""
        block, row = divmod(t, 4)
        if block != self._block:
            rounds = np.full(len(self._first), block & 0xFFFFFFFF, dtype=np.uint64)
            self._numbers = tuple(
                [
                    np.asarray(word * _UNIT, dtype=np.float64)
                    for word in philox((self._first, self._second, rounds, self._tag), self._key)
                ]
            )
            self._block = block
        return self._numbers[row]


class Chain:
    """A two-state Markov chain (good, bad) for each pair, as a pure function of the round.

    In every round the state is drawn anew with probability ``1 / (length (1 - p))``, and is then bad with probability ``p``; so it
    is bad a share ``p`` of the time, ``length`` rounds in a row on average. The state of a round is that of the last new draw,
    which is searched backwards if the state of the round before is not known, so nothing has to be stored.

    Parameters
    ----------
    draws
        The random numbers of the pairs.
    p, length
        As above; ``length`` is at least ``1 / (1 - p)``, for which rounds are independent.
    """

    def __init__(self, draws: Draws, p: float, length: float) -> None:
        self._draws, self._p, self._anew = draws, p, 1.0 / (length * (1.0 - p))
        self._at = -1
        self._bad: Mask = np.empty(0, dtype=np.bool_)

    def __call__(self, t: int) -> Mask:
        """The mask of the pairs that are bad in round ``t``."""
        if t == self._at:
            return self._bad
        bad, open_ = self._round(t)
        if t == self._at + 1 and t > 0:
            bad = np.where(open_, self._bad, bad)
        else:
            s = t
            while open_.any():
                s -= 1
                earlier, undecided = self._round(s)
                bad = np.where(open_, earlier, bad)
                open_ = open_ & undecided
        self._at, self._bad = t, bad
        return bad

    def _round(self, t: int) -> tuple[Mask, Mask]:
        """The masks of the pairs that turn bad, and of those that keep their state."""
        numbers = self._draws(t)
        if t == 0:
            return numbers < self._p, np.zeros(len(numbers), dtype=np.bool_)
        return numbers < self._anew * self._p, numbers >= self._anew


def words(seed: int, number: int, t: int, part: int, agents: slice, size: int, stretch: int = 0) -> Words:
    """``(n_local, size)`` words of 32 bits, for the entries of the messages of some agents.

    Parameters
    ----------
    seed, number
        As for `Draws`.
    t, part
        The round, and the number of the array in it.
    stretch
        The number of the run of words, where one is not enough.
    """
    drawn: Words = _raw(seed, number, t, part, agents, -(-size // 2), stretch).view("<u4")[:, :size]
    return drawn


def short_words(seed: int, number: int, t: int, part: int, agents: slice, size: int) -> ShortWords:
    """As `words`, with 16 bits."""
    drawn: ShortWords = _raw(seed, number, t, part, agents, -(-size // 4), 0).view("<u2")[:, :size]
    return drawn


def _raw(seed: int, number: int, t: int, part: int, agents: slice, size: int, stretch: int) -> NDArray[np.uint64]:
    """``(n_local, size)`` words of 64 bits; each agent has whole blocks of four."""
    blocks = -(-size // 4)
    generator = np.random.Philox(
        key=(seed & 0xFFFFFFFFFFFFFFFF) | (number << 64),
        counter=(agents.start * blocks) | (t << 64) | (part << 128) | (stretch << 192),
    )
    drawn = generator.random_raw((agents.stop - agents.start) * blocks * 4)
    rows: NDArray[np.uint64] = drawn.astype("<u8", copy=False).reshape(-1, blocks * 4)
    return rows


def uniform(words: NDArray[np.unsignedinteger[Any]]) -> Array:
    """Numbers in (0, 1) from words of 16 or 32 bits: midpoints of equal intervals, so that their mean is 1/2."""
    unit = 2.0 ** (-8 * words.itemsize)
    numbers: Array = np.multiply(words, unit, dtype=np.float64)
    numbers += 0.5 * unit
    return numbers


def normal(words: ShortWords) -> Array:
    """Gaussian numbers of mean 0 and variance 1, each one of 65,536 quantiles."""
    numbers: Array = _quantiles().take(words.astype(np.intp), mode="clip")
    return numbers


@cache
def _quantiles() -> Array:
    from scipy.special import ndtri

    values: Array = ndtri((np.arange(1 << 15) + 0.5) / (1 << 16))
    both: Array = np.concatenate((values, -values[::-1]))
    return np.asarray(both / np.sqrt((both * both).mean()), dtype=np.float64)
