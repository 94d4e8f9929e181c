"""Who has sent what to whom: messages and bytes for each pair of neighbours and each kind of exchange."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..protocols import Index


class Contents(NamedTuple):
    """The contents of a message: how its arrays are used at their receiver, and their numbers per agent."""

    use: str
    widths: tuple[int, ...]


class Ledger(dict[Contents, Index]):
    """Of each kind of message ``(pairs, 4)``: sender, receiver, messages and bytes, by sender, then by receiver."""

    def add(self, contents: Contents, pairs: Index, messages: Index | int, size: Index | int) -> None:
        """Add so many messages, and bytes in all, for each of the ``pairs``, ``(2, count)``: sender, receiver."""
        rows = np.empty((pairs.shape[1], 4), dtype=np.int64)
        rows[:, :2], rows[:, 2], rows[:, 3] = pairs.T, messages, size
        if contents in self:
            rows = np.concatenate((self[contents], rows))
        known, places = np.unique(rows[:, :2], axis=0, return_inverse=True)
        counts = np.zeros((len(known), 2), dtype=np.int64)
        np.add.at(counts, places.reshape(-1), rows[:, 2:])
        self[contents] = np.concatenate((known, counts), axis=1)
