"""Advice at the end of a run: agents apart, growth, points that stand still, tolerances that were
missed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..numerics.devices import is_on_device, on_host
from ..protocols import Array, Declared, Divided, Observed, Row, Stop
from ..stopping import AGREED, Rule
from .divergence import can_project, gone, is_number, of_agent, smaller
from .history import History
from .parts import Parts

_GROWTH = 100.0
"""The growth of the objective that is reported, as a multiple of its start."""
_RISE = 1.01
"""The same for a method whose majoriser has a constant: a large enough one lets no objective
rise."""
_STATIONARY = 1e-10
"""The change of the objective over a move as long as x0, relative to its value, up to which x0 is
stationary."""
_MOVED = 1e-10
"""The largest change of an entry, relative to the norm of the start, up to which points have not
moved: mixing and projections round in each iteration."""
_SOLVED = 1e-6
"""The share of the first gradient norm up to which a run that stands still has solved its
problem."""
_ROWS = 3
"""The fewest equal rows at the end by which points are said to stand still."""
_UNSETTLED = 1e-2
"""The feasibility above which safe steps leave points off the set, if it holds for half a run."""
_SETTLED = 1e-3
"""The share of the first gradient norm below which square points are near a critical one; also a
clear change of the objective."""


def concluded(
    parts: Parts, rule: Rule | None, stop: Stop, state: Observed, row: Row, history: History
) -> Stop:
    """The end, with the tolerances that were missed, and what else keeps its points from being an
    answer.

    ``rule`` is compared with the first row already.
    """
    if stop.status in ("diverged", "left_safe_region", "unbounded"):
        return stop
    first = history.rows[0]
    if (end := gone(parts, state, row, first)) is not None:
        return end
    unmet = ""
    if rule is not None and not stop.converged:
        unmet = ", ".join(rule.missed(row))
    ended = ": ".join(filter(None, [stop.message, unmet]))
    grown = _objective(parts, state, row, first)
    component = _component(parts, state, row, first)
    notes = _apart(parts, row), _off(parts, state, history), _still(parts, state, history)
    found = [ended, *notes, grown, component]
    return stop._replace(message="; ".join(filter(None, found)))


def _apart(parts: Parts, row: Row) -> str | None:
    """The words about the agents of a method that does not bring them together."""
    apart = row.values.get("consensus_error", 0.0) / (parts.problem.n_agents * parts.size)
    if Declared.of(parts.algorithm).agrees or not apart > AGREED:
        return None
    return (
        f"{type(parts.algorithm).__name__} does not agree exactly: its agents are {apart:.2g} "
        "apart, relative to their points, and come closer with smaller steps only"
    )


def _off(parts: Parts, state: Observed, history: History) -> str | None:
    """The words about safe steps with which points stay in the safety region, but off the set."""
    rows = [one for one in history.rows if 2 * one.iteration >= history.rows[-1].iteration]
    if not Declared.of(parts.algorithm).safe or len(rows) < _ROWS:
        return None
    least = min(one.values.get("feasibility", 0.0) for one in rows)
    if not least > _UNSETTLED:
        return None
    shorter = 0.25 * parts.collective.max(float(state.step_size.max()))
    return (
        f"safe steps keep the points within {Declared.of(parts.algorithm).eps:g} of the set, but "
        f"they have not come nearer than {least:.2g} since iteration {rows[0].iteration}: try "
        f"step size {shorter:.2g}"
    )


def _still(parts: Parts, state: Observed, history: History) -> str | None:
    """The reason why points have not moved from the start, or not since an iteration long before
    the end."""
    rows = history.rows
    first = rows[0]
    last = rows[-1]
    begun, ended = (row.values.get("objective", 0.0) for row in (first, last))
    least = _STATIONARY * abs(begun)
    if _gain(parts, first) <= least and not ended < begun - least:
        return "x0 is stationary: a solution, or a saddle point, which another x0 would avoid"
    moving = [row.iteration for row in rows if not _same(row, last)]
    away = parts.collective.max(float(np.abs(on_host(state.x) - parts.start).max()))
    if last.iteration > first.iteration and not moving and away <= _MOVED * parts.size:
        other = "a smaller step size"
        if _reach(parts, state, first) <= _MOVED * parts.size:
            other = "a larger step size"
            if not is_number(Declared.of(parts.algorithm).first_step):
                other = "data in other units"
        return f"the points have not moved from x0: try another x0 or {other}"
    norm = last.values.get("gradient_norm")
    if norm is None or norm <= _SOLVED * first.values["gradient_norm"]:
        return None
    if not moving or len(rows) - len(moving) < _ROWS or 2 * moving[-1] >= last.iteration:
        return None
    return (
        "neither objective nor gradient norm has changed since iteration "
        f"{rows[len(moving)].iteration}: try another step size or start"
    )


def _reach(parts: Parts, state: Observed, first: Row) -> float:
    """The length of a step along the gradient at the start; infinity where it is not known."""
    if not hasattr(state, "step_size"):
        return math.inf
    return parts.collective.max(float(state.step_size.max())) * first.values.get(
        "gradient_norm", math.inf
    )


def _gain(parts: Parts, row: Row) -> float:
    """The change of the objective, to first order, over a move as long as the start; infinity where
    the gradient is not known."""
    if "objective" not in row.values:
        return math.inf
    return row.values.get("gradient_norm", math.inf) * parts.size


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
    begun = first.values["objective"]
    ended = row.values["objective"]
    if not math.isfinite(ended):
        whose = of_agent(parts, state)
        return (
            f"the objective{whose} is not finite at the end (the mean is {ended}): correct the "
            "function that gives it"
        )
    gain = _gain(parts, first)
    if gain == math.inf:
        gain = 0.0
    declared = Declared.of(parts.algorithm)
    if begun > 0.0 and ended > _RISE * begun and is_number(declared.varsigma):
        return f"the objective has risen from {begun:.3g} to {ended:.3g}; {smaller(parts, state)}"
    if not ended - begun > max((_GROWTH - 1.0) * abs(begun), gain):
        return None
    advice = "try another start or method"
    if declared.step_size is not None:
        advice = smaller(parts, state)
    return (
        f"the objective has grown from {begun:.3g} to {ended:.3g}, more than a hundredfold; "
        f"{advice}"
    )


def _component(parts: Parts, state: Observed, row: Row, first: Row) -> str | None:
    """The words about solved square points whose determinant has the wrong sign, which no small
    step changes; of a product, about the part with the most to gain.

    At a critical x a reflection x (I - 2 v v^T) changes a linear objective by -2 v^T sym(x^T G) v,
    G its gradient: least for the last eigenvector. Where it is lower, there is a better point on
    the other side.
    """
    problem: Any = parts.problem
    constraint: Any = problem.constraint
    if not can_project(problem) or is_on_device(state.x) or parts.by_messages:
        return None
    shapes = [one.shape for one in _matrices(constraint, parts.start)]
    if not any(map(_square, shapes)):
        return None
    if not {"objective", "gradient_norm"} <= {*row.values}:
        return None
    if not row.values["gradient_norm"] <= _SETTLED * first.values["gradient_norm"]:
        return None
    total, slope = parts.collective.sum(state.x, problem.gradient(state.x))
    point = constraint.project(total[None] / problem.n_agents)[0]
    place, v = _reflection(_matrices(constraint, point), _matrices(constraint, slope))
    mirrored = point.copy()
    begun, own, reflected = (
        _matrices(constraint, one)[place] for one in (parts.start, point, mirrored)
    )
    reflected -= 2.0 * (own @ v) @ v.T
    far = constraint.feasibility(mirrored[None])[0]
    if not far <= _SETTLED or _sign(own) * _sign(reflected) >= 0.0 or _sign(own) != _sign(begun):
        return None
    there = problem.value(np.repeat(mirrored[None], len(state.x), axis=0))
    (values,) = parts.collective.sum(there[:, None])
    here = row.values["objective"]
    other = float(values[0]) / problem.n_agents
    sign = _sign(own)
    if not other < here - _SETTLED * abs(here):
        return None
    if len(shapes) == 1:
        which, column = "the points have", "one column"
    else:
        which = f"part {place} of the points has"
        column = f"one column of part {place}"
    return (
        f"{which} determinant {sign:+.0f}, as x0, and one with {-sign:+.0f} has the objective "
        f"{other:.6g} in place of {here:.6g}: start again from x0 with {column} negated"
    )


def _matrices(constraint: object, point: Array) -> list[Array]:
    """The matrices of a point, as views: one for each part of a product."""
    return constraint.split(point) if isinstance(constraint, Divided) else [point]


def _square(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and shape[0] == shape[1]


def _reflection(points: list[Array], slopes: list[Array]) -> tuple[int, Array]:
    """The square matrix whose reflection lowers a linear objective most, and its vector v."""
    best = -math.inf
    place = 0
    v = np.empty((0, 1))
    for number, (point, slope) in enumerate(zip(points, slopes, strict=True)):
        if _square(point.shape):
            gains, vectors = np.linalg.eigh(point.T @ slope + slope.T @ point)
            if gains[-1] > best:
                best = gains[-1]
                place = number
                v = vectors[:, -1:]
    return place, v


def _sign(point: Array) -> float:
    """The sign of the determinant."""
    return float(np.linalg.slogdet(point)[0])
