"""What a comparison found: what each method takes to each tolerance, over the trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .contenders import Contender, has_step
from .model import Elapsed, NetworkModel, wall_time
from .rules import Rules
from .trials import Trace
from .tuning import Tried, at_edge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["text", "markdown", "latex", "csv"]
COUNTS = ("iterations", "rounds", "bytes", "gradients", "seconds")
"""What is counted to a tolerance, beside the modelled seconds on each network."""
_COLUMNS = {"iterations": "iteration"}
_APART = 1e-3
"""Objectives that differ by more, relatively, are of different minimisers."""


class Spread(NamedTuple):
    """The median and the range of a count over the trials, infinite where a trial does not reach the tolerance."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, counts: Sequence[float]) -> Spread:
        """That of these counts."""
        return cls(statistics.median(counts), min(counts), max(counts))


@dataclass(frozen=True)
class Entry:
    """A method in the comparison."""

    contender: Contender
    tried: tuple[Tried, ...]
    """The steps that were tried; one, without runs, where nothing was tuned."""
    chosen: Tried
    traces: tuple[Trace, ...]
    """Of the trials, by seed."""

    @property
    def label(self) -> str:
        return self.contender.label

    @property
    def computing(self) -> float:
        """Seconds that an agent computes in an iteration, as measured: the median over the trials."""
        return statistics.median(trace.computing for trace in self.traces)

    @property
    def step(self) -> str:
        """The step of the trials in words: a number, or automatic and where it came to lie."""
        algorithm = self.chosen.candidate.algorithm
        given = getattr(algorithm, "step_size", None)
        if not has_step(algorithm):
            return "none"
        if getattr(given, "initial", given) != "auto":
            return f"{given:.6g}" if isinstance(given, int | float) else str(given)
        found = [trace.steps["step_size"] for trace in self.traces if "step_size" in trace.steps]
        if not found:
            return str(given)
        low, high = f"{min(low for low, _ in found):.3g}", f"{max(high for _, high in found):.3g}"
        return f"{given} ({low if low == high else f'{low} to {high}'})"


class Line(NamedTuple):
    """What a method takes to a tolerance."""

    algorithm: str
    step: str
    tolerance: float
    trials: int
    reached: int
    diverged: int
    counts: Mapping[str, Spread]


