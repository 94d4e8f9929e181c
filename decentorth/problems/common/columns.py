"""Columns of the gradient of an objective that is a sum over the columns of the point, each from that column alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ...protocols import Array, Index


class SeparateColumns(ABC):
    """`decentorth.protocols.ColumnOracle` for a problem whose ``gradient`` takes points with any number of columns."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """The gradient, of the shape of ``x``."""

    def cache(self, x: Array) -> Array:
        """``(n_local, 0)``: an empty cache."""
        return np.empty((len(x), 0))

    def refresh(self, cache: Array, x: Array, columns: Index) -> None:  # noqa: B027  # not every column oracle has a cache
        """The cache is empty: nothing to refresh."""

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """``(n_local, d, c)``: the columns ``(c,)`` of the gradient."""
        return self.gradient(x.take(columns, -1))
