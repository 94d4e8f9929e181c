"""Exact sums over all agents along a spanning tree of the graph: towards the root, and from there
to all agents.

Each agent waits for its children in the tree, adds what they send to its own values in the order of
their numbers, and sends the result to its parent; the root's sum then goes the other way. So every
edge of the tree carries one message in each direction, and all agents receive the same bits: the
order of the additions is that of the tree, whatever the division of the agents over ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..numerics.ordered_sums import Csr
from ..protocols import Array, Index
from .halo import plan
from .traffic import Traffic
from .transport.communicator import Communicator

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Level(NamedTuple):
    """The messages of one round, sorted by receiver, then by sender."""

    senders: Index
    receivers: Index
    up: bool
    """True towards the root, where values are added; False away from it, where they take the place
    of the receiver's."""


def levels(W: csr_array[Any, tuple[int, int]]) -> list[Level]:
    """The rounds of a sum over the agents of W's connected graph, along the tree of shortest paths
    to an agent in its middle."""
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


class TreeSum:
    """The exact sum of vectors of one width over all agents, on all of them.

    Attributes
    ----------
    rounds, messages
        The rounds of a sum, and its messages over edges of the graph.
    transport_messages, transport_bytes
        The messages and bytes that this rank sends to others in a sum.
    """

    def __init__(self, tree: list[Level], bounds: Index, communicator: Communicator, width: int):
        halos = [plan(_matrix(level, int(bounds[-1])), bounds, communicator.rank) for level in tree]
        self._rounds = [Traffic(halo, communicator, (width,)) for halo in halos]
        self._blocks = [halo.blocks for halo in halos]
        self._replaced = []
        for level, blocks in zip(tree, self._blocks, strict=True):
            received = sum(np.diff(block.indptr) for block in blocks)
            self._replaced.append(np.flatnonzero(0 * received if level.up else received))
        """The own agents whose values those of others take the place of, in each round."""
        self.rounds, self.messages = len(tree), sum(len(level.senders) for level in tree)
        self.transport_messages = sum(one.messages for one in self._rounds)
        self.transport_bytes = sum(one.bytes for one in self._rounds)

    def __call__(self, values: Array) -> float:
        """Replace each row of ``values``, ``(n_local, width)``, by the sum over all agents; the
        seconds spent waiting."""
        for traffic, blocks, rows in zip(self._rounds, self._blocks, self._replaced, strict=True):
            gathered = traffic.gather((values,))
            values[rows] = 0.0
            traffic.add(blocks, gathered, 0, values)
        return sum([one.waited for one in self._rounds])


def _matrix(level: Level, n: int) -> Csr:
    """The messages of a round as a matrix with entries 1, a row for each receiver."""
    ones, starts = np.ones(len(level.senders)), np.searchsorted(level.receivers, np.arange(n + 1))
    return Csr(n, n, starts, level.senders, ones, ones)
