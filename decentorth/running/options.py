"""The options of a run: how it is recorded, and when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from ..process.abort import RANK_TIMEOUT, patience
from ..protocols import Metric, Recorder, Row, StoppingRule
from ..settings import Count, Form, Natural, Positive, Range, Seconds, Seed, Settings, check
from ..stopping import Rule, as_rule
from .checkpoint import Checkpoints, Resumed

Stopping = Annotated[StoppingRule | Callable[[Row], object] | float, Form(as_rule)]


def _limit(name: str, seconds: object) -> float:
    """The seconds of the time limit ``name``."""
    limit: float = check(name, Seconds, seconds)
    patience(name, limit)
    return limit


@dataclass(frozen=True, kw_only=True)
class Drawn(Settings):
    """The settings of every network of agents on ranks, in Python and on the command line.

    Parameters
    ----------
    placement
        How agents are divided over MPI ranks: "even" (equal shares in order), or "fewer-cuts", so that fewer edges cross ranks.
    """

    seed: Seed = 0
    placement: Literal["even", "fewer-cuts"] = "even"


@dataclass(frozen=True, kw_only=True)
class Place(Drawn):
    """The settings of every run about where it runs, in Python and on the command line.

    Parameters
    ----------
    rank_timeout
        On MPI ranks: the job ends when a rank has given no sign of life for this many seconds (stopped, its host frozen or gone);
        0: never. A gradient may take longer; a single call that holds Python's lock may not. It is also the limit for all ranks to
        begin the first run.
    on_rank_loss
        The response to the loss of a rank (killed, or its host): "abort" ends the run; "shrink" continues without that rank's
        agents, and "restart", for asynchronous agents, with them, from their checkpoints on the other ranks; both with Open MPI
        and its --with-ft ulfm (``docs/running.md``).
    device
        Where the iterations are made: "cuda" or "cuda:1" (a GPU, by PyTorch) or "torch:cpu", with ":float32" behind it in single
        precision; by default NumPy (``docs/devices.md``).
    """

    rank_timeout: Annotated[Seconds, Form(partial(_limit, "rank_timeout"))] = RANK_TIMEOUT
    on_rank_loss: Literal["abort", "shrink", "restart"] = "abort"
    device: str | None = None


@dataclass(frozen=True, kw_only=True)
class Limits(Settings):
    """The settings of every run about its length, in Python and on the command line.

    Parameters
    ----------
    iterations
        The most iterations.
    record_every
        Record a row every this many iterations instead.
    safety_region
        Stop when the feasibility measure of some agent exceeds this (exit code 3 of the command).
    compute_timeout
        On MPI ranks: the job ends when a rank has computed for this many seconds without meeting the others; 0: never.
    """

    iterations: Natural = 1000
    record_every: Count | None = None
    safety_region: Positive | None = None
    compute_timeout: Annotated[Seconds, Form(partial(_limit, "compute_timeout"))] = 0.0


@dataclass(frozen=True, kw_only=True)
class Options(Limits):
    """How a run is recorded, and when it ends.

    Parameters
    ----------
    stopping
        A rule such as ``GradientNorm(1e-6, relative=True) & Consensus(1e-6) | Time(60)``, looked at in each recorded row (there
        is one when a time is over); or ``LocalMaximum(1e-6)``, by which the agents decide themselves. A number is the tolerance of
        ``GradientNorm``. A function of the row ends the run where it returns True: ``lambda row: row["error"] < 1e-3``; on
        ranks the answer of rank 0 counts.
    rows
        About how many log-spaced rows of metrics to record; by default 200, but no more than one in five iterations.
    recorders
        Objects whose ``record(row)`` rank 0 calls.
    metrics
        Further metrics, beside the standard ones.
    checkpoints
        Where and when to write checkpoints: ``Checkpoints("folder", every=1000)`` or ``every="10m"``.
    resume
        Where a run like this one left checkpoints: goes on from the newest that is whole, with the bits of a run that never
        stopped, on any number of ranks.
    """

    interruptible: ClassVar[bool] = False
    """True if SIGINT ends the run with its result, instead of a KeyboardInterrupt."""

    stopping: Stopping | None = None
    rows: Annotated[int, Range(least=2)] | None = None
    recorders: Sequence[Recorder] = ()
    metrics: Sequence[Metric] = ()
    checkpoints: Checkpoints | None = None
    resume: str | os.PathLike[str] | Resumed | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.checkpoints, Checkpoints | None):
            raise TypeError(f'checkpoints must be such as do.Checkpoints("folder", every=1000), got {self.checkpoints!r}')
        _check_listed("metrics", self.metrics, "columns", "functions with columns, the names of their values")
        _check_listed("recorders", self.recorders, "record", "objects with a function record(row)")

    @property
    def rule(self) -> Rule | None:
        """The rule of stopping, which `as_rule` has made of the argument."""
        return cast("Rule | None", self.stopping)

    @property
    def folder(self) -> Path | None:
        """The folder of checkpoints."""
        return None if self.checkpoints is None else Path(self.checkpoints.folder)

    @property
    def shared(self) -> Mapping[str, tuple[object, ...]]:
        """The facts that are the same on every rank, by their name."""
        kept, path, keeping = self.checkpoints, self.resume, None
        if isinstance(path, Resumed):
            path = path.path
        if kept is not None:
            keeping = kept.folder, kept.every, kept.keep
        rows = self.iterations, self.stopping, self.rows, self.record_every, self.safety_region
        return {"iterations, stopping and recording": rows, "checkpoints and resume": (keeping, str(path))}


def _check_listed(name: str, given: Any, needed: str, words: str) -> None:
    """Raise a TypeError for anything but a list of objects, and no classes, that have what is needed."""
    listed = isinstance(given, list | tuple)
    if not listed or any(isinstance(one, type) or not hasattr(one, needed) for one in given):
        raise TypeError(f"{name} must be a list of {words}, got {given!r:.80}")
