"""Ranks that send to their neighbours in a graph only, over any carrier of bytes between two
neighbours.

What concerns all ranks (settings, counts, maxima) goes up a tree of edges to rank 0, and down
again. Every message is counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ...protocols import Array
from .communicator import Communicator, Links, SiteError

EXCHANGES, ARRAYS, FACTS = b"e", b"a", b"f"
USES = {EXCHANGES: "iterations and sums", ARRAYS: "arrays", FACTS: "settings, counts and maxima"}
"""The kinds of messages, each of which keeps its order, and what they are for."""
_LENGTH = 8
"""The bytes of the length before each part of a joined message."""


class Carrier(Protocol):
    """Messages of bytes to and from neighbours.

    Those of one kind from one neighbour arrive in their order, each once; all sites send and take
    the kinds in the same order. A loss is an error at the receiver.
    """

    rank: int
    size: int

    def post(self, target: int, kind: bytes, data: bytes) -> None:
        """Send without waiting for the receiver; ``data`` may be changed afterwards."""

    def take(self, source: int, kind: bytes) -> bytes:
        """The next message, waited for."""

    def limit(self, seconds: float) -> None:
        """Set the seconds after which a silent neighbour is lost."""

    def describe(self) -> Mapping[str, Any]:
        """The kind of the carrier, for the summary."""

    def signed(self, data: bytes) -> bytes:
        """The bytes with this rank's signature, where ranks have certificates."""
        return data

    def opened(self, signed: bytes, rank: int) -> bytes:
        """The bytes that another rank has signed; an error for those of anyone else."""
        return signed


class _EdgeExchange:
    """A repeated exchange of fixed buffers."""

    def __init__(self, owner: AlongEdges, sends: Links, receives: Links) -> None:
        self._owner = owner
        self._sends = sends
        self._receives = receives

    def __call__(self) -> None:
        for rank, array in self._sends:
            self._owner.give(rank, EXCHANGES, array.tobytes())
        for rank, array in self._receives:
            self._owner.fill(array, rank, EXCHANGES)


