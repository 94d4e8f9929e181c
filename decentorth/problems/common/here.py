"""The collective of one process that holds all data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...numerics.ordered_sums import add_agents
from ...protocols import Array


def here(size: int, add: Callable[[Array], None]) -> Array:
    """`Collective.fold` where all agents are in this process."""
    total = np.zeros(size)
    add(total)
    return total


class _Here:
    """A collective of one process with all data: sums need no other process."""

    fold = staticmethod(here)
    together = staticmethod(contextlib.nullcontext)

    @staticmethod
    def each(size: int, terms: Iterable[Array]) -> Array:
        """`Collective.each`."""
        total = np.zeros(size)
        for term in terms:
            total += term
        return total

    @staticmethod
    def everyone(data: bytes) -> list[bytes]:
        """`Collective.everyone`."""
        return [data]

    @staticmethod
    def column_sums(per_agent: Array) -> Array:
        """`Collective.column_sums`."""
        return here(per_agent.shape[1], lambda found: add_agents(per_agent, found))


HERE: Any = _Here()
