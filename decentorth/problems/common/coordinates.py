"""Coordinates of new rows along directions that a run has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from topologies.line.words import suggestion

from ...data.frames import Frame
from ...protocols import Array


class Coordinates(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # no types
    """Coordinates of rows along given directions: the estimator of a run (`FinishedRun.estimator`).

    Nothing is left to fit. `fit` only checks the samples, so a pipeline or a clone keeps the
    directions.

    Parameters
    ----------
    components
        ``(r, d)``: the directions.
    mean, scale
        ``(d,)``: subtracted from rows, and then their divisor; by default 0 and 1.
    columns
        The names of the columns, by which those of data frames are chosen, in any order and beside
        others; empty for columns without names.
    fill
        True for the mean in place of missing cells (NaN); false to refuse them.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import Coordinates
    >>> Coordinates(np.array([[0.0, 1.0]]), mean=np.array([1.0, 2.0])).transform([[5.0, 6.0]])
    array([[4.]])
    """

    def __init__(
        self,
        components: Array,
        *,
        mean: Array | None = None,
        scale: Array | None = None,
        columns: Sequence[str] = (),
        fill: bool = False,
    ) -> None:
        self.components = components
        self.mean = mean
        self.scale = scale
        self.columns = columns
        self.fill = fill

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.fill
        tags.requires_fit = False
        return tags

    @property
    def n_features_in_(self) -> int:
        """The number d of columns."""
        return int(np.shape(self.components)[1])

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """``(d,)``: the names of the columns; AttributeError where they have none."""
        if not self.columns:
            raise AttributeError("the columns have no names")
        return np.array(self.columns, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return len(self.components)

    def fit(self, X: object, y: object = None) -> Self:
        """Check the samples X, ``(m, d)``; y is ignored."""
        self._rows(X)
        return self

    def transform(self, X: object) -> Array:
        """``(m, r)``: the coordinates of the samples X, ``(m, d)``."""
        rows = self._rows(X)
        if self.mean is not None:
            rows = np.where(np.isnan(rows), self.mean, rows) - self.mean
        if self.scale is not None:
            rows = rows / self.scale
        coordinates: Array = rows @ np.transpose(self.components)
        return coordinates

    def _named(self, frame: Any) -> Any:
        """The columns of a data frame that have the names of `columns`, in their order."""
        names = list(self.columns)
        if missing := [name for name in names if name not in frame.columns]:
            near = suggestion(missing[0], map(str, frame.columns)) or ":"
            raise ValueError(
                f"the rows lack the column {missing[0]!r}{near} give all columns of the run, "
                f"{', '.join(names)}"
            )
        return frame[names]

    def _rows(self, X: object) -> Array:
        finite = "allow-nan" if self.fill else True
        options = {"dtype": np.float64, "ensure_all_finite": finite}
        if self.columns and isinstance(X, Frame):
            X = self._named(X)
        found: Array = validate_data(self, X, reset=False, **options)
        return found


class PairedCoordinates(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # no types
    """Coordinates of the rows of two views, each along its own directions: the estimator of a run
    of CCA (`FinishedRun.estimator`).

    Parameters
    ----------
    first, second
        The estimators of the two views.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import Coordinates, PairedCoordinates
    >>> both = PairedCoordinates(Coordinates(np.eye(2)), Coordinates(np.array([[2.0]])))
    >>> both.transform([[5.0, 6.0]], [7.0])
    (array([[5., 6.]]), array([[14.]]))
    """

    def __init__(self, first: Coordinates, second: Coordinates) -> None:
        self.first = first
        self.second = second

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.first.fill
        tags.requires_fit = False
        return tags

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the first view."""
        return self.first.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns of the first view; AttributeError where they have none."""
        return self.first.feature_names_in_

    @property
    def _n_features_out(self) -> int:
        return self.first._n_features_out

    def fit(self, X: object, y: object = None) -> Self:
        """Check the rows X, and y of the second view if there are any."""
        self.transform(X, y)
        return self

    def transform(self, X: object, y: object = None) -> Array | tuple[Array, Array]:
        """``(m, r)``: the coordinates of the rows X of the first view, and a pair with those of the
        rows y of the second view if these are given."""
        scores = self.first.transform(X)
        if y is None:
            return scores
        rows: Any = y
        if np.ndim(rows) == 1:
            rows = np.asarray(rows)[:, None]
        return scores, self.second.transform(rows)
