"""Counter-based randomness: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
easy as 1, 2, 3", SC 2011).

A number is a pure function of (seed, purpose, agent, iteration, position), so nothing has to be
saved for a restart, the draws do not depend on the rank that holds an agent, and all agents are
drawn at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ..protocols import Index, Purpose

_Words = NDArray[np.uint64]
_Counter = tuple[_Words, _Words, _Words, _Words]
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_PURPOSES = {purpose: number for number, purpose in enumerate(get_args(Purpose))}
_SHARED = 0xFFFFFFFF
"""The agent number of draws that all agents share."""


def philox(counter: _Counter, key: tuple[int, int]) -> _Counter:
    """Return four words of 32 bits for each counter, in uint64 arrays.

    The generator is Philox4x32 with ten rounds.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first = c0 * _MULTIPLIERS[0]
        second = c2 * _MULTIPLIERS[1]
        c0 = (second >> _SHIFT) ^ c1 ^ np.uint64(k0)
        c1 = second & _LOW
        c2 = (first >> _SHIFT) ^ c3 ^ np.uint64(k1)
        c3 = first & _LOW
        k0 = (k0 + _WEYL[0]) & 0xFFFFFFFF
        k1 = (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


@dataclass(frozen=True)
class CounterStreams:
    """The random streams of this process's agents: a slice or, if some have left, their numbers at
    the start, ``(n_local,)``.

    Up to 64 bits of ``seed`` are used.
    """

    seed: int
    agents: slice | Index

    def _words(self, purpose: Purpose, k: int, agents: _Words, size: int) -> _Words:
        """``(len(agents), size)`` words of 32 bits. The counter is (position, iteration, agent,
        purpose)."""
        columns = np.arange((size + 3) // 4, dtype=np.uint64)
        position, agent = np.broadcast_arrays(columns[None, :], agents[:, None])
        iteration = np.full_like(position, k & 0xFFFFFFFF)
        words = philox(
            (position.copy(), iteration, agent.copy(), np.full_like(position, _PURPOSES[purpose])),
            (self.seed & 0xFFFFFFFF, (self.seed >> 32) & 0xFFFFFFFF),
        )
        return np.stack(words, axis=-1).reshape(len(agents), -1)[:, :size]

    def integers(self, purpose: Purpose, k: int, size: int, high: int | Index) -> Index:
        """``(n_local, size)`` integers in ``[0, high)``, with replacement; ``high`` is one number
        or one per agent, below 2^32.

        Each is a word of 32 bits times ``high``, shifted: the probabilities differ from uniform by
        less than ``high / 2^32``.
        """
        mine = self.agents
        if isinstance(mine, slice):
            mine = np.arange(mine.start, mine.stop)
        agents = mine.astype(np.uint64)
        bound = np.broadcast_to(np.asarray(high, dtype=np.uint64), agents.shape)[:, None]
        return ((self._words(purpose, k, agents, size) * bound) >> _SHIFT).astype(np.int64)

    def permutation(self, purpose: Purpose, k: int, n: int) -> Index:
        """``(n,)``: a uniform permutation, the same on every agent and rank."""
        words = self._words(purpose, k, np.array([_SHARED], dtype=np.uint64), 2 * n).reshape(n, 2)
        return np.argsort((words[:, 0] << _SHIFT) | words[:, 1], kind="stable").astype(np.int64)
