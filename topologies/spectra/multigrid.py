"""The smallest eigenvalues of a large, sparse, diagonally dominant matrix: block LOBPCG with a multigrid preconditioner.

Agents are aggregated twice in pairs along their heaviest edges, level by level, with piecewise constant prolongation; each
level's system is solved by up to two steps of flexible conjugate gradients, preconditioned by the next level (the K-cycle of
Notay, "An aggregation-based algebraic multigrid method", 2010). It needs no geometry and fills nothing in, so meshes of a million
agents take the memory of a few vectors, where a factorisation would need tens of gigabytes and Lanczos alone hours.

LOBPCG: Knyazev, "Toward the optimal preconditioned eigensolver" (2001).
"""

from __future__ import annotations

import math
import warnings
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lobpcg

from topologies.canonical import Weights

Scalar = TypeVar("Scalar", np.float32, np.float64)
Block: TypeAlias = NDArray[np.float64]
Coarse: TypeAlias = NDArray[np.float32]
Single: TypeAlias = Any
"""A sparse array of single precision, shape (n, m)."""

_COARSEST = 600
_SMOOTHING = 2 / 3
_ROUNDS = 8
_GOOD_ENOUGH = 0.25
_CHEAP = 0.5
_BLOCK = 4
_ITERATIONS, _RESTARTS = 20, 25
_ERROR = 1e-12
_CLUSTER = 1e-3
_SINGULAR = 1e-6


def smallest_eigenvalue(matrix: Any, without_constant: bool = False) -> float | None:
    """The smallest eigenvalue of a symmetric, diagonally dominant sparse array, or None if 500 iterations do not converge.

    The error of a Ritz value is about the squared residual over the distance to the rest of the spectrum, which the block
    estimates; it is brought to a relative 1e-12, but not below the rounding of the matrix. ``without_constant`` leaves out the
    eigenvector of ones.
    """
    n = matrix.shape[0]
    floor = 100 * np.finfo(float).eps * float(np.abs(matrix.diagonal()).max())
    known = None
    if without_constant:
        known = np.ones((n, 1))
    X = np.random.default_rng(0).standard_normal((n, _BLOCK))
    settings: Any = {"M": _Multigrid(matrix, without_constant), "tol": floor, "maxiter": _ITERATIONS, "largest": False}
    for _ in range(_RESTARTS):
        with warnings.catch_warnings(action="ignore"):  # it warns where it stops before the floor
            values, X = lobpcg(matrix, X, Y=known, **settings)
        least, distance = float(values[0]), max(float(values[-1] - values[0]), _CLUSTER * float(values[0]))
        residual = float(np.linalg.norm(matrix @ X[:, 0] - least * X[:, 0]))
        if residual <= math.sqrt(max(0.0, _ERROR * least * distance)) + floor:
            return least
    return None


class _Multigrid:
    """An approximate inverse: one K-cycle, in single precision, which is enough for a preconditioner and half the traffic."""

    def __init__(self, matrix: Weights, without_constant: bool) -> None:
        self._matrices: list[Single] = [matrix.astype(np.float32)]
        self._aggregates: list[NDArray[np.int64]] = []
        while self._matrices[-1].shape[0] > _COARSEST:
            fine = self._matrices[-1]
            pairs = _pairs(fine)
            coarse = _aggregated(fine, pairs)
            quadruples = _pairs(coarse)[pairs]
            coarse = _aggregated(fine, quadruples)
            if coarse.shape[0] > 0.9 * fine.shape[0]:
                break
            self._matrices.append(coarse)
            self._aggregates.append(quadruples)
        one = np.ones(1, dtype=np.float32)
        self._smoothers: list[Any] = [_SMOOTHING * _ratio(one, level.diagonal())[:, None] for level in self._matrices]
        self._prolongations = [_prolongation(aggregates) for aggregates in self._aggregates]
        self._restrictions: list[Single] = [prolongation.T.tocsr() for prolongation in self._prolongations]
        self._coarsest = _inverse(self._matrices[-1], without_constant) if self._matrices[-1].shape[0] <= _COARSEST else None

    def __call__(self, residual: Block) -> Block:
        return self._cycle(0, (residual / _lengths(residual)).astype(np.float32)).astype(np.float64)

    def _cycle(self, level: int, residual: Coarse) -> Coarse:
        smooth = self._smoothers[level]
        if level == len(self._aggregates):
            return smooth * residual if self._coarsest is None else self._coarsest @ residual
        matrix, prolong = self._matrices[level], self._prolongations[level]
        x: Coarse = smooth * residual
        x += prolong @ self._solve(level + 1, self._restrictions[level] @ (residual - matrix @ x))
        x += smooth * (residual - matrix @ x)
        return x

    def _solve(self, level: int, residual: Coarse) -> Coarse:
        """Make one or two steps of flexible conjugate gradients, per column."""
        matrix = self._matrices[level]
        first = self._cycle(level, residual)
        if level == len(self._aggregates) or matrix.nnz > _CHEAP * self._matrices[level - 1].nnz:
            return first
        image = matrix @ first
        energy = _dots(first, image)
        step = _ratio(_dots(first, residual), energy)
        left = residual - step * image
        x = step * first
        if np.all(_dots(left, left) <= _GOOD_ENOUGH**2 * _dots(residual, residual)):
            return x
        second = self._cycle(level, left)
        second -= _ratio(_dots(second, image), energy) * first
        x += _ratio(_dots(second, left), _dots(second, matrix @ second)) * second
        return x


