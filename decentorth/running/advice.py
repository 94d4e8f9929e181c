"""Advice at the end of a run: divergence, growth, points that stand still, tolerances that were
missed."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..numerics.devices import is_on_device, on_host
from ..protocols import Array, Declared, Landing, Observed, Row, Smooth, Stop
from ..stopping import Rule
from .checkpoint import Snapshot
from .history import History
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
_GROWTH = 100.0
"""The growth of the objective that is reported, as a multiple of its start."""
_RISE = 1.01
"""The same for a method whose majoriser has a constant: a large enough one lets no objective
rise."""
_STATIONARY = 1e-10
"""The change of the objective over a move as long as x0, relative to its value, up to which x0 is
stationary."""
_SOLVED = 1e-6
"""The share of the first gradient norm up to which a run that stands still has solved its
problem."""
_ROWS = 3
"""The fewest equal rows at the end by which points are said to stand still."""
_SETTLED = 1e-3
"""The share of the first gradient norm below which square points are near a critical one; also a
clear change of the objective."""


def concluded(
    parts: Parts, rule: Rule | None, stop: Stop, state: Observed, row: Row, history: History
) -> Stop:
    """The end, with the tolerances that were missed, and what else keeps its points from being an
    answer."""
    if stop.status in ("diverged", "left_safe_region", "unbounded"):
        return stop
    first = history.rows[0]
    if (end := _gone(parts, state, row, first)) is not None:
        return end
    unmet = ""
    if rule is not None and not stop.converged:
        unmet = ", ".join(rule.since(first).missed(row))
    ended = ": ".join(filter(None, [stop.message, unmet]))
    grown, component = _objective(parts, state, row, first), _component(parts, state, row, first)
    found = [ended, _still(parts, state, history), grown, component]
    return stop._replace(message="; ".join(filter(None, found)))


def warn_of_objective(
    parts: Parts, state: Observed, values: Mapping[str, float], before: Row | None
) -> None:
    """Warn where the objective is no longer finite: it may be undefined there, or its function be
    wrong."""
    objective = values.get("objective", 0.0)
    earlier = 0.0 if before is None else before.values["objective"]
    if math.isfinite(objective) or not math.isfinite(earlier):
        return
    whose = _whose(parts, state)
    if parts.collective.root:
        found = f"at iteration {state.k} (the mean is {objective})"
        log.warning("the objective%s is not finite %s; the run continues", whose, found)


def _whose(parts: Parts, state: Observed) -> str:
    """The words for the first agent whose objective is not finite; empty if only their sum is
    not."""
    agent = parts.runaway(parts.problem.value(state.x), np.finfo(np.float64).max)
    return "" if agent is None else f" of agent {agent}"


def _still(parts: Parts, state: Observed, history: History) -> str | None:
    """The reason why points have not moved from the start, or not since an iteration long before
    the end."""
    rows = history.rows
    first, last = rows[0], rows[-1]
    begun, ended = (row.values.get("objective", 0.0) for row in (first, last))
    least = _STATIONARY * abs(begun)
    if _gain(parts, first) <= least and not ended < begun - least:
        return "x0 is stationary: a solution, or a saddle point, which another x0 would avoid"
    moving = [row.iteration for row in rows if not _same(row, last)]
    away = parts.collective.max(float(np.abs(on_host(state.x) - parts.start).max()))
    if last.iteration > first.iteration and not moving and away == 0.0:
        return "the points have not moved from x0: try another x0 or a smaller step size"
    norm = last.values.get("gradient_norm")
    if norm is None or norm <= _SOLVED * first.values["gradient_norm"]:
        return None
    if not moving or len(rows) - len(moving) < _ROWS or 2 * moving[-1] >= last.iteration:
        return None
    return (
        "neither objective nor gradient norm has changed since iteration "
        f"{rows[len(moving)].iteration}: try another step size or start"
    )


def _gain(parts: Parts, row: Row) -> float:
    """The change of the objective, to first order, over a move as long as the start; infinity where
    the gradient is not known."""
    long = parts.collective.max(float(np.linalg.norm(parts.start)))
    if "objective" not in row.values:
        return math.inf
    return row.values.get("gradient_norm", math.inf) * (long or 1.0)


def _same(row: Row, last: Row) -> bool:
    """True if two rows have the same objective and gradient norm, but for rounding."""
    names = {"objective", "gradient_norm"} & {*last.values}
    return all(
        math.isclose(row.values[name], last.values[name], rel_tol=_STATIONARY) for name in names
    )


def _objective(parts: Parts, state: Observed, row: Row, first: Row) -> str | None:
    """The words about an objective that is not finite, or a hundred times as large as at the start.

    An objective near zero at the start has grown if it is also above what a move as long as x0 can
    change to first order.
    """
    if "objective" not in row.values:
        return None
    begun, ended = first.values["objective"], row.values["objective"]
    if not math.isfinite(ended):
        whose = _whose(parts, state)
        return (
            f"the objective{whose} is not finite at the end (the mean is {ended}): correct the "
            "function that gives it"
        )
    gain = _gain(parts, first)
    if gain == math.inf:
        gain = 0.0
    declared = Declared.of(parts.algorithm)
    if begun > 0.0 and ended > _RISE * begun and _number(declared.varsigma):
        return f"the objective has risen from {begun:.3g} to {ended:.3g}; {_smaller(parts, state)}"
    if not ended - begun > max((_GROWTH - 1.0) * abs(begun), gain):
        return None
    advice = "try another start or method"
    if declared.step_size is not None:
        advice = _smaller(parts, state)
    return (
        f"the objective has grown from {begun:.3g} to {ended:.3g}, more than a hundredfold; "
        f"{advice}"
    )


def _component(parts: Parts, state: Observed, row: Row, first: Row) -> str | None:
    """The words about solved square points whose determinant has the wrong sign, which no small
    step changes.

    At a critical x a reflection x (I - 2 v v^T) changes a linear objective by -2 v^T sym(x^T G) v,
    G its gradient: least for the last eigenvector. Where it is lower, there is a better point on
    the other side.
    """
    problem: Any = parts.problem
    constraint: Any = problem.constraint
    square = len(problem.shape) == 2 and problem.shape[0] == problem.shape[1]
    if not square or not _can_project(problem) or is_on_device(state.x) or parts.by_messages:
        return None
    if not {"objective", "gradient_norm"} <= {*row.values}:
        return None
    if not row.values["gradient_norm"] <= _SETTLED * first.values["gradient_norm"]:
        return None
    total, slope = parts.collective.sum(state.x, problem.gradient(state.x))
    point = constraint.project(total[None] / problem.n_agents)[0]
    v = np.linalg.eigh(point.T @ slope + slope.T @ point)[1][:, -1:]
    mirrored = point - 2.0 * (point @ v) @ v.T
    far = problem.constraint.feasibility(mirrored[None])[0]
    if not far <= _SETTLED or _sign(point) * _sign(mirrored) >= 0.0:
        return None
    there = problem.value(np.repeat(mirrored[None], len(state.x), axis=0))
    (values,) = parts.collective.sum(there[:, None])
    own, other, sign = row.values["objective"], float(values[0]) / problem.n_agents, _sign(point)
    if sign != _sign(parts.start) or not other < own - _SETTLED * abs(own):
        return None
    return (
        f"the points have determinant {sign:+.0f}, as x0, and one with {-sign:+.0f} has the "
        f"objective {other:.6g} in place of {own:.6g}: start again from x0 with one column negated"
    )


def _sign(point: Array) -> float:
    """The sign of the determinant."""
    return float(np.linalg.slogdet(point)[0])


def _gone(parts: Parts, state: Observed, row: Row, first: Row) -> Stop | None:
    """The end of a run whose points have left the constraint set for good."""
    before, far = first.values.get("feasibility", 0.0), row.values.get("feasibility", 0.0)
    if not far > _GONE >= before:
        return None
    method, constraint = Declared.of(parts.algorithm), parts.problem.constraint
    if method.requires or method.requires_set:
        advice = _off_set(parts) or _smaller(parts, state)
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
    advice = cause or _off_set(parts) or _smaller(parts, state)
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
    problem, network, collective = parts.problem, parts.network, parts.collective
    now = (network.rounds, network.messages, network.bytes)
    in_flight = {name: array.copy() for name, array in network.in_flight().items()}
    network.final_ledger = network.ledger()
    network.restore(*good.counts, good.in_flight)
    before, k = good.state.x, good.state.k
    for state in parts.states(good.copied().state):
        if state.k >= last or parts.runaway(state.x) is not None:
            break
        before, k = state.x.copy(), state.k
    network.restore(*now, in_flight)
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
    if not _can_project(parts.problem):
        return None
    off = float(constraint.feasibility(parts.start[None])[0])
    if off <= _OFF:
        return None
    return (
        f"x0 is not on {constraint!r}, with feasibility {off:.3g}: give "
        "problem.constraint.project(x0[None])[0], or leave x0 out"
    )


def _can_project(problem: object) -> bool:
    """True if the agents' points can be projected to the constraint set."""
    return projects(problem) and not splits_features(problem)


