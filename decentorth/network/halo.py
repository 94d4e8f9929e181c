"""Exchange plans: the values that each rank sends and receives, from W and a division of the agents
over ranks.

Each rank holds a run of consecutive agents. Its rows of W are cut by columns at the ranks' borders;
the pieces, taken in rank order, keep every row's columns in global agent order, so a row's sum has
the same bits for any number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..numerics.ordered_sums import Csr, accumulate, entry_rows
from ..protocols import Array, Index

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Mask = NDArray[np.bool_]
"""One boolean for each stored entry of a block."""
Masks: TypeAlias = Sequence[Mask]
Blocks: TypeAlias = tuple[Csr, ...]


@dataclass(frozen=True)
class Piece:
    """A rank's rows of W, restricted to the agents of rank ``source``."""

    source: int
    agents: Index
    """The source's agents whose values are needed, ascending."""
    block: Csr
    """``(n_local, number of these agents)``."""


@dataclass(frozen=True)
class Send:
    """The own agents whose values rank ``target`` needs, as local numbers in ascending order."""

    target: int
    rows: Index


@dataclass(frozen=True)
class Halo:
    """The exchange plan of one rank: its messages, and the order in which it adds its own and the
    received values."""

    agents: slice
    pieces: tuple[Piece, ...]
    sends: tuple[Send, ...]
    own: int
    """The number of the piece with the rank's own columns, and so the self-weights W_ii."""

    @property
    def blocks(self) -> Blocks:
        """The pieces' blocks."""
        return tuple([piece.block for piece in self.pieces])

    def alike(self, labels: Sequence[Array], arrived: Masks | None = None) -> tuple[Array, Blocks]:
        """The largest labels received, and the matrix of a round of mixing among agents of the same
        label.

        Parameters
        ----------
        labels
            For each piece the labels of its columns' agents.
        arrived
            For each piece the mask of the entries whose messages arrived; by default all.

        Returns
        -------
        tuple
            ``(n_local,)``, the largest label among an agent and its neighbours, and the blocks with
            edges of equal labels only.
        """
        mine = labels[self.own]
        heard = mine.copy()
        used = []
        for number, (piece, theirs) in enumerate(zip(self.pieces, labels, strict=True)):
            rows = entry_rows(piece.block)
            there = theirs[piece.block.indices]
            here = np.ones(len(rows), dtype=np.bool_) if arrived is None else arrived[number]
            np.maximum.at(heard, rows[here], there[here])
            used.append(here & (there == mine[rows]))
        return heard, self.using(used)

    def largest(self, values: Sequence[Array]) -> Array:
        """``(n_local, width)``: the elementwise maximum over an agent and its neighbours, from the
        pieces' ``(agents, width)``."""
        found = values[self.own].copy()
        for piece, theirs in zip(self.pieces, values, strict=True):
            block = piece.block
            rows = np.flatnonzero(np.diff(block.indptr))
            if len(rows):
                there = np.maximum.reduceat(theirs[block.indices], block.indptr[rows])
                found[rows] = np.maximum(found[rows], there)
        return found

    def using(self, used: Masks) -> Blocks:
        """The pieces' blocks with some edges only; the weights of the others are added to the
        self-weight, in global agent order.

        If both ends leave out the same edges, W stays symmetric and doubly stochastic. The values
        of a neighbour that is left out are not read, so they may be anything, NaN included.
        ``used`` has for each piece the mask of the stored entries to use, the self-weights among
        them.
        """
        rest = np.zeros(self.agents.stop - self.agents.start)
        for piece, keep in zip(self.pieces, used, strict=True):
            left_out = piece.block._replace(data=np.where(keep, 0.0, piece.block.data))
            accumulate(left_out, 1, np.ones(left_out.columns), rest)
        blocks = []
        for number, (piece, keep) in enumerate(zip(self.pieces, used, strict=True)):
            block = piece.block
            data = block.data[keep]
            ends = np.concatenate(([0], np.cumsum(keep)))
            kept = Csr(block.rows, block.columns, ends[block.indptr], block.indices[keep], data)
            if number == self.own:
                data[kept.indices == entry_rows(kept)] += rest
            blocks.append(kept)
        return tuple(blocks)

    def own_weights(self, blocks: Sequence[Csr]) -> Array:
        """``(n_local,)``: the self-weights W_ii in these blocks of the pieces."""
        block = blocks[self.own]
        return block.data[block.indices == entry_rows(block)]


