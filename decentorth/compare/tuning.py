"""Tuning: each method's own best step, from the same budget of steps, seeds and iterations.

A step's merit is the median over the tuning seeds of the iterations to the smallest tolerance, a seed that does not reach it
counting as infinite; between steps that tie, as all do that do not reach it, the next larger tolerance decides, and in the end the
median of the last value of the metric.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..api import Result
from ..protocols import Declared
from .methods import has_step, with_step
from .rules import Rules
from .trials import Trace


@dataclass(frozen=True)
class Candidate:
    """A step to try."""

    factor: float
    """Its ratio to the method's own step."""
    algorithm: Any
    traces: tuple[Trace, ...] = ()
    """Its runs by tuning seed."""


def candidates(label: str, algorithm: Any, resolved: Any, start: Result, rules: Rules) -> tuple[Candidate, ...]:
    """The steps to try: the method as it is, and with multiples of the step that it starts with; called by every rank.

    All multiples share the automatic order of mixing of ``resolved``. ``start`` is a run of no iterations; a ValueError says that
    the method's automatic step is not in its state.
    """
    own = Candidate(1.0, algorithm)
    if not (rules.tune and has_step(algorithm)):
        return (own,)
    centre = float(f"{_first_step(label, algorithm, start):.3g}")
    same = replace(resolved, step_size=algorithm.step_size)
    grid = {factor: Candidate(factor, with_step(same, centre * factor)) for factor in rules.factors}
    return tuple({**grid, 1.0: own}.values())


def _first_step(label: str, algorithm: object, start: Result) -> float:
    """The step that a method starts with: as given, or the mean of its agents' automatic ones."""
    declared = Declared.of(algorithm)
    if isinstance(declared.first_step, int | float):
        return float(declared.first_step)
    steps = getattr(start.state, "step_size", None)
    if not isinstance(steps, np.ndarray):
        cure = f"give one, as {label}:step_size=0.01"
        raise ValueError(f"{label} does not say which step it starts with: {cure}")
    (total,) = start.collective.sum(steps.reshape(-1, 1))
    first = float(total[0]) / start.network.n_agents
    if declared.scale is not None:
        first /= declared.scale(0)
    return first


def merit(traces: Sequence[Trace], rules: Rules) -> tuple[float, ...]:
    """The merit of a step, the smaller the better: iterations to each tolerance, the smallest first, and the last metric."""

    def count(trace: Trace, tolerance: float) -> float:
        row = rules.reached(trace.history, tolerance)
        return math.inf if row is None else float(trace.history["iteration"][row])

    def end(trace: Trace) -> float:
        last = float(trace.history[rules.metric][-1])
        return last if trace.status != "diverged" and math.isfinite(last) else math.inf

    found = [[count(trace, tolerance) for trace in traces] for tolerance in reversed(rules.tolerances)]
    return tuple(map(statistics.median, [*found, [end(trace) for trace in traces]]))


def best(tried: Sequence[Candidate], rules: Rules) -> Candidate:
    """The step with the least merit; of equal ones the smallest."""
    if len(tried) == 1:
        return tried[0]
    return min(tried, key=lambda one: (*merit(one.traces, rules), one.factor))


def at_edge(tried: Sequence[Candidate], chosen: Candidate) -> str:
    """The edge of the grid at which the chosen step lies: smallest, largest, or empty."""
    factors = [one.factor for one in tried]
    edges = {} if len(factors) == 1 else {max(factors): "largest", min(factors): "smallest"}
    return edges.get(chosen.factor, "")
