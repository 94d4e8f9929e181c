"""Canonical correlation analysis of data in one place, in a stream of batches, or held by agents that exchange only points.

With C11, C12 and C22 the covariances of the columns of both views, centred and divided by their standard deviations, a method of
the package minimises -tr(x^T C12 y) over x^T C11 x = I, y^T C22 y = I (`problems.CCA`). The singular value decomposition of
x^T C12 y, of order p, turns the two spans into pairs of directions with their correlations.

Batches are cut into pieces of 300 samples, and a piece into three independent parts. Products with the parts' covariances give an
unbiased landing field (paper 003, Vary, Ablin, Gao, Absil, ICML 2024, (2)-(3)), and covariances are never formed. The stream keeps
the point [x; y], the average of the last points, and averages of C11 x, C22 y and C12^T x there. Coordinates are such that the
leading 2 p + 10 eigenvalues of the first batch's covariances are 1, and no other is larger, since the condition of the covariances
determines the rate of convergence. Steps after t pieces are s (1 + t / 300)^{-1/2}, s = 0.5 / beta^2, with beta the largest
eigenvalue of the covariances of the first parts; the penalty is 0.1 / (beta s). In averages a piece has three times the weight of
its share. In later passes over the same samples these should come in another order, or their parts are not independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, MultiOutputMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import problems
from ..numerics.threads import one_thread
from ..problems.common import pooled
from ..problems.common.checks import matrices, same_columns
from ..problems.common.pooled import HERE
from ..protocols import Array, Collective
from ..sets import GeneralizedStiefel
from .base import AgentEstimator, by_features, check_components, signs

PIECE, DECAY = 300, 300
"""The number of samples in a piece of a batch, and of pieces after which steps are shorter by the root of two."""
STEP, PULL = 0.5, 0.1
"""The first step times the square of the largest eigenvalue, and the product of step, penalty and largest eigenvalue."""
FLAT, RUNAWAY = 1e-6, 1e50
"""The share of the first variance below which a direction is not rescaled, and the size above which a point counts as diverged."""
EQUAL = 1e-14
"""The relative standard deviation up to which a column counts as constant."""
DEPENDENT, ILL = 1e-7, 1e6
"""The share of a column's length that is too little beside earlier columns, and the condition above which a ridge is advised."""
AVERAGED = 3.0
"""The weight of a piece in averages, relative to its share of the samples."""


class Columns(NamedTuple):
    """The means and the divisors of a view's columns."""

    mean: Array
    scale: Array

    def standard(self, view: Array) -> Array:
        """The view centred and scaled."""
        return (view - self.mean) / self.scale


class Coordinates(NamedTuple):
    """A symmetric T with T C T close to the identity: ``scale`` in all directions, ``more`` along some orthonormal ones."""

    scale: float
    directions: Array
    """``(n, k)``: the orthonormal directions."""
    more: Array

    def times(self, x: Array) -> Any:
        """The product T x."""
        return self.scale * (x + self.directions @ (self.more[:, None] * (self.directions.T @ x)))

    def solve(self, x: Array) -> Any:
        """The solution T^{-1} x."""
        less = self.more / (1.0 + self.more)
        return (x - self.directions @ (less[:, None] * (self.directions.T @ x))) / self.scale


class Products(NamedTuple):
    """The products C11 x, C22 y and C12^T x of a point."""

    first: Array
    second: Array
    cross: Array


class Pairs(problems.CCA):
    """The problem without its answer, which the metrics would otherwise compute for columns of the history."""

    error_name = ""

    @property
    def optimal_value(self) -> None:
        """The least value is left unknown."""


class SplitPairs(problems.SplitCCA):
    """The problem of agents that hold features, without its answer."""

    def prepare(self, collective: Collective) -> None:
        """The answer is left unknown."""


class Stream(NamedTuple):
    """The state of a stream of batches; a point is T^{-1} x and T^{-1} y, stacked by rows."""

    coordinates: tuple[Coordinates, Coordinates]
    point: Array
    average: Array
    """The average of the last points."""
    products: Products
    """The averages of the last pieces' products."""
    step: float
    penalty: float


