"""The title of a comparison, and the notes below its table."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .comparison import Comparison
from .rules import Rules
from .tuning import at_edge

_APART = 1e-3
"""The relative difference of objectives above which they belong to different minimisers."""


def title(comparison: Comparison) -> str:
    """The title of a comparison, in one line."""
    return "Methods at tuned steps" if comparison.rules.tune else "Methods at their own steps"


def notes(comparison: Comparison) -> Iterator[str]:
    """The notes below the table, in a sentence or two each."""
    rules = comparison.rules
    counts, limit = "exact", ""
    if rules.resolution:
        counts = f"at most {100 * rules.resolution:g} % too high"
    if rules.time_limit is not None:
        limit = f" and {rules.time_limit:g} s"
    infinite = "a trial that does not reach a tolerance counts as infinite"
    yield f"Median (range) over the trials with {_seeds(rules.seeds)}; {infinite}."
    limit = f"in at most {rules.iterations} iterations{limit}"
    yield f"A tolerance t is reached when {goal(rules)}, {limit}; counts are {counts}."
    if rules.tune:
        grid = f"{rules.grid} for each method, factors of two about its own"
        yield f"Steps are tuned with {_seeds(rules.tuning_seeds)}, {grid}."
    missed = [f"{one:g}" for one in rules.tolerances if one not in comparison.shown]
    if missed:
        yield f"No method reached {', '.join(missed)}."
    for entry in comparison.entries:
        diverged = sum(trace.status == "diverged" for trace in entry.traces)
        if diverged:
            yield f"{entry.label} diverged in {diverged} of {rules.trials} trials."
        if rules.tune and len(entry.tried) == 1:
            yield f"{entry.label} has no step to tune."
        elif edge := at_edge(entry.tried, entry.chosen):
            yield f"The best step of {entry.label} is the {edge} of its grid."
    for name, model in comparison.networks.items():
        parts = str(model)
        if model.compute is None:
            parts += ", computing as measured here"
        yield f"Seconds on {name} are modelled ({parts})."
    yield from _minimisers(comparison)


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


def _minimisers(comparison: Comparison) -> Iterator[str]:
    """A note on the trials in which methods came to different minimisers."""
    rules, apart, least = comparison.rules, [], min(comparison.shown, default=-math.inf)
    for trial, seed in enumerate(rules.seeds):
        histories = [entry.traces[trial].history for entry in comparison.entries]
        arrived = [one for one in histories if rules.reached(one, least) is not None]
        ends = [history["objective"][-1] for history in arrived]
        if ends and max(ends) - min(ends) > _APART * max(map(abs, ends)):
            apart.append(str(seed))
    if apart:
        where = f"In {len(apart)} of {rules.trials} trials (seed {', '.join(apart)})"
        ended = f"ended at objectives more than {100 * _APART:g} % apart"
        yield f"{where} methods that reached {least:g} {ended}: they found different minimisers."
