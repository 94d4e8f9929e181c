"""The exchange of one round: buffers and requests are made once for arrays of given widths, and used in every round.

Three variants give the same bits, because each adds a row's terms in global agent order: all agents in one process, without
messages; blocks of agents on every rank; one agent on each rank, with its own and the received values in one small table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..protocols import Array, Index
from ..sums import Csr, accumulate
from .communicator import Communicator, Exchange
from .halo import Halo


class Traffic(Protocol):
    """One round of mixing."""

    messages: int
    """The number of messages that this rank sends in a round."""
    bytes: int
    waited: float
    """The seconds that the last round waited for messages of other ranks."""

    def mix(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        """W x for each array; fresh, C-contiguous."""

    def mix_alike(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        """The largest label received, then W x for each array, where W has the edges between equal labels only.

        The first of ``xs`` holds the labels. If all labels on this rank agree, W is used unchanged, which gives the same bits.
        """

    def max(self, x: Array) -> Array:
        """The elementwise maximum over an agent and its neighbours; fresh, C-contiguous."""


class Gathering(Protocol):
    """One round of sending and receiving, without W."""

    messages: int
    bytes: int
    waited: float

    def gather(self, xs: tuple[Array, ...]) -> list[Sequence[Array]]:
        """For each piece of the halo the arrays of its agents, each contiguous."""


def gathering(halo: Halo, communicator: Communicator, widths: tuple[int, ...]) -> Gathering:
    """The `Gathering` of this rank for arrays of ``widths`` numbers per agent."""
    return _Blocks(halo, communicator, widths) if halo.sends else _Alone(halo, widths)


def traffic(halo: Halo, communicator: Communicator, widths: tuple[int, ...]) -> Traffic:
    """The `Traffic` of this rank for arrays of ``widths`` numbers per agent."""
    if not halo.sends:
        return _Alone(halo, widths)
    if halo.agents.stop - halo.agents.start == 1 and all(piece.block.data.size == 1 for piece in halo.pieces):
        return _Table(halo, communicator, widths)
    return _Blocks(halo, communicator, widths)


class _Alone:
    """The exchange of a rank that needs no messages: all neighbours are in this process."""

    messages = bytes = 0
    waited = 0.0

    def __init__(self, halo: Halo, widths: tuple[int, ...]) -> None:
        (piece,) = halo.pieces
        self._halo, self._block, self._widths = halo, piece.block, widths

    def gather(self, xs: tuple[Array, ...]) -> list[Sequence[Array]]:
        return [xs]

    def mix(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(_products(self._block, xs, self._widths))

    def mix_alike(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        labels = xs[0]
        heard, block = labels.copy(), self._block
        if not _agree(labels, labels[0]):
            heard, (block,) = self._halo.alike([labels])
        return (heard, *_products(block, xs[1:], self._widths[1:]))

    def max(self, x: Array) -> Array:
        return self._halo.largest([x.reshape(len(x), -1)]).reshape(x.shape)


def _products(block: Csr, xs: tuple[Array, ...], widths: tuple[int, ...]) -> list[Array]:
    out = []
    for x, width in zip(xs, widths, strict=True):
        mixed = np.zeros(x.shape)
        accumulate(block, width, x.reshape(-1), mixed.reshape(-1))
        out.append(mixed)
    return out


def _agree(labels: Array, label: float) -> bool:
    return bool((labels == label).all())


class _Exchanging:
    """The common part of the two variants with messages."""

    def __init__(self, communicator: Communicator, sends: list[tuple[int, Array]], receives: list[tuple[int, Array]]) -> None:
        self.exchange: Exchange = communicator.exchange(sends, receives)
        self.messages = len(sends)
        self.bytes = sum(buffer.nbytes for _, buffer in sends)
        self.waited = 0.0

    def wait(self) -> None:
        """Wait until all messages are received and sent."""
        begun = time.perf_counter()
        self.exchange.wait()
        self.waited = time.perf_counter() - begun


class _Table(_Exchanging):
    """One own agent, and one of each neighbour rank: a table of one row per agent, in agent order; the own row is sent."""

    def __init__(self, halo: Halo, communicator: Communicator, widths: tuple[int, ...]) -> None:
        total, count = sum(widths), len(halo.pieces)
        self._table = np.empty((count, total))
        weights = np.concatenate([piece.block.data for piece in halo.pieces])
        self._row = Csr(1, count, np.array([0, count], dtype=np.int64), np.arange(count, dtype=np.int64), weights)
        rows = {piece.source: row for piece, row in zip(halo.pieces, self._table, strict=True)}
        own = rows.pop(communicator.rank)
        ends = np.cumsum(widths).tolist()
        self._parts = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        self._own = [own[part] for part in self._parts]
        self._halo, self._labels = halo, self._table[:, 0]
        super().__init__(communicator, [(send.target, own) for send in halo.sends], list(rows.items()))

    def mix(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        self._swap(xs)
        mixed = np.zeros(self._table.shape[1])
        accumulate(self._row, mixed.size, self._table.reshape(-1), mixed)
        return tuple(self._cut(mixed, xs))

    def mix_alike(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        self._swap(xs)
        heard, mixed = xs[0].copy(), np.zeros(self._table.shape[1])
        if _agree(self._labels, heard[0]):
            accumulate(self._row, mixed.size, self._table.reshape(-1), mixed)
        else:
            heard, blocks = self._halo.alike(np.split(self._labels, len(self._labels)))
            for block, row in zip(blocks, self._table, strict=True):
                accumulate(block, mixed.size, row, mixed)
        return (heard, *self._cut(mixed, xs)[1:])

    def max(self, x: Array) -> Array:
        self._swap((x,))
        largest: Array = self._table.max(0).reshape(x.shape)
        return largest

    def _swap(self, xs: tuple[Array, ...]) -> None:
        """Fill the table with the arrays of this agent and its neighbours."""
        self.exchange.receive()
        for x, segment in zip(xs, self._own, strict=True):
            segment[...] = x.reshape(-1)
        self.exchange.send()
        self.wait()

    def _cut(self, mixed: Array, xs: tuple[Array, ...]) -> list[Array]:
        return [mixed[part].reshape(x.shape) for x, part in zip(xs, self._parts, strict=True)]


class _Blocks(_Exchanging):
    """Any number of agents per rank: a message to a neighbour rank holds its needed agents of each array, one after another."""

    def __init__(self, halo: Halo, communicator: Communicator, widths: tuple[int, ...]) -> None:
        total = sum(widths)
        self._halo, self._widths, self._n_local = halo, widths, halo.agents.stop - halo.agents.start
        buffers: dict[bytes, Array] = {}  # ranks that need the same agents get the same buffer
        self._packs: list[tuple[slice | Index, list[Array]]] = []
        sends, receives = [], []
        for send in halo.sends:
            key = send.rows.tobytes()
            if key not in buffers:
                buffers[key] = np.empty(len(send.rows) * total)
                first, last = int(send.rows[0]), int(send.rows[-1])
                rows = slice(first, last + 1) if last - first + 1 == len(send.rows) else send.rows
                self._packs.append((rows, [part.reshape(-1, w) for part, w in _split(buffers[key], widths)]))
            sends.append((send.target, buffers[key]))
        self._blocks = tuple([piece.block for piece in halo.pieces])
        self._arrived: list[list[Array] | None] = []  # the factor of each block of W; None for the own agents
        for piece in halo.pieces:
            arrived = None
            if piece.source != communicator.rank:
                buffer = np.empty(piece.block.columns * total)
                receives.append((piece.source, buffer))
                arrived = [part for part, _ in _split(buffer, widths)]
            self._arrived.append(arrived)
        super().__init__(communicator, sends, receives)

    def gather(self, xs: tuple[Array, ...]) -> list[Sequence[Array]]:
        self._swap(xs)
        return [xs if arrived is None else arrived for arrived in self._arrived]

    def mix(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        self._swap(xs)
        return tuple(self._products(self._blocks, xs, 0))

    def mix_alike(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        self._swap(xs)
        labels = [xs[0] if arrived is None else arrived[0] for arrived in self._arrived]
        heard, blocks = xs[0].copy(), self._blocks
        if not all(_agree(theirs, heard[0]) for theirs in labels):
            heard, blocks = self._halo.alike(labels)
        return (heard, *self._products(blocks, xs, 1))

    def max(self, x: Array) -> Array:
        self._swap((x,))
        own = x.reshape(self._n_local, -1)
        values = [own if arrived is None else arrived[0].reshape(-1, own.shape[1]) for arrived in self._arrived]
        return self._halo.largest(values).reshape(x.shape)

    def _swap(self, xs: tuple[Array, ...]) -> None:
        """Exchange the arrays with the neighbour ranks."""
        self.exchange.receive()
        for rows, segments in self._packs:
            for x, segment in zip(xs, segments, strict=True):
                segment[...] = x.reshape(self._n_local, -1)[rows]
        self.exchange.send()
        self.wait()

    def _products(self, blocks: tuple[Csr, ...], xs: tuple[Array, ...], first: int) -> list[Array]:
        """W x for each array from number ``first`` on."""
        out = []
        for number in range(first, len(xs)):
            x, width = xs[number], self._widths[number]
            mixed = np.zeros(x.shape)
            own, flat = x.reshape(-1), mixed.reshape(-1)
            for block, arrived in zip(blocks, self._arrived, strict=True):
                accumulate(block, width, own if arrived is None else arrived[number], flat)
            out.append(mixed)
        return out


def _split(buffer: Array, widths: tuple[int, ...]) -> list[tuple[Array, int]]:
    """The segments of a message, one for each array, with their widths."""
    rows = buffer.size // sum(widths)
    ends = np.cumsum([rows * width for width in widths]).tolist()
    return [(buffer[end - rows * width : end], width) for end, width in zip(ends, widths, strict=True)]
