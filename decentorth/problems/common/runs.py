"""Stacks of agents' arrays of unequal sizes: runs of consecutive agents with equal shapes that fit in cache together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...protocols import Array
from ..base import Selection, numbers_of

RUN_BYTES = 1 << 21
"""The bytes of the arrays of a run, unless they belong to a single agent."""


class Runs:
    """The arrays of each agent, the same number for every agent.

    Iterating gives ``(local, arrays)``: the slice of the agents of a run, and their arrays stacked. The runs depend on which agents
    share a process, so an agent's numbers must not depend on its run.
    """

    def __init__(self, agents: Sequence[tuple[Array, ...]]) -> None:
        self._runs: list[tuple[slice, tuple[Array, ...]]] = []
        start = 0
        for end in range(1, len(agents) + 1):
            shapes = [array.shape for array in agents[start]]
            full = (end - start) * sum(array.nbytes for array in agents[start]) >= RUN_BYTES
            if end == len(agents) or full or [array.shape for array in agents[end]] != shapes:
                stacks = tuple(_stack(arrays) for arrays in zip(*agents[start:end], strict=True))
                self._runs.append((slice(start, end), stacks))
                start = end

    def __iter__(self) -> Iterator[tuple[slice, tuple[Array, ...]]]:
        return iter(self._runs)

    def take(self, local: Selection) -> Runs:
        """The runs of the agents in ``local``; the arrays of a slice are viewed, not copied."""
        part = object.__new__(Runs)
        part._runs = []
        wanted = numbers_of(local)
        for own, arrays in self._runs:
            first, last = np.searchsorted(wanted, [own.start, own.stop]).tolist()
            if first < last:
                rows = wanted[first:last] - own.start
                chosen = slice(int(rows[0]), int(rows[-1]) + 1) if isinstance(local, slice) else rows
                part._runs.append((slice(first, last), tuple([array[chosen] for array in arrays])))
        return part


def _stack(arrays: Sequence[Array]) -> Array:
    """The stack of the arrays of several agents, copied; a view for a single agent."""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)
