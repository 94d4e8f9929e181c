"""The sentences about a comparison: its title, and the notes below its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ..cli.progress import size
from ..protocols import Array
from .comparison import Comparison
from .model import NetworkModel
from .rules import Rules
from .tuning import at_edge

_APART = 1e-3
"""The relative difference of objectives above which they belong to different minimisers."""


def title(comparison: Comparison) -> str:
    """The title of a comparison, in one line."""
    if comparison.rules.step_size is not None:
        return f"Methods at equal step size {comparison.rules.step_size:g}: not a fair comparison"
    return f"Methods at {'tuned' if comparison.rules.tune else 'their own'} steps"


def notes(comparison: Comparison) -> Iterator[str]:
    """The notes below the table, a sentence or two each; the last ones order the methods by their modelled seconds."""
    rules = comparison.rules
    trials = f"{rules.trials} trial{'s' * (rules.trials > 1)}"
    yield (
        f"Median (range) of {trials}, {_seeds(rules.seeds)}: each has its own data, start and random graph, the same for every "
        "method. A trial that does not reach a tolerance counts as infinite."
    )
    if rules.step_size is not None:
        yield "Equal steps are not equal lengths of movement: the landing direction is half the Riemannian gradient."
    if rules.tune:
        yield _tuning(comparison)
    yield f"A tolerance t is reached when {goal(rules)}."
    limit = "" if rules.time_limit is None else f" and {rules.time_limit:g} s"
    counts = f"at most {100 * rules.resolution:g} % too high" if rules.resolution else "exact"
    yield f"At most {rules.iterations} iterations{limit}; counts are {counts}."
    missed = [f"{tolerance:g}" for tolerance in rules.tolerances if tolerance not in comparison.shown]
    if missed:
        yield f"Reached by nobody: {', '.join(missed)}."
    for entry in comparison.entries:
        diverged = sum(trace.status == "diverged" for trace in entry.traces)
        if diverged:
            yield f"{entry.label} diverged in {diverged} of {trials}."
    yield from _networks(comparison)
    yield from _minimisers(comparison)
    yield from _orders(comparison)


def goal(rules: Rules) -> str:
    """The condition under which a tolerance t is reached, in words."""
    words = f"{rules.metric.replace('_', ' ')} <= t"
    if rules.consensus_factor is not None:
        words += f" and consensus rms <= {'' if rules.consensus_factor == 1.0 else f'{rules.consensus_factor:g} '}t"
    return words if rules.feasibility is None else f"{words} and feasibility <= {rules.feasibility:g}"


def network(model: NetworkModel) -> str:
    """The parameters of a network in one line."""
    parts = [f"latency {_range(model.latency, _milliseconds)}", f"bandwidth {_range(model.bandwidth, _rate)}"]
    if model.straggler > 0.0:
        parts.append(f"{100 * model.straggler:g} % stragglers {model.slowdown:g} times slower")
    if not model.shared:
        parts.append("links of their own")
    if model.compute is not None:
        parts.append(f"{_milliseconds(model.compute)} of computing an iteration")
    return ", ".join(parts)


def _range(values: float | Array, written: Callable[[float], str]) -> str:
    return " to ".join(dict.fromkeys((written(float(np.min(values))), written(float(np.max(values))))))


def _milliseconds(value: float) -> str:
    return f"{1e3 * value:.3g} ms"


def _rate(value: float) -> str:
    return "without limit" if math.isinf(value) else f"{size(value)}/s"


def _seeds(seeds: range) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def _tuning(comparison: Comparison) -> str:
    rules = comparison.rules
    words = (
        f"Steps tuned on {_seeds(rules.tuning_seeds)}: {rules.grid} for each method, factors of two about its own, at most "
        f"{rules.tune_iterations or rules.iterations} iterations each, for the fewest to the smallest tolerance reached."
    )
    for entry in comparison.entries:
        if len(entry.tried) == 1:
            words += f" {entry.label} has no step to tune."
        elif edge := at_edge(entry.tried, entry.chosen):
            words += f" The best of {entry.label} is the {edge} of its grid."
    return words


def _networks(comparison: Comparison) -> Iterator[str]:
    for name, model in comparison.networks.items():
        rounds = [found.simulated for (*_, other), found in comparison.modelled.items() if other == name and not found.exact]
        rest = f"; {min(rounds)} rounds simulated, the others at their rate" if rounds else ""
        computing = "" if model.compute is not None else ", computing as measured here (median of the trials)"
        yield f"Seconds on {name} are modelled: {network(model)}{computing}{rest}."


def _minimisers(comparison: Comparison) -> Iterator[str]:
    """A note on the trials in which methods came to different minimisers."""
    if not comparison.shown:
        return
    rules, tolerance, apart = comparison.rules, comparison.shown[-1], []
    for trial, seed in enumerate(rules.seeds):
        histories = [entry.traces[trial].history for entry in comparison.entries]
        ends = [float(history["objective"][-1]) for history in histories if rules.reached(history, tolerance) is not None]
        if ends and max(ends) - min(ends) > _APART * max(map(abs, ends)):
            apart.append(str(seed))
    if apart:
        yield (
            f"In {len(apart)} of {rules.trials} trials (seed {', '.join(apart)}) methods that reached {tolerance:g} ended at "
            f"objectives more than {100 * _APART:g} % apart: they found different minimisers."
        )


def _orders(comparison: Comparison) -> Iterator[str]:
    """For each network the methods in the order in which they reach the smallest tolerance that any reaches in most trials."""
    for name in comparison.networks:
        for tolerance in reversed(comparison.shown):
            medians = {
                line.algorithm: line.counts[f"seconds on {name}"].median
                for line in comparison.lines
                if line.tolerance == tolerance and line.counts[f"seconds on {name}"].median < math.inf
            }
            if medians:
                listed = ", then ".join(
                    f"{label} {medians[label]:.3g} s" for label in sorted(medians, key=lambda label: medians[label])
                )
                yield f"On {name}, to {tolerance:g}: {listed}."
                break
