"""The end of the whole job when one rank fails, set up on the ranks of a launcher when decentorth
is imported.

Without it, the other ranks wait for ever for the failed one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import signal
import sys
import time
import traceback
from types import TracebackType
from typing import Any

from .environment import expected_ranks, rank
from .withholding import WithheldError

RANK_TIMEOUT = 300.0
"""The default number of seconds without a sign of life after which a rank counts as lost."""
_FORWARDING = 0.1
"""The seconds that a launcher gets to forward output before the job ends."""
_ENDING = 3.0
"""The seconds that a launcher gets to end this process."""
_OTHERS_REASON = 2.0
"""The seconds that the rank that knows the reason gets to print it and end the job."""
_HOOKS: list[object] = []
"""The exception hooks that end the job."""


def patience(name: str, seconds: float) -> float:
    """The seconds of the time limit ``name``, infinity for 0; ValueError unless it is 0 or at least
    1 second."""
    if seconds == 0:
        return math.inf
    if not seconds >= 1:
        raise ValueError(f"{name} must be at least 1 second, or 0 for no limit, got {seconds}")
    return seconds


def abort(code: int) -> None:
    """End every rank of the job now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # a full disk, a closed stream
            stream.flush()
    time.sleep(_FORWARDING)
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(code)
    # not connected yet: a launcher ends the job when one process dies of a signal
    os.kill(os.getpid(), signal.SIGTERM)


def end_soon() -> None:
    """End this process after a few seconds, whatever its threads do and even if the launcher
    cannot."""
    faulthandler.dump_traceback_later(_ENDING, exit=True, file=os.open(os.devnull, os.O_WRONLY))


def end_job_on_error() -> None:
    """Let an uncaught exception of this rank end the job; an error on all ranks is printed once, by
    rank 0."""
    before = sys.excepthook
    process = os.getpid()
    if before in _HOOKS:
        return

    def end_job(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if os.getpid() != process:  # a child of this rank, by os.fork, does not end the job
            before(kind, error, trace)
            return
        if isinstance(error, WithheldError):
            if rank() == 0:
                sys.stderr.write(f"rank 0 of {expected_ranks()[0]}: {error}\n")
                sys.stderr.flush()
            time.sleep(_OTHERS_REASON)
            abort(1)
        if rank() != 0:
            time.sleep(0.5)
        try:
            if before is sys.__excepthook__:
                text = "".join(traceback.format_exception(kind, error, trace))
                sys.stderr.write(
                    f"rank {rank()} of {expected_ranks()[0]} failed and ends the job:\n{text}"
                )
            else:
                before(kind, error, trace)
        finally:
            abort(1)

    _HOOKS.append(end_job)
    sys.excepthook = end_job
