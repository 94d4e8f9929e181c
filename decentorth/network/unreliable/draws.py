"""Random numbers of an unreliable network: pure functions of the seed, the fault, the agents and
the round.

Both ends of an edge, and all ranks, draw the same. Draws for messages, edges and agents are words
of Philox4x32-10 with the counter (first agent, second agent, round / 4, fault), four rounds at a
time; draws for every entry of a message are a run of Philox4x64-10 (NumPy's), in which each agent
has its own segment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...numerics.random_streams import philox
from ...protocols import Array, Index

Mask = NDArray[np.bool_]
_FAULTS = 0xFA000000
"""The tag of faults, above the number of every purpose of the agents' streams."""
_UNIT = 1.0 / 2.0**32


class Draws:
    """Numbers in [0, 1) for pairs of agents, or for single ones as pairs with themselves, by fault:
    its number is below 2^20."""

    def __init__(self, seed: int, number: int, first: Index, second: Index) -> None:
        self._key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
        self._first = first.astype(np.uint64)
        self._second = second.astype(np.uint64)
        self._tag = np.full(len(first), _FAULTS | number, dtype=np.uint64)
        self._block = -1
        self._numbers: Array = np.empty((4, 0))

    def __call__(self, t: int) -> Array:
        """The numbers of round ``t``."""
        block, row = divmod(t, 4)
        if block != self._block:
            rounds = np.full(len(self._first), block & 0xFFFFFFFF, dtype=np.uint64)
            words = np.stack(philox((self._first, self._second, rounds, self._tag), self._key))
            self._numbers = np.multiply(words, _UNIT, dtype=np.float64)
            self._block = block
        return self._numbers[row]


class Chain:
    """A two-state Markov chain (good, bad) for each pair, as a pure function of the round.

    In every round the state is drawn again with probability ``1 / (length (1 - p))``, and is then
    bad with probability ``p``; so it is bad a share ``p`` of the time, ``length`` rounds in a row
    on average. The state of a round is that of the last new draw, which is searched backwards if
    the state of the round before is not known, so nothing has to be stored.

    ``length`` is at least ``1 / (1 - p)``, for which rounds are independent.
    """

    def __init__(self, draws: Draws, p: float, length: float) -> None:
        self._draws = draws
        self._p = p
        self._anew = 1.0 / (length * (1.0 - p))
        self._at = -1
        self._bad: Mask = np.empty(0, dtype=np.bool_)

    def __call__(self, t: int) -> Mask:
        """The mask of the pairs that are bad in round ``t``."""
        if t != self._at:
            bad, undecided = self._round(t)
            s = t
            while undecided.any():
                s -= 1
                earlier, also = (self._bad, undecided & False) if s == self._at else self._round(s)
                bad = np.where(undecided, earlier, bad)
                undecided = undecided & also
            self._at = t
            self._bad = bad
        return self._bad

    def _round(self, t: int) -> tuple[Mask, Mask]:
        """The masks of the pairs that turn bad, and of the pairs that keep their state."""
        numbers = self._draws(t)
        if t == 0:
            return numbers < self._p, np.zeros(len(numbers), dtype=np.bool_)
        return numbers < self._anew * self._p, numbers >= self._anew


class Source(NamedTuple):
    """The random numbers for the entries of one array in one exchange."""

    seed: int
    t: int
    """The round."""
    part: int
    """The number of the array in the round."""
    agents: slice

    def words(self, number: int, size: int, stretch: int = 0, bits: int = 32) -> NDArray[Any]:
        """Return random words of 32 or 16 bits for fault ``number``, ``(n_local, size)``.

        Each ``stretch`` has different words.
        """
        return self._raw(number, -(-size * bits // 64), stretch).view(f"<u{bits // 8}")[:, :size]

    def _raw(self, number: int, size: int, stretch: int) -> NDArray[np.uint64]:
        """Words of 64 bits; each agent has whole blocks of four."""
        blocks = -(-size // 4)
        counter = (self.agents.start * blocks) | (self.t << 64)
        counter |= (self.part << 128) | (stretch << 192)
        key = (self.seed & 0xFFFFFFFFFFFFFFFF) | (number << 64)
        generator = np.random.Philox(key=key, counter=counter)
        drawn = generator.random_raw((self.agents.stop - self.agents.start) * blocks * 4)
        return drawn.astype("<u8", copy=False).reshape(-1, blocks * 4)


def uniform(words: NDArray[np.unsignedinteger[Any]]) -> Array:
    """Numbers in (0, 1) from words of 16 or 32 bits: midpoints of equal intervals, so that their
    mean is 1/2."""
    unit = 2.0 ** (-8 * words.itemsize)
    numbers: Array = np.multiply(words, unit, dtype=np.float64)
    numbers += 0.5 * unit
    return numbers
