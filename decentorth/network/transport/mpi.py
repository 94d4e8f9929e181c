"""Communication over MPI. Only this module and `ulfm`, for the loss of ranks, import mpi4py.

Every wait polls its requests, so a rank that waits for another that has left the job reports that
instead of hanging: a rank that ends notifies the others if they have not ended shortly after, and a
rank that still waits for messages then ends the job.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import platform
import struct
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ...process.abort import RANK_TIMEOUT, end_job_on_error
from ...process.environment import (
    check_alone,
    check_pmix,
    cores,
    direct_pmix,
    expected_ranks,
    local_ranks,
)
from ...process.process_ends import early, ended, initializing, mark_end
from ...protocols import Array, Index
from .watch import Pulse, Watchdog

finalizing = "mpi4py.MPI" not in sys.modules
"""True if this module finalizes MPI. mpi4py also does so after the loss of a rank, and in a child
by os.fork; both hang."""


def _finalize(process: int) -> None:
    if finalizing and os.getpid() == process and not MPI.Is_finalized():
        MPI.Finalize()


with initializing():
    try:
        import mpi4py

        if finalizing:
            mpi4py.rc.finalize = False
        if direct_pmix():
            mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the second without an MPI library
        raise RuntimeError(
            "ranks need an MPI library, and mpi4py could not load one "
            f"({str(error).splitlines()[0]}). Install one beside decentorth (pip install "
            f'"mpich>=5") and start with {sys.prefix}/bin/mpirun, or leave mpirun out to simulate '
            "in one process"
        ) from error
    if not MPI.Is_initialized():
        check_pmix(MPI.Get_library_version())
        MPI.Init_thread()
if finalizing:
    atexit.register(_finalize, os.getpid())

Links: TypeAlias = Sequence[tuple[int, Array]]
PostLinks: TypeAlias = Sequence[tuple[int, int]]
"""Ranks, and the tags of links to them or from them."""
_EXCHANGE, _MESSAGE, _GOODBYE, _POST = 1, 2, 3, 4
_CLOSED = -1
"""The first word of the last message over a link of a `_Post`."""
_SPINS = 0 if local_ranks() > len(cores()) else 20
"""The number of further tests of a request before the core is yielded: none if there are more ranks
than cores."""
_TESTS = 8
"""The number of tests of a request between two readings of the clock."""
_yield_core: Callable[[], None] = partial(time.sleep, 0)
if sys.platform == "linux":
    _yield_core = os.sched_yield
_LOOK_EVERY = 0.25
_LONG = 0.02
"""The seconds after which a rank that waits sleeps between its tests, so that the others have the
cores."""
_GRACE = 1.0
_pulse = Pulse()
_opened: dict[MpiCommunicator, None] = {}
"""The communicators to leave at the end, in the order in which this rank opened them. As all ranks
of a communicator open it together, no two ranks leave the same two in different orders."""
_key = MPI.Comm.Create_keyval()
"""The key under which an MPI communicator has its `MpiCommunicator` as an attribute, which it loses
when it is freed. Its handle would not do as a key: MPI may give that of a freed communicator to
another one, and may do so on some ranks only."""


class _Exchange:
    """Persistent requests on fixed buffers; receives are posted before anything is sent."""

    def __init__(self, owner: MpiCommunicator, sends: Links, receives: Links) -> None:
        receive = owner.comm.Recv_init
        send = owner.comm.Send_init
        requests = [receive([x, MPI.DOUBLE], rank, _EXCHANGE) for rank, x in receives]
        requests += [send([x, MPI.DOUBLE], rank, _EXCHANGE) for rank, x in sends]
        self._start = partial(MPI.Prequest.Startall, requests)
        self._wait = partial(owner.wait, requests)
        self._finalizer = weakref.finalize(self, _free, requests)

    def __call__(self) -> None:
        self._start()
        self._wait()

    def keep(self) -> None:
        """Keep the requests allocated for good."""
        self._finalizer.detach()


class _Post:
    """Messages of int64 words over numbered links to and from other ranks, by persistent requests
    without waiting."""

    def __init__(self, owner: MpiCommunicator, sends: PostLinks, receives: PostLinks, width: int):
        self._comm = owner.comm
        self._receives = []
        self._sends = []
        self._in = np.zeros((len(receives), width), dtype=np.int64)
        self._out = np.zeros((len(sends), width), dtype=np.int64)
        for row, (rank, tag) in zip(self._in, receives, strict=True):
            self._receives.append(self._comm.Recv_init([row, MPI.INT64_T], rank, _POST + tag))
        for row, (rank, tag) in zip(self._out, sends, strict=True):
            self._sends.append(self._comm.Send_init([row, MPI.INT64_T], rank, _POST + tag))
        self._open = len(receives)
        self._barrier: MPI.Request | None = None
        MPI.Prequest.Startall(self._receives)

    def send(self, link: int, words: Index) -> bool:
        """Send, or return False where the last message over this link is still under way."""
        request = self._sends[link]
        if not request.Test():
            return False
        self._out[link] = words
        request.Start()
        return True

    def arrived(self) -> Mapping[int, Index]:
        """The newest message, fresh, of each link over which any has arrived since the last
        call."""
        _pulse.count += 1
        newest: dict[int, Index] = {}
        while self._open and (links := MPI.Request.Testsome(self._receives)):
            for link in links:
                if self._in[link, 0] == _CLOSED:
                    self._open -= 1
                else:
                    newest[link] = self._in[link].copy()
                    self._receives[link].Start()
        if not newest:
            _yield_core()
        return newest

    def over(self) -> bool:
        """Say that this rank could end; True once every rank has said so."""
        if self._barrier is None:
            self._barrier = self._comm.Ibarrier()
        return bool(self._barrier.Test())

    def close(self) -> None:
        """End all links; called by every rank."""
        closing = np.full(self._out.shape[1], _CLOSED)
        left = set(range(len(self._sends)))
        while left or self._open or not MPI.Request.Testall(self._sends):
            left -= {link for link in left if self.send(link, closing)}
            self.arrived()
            _yield_core()
        _free([*self._sends, *self._receives])


def _free(requests: list[MPI.Prequest]) -> None:
    if not MPI.Is_finalized():
        for request in requests:
            request.Free()


class MpiCommunicator:
    """A `Communicator` on a duplicate of an mpi4py communicator, so its messages cannot be mixed up
    with other traffic."""

    failures: tuple[type[Exception], ...] = ()
    posts = True
    sites: tuple[str, ...] = ()

    def __init__(self, comm: MPI.Intracomm, waiting: float = RANK_TIMEOUT) -> None:
        self._open(_duplicate(comm, waiting))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "what ranks share cannot be pickled: write the run by result.save(folder), called by all "
            "ranks, and read it by decentorth.load(folder)"
        )

    def _open(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self._leaving = comm.Dup()  # its barrier cannot match another collective call
        self._watch = self._new_watch() if self.size > 1 else None
        _opened[self] = None

    def _new_watch(self) -> Watchdog:
        return Watchdog(self.rank, self.size, self.allgather_bytes, _pulse, MPI.Is_finalized)

    @property
    def root(self) -> bool:
        """True on the rank that prints and writes files."""
        root: bool = self.rank == 0
        return root

    def wait(self, requests: Sequence[MPI.Request]) -> None:
        """Return when all requests are complete; RuntimeError if they do not complete and a rank
        has left the job for good."""
        _pulse.count += 1
        for request in requests:
            if not request.Test():
                self._wait(request)

    def _wait(self, request: MPI.Request) -> None:
        for _ in range(_SPINS):
            if request.Test():
                return
        now = time.monotonic()
        long = now + _LONG
        look = now + _LOOK_EVERY
        patience = float("inf")
        gone: set[int] = set()
        while True:
            for _ in range(_TESTS):
                _yield_core()
                if request.Test():
                    return
            _pulse.count += 1
            now = time.monotonic()
            if now > long:
                time.sleep(0.001)
            if now > look:
                look = now + _LOOK_EVERY
                if found := self.departed():
                    gone |= found
                    patience = min(patience, now + _GRACE)
                if now > patience:
                    raise RuntimeError(
                        f"rank {self.rank} waits for messages, but rank "
                        f"{', '.join(map(str, sorted(gone)))} has ended before the run did (an "
                        "early return, an exception that was caught, or sys.exit)"
                    )

    def departed(self) -> set[int]:
        """The ranks that have announced their end since the last call."""
        status = MPI.Status()
        gone = set()
        while self.comm.Iprobe(MPI.ANY_SOURCE, _GOODBYE, status):
            self.comm.Recv([bytearray(0), MPI.BYTE], status.source, _GOODBYE)
            gone.add(status.source)
        return gone

    def leave(self) -> None:
        """End together with the other ranks; if they continue, notify them that this rank no longer
        answers."""
        barrier = self._leaving.Ibarrier()
        told = time.monotonic() + _LOOK_EVERY * 2
        goodbyes: list[MPI.Request] = []
        while not barrier.Test():
            time.sleep(0.001)
            if not goodbyes and time.monotonic() > told:
                others = [rank for rank in range(self.size) if rank != self.rank]
                goodbyes = [self.comm.Isend([b"", MPI.BYTE], other, _GOODBYE) for other in others]
            self.departed()
        MPI.Request.Waitall(goodbyes)
        self._leaving.Barrier()
        self.departed()
        self.unwatch()

    def unwatch(self) -> None:
        """Stop the watchdog."""
        if self._watch is not None:
            self._watch.close()

    def exchange(self, sends: Links, receives: Links) -> _Exchange:
        return _Exchange(self, sends, receives)

    def post(self, sends: PostLinks, receives: PostLinks, width: int) -> _Post:
        return _Post(self, sends, receives, width)

    def send(self, array: Array, target: int) -> None:
        self.wait([self.comm.Isend([array, MPI.DOUBLE], target, _MESSAGE)])

    def receive(self, array: Array, source: int) -> None:
        self.wait([self.comm.Irecv([array, MPI.DOUBLE], source, _MESSAGE)])

    def bcast(self, array: Array) -> None:
        self.wait([self.comm.Ibcast([array, MPI.DOUBLE], 0)])

    def bcast_bytes(self, data: bytes) -> bytes:
        length = np.array([float(len(data))])
        self.bcast(length)
        buffer = bytearray(data) if self.rank == 0 else bytearray(int(length[0]))
        self.wait([self.comm.Ibcast([buffer, MPI.BYTE], 0)])
        return bytes(buffer)

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        lengths = np.zeros(self.size, dtype=np.int64)
        own = np.array([len(data)], dtype=np.int64)
        self.wait([self.comm.Iallgather([own, MPI.INT64_T], [lengths, MPI.INT64_T])])
        buffer = bytearray(int(lengths.sum()))
        every = [buffer, (lengths.tolist(), None), MPI.BYTE]
        self.wait([self.comm.Iallgatherv([data, MPI.BYTE], every)])
        ends = np.cumsum(lengths)
        return [bytes(buffer[first:end]) for first, end in zip(ends - lengths, ends, strict=True)]

    def max(self, values: Array) -> Array:
        largest = np.empty_like(values)
        self.wait([self.comm.Iallreduce([values, MPI.DOUBLE], [largest, MPI.DOUBLE], MPI.MAX)])
        return largest

    def watch(self, silence: float, computing: float) -> None:
        if self._watch is not None:
            self._watch.limit(silence, computing)

    def describe(self) -> Mapping[str, Any]:
        library = MPI.Get_library_version().split("\n")[0].strip("\x00 ")
        return {"kind": "MPI", "ranks": self.size, "library": library}


def mpi_communicator(comm: Any, waiting: float = RANK_TIMEOUT) -> MpiCommunicator:
    """The `MpiCommunicator` of an mpi4py communicator (``"world"``: all ranks); the same object
    each time.

    The first call checks that the launcher and the library belong together, installs the hooks that
    end the whole job when one rank fails, and, if there are more ranks than cores, asks the kernel
    for short time slices. RuntimeError is raised when the other ranks do not meet this one within
    ``waiting`` seconds.
    """
    if comm == "world":
        comm = MPI.COMM_WORLD
    if not isinstance(comm, MPI.Intracomm):
        raise TypeError(
            "comm must be None, 'serial', 'torch', 'world' or an mpi4py intra-communicator, got "
            f"{type(comm).__name__}"
        )
    if not _opened:
        _check_launcher()
        _short_slices()
        if MPI.COMM_WORLD.size > 1:
            end_job_on_error()
            atexit.register(_leave_all, os.getpid())
            mark_end()
    known = comm.Get_attr(_key)
    if isinstance(known, MpiCommunicator):
        return known
    communicator = MpiCommunicator(comm, waiting)
    comm.Set_attr(_key, communicator)
    return communicator


def _duplicate(comm: MPI.Intracomm, waiting: float) -> MPI.Intracomm:
    """A duplicate, once all ranks have met; RuntimeError if one has ended, or does not come in
    time."""
    duplicate, request = comm.Idup()
    begun = look = time.monotonic()
    gone: set[int] = set()
    while not request.Test():
        time.sleep(0.001)
        now = time.monotonic()
        if now - begun > waiting:
            raise RuntimeError(
                f"rank {comm.rank} has waited {waiting:g} s for all ranks to begin the run: a rank "
                "has ended early (an early return, an exception that was caught, or sys.exit), or "
                "needs longer for its data: give a larger rank_timeout"
            )
        if now > look:
            look = now + _LOOK_EVERY * 2
            before = gone
            gone = _ended(comm)
            if lost := before & gone:  # twice: all ranks may have met before a rank ended
                raise RuntimeError(early(comm.rank, f"rank {', '.join(map(str, sorted(lost)))}"))
    return duplicate


def _ended(comm: MPI.Intracomm) -> set[int]:
    """The ranks of this host that have ended, by their numbers in ``comm``."""
    world = MPI.COMM_WORLD
    ranks = sorted(number for number in ended() if number < world.size)
    return {rank for rank in world.group.Translate_ranks(ranks, comm.group) if rank >= 0}


def _check_launcher() -> None:
    want, variable = expected_ranks()
    got = MPI.COMM_WORLD.size
    check_alone(got)
    if variable and want != got:
        library = " ".join(map(str, MPI.get_vendor()))
        raise RuntimeError(
            f"the launcher started {want} ranks ({variable}={want}) but the MPI library sees "
            f"{got}: they do not belong together. The library is {library}; start with its own "
            f"launcher, {sys.prefix}/bin/mpirun"
        )


def _short_slices() -> None:
    """Ask for 100 microsecond time slices if there are more ranks than cores, to get cores back
    early (Linux >= 6.12)."""
    if platform.machine() == "x86_64" and sys.platform == "linux" and local_ranks() > len(cores()):
        with contextlib.suppress(OSError):
            attributes = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 100_000, 0, 0)
            ctypes.CDLL(None, use_errno=True).syscall(314, 0, attributes, 0)  # sched_setattr


def _leave_all(process: int) -> None:
    if os.getpid() == process and not MPI.Is_finalized():  # not in a child, by os.fork
        for communicator in list(_opened):
            communicator.leave()
