"""When one rank fails, the job ends: what the ranks of a launcher get when decentorth is imported.

Without it, MPI leaves the other ranks waiting for ever for the one that has raised.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from types import TracebackType
from typing import Any

from ._mpienv import expected_ranks, rank

_FORWARDING = 0.1
"""Seconds that a launcher gets to forward what was written before it is told to end."""


def abort(code: int) -> None:
    """End every rank of the job now."""
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(_FORWARDING)
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(code)
    os.kill(os.getpid(), signal.SIGTERM)  # not connected yet: a launcher ends the job when one process dies of a signal


def end_job_on_error() -> None:
    """Let an uncaught exception of this rank end the job; an error that all ranks meet is printed once, by rank 0."""
    before = sys.excepthook
    if getattr(before, "ends_job", False):
        return

    def end_job(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if rank() != 0:
            time.sleep(0.5)
        if before is sys.__excepthook__:
            text = "".join(traceback.format_exception(kind, error, trace))
            sys.stderr.write(f"rank {rank()} of {expected_ranks()[0]} failed and ends the job:\n{text}")
        else:
            before(kind, error, trace)
        abort(1)

    end_job.ends_job = True  # type: ignore[attr-defined]
    sys.excepthook = end_job
