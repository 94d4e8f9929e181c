"""The covariances C11_i, C12_i and C22_i of the two views of an agent's samples, kept as samples or
formed.

`problems.CCA` has the definitions. With few samples their products cost less from the samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from decentorth.problems.common.pooled_rows import root, root_inverse
from decentorth.protocols import Array, Collective
from decentorth.sets.retractions import diagonals_of

from ..sets.operators import LinearOperator

_SHORT = 200
"""The number of samples up to which agents that keep them compute Lipschitz constants from
triangular factors."""


RANK, DEPENDENT = 1e-11, 1e-7
"""The shares of a column's length beside other columns that are nothing and too little."""
_SUSPECT = 1e-11
"""The ratio of the least eigenvalue to the largest from which rounding may hide dependent columns
in a correlation matrix."""


class Canonical(NamedTuple):
    """The canonical correlations ``(k,)``, largest first, and their directions, ``(n1, k)`` and
    ``(n2, k)``, k the smaller rank: x^T C11 x = I, y^T C22 y = I, x^T C12 y =
    diag(correlations)."""

    correlations: Array
    x: Array
    y: Array


def canonical_correlations(c11: Array, c12: Array, c22: Array) -> Canonical:
    """The singular values of C11^{-1/2} C12 C22^{-1/2}, from covariances ``(n1, n1)``, ``(n1, n2)``
    and ``(n2, n2)``.

    Directions in which a view does not vary, to 1e-10 of its largest variance, are left out: k is
    then the smaller rank.
    """
    left = root_inverse(c11, None)
    right = root_inverse(c22, None)
    u, values, vt = np.linalg.svd(left.T @ c12 @ right, full_matrices=False)
    return Canonical(values, np.ascontiguousarray(left @ u), np.ascontiguousarray(right @ vt.T))


def suspect(covariance: Array) -> bool:
    """True if columns may depend on each other, or nearly so."""
    variances = np.diagonal(covariance)
    lengths = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    values = np.linalg.eigvalsh(covariance / lengths / lengths[:, None])
    return bool(values[0] <= _SUSPECT * values[-1])


def column_basis(
    view: Sequence[Array], count: int, collective: Collective, name: str, labels: Sequence[object]
) -> Array:
    """``(d, r)``: the T for which the r columns of ``view @ T`` span those of a view, with second
    moments I over all samples.

    Columns that depend on others exactly leave r < d. A ValueError names, by their labels, columns
    that nearly do.
    """
    R = root(view, collective)
    lengths = np.sqrt((R * R).sum(-2))
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    _, values, turns = np.linalg.svd(R / lengths)
    r = int((values > RANK * values[0]).sum(-1))
    if r == 0:
        raise ValueError(f"all columns of {name} are 0: give samples that differ")
    if len(R) > r >= count - 1:
        raise ValueError(
            f"{count} samples of {name} with {len(R)} columns determine no correlations: give "
            "more, or ridge=1e-2"
        )
    if values[r - 1] <= DEPENDENT * values[0]:
        turn = np.abs(turns[r - 1])
        named = [
            str(label)
            for label, part in zip(labels, turn, strict=True)
            if part > 0.3 * turn.max(-1)
        ]
        shown = ", ".join(named[:5]) + ", ..." * (len(named) > 5)
        raise ValueError(
            f"{len(named)} columns of {name} nearly depend on each other ({shown}): give "
            "ridge=1e-2, or drop one of them"
        )
    return np.ascontiguousarray(turns[:r].T / lengths[:, None] / values[:r] * np.sqrt(count))


class Samples(NamedTuple):
    """The samples of agents that keep them, ``(k, m, n1)`` and ``(k, m, n2)``, and the weight of a
    sample."""

    a: Array
    b: Array
    weight: float

    def cross(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C12_i y and C12_i^T x."""
        u, v = self._images(x, y)
        return self.a.swapaxes(-1, -2) @ v, self.b.swapaxes(-1, -2) @ u

    def own(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C11_i x and C22_i y."""
        u, v = self._images(x, y)
        return self.a.swapaxes(-1, -2) @ u, self.b.swapaxes(-1, -2) @ v

    def _images(self, x: Array, y: Array) -> tuple[Array, Array]:
        u = self.a @ x
        v = self.b @ y
        u *= self.weight
        v *= self.weight
        return u, v

    def diagonals(self) -> tuple[Array, Array]:
        """``(k, n1)`` and ``(k, n2)``: the diagonals of C11_i and C22_i."""
        return self.weight * (self.a * self.a).sum(1), self.weight * (self.b * self.b).sum(1)

    def norms(self) -> Array:
        """``(k,)``: ||C12_i||_2."""
        if self.a.shape[1] > _SHORT:
            each = zip(self.a[:, None], self.b[:, None], strict=True)
            return np.array([_norm(Samples(a, b, self.weight)) for a, b in each])
        r = np.linalg.qr(self.a.swapaxes(-1, -2)).R  # A_i^T = Q R
        s = np.linalg.qr(self.b.swapaxes(-1, -2)).R
        return self.weight * np.linalg.norm(r @ s.swapaxes(-1, -2), 2, axis=(-2, -1))

    def moments(self) -> Iterator[tuple[Array, ...]]:
        """C11_i, C12_i and C22_i of each agent."""
        pairs = zip(self.a, self.b, strict=True)
        return (second_moments(a, b, self.weight) for a, b in pairs)


class _Square(NamedTuple):
    """C12_i^T C12_i of one agent that keeps its samples, as a
    ``scipy.sparse.linalg.LinearOperator``."""

    samples: Samples
    shape: tuple[int, int]

    def matmat(self, y: Array) -> Array:
        """``(n2, k)``: the product with a matrix of that shape."""
        a, b, weight = self.samples
        image: Array = b[0].T @ (a[0] @ (a[0].T @ (b[0] @ y)))
        return weight * weight * image


def _norm(samples: Samples) -> float:
    """||C12_i||_2 of one agent, or a close bound on it."""
    n2 = samples.b.shape[-1]
    return math.sqrt(LinearOperator(_Square(samples, (n2, n2))).largest)


class SecondMoments(NamedTuple):
    """The matrices C11_i, C12_i and C22_i of agents that keep them, ``(k, n1, n1)``, ``(k, n1,
    n2)`` and ``(k, n2, n2)``."""

    c11: Array
    c12: Array
    c22: Array

    def cross(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C12_i y and C12_i^T x."""
        return self.c12 @ y, self.c12.swapaxes(-1, -2) @ x

    def own(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C11_i x and C22_i y."""
        return self.c11 @ x, self.c22 @ y

    def diagonals(self) -> tuple[Array, Array]:
        """``(k, n1)`` and ``(k, n2)``: the diagonals of C11_i and C22_i."""
        return diagonals_of(self.c11), diagonals_of(self.c22)

    def norms(self) -> Array:
        """``(k,)``: ||C12_i||_2."""
        return np.linalg.norm(self.c12, 2, axis=(-2, -1))

    def moments(self) -> Iterator[tuple[Array, ...]]:
        """C11_i, C12_i and C22_i of each agent."""
        return zip(self.c11, self.c12, self.c22, strict=True)


Form = Samples | SecondMoments


def second_moments(a: Array, b: Array, weight: float) -> tuple[Array, Array, Array]:
    """``weight`` times a^T a, a^T b and b^T b."""
    return weight * (a.T @ a), weight * (a.T @ b), weight * (b.T @ b)
