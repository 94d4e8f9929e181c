"""The transport on torch.distributed: a gloo group, for processes that ``torchrun`` started.

Tensors share the memory of NumPy's buffers. Each call waits at most `watch`'s time limit for the
others; a process that has ended closes its connections, which ends the calls of all others. Gloo
cannot test a receive, so agents cannot post messages without waiting.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch
import torch.distributed as dist

from ...protocols import Array

Links: TypeAlias = Sequence[tuple[int, Array]]
Works: TypeAlias = list[Any]
_EXCHANGE, _MESSAGE = 1, 2
_LONGEST = timedelta(days=1000)
"""The time limit of the group itself; each call has a shorter one."""
_opened: dict[object, TorchCommunicator] = {}
"""The communicator of each process group."""


class TorchCommunicator:
    """A `Communicator` on a gloo group of its own, so its messages cannot be mixed up with a
    model's."""

    failures: tuple[type[Exception], ...] = ()
    """The errors of calls after the loss of a rank that is survived."""
    posts = False
    """True if the ranks can post messages without waiting."""
    sites: tuple[str, ...] = ()

    def __init__(self, group: dist.ProcessGroup, waiting: float) -> None:
        ranks = dist.get_process_group_ranks(group)
        self._group: Any = dist.new_group(
            ranks, timeout=_LONGEST, backend="gloo", use_local_synchronization=True
        )
        self._limit = _limit(waiting)
        self.rank = dist.get_rank(self._group)
        self.size = dist.get_world_size(self._group)

    @property
    def root(self) -> bool:
        """True on the rank that prints and writes files."""
        root: bool = self.rank == 0
        return root

    def exchange(self, sends: Links, receives: Links) -> Callable[[], None]:
        """Receives are posted before anything is sent."""
        into = [([torch.from_numpy(x)], rank) for rank, x in receives]
        out = [([torch.from_numpy(x)], rank) for rank, x in sends]

        def start(group: Any) -> Works:
            works = [group.recv(x, rank, _EXCHANGE) for x, rank in into]
            return works + [group.send(x, rank, _EXCHANGE) for x, rank in out]

        return partial(self._wait, start)

    def post(self, *_: object) -> NoReturn:
        raise ValueError(
            "asynchronous agents post messages without waiting, which gloo cannot: start them with "
            "mpirun, or in one process"
        )

    def send(self, array: Array, target: int) -> None:
        out = [torch.from_numpy(array)]
        self._wait(lambda group: [group.send(out, target, _MESSAGE)])

    def receive(self, array: Array, source: int) -> None:
        into = [torch.from_numpy(array)]
        self._wait(lambda group: [group.recv(into, source, _MESSAGE)])

    def bcast(self, array: Array) -> None:
        tensor = torch.from_numpy(array)
        self._wait(lambda group: [group.broadcast(tensor, 0)])

    def bcast_bytes(self, data: bytes) -> bytes:
        length = np.array([float(len(data))])
        self.bcast(length)
        buffer = _words(data if self.rank == 0 else b"", int(length[0]))
        self._wait(lambda group: [group.broadcast(buffer, 0)])
        return buffer.numpy().tobytes()[: int(length[0])]

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        lengths = np.zeros(self.size)
        lengths[self.rank] = len(data)
        lengths = self.max(lengths)
        own = _words(data, int(lengths.max()))
        every = [torch.empty_like(own) for _ in range(self.size)]
        self._wait(lambda group: [group.allgather([every], [own])])
        return [
            one.numpy().tobytes()[: int(length)] for one, length in zip(every, lengths, strict=True)
        ]

    def max(self, values: Array) -> Array:
        largest = values.copy()
        tensor = torch.from_numpy(largest)
        self._wait(lambda group: [group.allreduce([tensor], dist.ReduceOp.MAX)])
        return largest

    def watch(self, silence: float, computing: float) -> None:
        """Set the time limit of every call; a process may compute alone for as long."""
        self._limit = _limit(silence)

    def describe(self) -> Mapping[str, Any]:
        library = f"PyTorch {torch.__version__}"
        return {"kind": "torch.distributed", "ranks": self.size, "library": library}

    def leave(self) -> None:
        """Close the connections."""
        self._group = None

    def _wait(self, start: Callable[[Any], Works]) -> None:
        """Return when all that ``start`` has started in the group is complete."""
        try:
            for work in start(self._group):
                work.wait(self._limit)
        except RuntimeError as error:
            raise RuntimeError(
                f"rank {self.rank} waits for messages, but a rank has ended, or has not answered "
                f"for {self._limit.total_seconds():g} s (rank_timeout)"
            ) from error


def torch_communicator(comm: Any, waiting: float) -> TorchCommunicator:
    """The communicator of a process group (``"torch"``: all processes); the same object each
    time.

    ``torch.distributed`` is initialized if it is not yet, from the variables of ``torchrun``.
    """
    if not dist.is_initialized():
        if not dist.is_torchelastic_launched():
            raise RuntimeError(
                "comm='torch' needs processes that torchrun started, or "
                "call torch.distributed.init_process_group first"
            )
        dist.init_process_group("gloo", timeout=_limit(waiting))
        atexit.register(dist.destroy_process_group)
    group = dist.group.WORLD if comm == "torch" else comm
    if not _opened:
        atexit.register(_leave_all)  # runs before what was registered earlier
    if group not in _opened:
        _opened[group] = TorchCommunicator(group, waiting)
    return _opened[group]


def _leave_all() -> None:
    """Leave the groups while Python still runs: their threads must end before it does."""
    for communicator in _opened.values():
        communicator.leave()
    _opened.clear()


def _limit(seconds: float) -> timedelta:
    return timedelta(seconds=min(seconds, _LONGEST.total_seconds()))


def _words(data: bytes, length: int) -> torch.Tensor:
    """A buffer of ``length`` bytes, at least one, that begins with the data."""
    buffer = torch.zeros(max(length, 1), dtype=torch.uint8)
    if data:
        buffer[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return buffer
