"""Samples that are mostly zeros, in compressed rows. They are multiplied, centred and scaled, but
never made dense.

    A = S - U C^T    S sparse (m, d), U (m, k), C (d, k)

To subtract a row c from every sample adds the column 1 to U and the column c to C. A product with A
is one with S and one of rank k.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...protocols import Array, Index

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SMALL = 100
"""The fewer of samples and columns up to which all eigenvalues are computed."""
LANCZOS = 1e-6
"""The relative accuracy of the largest eigenvalue beyond `SMALL`, by which it is raised: a step
size must not be too long."""


def is_sparse(value: object) -> bool:
    """True for a sparse matrix of SciPy; loads ``scipy.sparse`` only where the caller has loaded
    it."""
    if isinstance(value, np.ndarray) or "scipy.sparse" not in sys.modules:
        return False
    from scipy.sparse import issparse

    return bool(issparse(value))


class SparseRows:
    """An agent's sparse samples ``(m, d)``, with the arithmetic of an array that problems use.

    Parameters
    ----------
    stored
        S, a ``csr_array`` of float64 without repeated entries.
    left, right
        U and C.
    """

    __array_ufunc__ = None  # NumPy leaves the product ones @ rows to `__rmatmul__`

    def __init__(self, stored: csr_array[Any, tuple[int, int]], left: Array, right: Array) -> None:
        self.stored = stored
        self.left = left
        self.right = right
        self.shape: tuple[int, int] = stored.shape

    @classmethod
    def of(cls, matrix: Any) -> Self:
        """The rows of a sparse matrix of SciPy, in any of its formats; repeated entries are
        added."""
        from scipy.sparse import csr_array

        stored = csr_array(matrix, dtype=np.float64)
        stored.check_format(full_check=True)
        if not stored.has_canonical_format:
            stored = stored.copy()
            stored.sum_duplicates()
        m, d = stored.shape
        return cls(stored, np.empty((m, 0)), np.empty((d, 0)))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """The bytes of the stored entries and their places."""
        stored = self.stored
        return int(stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes)

    @cached_property
    def _rows(self) -> Index:
        """The row of each stored entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.stored.indptr))

    def place(self, entry: int) -> tuple[int, int]:
        """The row and the column of a stored entry."""
        return int(self._rows[entry]), int(self.stored.indices[entry])

    def _changed(self, data: Array, left: Array, right: Array) -> Self:
        """Rows with entries in the same places."""
        kind = type(self.stored)
        stored = kind((data, self.stored.indices, self.stored.indptr), shape=self.shape)
        return type(self)(stored, left, right)

    def take(self, numbers: Index | slice) -> Self:
        """The rows of these numbers, with repeats."""
        return type(self)(self.stored[numbers], self.left[numbers], self.right)

    def __sub__(self, row: Array | float) -> Self:
        """The rows minus a common row ``(d,)``."""
        left = np.column_stack((self.left, np.ones(len(self))))
        right = np.column_stack((self.right, np.broadcast_to(row, self.shape[1])))
        return self._changed(self.stored.data, left, right)

    def __truediv__(self, scale: Array | float) -> Self:
        """The rows divided by a number, or by a number for each column ``(d,)``."""
        each = np.broadcast_to(scale, self.shape[1])
        data = self.stored.data / each[self.stored.indices]
        return self._changed(data, self.left, self.right / each[:, None])

    def __mul__(self, factor: Array | float) -> Self:
        """The rows times a number, or times a number for each row ``(m, 1)``."""
        each = np.broadcast_to(factor, (len(self), 1))
        data = self.stored.data * each[self._rows, 0]
        return self._changed(data, self.left * each, self.right)

    __rmul__ = __mul__

    def __imul__(self, factor: Array | float) -> Self:
        """These rows times a number; the arrays from which they were made stay as they are."""
        scaled = self * factor
        self.stored = scaled.stored
        self.left = scaled.left
        return self

    @property
    def T(self) -> Transposed:
        """The transpose ``(d, m)``, for products."""
        return Transposed(self)

    def swapaxes(self, first: int, second: int) -> Transposed:
        """The transpose, as of a stack of matrices."""
        return Transposed(self)

    def __matmul__(self, x: Array) -> Array:
        """The product A x, ``(m, r)``; of a stack of one agent's points such a stack."""
        if x.ndim == 3:
            return (self @ x[0])[None]
        product: Array = self.stored @ x
        if self.right.size:
            product -= self.left @ (self.right.T @ x)
        return product

    def __rmatmul__(self, y: Array) -> Array:
        """The product y A of ``(m,)``, ``(r, m)`` or a stack of one agent's."""
        if y.ndim == 3:
            return (y[0] @ self)[None]
        return np.ascontiguousarray((self.T @ y.T).T)

    def dense(self) -> Array:
        """The rows as an array."""
        return np.ascontiguousarray(self.stored.toarray() - self.left @ self.right.T)

    def dense_pieces(self) -> Iterator[Array]:
        """The rows as arrays of at most d rows."""
        for start in range(0, len(self), self.shape[1]):
            yield self.take(slice(start, start + self.shape[1])).dense()

    def column_squares(self) -> Array:
        """``(d,)``: the sum of the squares of each column."""
        return self._squares(self.stored.indices, self.right, self.left, len(self))

    def row_squares(self) -> Array:
        """``(m,)``: the sum of the squares of each row."""
        return self._squares(self._rows, self.left, self.right, self.shape[1])

    def _squares(self, places: Any, own: Array, other: Array, length: int) -> Array:
        """The sums of squares of the lines, rows or columns, that ``places`` numbers for the stored
        entries.

        What is subtracted from entries that are not stored is ``other`` times the line of ``own``.
        """
        least = len(own)
        low = (self.left[self._rows] * self.right[self.stored.indices]).sum(-1)
        seen: Any = np.bincount(places, (self.stored.data - low) ** 2, least)
        if not self.right.size:
            return seen
        whole = ((own @ (other.T @ other)) * own).sum(-1)
        unseen = np.maximum(whole - np.bincount(places, low * low, least), 0.0)
        full = np.bincount(places, minlength=least) == length
        squares: Array = seen + np.where(full, 0.0, unseen)
        return squares

    def largest(self) -> float:
        """The largest eigenvalue of A^T A, or a close bound on it."""
        first, then = (self, self.T) if len(self) < self.shape[1] else (self.T, self)
        n = min(self.shape)
        if n <= SMALL:
            square = first @ (then @ np.eye(n))
            return float(np.linalg.eigvalsh(0.5 * (square + square.T))[-1])
        from scipy.sparse.linalg import LinearOperator, eigsh

        def product(v: Array) -> Array:
            return first @ (then @ v)

        operator: Any = LinearOperator((n, n), matvec=product, dtype=np.float64)
        start = np.cos(np.arange(1.0, n + 1.0) ** 2)  # without structure that A could share
        found = eigsh(operator, 1, tol=LANCZOS, v0=start, return_eigenvectors=False)
        return float(found[0]) * (1.0 + LANCZOS)

    def _gram(self) -> Array:
        """``(d, d)``: A^T A, dense."""
        across = self.left.T @ self.stored
        mixed = self.right @ (across - 0.5 * (self.left.T @ self.left) @ self.right.T)
        gram: Array = (self.stored.T @ self.stored).toarray() - mixed - mixed.T
        return gram


