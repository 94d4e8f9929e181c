"""Convex terms with a proximal map: the l1 norm, the norms of rows, and negative parts, each times
a weight mu.

prox_{t h}(y) is the w with the least ||w - y||^2 / 2 + t h(w). All of them act on each row of a
point ``(d, r)`` alone, so that the derivative of a proximal map is one matrix of order r for each
row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...numerics.ordered_sums import sums
from ...protocols import Array


@dataclass(frozen=True)
class L1:
    """h(x) = mu sum |x_ij|: entries become zero."""

    mu: float

    def value(self, x: Array) -> Array:
        """h of each agent, ``(n_local,)``."""
        return self.mu * sums(np.abs(x))

    def subgradient(self, x: Array) -> Array:
        """A subgradient, like ``x``, fresh."""
        return self.mu * np.sign(x)

    def proximal(self, y: Array, step: float) -> Array:
        """The proximal point of one point, fresh."""
        return np.sign(y) * np.maximum(np.abs(y) - step * self.mu, 0.0)

    def slopes(self, y: Array, step: float) -> Array:
        """The derivatives of the rows of `proximal`, ``(d, r, r)``."""
        return _diagonal(np.abs(y) > step * self.mu)


@dataclass(frozen=True)
class RowNorms(L1):
    """h(x) = mu sum_i ||x_i||_2 over the rows: whole rows, variables of the data, become zero."""

    def value(self, x: Array) -> Array:
        return self.mu * np.sqrt((x * x).sum(-1)).sum(-1)

    def subgradient(self, x: Array) -> Array:
        return self.mu * x / _lengths(x)

    def proximal(self, y: Array, step: float) -> Array:
        return y * np.maximum(1.0 - step * self.mu / _lengths(y), 0.0)

    def slopes(self, y: Array, step: float) -> Array:
        lengths = _lengths(y)
        share = step * self.mu / lengths[:, :, None]
        along = y / lengths
        identity = np.eye(y.shape[1])
        turned = (1.0 - share) * identity + share * along[:, :, None] * along[:, None, :]
        turned[share[:, 0, 0] >= 1.0] = 0.0
        return turned


@dataclass(frozen=True)
class NegativeParts(L1):
    """h(x) = mu sum max(-x_ij, 0): an exact penalty of negative entries, once mu exceeds the
    multipliers of x >= 0."""

    def value(self, x: Array) -> Array:
        return self.mu * sums(np.maximum(-x, 0.0))

    def subgradient(self, x: Array) -> Array:
        return np.where(x < 0.0, -self.mu, 0.0)

    def proximal(self, y: Array, step: float) -> Array:
        return np.maximum(y, np.minimum(y + step * self.mu, 0.0))

    def slopes(self, y: Array, step: float) -> Array:
        return _diagonal((y > 0.0) | (y < -step * self.mu))


def _lengths(x: Array) -> Array:
    """The norms of the rows, ``(..., 1)``; 1 for zero rows."""
    lengths: Array = np.sqrt((x * x).sum(-1, keepdims=True))
    lengths[lengths == 0.0] = 1.0
    return lengths


def _diagonal(kept: NDArray[np.bool_]) -> Array:
    return kept[:, :, None] * np.eye(kept.shape[1])


REGULARIZERS: dict[str, type[L1]] = {"l1": L1, "rows": RowNorms, "negative": NegativeParts}
