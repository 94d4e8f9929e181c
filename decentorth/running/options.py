"""The options of a run: how it is recorded, and when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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


_KEPT = 'do.Checkpoints("folder", every=1000)'


def _limit(name: str, seconds: object) -> float:
    """The seconds of the time limit ``name``."""
    limit: float = check(name, Seconds, seconds)
    patience(name, limit)
    return limit


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings):
    """The settings of every network of agents on ranks, in Python and on the command line.

    Parameters
    ----------
    placement
        How agents are divided over MPI ranks: "even" (equal shares in order) or "fewer-cuts" (fewer
        edges between ranks).
    """

    seed: Seed = 0
    placement: Literal["even", "fewer-cuts"] = "even"


@dataclass(frozen=True, kw_only=True)
class PlacementSettings(NetworkSettings):
    """The settings of every run about where it runs, in Python and on the command line.

    Parameters
    ----------
    rank_timeout
        MPI: abort if a rank gives no sign of life for this time (600, 30s, 10m, 2h); 0: never. A
        gradient may take longer; a single call that holds Python's lock may not. Also the limit for
        all ranks to start.
    on_rank_loss
        MPI: the response to a lost rank or host. "abort" ends the run. "shrink" continues without
        the rank's agents. "restart", for asynchronous agents, continues with them from their
        checkpoints on other ranks. The last two need Open MPI with --with-ft ulfm
        (``docs/running.md``).
    answer
        Also compute the pooled answer of all sites, by counted sums, for the column ``error``.
        Generated and bundled data always have it.
    secure
        Add by masked sums, in which no agent sees another's terms, for methods by exact sums
        (``docs/secure_sums.md``). Needs ``cryptography``; at most 64 agents. Sites that join a run
        always do, unless ``clear_sums`` is given.
    clear_sums
        Sites that join a run (``docs/sites.md``): add without masks, and permit methods that send
        points.
    device
        Where iterations are computed: "cuda" or "cuda:1" (a GPU, by PyTorch) or "torch:cpu", with
        ":float32" appended for single precision. By default NumPy (``docs/devices.md``).
    """

    rank_timeout: Annotated[Seconds, Form(partial(_limit, "rank_timeout"))] = RANK_TIMEOUT
    on_rank_loss: Literal["abort", "shrink", "restart"] = "abort"
    answer: bool = False
    secure: bool = False
    clear_sums: bool = False
    device: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.secure and self.clear_sums:
            raise ValueError("secure and clear_sums contradict each other: leave one of them out")


@dataclass(frozen=True, kw_only=True)
class RunLimits(Settings):
    """The settings of every run about its length, in Python and on the command line.

    Parameters
    ----------
    iterations
        The largest number of iterations.
    record_every
        Record every Nth iteration, instead of logarithmically spaced ones.
    safety_region
        Stop when an agent's feasibility exceeds this (exit code 3).
    compute_timeout
        MPI: abort if a rank computes longer than this (600, 30s, 10m, 2h) without communicating; 0:
        never.
    """

    iterations: Natural = 1000
    record_every: Count | None = None
    safety_region: Positive | None = None
    compute_timeout: Annotated[Seconds, Form(partial(_limit, "compute_timeout"))] = 0.0


@dataclass(frozen=True, kw_only=True)
class Options(RunLimits):
    """How a run is recorded, and when it ends.

    Parameters
    ----------
    stopping
        A rule such as ``GradientNorm(1e-6, relative=True) & Consensus(1e-6) | Time(60)``, checked
        at recorded iterations, or ``LocalMaximum(1e-6)``, by which the agents decide themselves. A
        number is the tolerance of ``GradientNorm``. A function of the row ends the run if it
        returns True: ``lambda row: row["error"] < 1e-3``. On ranks the answer of rank 0 counts.
    rows
        Number of log-spaced rows of metrics, about; by default 200, at most one in five iterations,
        and of samples of sites at most a ninth of all rounds. Rules of stopping see these rows only.
    recorders
        Objects whose ``record(row)`` is called on rank 0.
    metrics
        Metrics besides the standard ones.
    checkpoints
        Where and when to write checkpoints: ``Checkpoints("folder", every=1000)`` or
        ``every="10m"``.
    resume
        A folder of checkpoints of the same run. Continue from the newest complete one, with the
        bits of a run that never stopped, on any number of ranks.
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
            raise TypeError(f"checkpoints must be such as {_KEPT}, got {self.checkpoints!r}")
        of_metrics = "functions with columns, the names of their values"
        _check_listed("metrics", self.metrics, "columns", of_metrics)
        _check_listed("recorders", self.recorders, "record", "objects with a function record(row)")

    @property
    def rule(self) -> Rule | None:
        """The rule of stopping, which `as_rule` has made of the argument."""
        return cast("Rule | None", self.stopping)

    @property
    def folder(self) -> Path | None:
        """The folder of checkpoints."""
        return None if self.checkpoints is None else Path(self.checkpoints.folder)


def _check_listed(name: str, given: Any, needed: str, words: str) -> None:
    """Raise a TypeError for anything but a list of objects, and no classes, that have what is
    needed."""
    listed = isinstance(given, list | tuple)
    if not listed or any(isinstance(one, type) or not hasattr(one, needed) for one in given):
        raise TypeError(f"{name} must be a list of {words}, got {given!r:.80}")
