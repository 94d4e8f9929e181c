"""Several J-orthogonal matrices of one signature stacked by rows, and free rows below them.

A point is ``(copies * n + free, n)``: x_1, ..., x_copies with x_c^T J x_c = J, then rows of R^n. So
the relations and the entities of an ultrahyperbolic knowledge graph embedding are one point.
`JOrthogonal` handles the matrices as a stack of agents.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from decentorth.protocols import Array, Retraction
from decentorth.settings import check

from .j_orthogonal import JOrthogonal


class JOrthogonalStack:
    """The points x_1, ..., x_copies with x_c^T J x_c = J, stacked by rows, then ``free`` rows
    without a constraint.

    Parameters
    ----------
    each
        The set of each matrix.
    copies
        The number of matrices.
    free
        The number of free rows.

    Raises
    ------
    ValueError
        Unless there is a matrix and the number of free rows is not negative.
    TypeError
        For a number that is not whole.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import JOrthogonal, JOrthogonalStack
    >>> stack = JOrthogonalStack(JOrthogonal(2, 1), copies=4, free=5)
    >>> stack.random(np.random.default_rng(0)).shape
    (17, 3)
    """

    def __init__(self, each: JOrthogonal, copies: int, free: int = 0) -> None:
        copies = check("copies", int, copies)
        free = check("free", int, free)
        if copies < 1 or free < 0:
            raise ValueError(
                f"a stack needs copies >= 1 matrices and free >= 0 rows, got copies = {copies} "
                f"and free = {free}"
            )
        self.each = each
        self.copies = copies
        n = each.shape[0]
        self.bound = copies * n
        """The number of rows of the matrices; the rows from this index on are free."""
        self.shape: tuple[int, ...] = (self.bound + free, n)

    def __repr__(self) -> str:
        free = self.shape[0] - self.bound
        return f"{self.each!r}^{self.copies}" + (f" x R({free}, {self.shape[1]})" if free else "")

    def matrices(self, x: Array) -> Array:
        """The matrices of all agents, ``(n_local * copies, n, n)``, a view if there is one
        agent."""
        return x[:, : self.bound].reshape(-1, *self.each.shape)

    def feasibility(self, x: Array) -> Array:
        """The largest of the matrices' (1/n^2) sum |x_c^T J x_c - J|, ``(n_local,)``."""
        return self.each.feasibility(self.matrices(x)).reshape(-1, self.copies).max(-1)

    def violation(self, x: Array) -> Array:
        """The largest entry of all |x_c^T J x_c - J|, ``(n_local,)``."""
        return self.each.violation(self.matrices(x)).reshape(-1, self.copies).max(-1)

    def random(self, rng: np.random.Generator, spread: float = 1.0) -> Array:
        """A point of matrices from random hyperbolic CS decompositions (`JOrthogonal.random`) and
        Gaussian free rows."""
        matrices = [self.each.random(rng, spread) for _ in range(self.copies)]
        rows, n = self.shape
        return np.concatenate((*matrices, rng.standard_normal((rows - self.bound, n))))

    def _with_free(self, free: Array, matrices: Callable[[], Array]) -> Array:
        """A point of new matrices, with the free rows of the point ``free``."""
        point = free.copy()
        point[:, : self.bound] = matrices().reshape(len(point), self.bound, -1)
        return point

    def tangent(self, x: Array, g: Array) -> Array:
        """The Riemannian gradient of each matrix; the gradient unchanged in free rows."""
        return self._with_free(g, lambda: self.each.tangent(self.matrices(x), self.matrices(g)))

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """The Cayley retraction of each matrix, for any ``retraction``, and x + v in free rows.
        Fresh."""
        return self._with_free(x + v, lambda: self.each.retract(self.matrices(x), self.matrices(v)))

    def corrected(self, x: Array) -> Array:
        """A Newton-Schulz step of each matrix (`JOrthogonal.corrected`, with its ValueError).
        Fresh."""
        return self._with_free(x, lambda: self.each.corrected(self.matrices(x)))
