"""Quadratic problems on {x : x^T B x = I} in the variables y = U x, B = U^T U, in which that set is
a Stiefel manifold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from operator import matmul
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from decentorth.numerics.ordered_sums import sums
from decentorth.problems.base import AgentProblem
from decentorth.protocols import Array
from decentorth.sets import Product, Stiefel

BLOCKS = 4
"""The number of blocks of rows of a triangular matrix."""


class Whitened(AgentProblem[Any]):
    """f(y) = tr(y^T H y) / 2 of a single agent over a Stiefel manifold, or a product of them, for
    points of p columns.

    ``form`` returns the product H y as a new array, for stacks ``(1, n, w)`` of any width;
    ``factors`` are the upper factors U of each B, in Fortran order.
    """

    def __init__(self, form: Callable[[Array], Array], factors: Sequence[Array], p: int) -> None:
        sets = [Stiefel(len(factor), p) for factor in factors]
        super().__init__(1, slice(0, 1), sets[0] if len(sets) == 1 else Product(*sets))
        self._form = form
        self._factors = factors

    def _take(self, local: object) -> None:
        """There is one agent."""

    def on(self, put: Callable[[Array], Array]) -> Whitened:
        H = put(self.hessian())
        placed = self._copied()
        placed._form = partial(matmul, H)
        placed._inverses = [*map(put, self._inverses)]
        placed._factors = [*map(put, self._factors)]
        return placed

    def value(self, x: Array) -> Array:
        return 0.5 * sums(x * self._form(x))

    def gradient(self, x: Array) -> Array:
        """``(1, n, p)``: H y."""
        return self._form(x)

    def hessian_product(self, x: Array, v: Array) -> Array:
        """Return H v, ``(1, n, p)``, which is the same for every point."""
        return self._form(v)

    def hessian(self) -> Array:
        """``(1, n, n)``: H, formed."""
        return self._form(np.eye(self.shape[0])[None])

    def changed(self, x: Array) -> Array:
        """Return the point y = U x, ``(1, n, p)``."""
        parts = self._parts(self._factors, x)
        return np.concatenate([factor @ rows for factor, rows in parts])[None]

    def back(self, y: Array) -> Array:
        """Return the point x = U^{-1} y, ``(1, n, p)``.

        It multiplies with the inverse by blocks of rows, which is faster than a triangular
        solve.
        """
        blocks = []
        for inverse, rows in self._parts(self._inverses, y):
            size = -(-len(rows) // BLOCKS)
            blocks += [inverse[i : i + size, i:] @ rows[i:] for i in range(0, len(rows), size)]
        return np.concatenate(blocks)[None]

    @cached_property
    def _inverses(self) -> list[Array]:
        inverses = [solve_triangular(factor, np.eye(len(factor))) for factor in self._factors]
        return [np.ascontiguousarray(one) for one in inverses]

    @staticmethod
    def _parts(matrices: Sequence[Array], x: Array) -> list[tuple[Array, Array]]:
        """Each matrix with its rows of the point."""
        ends = np.cumsum([len(matrix) for matrix in matrices])
        return list(zip(matrices, np.split(x[0], ends[:-1]), strict=True))


def from_both_sides(left: Array, matrix: Array, right: Array) -> Array:
    """The matrix left^{-T} matrix right^{-1}, for upper triangular factors."""
    half = solve_triangular(left, matrix, trans=1)
    return np.ascontiguousarray(solve_triangular(right, half.T, trans=1).T)
