"""Several J-orthogonal matrices of one signature stacked by rows, and below them rows that are free.

A point is ``(copies * n + free, n)``: x_1, ..., x_copies with x_c^T J x_c = J, then rows of R^n. So the relations of an
ultrahyperbolic knowledge graph embedding and all that belongs to its entities are one point. The matrices are worked on together,
as a stack of so many agents would be (`JOrthogonal`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..protocols import Array, Retraction
from .j_orthogonal import JOrthogonal


class JOrthogonalStack:
    """x_1, ..., x_copies with x_c^T J x_c = J, stacked by rows, then ``free`` rows without a constraint.

    Parameters
    ----------
    each
        The set of each matrix.
    copies
        How many of them.
    free
        How many free rows.

    Raises
    ------
    ValueError
        Unless there is a matrix, and no fewer than zero free rows.
    """

    def __init__(self, each: JOrthogonal, copies: int, free: int = 0) -> None:
        if copies < 1 or free < 0:
            raise ValueError(f"a stack needs copies >= 1 matrices and free >= 0 rows, got copies = {copies} and free = {free}")
        self.each, self.copies = each, copies
        n = each.shape[0]
        self.bound = copies * n
        """The rows of the matrices; those from here on are free."""
        self.shape: tuple[int, ...] = (self.bound + free, n)

    def __repr__(self) -> str:
        free = self.shape[0] - self.bound
        return f"{self.each!r}^{self.copies}" + (f" x R({free}, {self.shape[1]})" if free else "")

    def matrices(self, x: Array) -> Array:
        """``(n_local * copies, n, n)``: the matrices of all agents, a view where there is one agent."""
        return x[:, : self.bound].reshape(-1, *self.each.shape)

    def _by_agent(self, numbers: Array) -> Array:
        """``(n_local, copies)``: a number of each matrix."""
        return numbers.reshape(-1, self.copies)

    def feasibility(self, x: Array) -> Array:
        """``(n_local,)``: the largest of the matrices' (1/n^2) sum |x_c^T J x_c - J|."""
        largest: Array = self._by_agent(self.each.feasibility(self.matrices(x))).max(-1)
        return largest

    def violation(self, x: Array) -> Array:
        """``(n_local,)``: the largest entry of all |x_c^T J x_c - J|."""
        largest: Array = self._by_agent(self.each.violation(self.matrices(x))).max(-1)
        return largest

    def random(self, rng: np.random.Generator, spread: float = 1.0) -> Array:
        """``shape``: matrices from random hyperbolic CS decompositions (`JOrthogonal.random`), and Gaussian free rows."""
        matrices = [self.each.random(rng, spread) for _ in range(self.copies)]
        return np.concatenate((*matrices, rng.standard_normal((self.shape[0] - self.bound, self.shape[1]))))

    def _with_free(self, free: Array, matrices: Callable[[], Array]) -> Array:
        """A point of new matrices over rows ``free`` of R^n, which is a point itself."""
        point = free.copy()
        point[:, : self.bound] = matrices().reshape(len(point), self.bound, -1)
        return point

    def tangent(self, x: Array, g: Array) -> Array:
        """The Riemannian gradient of each matrix; what belongs to free rows as it is."""
        return self._with_free(g, lambda: self.each.tangent(self.matrices(x), self.matrices(g)))

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """The Cayley retraction of each matrix, whatever the retraction is called, and x + v in free rows. Fresh."""
        return self._with_free(x + v, lambda: self.each.retract(self.matrices(x), self.matrices(v)))

    def corrected(self, x: Array) -> Array:
        """A Newton-Schulz step of each matrix (`JOrthogonal.corrected`, with its ValueError). Fresh."""
        return self._with_free(x, lambda: self.each.corrected(self.matrices(x)))
