"""The B of a constraint x^T B x = I, known through its products: matrices, a sparse matrix, an
operator, or samples.

Stacked arrays are ``(n_local, n, p)``. `operator` converts a user's B; `symmetric` converts a
matrix that need not be positive definite, such as the A of an eigenvalue problem.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from scipy.linalg import eigh, eigvalsh
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dtrtri
from scipy.sparse import csc_array, csr_array, issparse
from scipy.sparse.linalg import LinearOperator as ScipyOperator
from scipy.sparse.linalg import eigsh, splu

from decentorth.numerics.definite import is_singular, upper_factor
from decentorth.numerics.ordered_sums import norms
from decentorth.numerics.threads import one_thread
from decentorth.protocols import Array, Index
from decentorth.sets.retractions import plus

_SYMMETRY = 1e-10
"""The largest difference between B and its transpose, relative to its entries."""
_LANCZOS = 1e-4
"""The relative accuracy of the largest eigenvalue by Lanczos iterations; the bound is larger by as
much."""
_PRODUCTS_ONLY = "use a direction or metric that needs products only (psi-b, euclidean)"
_SMALL = 64
"""The largest order at which the largest eigenvalue comes from the matrix, formed by products."""


class Operator(ABC):
    """A symmetric B. Its extreme eigenvalues are found by products with it, unless a subclass has a
    better way."""

    n: int
    solvable: bool
    """True if `solve` can be called."""

    @cached_property
    def largest(self) -> float:
        """A bound on the eigenvalues of B that is close to the largest."""
        return _lanczos(self)

    @cached_property
    def radius(self) -> float:
        """A bound on the absolute values of the eigenvalues that is close to the largest."""
        return _lanczos(self, "LM")

    @abstractmethod
    def check_definite(self) -> None:
        """Raise the ValueError of `operator` if B is found not to be positive definite."""

    @abstractmethod
    def product(self, x: Array) -> Array:
        """Return the product B x in a new array."""

    @abstractmethod
    def solve(self, g: Array) -> Array:
        """Return the solution B^{-1} g in a new array.

        Raises TypeError if B lacks an inverse map; the message names the kinds of B that have
        one.
        """

    def on(self, put: Callable[[Array], Array]) -> Operator:
        """The operator for points on a device, to which ``put`` brings an array; a ValueError
        unless it is a dense matrix."""
        kind = type(self).__name__
        raise ValueError(
            f"{kind} does not run on a device: give a dense matrix, or leave device out"
        )


def operator(B: Any) -> Operator:
    """Return the `Operator` of B, ``(n, n)``.

    B is an array, a SciPy sparse matrix, a ``scipy.sparse.linalg.LinearOperator``, or a
    `SampleCovariance`. Raises TypeError for another type, or entries that are not real numbers.
    Raises ValueError unless B is square, finite, symmetric and, as far as its kind can be
    checked, positive definite.
    """
    found = symmetric("B", B)
    found.check_definite()
    return found


def symmetric(name: str, A: Any) -> Operator:
    """The operator of a symmetric A of any type that `operator` takes, positive definite or not;
    errors call it ``name``."""
    match A:
        case SampleCovariance():
            return A
        case _ if issparse(A):
            return SparseMatrix(A, name)
        case Multiplies():
            return LinearOperator(A, name)
    array = np.asarray(A)
    _check_square(name, array.shape)
    _check_real(name, array)
    _check_symmetric(name, np.abs(array - array.T).max(), np.abs(array).max())
    return Matrices(np.ascontiguousarray(array, dtype=np.float64)[None])


@runtime_checkable
class Multiplies(Protocol):
    """An object that multiplies matrices, as ``scipy.sparse.linalg.LinearOperator`` does."""

    shape: tuple[int, ...]

    def matmat(self, x: Array) -> Array: ...


@runtime_checkable
class Solves(Protocol):
    """An operator that knows its inverse."""

    def solve(self, g: Array) -> Array: ...


def formed(A: Operator) -> Array:
    """The matrix of A ``(n, n)``, formed by products with the columns of the identity, and exactly
    symmetric."""
    matrix = A.product(np.eye(A.n)[None])[0]
    return 0.5 * (matrix + matrix.T)


def eigenspace(A: Array, B: Array, p: int) -> tuple[Array, Array]:
    """The p largest eigenvalues of A v = w B v, descending, and their eigenvectors ``(n, p)`` with
    v^T B v = I."""
    n = len(A)
    with one_thread():
        values, vectors = eigh(A, B, subset_by_index=[n - p, n - 1])
    return np.ascontiguousarray(values[::-1]), np.ascontiguousarray(vectors[:, ::-1])


class Matrices(Operator):
    """Dense symmetric matrices, ``(1, n, n)`` for all agents or ``(n_local, n, n)``, one for each;
    factored at the first solve."""

    solvable = True

    def __init__(self, stack: Array) -> None:
        self.stack = stack
        self.n = int(stack.shape[-1])

    @cached_property
    def factors(self) -> list[Array]:
        """The upper Cholesky factors U, U^T U = B, in Fortran order; a ValueError gives the least
        eigenvalue of a B that is not positive definite."""
        found = []
        for matrix in self.stack:
            factor = upper_factor(matrix)
            if factor is None:
                values = np.linalg.eigvalsh(matrix)
                raise ValueError(
                    f"B must be positive definite; its smallest eigenvalue is {values[0]:.3g}, its "
                    f"largest {values[-1]:.3g}: add a ridge to its diagonal, or leave out constant "
                    "features"
                )
            found.append(factor)
        return found

    @cached_property
    def largest(self) -> float:
        last = [self.n - 1] * 2
        with one_thread():
            return max([float(eigvalsh(matrix, subset_by_index=last)[0]) for matrix in self.stack])

    @cached_property
    def radius(self) -> float:
        with one_thread():
            both = [np.linalg.eigvalsh(matrix)[[0, -1]] for matrix in self.stack]
            return max([float(np.abs(ends).max(-1)) for ends in both])

    def check_definite(self) -> None:
        with one_thread():  # the bits of a factor depend on the number of BLAS threads
            _ = self.factors

    def product(self, x: Array) -> Array:
        return self.stack @ x

    def solve(self, g: Array) -> Array:
        """The solution B^{-1} g by two triangular solves from the right with g^T, in Fortran order
        g itself."""
        out = np.empty_like(g)
        for i, one in enumerate(g):
            upper = self.factors[min(i, len(self.factors) - 1)]
            half = dtrsm(1.0, upper, one.T, side=1, lower=0, trans_a=0)
            out[i] = dtrsm(1.0, upper, half, side=1, lower=0, trans_a=1, overwrite_b=1).T
        return out

    def on(self, put: Callable[[Array], Array]) -> Placed:
        return Placed(self, put)


class Placed(Matrices):
    """Dense symmetric matrices on a device; a solve is two products with the inverse of the
    Cholesky factor."""

    def __init__(self, host: Matrices, put: Callable[[Array], Array]) -> None:
        super().__init__(put(host.stack))
        self._host = host
        self._put = put

    @cached_property
    def largest(self) -> float:
        return self._host.largest

    @cached_property
    def radius(self) -> float:
        return self._host.radius

    @cached_property
    def inverses(self) -> Array:
        """The inverses U^{-1} of the upper Cholesky factors."""
        return self._put(np.stack([dtrtri(factor, lower=0)[0] for factor in self._host.factors]))

    def solve(self, g: Array) -> Array:
        return self.inverses @ (self.inverses.swapaxes(-1, -2) @ g)


class SparseMatrix(Operator):
    """A sparse matrix ``(n, n)`` in any of SciPy's formats, factored by SuperLU at the first solve;
    errors call it ``name``."""

    solvable = True

    def __init__(self, B: Any, name: str = "B") -> None:
        _check_square(name, B.shape)
        _check_real(name, B.data)
        self.matrix: Any = csr_array(B, dtype=np.float64)
        self.n = int(B.shape[0])
        _check_symmetric(name, abs(self.matrix - self.matrix.T).max(), abs(self.matrix).max())

    def check_definite(self) -> None:
        least = self.matrix.diagonal().min()  # the factorization checks the rest at the first solve
        if not least > 0.0:
            raise ValueError(f"B must be positive definite; its diagonal has the entry {least:.3g}")

    @cached_property
    def _factor(self) -> Any:
        matrix = csc_array(self.matrix)
        symmetric = {"SymmetricMode": True}
        refusal = ValueError(
            "B must be positive definite, and it is singular or has negative eigenvalues: add a "
            "ridge to its diagonal"
        )
        try:
            factor = splu(
                matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric
            )
        except RuntimeError:  # a pivot is exactly 0
            raise refusal from None
        if not factor.U.diagonal().min() > 0.0 or is_singular(matrix, factor.solve):
            raise refusal
        return factor

    def product(self, x: Array) -> Array:
        return _each(lambda one: self.matrix @ one, x)

    def solve(self, g: Array) -> Array:
        return _each(self._factor.solve, g)


class LinearOperator(Operator):
    """A ``scipy.sparse.linalg.LinearOperator``, or any object with ``shape`` and ``matmat``.

    A method ``solve``, ``(n, p) -> (n, p)``, is used as its inverse, if there is one. Errors
    call the operator ``name``.
    """

    def __init__(self, B: Any, name: str = "B") -> None:
        _check_square(name, B.shape)
        self.operator = B
        self.n = int(B.shape[0])
        self.solvable = isinstance(B, Solves)
        pair = _probe(self.n, 2)[None]
        image = self.product(pair)
        _check_real(name, image)
        ((first, across), (back, second)) = (pair.swapaxes(-1, -2) @ image)[0]
        _check_symmetric(name, abs(across - back), float((norms(pair) * norms(image))[0]))
        self._probed = min(first, second)

    def check_definite(self) -> None:
        if not self._probed > 0.0:
            raise ValueError(
                f"B must be positive definite; v^T B v = {self._probed:.3g} for a vector v"
            )

    def product(self, x: Array) -> Array:
        return _each(self.operator.matmat, x)

    def solve(self, g: Array) -> Array:
        if not self.solvable:
            raise TypeError(
                "B is an operator without an inverse, and B^{-1} g is needed: "
                f"give it a method solve(g), give B as a matrix, or {_PRODUCTS_ONLY}"
            )
        return _each(self.operator.solve, g)


class SampleCovariance(Operator):
    """B = A^T A / N + ridge I for N samples in the rows of A, without ever forming it: products are
    A^T (A x) / N + ridge x.

    The samples are not centred. They are shared by all agents of the set; agents with samples of
    their own reach the set through `GeneralizedStiefel.landing_from_products`.

    Parameters
    ----------
    A
        ``(N, n)``: an array or a SciPy sparse matrix.
    ridge
        The number added to every eigenvalue; it must be positive if there are fewer samples than
        columns.

    Raises
    ------
    ValueError
        For an empty, infinite or one-dimensional A, a negative ridge, or a B that cannot be
        positive definite.
    TypeError
        For entries that are not real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import GeneralizedStiefel, SampleCovariance
    >>> A = np.random.default_rng(0).standard_normal((100, 6))
    >>> manifold = GeneralizedStiefel(SampleCovariance(A, ridge=0.1), 2)
    >>> x = manifold.random(np.random.default_rng(1))
    >>> np.allclose(x.T @ (A.T @ A / 100 + 0.1 * np.eye(6)) @ x, np.eye(2))
    True
    """

    solvable = False

    def __init__(self, A: Any, ridge: float = 0.0) -> None:
        self._sparse = bool(issparse(A))
        if not self._sparse:
            A = np.asarray(A)
        if A.ndim != 2 or 0 in A.shape:
            raise ValueError(
                f"A must be a non-empty matrix with a sample in each row, got shape {A.shape}"
            )
        _check_real("A", A.data if self._sparse else A)
        self.rows: Any = csr_array(A) if self._sparse else np.ascontiguousarray(A)
        self.rows = self.rows.astype(np.float64, copy=False)
        if not (np.isfinite(ridge) and ridge >= 0.0):
            raise ValueError(f"ridge must be finite and not negative, got {ridge}")
        samples = int(A.shape[0])
        self.n = int(A.shape[1])
        if ridge == 0.0 and samples < self.n:
            raise ValueError(
                f"A^T A / N of {samples} samples in {self.n} dimensions is singular: give a "
                "ridge, more samples, or fewer columns"
            )
        self.n_samples = samples
        self.ridge = float(ridge)

    @property
    def radius(self) -> float:
        return self.largest

    def check_definite(self) -> None:
        """B is positive semidefinite, and the constructor checks the rest."""

    def product(self, x: Array) -> Array:
        rows = self.rows
        image = _each(lambda one: rows.T @ (rows @ one), x) if self._sparse else rows.T @ (rows @ x)
        return self._scaled(image, self.n_samples, x)

    def product_on(self, x: Array, batch: Index) -> Array:
        """The product B x from the samples ``batch``, ``(n_local, b)`` row numbers; for uniform
        draws its mean is `product`."""
        rows = self._taken(batch)
        return self._scaled(rows.swapaxes(-1, -2) @ (rows @ x), batch.shape[1], x)

    def _scaled(self, image: Array, samples: int, x: Array) -> Array:
        """The product B x from A^T A x, in place."""
        image /= samples
        if self.ridge > 0.0:
            image += self.ridge * x
        return image

    def matrix_on(self, batch: Index) -> Array:
        """The matrices B of the samples ``batch``, ``(n_local, n, n)``."""
        rows = self._taken(batch)
        matrix: Array = rows.swapaxes(-1, -2) @ rows
        matrix /= batch.shape[1]
        return plus(matrix, self.ridge)

    def _taken(self, batch: Index) -> Array:
        """The samples ``batch`` as a dense array, ``(n_local, b, n)``."""
        rows: Any = self.rows
        return np.stack([rows[one].toarray() for one in batch]) if self._sparse else rows[batch]

    def solve(self, g: Array) -> Array:
        raise TypeError(
            "B is a sample covariance that is never formed, and B^{-1} g is needed: "
            f"give the matrix A.T @ A / N + ridge * I if it fits into memory, or {_PRODUCTS_ONLY}"
        )


def _each(function: Callable[[Array], Any], x: Array) -> Array:
    """Apply the function to each agent's array; a fresh stack."""
    out = np.empty_like(x)
    for i, one in enumerate(x):
        out[i] = function(one)
    return out


