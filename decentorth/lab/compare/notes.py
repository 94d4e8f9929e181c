"""The title of a comparison, and the notes below its table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from .comparison_rules import Rules
from .counts import CountedRuns
from .trials import Trace
from .tuning import Entry, at_edge, merit, own_step, span

_STALLED = 0.9
"""A run has stalled if the second half of its iterations brings the metric down by less than a
tenth."""
_APART = 1e-3
"""The difference of objectives, as a share of their fall, above which they belong to different
minimisers."""


def title(comparison: CountedRuns) -> str:
    """The title of a comparison, in one line."""
    return "Methods at tuned steps" if comparison.rules.tune else "Methods at their own steps"


def notes(comparison: CountedRuns) -> Iterator[str]:
    """The notes below the table, in a sentence or two each."""
    rules = comparison.rules
    counts, limit = "exact", ""
    if rules.resolution:
        counts = f"at most {100 * rules.resolution:g} % too high"
    if rules.time_limit is not None:
        limit = f" and {rules.time_limit:g} s"
    yield (
        f"Median (range) over the trials with {_seeds(rules.seeds)}; a trial that does not reach "
        "a tolerance counts as infinite."
    )
    limit = f"in at most {rules.iterations} iterations{limit}"
    yield f"A tolerance t is reached when {goal(rules)}, {limit}; counts are {counts}."
    if rules.tune:
        yield (
            f"Tuning tries {rules.grid} steps of each method, factors of two about its own, with "
            f"{_seeds(rules.tuning_seeds)}. It continues while the best is the smallest or the largest."
        )
    missed = [f"{one:g}" for one in rules.tolerances if one not in comparison.shown]
    if missed:
        yield f"No method reached {', '.join(missed)}."
    for entry in comparison.entries:
        yield from _failures(entry, rules)
        if rules.tune and len(entry.tried) == 1:
            yield f"{entry.label} takes no step_size to tune."
        elif edge := at_edge(entry.tried, entry.chosen):
            yield f"The best step of {entry.label} is the {edge} of {len(entry.tried)} tried."
        yield from _worse(entry, rules)
    for name, model in comparison.networks.items():
        parts = str(model)
        if model.compute is None:
            parts += ", computing as measured here"
        yield f"Seconds on {name} are modelled ({parts})."
    yield from _minimisers(comparison)


def _failures(entry: Entry, rules: Rules) -> Iterator[str]:
    """A note on the trials that did not reach the smallest tolerance, with the reasons."""
    ends: dict[str, list[float]] = {}
    least = rules.tolerances[-1]
    for trace in entry.traces:
        if rules.reached(trace.history, least) is None:
            why, value = ending(trace, rules)
            ends.setdefault(why, []).append(value)
    reasons = []
    for why, values in ends.items():
        between = span(f"{min(values):.2g}", f"{max(values):.2g}")
        reasons.append(f"{len(values)} {why.format(between)}")
    if reasons:
        yield (
            f"{entry.label} did not reach {least:g} in {sum(map(len, ends.values()))} of "
            f"{rules.trials} trials: {', '.join(reasons)}."
        )


def ending(trace: Trace, rules: Rules) -> tuple[str, float]:
    """Why a run did not reach the smallest tolerance, with braces for the value to blame, and that
    value."""
    history = trace.history
    least = rules.tolerances[-1]
    name = rules.metric.replace("_", " ")
    values = history[rules.metric]
    most = (rules.consensus_factor or math.inf) * least
    last = float(values[-1])
    apart = float(history["consensus_rms"][-1])
    if trace.status == "diverged" or not math.isfinite(last):
        return "diverged", last
    if last <= least and apart > most:
        return "ended with agents {} apart", apart
    if last <= least:
        return "ended with feasibility {}", float(history["feasibility"][-1])
    if rules.metric == "error" and history["gradient_norm"][-1] <= least:
        return "came to another critical point, with error {}", last
    how = "still improved at the end,"
    half = history["iteration"][-1] // 2
    if last > _STALLED * values[np.searchsorted(history["iteration"], half)]:
        how = "stalled"
    return f"{how} with {name} {{}}", last


def _worse(entry: Entry, rules: Rules) -> Iterator[str]:
    """A note where the method's own step does better in the trials than the tuned one."""
    runs = entry.untuned or entry.traces
    own = merit(runs, rules)
    tuned = merit(entry.traces, rules)
    if own >= tuned:
        return
    place = next(place for place, one in enumerate(own) if one != tuned[place])
    better = own[place]
    worse = tuned[place]
    what = f"{rules.metric.replace('_', ' ')} {better:.2g}, not {worse:.4g}"
    if place < len(own) - 1:
        tolerance = rules.tolerances[-1 - place // 2]
        what = f"{better:g} iterations to {tolerance:g}, not {worse:.4g}"
        if place % 2 == 0:
            reached = rules.trials - int(better), rules.trials - int(worse)
            what = f"{reached[0]} of {rules.trials} trials reach {tolerance:g}, not {reached[1]}"
    yield (
        f"In the trials {entry.label} does better with its own step "
        f"({own_step(entry.tried).step}): {what}."
    )


def goal(rules: Rules) -> str:
    """The condition under which a tolerance t is reached, in words."""
    words = f"{rules.metric.replace('_', ' ')} <= t"
    if rules.consensus_factor is not None:
        words += f" and consensus rms <= {rules.consensus_factor:g} t".replace("<= 1 t", "<= t")
    if rules.feasibility is not None:
        words += f" and feasibility <= {rules.feasibility:g}"
    return words


def _seeds(seeds: range) -> str:
    return f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"


def _minimisers(comparison: CountedRuns) -> Iterator[str]:
    """A note on the trials in which methods came to different minimisers."""
    rules = comparison.rules
    apart = []
    least = min(comparison.shown, default=-math.inf)
    higher: Counter[str] = Counter()
    for trial, seed in enumerate(rules.seeds):
        runs = {entry.label: entry.traces[trial].history for entry in comparison.entries}
        runs = {label: one for label, one in runs.items() if rules.reached(one, least) is not None}
        ends = {label: float(one["objective"][-1]) for label, one in runs.items()}
        lowest = min(ends.values(), default=0.0)
        falls = [float(one["objective"][0]) - lowest for one in runs.values()]
        worse = [label for label, end in ends.items() if end - lowest > _APART * abs(falls[0])]
        if worse:
            apart.append(str(seed))
            higher.update(worse)
    if apart:
        at = ", ".join(f"{label} in {times}" for label, times in higher.items())
        yield (
            f"In {len(apart)} of {rules.trials} trials (seed {', '.join(apart)}) methods that "
            f"reached {least:g} ended at objectives that differ by more than {100 * _APART:g} % of "
            f"their fall: they found different minimisers, the worse ones {at}."
        )
