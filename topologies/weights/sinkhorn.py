"""A user's own non-negative matrix made doubly stochastic: symmetric Sinkhorn-Knopp scaling W = D A
D.

The iteration is the symmetric one of Knight, Ruiz and Ucar, "A symmetry preserving algorithm for
matrix scaling" (2014), whose error shrinks by (1 - lambda_min(W)) / 2 per round: fast if the agents
keep some own weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topologies.canonical import SYMMETRY_TOLERANCE as NEAR
from topologies.canonical import Weights, WeightsLike, entry_at, finite_square, with_diagonal
from topologies.weights.weight_checks import check_weights

_ROUNDS = 20_000
_WIDEST = 1e100
_ROW_SUM = 1e-14


def sinkhorn_weights(A: WeightsLike) -> Weights:
    """The doubly stochastic ``D A D``, shape (n, n), with D diagonal and positive, of a symmetric
    ``A >= 0``.

    It has A's non-zeros and so any graph: of all doubly stochastic matrices it is nearest to A in
    relative entropy.

    Errors as `check_weights`; TypeError if ``A`` does not hold real numbers; ValueError if it is
    not square, finite, non-negative and symmetric, or if it cannot be scaled.
    """
    matrix = finite_square(A, "A")
    coo = matrix.tocoo()
    negative = np.flatnonzero(coo.data < 0)
    if negative.size:
        entry = "A[{}, {}] = {:.3g}".format(*entry_at(coo, negative))
        raise ValueError(f"A must not be negative, but {entry}; use numpy.maximum(A, 0)")
    difference = (matrix - matrix.T.tocsr()).tocoo()
    largest = matrix.data.max(initial=0.0)
    skew = np.flatnonzero(np.abs(difference.data) > NEAR * largest)
    if skew.size:
        entry = "A[{0}, {1}] - A[{1}, {0}] = {2:.3g}".format(*entry_at(difference, skew))
        raise ValueError(f"A must be symmetric, but {entry}; use (A + A.T) / 2")
    scale = _scale(matrix)
    scaled = matrix.tocoo()
    scaled.data = scaled.data * (scale[scaled.row] * scale[scaled.col])
    W: Weights = scaled.tocsr()
    return check_weights(with_diagonal(W, W.diagonal()))


def _scale(matrix: Weights) -> NDArray[np.float64]:
    """The diagonal of D, shape (n,)."""
    n = matrix.shape[0]
    scale: NDArray[np.float64] = np.ones(n)
    sums = scale
    for _ in range(_ROUNDS):
        sums = scale * np.asarray(matrix @ scale)
        if sums.min() <= 0:
            empty = int(np.argmin(sums))
            raise ValueError(
                f"every row of A must have a positive entry, but row {empty} has none; give "
                f"A[{empty}, {empty}] > 0"
            )
        if np.abs(sums - 1).max() <= n * _ROW_SUM:
            return scale
        scale = scale / np.sqrt(sums)
        if scale.max() > _WIDEST * scale.min():
            break
    worst = int(np.argmax(np.abs(sums - 1)))
    raise ValueError(
        f"A cannot be scaled to row sums 1 (row {worst} stays at {sums[worst]:.6g}): some entries "
        "lie on no positive diagonal of A; give every agent a weight of its own, A[i, i] > 0"
    )
