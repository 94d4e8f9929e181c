"""The data of a comparison: the counts of each method to each tolerance, over the trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..protocols import Declared
from .model import Elapsed, NetworkModel, wall_time
from .rules import Rules
from .trials import Trace
from .tuning import Candidate

COUNTS = ("iterations", "rounds", "bytes", "gradients", "seconds")
"""The costs that are counted to a tolerance, besides the modelled seconds on each network."""


class Spread(NamedTuple):
    """The median and the range of a count over the trials, infinite where a trial does not reach the tolerance."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, counts: Sequence[float]) -> Spread:
        """The spread of these counts."""
        return cls(statistics.median(counts), min(counts), max(counts))


@dataclass(frozen=True)
class Entry:
    """A method in the comparison."""

    label: str
    tried: tuple[Candidate, ...]
    """The steps that were tried; a single one, without runs, if nothing was tuned."""
    chosen: Candidate
    traces: tuple[Trace, ...]
    """The runs of the trials, by seed."""

    @property
    def step(self) -> str:
        """The step of the trials in words: a number, or automatic with its range."""
        algorithm = self.chosen.algorithm
        declared = Declared.of(algorithm)
        given = declared.step_size
        if given is None:
            return "none"
        if declared.first_step != "auto":
            return f"{given:.6g}" if isinstance(given, int | float) else str(given)
        found = [trace.steps["step_size"] for trace in self.traces if "step_size" in trace.steps]
        if not found:
            return str(given)
        low, high = f"{np.min(found):.3g}", f"{np.max(found):.3g}"
        return f"{given} ({low if low == high else f'{low} to {high}'})"


class Line(NamedTuple):
    """The counts of a method to a tolerance."""

    algorithm: str
    step: str
    tolerance: float
    trials: int
    reached: int
    diverged: int
    counts: Mapping[str, Spread]


@dataclass(frozen=True)
class Comparison:
    """Methods on the same problems."""

    rules: Rules
    entries: tuple[Entry, ...]
    """The methods with their runs, in the order in which they were named."""
    networks: Mapping[str, NetworkModel]
    """The networks whose wall time is modelled, by name."""
    W: Mapping[int, Any]
    """The mixing matrix of each trial by its seed."""

    @cached_property
    def modelled(self) -> dict[tuple[str, int, str], Elapsed]:
        """The modelled seconds at each row of a run, by method, seed and network; computing as in the median of the trials."""
        found = {}
        for entry in self.entries:
            measured = statistics.median(trace.computing for trace in entry.traces)
            for name, model in self.networks.items():
                computing = replace(model, compute=measured) if model.compute is None else model
                for seed, trace in zip(self.rules.seeds, entry.traces, strict=True):
                    found[entry.label, seed, name] = wall_time(computing, self.W[seed], trace.history, seed=seed)
        return found

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of all counts."""
        return (*COUNTS, *(f"seconds on {name}" for name in self.networks))

    def column(self, entry: Entry, seed: int, quantity: str) -> NDArray[Any]:
        """A count at each row of the history of a run."""
        if quantity in COUNTS:
            return entry.traces[seed - self.rules.seed].history["iteration" if quantity == "iterations" else quantity]
        return self.modelled[entry.label, seed, quantity.partition(" on ")[2]].seconds

    def per_trial(self) -> Iterator[dict[str, Any]]:
        """A row for each method, trial and tolerance: its counts, None where the tolerance was not reached."""
        for entry in self.entries:
            for seed, trace in zip(self.rules.seeds, entry.traces, strict=True):
                for tolerance in self.rules.tolerances:
                    row = self.rules.reached(trace.history, tolerance)
                    found: dict[str, Any] = {"algorithm": entry.label, "seed": seed, "tolerance": tolerance}
                    found |= {"reached": int(row is not None), "status": trace.status}
                    for quantity in self.quantities:
                        found[quantity] = None if row is None else float(self.column(entry, seed, quantity)[row])
                    for metric in ("objective", "gradient_norm", "consensus_rms", "feasibility", "error"):
                        values = trace.history.get(metric)
                        found[metric] = None if values is None else float(values[-1 if row is None else row])
                    yield found

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The counts of each method to each tolerance, the largest tolerance first."""
        rows = list(self.per_trial())
        found = []
        for tolerance in self.rules.tolerances:
            for entry in self.entries:
                own = [row for row in rows if row["algorithm"] == entry.label and row["tolerance"] == tolerance]
                reached, diverged = sum(row["reached"] for row in own), sum(row["status"] == "diverged" for row in own)
                counts = {
                    name: Spread.of([math.inf if row[name] is None else row[name] for row in own]) for name in self.quantities
                }
                found.append(Line(entry.label, entry.step, tolerance, len(own), reached, diverged, counts))
        return tuple(found)

    @property
    def shown(self) -> tuple[float, ...]:
        """The tolerances that some method reached in some trial."""
        reached = {line.tolerance for line in self.lines if line.reached}
        return tuple(tolerance for tolerance in self.rules.tolerances if tolerance in reached)
