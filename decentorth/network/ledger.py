"""Counts of messages and bytes for each pair of neighbours and each kind of exchange."""

from __future__ import annotations

from typing import NamedTuple, Self, TypeAlias

import numpy as np

from ..protocols import Index

Number: TypeAlias = Index | int
_PENDING = 256
"""The tables that wait before they are added up, as this takes longer than a round."""


class Contents(NamedTuple):
    """The contents of a message: how its arrays are used at their receiver, and their numbers per
    agent."""

    use: str
    widths: tuple[int, ...]


class Ledger(dict[Contents, list[Index]]):
    """Of each kind of message tables ``(pairs, 4)``: sender, receiver, messages and bytes."""

    def add(self, contents: Contents, pairs: Index, messages: Number, size: Number) -> None:
        """Add messages, and their bytes in all, for each of the ``pairs``, ``(2, count)``: sender,
        receiver."""
        rows = np.empty((pairs.shape[1], 4), dtype=np.int64)
        rows[:, :2], rows[:, 2], rows[:, 3] = pairs.T, messages, size
        tables = self.setdefault(contents, [])
        tables.append(rows)
        if len(tables) > _PENDING:
            tables[:] = [self.table(contents)]

    def table(self, contents: Contents) -> Index:
        """One table, by sender, then by receiver."""
        rows = np.concatenate(self[contents])
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        starts = np.flatnonzero(np.diff(rows[:, :2], axis=0, prepend=-1).any(axis=1))
        sums = np.add.reduceat(rows[:, 2:], starts)
        return np.concatenate((rows[starts, :2], sums), axis=1)

    def copy(self) -> Self:
        """The same counts, to add to."""
        return type(self)({contents: list(tables) for contents, tables in self.items()})
