"""The programming interface: `solve` and `iterate`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..network import connect
from ..protocols import P
from ..records.progress_bar import row_progress
from ..running.options import Options
from ..settings import taking
from .arguments import Arguments, Setup
from .kinds import run_of
from .kinds.plain import Run
from .result import Result

__all__ = ["Arguments", "Options", "Result", "Run", "Setup"]
__all__ += ["connect", "iterate", "set_up", "solve"]


@taking(Arguments)
def solve(arguments: Arguments[P]) -> Result:
    """Minimise the mean of the agents' objectives under their constraint.

    Called with the same arguments on every rank when started under ``mpirun``; the same bits for
    any number of ranks. Ctrl-C (SIGINT) ends the run between two iterations and returns its result,
    with the status ``interrupted``; a second one raises KeyboardInterrupt at once. A run that
    diverges returns its result too, and rank 0 warns with the reason.

    Raises
    ------
    ValueError, TypeError
        Before work starts, the same on every rank, for input that cannot work.
    CheckpointError
        On every rank: a checkpoint cannot be written, or not be resumed from.
    LostError
        On every remaining rank: the remaining agents are not connected.
    """
    run = run_of(arguments)
    if arguments.check:
        run.check_gradient()
    if run.collective.rank == 0:
        for caution in run.cautions:
            warnings.warn(caution, UserWarning, stacklevel=3)
    result = _solved(run, arguments)
    if result.status == "diverged" and result.collective.root:
        warnings.warn(result.message, RuntimeWarning, stacklevel=3)
    return result


def _solved(run: Run, arguments: Arguments[Any]) -> Result:
    """The result of a run, with its progress shown where that is asked for."""
    if not arguments.progress or not run.collective.root:
        return run.solve(arguments)
    with row_progress(arguments.iterations) as recorder:
        return run.solve(replace(arguments, recorders=(*arguments.recorders, recorder)))


@taking(Setup)
def iterate(arguments: Setup[P]) -> Iterator[Any]:
    """Return the generator under `solve`: the states, from the initial one on, without an end.

    A state is valid until the next one is asked for; copy what you keep.
    """
    return run_of(arguments).states()


@taking(Setup)
def set_up(arguments: Setup[P]) -> Run:
    """Return the run, built and checked, before its first iteration."""
    return run_of(arguments)
