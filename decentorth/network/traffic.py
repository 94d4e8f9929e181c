"""The exchange of one round: buffers and requests are made once for arrays of given widths, and
used in every round.

All ways give the same bits, because each adds a row's terms in global agent order: all agents in
one process, without messages; blocks of agents on every rank; one agent on each rank, with its own
and the received values in one small table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, starmap
from typing import Any, TypeAlias

import numpy as np

from ..numerics.kernels import compiled_tracking
from ..numerics.ordered_sums import ROWS, Csr, accumulate
from ..protocols import Array, Index
from .halo import Halo
from .transport.communicator import Communicator

Widths: TypeAlias = tuple[int, ...]
Arrays: TypeAlias = tuple[Array, ...]
Blocks: TypeAlias = Sequence[Csr]
Gathered: TypeAlias = Sequence[Sequence[Array]]
"""For each piece of the halo the arrays of its agents."""


class Traffic:
    """One round of sending, receiving and mixing; a message holds the needed agents of each array,
    one array after another.

    Parameters
    ----------
    halo, communicator
        The exchange plan of this rank, and the processes.
    widths
        The arrays' numbers per agent.
    compiled
        Add by loops that numba has compiled (`kernels.tracking_kernels`), with the bits of SciPy's.

    Attributes
    ----------
    messages, bytes
        The number of messages that this rank sends in a round, and their size.
    agent_bytes
        The size of an agent's arrays.
    waited
        The seconds that the last round spent in the exchange with other ranks.
    """

    def __init__(
        self, halo: Halo, communicator: Communicator, widths: Widths, compiled: bool = False
    ):
        self._halo = halo
        self._widths = widths
        self._blocks = halo.blocks
        self._n_local = halo.agents.stop - halo.agents.start
        self._push_blocks = self._blocks
        """The blocks of B; those of W where it is symmetric."""
        if self._blocks[0].push is not None:
            pushes: Any = [block._replace(data=block.push) for block in self._blocks]  # type: ignore[arg-type]
            self._push_blocks = tuple(pushes)
        self._received: list[list[Array] | None] = [None] * len(self._blocks)
        """The factors of each block of W; None for the own agents."""
        self._packs: list[tuple[slice | Index, list[Array]]] = []
        self._table = np.empty((0, sum(widths)))
        """Where this rank and its neighbours have one agent each, a row for each of them."""
        self._add_row: Callable[[Array], None] | None = None
        """The function that adds the product of the own agent's row of W with `_table` to an
        array."""
        self.messages, self.bytes, self.waited = 0, 0, 0.0
        self.agent_bytes = 8 * sum(widths)
        self.used = {"mix": 0, "mix_alike": 0, "mix_and_max": 0}
        """The rounds so far in which every message was sent once."""
        self._loop = ROWS
        self._product = ROWS
        self._new = np.zeros
        if compiled:
            loops = compiled_tracking()
            self._loop = loops.accumulate
            self._product = loops.product
            self._new = np.empty
        self._alone = not halo.sends and len(self._blocks) == 1
        """All neighbours are in this process."""
        if halo.sends or len(halo.pieces) > 1:
            self._connect(communicator)

    def _connect(self, communicator: Communicator) -> None:
        """Make the buffers and the requests."""
        halo = self._halo
        total = sum(self._widths)
        count = len(self._blocks)
        one = self._push_blocks is self._blocks and self._n_local == 1
        if one and all(block.data.size == 1 for block in self._blocks):
            weights = np.concatenate([block.data for block in self._blocks])
            self._table = np.empty((count, total))
            self._add_row = partial(
                self._loop,
                1,
                count,
                total,
                np.array([0, count]),
                np.arange(count),
                weights,
                self._table.reshape(-1),
            )
            ends = [0, *np.cumsum(self._widths).tolist()]
            self._parts = list(starmap(slice, pairwise(ends)))
        packed: dict[bytes, Array] = {}  # ranks that need the same agents get the same buffer
        sends = []
        receives = []
        for send in halo.sends:
            key = send.rows.tobytes()
            if key not in packed:
                packed[key] = np.empty(len(send.rows) * total)
                if self._add_row:
                    packed[key] = self._table[halo.own]
                first = int(send.rows[0])
                last = int(send.rows[-1])
                rows = slice(first, last + 1) if last - first + 1 == len(send.rows) else send.rows
                self._packs.append((rows, self._segments(packed[key])))
            sends.append((send.target, packed[key]))
        for number, piece in enumerate(halo.pieces):
            if number != halo.own:
                buffer = np.empty(piece.block.columns * total)
                if self._add_row:
                    buffer = self._table[number]
                receives.append((piece.source, buffer))
                self._received[number] = [segment.reshape(-1) for segment in self._segments(buffer)]
        self._exchange = communicator.exchange(sends, receives)
        self.messages = len(sends)
        self.bytes = sum(buffer.nbytes for _, buffer in sends)

    def _segments(self, buffer: Array) -> list[Array]:
        """The arrays in a message, one row for each agent."""
        rows = buffer.size // sum(self._widths)
        ends = np.cumsum(self._widths)[:-1]
        return [part.reshape(rows, -1) for part in np.split(buffer, rows * ends)]

    def _swap(self, xs: tuple[Array, ...]) -> None:
        """Exchange the arrays with the neighbour ranks."""
        for rows, segments in self._packs:
            for x, segment in zip(xs, segments, strict=True):
                np.copyto(segment, x.reshape(self._n_local, -1)[rows])  # refuses complex numbers
        begun = time.perf_counter()
        self._exchange()
        self.waited = time.perf_counter() - begun

    def gather(self, xs: tuple[Array, ...]) -> list[Sequence[Array]]:
        """For each piece of the halo the arrays of its agents, each contiguous."""
        if len(self._blocks) == 1 and not self.messages:
            return [xs]
        self._swap(xs)
        return [xs if received is None else received for received in self._received]

    def add(self, blocks: Blocks, gathered: Gathered, number: int, out: Array) -> Array:
        """Add ``blocks @ arrays[number]`` of every piece to ``out``; return it."""
        width = self._widths[number]
        flat = out.reshape(-1)
        for block, arrays in zip(blocks, gathered, strict=False):
            accumulate(block, width, arrays[number].reshape(-1), flat, self._loop)
        return out

    def mix(self, xs: tuple[Array, ...], pushed: int = 0) -> tuple[Array, ...]:
        """W x for each array, and B x for the last ``pushed``; fresh, C-contiguous."""
        if self._add_row is not None:
            self._swap(xs)
            mixed = np.zeros(self._table.shape[1])
            self._add_row(mixed)
            pairs = zip(xs, self._parts, strict=True)
            return tuple([mixed[part].reshape(x.shape) for x, part in pairs])
        pulled = len(xs) - pushed
        if self._alone:
            fresh = tuple([self._new(x.shape) for x in xs])
            for number, (width, x, out) in enumerate(zip(self._widths, xs, fresh, strict=True)):
                W = self._blocks[0] if number < pulled else self._push_blocks[0]
                self._product(
                    W.rows,
                    W.columns,
                    width,
                    W.indptr,
                    W.indices,
                    W.data,
                    x.reshape(-1),
                    out.reshape(-1),
                )
            return fresh
        gathered = self.gather(xs)
        pulls = self._products(self._blocks, gathered, xs[:pulled])
        return (*pulls, *self._products(self._push_blocks, gathered, xs, pulled))

    def mix_alike(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        """The largest label received, then W x for each array, where W has the edges between equal
        labels only.

        The first of ``xs`` holds the labels. If all labels on this rank agree, W is used unchanged,
        which gives the same bits.
        """
        gathered = self.gather(xs)
        heard = xs[0].copy()
        blocks = self._blocks
        if not all((arrays[0] == heard[0]).all() for arrays in gathered):
            heard, blocks = self._halo.alike([arrays[0] for arrays in gathered])
        return (heard, *self._products(blocks, gathered, xs, 1))

    def mix_and_max(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        """The elementwise maximum of the first array over an agent and its neighbours, then W x for
        each of the others."""
        gathered = self.gather(xs)
        width = self._widths[0]
        largest = self._halo.largest([arrays[0].reshape(-1, width) for arrays in gathered])
        return (largest.reshape(xs[0].shape), *self._products(self._blocks, gathered, xs, 1))

    def _products(
        self, blocks: Blocks, gathered: Gathered, xs: Arrays, first: int = 0
    ) -> list[Array]:
        """The product of ``blocks`` with each array from number ``first`` on; fresh,
        C-contiguous."""
        fresh = [np.zeros(x.shape) for x in xs[first:]]
        return [self.add(blocks, gathered, number, out) for number, out in enumerate(fresh, first)]
