"""The options of a run: how it is recorded, and when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from ..protocols import Metric, Recorder, Row, StoppingRule
from ..settings import Count, Form, Natural, Positive, Range, Settings
from ..stopping import as_rule
from .checkpoint import Checkpoints, Resumed

Stopping = Annotated[StoppingRule | Callable[[Row], object] | float, Form(as_rule)]


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """How a run is recorded, and when it ends.

    Parameters
    ----------
    iterations
        The most iterations.
    stopping
        A rule such as ``GradientNorm(1e-6, relative=True) & Consensus(1e-6) | Time(60)``, looked at in each recorded row (there
        is one when a time is over); or ``LocalMaximum(1e-6)``, by which the agents decide themselves. A number is the tolerance of
        ``GradientNorm``. A function of the row ends the run where it returns True: ``lambda row: row["error"] < 1e-3``; on
        ranks the answer of rank 0 counts.
    rows
        About how many log-spaced rows of metrics to record; by default 200, but no more than one in five iterations.
    record_every
        Record every so many iterations instead.
    recorders
        Objects whose ``record(row)`` rank 0 calls.
    metrics
        Further metrics, beside the standard ones.
    safety_region
        Stop when ``feasibility`` exceeds this.
    checkpoints
        Where and when to write checkpoints: ``Checkpoints("folder", every=1000)`` or ``every="10m"``.
    resume
        Where a run like this one left checkpoints: goes on from the newest that is whole, with the bits of a run that never
        stopped, on any number of ranks.
    compute_timeout
        On MPI ranks: the job ends when a rank has computed for so many seconds without meeting the others; 0: never.
    """

    interruptible: ClassVar[bool] = False
    """True if SIGINT ends the run with its result, instead of a KeyboardInterrupt."""

    iterations: Natural = 1000
    stopping: Stopping | None = None
    rows: Annotated[int, Range(least=2)] | None = None
    record_every: Count | None = None
    recorders: Sequence[Recorder] = ()
    metrics: Sequence[Metric] = ()
    safety_region: Positive | None = None
    checkpoints: Checkpoints | None = None
    resume: str | os.PathLike[str] | Resumed | None = None
    compute_timeout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.checkpoints, Checkpoints | None):
            raise TypeError(f'checkpoints must be such as do.Checkpoints("folder", every=1000), got {self.checkpoints!r}')
        _check_listed("metrics", self.metrics, ("columns", "__call__"), "functions with columns, the names of their values")
        _check_listed("recorders", self.recorders, ("record",), "objects with a function record(row)")

    @property
    def rule(self) -> StoppingRule | None:
        """The rule of stopping."""
        return as_rule(self.stopping)

    @property
    def folder(self) -> Path | None:
        """The folder of checkpoints."""
        return None if self.checkpoints is None else Path(self.checkpoints.folder)

    @property
    def alike(self) -> Mapping[str, tuple[object, ...]]:
        """The facts that are the same on every rank, by their name."""
        kept, resume = self.checkpoints, self.resume
        path = resume.path if isinstance(resume, Resumed) else resume
        keeping = None if kept is None else (kept.folder, kept.every, kept.keep)
        return {
            "iterations, stopping and recording": (
                self.iterations,
                self.stopping,
                self.rows,
                self.record_every,
                self.safety_region,
            ),
            "checkpoints and resume": (keeping, None if resume is None else str(path)),
        }


def _check_listed(name: str, given: Any, needed: tuple[str, ...], words: str) -> None:
    """Raise a TypeError for anything but a list of objects, and no classes, that have what is needed."""
    listed = isinstance(given, list | tuple)
    if not listed or any(isinstance(one, type) or not all(hasattr(one, need) for need in needed) for one in given):
        raise TypeError(f"{name} must be a list of {words}, got {given!r:.80}")