def _pairs(matrix: Single) -> NDArray[np.int64]:
    """The aggregate of each agent: pairs by the heaviest negative entries; an agent that is left over joins a neighbour's pair."""
    n = matrix.shape[0]
    coo = matrix.tocoo()
    upper = (coo.row < coo.col) & (coo.data < 0)
    tails, heads = coo.row[upper].astype(np.int64), coo.col[upper].astype(np.int64)
    strength = -coo.data[upper] * (1 + 1e-3 * np.random.default_rng(0).random(len(tails)))
    rank = np.empty(len(tails), dtype=np.int64)
    rank[np.argsort(strength)] = np.arange(len(tails))
    mate = np.full(n, -1)
    live_tails, live_heads, live_rank = tails, heads, rank
    for _ in range(_ROUNDS):
        best = np.full(n, -1)
        np.maximum.at(best, live_tails, live_rank)
        np.maximum.at(best, live_heads, live_rank)
        chosen = (best[live_tails] == live_rank) & (best[live_heads] == live_rank)
        mate[live_tails[chosen]], mate[live_heads[chosen]] = live_heads[chosen], live_tails[chosen]
        live = (mate[live_tails] < 0) & (mate[live_heads] < 0)
        live_tails, live_heads, live_rank = live_tails[live], live_heads[live], live_rank[live]
        if not len(live_rank):
            break
    agents = np.arange(n)
    leader = np.where(mate >= 0, np.minimum(agents, mate), agents)
    for alone, paired in ((tails, heads), (heads, tails)):
        joins = (mate[alone] < 0) & (mate[paired] >= 0)
        leader[alone[joins]] = leader[paired[joins]]
    return np.unique(leader, return_inverse=True)[1].astype(np.int64)


def _aggregated(matrix: Single, aggregates: NDArray[np.int64]) -> Single:
    coo = matrix.tocoo()
    size = int(aggregates.max()) + 1
    return sparse.csr_array((coo.data, (aggregates[coo.row], aggregates[coo.col])), shape=(size, size))


def _prolongation(aggregates: NDArray[np.int64]) -> Single:
    n = len(aggregates)
    shape = (n, int(aggregates.max()) + 1)
    return sparse.csr_array((np.ones(n, dtype=np.float32), aggregates, np.arange(n + 1)), shape=shape)


def _inverse(matrix: Single, without_constant: bool) -> Coarse:
    """The inverse of a positive semidefinite matrix, as far as single precision can hold it; 0 on a constant left out."""
    values, vectors = np.linalg.eigh(matrix.toarray().astype(np.float64))
    inverses = _ratio(np.ones(1), np.maximum(values, _SINGULAR * values[-1]))
    if without_constant:
        inverses[0] = 0
    inverse: Coarse = ((vectors * inverses) @ vectors.T).astype(np.float32)
    return inverse


def _dots(a: NDArray[Scalar], b: NDArray[Scalar]) -> NDArray[Scalar]:
    """The inner product of each column of ``a`` with its column of ``b``; the whole product is cheaper than a sum over rows."""
    products: NDArray[Scalar] = np.diagonal(a.T @ b)
    return products


def _lengths(block: Block) -> Block:
    """The length of each column, 1 where it vanishes."""
    lengths = np.sqrt(_dots(block, block))
    return np.where(lengths > 0, lengths, 1.0)


def _ratio(numerator: NDArray[Scalar], denominator: NDArray[Scalar]) -> NDArray[Scalar]:
    """numerator / denominator, 0 where the denominator is not positive (a column that is solved, an agent without edges)."""
    result: NDArray[Scalar] = np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator > 0)
    return result