class Transposed:
    """The transpose of sparse rows, for products."""

    __array_ufunc__ = None

    def __init__(self, rows: SparseRows) -> None:
        self._rows = rows

    def __matmul__(self, y: Any) -> Array:
        """The product A^T y, ``(d,)`` or ``(d, r)``; of a stack of one agent's matrices such a
        stack; of the sparse rows themselves A^T A, dense."""
        rows = self._rows
        if isinstance(y, SparseRows):
            return rows._gram()
        if y.ndim == 3:
            return (self @ y[0])[None]
        product: Array = rows.stored.T @ y
        if rows.right.size:
            product -= rows.right @ (rows.left.T @ y)
        return product

    def __rmatmul__(self, x: Array) -> Array:
        """The product x A^T of ``(r, d)``, or of a stack of one agent's."""
        if x.ndim == 3:
            return (x[0] @ self)[None]
        return np.ascontiguousarray((self._rows @ x.T).T)


def below(tables: Sequence[Any]) -> Array | SparseRows:
    """Tables with the same columns, one below the other; sparse rows if one of them is."""
    if not any(isinstance(one, SparseRows) for one in tables):
        return np.concatenate(tables)
    from scipy.linalg import block_diag
    from scipy.sparse import csr_array, vstack

    each = [one if isinstance(one, SparseRows) else SparseRows.of(csr_array(one)) for one in tables]
    stored = vstack([one.stored for one in each], format="csr")
    left = block_diag(*[one.left for one in each])
    return SparseRows(stored, left, np.concatenate([one.right for one in each], axis=1))


def beside(first: Array | SparseRows, second: Array | SparseRows) -> Array | SparseRows:
    """Two tables with the same rows, one beside the other; sparse rows if one of them is."""
    if not isinstance(first, SparseRows) and not isinstance(second, SparseRows):
        return np.concatenate((first, second), axis=1)
    from scipy.linalg import block_diag
    from scipy.sparse import csr_array, hstack

    pair = [
        one if isinstance(one, SparseRows) else SparseRows.of(csr_array(one))
        for one in (first, second)
    ]
    stored = hstack([one.stored for one in pair], format="csr")
    left = np.concatenate([one.left for one in pair], axis=1)
    return SparseRows(stored, left, block_diag(*[one.right for one in pair]))