class AlongEdges(Communicator):
    """The `Communicator` of sites, each of which sends to its neighbours only.

    Parameters
    ----------
    carrier
        What carries bytes between neighbours.
    edges
        Pairs of ranks; the graph is connected.
    sites
        The names of the ranks, by default "0", "1" and so on.

    Attributes
    ----------
    neighbours
        The ranks that share an edge with this one.
    messages, bytes
        The messages that have left this rank, and their bytes, by neighbour and use (`USES`).
    """

    def __init__(
        self, carrier: Carrier, edges: Iterable[tuple[int, int]], sites: Sequence[str] = ()
    ) -> None:
        self._carrier = carrier
        self.rank = carrier.rank
        self.size = carrier.size
        self.sites = tuple(sites) or tuple(map(str, range(carrier.size)))
        near: list[set[int]] = [set() for _ in range(self.size)]
        for i, j in edges:
            near[i].add(j)
            near[j].add(i)
        self.neighbours = tuple(sorted(near[self.rank]))
        self._above, self._below = _tree(near, self.rank)
        self.messages: Counter[tuple[int, str]] = Counter()
        self.bytes: Counter[tuple[int, str]] = Counter()

    def give(self, target: int, kind: bytes, data: bytes) -> None:
        """Send bytes to a neighbour, and count them."""
        self._check(target)
        self.messages[target, USES[kind]] += 1
        self.bytes[target, USES[kind]] += len(data)
        self._carrier.post(target, kind, data)

    def fill(self, array: Array, source: int, kind: bytes) -> None:
        """Receive into ``array``, which is contiguous."""
        data = self._carrier.take(source, kind)
        if len(data) != array.nbytes:
            raise SiteError(
                f"site {self.sites[source]} sent {len(data)} bytes where {array.nbytes} were expected"
            )
        array.reshape(-1)[:] = np.frombuffer(data, array.dtype)

    def _check(self, rank: int) -> None:
        if rank not in self.neighbours:
            raise ValueError(
                f"{self.sites[self.rank]} and {self.sites[rank]} are no neighbours, and send each "
                "other nothing: give a W of the graph of the sites"
            )

    def exchange(self, sends: Links, receives: Links) -> _EdgeExchange:
        for rank, _ in (*sends, *receives):
            self._check(rank)
        return _EdgeExchange(self, sends, receives)

    def send(self, array: Array, target: int) -> None:
        self.give(target, ARRAYS, array.tobytes())

    def receive(self, array: Array, source: int) -> None:
        self._check(source)
        self.fill(array, source, ARRAYS)

    def bcast(self, array: Array) -> None:
        array.reshape(-1)[:] = np.frombuffer(self.bcast_bytes(array.tobytes()), array.dtype)

    def bcast_bytes(self, data: bytes) -> bytes:
        if self._above is not None:
            data = self._carrier.take(self._above, FACTS)
        for child in self._below:
            self.give(child, FACTS, data)
        return data

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        found = {self.rank: data}
        for child in self._below:
            found |= _taken_apart(self._carrier.take(child, FACTS))
        if self._above is not None:
            self.give(self._above, FACTS, _joined(found))
        every = _taken_apart(self.bcast_bytes(_joined(found)))
        if every.keys() != {*range(self.size)}:
            raise SiteError("a site passes on what others have not sent: their facts do not fit")
        return [every[rank] for rank in range(self.size)]

    def confirm(self, what: str, data: bytes) -> None:
        """Raise a SiteError unless all sites have received the same ``what``, which they sign.

        A site that passes on messages could otherwise change them.
        """
        every = self.allgather_bytes(self._carrier.signed(data))
        for rank, signed in enumerate(every):
            if self._carrier.opened(signed, rank) != data:
                raise SiteError(
                    f"site {self.sites[rank]} has received other {what} than site "
                    f"{self.sites[self.rank]}: one of them, or a site between them, changes them"
                )

    def max(self, values: Array) -> Array:
        largest = values.copy()
        theirs = np.empty_like(largest)
        for child in self._below:
            self.fill(theirs, child, FACTS)
            np.maximum(largest, theirs, out=largest)
        if self._above is not None:
            self.give(self._above, FACTS, largest.tobytes())
        self.bcast(largest)
        return largest

    def watch(self, silence: float, computing: float) -> None:
        if computing < math.inf:
            raise ValueError("compute_timeout is for ranks of MPI: leave it out")
        self._carrier.limit(silence)

    def describe(self) -> Mapping[str, Any]:
        return {**self._carrier.describe(), "ranks": self.size}


def _tree(near: Sequence[set[int]], rank: int) -> tuple[int | None, list[int]]:
    """The ranks above and below this one in the tree of shortest paths to rank 0."""
    parents = {0: 0}
    order = [0]
    for one in order:
        for other in sorted(near[one] - parents.keys()):
            parents[other] = one
            order.append(other)
    if len(order) < len(near):
        raise ValueError("the graph of the sites is not connected")
    above = None if rank == 0 else parents[rank]
    return above, [child for child in order[1:] if parents[child] == rank]


def _joined(found: Mapping[int, bytes]) -> bytes:
    """The bytes of several ranks as one message."""
    parts: list[bytes] = []
    for rank, data in found.items():
        parts += rank.to_bytes(_LENGTH, "little"), len(data).to_bytes(_LENGTH, "little"), data
    return b"".join(parts)


def _taken_apart(joined: bytes) -> dict[int, bytes]:
    """The bytes by rank of such a message."""
    found = {}
    place = 0
    while place < len(joined):
        start = place + 2 * _LENGTH
        rank = int.from_bytes(joined[place : place + _LENGTH], "little")
        place = start + int.from_bytes(joined[place + _LENGTH : start], "little")
        found[rank] = joined[start:place]
    return found
