"""The counts of each method to each tolerance, over the trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .comparison_rules import Rules
from .model import NetworkModel, wall_time
from .tuning import Entry

COUNTS = ("iterations", "rounds", "bytes", "gradients", "seconds")
"""The costs that are counted to a tolerance, besides the modelled seconds on each network."""
_METRICS = ("objective", "gradient_norm", "consensus_rms", "feasibility", "error")


class MedianRange(NamedTuple):
    """The median and the range of a count over the trials.

    A trial that does not reach the tolerance counts as infinite.

    Examples
    --------
    >>> from decentorth.lab.compare import MedianRange
    >>> MedianRange.of([30.0, 10.0, 20.0])
    MedianRange(median=20.0, low=10.0, high=30.0)
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, counts: Sequence[float]) -> MedianRange:
        """The median and the range of these counts."""
        return cls(statistics.median(counts), min(counts), max(counts))


class Line(NamedTuple):
    """The counts of a method to a tolerance.

    Examples
    --------
    >>> import decentorth as do
    >>> from decentorth.lab.compare import Rules, compare
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = lambda seed: settings.problem(4, seed)
    >>> rules = Rules(trials=2, tolerances=(1e-2,))
    >>> (line,) = compare(problem, "deepca", "ring", rules).lines
    >>> line.algorithm, line.tolerance, line.reached
    ('deepca', 0.01, 2)
    """

    algorithm: str
    step: str
    tolerance: float
    trials: int
    reached: int
    diverged: int
    counts: Mapping[str, MedianRange]


@dataclass(frozen=True)
class CountedRuns:
    """Methods on the same problems."""

    rules: Rules
    entries: tuple[Entry, ...]
    """The methods with their runs, in the order in which they were named."""
    networks: Mapping[str, NetworkModel]
    """The networks whose wall time is modelled, by name."""
    agents: int

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of all counts."""
        return (*COUNTS, *(f"seconds on {name}" for name in self.networks))

    def column(self, entry: Entry, seed: int, quantity: str) -> NDArray[Any]:
        """Return a count at each row of a run's history.

        Modelled seconds use the median of the measured computing times.
        """
        history = entry.traces[seed - self.rules.seed].history
        if quantity in COUNTS:
            return history[{"iterations": "iteration"}.get(quantity, quantity)]
        model = self.networks[quantity.partition(" on ")[2]]
        if model.compute is None:
            model = replace(model, compute=entry.computing)
        return wall_time(model, self.agents, history)

    def per_trial(self) -> Iterator[dict[str, Any]]:
        """Yield one row with the counts of each method, trial and tolerance.

        Counts are None if the tolerance was not reached.
        """
        for entry in self.entries:
            for seed, trace in zip(self.rules.seeds, entry.traces, strict=True):
                columns = {name: self.column(entry, seed, name) for name in self.quantities}
                for tolerance in self.rules.tolerances:
                    row = self.rules.reached(trace.history, tolerance)
                    found: dict[str, object] = {"algorithm": entry.label, "seed": seed}
                    found |= {"tolerance": tolerance, "reached": int(row is not None)}
                    found |= {"status": trace.status, **dict.fromkeys((*columns, *_METRICS))}
                    at = -1
                    if row is not None:
                        at = row
                        found |= {name: float(column[row]) for name, column in columns.items()}
                    present = [name for name in _METRICS if name in trace.history]
                    yield found | {name: float(trace.history[name][at]) for name in present}

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The counts of each method to each tolerance, the largest tolerance first."""
        rows: dict[tuple[float, str], list[dict[str, Any]]] = {}
        for row in self.per_trial():
            rows.setdefault((row["tolerance"], row["algorithm"]), []).append(row)
        found = []
        for tolerance in self.rules.tolerances:
            for entry in self.entries:
                own = rows[tolerance, entry.label]
                reached = [row for row in own if row["reached"]]
                missed = [math.inf] * (len(own) - len(reached))
                counts = {}
                for name in self.quantities:
                    counts[name] = MedianRange.of([row[name] for row in reached] + missed)
                diverged = sum(row["status"] == "diverged" for row in own)
                found.append(
                    Line(
                        entry.label, entry.step, tolerance, len(own), len(reached), diverged, counts
                    )
                )
        return tuple(found)

    @property
    def shown(self) -> tuple[float, ...]:
        """The tolerances that some method reached in some trial."""
        reached = {line.tolerance for line in self.lines if line.reached}
        return tuple(tolerance for tolerance in self.rules.tolerances if tolerance in reached)