@dataclass(eq=False, repr=False)
class CCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiOutputMixin, RegressorMixin, AgentEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Canonical correlation analysis, with the interface of ``sklearn.cross_decomposition.CCA``.

    Parameters
    ----------
    n_components
        The number of pairs of canonical directions.
    scale
        True if x_weights_ and y_weights_ are for columns divided by their standard deviations.
    ridge
        Added to the covariances, as a share of their mean eigenvalue; needed where columns depend on each other.
    algorithm, step_size, tol, max_iter, random_state
        As in all of `decentorth.estimators`; a number for step_size is the first step of `partial_fit` too. The default is RGD for
        data in one place, GeneralizedDRFGT for agents, none of which needs the covariances. Views of more than 2000 columns, whose
        covariances are not formed, need a method that multiplies with them only, such as ``RGD(metric="euclidean",
        step_size="bb")``.

    Attributes
    ----------
    correlations_
        ``(n_components,)``: the canonical correlations, with the ridge, largest first.
    x_weights_, y_weights_
        ``(n_features, n_components)`` and ``(n_targets, n_components)``: the canonical directions, whose scores have variance 1
        (with the ridge) and no correlations but those of each pair; the largest entry of each column of x_weights_ is positive.
    x_rotations_, y_rotations_
        The same, by scikit-learn's other name.
    x_loadings_, y_loadings_
        ``(n_features, n_components)`` and ``(n_targets, n_components)``: the regressions of the views on their scores.
    coef_, intercept_
        ``(n_targets, n_features)`` and ``(n_targets,)``: the regression of y on the scores of X, so that y is about
        X coef_^T + intercept_. (scikit-learn's takes the scores of X for those of y instead.)
    n_samples_seen_
        The number of samples of all batches.
    n_iter_
        List of ``(n_components,)``, as in scikit-learn: the iterations that find all pairs together.
    """

    _together = "generalized_drfgt"

    n_components: int = 2
    _: KW_ONLY
    scale: bool = True
    ridge: float = 0.0

    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions of the samples X, ``(m, n_features)``, and y, ``(m, n_targets)`` or ``(m,)``."""
        first, second = self._views(X, y, reset=True)
        return self._fit([first], [second], None)

    def fit_agents(self, agents: Sequence[Any], W: Any, split: Literal["samples", "features"] = "samples") -> Self:
        """Find the directions of all agents' samples together, as `PCA.fit_agents` finds components.

        ``agents`` has the pair (X_i, y_i), ``(m_i, n_features)`` and ``(m_i, n_targets)``, of each agent; with ``split="features"``
        each agent's features of both views, ``(m, a_i)`` and ``(m, b_i)``, of the same samples: one of the two may have no column.
        """
        for i, pair in enumerate(agents):
            if len(pair) != 2:
                raise ValueError(f"each agent holds a pair (X_i, y_i) of views, got {len(pair)} arrays of agent {i}")
        if by_features(split):
            return self._fit_features([np.asarray(x) for x, _ in agents], [np.asarray(y) for _, y in agents], W)
        firsts = self._agents("X", [first for first, _ in agents])
        targets = [np.asarray(second) for _, second in agents]
        self._predict_1d = all(second.ndim == 1 for second in targets)
        seconds = matrices("y", [second[:, None] if second.ndim == 1 else second for second in targets])
        same_columns("y", seconds)
        return self._fit(firsts, seconds, W)

    def _views(self, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:
        """The two views as matrices, checked."""
        first, second = validate_data(
            self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        second = check_array(second, input_name="y", dtype=np.float64, ensure_2d=False)
        if reset:
            self._predict_1d = second.ndim == 1
        return first, second[:, None] if second.ndim == 1 else second

    def _rank(self, samples: int, n1: int, n2: int) -> int:
        return check_components(self.n_components, min(samples, n1, n2), "the fewest of samples, features and targets")

    def _standards(self, name: str, view: list[Array], count: int, collective: Collective) -> Columns:
        """The means and divisors of all agents' samples; a constant column is refused without a ridge, and not scaled."""
        mean = pooled.mean(view, collective)
        variance = pooled.mean_squares([a - mean for a in view], collective) * (count / max(count - 1, 1))
        constant = np.flatnonzero(variance <= (EQUAL * np.abs(mean)) ** 2)
        if self.ridge == 0.0 and len(constant):
            columns = "column" if len(constant) == 1 else "columns"
            shown = ", ".join(map(str, constant[:5])) + (", ..." if len(constant) > 5 else "")
            raise ValueError(f"{name} has {len(constant)} constant {columns} ({shown}): give ridge=1e-2, or drop them")
        return self._scaled(mean, variance)

    def _scaled(self, mean: Array, variance: Array) -> Columns:
        return Columns(mean, np.sqrt(np.where(variance > 0.0, variance, 1.0)) if self.scale else np.ones(len(mean)))

    def _fit(self, firsts: list[Array], seconds: list[Array], W: Any) -> Self:
        n, count = len(firsts), sum([len(first) for first in firsts])
        rank = self._rank(count, firsts[0].shape[1], seconds[0].shape[1])

        def build(own: slice, collective: Collective) -> tuple[Pairs, tuple[Columns, Columns]]:
            x, y = (self._standards(name, view[own], count, collective) for name, view in (("X", firsts), ("y", seconds)))
            views = [x.standard(a) for a in firsts[own]], [y.standard(b) for b in seconds[own]]
            return Pairs(*views, rank, ridge=self.ridge, n_agents=n, first_agent=own.start, collective=collective), (x, y)

        try:
            point, result, self._columns = self._solve(n, build, W)
        except ValueError:
            self._check_independent(firsts, seconds)
            raise
        problem, n1 = result.problem, firsts[0].shape[1]
        with one_thread():
            points = np.repeat(point[None], problem.n_local, axis=0)
            sums = result.collective.sum(problem.local_product(points), problem.gradient(points))
        own, gradient = (total / n for total in sums)
        for rows, ridge in zip(problem.constraint.rows, problem.ridges, strict=True):
            own[rows] -= ridge * point[rows]
        self.n_samples_seen_, self._ridges = count, problem.ridges
        self._keep(point, Products(own[:n1], own[n1:], -gradient[n1:]))
        self.__dict__.pop("_stream", None)
        self.n_iter_ = [self.n_iter_] * rank
        return self

    def _check_independent(self, firsts: list[Array], seconds: list[Array]) -> None:
        """Raise the ValueError about a view of which a column depends on those before it, without a ridge."""
        for name, view in (("X", firsts), ("y", seconds)):
            mean = pooled.mean(view, HERE)
            R = pooled.triangle([a - mean for a in view], HERE.fold)
            lengths = np.sqrt((R * R).sum(-2))
            dependent = np.flatnonzero(np.abs(np.diagonal(R)) <= DEPENDENT * lengths)
            if self.ridge == 0.0 and len(dependent) and lengths.min() > DEPENDENT * lengths.max():
                columns = "column depends" if len(dependent) == 1 else "columns depend"
                labels = getattr(self, "feature_names_in_", range(len(lengths))) if name == "X" else range(len(lengths))
                shown = ", ".join(str(labels[i]) for i in dependent[:5]) + (", ..." if len(dependent) > 5 else "")
                raise ValueError(
                    f"{len(dependent)} {columns} on others of {name} ({shown}): give ridge=1e-2, or drop them"
                ) from None

    def _advice(self, problem: Any) -> str:
        stacks = [getattr(getattr(part, "operator", None), "stack", None) for part in getattr(problem.constraint, "parts", ())]
        conditions = [float(np.linalg.cond(stack[0])) for stack in stacks if stack is not None]
        if self.ridge > 0.0 or not conditions or max(conditions) < ILL:
            return ""
        return f"some columns nearly depend on others (condition {max(conditions):.1e}): give ridge=1e-2, or drop them, or "

    def _fit_features(self, firsts: list[Array], seconds: list[Array], W: Any) -> Self:
        """Fit to each agent's features of both views."""
        problems.SplitCCA(firsts, seconds, 1)
        both = np.concatenate(firsts, axis=1), np.concatenate(seconds, axis=1)
        m = len(both[0])
        rank = self._rank(m, both[0].shape[1], both[1].shape[1])
        self._columns = tuple(self._standards(name, [view], m, HERE) for name, view in zip(("X", "y"), both, strict=True))
        rows = [columns.standard(view) for columns, view in zip(self._columns, both, strict=True)]
        self._ridges = tuple(self.ridge * float((view * view).mean()) for view in rows)
        parts = [
            np.split(view, np.cumsum([part.shape[1] for part in own])[:-1], axis=1)
            for view, own in zip(rows, (firsts, seconds), strict=True)
        ]
        with one_thread():
            whole, _ = self._solve_features(SplitPairs(parts[0], parts[1], rank, self._ridges), W)
            second = np.concatenate([np.arange(x.shape[1] + y.shape[1]) >= x.shape[1] for x, y in zip(*parts, strict=True)])
            point = np.concatenate((whole[~second], whole[second]))
            x, y = point[: both[0].shape[1]], point[both[0].shape[1] :]
            image = rows[0] @ x
            products = Products(rows[0].T @ image / m, rows[1].T @ (rows[1] @ y) / m, rows[1].T @ image / m)
        self.n_features_in_, self.n_samples_seen_, self._predict_1d = both[0].shape[1], m, False
        self._keep(point, products)
        self.__dict__.pop("_stream", None)
        self.n_iter_ = [self.n_iter_] * rank
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Update the fit with a batch of at least three samples of both views, also after `fit`.

        Neither samples nor covariances are kept, only O((n_features + n_targets) n_components) numbers. The columns are scaled by
        their standard deviations in the first batch, which must have at least three samples for each component. Too long steps
        raise ArithmeticError.
        """
        begun = hasattr(self, "x_weights_")
        first, second = self._views(X, y, reset=not begun)
        if not begun:
            self._begin(first, second)
        elif not hasattr(self, "_stream"):
            self._start(first, second, np.concatenate((self.x_weights_, self.y_weights_)), self._products)
        for rows in np.array_split(np.arange(len(first)), max(1, len(first) // PIECE)):
            self._take_in(first[rows], second[rows])
        if not np.abs(self._stream.point).max() <= RUNAWAY:
            raise ArithmeticError(f"the steps are too long, {self._stream.step:.3g} at first: give a smaller step_size")
        self._keep(self._original(self._stream.average), self._stream.products)
        self.n_iter_ = [self.n_iter_[0] + 1 if begun else 1] * self.n_components_
        return self

    def _begin(self, first: Array, second: Array) -> None:
        """Set the scales by the first batch, and start at a random point that is feasible for it."""
        rank, random = self._rank(len(first) // 3, first.shape[1], second.shape[1]), check_random_state(self.random_state)
        self._columns, self._ridges, self.n_samples_seen_, points = (), (), 0, []
        for view in (first, second):
            own = self._scaled(view.mean(axis=0), view.var(axis=0, ddof=1))
            rows, x = own.standard(view), random.standard_normal((view.shape[1], rank))
            ridge = self.ridge * float((rows * rows).mean())
            points.append(x @ pooled.root_inverse(x.T @ _times(rows, x, ridge), rank))
            self._columns, self._ridges = (*self._columns, own), (*self._ridges, ridge)
        products = Products(*(np.zeros((n, rank)) for n in (first.shape[1], second.shape[1], second.shape[1])))
        self._start(first, second, np.concatenate(points), products)

    def _start(self, first: Array, second: Array, point: Array, products: Products) -> None:
        """Choose coordinates and steps for the stream from some samples."""
        most, coordinates, points, largest = 2 * point.shape[1] + 10, [], [], 0.0
        for columns, view, ridge, x in zip(
            self._columns, (first, second), self._ridges, np.split(point, [first.shape[1]]), strict=True
        ):
            rows = columns.standard(view[: PIECE + PIECE // 10 * most])
            own = _coordinates(rows, most, ridge)
            part = own.times(rows[: max(1, min(len(rows), PIECE) // 3)].T)
            largest = max(largest, float(np.linalg.norm(part, 2)) ** 2 / part.shape[1])
            coordinates.append(own)
            points.append(own.solve(x))
        step = self.step_size if isinstance(self.step_size, float | int) else STEP / largest**2
        start = np.concatenate(points)
        self._stream = Stream((coordinates[0], coordinates[1]), start, start, products, float(step), PULL / (largest * step))

    def _original(self, point: Array) -> Array:
        """The point [x; y], from its coordinates in the stream."""
        (first, second), (x, y) = self._stream.coordinates, np.split(point, [len(self._stream.products.first)])
        return np.concatenate((first.times(x), second.times(y)))

    def _take_in(self, *views: Array) -> None:
        """Make one step with a piece of a batch."""
        coordinates, point, average, products, step, penalty = self._stream
        before, now, cut = self.n_samples_seen_, len(views[0]), [len(products.first)]
        share = now / (before + now)
        self._columns = tuple(
            columns._replace(mean=columns.mean + share * (view.mean(axis=0) - columns.mean))
            for columns, view in zip(self._columns, views, strict=True)
        )
        rows = [columns.standard(view) for columns, view in zip(self._columns, views, strict=True)]
        (a, *others_a), (b, *others_b) = (np.array_split(view, 3) for view in rows)
        fields = []
        with np.errstate(over="ignore", invalid="ignore"):
            x, y = np.split(self._original(point), cut)
            gradients = -a.T @ (b @ y) / len(a), -b.T @ (a @ x) / len(b)
            each = zip(coordinates, np.split(point, cut), (x, y), gradients, (others_a, others_b), self._ridges, strict=True)
            for own, inner, outer, g, others, ridge in each:
                g, bx, bx2 = (own.times(image)[None] for image in (g, *(_times(part, outer, ridge) for part in others)))
                fields.append(GeneralizedStiefel.landing_from_products(inner[None], g, bx, bx2, np.array([penalty]))[0])
            point = point - step * (1.0 + before / (DECAY * PIECE)) ** -0.5 * np.concatenate(fields)
        weight = min(1.0, AVERAGED * share)
        average = average + weight * (point - average)
        x, y = np.split(self._original(average), cut)
        new = _times(rows[0], x), _times(rows[1], y), rows[1].T @ (rows[0] @ x) / now
        products = Products(*(old + weight * (one - old) for old, one in zip(products, new, strict=True)))
        self.n_samples_seen_ = before + now
        self._stream = Stream(coordinates, point, average, products, step, penalty)

    def _keep(self, point: Array, products: Products) -> None:
        """Set the pairs of directions and the other attributes from a point and its products."""
        (x, y), (rx, ry) = np.split(point, [len(products.first)]), self._ridges
        own = [view.T @ image for view, image in ((x, products.first), (y, products.second))]
        left, right = (
            pooled.root_inverse(gram + ridge * view.T @ view, len(gram))
            for gram, ridge, view in zip(own, (rx, ry), (x, y), strict=True)
        )
        u, correlations, vt = np.linalg.svd(left.T @ (products.cross.T @ y) @ right)
        flip = signs((x @ left @ u).T)
        left, right = left @ u * flip, right @ vt.T * flip
        self.x_weights_, self.y_weights_, self.correlations_ = x @ left, y @ right, correlations
        self.x_rotations_, self.y_rotations_ = self.x_weights_, self.y_weights_
        self._products = first, second, cross = Products(products.first @ left, products.second @ right, products.cross @ left)
        inverses = [np.linalg.inv(turn.T @ gram @ turn) for turn, gram in zip((left, right), own, strict=True)]
        self.x_loadings_, self.y_loadings_, self._regression = first @ inverses[0], second @ inverses[1], cross @ inverses[0]
        self.n_components_ = len(correlations)

    @property
    def coef_(self) -> Any:
        """``(n_targets, n_features)``: the regression coefficients, computed when used."""
        first, second = self._columns
        return second.scale[:, None] * (self._regression @ self.x_weights_.T) / first.scale

    @property
    def intercept_(self) -> Any:
        """``(n_targets,)``: the intercepts of the regression."""
        first, second = self._columns
        return second.mean - second.scale * (self._regression @ ((first.mean / first.scale) @ self.x_weights_))

    def transform(self, X: Any, y: Any = None) -> Any:
        """The scores of X, ``(m, n_components)``, or of both views where y is given."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = self._columns[0].standard(X) @ self.x_weights_
        if y is None:
            return scores
        y = check_array(y, input_name="y", dtype=np.float64, ensure_2d=False)
        check_consistent_length(X, y)
        return scores, self._columns[1].standard(y[:, None] if y.ndim == 1 else y) @ self.y_weights_

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """The scores of both views after a fit to them."""
        return self.fit(X, y).transform(X, y)

    def inverse_transform(self, X: Any, y: Any = None) -> Any:
        """The regression of X on its scores, ``(m, n_features)``, or of both views on their scores where y is given."""
        first, second = self._columns
        samples: Array = first.mean + first.scale * (self._coordinates(X) @ self.x_loadings_.T)
        if y is None:
            return samples
        return samples, second.mean + second.scale * (self._coordinates(y) @ self.y_loadings_.T)

    def predict(self, X: Any) -> Array:
        """``(m, n_targets)``, or ``(m,)`` for a y of one dimension: the regression of y on the scores of X."""
        scores, second = self.transform(X), self._columns[1]
        predicted: Array = second.mean + second.scale * (scores @ self._regression.T)
        return predicted[:, 0] if self._predict_1d else predicted


def _times(rows: Array, x: Array, ridge: float = 0.0) -> Any:
    """The product of x with the covariance of some samples plus a ridge."""
    return rows.T @ (rows @ x) / len(rows) + ridge * x


def _coordinates(rows: Array, most: int, ridge: float) -> Coordinates:
    """The coordinates from at most ``most`` leading eigenvectors of the covariance of some samples."""
    _, singular, directions = np.linalg.svd(rows, full_matrices=False)
    values = singular[:most] ** 2 / len(rows) + ridge
    values = np.maximum(values, FLAT * values[0])
    scale = float(values[-1]) ** -0.5
    return Coordinates(scale, np.ascontiguousarray(directions[:most].T), values**-0.5 / scale - 1.0)
