"""Names of a host's processes, by which a rank that waits for the first run sees another's end.

A rank can end before it has met the others, and then sends them no message. On Linux processes can
read each other's names, so a rank that ends, or waits in MPI_Init, writes that into its own name.
On other systems, and between hosts, only the time limit ends a wait.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from .environment import local_ranks, rank, started_by_launcher

_LEFT, _WAITS = "left rank", "waits rank"
"""The words before the number of the rank; Linux keeps 15 characters of a name."""
_NAME = Path("/proc/self/comm")


def early(waiting: int, ranks: str) -> str:
    """Return the message of a rank that waits for other ranks that have ended."""
    return (
        f"rank {waiting} waits for all ranks to begin the run, but {ranks} has ended before that "
        "(an early return, an exception that was caught, or sys.exit)"
    )


def mark_end() -> None:
    """Let this rank mark its end, before what was registered so far to run at its end."""
    atexit.unregister(_end)
    atexit.register(_end, os.getpid())


def ended() -> set[int]:
    """The ranks of this host that have marked their end."""
    return _marked(_LEFT)


@contextlib.contextmanager
def initializing() -> Iterator[None]:
    """Mark this rank as waiting in MPI_Init; RuntimeError if another one has ended without MPI."""
    if "mpi4py.MPI" in sys.modules or not started_by_launcher():
        yield
        return
    name = _NAME.read_text(errors="replace").strip()
    _mark(_WAITS)
    if gone := ended():
        raise RuntimeError(early(rank(), f"rank {', '.join(map(str, sorted(gone)))}"))
    if len(_siblings()) < local_ranks():
        raise RuntimeError(early(rank(), "another rank of this host"))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            _NAME.write_text(name)


def _end(process: int) -> None:
    """Mark the end; initialize MPI if others wait for that, so that they continue and see the
    mark."""
    if os.getpid() != process:  # a child of this rank, by os.fork
        return
    _mark(_LEFT)
    if "mpi4py.MPI" not in sys.modules and started_by_launcher() and _marked(_WAITS):
        with contextlib.suppress(ImportError, RuntimeError):  # no MPI library
            importlib.import_module("mpi4py.MPI")


def _mark(words: str) -> None:
    with contextlib.suppress(OSError):  # not Linux
        _NAME.write_text(f"{words} {rank()}")


def _marked(words: str) -> set[int]:
    found = [name.partition(words) for name in _siblings()]
    return {int(number) for before, _, number in found if not before and number.strip().isdigit()}


def _siblings() -> list[str]:
    """The names of the living processes that this one's parent has started, with its own."""
    names = []
    parent = str(os.getppid())
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            name, _, fields = path.read_text(errors="replace").partition("(")[2].rpartition(")")
            state, its_parent = fields.split()[:2]
            if its_parent == parent and state != "Z":
                names.append(name)
    return names
