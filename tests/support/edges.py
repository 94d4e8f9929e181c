"""Transports for the suite: along the edges of a ring, over threads or MPI; MPI; torch.distributed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from decentorth.network import AlongEdges, Carrier, Communicator, connect
from tests.support.threads import Letters, on_threads

T = TypeVar("T")
Edges = list[tuple[int, int]]


def ring(size: int) -> Edges:
    return [(rank, (rank + 1) % size) for rank in range(size)]


class ThreadCarrier(Carrier):
    """Bytes between threads; nothing waits for its receiver."""

    def __init__(self, rank: int, size: int, letters: Letters) -> None:
        self.rank, self.size, self._letters = rank, size, letters

    def post(self, target: int, kind: bytes, data: bytes) -> None:
        self._letters.put(self.rank, target, kind.decode(), data)

    def take(self, source: int, kind: bytes) -> bytes:
        found: list[bytes] = []
        self._letters.take(source, self.rank, kind.decode(), found.append)
        return found[0]

    def limit(self, seconds: float) -> None:
        """Threads stop together."""

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "threads"}


def along_edges(size: int, edges: Edges, work: Callable[[AlongEdges], T]) -> list[T]:
    """What ``work(communicator)`` returns on each rank, as `tests.support.threads.on_ranks`."""

    def on_rank(rank: int, letters: Letters) -> T:
        return work(AlongEdges(ThreadCarrier(rank, size, letters), edges))

    return on_threads(size, on_rank)


class MpiCarrier(Carrier):
    """Bytes between ranks of MPI."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._MPI, self._comm = MPI, MPI.COMM_WORLD
        self.rank, self.size = self._comm.rank, self._comm.size
        self._under_way: list[Any] = []

    def post(self, target: int, kind: bytes, data: bytes) -> None:
        self._under_way = [request for request in self._under_way if not request.Test()]
        message = [data, self._MPI.BYTE]
        self._under_way.append(self._comm.Isend(message, target, ord(kind)))

    def take(self, source: int, kind: bytes) -> bytes:
        status = self._MPI.Status()
        self._comm.Probe(source, ord(kind), status)
        data = bytearray(status.Get_count(self._MPI.BYTE))
        self._comm.Recv([data, self._MPI.BYTE], source, ord(kind))
        return bytes(data)

    def limit(self, seconds: float) -> None:
        """The launcher ends the job."""

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "MPI along edges"}


def mpi_along_ring() -> AlongEdges:
    carrier = MpiCarrier()
    return AlongEdges(carrier, ring(carrier.size))


def mpi() -> Communicator:
    return connect("world")


def torch() -> Communicator:
    return connect("torch")