@dataclass(frozen=True)
class Comparison:
    """Methods on the same problems.

    Attributes
    ----------
    rules
        How they were compared.
    entries
        The methods with their runs, in the order in which they were named.
    networks
        Those whose wall time is modelled, by name.
    W
        The mixing matrix of each trial by its seed.
    """

    rules: Rules
    entries: tuple[Entry, ...]
    networks: Mapping[str, NetworkModel]
    W: Mapping[int, Any]

    @cached_property
    def modelled(self) -> dict[tuple[str, int, str], Elapsed]:
        """The modelled seconds at each row of a run, by method, seed and network."""
        found = {}
        for entry in self.entries:
            for name, model in self.networks.items():
                computing = replace(model, compute=entry.computing) if model.compute is None else model
                for seed, trace in zip(self.rules.seeds, entry.traces, strict=True):
                    found[entry.label, seed, name] = wall_time(computing, self.W[seed], trace.history, seed=seed)
        return found

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of all counts."""
        return (*COUNTS, *(f"seconds on {name}" for name in self.networks))

    def count(self, entry: Entry, seed: int, quantity: str, row: int) -> float:
        """A count of a run at a row of its history."""
        kind, _, network = quantity.partition(" on ")
        if network:
            return float(self.modelled[entry.label, seed, network].seconds[row])
        return float(entry.traces[seed - self.rules.seed].history[_COLUMNS.get(kind, kind)][row])

    def per_trial(self) -> Iterator[dict[str, Any]]:
        """A row for each method, trial and tolerance: its counts, None where it was not reached."""
        for entry in self.entries:
            for seed, trace in zip(self.rules.seeds, entry.traces, strict=True):
                for tolerance in self.rules.tolerances:
                    row = self.rules.reached(trace.history, tolerance)
                    found: dict[str, Any] = {"algorithm": entry.label, "seed": seed, "tolerance": tolerance}
                    found |= {"reached": int(row is not None), "status": trace.status}
                    at = -1 if row is None else row
                    for quantity in self.quantities:
                        found[quantity] = None if row is None else self.count(entry, seed, quantity, row)
                    for metric in ("objective", "gradient_norm", "consensus_rms", "feasibility", "error"):
                        found[metric] = float(trace.history[metric][at]) if metric in trace.history else None
                    yield found

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """What each method takes to each tolerance, the largest tolerance first."""
        rows = list(self.per_trial())
        found = []
        for tolerance in self.rules.tolerances:
            for entry in self.entries:
                own = [row for row in rows if row["algorithm"] == entry.label and row["tolerance"] == tolerance]
                counts = {
                    quantity: Spread.of([math.inf if row[quantity] is None else row[quantity] for row in own])
                    for quantity in self.quantities
                }
                reached, diverged = sum(row["reached"] for row in own), sum(row["status"] == "diverged" for row in own)
                found.append(Line(entry.label, entry.step, tolerance, len(own), reached, diverged, counts))
        return tuple(found)

    @property
    def shown(self) -> tuple[float, ...]:
        """The tolerances that some method reached in some trial."""
        return tuple(
            tolerance
            for tolerance in self.rules.tolerances
            if any(line.reached for line in self.lines if line.tolerance == tolerance)
        )

    @property
    def title(self) -> str:
        """What is compared, in a line."""
        if self.rules.step_size is not None:
            return f"Methods at equal step size {self.rules.step_size:g}: not a fair comparison"
        return f"Methods at {'tuned' if self.rules.tune else 'their own'} steps"

    def notes(self) -> Iterator[str]:
        """What must be known to read the table, a sentence or two each."""
        rules = self.rules
        trials = "1 trial" if rules.trials == 1 else f"{rules.trials} trials"
        seeds = f"seed {rules.seed}" if rules.trials == 1 else f"seeds {rules.seed} to {rules.seeds[-1]}"
        yield (
            f"Median (range) of {trials}, {seeds}: each has its own data, start and random graph, the same for every method. "
            "A trial that does not reach a tolerance counts as infinite."
        )
        if rules.step_size is not None:
            yield "Equal steps are not equal lengths of movement: the landing direction is half the Riemannian gradient."
        if rules.tune:
            yield self._tuning_words()
        yield f"A tolerance t is reached when {rules.goal('t')}."
        most = f"At most {rules.iterations} iterations" + ("" if rules.time_limit is None else f" and {rules.time_limit:g} s")
        yield f"{most}; " + (
            f"counts are at most {100 * rules.resolution:g} % too high." if rules.resolution else "counts are exact."
        )
        missed = [tolerance for tolerance in rules.tolerances if tolerance not in self.shown]
        if missed:
            yield f"Reached by nobody: {', '.join(f'{tolerance:g}' for tolerance in missed)}."
        for entry in self.entries:
            diverged = sum(trace.status == "diverged" for trace in entry.traces)
            if diverged:
                yield f"{entry.label} diverged in {diverged} of {trials}."
        yield from self._network_words()
        yield from self._minimisers()

    def _tuning_words(self) -> str:
        rules = self.rules
        seeds = rules.tuning_seeds
        on = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        words = (
            f"Steps tuned on {on}: {rules.grid} for each method, factors of two about its own, at most "
            f"{rules.tune_iterations or rules.iterations} iterations each, for the fewest to the smallest tolerance reached."
        )
        for entry in self.entries:
            if len(entry.tried) == 1:
                words += f" {entry.label} has no step to tune."
            elif edge := at_edge(entry.tried, entry.chosen):
                words += f" The best of {entry.label} is the {edge} of its grid."
        return words

    def _network_words(self) -> Iterator[str]:
        for name, model in self.networks.items():
            found = [elapsed for (_, _, network), elapsed in self.modelled.items() if network == name]
            fewest = min((elapsed.simulated for elapsed in found if not elapsed.exact), default=None)
            rest = "" if fewest is None else f"; {fewest} rounds simulated, the others at their rate"
            computing = "" if model.compute is not None else ", computing as measured here (median of the trials)"
            yield f"Seconds on {name} are modelled: {model.words()}{computing}{rest}."

    def _minimisers(self) -> Iterator[str]:
        """Whether the methods came to the same minimiser."""
        if not self.shown:
            return
        apart = []
        for seed in self.rules.seeds:
            ends = [
                float(trace.history["objective"][-1])
                for trace in (entry.traces[seed - self.rules.seed] for entry in self.entries)
                if self.rules.reached(trace.history, self.shown[-1]) is not None
            ]
            if ends and max(ends) - min(ends) > _APART * max(abs(end) for end in ends):
                apart.append(seed)
        if apart:
            yield (
                f"In {len(apart)} of {self.rules.trials} trials (seed {', '.join(map(str, apart))}) methods that reached "
                f"{self.shown[-1]:g} ended at objectives more than {100 * _APART:g} % apart: they found different minimisers."
            )

    def verdicts(self) -> Iterator[str]:
        """For each network, who is first there to the smallest tolerance that anybody reaches in most trials."""
        for quantity in [name for name in self.quantities if " on " in name]:
            for tolerance in reversed(self.shown):
                own = [line for line in self.lines if line.tolerance == tolerance and line.counts[quantity].median < math.inf]
                if own:
                    order = sorted(own, key=lambda line: line.counts[quantity].median)
                    listed = ", then ".join(f"{line.algorithm} {line.counts[quantity].median:.3g} s" for line in order)
                    yield f"On {quantity.partition(' on ')[2]}, to {tolerance:g}: {listed}."
                    break

    def table(self, form: Format = "text") -> str:
        """The table as text for a terminal, Markdown, LaTeX (with booktabs) or CSV (every digit and every tolerance)."""
        from .tables import table

        return table(self, form)

    def figure(self, metrics: Sequence[str] = ()) -> Figure:
        """The metric against iterations, rounds, bytes and modelled seconds on the first network, medians and ranges over trials.

        Parameters
        ----------
        metrics
            A row of panels for each of these columns of the history, with the methods that have it; by default for the metric that
            was compared.

        Raises
        ------
        InputError
            Without matplotlib.
        """
        from .figure import figure

        return figure(self, tuple(metrics) or (self.rules.metric,))

    def save(self, folder: str | Path, *, plot: bool = True, metrics: Sequence[str] = ()) -> None:
        """Write ``comparison.csv``, ``trials.csv``, ``tuning.csv`` where steps were tuned, ``table.md``, ``table.tex``, and with
        ``plot`` ``figure.png`` and ``figure.svg``.

        Raises
        ------
        InputError
            What cannot be written, or drawn.
        """
        from .tables import save

        save(self, Path(folder), self.figure(metrics) if plot else None)
