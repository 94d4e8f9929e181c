"""Canonical correlation analysis of several views, of data in one place or held by agents that
exchange only points and products.

With C the covariance of all columns, centred and divided by their standard deviations, and D its
blocks of the views alone, a method of the package finds the leading eigenvectors of C v = w D v
(`problems.MAXVAR`): Kettenring's MAXVAR, of which the canonical correlations of two views are the
case w = 1 + correlation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.utils import check_scalar

from .. import problems
from ..families.generalized.problems.maxvar import view_ends
from ..numerics.threads import one_thread
from ..problems.common import pooled_rows
from ..problems.common.division import placed
from ..protocols import Array, Collective
from .components import pencil_images
from .estimator import Directions, check_components, signs
from .streams import StreamEstimator, Streams


@dataclass(eq=False, repr=False)
class MultiviewCCA(StreamEstimator):
    """Canonical correlation analysis of several views of the same samples: the variables on which
    all views agree best.

    The columns of X are those of all views side by side, as ``np.hstack((first, second, third))``
    makes them.

    Parameters
    ----------
    n_components
        The number of common variables; by default as many as the smallest view has columns.
    views
        The number of columns of each view, in the order of the columns; by default each column is a
        view, and the answer is the principal components of the correlation matrix.
    scale
        False for columns that are centred only, which matters with a ridge alone.
    ridge
        Added to the covariance of each view, as a share of its mean eigenvalue; needed where
        columns of a view nearly depend on others. Columns that depend on others exactly, such as
        the indicators of all categories, need none.
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

    Attributes
    ----------
    components_
        ``(n_components, d)``: the coefficients of all columns; ``np.split(components_.T,
        np.cumsum(views)[:-1])`` has those of each view. The variances of the views' shares in a
        component add up to 1 (with the ridge). The largest entry is positive.
    eigenvalues_
        ``(n_components,)``: the variance of the sum of the views' shares, largest first: the number
        of views where all views have the variable, 1 where they have nothing in common.
    mean_, scale_
        ``(d,)``: the means of the columns, and their standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import MultiviewCCA
    >>> X = np.random.default_rng(0).standard_normal((90, 7))
    >>> X[:, 3] = X[:, 5] = X[:, 0]
    >>> cca = MultiviewCCA(n_components=1, views=(3, 2, 2), random_state=0).fit(X)
    >>> cca.transform(X).shape
    (90, 1)
    """

    _centers = True

    n_components: int | None = None
    _: KW_ONLY
    views: Sequence[int] | None = None
    scale: bool = True
    ridge: float = 0.0

    def _fit(
        self, agents: list[Array], W: Any, last: Directions = None, streams: Streams = None
    ) -> Self:
        check_scalar(self.ridge, "ridge", Real, min_val=0.0)
        n = len(agents)
        d = self.n_features_in_
        views = [1] * d if self.views is None else [*self.views]
        view_ends(views, d)
        rank = min(views)
        if self.n_components is not None:
            rank = check_components(self.n_components, d, "the number of columns")
        names = self._names

        def build(own: slice, collective: Collective) -> problems.MAXVAR:
            given = self._rows(agents[own], collective, streams, last is not None)
            if streams is not None:
                share = np.sqrt(pooled_rows.rows(given, collective) / sum(self._counts))
                given = [share * rows for rows in given]
            place = placed(n, own, collective)
            problem = problems.MAXVAR(given, views, rank, ridge=self.ridge, names=names, **place)
            if problem.bases:
                with one_thread():  # the bits of products depend on the number of BLAS threads
                    count = pooled_rows.rows(given, collective)
                    self._covariance = pooled_rows.gram(given, collective) / count
            return problem

        point, result = self._solve(n, build, W, last=last)
        with one_thread():
            whole, blocks = pencil_images(point, result)
            root = pooled_rows.root_inverse(point.T @ blocks, rank)
            values, turn = np.linalg.eigh(root.T @ point.T @ whole @ root)
            turn = root @ turn[:, ::-1]
            self.eigenvalues_ = values[::-1].copy()
            scales = self._scales
            if result.problem.bases:
                point = np.concatenate([*result.problem.unpack(point).values()])
                whole = self._covariance @ point
            across = (point @ turn).T / scales
            self._across = signs(across)[:, None] * (whole @ turn).T * scales / values[::-1, None]
            self._set_components(across)
        self.mean_ = self._pooled(np.zeros(d))
        self._streams = None
        return self

    def _point(self, last: Array, problem: Any) -> Array:
        weights = last.T * self._scales[:, None]
        if not problem.bases:
            return weights
        return np.linalg.pinv(scipy.linalg.block_diag(*problem.bases)) @ weights

    @property
    def _scales(self) -> Array:
        """``(d,)``: the deviations by which columns are divided."""
        units: Any = self._units
        return np.asarray(units.scale)

    def _centred(self, X: Array) -> Array:
        return super()._centred(X) * self._scales

    def _moved(self, centred: Array) -> Array:
        return super()._moved(centred / self._scales)

    @property
    def _lengths(self) -> Array:
        return np.sqrt(self.eigenvalues_)

    @property
    def _axes(self) -> Array:
        return self._across
