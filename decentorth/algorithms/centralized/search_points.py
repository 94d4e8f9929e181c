"""Points and tangent vectors of line searches (`line_search`), in the variables of the iteration.

On {x : x^T B x = I} with known B the metric is tr(u^T B v) as in `rgd`, and every tangent goes with
its product with B; for a problem with `protocols.Whitening` the iteration takes place in the
variables y = U x, B = U^T U, on a Stiefel manifold, which is the same iteration with fewer
products; x = U^{-1} y is computed only when it is recorded (`protocols.Completing`).
"""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import numpy as np

from ...numerics.ordered_sums import add_multiple
from ...protocols import Array, HessianProducts, Known, Problem, Quadratic, Retraction
from ...protocols.sets import ByProducts, RetractableManifold
from ..common import Carries, can
from .rgd import REFRESHED, whitened
from .samples import nothing_seen

FIRST = 0.1
"""The length of the first step of all, relative to the root of the number of columns."""


P = Problem[RetractableManifold]


class Point(NamedTuple):
    """A point of the iteration and the quantities computed there.

    The arrays x, product (B x), form (H x), gradient (G), field (grad f) and image (B grad f)
    are ``(1, n, p)``. If product, form and image are not used, they are ``(1, 0, 0)``.
    ``value``, ``(1,)``, is f up to a constant.
    """

    x: Array
    product: Array
    form: Array
    gradient: Array
    field: Array
    image: Array
    value: Array


class Vector(NamedTuple):
    """A tangent vector and its product with B, which is ``(1, 0, 0)`` if it is not used."""

    tangent: Array
    image: Array

    def times(self, scale: float) -> Vector:
        """Return ``scale`` times the tangent vector, in new arrays."""
        return Vector(scale * self.tangent, scale * self.image)

    def add(self, scale: float, other: Vector) -> None:
        """Add ``scale`` times another tangent, in place and in one pass."""
        for mine, more in zip(self, other, strict=True):
            if mine.size:
                add_multiple(scale, more, mine)

    def inner(self, other: Vector) -> float:
        """The inner product in the metric."""
        return float(np.vdot(self.tangent, other.image if other.image.size else other.tangent))


def field(point: Point) -> Vector:
    """The Riemannian gradient at a point."""
    return Vector(point.field, point.image)


def viewed(problem: P) -> P:
    """Return the problem in the variables of the iteration.

    These are its own variables, or variables in which its set is a Stiefel manifold.
    """
    changed = whitened(problem)
    return problem if changed is None else changed


def natural(constraint: object) -> TypeGuard[ByProducts]:
    """True if the metric is tr(u^T B v), on sets with known B."""
    return can(constraint, ByProducts) and constraint.solvable


def carried(problem: P) -> TypeGuard[HessianProducts]:
    """True if products with H are updated from iteration to iteration.

    This requires a quadratic objective with known products on a Stiefel manifold.
    """
    return can(problem.constraint, Carries) and curvature_known(problem)


def curvature_known(problem: object) -> TypeGuard[HessianProducts]:
    """True for a quadratic objective with known products."""
    return can(problem, Quadratic) and can(problem, HessianProducts)


def at(problem: P, x: Array, product: Known = None) -> Point:
    """Return the `Point` at x without its value; ``product`` is B x, if known."""
    constraint = problem.constraint
    g = problem.gradient(x)
    nothing = nothing_seen(len(x))
    if not natural(constraint):
        form = problem.hessian_product(x, x) if carried(problem) else nothing
        return Point(x, nothing, form, g, constraint.tangent(x, g), nothing, np.zeros(1))
    product = constraint.product(x) if product is None else product
    return Point(x, product, nothing, g, *constraint.natural_gradient(x, g, product), np.zeros(1))


def begun(problem: P, x0: Array) -> tuple[Point, Array]:
    """The first point and the first trial step ``(1,)`` along the negative gradient."""
    changed = whitened(problem)
    problem = viewed(problem)
    x = x0.copy() if changed is None else changed.changed(x0)
    point = at(problem, x)
    size = np.sqrt(field(point).inner(field(point)))
    first = np.ones(1)
    if size > 0.0:
        first[0] = FIRST * np.sqrt(x.shape[-1]) / size
    return point._replace(value=problem.value(x)), first


def moved(problem: P, point: Point, v: Vector, retraction: Retraction, k: int) -> Point:
    """Return the `Point` at R_x(v) without its value.

    B x is recomputed in every iteration whose number is a multiple of `REFRESHED`.
    """
    constraint = problem.constraint
    if not natural(constraint):
        return at(problem, constraint.retract(point.x, v.tangent, retraction))
    y = point.x + v.tangent
    by = point.product + v.image
    x, product = constraint.retract_with(y, by, retraction)
    return at(problem, x, None if k % REFRESHED == 0 else product)


def carried_point(
    problem: P, point: Point, d: Array, along: Known, step: float, retraction: Retraction
) -> Point | None:
    """The point R_x(step d), without its value, from ``along``, H d; None without it, or where the
    step is too long."""
    constraint = problem.constraint
    if along is None or not can(constraint, Carries):
        return None
    found = constraint.retract_both(point.x + step * d, point.form + step * along, retraction)
    if found is None:
        return None
    x, form = found
    g = form - (point.form - point.gradient)
    nothing = point.product
    return Point(x, nothing, form, g, problem.constraint.tangent(x, g), nothing, np.zeros(1))


def transported(problem: P, point: Point, v: Vector) -> Vector:
    """The projection of v to the tangent space at a point."""
    constraint = problem.constraint
    if v.image.size and natural(constraint):
        return Vector(*constraint.natural_projection(point.x, *v, point.product))
    return Vector(problem.constraint.tangent(point.x, v.tangent), v.image)


def projected(problem: P, point: Point, v: Array) -> Vector:
    """The projection of v to the tangent space at a point, with a fresh product with B.

    A product that is combined like v from those of other vectors keeps all their rounding errors,
    and loses the digits that cancel in v.
    """
    constraint = problem.constraint
    if not natural(constraint):
        return Vector(constraint.tangent(point.x, v), point.image)
    return Vector(*constraint.natural_projection(point.x, v, constraint.product(v), point.product))