def even_bounds(n_agents: int, ranks: int) -> Index:
    """Return the borders ``(ranks + 1,)`` of consecutive blocks of agents.

    Block sizes differ by at most one, larger blocks first. Raises ValueError if there are more
    ranks than agents.
    """
    if ranks > n_agents:
        raise ValueError(
            f"{ranks} ranks for {n_agents} agents: every rank must hold at least one; start at "
            f"most {n_agents} ranks or ask for more agents"
        )
    # block q has (n + ranks - 1 - q) // ranks
    sizes = np.arange(n_agents + ranks - 1, n_agents - 1, -1) // ranks
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def fewer_cuts_bounds(W: Csr | csr_array, ranks: int, slack: float = 0.2) -> Index:
    """Return `even_bounds` with each border moved to a place that few edges cross.

    A border moves by up to ``slack / 2`` of a block. The agents keep their order, so a graph
    whose neighbours have distant numbers gains little.
    """
    n = len(W.indptr) - 1
    bounds = even_bounds(n, ranks)
    rows = entry_rows(W)
    # crossing[b]: directed edges between agents < b and agents >= b
    crossing = np.zeros(n + 1, dtype=np.int64)
    np.add.at(crossing, np.minimum(rows, W.indices) + 1, 1)
    np.add.at(crossing, np.maximum(rows, W.indices) + 1, -1)
    crossing = np.cumsum(crossing)
    reach = int(slack / 2 * n / ranks)
    for border in range(1, ranks):
        middle = bounds[border]
        low = max(middle - reach, bounds[border - 1] + 1)
        places = np.arange(low, min(middle + reach, n - (ranks - border)) + 1)
        bounds[border] = places[np.lexsort((np.abs(places - middle), crossing[places]))[0]]
    return bounds


def plan(W: Csr, bounds: Index, rank: int) -> Halo:
    """Return the exchange plan of ``rank``.

    Rank q holds the agents ``bounds[q]:bounds[q + 1]``. The columns of W must be sorted.
    """
    low = int(bounds[rank])
    high = int(bounds[rank + 1])
    first = int(W.indptr[low])
    last = int(W.indptr[high])
    indices = W.indices[first:last]
    data = W.data[first:last]
    owner = np.searchsorted(bounds, indices, side="right") - 1
    row_of = np.repeat(np.arange(high - low, dtype=np.int64), np.diff(W.indptr[low : high + 1]))
    pieces = []
    for source in np.union1d(np.unique(owner), [rank]):
        chosen = owner == source
        columns = indices[chosen]
        needed = np.unique(columns)
        if source == rank:
            needed = np.arange(low, high, dtype=np.int64)
        counts = np.bincount(row_of[chosen], minlength=high - low)
        indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        places = np.searchsorted(needed, columns).astype(np.int64)
        block = Csr(high - low, len(needed), indptr, places, data[chosen])
        if W.push is not None:
            block = block._replace(push=W.push[first:last][chosen])
        pieces.append(Piece(int(source), needed, block))
    sent = np.flatnonzero((W.indices >= low) & (W.indices < high))
    receiver = np.searchsorted(bounds, entry_rows(W)[sent], side="right") - 1
    sends = []
    for target in np.unique(receiver[receiver != rank]).tolist():
        sends.append(Send(target, np.unique(W.indices[sent[receiver == target]]) - low))
    own = next(number for number, piece in enumerate(pieces) if piece.source == rank)
    return Halo(slice(low, high), tuple(pieces), tuple(sends), own)
