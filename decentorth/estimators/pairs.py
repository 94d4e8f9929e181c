"""The problems of the estimator of canonical correlations, and the products from which it makes its
attributes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import problems
from ..families.generalized.problems.covariances import RANK
from ..protocols import Array, Collective
from ..sets.retractions import plus


class Products(NamedTuple):
    """The products C11 x, C22 y and C12^T x of a point."""

    first: Array
    second: Array
    cross: Array


class Pairs(problems.CCA):
    """The problem without its answer, which the metrics would otherwise compute for columns of the
    history; of views with ``columns`` columns, which are given in bases."""

    def __init__(self, *views: Any, columns: tuple[int, int], **given: Any) -> None:
        self._columns = columns
        super().__init__(*views, **given)

    @property
    def _ridge_columns(self) -> tuple[int, int]:
        return self._columns

    @property
    def optimal_value(self) -> None:  # type: ignore[override]
        """The least value is left unknown."""

    def condition(self) -> float:
        """The larger condition of the two covariances with their ridges; 1 where they are not
        formed."""
        if self._pooled is None:
            return 1.0
        first, _, second = self._pooled
        return float(max(np.linalg.cond(first), np.linalg.cond(second)))

    def covariance(self) -> Array | None:
        """The covariance of both views side by side, without ridges; None where it is too large to
        be formed."""
        if self._pooled is None:
            return None
        c11, c12, c22 = self._pooled
        whole = np.block([[c11, c12], [c12.T, c22]])
        ridges = np.repeat(self.ridges, (len(c11), len(c22)))
        return plus(whole[None], -ridges)[0]


class SplitPairs(problems.SplitCCA):
    """The problem of agents that hold features, without its answer."""

    def find_answer(self, collective: Collective) -> None:
        """The answer is left unknown."""

    def condition(self) -> float:
        """The condition of the covariances, which no agent knows, counts as 1."""
        return 1.0


def row_space(view: Array) -> Array:
    """``(d, r)``: an orthonormal basis of the span of the rows of a view."""
    _, values, rows = np.linalg.svd(view, full_matrices=False)
    return np.ascontiguousarray(rows[values > RANK * values[0]].T)


def products_of(point: Array, result: Any) -> Products:
    """The products of a run's point, from those of all agents."""
    problem = result.problem
    n1 = result.problem.constraint.rows[0].stop
    points = np.repeat(point[None], problem.n_local, axis=0)
    sums = result.collective.sum(problem.local_product(points), problem.gradient(points))
    own, gradient = (total / problem.n_agents for total in sums)
    for rows, ridge in zip(problem.constraint.rows, problem.ridges, strict=True):
        own[rows] -= ridge * point[rows]
    return Products(own[:n1], own[n1:], -gradient[n1:])


def products_of_features(result: Any, second: NDArray[np.bool_]) -> Products:
    """The products of a run's point of agents that hold features; ``second`` marks the rows of the
    second view."""
    problem = result.problem
    collective = result.collective
    (image,) = collective.sum(problem.products(result.x))
    images = np.repeat(image[None], problem.n_local, axis=0)
    rows = [problem.adjoint(one) for one in (images, problem.objective_rows(images))]
    inner, cross = [problem.joined(one, collective) for one in rows]
    return Products(inner[~second], inner[second], cross[second])
