"""Tuning: each method's own best step, from the same grid of steps, seeds and iterations.

A grid whose best step is an edge is continued until the best one is inside. The best step fails on the
fewest tuning seeds to reach the smallest tolerance. Of such steps the best takes the fewest
iterations to it, in the median over the seeds. Steps that tie, as all do that never reach it, are
compared at the next larger tolerance, and in the end by the median of the last value of the metric.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...algorithms import AutoMethod
from ...api import Result
from ...protocols import Declared
from .comparison_rules import Rules
from .methods import has_step, with_step
from .trials import Trace


@dataclass(frozen=True)
class Candidate:
    """A step to try."""

    factor: float
    """Its ratio to the method's own step."""
    algorithm: Any
    """The method; None in a comparison that was loaded."""
    step: str
    """The step in words: a number, a schedule, "auto, growing", "auto, constant" or "none"; and the
    order of mixing. For the method auto, the method that it takes."""
    traces: tuple[Trace, ...] = ()
    """Its runs by tuning seed."""

    def started(self, traces: Sequence[Trace]) -> str:
        """Describe the step, with the range of the first automatic steps of these runs."""
        found = [trace.steps["step_size"] for trace in traces if "step_size" in trace.steps]
        if not found or Declared.of(self.algorithm).first_step != "auto":
            return self.step
        return f"{self.step} ({span(f'{np.min(found):.3g}', f'{np.max(found):.3g}')})"


def step_words(algorithm: object, resolved: object) -> str:
    """The step of a method and its order of mixing in words.

    The ``resolved`` method shows whether an automatic step grows, and which order was chosen.
    """
    if isinstance(algorithm, AutoMethod):
        return f"takes {type(resolved).__name__}"
    order = Declared.of(resolved).order
    step = _step_words(algorithm, resolved)
    return step if order is None else f"{step}, {order}"


def _step_words(algorithm: object, resolved: object) -> str:
    step = Declared.of(algorithm).step_size
    used = str(Declared.of(resolved).step_size)
    if step is None:
        return "none"
    if step == "auto":
        return f"auto, {used.replace('auto', 'constant')}"
    if Declared.of(algorithm).scale is None:
        return f"{step:.6g}"
    return str(step)


@dataclass(frozen=True)
class Entry:
    """A method in the comparison.

    Examples
    --------
    >>> import decentorth as do
    >>> from decentorth.lab.compare import Rules, compare
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = lambda seed: settings.problem(4, seed)
    >>> found = compare(problem, "deepca", "ring", Rules(trials=2))
    >>> entry = found.entries[0]
    >>> entry.label, len(entry.traces)
    ('deepca', 2)
    """

    label: str
    step: str
    """The step of the trials in words, with its range where it is automatic."""
    tried: tuple[Candidate, ...]
    """The steps that were tried; a single one, without runs, if nothing was tuned."""
    chosen: Candidate
    traces: tuple[Trace, ...]
    """The runs of the trials, by seed."""
    untuned: tuple[Trace, ...] = ()
    """The trials with the method's own step, by seed, if another one was chosen."""

    @property
    def computing(self) -> float:
        """Seconds that an agent computes in an iteration, in the median of the trials."""
        return statistics.median(trace.computing for trace in self.traces)


def candidates(
    label: str, algorithm: Any, resolved: Any, start: Result, rules: Rules
) -> tuple[Candidate, ...]:
    """Return the steps to try: the method's own step, and multiples of its first step.

    Every rank calls it. All multiples share the automatic order of mixing of ``resolved``.
    ``start`` is a run without iterations. Raises ValueError if the method's automatic step is
    not in its state.
    """
    own = Candidate(1.0, algorithm, step_words(algorithm, resolved))
    if not (rules.tune and has_step(algorithm)):
        return (own,)
    centre = float(f"{_first_step(label, algorithm, start):.3g}")
    same = replace(resolved, step_size=algorithm.step_size)
    others = {factor: with_step(same, centre * factor) for factor in rules.factors}
    grid = {factor: Candidate(factor, one, step_words(one, one)) for factor, one in others.items()}
    return tuple({**grid, 1.0: own}.values())


def _first_step(label: str, algorithm: object, start: Result) -> float:
    """The step that a method starts with: as given, or the mean of its agents' automatic ones."""
    declared = Declared.of(algorithm)
    if isinstance(declared.first_step, int | float):
        return float(declared.first_step)
    steps = getattr(start.state, "step_size", None)
    if not isinstance(steps, np.ndarray):
        raise ValueError(
            f"{label} does not say which step it starts with: give one, as {label}:step_size=0.01"
        )
    (total,) = start.collective.sum(steps.reshape(-1, 1))
    first = float(total[0]) / start.network.n_agents
    if declared.scale is not None:
        first /= declared.scale(0)
    return first


def merit(traces: Sequence[Trace], rules: Rules) -> tuple[float, ...]:
    """Return the merit of a step; smaller is better.

    It holds the failed runs and the median of the iterations for each tolerance, the smallest
    tolerance first, and the median of the last metric.
    """

    def count(trace: Trace, tolerance: float) -> float:
        row = rules.reached(trace.history, tolerance)
        return math.inf if row is None else float(trace.history["iteration"][row])

    def end(trace: Trace) -> float:
        last = float(trace.history[rules.metric][-1])
        return last if trace.status != "diverged" and math.isfinite(last) else math.inf

    found: list[float] = []
    for tolerance in reversed(rules.tolerances):
        counts = [count(trace, tolerance) for trace in traces]
        found += [counts.count(math.inf), statistics.median(counts)]
    return (*found, statistics.median([end(trace) for trace in traces]))


def own_step(tried: Sequence[Candidate]) -> Candidate:
    """The method's own step."""
    return next(one for one in tried if one.factor == 1.0)


def best(tried: Sequence[Candidate], rules: Rules) -> Candidate:
    """The step with the least merit; of equal ones the smallest."""
    if len(tried) == 1:
        return tried[0]
    return min(tried, key=lambda one: (*merit(one.traces, rules), one.factor))


def most_steps(rules: Rules) -> int:
    """The most steps that a method tries: those of the grid, and as many beyond it."""
    return 2 * rules.grid


def beyond(tried: Sequence[Candidate], rules: Rules) -> tuple[Candidate, ...]:
    """The next step to try: half or twice the best one where that is an edge, otherwise none."""
    edge = at_edge(tried, best(tried, rules))
    if not edge or len(tried) >= most_steps(rules):
        return ()
    factors = [one.factor for one in tried]
    factor = max(factors) * 2.0 if edge == "largest" else min(factors) / 2.0
    known = next(one for one in tried if one.factor != 1.0)  # the own step may be automatic
    step = Declared.of(known.algorithm).first_step * (factor / known.factor)
    method = with_step(known.algorithm, step)
    return (Candidate(factor, method, step_words(method, method)),)


def at_edge(tried: Sequence[Candidate], chosen: Candidate) -> str:
    """The edge of the grid at which the chosen step lies: smallest, largest, or empty."""
    factors = [one.factor for one in tried]
    edges = {} if len(factors) == 1 else {max(factors): "largest", min(factors): "smallest"}
    return edges.get(chosen.factor, "")


def span(low: str, high: str) -> str:
    """Format a range as text; one number if both ends are shown equally."""
    return low if low == high else f"{low} to {high}"