def _lanczos(operator: Operator, which: Literal["LA", "LM"] = "LA") -> float:
    """A bound on the largest eigenvalue (LA) or absolute value (LM), valid unless the start is
    orthogonal to the eigenspace."""
    n = operator.n
    with one_thread():
        if n <= _SMALL:
            values = np.linalg.eigvalsh(formed(operator))
            return float({"LA": values[-1], "LM": max(values[-1], -values[0])}[which])

        def product(v: Array) -> Array:
            return operator.product(v.reshape(1, n, 1))[0, :, 0]

        wrapped = ScipyOperator((n, n), matvec=product, dtype=np.float64)
        first = _probe(n, 1)[:, 0]
        (found,) = eigsh(wrapped, 1, which=which, tol=_LANCZOS, v0=first, return_eigenvectors=False)
        return float({"LA": found, "LM": abs(found)}[which]) * (1.0 + _LANCZOS)


def _probe(n: int, columns: int) -> Array:
    """Fixed vectors ``(n, columns)`` without structure that an operator could share."""
    return np.cos(np.arange(1.0, n * columns + 1.0).reshape(n, columns) ** 2)


def _check_square(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise ValueError(f"{name} must be a square matrix, got shape {tuple(shape)}")


def _check_symmetric(name: str, difference: float, scale: float) -> None:
    if not difference <= _SYMMETRY * scale:
        raise ValueError(
            f"{name} must be symmetric, but differs from its transpose by {difference:.3g} "
            f"where its entries reach {scale:.3g}: give ({name} + {name}.T) / 2 if that is meant"
        )


def _check_real(name: str, entries: Any) -> None:
    if entries.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {entries.dtype}")
    if not np.isfinite(entries).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinities")
