"""Faults found in a run: points that are not finite or leave the set, objectives that are not
finite, and the step size, start or function at fault."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

import numpy as np

from ..protocols import Declared, Landing, Observed, Row, Smooth, Stop
from .checkpoint import Snapshot
from .metrics import projects, splits_features
from .parts import Parts

log = logging.getLogger(__name__)
_OFF = 1.0
"""The feasibility of a start above which it may be the cause of a divergence."""
_FAR = 1e3
"""Where a point has grown this many times larger than the start, the step may be the cause of a
gradient that is not finite."""
_GONE = 1e6
"""The feasibility above which points that started nearer have left the set for good."""


def warn_of_objective(
    parts: Parts, state: Observed, values: Mapping[str, float], before: Row | None
) -> None:
    """Warn where the objective is no longer finite: it may be undefined there, or its function be
    wrong."""
    objective = values.get("objective", 0.0)
    earlier = 0.0 if before is None else before.values["objective"]
    if math.isfinite(objective) or not math.isfinite(earlier):
        return
    whose = of_agent(parts, state)
    if parts.collective.rank == 0:
        found = f"at iteration {state.k} (the mean is {objective})"
        log.warning("the objective%s is not finite %s; the run continues", whose, found)


def of_agent(parts: Parts, state: Observed) -> str:
    """The words for the first agent whose objective is not finite; empty if only their sum is
    not."""
    agent = parts.runaway(parts.problem.value(state.x), np.finfo(np.float64).max)
    return "" if agent is None else f" of agent {agent}"


def gone(parts: Parts, state: Observed, row: Row, first: Row) -> Stop | None:
    """The end of a run whose points have left the constraint set for good."""
    before = first.values.get("feasibility", 0.0)
    far = row.values.get("feasibility", 0.0)
    if not far > _GONE >= before:
        return None
    method = Declared.of(parts.algorithm)
    constraint = parts.problem.constraint
    if method.requires or method.requires_set:
        advice = _off_set(parts) or smaller(parts, state)
    else:
        name = type(parts.algorithm).__name__
        advice = f"{name} does not keep points on {constraint!r}: take a method that does"
        if isinstance(constraint, Landing):
            advice += ", such as drfgt"
    return Stop(
        "diverged",
        False,
        (
            f"diverged: the points have left the constraint set (feasibility {far:.3g} at "
            f"iteration {row.iteration}, {before:.3g} at the start); {advice}"
        ),
    )


def diverged(parts: Parts, agent: int, state: Observed, row: Row, good: Snapshot | None) -> Stop:
    """The end of a run whose point is not finite: its cause, or a smaller step size."""
    cause = None
    if good is not None:
        cause = _cause(parts, good, state.k)
    advice = cause or _off_set(parts) or smaller(parts, state)
    return Stop(
        "diverged",
        False,
        (
            f"diverged: the point of agent {agent} is not finite at iteration {state.k} (it was "
            f"finite at iteration {row.iteration}); {advice}"
        ),
    )


def _cause(parts: Parts, good: Snapshot, last: int) -> str | None:
    """The gradient or objective that is not finite where the points still are, found by making the
    iterations after ``good`` again.

    None where all are finite at the last such points; the same on every rank.
    """
    problem = parts.problem
    network = parts.network
    collective = parts.collective
    rounds = network.rounds
    messages = network.messages
    sent = network.bytes
    in_flight = {name: array.copy() for name, array in network.in_flight().items()}
    network.final_ledger = network.ledger()
    network.restore(*good.counts, good.in_flight)
    before = good.state.x
    k = good.state.k
    for state in parts.states(good.copied().state):
        if state.k >= last or parts.runaway(state.x) is not None:
            break
        before = state.x.copy()
        k = state.k
    network.restore(rounds, messages, sent, in_flight)
    for name, function in (("gradient", problem.gradient), ("objective", problem.value)):
        agent = parts.runaway(function(before), np.finfo(np.float64).max)
        if agent is not None:
            local = agent - problem.agents.start
            own = before[local : local + 1] if local >= 0 else before[:0]  # none on other ranks
            sizes = [np.abs(one).max(initial=0.0) for one in (own, parts.start)]
            largest, usual = collective.largest(np.array(sizes))
            words = (
                f"the {name} of agent {agent} is not finite at its point of iteration {k}, whose "
                f"largest entry is {largest:.3g}: correct that function"
            )
            if name == "gradient" and largest <= _FAR * usual:
                return words
            return f"{words}, or try a smaller step size"
    return None


def _off_set(parts: Parts) -> str | None:
    """The advice for a start from which steps of any usual size leave the set for good; None for
    other starts."""
    constraint = parts.problem.constraint
    if not can_project(parts.problem):
        return None
    off = float(constraint.feasibility(parts.start[None])[0])
    if off <= _OFF:
        return None
    return (
        f"x0 is not on {constraint!r}, with feasibility {off:.3g}: give "
        "problem.constraint.project(x0[None])[0], or leave x0 out"
    )


def can_project(problem: object) -> bool:
    """True if the agents' points can be projected to the constraint set."""
    return projects(problem) and not splits_features(problem)


def is_number(setting: object) -> bool:
    """True for a setting that is a number, not the name of a rule."""
    return isinstance(setting, float | int)


def smaller(parts: Parts, state: Observed) -> str:
    """The advice for a step size that is too large, for the objectives or for the penalty, or for a
    majoriser that is none."""
    declared = Declared.of(parts.algorithm)
    problem = parts.problem
    if is_number(declared.varsigma):
        larger = 10.0 * declared.varsigma
        return f"the varsigma {declared.varsigma:g} is too small: try {larger:g}, or 'auto'"
    step = declared.first_step
    penalty = declared.penalty
    if not is_number(step):
        return _below(parts, step, state, ", or momentum 0" * bool(declared.momentum))
    steepest = 0.0
    if isinstance(problem, Smooth):
        steepest = parts.collective.max(float(problem.lipschitz.max()))
    curved = math.inf
    if 0.0 < steepest < math.inf:
        curved = 1.0 / steepest
    if is_number(penalty) and step * penalty > 0.5 and step <= 2.0 * curved:
        return (
            f"the step size {step:g} is too large for the penalty {penalty:g}: try a penalty of "
            f"{0.1 / step:.2g}, a step size of {0.1 / penalty:.2g}, or step size 'auto'"
        )
    return f"the step size {step:g} is too large: try {min(step / 5.0, curved):.2g}, or 'auto'"


def _below(parts: Parts, step: object, state: Observed, beside: str) -> str:
    """The advice for a step size that was chosen automatically."""
    most = math.inf
    than = ""
    if hasattr(state, "step_size"):
        most = parts.collective.max(float(state.step_size.max()))
    if 0.0 < most < math.inf:
        than = f" than {step}, as {most / 5.0:.2g}"
    return f"try a smaller step size{than}{beside}"
