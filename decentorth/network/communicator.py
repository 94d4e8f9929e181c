"""What carries arrays between processes: the contract, and the process that is alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from .._mpienv import expected_ranks
from ..protocols import Array


class Exchange(Protocol):
    """A repeated exchange of the same buffers."""

    def receive(self) -> None:
        """Post the receives."""

    def send(self) -> None:
        """Start the sends."""

    def wait(self) -> None:
        """Return when both are complete."""


class Communicator(Protocol):
    """A group of processes. Every call but ``send`` and ``receive`` is made by all of them."""

    rank: int
    size: int

    def exchange(self, sends: Sequence[tuple[int, Array]], receives: Sequence[tuple[int, Array]]) -> Exchange:
        """Plan an exchange of (rank, buffer) pairs that will be repeated."""

    def send(self, array: Array, target: int) -> None: ...
    def receive(self, array: Array, source: int) -> None:
        """Into ``array``."""

    def bcast(self, array: Array) -> None:
        """Rank 0's ``array`` into everybody's."""

    def bcast_bytes(self, data: bytes) -> bytes:
        """Rank 0's bytes."""

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        """Everybody's bytes, in rank order."""

    def max(self, values: Array) -> Array:
        """Elementwise over ranks, of finite numbers or infinities."""

    def watch(self, silence: float, computing: float) -> None:
        """From now on, end the job when a rank has given no sign of life, or has computed by itself, for so many seconds."""

    def describe(self) -> Mapping[str, Any]:
        """What carries the messages, for the summary."""


class SerialCommunicator:
    """This process alone."""

    rank = 0
    size = 1

    def exchange(self, sends: Sequence[tuple[int, Array]], receives: Sequence[tuple[int, Array]]) -> Exchange:
        raise ValueError("a process that is alone has nobody to exchange with")

    def send(self, array: Array, target: int) -> None:
        raise ValueError(f"a process that is alone cannot send to rank {target}")

    def receive(self, array: Array, source: int) -> None:
        raise ValueError(f"a process that is alone cannot receive from rank {source}")

    def bcast(self, array: Array) -> None:
        """Nothing to do."""

    def bcast_bytes(self, data: bytes) -> bytes:
        return data

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        return [data]

    def max(self, values: Array) -> Array:
        return values

    def watch(self, silence: float, computing: float) -> None:
        """Nobody to watch."""

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "in-process", "ranks": 1}


def connect(comm: Any | Literal["serial"] | None = None) -> Communicator:
    """The communicator a run will use.

    Parameters
    ----------
    comm
        None: this process alone, unless a launcher started it with more than one rank, where it means all of them;
        ``"serial"``: this process alone, whatever the launcher; an mpi4py communicator; or the result of an earlier call.

    Raises
    ------
    RuntimeError
        When ranks are asked for and no MPI library is installed, or launcher and library do not belong together.
    """
    if comm is None:
        comm = "world" if expected_ranks()[0] > 1 else "serial"
    if isinstance(comm, str):
        if comm == "serial":
            return SerialCommunicator()
        if comm != "world":
            raise ValueError(f"comm must be None, 'serial', 'world' or an mpi4py communicator, got {comm!r}")
    elif all(hasattr(comm, name) for name in ("exchange", "allgather_bytes")):
        return comm  # type: ignore[no-any-return]  # one of ours
    from .mpi import mpi_communicator

    return mpi_communicator(comm)
