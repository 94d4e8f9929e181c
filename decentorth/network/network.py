"""The one network class: mixing with W, whether the agents share a process or not."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from topologies import check_weights, spectrum

from ..protocols import Array, Spectrum
from .communicator import connect
from .halo import even_bounds, fewer_cuts_bounds, plan
from .traffic import Traffic, traffic

Placement = Literal["even", "fewer-cuts"]


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
    transport_messages, transport_bytes
        What this rank really sent to other ranks.

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
        self._traffic: dict[tuple[int, ...], Traffic] = {}
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

    @property
    def wait_seconds(self) -> float:
        """How long this rank has waited for messages so far."""
        return sum(way.wait_seconds for way in self._traffic.values())

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

        Raises
        ------
        ValueError
            For ``rounds < 1``.
        """
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        for _ in range(rounds):
            xs = self._mix(xs)
        return xs

    def _mix(self, xs: tuple[Array, ...]) -> tuple[Array, ...]:
        widths = tuple([x.size // self.n_local for x in xs])
        way = self._traffic.get(widths)
        if way is None:
            way = self._traffic[widths] = traffic(self._halo, self.communicator, widths)
        self.rounds += 1
        self.messages += self.directed_edges
        self.bytes += self.directed_edges * 8 * sum(widths)
        self.transport_messages += way.messages
        self.transport_bytes += way.bytes
        return way.mix(xs)
