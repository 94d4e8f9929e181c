"""The estimators of directions: units of the samples, coordinates along the directions, and
batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..api import Result
from ..problems.common import pooled_rows
from ..problems.common.pooled_rows import HERE, Units, in_units
from ..protocols import Array, Collective
from .estimator import FLOATS, AgentEstimator, Directions, signs


class ComponentEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AgentEstimator, ABC):  # type: ignore[misc]  # no types
    """An estimator of directions, ``components_``, along which samples have coordinates.

    The class variable ``_least_features`` is the least number of features.
    """

    _least_features: ClassVar[int] = 1
    _lengths: Any = 1.0
    """The units of the coordinates, one or ``(n_components,)``."""
    _units: Units | None = None
    """The units in which the method has the samples; None for the samples as they are."""
    _origin: Any = 0.0
    """``(d,)``: the point whose coordinates are 0, in these units."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: object, y: object = None) -> Self:
        """Find the components of the samples X, ``(m, d)``; y is ignored."""
        least = {"ensure_min_samples": 2, "ensure_min_features": self._least_features}
        samples = self._sized("X", validate_data(self, X, **least, **self._accepted))
        self._counts = [len(samples)]
        return self._fit([samples], None)

    def fit_agents(self, agents: Iterable[Any], W: Any, *, warm_start: bool = False) -> Self:
        """Find the components of all agents' samples together, by exchanges between neighbours.

        Every sample has the same weight. Under ``mpirun`` every rank calls it, and gets the same
        components.

        Parameters
        ----------
        agents
            X_i, ``(m_i, d)``, of each agent: a list, or a dictionary from the names of sites (then
            ``sites_``). Under ``mpirun`` None may stand for the agents of other ranks; where each
            rank has one agent, its own X_i alone is enough.
        W
            ``(n, n)``: mixing matrix, symmetric and doubly stochastic, a networkx graph, or the
            name of one: as for `solve`.
        warm_start
            Start from the components of the last fit, for samples that have changed little.

        Raises
        ------
        ValueError
            When dimensions differ, an entry is not finite, or W does not fit; names the agent.
        """
        entries = self._entries(agents, W=W, warm_start=warm_start)
        return self._fit(self._agents("X", entries), W, self._last(warm_start))

    @abstractmethod
    def _fit(self, agents: list[Array], W: object, last: Directions = None) -> Self:
        """Fit to the samples of each agent, which must not be written to; W is None for data in one
        place.

        The run starts from the components ``last``, if they are given.
        """

    @property
    def _axes(self) -> object:
        """``(n_components, d)``: the matrix that maps coordinates to centred samples."""
        return self.components_

    def transform(self, X: Any) -> Array:
        """``(m, n_components)``: the samples' coordinates, float32 for float32 samples."""
        check_is_fitted(self)
        accepted = self._accepted | {
            "dtype": FLOATS,
            "accept_sparse": get_tags(self).input_tags.sparse,
        }
        X = validate_data(self, X, reset=False, **accepted)
        sparse = issparse(X)
        across = self.components_.T
        if sparse:
            across = across if self._units is None else across / self._units.scale[:, None]
            coordinates = X @ across - self.mean_ @ across
        else:
            coordinates = self._centred(X) @ across
        return (coordinates / self._lengths).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Array:
        """``(m, d)``: the points with these coordinates, float32 for float32 coordinates."""
        coordinates = self._coordinates(X)
        points = self._moved((coordinates * self._lengths) @ self._axes)
        return points.astype(coordinates.dtype, copy=False)

    def _in_units(
        self, agents: Sequence[Array], collective: Collective, warm: bool = False
    ) -> list[Array]:
        """The samples of the agents here in the units that are wanted, which are kept; ``warm`` for
        units near the last ones."""
        near = None
        if warm and self._units is not None:
            near = self._units.mean
        found, units = in_units(agents, collective, self._wanted, self._names, near)
        self._keep_units(units[0] if units else None)
        return found

    def _keep_units(self, units: Units | None) -> None:
        """Set the units and their attributes."""
        self._units = units
        if units is not None and self.scale:
            self.scale_ = units.scale
        if units is not None and self._wanted.fill:
            self.filled_ = units.filled

    def _batch(self, X: Array, samples: int, mean: Array) -> Array:
        """A batch in the units of the method; ``samples`` before it have this ``mean`` in these
        units."""
        X = self._sized("X", X)
        if samples == 0:
            return self._in_units([X], HERE)[0]
        if self._units is not None:
            X = self._units.seen(X)
        if self._wanted.fill and self._units is not None:
            filled = sum(self._units.filled) + int(np.isnan(X).sum())
            self._keep_units(self._units._replace(filled=(filled,)))
            (X,) = pooled_rows.filled([X], samples, mean, HERE)
        return X

    def _rescaled(self, mean: Array, variances: Array) -> Array:
        """Make units of the mean and the variances of all samples, which are in the present units;
        returns the deviations."""
        found: Array = np.sqrt(variances)
        units = self._units
        if units is not None:
            mean = units.mean + (units.rest + units.scale * mean)
            self._keep_units(units._replace(mean=mean, rest=0.0 * mean, scale=units.scale * found))
        return found

    @property
    def _moves(self) -> bool:
        """True where a method has the samples minus their means."""
        return self._units is not None and (self._centers or self.scale)

    def _pooled(self, point: Array) -> Array:
        """The points, from those in the units of the method."""
        if self._units is None or not self._moves:
            return point
        return self._units.mean + self._units.scale * point

    def _centred(self, X: Any) -> Any:
        """``(m, d)``: samples seen from the origin, in the units of the method."""
        if self._units is not None:
            X = self._units.standard(X) if self._moves else self._units.completed(X)
        return X - self._origin

    def _moved(self, centred: Array) -> Array:
        """``(m, d)``: the samples that `_centred` maps to these."""
        return self._pooled(centred + self._origin)

    def _set_components(self, components: NDArray[np.floating[Any]]) -> None:
        """Set ``components_``, the largest entry of each positive, and their number."""
        self.components_ = np.ascontiguousarray(components * signs(components)[:, None])
        self.n_components_ = len(components)


def pencil_images(point: Array, result: Result) -> tuple[Array, Array]:
    """The products A x and B x of a run's point with the means over all agents of their A_i and
    B_i."""
    problem = result.problem
    points = np.repeat(point[None], problem.n_local, axis=0)
    minus, own = result.collective.sum(problem.gradient(points), problem.local_product(points))
    return -minus / problem.n_agents, own / problem.n_agents