def _number(setting: object) -> bool:
    """True for a setting that is a number, not the name of a rule."""
    return isinstance(setting, float | int)


def _smaller(parts: Parts, state: Observed) -> str:
    """The advice for a step size that is too large, for the objectives or for the penalty, or for a
    majoriser that is none."""
    declared, problem = Declared.of(parts.algorithm), parts.problem
    if _number(declared.varsigma):
        larger = 10.0 * declared.varsigma
        return f"the varsigma {declared.varsigma:g} is too small: try {larger:g}, or 'auto'"
    step, penalty = declared.first_step, declared.penalty
    if not _number(step):
        return _below(parts, step, state, ", or momentum 0" * bool(declared.momentum))
    steepest = 0.0
    if isinstance(problem, Smooth):
        steepest = parts.collective.max(float(problem.lipschitz.max()))
    curved = math.inf
    if 0.0 < steepest < math.inf:
        curved = 1.0 / steepest
    if _number(penalty) and step * penalty > 0.5 and step <= 2.0 * curved:
        return (
            f"the step size {step:g} is too large for the penalty {penalty:g}: try a penalty of "
            f"{0.1 / step:.2g}, a step size of {0.1 / penalty:.2g}, or step size 'auto'"
        )
    return f"the step size {step:g} is too large: try {min(step / 5.0, curved):.2g}, or 'auto'"


def _below(parts: Parts, step: object, state: Observed, beside: str) -> str:
    """The advice for a step size that was chosen automatically."""
    most, than = math.inf, ""
    if "step_size" in state._fields:
        most = parts.collective.max(float(state.step_size.max()))
    if 0.0 < most < math.inf:
        than = f" than {step}, as {most / 5.0:.2g}"
    return f"try a smaller step size{than}{beside}"
