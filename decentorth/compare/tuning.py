"""Tuning: each method's own best step, from the same budget of steps, seeds and iterations.

A step's merit is the median over the tuning seeds of the iterations to the smallest tolerance, a seed that does not reach it
counting as infinite; between steps that tie, as all do that do not reach it, the next larger tolerance decides, and in the end the
median of the last value of the metric.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import Result
from .methods import Method, has_step, with_step
from .rules import Rules
from .trials import Trace

_DIGITS = 3
"""The significant digits of the steps to try, so that they can be written down."""


@dataclass(frozen=True)
class Candidate:
    """A step to try."""

    factor: float
    """Its ratio to the method's own step."""
    algorithm: Any
    traces: tuple[Trace, ...] = ()
    """Its runs by tuning seed."""


def candidates(method: Method, resolved: Any, start: Result, rules: Rules) -> tuple[Candidate, ...]:
    """The steps to try: the method as it is, and with multiples of the step that it starts with; called by every rank.

    Parameters
    ----------
    resolved
        The method with its automatic order of mixing resolved, which all multiples share.
    start
        A run of no iterations.

    Raises
    ------
    ValueError
        The method's automatic step is not in its state.
    """
    own = Candidate(1.0, method.algorithm)
    if not has_step(method.algorithm):
        return (own,)
    centre = first_step(method, start)
    exponent = _DIGITS - 1 - math.floor(math.log10(centre))
    return tuple(
        own if factor == 1.0 else Candidate(factor, with_step(resolved, round(centre, exponent) * factor))
        for factor in rules.factors
    )


def first_step(method: Method, start: Result) -> float:
    """The step that a method starts with: as given, or the mean of its agents' automatic ones."""
    given = method.algorithm.step_size
    initial = getattr(given, "initial", given)
    if isinstance(initial, int | float):
        return float(initial)
    steps = getattr(start.state, "step_size", None)
    if not isinstance(steps, np.ndarray):
        raise ValueError(f"{method.label} does not say which step it starts with: give one, as {method.label}:step_size=0.01")
    (total,) = start.collective.sum(steps.reshape(-1, 1))
    return float(total[0]) / start.network.n_agents / (given.scale(0) if hasattr(given, "scale") else 1.0)


def merit(traces: Sequence[Trace], rules: Rules) -> tuple[float, ...]:
    """The merit of a step, the smaller the better: iterations to each tolerance, the smallest first, and the last metric."""
    rows = [[rules.reached(trace.history, tolerance) for trace in traces] for tolerance in reversed(rules.tolerances)]
    counts = [
        statistics.median(
            math.inf if row is None else float(trace.history["iteration"][row]) for row, trace in zip(each, traces, strict=True)
        )
        for each in rows
    ]
    return (*counts, statistics.median(_end(trace, rules) for trace in traces))


def _end(trace: Trace, rules: Rules) -> float:
    """The last value of the metric; infinite for a run that diverged, or whose metric had overflowed."""
    last = float(trace.history[rules.metric][-1])
    return last if trace.status != "diverged" and math.isfinite(last) else math.inf


def best(tried: Sequence[Candidate], rules: Rules) -> Candidate:
    """The step with the least merit; of equal ones the smallest."""
    return min(tried, key=lambda one: (*merit(one.traces, rules), one.factor))


def at_edge(tried: Sequence[Candidate], chosen: Candidate) -> str:
    """The edge of the grid at which the chosen step lies: smallest, largest, or empty."""
    factors = [one.factor for one in tried]
    if len(factors) == 1 or chosen.factor not in (min(factors), max(factors)):
        return ""
    return "smallest" if chosen.factor == min(factors) else "largest"
