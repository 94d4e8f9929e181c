"""Exact sums over all agents along a spanning tree of the graph: towards the root, and from there
to all agents.

Each agent waits for its children in the tree, adds what they send to its own values in the order of
their numbers, and sends the result to its parent. The root's sum then goes the other way. So every
edge of the tree carries one message in each direction, and all agents receive the same bits: the
order of the additions is that of the tree, whatever the division of the agents over ranks.

A rank adds in stages. Agents whose children are all on their own rank belong to its first stage.
Between stages a rank sends one message to each rank that waits for sums of this stage. The root's
sum reaches every rank once, over the edge above that rank's first agent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ..numerics.ordered_sums import Csr, accumulate
from ..protocols import Array, Index
from .transport.communicator import Communicator, Exchange

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Rows: TypeAlias = dict[int, Index]
"""By rank, rows of the working array of a sum."""


class Tree(NamedTuple):
    """A spanning tree of the agents."""

    order: Index
    """The agents, parents before their children; the root is the first."""
    parents: Index
    """``(n,)``: the parent of each agent; the root is its own."""
    depth: int
    """The number of edges between the root and the agents that are farthest from it."""

    @property
    def up(self) -> Index:
        """``(2, n - 1)``: the sender and the receiver of each message towards the root."""
        children = self.order[1:]
        return np.stack((children, self.parents[children]))

    @property
    def pairs(self) -> Index:
        """``(2, 2 (n - 1))``: the sender and the receiver of each message of a sum."""
        return np.concatenate((self.up, self.up[::-1]), axis=1)


def spanning_tree(W: csr_array[Any, tuple[int, int]]) -> Tree:
    """The tree of shortest paths to an agent in the middle of W's connected graph."""
    from scipy.sparse.csgraph import breadth_first_order

    order, _ = breadth_first_order(W, 0)
    order, parents = breadth_first_order(W, order[-1])
    across = _path_up(parents, order[-1])
    order, parents = breadth_first_order(W, across[len(across) // 2])
    depth = len(_path_up(parents, order[-1])) - 1
    parents[order[0]] = order[0]
    return Tree(order.astype(np.int64), parents.astype(np.int64), depth)


def _path_up(parents: Any, agent: Any) -> list[int]:
    """The agents from ``agent`` to the root."""
    path = [int(agent)]
    while parents[path[-1]] >= 0:
        path.append(int(parents[path[-1]]))
    return path


class _Stage(NamedTuple):
    """Additions of a rank, and the messages between it and other ranks after them."""

    rows: slice
    """The rows of the working array that are complete after the stage."""
    children: Csr
    """Adds the rows of the children to them."""
    sends: Rows
    receives: Rows


class _Link(NamedTuple):
    """The buffers and the exchange of a stage, for vectors of one width."""

    sends: list[tuple[Index, Array]]
    receives: list[tuple[Index, Array]]
    exchange: Exchange


class TreeSum:
    """The exact sum of vectors over all agents, on this rank.

    Attributes
    ----------
    messages, vectors
        The messages that this rank sends to others in a sum, and the vectors in them.
    waited
        The seconds that the last sum spent in exchanges with other ranks.
    """

    def __init__(self, tree: Tree, bounds: Index, communicator: Communicator) -> None:
        self._communicator = communicator
        owner = np.repeat(np.arange(communicator.size), np.diff(bounds))
        self._stages = [*self._towards_root(tree, owner), *self._from_root(tree, owner)]
        self._links: dict[int, list[_Link | None]] = {}
        sent = [rows for stage in self._stages for rows in stage.sends.values()]
        self.messages = len(sent)
        self.vectors = sum(map(len, sent))
        self.waited = 0.0

    def _towards_root(self, tree: Tree, owner: Index) -> Iterator[_Stage]:
        """The stages in which this rank adds.

        The working array begins with the children on other ranks, by stage, rank and number. The
        own agents follow by stage, and within it children before parents.
        """
        rank = self._communicator.rank
        stages = _stages(tree, owner)
        upwards = tree.order[::-1]
        own = upwards[owner[upwards] == rank]
        own = own[np.argsort(stages[own], kind="stable")]
        children, parents = tree.up
        inwards = owner[parents] == rank
        others = children[inwards & (owner[children] != rank)]
        others = others[np.lexsort((others, owner[others], stages[others]))]
        outwards = np.sort(children[~inwards & (owner[children] == rank)])
        agents = np.concatenate((others, own))
        row = np.zeros(len(owner), dtype=np.int64)
        row[agents] = np.arange(len(agents))
        self._own = own - own.min()
        """The own agents' local numbers, in the order of the working array."""
        self._others = len(others)

        children = children[inwards]
        parents = row[parents[inwards]]
        arranged = np.lexsort((children, parents))
        starts = np.searchsorted(parents[arranged], np.arange(len(others), len(agents) + 1))
        columns = row[children[arranged]]
        ones = np.ones(len(children))
        for stage in range(int(stages.max()) + 1):
            first, last = np.searchsorted(stages[own], (stage, stage + 1)).tolist()
            sent = outwards[stages[outwards] == stage]
            received = others[stages[others] == stage]
            yield _Stage(
                slice(len(others) + first, len(others) + last),
                Csr(last - first, len(agents), starts[first : last + 1], columns, ones),
                _by_rank(owner[tree.parents[sent]], row[sent]),
                _by_rank(owner[received], row[received]),
            )

    def _from_root(self, tree: Tree, owner: Index) -> Iterator[_Stage]:
        """The stages in which this rank receives the root's sum in its last row, and sends it."""
        rank = self._communicator.rank
        owners = owner[tree.order]
        _, places = np.unique(owners, return_index=True)
        # a rank has the sum from that of its first agent's parent
        above = owner[tree.parents[tree.order[places]]]
        last = np.array([-1])
        none = np.zeros(0, dtype=np.int64)
        nothing = Csr(0, 0, np.zeros(1, dtype=np.int64), none, np.zeros(0))
        sources = {int(above[rank]): last} if above[rank] != rank else {}
        targets = {int(other): last for other in np.flatnonzero(above == rank) if other != rank}
        yield _Stage(slice(0, 0), nothing, {}, sources)
        yield _Stage(slice(0, 0), nothing, targets, {})

    def _linked(self, stage: _Stage, width: int) -> _Link | None:
        """The buffers and the exchange of a stage; None without messages."""
        if not stage.sends and not stage.receives:
            return None
        sends = [(rows, np.empty((len(rows), width))) for rows in stage.sends.values()]
        receives = [(rows, np.empty((len(rows), width))) for rows in stage.receives.values()]
        targets = [(rank, sent) for rank, (_, sent) in zip(stage.sends, sends, strict=True)]
        sources = [(rank, got) for rank, (_, got) in zip(stage.receives, receives, strict=True)]
        return _Link(sends, receives, self._communicator.exchange(targets, sources))

    def __call__(self, values: Array) -> Array:
        """``(k,)``: the sum over all agents of ``values``, ``(n_local, k)``."""
        width = values.shape[1]
        work = np.empty((self._others + len(values), width))
        np.take(values, self._own, axis=0, out=work[self._others :], mode="clip")
        flat = work.reshape(-1)
        if width not in self._links:
            self._links[width] = [self._linked(stage, width) for stage in self._stages]
        self.waited = 0.0
        for stage, link in zip(self._stages, self._links[width], strict=True):
            # in place: the rows of an agent's children lie before its own, and are complete
            sums = flat[stage.rows.start * width : stage.rows.stop * width]
            accumulate(stage.children, width, flat, sums)
            if link is not None:
                self._swap(link, work)
        return work[-1].copy()

    def _swap(self, link: _Link, work: Array) -> None:
        """Send rows of the working array to other ranks, and receive others."""
        for rows, buffer in link.sends:
            buffer[...] = work[rows]
        begun = time.perf_counter()
        link.exchange()
        self.waited += time.perf_counter() - begun
        for rows, buffer in link.receives:
            work[rows] = buffer


def _stages(tree: Tree, owner: Index) -> Index:
    """``(n,)``: the stage in which each agent's sum is complete, one after those of its children on
    other ranks."""
    stages = [0] * len(owner)
    parents = tree.parents.tolist()
    owners = owner.tolist()
    for child in tree.order[:0:-1].tolist():
        parent = parents[child]
        stage = stages[child] + (owners[child] != owners[parent])
        stages[parent] = max(stages[parent], stage)
    return np.array(stages, dtype=np.int64)


def _by_rank(ranks: Index, rows: Index) -> Rows:
    """The rows of each rank."""
    return {int(rank): rows[ranks == rank] for rank in np.unique(ranks)}
