"""Exact sums over all agents along a spanning tree of the graph: towards the root, and from there to everybody.

Each agent waits for its children in the tree, adds what they send to its own values in the order of their numbers, and sends the
result to its parent; the root's sum then goes the other way. So every edge of the tree carries one message in each direction, and
all agents receive the same bits: the order of the additions is that of the tree, whatever the division of the agents over ranks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..protocols import Array, Index
from .transport.communicator import Communicator, Exchange

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Level(NamedTuple):
    """The messages of one round, ordered by the receiver, then by the sender."""

    senders: Index
    receivers: Index
    up: bool
    """True towards the root, where values are added; False away from it, where they take the place of the receiver's."""


def levels(W: csr_array[Any, tuple[int, int]]) -> list[Level]:
    """The rounds of a sum over the agents of W's connected graph, along the tree of shortest paths to an agent in its middle."""
    from scipy.sparse.csgraph import breadth_first_order

    far = int(breadth_first_order(W, 0)[0][-1])
    order, parents = breadth_first_order(W, far)
    path = [int(order[-1])]
    while path[-1] != far:
        path.append(int(parents[path[-1]]))
    order, parents = breadth_first_order(W, path[len(path) // 2])
    depth = np.zeros(len(order), dtype=np.int64)
    for agent in order[1:]:
        depth[agent] = depth[parents[agent]] + 1
    up, down = [], []
    for number in range(int(depth[order[-1]]), 0, -1):
        children = np.flatnonzero(depth == number)
        above = parents[children].astype(np.int64)
        arranged = np.lexsort((children, above))
        up.append(Level(children[arranged], above[arranged], True))
        down.append(Level(above, children, False))
    return up + down[::-1]


class _Round:
    """One level on one rank: its buffers, and the requests for those of other ranks."""

    def __init__(self, level: Level, bounds: Index, communicator: Communicator, width: int) -> None:
        rank = communicator.rank
        low = bounds[rank]
        home = [np.searchsorted(bounds, agents, side="right") - 1 for agents in (level.senders, level.receivers)]
        received = np.flatnonzero(home[1] == rank)
        self._up = level.up
        self._receivers = (level.receivers[received] - low).tolist()
        self._table = np.empty((len(received), width))
        self._own = [(place, int(level.senders[number] - low)) for place, number in enumerate(received) if home[0][number] == rank]
        self._incoming: list[tuple[Array, list[int]]] = []
        self._outgoing: list[tuple[Array, Index]] = []
        sends, receives = [], []
        for other in range(communicator.size):
            places = [place for place, number in enumerate(received) if home[0][number] == other != rank]
            if places:
                buffer = np.empty((len(places), width))
                self._incoming.append((buffer, places))
                receives.append((other, buffer))
            sent = level.senders[(home[0] == rank) & (home[1] == other)] - low
            if other != rank and len(sent):
                buffer = np.empty((len(sent), width))
                self._outgoing.append((buffer, sent))
                sends.append((other, buffer))
        self.messages, self.bytes = len(sends), sum(buffer.nbytes for _, buffer in sends)
        self._exchange: Exchange | None = None
        if sends or receives:
            self._exchange = communicator.exchange(sends, receives)

    def __call__(self, values: Array) -> float:
        """Send and receive, in place; the seconds spent waiting for other ranks."""
        for place, sender in self._own:
            self._table[place] = values[sender]
        waited = 0.0
        if self._exchange is not None:
            for buffer, rows in self._outgoing:
                buffer[...] = values[rows]
            begun = time.perf_counter()
            self._exchange()
            waited = time.perf_counter() - begun
            for buffer, places in self._incoming:
                self._table[places] = buffer
        for place, receiver in enumerate(self._receivers):
            if self._up:
                values[receiver] += self._table[place]
            else:
                values[receiver] = self._table[place]
        return waited


class TreeSum:
    """The exact sum of vectors of one width over all agents, on all of them.

    Attributes
    ----------
    rounds, messages
        The rounds of a sum, and its messages over edges of the graph.
    transport_messages, transport_bytes
        The messages and bytes that this rank sends to others in a sum.
    """

    def __init__(self, tree: list[Level], bounds: Index, communicator: Communicator, width: int) -> None:
        self._rounds = [_Round(level, bounds, communicator, width) for level in tree]
        self.rounds, self.messages = len(tree), sum(len(level.senders) for level in tree)
        self.transport_messages = sum(one.messages for one in self._rounds)
        self.transport_bytes = sum(one.bytes for one in self._rounds)

    def __call__(self, values: Array) -> float:
        """Replace each row of ``values``, ``(n_local, width)``, by the sum over all agents; the seconds spent waiting."""
        return sum([one(values) for one in self._rounds])
