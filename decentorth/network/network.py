"""The one network class: mixing with W, whether the agents share a process or not."""

from __future__ import annotations

import hashlib
import time
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from topologies import check_weights, spectrum

from ..protocols import Array, Spectrum
from ..sums import accumulate
from .communicator import Communicator, Exchange, connect
from .halo import Halo, Send, even_bounds, fewer_cuts_bounds, plan

Placement = Literal["even", "fewer-cuts"]


class _Traffic:
    """Buffers and requests for one set of widths: one message per neighbour rank carries the rows of all arrays."""

    def __init__(self, halo: Halo, communicator: Communicator, widths: tuple[int, ...]) -> None:
        total = sum(widths)
        buffers: dict[bytes, Array] = {}  # ranks that need the same agents are sent the same buffer
        self.packs: list[tuple[Send, list[Array]]] = []
        sends, receives = [], []
        for send in halo.sends:
            key = send.rows.tobytes()
            if key not in buffers:
                buffers[key] = np.empty(len(send.rows) * total)
                self.packs.append((send, _split(buffers[key], len(send.rows), widths)))
            sends.append((send.target, buffers[key]))
        self.arrived: dict[int, list[Array]] = {}
        for piece in halo.pieces:
            if piece.source != communicator.rank:
                buffer = np.empty(piece.block.columns * total)
                receives.append((piece.source, buffer))
                self.arrived[piece.source] = _split(buffer, piece.block.columns, widths)
        self.exchange: Exchange = communicator.exchange(sends, receives)
        self.messages = len(sends)
        self.bytes = sum(buffer.nbytes for _, buffer in sends)


def _split(buffer: Array, rows: int, widths: tuple[int, ...]) -> list[Array]:
    """Views of a message: one ``(rows, width)`` segment per array."""
    ends = np.cumsum([rows * width for width in widths])
    return [buffer[end - rows * width : end].reshape(rows, width) for end, width in zip(ends, widths, strict=True)]


class Network:
    """Mixing with a doubly stochastic matrix W over the agents of this process and, through messages, those of other ranks.

    Parameters
    ----------
    W
        ``(n, n)``: symmetric, doubly stochastic, connected; anything `topologies.check_weights` accepts.
    comm
        See `connect`.
    placement
        How consecutive agents are divided over ranks: ``"even"``, or ``"fewer-cuts"`` (borders moved by up to a tenth of a block
        to where fewer edges cross).

    Attributes
    ----------
    agents
        The agents that live in this process, a slice of the global order.
    rounds, messages, bytes
        What has been exchanged so far, counted per edge of the graph: the same for any number of ranks.
    transport_messages, transport_bytes, wait_seconds
        What this rank really sent to other ranks, and how long it waited for theirs.

    Raises
    ------
    ValueError
        For a W that cannot average, or more ranks than agents; the same on every rank.
    """

    def __init__(self, W: Any, comm: Any = None, placement: Placement = "even") -> None:
        self.communicator = connect(comm)
        self.W: csr_array = check_weights(W)
        self.n_agents = int(self.W.shape[0])
        ranks = self.communicator.size
        if placement not in ("even", "fewer-cuts"):
            raise ValueError(f"placement must be 'even' or 'fewer-cuts', got {placement!r}")
        even = even_bounds(self.n_agents, ranks)
        self.bounds = even if placement == "even" else fewer_cuts_bounds(self.W, ranks)
        self._halo = plan(self.W, self.bounds, self.communicator.rank)
        self.agents = self._halo.agents
        self.n_local = self.agents.stop - self.agents.start
        self.directed_edges = int(self.W.nnz) - self.n_agents
        self.rounds = self.messages = self.bytes = 0
        self.transport_messages = self.transport_bytes = 0
        self.wait_seconds = 0.0
        self._traffic: dict[tuple[int, ...], _Traffic] = {}
        if ranks > 1:  # computed once, by rank 0, so that step sizes made from it are the same bits everywhere
            shared = np.array(self._own_spectrum() if self.communicator.rank == 0 else (0.0, 0.0))
            self.communicator.bcast(shared)
            self.spectrum = Spectrum(float(shared[0]), float(shared[1]))

    @cached_property
    def spectrum(self) -> Spectrum:
        """Second largest and smallest eigenvalue of W (for a single agent 0 and 0)."""
        return self._own_spectrum()

    def _own_spectrum(self) -> Spectrum:
        values = spectrum(self.W)
        return Spectrum(values.lambda_2, values.lambda_min)

    def digest(self) -> bytes:
        """SHA-256 of W: what must be the same on every rank."""
        hashed = hashlib.sha256()
        for part in (self.W.indptr.astype(np.int64), self.W.indices.astype(np.int64), self.W.data):
            hashed.update(part.tobytes())
        return hashed.digest()

    def mix(self, *xs: Array, rounds: int = 1) -> tuple[Array, ...]:
        """``W^rounds x`` for each stacked array, in one message per neighbour rank and round.

        Parameters
        ----------
        *xs
            Each ``(n_local, ...)``, float64, C-contiguous.
        rounds
            How many times to mix.

        Returns
        -------
        tuple of arrays
            Fresh, C-contiguous, shaped like the inputs.
        """
        for _ in range(rounds):
            xs = self._mix(xs)
        return xs

    def _mix(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        widths = tuple([x.size // self.n_local for x in xs])
        self.rounds += 1
        self.messages += self.directed_edges
        self.bytes += self.directed_edges * 8 * sum(widths)
        out = tuple([np.zeros(x.shape) for x in xs])
        if len(self._halo.pieces) == 1:
            block = self._halo.pieces[0].block
            for x, mixed in zip(xs, out, strict=True):
                accumulate(block, x, mixed)
            return out
        traffic = self._exchange(xs, widths)
        for source, block in ((piece.source, piece.block) for piece in self._halo.pieces):
            parts = xs if source == self.communicator.rank else traffic.arrived[source]
            for part, mixed in zip(parts, out, strict=True):
                accumulate(block, part, mixed)
        return out

    def _exchange(self, xs: tuple[Array, ...], widths: tuple[int, ...]) -> _Traffic:
        """Send the neighbours what they need and return what they sent."""
        traffic = self._traffic.get(widths)
        if traffic is None:
            traffic = self._traffic[widths] = _Traffic(self._halo, self.communicator, widths)
        traffic.exchange.receive()
        for send, segments in traffic.packs:
            for x, segment in zip(xs, segments, strict=True):
                np.take(x.reshape(self.n_local, -1), send.rows, axis=0, out=segment, mode="clip")
        traffic.exchange.send()
        begun = time.perf_counter()
        traffic.exchange.wait()
        self.wait_seconds += time.perf_counter() - begun
        self.transport_messages += traffic.messages
        self.transport_bytes += traffic.bytes
        return traffic
