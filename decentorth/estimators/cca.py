"""Canonical correlation analysis of data in one place, in a stream of batches, or held by agents
that exchange only points.

With C11, C12 and C22 the covariances of the columns of both views, centred and divided by their
standard deviations, a method of the package minimises -tr(x^T C12 y) over x^T C11 x = I, y^T C22
y = I (`problems.CCA`). The singular value decomposition of x^T C12 y, of order p, turns the two
spans into pairs of directions with their correlations.

Batches need no method. The estimator keeps the number, the mean and the covariance of the samples
seen, from which the closed form (`problems.canonical_correlations`) has the directions after every
batch: those of a fit to all samples seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import problems
from ..families.features.split import Among
from ..numerics.threads import one_thread
from ..problems.common import pooled_rows
from ..problems.common.checks import matrices, same_columns, same_names
from ..problems.common.division import placed
from ..problems.common.pooled_rows import HERE, Units
from ..protocols import Array, Collective
from .estimator import AgentEstimator, Directions, Entries, by_features, check_components, signs
from .pairs import Pairs, Products, SplitPairs, products_of, products_of_features, row_space
from .streams import RootCovariance, RunningCovariance

FORMED = 2000
"""The number of columns of a view up to which a fit keeps the covariance, for batches that continue
it."""
ILL = 1e6
"""The condition from which a ridge is advised."""


@dataclass(eq=False, repr=False)
class CCA(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn ships no types
    TransformerMixin,  # type: ignore[misc]
    MultiOutputMixin,  # type: ignore[misc]
    RegressorMixin,  # type: ignore[misc]
    AgentEstimator,
):
    """Canonical correlation analysis, with the interface of ``sklearn.cross_decomposition.CCA``.

    Parameters
    ----------
    n_components
        The number of pairs of canonical directions.
    scale
        True if x_weights_ and y_weights_ are for columns divided by their standard deviations.
    ridge
        Added to the covariances, as a share of their mean eigenvalue; needed where columns nearly
        depend on each other. Columns that depend on others exactly, such as the indicators of all
        categories, need none: correlations and scores are those of the column spaces of the views.
    algorithm
        Name or instance of a method. By default that which fits the data and the network.
    step_size
        Step size or schedule of the method. By default found from the data.
    tol
        Tolerance of the gradient norm, and for agents of their disagreement.
    max_iter
        Largest number of iterations.
    random_state
        Seed of the random start.

    Notes
    -----
    `fit` with a ridge to fewer samples than columns works in the row spaces of the views, which
    hold the answer. Otherwise the covariances of views of more than 2000 columns are not formed. Such
    views need a method that only multiplies with them, such as ``RGD(metric="euclidean",
    step_size="bb")``. `partial_fit` needs no method.

    Attributes
    ----------
    correlations_
        ``(n_components,)``: the canonical correlations, with the ridge, largest first.
    x_weights_, y_weights_
        ``(n_features, n_components)`` and ``(n_targets, n_components)``: the canonical directions,
        whose scores have variance 1 (with the ridge) and no correlations but those of each pair;
        the largest entry of each column of x_weights_ is positive.
    x_rotations_, y_rotations_
        The same, by scikit-learn's other name.
    x_loadings_, y_loadings_
        ``(n_features, n_components)`` and ``(n_targets, n_components)``: the regressions of the
        views on their scores.
    coef_, intercept_
        ``(n_targets, n_features)`` and ``(n_targets,)``: the regression of y on the scores of X, so
        that y is about X coef_^T + intercept_. (scikit-learn's takes the scores of X for those of y
        instead.)
    x_mean_, x_scale_, y_mean_, y_scale_
        ``(n_features,)`` and ``(n_targets,)``: the means and the standard deviations of the
        columns; ones without ``scale``.
    n_samples_seen_
        The number of samples of all batches.
    n_iter_
        List of ``(n_components,)``, as in scikit-learn: the iterations that find all pairs
        together.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import CCA
    >>> X = np.random.default_rng(0).standard_normal((90, 3))
    >>> Y = X @ [[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]]
    >>> scores, others = CCA(n_components=1, ridge=1e-6).fit_transform(X, Y)
    >>> bool(np.corrcoef(scores[:, 0], others[:, 0])[0, 1] > 0.99)
    True
    """

    n_components: int = 2
    _: KW_ONLY
    scale: bool = True
    ridge: float = 0.0

    def fit(self, X: object, y: object) -> Self:
        """Find the directions of the samples X, ``(m, n_features)``, and y, ``(m, n_targets)`` or
        ``(m,)``."""
        first, second = self._views(X, y, reset=True)
        self._counts = [len(first)]
        return self._fit([first], [second], None)

    def fit_agents(
        self,
        agents: Iterable[Any],
        W: Any,
        split: Literal["samples", "features"] = "samples",
        *,
        warm_start: bool = False,
    ) -> Self:
        """Find the directions of all agents' samples together, as `PCA.fit_agents` finds
        components.

        ``agents`` holds one pair (X_i, y_i) per agent, ``(m_i, n_features)`` and
        ``(m_i, n_targets)``. With ``split="features"`` it holds each agent's features of both
        views of the same samples, ``(m, a_i)`` and ``(m, b_i)``. One of the two may be without
        columns.

        Under ``mpirun`` None may stand for the pairs of other ranks. If each rank has one agent,
        its own pair alone is enough. Returns the fitted estimator.
        """
        entries = self._entries(agents, pairs=True, W=W, split=split, warm_start=warm_start)
        first = entries.part(0)
        second = entries.part(1)
        if by_features(split, warm_start):
            return self._fit_features(entries, W)
        firsts = self._agents("X", first)
        own = entries.own
        seconds: list[Any] = [None] * len(firsts)
        given = same_names("y", second.given[own], own.start, entries.collective)
        with entries.together():
            targets = [np.asarray(one) for one in given]
            self._predict_1d = all(one.ndim == 1 for one in targets)
            columns = [one[:, None] if one.ndim == 1 else one for one in targets]
            seconds[own] = matrices("y", columns, own.start, missing=self._wanted.fill)
            width = same_columns("y", seconds[own], own.start)
        entries.collective.same("the columns of y", repr((width, self._predict_1d)).encode())
        return self._fit(firsts, seconds, W, self._last(warm_start, "x_weights_"))

    def _views(self, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:
        """The two views as matrices, checked."""
        complete = y
        if self._wanted.fill:
            complete = np.nan_to_num(np.asarray(y, dtype=np.float64))
        validate = {"multi_output": True, "y_numeric": True, "ensure_min_samples": 2}
        first, _ = validate_data(self, X, complete, reset=reset, **validate, **self._accepted)
        return self._sized("X", first), self._sized("y", self._second(y, reset))

    def _second(self, y: object, reset: bool = False) -> Array:
        """The second view as a matrix, checked; ``reset`` keeps whether it had one dimension."""
        found = check_array(y, input_name="y", ensure_2d=False, **self._accepted)
        if reset:
            self._predict_1d = found.ndim == 1
        return found[:, None] if found.ndim == 1 else found

    def _rank(self, samples: int, n1: int, n2: int) -> int:
        fewest = "the fewest of samples, features and targets"
        return check_components(self.n_components, min(samples, n1, n2), fewest)

    def _scaled(self, name: str, found: Units, count: int) -> Units:
        """The units of a view's columns; a constant column is refused without a ridge, and not
        scaled."""
        constant = np.flatnonzero(found.constant)
        if self.ridge == 0.0 and len(constant):
            shown = ", ".join(map(str, constant[:5])) + ", ..." * (len(constant) > 5)
            raise ValueError(
                f"{name} has constant columns ({shown}): give ridge=1e-2, or drop them"
            )
        if not self.scale:
            return found._replace(scale=np.ones(len(found.mean)))
        scale = found.scale * np.sqrt(count / max(count - 1, 1))
        return found._replace(scale=np.where(scale > 0.0, scale, 1.0))

    def _fit(
        self, firsts: list[Array], seconds: list[Array], W: object, last: Directions = None
    ) -> Self:
        n = len(firsts)
        count = sum(self._counts)
        (n2,) = {second.shape[1] for second in seconds if second is not None}
        rank = self._rank(count, self.n_features_in_, n2)
        # the problem refuses a ridge that is no number
        ridge: Any = self.ridge
        wide = isinstance(ridge, Real) and count < max(self.n_features_in_, n2)
        spans: list[Array] = []  # of wide views in one place with a ridge, which hold the answer

        def build(own: slice, collective: Collective) -> Pairs:
            given = ("X", firsts[own]), ("y", seconds[own])
            x, y = (
                self._scaled(name, pooled_rows.units(a, collective), count) for name, a in given
            )
            views = [[x.standard(a) for a in firsts[own]], [y.standard(b) for b in seconds[own]]]
            self._columns: tuple[Units, ...] = x, y
            labels = vars(self).get("feature_names_in_", range(views[0][0].shape[1]))
            named = {"X": labels, "y": range(n2)}
            place = placed(n, own, collective)
            spans.clear()
            if W is None and wide and self.ridge > 0.0:
                with one_thread():
                    spans.extend(_row_spaces(views, rank))
                    if spans:
                        views = [[a @ one] for (a,), one in zip(views, spans, strict=True)]
            problem = Pairs(
                *views,
                rank=rank,
                columns=(self.n_features_in_, n2),
                ridge=self.ridge,
                names=named,
                **place,
            )
            if problem.bases:
                with one_thread():  # the bits of products depend on the number of BLAS threads
                    both = [np.concatenate(rows, axis=1) for rows in zip(*views, strict=True)]
                    self._whole = pooled_rows.gram(both, collective) / count
            return problem

        point, result = self._solve(n, build, W, last=last)
        self.n_samples_seen_ = count
        self._ridges = result.problem.ridges
        with one_thread():
            if result.problem.bases:
                covariance: Array | None = self._whole
                point = np.concatenate([*result.problem.unpack(point).values()])
                products = self._products_of(point)
            else:
                covariance = result.problem.covariance()
                products = products_of(point, result)
            self._seen: RootCovariance | RunningCovariance | None = None
            if covariance is not None:
                self._seen = self._covariance_seen(covariance, spans)
            if spans:
                first, second = spans
                point = _from_bases(spans, point)
                products = Products(
                    first @ products.first, second @ products.second, second @ products.cross
                )
        self._keep(point, products)
        self.n_iter_ = [self.n_iter_] * rank
        return self

    def _covariance_seen(
        self, covariance: Array, spans: Sequence[Array]
    ) -> RootCovariance | RunningCovariance | None:
        """The covariance of both views in their own units, for later batches; None for wide views
        whose covariance is not formed."""
        count = self.n_samples_seen_
        x, y = self._columns
        mean = np.concatenate((x.mean, y.mean))
        scales = np.concatenate((x.scale, y.scale))
        if not spans:
            return RunningCovariance(count, mean, covariance * np.outer(scales, scales))
        if max(map(len, spans)) > FORMED:
            return None
        values, vectors = np.linalg.eigh(covariance)
        root = _from_bases(spans, vectors * np.sqrt(np.maximum(values, 0.0)))
        return RootCovariance(count, mean, scales[:, None] * root)

    def _point(self, last: Array, problem: Any) -> Array:
        weights = [last, self.y_weights_]
        if problem.bases:
            pairs = zip(problem.bases, weights, strict=True)
            weights = [np.linalg.pinv(basis) @ own for basis, own in pairs]
        return np.concatenate(weights)

    def _products_of(self, point: Array) -> Products:
        """The products of a point from the covariance of both views."""
        n1 = self.n_features_in_
        x = point[:n1]
        y = point[n1:]
        c11 = self._whole[:n1, :n1]
        c12 = self._whole[:n1, n1:]
        c22 = self._whole[n1:, n1:]
        return Products(c11 @ x, c22 @ y, c12.T @ x)

    def _advice(self, problem: Any) -> str:
        condition = problem.condition()
        if self.ridge > 0.0 or condition < ILL:
            return ""
        return (
            f"some columns nearly depend on others (condition {condition:.1e}): give ridge=1e-2, "
            "or drop them, or "
        )

    def _fit_features(self, entries: Entries, W: Any) -> Self:
        """Fit to each agent's features of both views."""
        own = entries.own
        with entries.together():
            pairs = _paired(entries)
            joined: list[object] = [None] * own.start
            joined += [np.concatenate(pair, axis=1) for pair in pairs]
        both = self._features("views", entries._replace(given=joined))
        m = len(both[0])
        cuts = [x.shape[1] for x, _ in pairs]
        halves = [np.split(part, [cut], axis=1) for part, cut in zip(both, cuts, strict=True)]
        views = list(zip(*halves, strict=True))
        among = Among(own.start, entries.joined([(x.shape[1], y.shape[1]) for x, y in pairs]))
        n1, n2 = map(sum, zip(*among.features, strict=True))
        rank = self._rank(m, n1, n2)
        formed = len(both) == len(among.features) and max(n1, n2) <= FORMED
        found: list[Array] = []
        parts: list[list[Array]] = []
        columns = list[Units]()
        ridges = list[float]()
        for label, view, width in zip(("X", "y"), views, (n1, n2), strict=True):
            each = [pooled_rows.units([part], HERE) for part in view]
            every = Units.side_by_side(entries.joined([one.listed() for one in each]))
            columns.append(self._scaled(label, every, m))
            scaled = [self._scaled(label, one, m) for one in each]
            parts.append([one.standard(a) for one, a in zip(scaled, view, strict=True)])
            squares = entries.joined([float((part * part).sum()) for part in parts[-1]])
            ridges.append(self.ridge * sum(squares) / (m * width))
            found += [one.completed(a) for one, a in zip(each, view, strict=True) if formed]
        self._columns = tuple(columns)
        self._ridges = tuple(ridges)
        with one_thread():
            with entries.together():
                split = SplitPairs(parts[0], parts[1], rank, self._ridges, among=among)
            whole, result = self._solve_features(split, W)
            second = np.concatenate([np.arange(a + b) >= a for a, b in among.features])
            products = products_of_features(result, second)
            point = np.concatenate((whole[~second], whole[second]))
        self.n_features_in_: int = n1
        self.n_samples_seen_ = m
        self._predict_1d = False
        self._seen = None
        if formed:
            self._seen = RunningCovariance.empty(n1 + n2).joined(np.concatenate(found, axis=1))
        self._keep(point, products)
        self.n_iter_ = [self.n_iter_] * rank
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Update the fit with a batch of samples of both views, also after `fit`: the answer is
        that for all samples seen.

        The covariance of both views together is kept, O((n_features + n_targets)^2) numbers, and no
        samples. Without a ridge the samples seen must be more than the columns of each view.
        """
        begun = "x_weights_" in vars(self)
        views = self._views(X, y, reset=not begun)
        rows = np.concatenate(views, axis=1)
        seen = self._seen if begun else RunningCovariance.empty(rows.shape[1])
        if seen is None:
            raise ValueError(
                f"a fit to views of more than {FORMED} columns cannot be continued by batches: "
                "fit to all samples"
            )
        n1 = views[0].shape[1]
        n2 = views[1].shape[1]
        filled = [int(np.isnan(view).sum()) for view in views]
        if begun:
            filled = [new + sum(own.filled) for new, own in zip(filled, self._columns, strict=True)]
        if self._wanted.fill:
            (rows,) = pooled_rows.filled([rows], seen.samples, seen.mean, HERE)
        seen = seen.joined(rows)
        rank = self._rank(seen.samples, n1, n2)
        if self.ridge == 0.0 and seen.samples <= max(n1, n2):
            raise ValueError(
                f"{seen.samples} samples of views with {n1} and {n2} columns determine no "
                "correlations: give more at first, or ridge=1e-2"
            )
        means, sigmas = (
            np.split(a, [n1]) for a in (seen.mean, np.sqrt(np.diagonal(seen.covariance)))
        )
        both = zip(means, sigmas, filled, strict=True)
        x, y = (Units(mean, np.zeros(len(mean)), own, (count,)) for mean, own, count in both)
        self._columns = self._scaled("X", x, seen.samples), self._scaled("y", y, seen.samples)
        scales = np.concatenate([columns.scale for columns in self._columns])
        self._whole = seen.covariance / np.outer(scales, scales)
        with one_thread():
            point = self._answer(n1, rank)
            self._keep(point, self._products_of(point))
        self._seen = seen
        self.n_samples_seen_ = seen.samples
        self.n_iter_ = [self.n_iter_[0] + 1 if begun else 1] * rank
        return self

    def _answer(self, n1: int, rank: int) -> Array:
        """The directions of both views, from their covariance, the first n1 columns being those of
        the first view; sets the ridges."""
        c11 = self._whole[:n1, :n1]
        c12 = self._whole[:n1, n1:]
        c22 = self._whole[n1:, n1:]
        r1, r2 = [self.ridge * float(np.trace(own)) / len(own) for own in (c11, c22)]
        self._ridges = (r1, r2)
        first = c11 + r1 * np.eye(len(c11))
        last = c22 + r2 * np.eye(len(c22))
        found = problems.canonical_correlations(first, c12, last)
        check_components(rank, len(found.correlations), "the rank of the smaller view")
        return np.concatenate((found.x[:, :rank], found.y[:, :rank]))

    def _keep(self, point: Array, products: Products) -> None:
        """Set the pairs of directions and the other attributes from a point and its products."""
        (x, y), (rx, ry) = np.split(point, [len(products.first)]), self._ridges
        own = [view.T @ image for view, image in ((x, products.first), (y, products.second))]
        left = pooled_rows.root_inverse(own[0] + rx * x.T @ x, len(own[0]))
        right = pooled_rows.root_inverse(own[1] + ry * y.T @ y, len(own[1]))
        u, correlations, vt = np.linalg.svd(left.T @ (products.cross.T @ y) @ right)
        flip = signs((x @ left @ u).T)
        left = left @ u * flip
        right = right @ vt.T * flip
        self.x_weights_ = x @ left
        self.y_weights_ = y @ right
        self.correlations_ = correlations
        self.x_rotations_, self.y_rotations_ = self.x_weights_, self.y_weights_
        first = products.first @ left
        second = products.second @ right
        cross = products.cross @ left
        gram_x = left.T @ own[0] @ left
        gram_y = right.T @ own[1] @ right
        inverse_x = np.linalg.inv(gram_x)
        inverse_y = np.linalg.inv(gram_y)
        self.x_loadings_ = first @ inverse_x
        self.y_loadings_ = second @ inverse_y
        self._regression = cross @ inverse_x
        self.n_components_ = len(correlations)
        one, two = self._columns
        self.x_mean_ = one.mean
        self.x_scale_ = one.scale
        self.y_mean_ = two.mean
        self.y_scale_ = two.scale
        self.filled_ = tuple(a + b for a, b in zip(one.filled, two.filled, strict=True))

    @property
    def coef_(self) -> Array:
        """``(n_targets, n_features)``: the regression coefficients, computed when used."""
        first, second = self._columns
        return second.scale[:, None] * (self._regression @ self.x_weights_.T) / first.scale

    @property
    def intercept_(self) -> Array:
        """``(n_targets,)``: the intercepts of the regression."""
        first, second = self._columns
        scores = (first.mean / first.scale) @ self.x_weights_
        return second.mean - second.scale * (self._regression @ scores)

    def transform(self, X: Any, y: Any = None) -> Any:
        """The scores of X, ``(m, n_components)``, or of both views where y is given."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._accepted)
        scores = self._columns[0].standard(X) @ self.x_weights_
        if y is None:
            return scores
        second = self._second(y)
        check_consistent_length(X, second)
        return scores, self._columns[1].standard(second) @ self.y_weights_

    def fit_transform(self, X: object, y: object = None) -> tuple[Array, Array]:
        """The scores of both views after a fit to them."""
        return self.fit(X, y).transform(X, y)

    def inverse_transform(self, X: object, y: object = None) -> Any:
        """The regression of X on its scores, ``(m, n_features)``, or of both views on their scores
        where y is given."""
        first, second = self._columns
        samples: Array = first.mean + first.scale * (self._coordinates(X) @ self.x_loadings_.T)
        if y is None:
            return samples
        return samples, second.mean + second.scale * (self._coordinates(y) @ self.y_loadings_.T)

    def predict(self, X: object) -> Array:
        """``(m, n_targets)``, or ``(m,)`` for a y of one dimension: the regression of y on the
        scores of X."""
        scores = self.transform(X)
        second = self._columns[1]
        predicted: Array = second.mean + second.scale * (scores @ self._regression.T)
        return predicted[:, 0] if self._predict_1d else predicted


def _paired(entries: Entries) -> list[tuple[Array, Array]]:
    """The features of both views of each agent here; a ValueError unless they have the same
    samples."""
    own = entries.own
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in entries.given[own]]
    for agent, (x, y) in enumerate(pairs, own.start):
        if len(x) != len(y):
            raise ValueError(
                f"both views must have the same samples, got {len(x)} and {len(y)} rows of agent "
                f"{agent}"
            )
    return pairs


def _row_spaces(views: Sequence[Sequence[Array]], rank: int) -> list[Array]:
    """The bases of the row spaces of both views of one agent; none where they hold fewer than
    ``rank`` directions."""
    found = [row_space(view) for (view,) in views]
    if rank > min(basis.shape[1] for basis in found):
        return []
    return found


def _from_bases(bases: Sequence[Array], x: Array) -> Array:
    """The rows of both views from their coordinates in these bases."""
    first, second = bases
    return np.concatenate((first @ x[: first.shape[1]], second @ x[first.shape[1] :]))
