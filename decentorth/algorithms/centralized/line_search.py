"""Line searches along retraction curves, for conjugate gradients and L-BFGS.

With phi(a) = f(R_x(a d)) a step a > 0 is accepted if it satisfies the strong Wolfe conditions

    phi(a) <= phi(0) + DELTA a phi'(0),    |phi'(a)| <= sigma |phi'(0)|,

where phi'(a) is taken as <grad f(y), P_y(d)>, y = R_x(a d): d is transported by the projection P_y
to the tangent space at y, which differs from the derivative of a polar curve by terms of the order
of a^2. Where two values differ by rounding errors, the second condition decides alone, as in the
approximate Wolfe conditions of Hager & Zhang, "A new conjugate gradient method with guaranteed
descent and an efficient line search", SIAM Journal on Optimization 2005. The next trial is the zero
of the secant of phi': between the trials so far it keeps a tenth of the interval from both ends;
where phi still falls, it is 2 to 10 times the step.

For a quadratic f (`protocols.Quadratic`) f(y) - f(x) = <y - x, G(x) + G(y)> / 2 exactly, so that
values cost nothing and do not cancel. Where its products H v are known
(`protocols.HessianProducts`) and the set is a Stiefel manifold, a search takes one product, H d,
however many trials it has: a trial is y = (x + a d) S with S of order p, so G(y) = (H x + a H d)
S - K. In every iteration whose number is a multiple of `REFRESHED` gradients are recomputed against
rounding errors. On a product of sets conjugate gradients take H d for the first trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from ...protocols import Array, Problem, Quadratic, Retraction, Stop
from ...protocols.sets import Divided, Projection, Retractable, RetractableManifold, Riemannian
from ..common import Carries, RetractionName, SingleAgentMethod, can
from .rgd import REFRESHED, whitened
from .search_points import Point, Vector, carried, carried_point, curvature_known, field, moved

DELTA = 1e-4
"""The share of the decrease of the tangent line that a step must reach."""
ROUNDING = 1e-13
"""The size of a rounding error in values, relative to |f| + |<x, G>|."""
MOST = 20
"""The most trial points of a search."""

P = Problem[RetractableManifold]


class Searched(Protocol):
    """A state with the iteration's point in its own variables and the point x of the problem's
    set."""

    @property
    def point(self) -> Point: ...
    @property
    def trial(self) -> Array: ...
    @property
    def k(self) -> int: ...
    def _replace(self, **changes: Any) -> Self: ...


W = TypeVar("W", bound=Searched)


class Found(NamedTuple):
    """The result of a line search.

    It holds the point found, the step (zero if none was found), the slope at the point, and the
    number of gradients computed. A product with H counts as one gradient.
    """

    point: Point
    step: float
    slope: float
    gradients: int


@dataclass(frozen=True, kw_only=True)
class Searching(SingleAgentMethod):
    """A single agent's method with a line search."""

    @property
    def requires_set(self) -> tuple[type, ...]:
        """The capabilities that a set must have: tangents by orthogonal projection, and
        retractions."""
        return (Riemannian, Retractable, Projection)

    retraction: RetractionName = "polar"

    def ending(self, problem: P, state: W) -> Stop | None:
        """The end where no step is left, not even along the negative gradient."""
        if state.trial[0] > 0.0:
            return None
        return Stop(
            "no_step",
            False,
            "no step along the negative gradient lowers the objective: the gradient is as small as "
            "rounding errors let it be, it does not fit the objective, or it lacks a "
            "minimiser nearby (as matrix completion without ridge: take ridge 0.01)",
        )

    def completed(self, problem: P, state: W) -> W:
        """The state with the point x of the problem's own set from the variables of the
        iteration."""
        changed = whitened(problem)
        if state.k == 0:
            return state
        return state._replace(x=state.point.x if changed is None else changed.back(state.point.x))


def last(point: Point, d: Vector, step: float) -> bool:
    """True if no step was found along d, the negative gradient (by Cauchy and Schwarz)."""
    if step > 0.0:
        return False
    z = field(point)
    squared = z.inner(z)
    return z.inner(d) == -squared and d.inner(d) == squared


def taylor(problem: P, point: Point, d: Vector) -> float:
    """Return the minimiser of the second-degree Taylor polynomial of phi, or NaN.

    The second derivative is phi''(0) = <d, H d> - <d, d sym(x^T G)>. The result is NaN if the
    polynomial has none, or f is not a quadratic with known products. It is also NaN if products
    are carried along, because trial steps are then cheap.
    """
    constraint = problem.constraint
    if d.image.size or can(constraint, Carries) or not curvature_known(problem):
        return np.nan
    curvature = float(np.vdot(d.tangent, problem.hessian_product(point.x, d.tangent)))
    arrays = [_factors(constraint, array) for array in (point.x, point.gradient, d.tangent)]
    for x, g, v in zip(*arrays, strict=True):
        curvature -= float(np.vdot(v.swapaxes(-1, -2) @ v, x.swapaxes(-1, -2) @ g))
    return -field(point).inner(d) / curvature if curvature > 0.0 else np.nan


def _factors(constraint: object, array: Array) -> list[Array]:
    """The parts of an array in the factors of a product of sets."""
    return constraint.split(array) if can(constraint, Divided) else [array]


def search(
    problem: P, point: Point, d: Vector, step: float, sigma: float, retraction: Retraction, k: int
) -> Found:
    """Find a step along the descent direction d that satisfies the conditions.

    The first trial is ``step``. If all `MOST` trials fail, which happens when the gradient is as
    small as rounding errors, the step is zero.
    """
    quadratic = can(problem, Quadratic)
    along = None
    spent = 0
    if k % REFRESHED and carried(problem):
        along = problem.hessian_product(point.x, d.tangent)
        spent = 1
    start = field(point).inner(d)
    value = float(point.value[0])
    noise = ROUNDING * (abs(value) + abs(float(np.vdot(point.x, point.gradient))))
    low = 0.0
    low_slope = start
    high = np.inf
    high_slope = np.nan
    for _ in range(MOST):
        there = carried_point(problem, point, d.tangent, along, step, retraction)
        if there is None:
            there = moved(problem, point, d.times(step), retraction, k)
            spent = spent + 1
        if quadratic:
            s = there.x - point.x
            twice = np.vdot(s, point.gradient) + np.vdot(s, there.gradient)
            there = there._replace(value=point.value + 0.5 * twice)
        else:
            there = there._replace(value=problem.value(there.x))
        slope = field(there).inner(d)
        falls = float(there.value[0]) - value <= max(DELTA * step * start, noise)
        if falls and abs(slope) <= -sigma * start:
            return Found(there, step, slope, spent)
        ahead = np.nan
        if falls and slope < 0.0:
            ahead = _secant(low, low_slope, step, slope)
            low = step
            low_slope = slope
        else:
            high = step
            high_slope = slope
        if np.isinf(high):
            step = min(max(ahead, 2.0 * step), 10.0 * step) if np.isfinite(ahead) else 10.0 * step
        else:
            inside = _secant(low, low_slope, high, high_slope)
            width = high - low
            bisected = low + width * (0.5 if np.isfinite(high_slope) else 0.1)
            step = bisected
            if np.isfinite(inside):
                step = min(max(inside, low + 0.1 * width), high - 0.1 * width)
    return Found(point, 0.0, start, spent)


def _secant(a: float, slope: float, b: float, other: float) -> float:
    """The zero beyond a of the line through two slopes, NaN if it does not rise."""
    if other > slope and slope < 0.0 and np.isfinite(other):
        return a - slope * (b - a) / (other - slope)
    return np.nan
