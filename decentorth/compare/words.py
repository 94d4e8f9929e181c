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
    if comparison.rules.step_size is not None:
        return f"Methods at equal step size {comparison.rules.step_size:g}: not a fair comparison"
    return f"Methods at {'tuned' if comparison.rules.tune else 'their own'} steps"


def notes(comparison: Comparison) -> Iterator[str]:
    """The notes below the table, in a sentence or two each."""
    rules = comparison.rules
    counts = f"at most {100 * rules.resolution:g} % too high" if rules.resolution else "exact"
    limit = "" if rules.time_limit is None else f" and {rules.time_limit:g} s"
    yield f"Median (range) over the trials with {_seeds(rules.seeds)}; a trial that does not reach a tolerance counts as infinite."
    yield f"A tolerance t is reached when {goal(rules)}, in at most {rules.iterations} iterations{limit}; counts are {counts}."
    if rules.tune:
        yield f"Steps are tuned with {_seeds(rules.tuning_seeds)}, {rules.grid} for each method, factors of two about its own."
    missed = [f"{tolerance:g}" for tolerance in rules.tolerances if tolerance not in comparison.shown]
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
        computing = ", computing as measured here" if model.compute is None else ""
        rounds = [one.simulated for (*_, other), one in comparison.modelled.items() if other == name and not one.exact]
        rest = f"; {min(rounds)} rounds are simulated, and the others repeat them" if rounds else ""
        yield f"Seconds on {name} are modelled ({model}){computing}{rest}."
    yield from _minimisers(comparison)


def goal(rules: Rules) -> str:
    """The condition under which a tolerance t is reached, in words."""
    words = f"{rules.metric.replace('_', ' ')} <= t"
    if rules.consensus_factor is not None:
        words += f" and consensus rms <= {'' if rules.consensus_factor == 1.0 else f'{rules.consensus_factor:g} '}t"
    return words if rules.feasibility is None else f"{words} and feasibility <= {rules.feasibility:g}"


def _seeds(seeds: range) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def _minimisers(comparison: Comparison) -> Iterator[str]:
    """A note on the trials in which methods came to different minimisers."""
    rules, apart, least = comparison.rules, [], min(comparison.shown, default=-math.inf)
    for trial, seed in enumerate(rules.seeds):
        histories = [entry.traces[trial].history for entry in comparison.entries]
        ends = [history["objective"][-1] for history in histories if rules.reached(history, least) is not None]
        if ends and max(ends) - min(ends) > _APART * max(map(abs, ends)):
            apart.append(str(seed))
    if apart:
        yield (
            f"In {len(apart)} of {rules.trials} trials (seed {', '.join(apart)}) methods that reached {least:g} ended at "
            f"objectives more than {100 * _APART:g} % apart: they found different minimisers."
        )
