"""The eigenvalues of a mixing matrix that determine the contraction of the consensus error.

Up to 1500 agents all eigenvalues are computed. Above, a breadth-first search shows the shape of the
graph. If it is long and thin, a sparse factorisation is cheap and Lanczos (ARPACK) on the inverse
converges at once. If it is shallow, as expanders are, factors would fill up and Lanczos on W itself
converges. Large meshes are neither: for them, and if Lanczos has not converged after a bounded
number of restarts, LOBPCG preconditioned by multigrid is used, or without pyamg a factorisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigvalsh
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

from topologies.canonical import Weights, WeightsLike, canonical_weights, distances, row_sums
from topologies.line.memory import dense
from topologies.spectra.multigrid import smallest_eigenvalue

Vector = NDArray[np.float64]
Depths = NDArray[np.float64]
Apply = Callable[[Vector], Vector]

_DENSE = 1500
_THIN = 3
_FACTORED = 10_000_000
_SHALLOW = 4
_LANCZOS_VECTORS = 40
_LANCZOS_RESTARTS = 100


@dataclass(frozen=True)
class MixingSpectrum:
    """The ends of a mixing matrix's spectrum, without the eigenvalue 1 of the constant vector.

    For one agent no eigenvalue remains. By convention ``lambda_2 = lambda_min = sigma = 0`` and
    ``gap = 1``.

    Examples
    --------
    >>> import topologies as tp
    >>> found = tp.spectrum(tp.metropolis_weights(tp.ring(10)))
    >>> round(found.sigma, 4), round(found.lambda_min, 4)
    (0.8727, -0.3333)
    """

    n: int
    """Number of agents."""
    lambda_2: float
    """Second largest eigenvalue."""
    lambda_min: float
    """Smallest eigenvalue."""
    sigma: float
    """Second largest singular value, max(lambda_2, -lambda_min): the contraction of the consensus
    error per round."""
    gap: float
    """1 - sigma, to a relative accuracy that the subtraction would lose."""

    def rounds_for(self, reduction: float) -> int:
        """Rounds of averaging after which the consensus error is at most ``reduction`` (in (0, 1])
        times what it was.

        Raises ValueError if ``reduction`` is outside (0, 1], or ``sigma >= 1`` so that no number of
        rounds is enough.
        """
        if not 0 < reduction <= 1:
            raise ValueError(f"reduction must be in (0, 1], for example 1e-6, got {reduction}")
        if reduction == 1 or self.n == 1:
            return 0
        if self.gap <= 0:
            raise ValueError(f"averaging never reduces the consensus error: sigma = {self.sigma}")
        if self.gap >= 1:
            return 1
        rounds = math.log(reduction) / math.log1p(-self.gap)
        return math.ceil(rounds * (1 - 1e-12))


def eigenvalues(W: WeightsLike) -> Vector:
    """All eigenvalues of ``W``, shape (n,), largest first; dense, O(n^3).

    Raises the errors of `canonical_weights`.
    """
    return np.ascontiguousarray(eigvalsh(dense(canonical_weights(W)))[::-1])


def spectrum(W: WeightsLike) -> MixingSpectrum:
    """The second largest and the smallest eigenvalue of ``W``, shape (n, n).

    ``W`` may be disconnected (``lambda_2`` is 1 then).

    Errors as `canonical_weights`; ValueError if ``W`` has an eigenvalue above 1 (checked only above
    1500 agents; up to there ``lambda_2`` shows it).
    """
    matrix = canonical_weights(W)
    n = matrix.shape[0]
    if n == 1:
        return MixingSpectrum(1, 0.0, 0.0, 0.0, gap=1.0)
    if n <= _DENSE:
        values = eigenvalues(matrix)
        others = np.delete(values, np.argmin(np.abs(values - 1)))
        upper_gap = 1 - float(others[0])
        lambda_min = float(others[-1])
    else:
        depth = distances(matrix, 0)
        upper_gap = _upper_gap(matrix, depth)
        lambda_min = _smallest(matrix, depth)
    lambda_2 = 1 - upper_gap
    lambda_min = min(lambda_min, lambda_2)
    gap = min(upper_gap, 1 + lambda_min)
    return MixingSpectrum(n, lambda_2, lambda_min, max(lambda_2, -lambda_min), gap)


def laplacian_extremes(adjacency: Weights) -> tuple[float, float]:
    """The second smallest eigenvalue (algebraic connectivity) and the largest of the Laplacian of
    an adjacency matrix."""
    degrees = row_sums(adjacency)
    n = len(degrees)
    if n == 1:
        return 0.0, 0.0
    if n <= _DENSE:
        values = eigvalsh(np.diag(degrees) - adjacency.toarray())
        return float(values[1]), float(values[-1])
    scale = 2 * float(degrees.max())
    own = sparse.diags_array(1 - degrees / scale, format="csr")
    found = spectrum(own + adjacency * (1 / scale))
    return found.gap * scale, (1 - found.lambda_min) * scale


def _upper_gap(W: Weights, depth: Depths) -> float:
    """1 - lambda_2. The constant vector is deflated, and I - W is inverted as a grounded
    Laplacian."""
    n = W.shape[0]
    components, _ = csgraph.connected_components(W, directed=False)
    if components > 1:
        return 0.0
    if not _is_thin(depth):
        largest = _lanczos(lambda v: np.asarray(W @ v) - 2 * v.mean(), depth)
        if largest is not None:
            return 1 - largest
        if _off_diagonal(W).data.min() >= 0:  # no weight between two agents is negative
            least = smallest_eigenvalue(_laplacian(W), without_constant=True)
            if least is not None:
                return least
    solve = _positive_definite_solver(_laplacian(W)[1:, 1:])
    if solve is None:
        raise ValueError(
            "W has an eigenvalue above 1, so averaging diverges; make its negative weights smaller"
        )

    def pseudo_inverse(v: Vector) -> Vector:
        grounded = np.concatenate([[0.0], solve((v - v.mean())[1:])])
        centred: Vector = grounded - grounded.mean()
        return centred

    return 1 / _lanczos_to_the_end(pseudo_inverse, n)


def _smallest(W: Weights, depth: Depths) -> float:
    """lambda_min. The shift of W - shift I is proved to lie below the whole spectrum by the signs
    of its pivots (Sylvester)."""
    n = W.shape[0]
    if not _is_thin(depth):
        largest = _lanczos(lambda v: -np.asarray(W @ v), depth)
        if largest is not None:
            return -largest
        least = _smallest_by_multigrid(W, depth)
        if least is not None:
            return least
    # the tolerance is relative, and 0 may be an eigenvalue
    estimate = 1 - _lanczos_to_the_end(lambda v: v - np.asarray(W @ v), n, tol=1e-3)
    margin = 1e-6
    identity = sparse.eye_array(n, format="csr")
    while (solve := _positive_definite_solver(W - (estimate - margin) * identity)) is None:
        margin *= 10
    return estimate - margin + 1 / _lanczos_to_the_end(solve, n)


def _smallest_by_multigrid(W: Weights, depth: Depths) -> float | None:
    """With the sign of every second level of a breadth-first tree flipped, the lowest eigenvector
    varies slowly along the tree.

    Gershgorin's lower bound is subtracted, so that the matrix is diagonally dominant. Where it then
    maps the constant vector to zero, as for equal own weights on a bipartite graph, the bound is
    the eigenvalue.
    """
    neighbours = row_sums(abs(W)) - np.abs(W.diagonal())
    bound = float((W.diagonal() - neighbours).min())
    signs = sparse.diags_array(np.where(np.isfinite(depth), depth, 0) % 2 * 2 - 1, format="csr")
    identity = sparse.eye_array(W.shape[0], format="csr")
    shifted = sparse.csr_array(signs @ W @ signs - bound * identity)
    if float(row_sums(shifted).mean()) <= np.finfo(float).eps:
        return bound
    least = smallest_eigenvalue(shifted)
    return None if least is None else bound + least


def _is_thin(depth: Depths) -> bool:
    """True if no breadth-first level is wide, so that factors of W have at most about n * width
    entries."""
    n = len(depth)
    width = int(np.bincount(depth[np.isfinite(depth)].astype(np.int64)).max())
    return width <= _THIN * math.sqrt(n) and n * width <= _FACTORED


def _off_diagonal(W: Weights) -> Weights:
    return W - sparse.diags_array(W.diagonal(), format="csr")


def _laplacian(W: Weights) -> Weights:
    """I - W with the diagonal summed from the edges, which keeps small eigenvalues to relative
    accuracy."""
    off_diagonal = _off_diagonal(W)
    degrees = sparse.diags_array(row_sums(off_diagonal), format="csr")
    return sparse.csr_array(degrees - off_diagonal)


def _positive_definite_solver(matrix: Weights) -> Apply | None:
    """``b -> matrix^{-1} b`` by a sparse factorisation, or None if the symmetric ``matrix`` is not
    positive definite."""
    try:
        factors = splu(matrix.tocsc(), "MMD_AT_PLUS_A", 0.0, options={"SymmetricMode": True})
    except RuntimeError:  # exactly singular
        return None
    symmetric_pivots = np.array_equal(factors.perm_r, factors.perm_c)
    return factors.solve if symmetric_pivots and bool(np.all(factors.U.diagonal() > 0)) else None


def _lanczos(apply: Apply, depth: Depths) -> float | None:
    """Largest eigenvalue of a symmetric operator to rounding; None if it does not converge within
    the restarts, or if some agent is farther from agent 0 than the order of log n, unlike in an
    expander."""
    if depth[np.isfinite(depth)].max() > _SHALLOW * math.log2(len(depth)):
        return None
    try:
        return _lanczos_to_the_end(apply, len(depth), maxiter=_LANCZOS_RESTARTS)
    except ArpackNoConvergence:
        return None


def _lanczos_to_the_end(apply: Apply, n: int, **settings: Any) -> float:
    """Largest eigenvalue of a symmetric operator, from a fixed start vector; ``settings`` are those
    of SciPy's `eigsh`."""
    start = np.random.default_rng(0).standard_normal(n)
    operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    settings |= {"v0": start, "ncv": _LANCZOS_VECTORS, "return_eigenvectors": False}
    return float(eigsh(operator, 1, which="LA", **settings)[0])
