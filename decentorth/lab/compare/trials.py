"""One run of a comparison: its inputs, from which any process can make it, and its kept results."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..._version import __version__
from ...api import Options, Run, set_up
from ...network.transport.communicator import Communicator
from ...numerics.ordered_sums import power_of_two
from ...protocols import Array
from ...records.progress_bar import Steps
from ...records.run_files import replacing
from ...running.checkpoint.checkpoint_files import limited
from ...running.history import COUNTS, Columns
from ...settings import values
from .comparison_rules import Rules
from .methods import has_step

DAMAGED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""The errors of reading JSON that is not what was written."""
LARGEST = 1 << 30
"""The most bytes of a kept run that are read."""


@dataclass(frozen=True)
class Job:
    """The inputs of a run; the problem is a function of the seed."""

    label: str
    algorithm: Any
    seed: int
    rules: Rules
    problem: Callable[[int], Any]
    W: Any
    placement: Any = "even"

    def words(self) -> str:
        """The name of the job."""
        words = f"{self.label} seed {self.seed}"
        if has_step(self.algorithm):
            words += f" step {self.algorithm.step_size}"
        return words

    def run(self, comm: object) -> Run:
        """The run, built and checked."""
        problem = self.problem(self.seed)
        given: dict[str, Any] = {"seed": self.seed, "comm": comm, "placement": self.placement}
        return set_up(problem, self.algorithm, self.W, **given)


@dataclass(frozen=True)
class Trace:
    """The kept results of a run: the columns of its history, its first steps, and its ending."""

    history: Columns = field(repr=False)
    status: str
    message: str
    steps: Mapping[str, list[float]]
    """The smallest and the largest of the agents' steps and penalties at the start."""
    computing: float
    """Seconds that an agent computed in an iteration, on average; without waiting for messages."""
    digest: str
    """SHA-256 of W, the start, and the gradients there: the fingerprint of the problem."""

    def to_json(self) -> dict[str, Any]:
        """The run as JSON can hold it, with every digit."""
        history = {name: column.tolist() for name, column in self.history.items()}
        return {**asdict(self), "history": history}

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Self:
        """Return the run from the output of `to_json`.

        Raises one of `DAMAGED` for other content.
        """
        dtypes = dict.fromkeys(COUNTS, np.int64)
        history = {}
        for name, column in kept["history"].items():
            history[name] = np.array(column, dtype=dtypes.get(name, np.float64))
        iteration = history["iteration"]
        if any(column.shape != (len(iteration),) for column in history.values()):
            raise ValueError("a history has columns of different lengths")
        if not {*COUNTS, "seconds"} <= history.keys() or not len(iteration):
            raise ValueError("a history lacks its counts")
        if iteration[0] < 0 or (np.diff(iteration) <= 0).any():
            raise ValueError("a history has iterations out of order")
        if not all(isinstance(kept[name], str) for name in ("status", "message", "digest")):
            raise TypeError("a run has an end that is no text")
        steps = {name: [*map(float, ends)] for name, ends in kept["steps"].items()}
        computing = float(kept["computing"])
        if not 0.0 <= computing < math.inf:
            raise ValueError(f"a run computed for {computing} s")
        return cls(**{**kept, "history": history, "steps": steps, "computing": computing})


def fingerprint(run: Run) -> str:
    """SHA-256 of the mixing matrix, the agents' start and their gradients there, which depend on
    the data, to six digits: methods that add exactly add sums of the set-up in another order."""
    start, data = (_rounded(run, x) for x in (run.x0, run.problem.gradient(run.x0)))
    return hashlib.sha256(run.network.digest() + f"{start}{data}".encode()).hexdigest()


def _rounded(run: Run, x: Array) -> str:
    """SHA-256 of an array of all agents, to six digits of its largest entry."""
    largest = power_of_two(run.collective.max(float(np.abs(x).max())))
    return run.collective.sha256(np.round(x / largest, 6) + 0.0)


def make(job: Job, comm: object = "serial") -> Trace:
    """Make the run; called by every rank of ``comm``."""
    run = job.run(comm)
    rules = job.rules
    digest = fingerprint(run)
    steps = Steps(run.algorithm, prints=False)
    options = Options(
        iterations=rules.iterations, stopping=rules.stop(), metrics=[steps], record_every=1
    )
    if rules.resolution:
        options = replace(options, record_every=None, rows=rules.rows(rules.iterations))
    result = run.solve(options)
    seconds = result.history["seconds"]
    spent = result.seconds["compute"] + result.seconds["wait"]
    busy = float(seconds[-1] - seconds[0]) * (result.seconds["compute"] / spent)
    computing = busy / (run.network.n_local * max(int(result.history["iteration"][-1]), 1))
    return Trace(
        dict(result.history), result.status, result.message, steps.ranges or {}, computing, digest
    )


class Store:
    """A folder with one file for each run, named by a hash of the run's inputs.

    Rank 0 reads and writes. ``about`` holds the settings on which all runs depend: the problem
    and the network. Without these, where both are made in Python, a run that is kept counts only
    if the fingerprint of its problem and network is the present one.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, object] | None, communicator: Communicator
    ):
        self.folder = folder
        self.communicator = communicator
        self._checks = about is None
        about = about or {}
        self._about = {**about, "version": __version__, "files": _stamps(about.values())}

    def path(self, job: Job) -> Path | None:
        """The file of a job's run, on rank 0."""
        if self.communicator.rank > 0:
            return None
        rules = job.rules
        kind = type(job.algorithm)
        sources = {getattr(sys.modules[base.__module__], "__file__", None) for base in kind.__mro__}
        facts = {
            **self._about,
            "algorithm": [kind.__qualname__, values(job.algorithm), sorted(_stamps(sources))],
            "run": [job.seed, rules.iterations, rules.tolerances[-1], rules.resolution],
            "rules": [rules.metric, rules.consensus_factor, rules.feasibility, rules.time_limit],
        }
        written = json.dumps(facts, sort_keys=True, default=str).encode()
        name = hashlib.sha256(written).hexdigest()[:16]
        return self.folder / f"{kind.__name__.lower()}-seed{job.seed}-{name}.json"

    def load(self, job: Job) -> Trace | None:
        """A run that was made before; called by every rank."""
        path = self.path(job)
        raw = b""
        if path is not None and path.is_file():
            try:
                raw = limited(path, LARGEST)
            except (OSError, ValueError) as error:
                raw = f"cannot be read: {error}".encode()  # no JSON: all ranks refuse it below
        raw = self.communicator.bcast_bytes(raw)
        if not raw:
            return None
        try:
            trace = Trace.of_json(json.loads(raw))
        except DAMAGED as error:
            raise ValueError(
                f"{path or self.folder} is damaged ({error!r:.80}): remove it, and its run is "
                "made again"
            ) from None
        if self._checks and trace.digest != fingerprint(job.run(self.communicator)):
            return None
        return trace

    def save(self, job: Job, trace: Trace) -> None:
        """Write a run to the folder, with every digit."""
        if path := self.path(job):
            with replacing(path) as file:
                file.write(json.dumps(trace.to_json()).encode())


def _stamps(named: Iterable[object]) -> list[Any]:
    """Size and time of every file that is named, so that runs on changed files are made again."""
    paths = [Path(one) for one in named if isinstance(one, str)]
    files = [(path, path.stat()) for path in paths if path.is_file()]
    return [[str(path), facts.st_size, facts.st_mtime_ns] for path, facts in files]
