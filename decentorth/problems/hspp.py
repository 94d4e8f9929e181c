"""The hyperbolic structural probe: points whose ultrahyperbolic distances are near given ones, under J-orthogonality.

    f(x) = (1/m^2) sum_{i,j} (T_ij - d(q_i, q_j))^2,   q_i = phi(x^T d_i),   x^T J x = J

over the m rows d_i of D, with phi and d of `ultrahyperbolic`. Paper 001 prints q_i = x^T phi(d_i). That objective is constant:
x^T J x = J implies x J x^T = J, so <q_i, q_j>_q does not change with x.

f is not smooth: where <q_i, q_j>_q = +-alpha^2 the slope of d is infinite, and where it is 0 d has a kink. Pairs at distance zero
(i = j, equal rows) stay there whatever x is, so they count nothing in the gradient. No Lipschitz constant exists: methods find
their own by trial (J-JOBCD's backtracking). Where pairs are sampled, infinite slopes are infinite variance: smooth the distances.

As a finite sum over the N = m (m - 1) / 2 pairs i < j, f(x) = (1/N) sum_pairs (m - 1)/m (T_ij - d_ij)^2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ..protocols import Array, Collective, Index
from ..sets import JOrthogonal
from .base import AgentProblem, Deferred, Selection
from .checks import matrices
from .generated import stream
from .ultrahyperbolic import Ultrahyperbolic

PASS_BYTES = 1 << 19
"""The pairs are gone through in pieces of this size, which stay in cache."""


class HSPP(AgentProblem):
    """(1/m^2) sum_ij (T_ij - d(q_i, q_j))^2 over {x : x^T J x = J}, for a single agent.

    Parameters
    ----------
    D
        ``(m, n)``, m >= 2, no row zero.
    T
        ``(m, m)``: the wanted distances, symmetric, zero on the diagonal.
    signs
        ``(n,)``: the diagonal of J, +1 and -1 in any order.
    alpha
        The radius of curvature.
    smoothing
        Of the distances, see `ultrahyperbolic`; 0 for none.
    optimal_value
        The least value, where it is known.

    What is already float64 and C-contiguous may be referred to rather than copied: leave it as it is.

    Raises
    ------
    ValueError
        When shapes do not fit, T cannot be distances, a row of D is zero, or an entry is not finite.
    """

    constraint: JOrthogonal

    def __init__(
        self,
        D: Array,
        T: Array,
        signs: ArrayLike,
        alpha: float = 1.0,
        *,
        smoothing: float = 0.0,
        optimal_value: float | None = None,
    ) -> None:
        (self.rows,) = matrices("D", [D])
        (self.wanted,) = matrices("T", [T])
        constraint = JOrthogonal.with_signs(signs)
        m, n = self.rows.shape
        if constraint.shape[0] != n:
            raise ValueError(f"D has {n} columns, so J needs {n} signs, got {constraint.shape[0]}")
        _check_distances(self.wanted, m)
        zero = np.flatnonzero(np.abs(self.rows).max(-1) == 0.0)
        if len(zero):
            raise ValueError(f"rows of D must not be zero, which has no place on the manifold, but row {zero[0]} is")
        super().__init__(1, slice(0, 1), constraint)
        self.manifold = Ultrahyperbolic(constraint.signs, alpha, smoothing)
        self.optimal_value = optimal_value
        self.n_samples: Index = np.array([m * (m - 1) // 2], dtype=np.int64)

    def _take(self, local: Selection) -> None:
        """There is one agent."""

    def points(self, x: Array) -> Array:
        """``(m, n)``: q_i = phi(x^T d_i), from one point ``(n, n)``."""
        return self.manifold.points(self.rows @ x)

    def _pieces(self, q: Array) -> Iterator[tuple[int, int, Array, Array]]:
        """Rows ``start:end``, and of their pairs with the points from ``start`` on the products <q_i, q_j>_q and the rounding."""
        m, signed, sizes = len(q), q * self.constraint.signs, self.manifold.sizes(q)
        size = max(1, PASS_BYTES // (8 * m))
        for start in range(0, m, size):
            end = min(start + size, m)
            yield start, end, signed[start:end] @ q[start:].T, sizes[start:end, None] * sizes[start:]

    def distances(self, x: Array) -> Array:
        """``(m, m)``: d(q_i, q_j) at one point ``(n, n)``."""
        q = self.points(x)
        found = np.empty((len(q), len(q)))
        for start, end, products, sizes in self._pieces(q):
            found[start:end, start:] = self.manifold.distances(self.manifold.cosines(products, sizes)[0])
            found[end:, start:end] = found[start:end, end:].T
        return found

    def value(self, x: Array) -> Array:
        """``(1,)``."""
        total = 0.0
        for start, end, products, sizes in self._pieces(self.points(x[0])):
            gap = self.manifold.distances(self.manifold.cosines(products, sizes)[0])
            gap -= self.wanted[start:end, start:]
            gap *= gap
            gap[:, end - start :] *= 2.0
            total += float(gap.reshape(-1).sum(-1))
        return np.array([total / len(self.rows) ** 2])

    def _pull(self, products: Array, sizes: Array, wanted: Array) -> Array:
        """The slope of (T - d)^2 in each of the products."""
        u, sign = self.manifold.cosines(products, sizes)
        pull = self.manifold.distances(u)
        pull -= wanted
        pull *= self.manifold.steepness(u)
        pull *= sign
        pull *= 2.0
        return pull

    def gradient(self, x: Array) -> Array:
        """``(1, n, n)``; a kink's is 0."""
        y = self.rows @ x[0]
        q = self.manifold.points(y)
        signed, g = q * self.constraint.signs, np.zeros_like(q)
        for start, end, products, sizes in self._pieces(q):
            pull = self._pull(products, sizes, self.wanted[start:end, start:])
            g[start:end] += pull @ signed[start:]
            g[end:] += pull[:, end - start :].T @ signed[start:end]
        g *= 2.0 / len(q) ** 2
        return (self.rows.T @ self.manifold.pulled_back(y, g))[None]

    def pairs(self, numbers: Index) -> tuple[Index, Index]:
        """The points i and j of pairs by their numbers k, 0 to m (m - 1) / 2 - 1: i = k mod m, j = i + (k div m) + 1 mod m."""
        away, i = np.divmod(numbers, len(self.rows))
        return i, (i + away + 1) % len(self.rows)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(1, n, n)``: from the pairs ``batch``, ``(1, b)``, see `pairs`; its mean over random pairs is the gradient.

        Raises
        ------
        IndexError
            When there is no such pair.
        """
        numbers = batch[0]
        wrong = numbers[(numbers < 0) | (numbers >= self.n_samples[0])]
        if len(wrong):
            raise IndexError(f"pairs are numbered from 0 to {self.n_samples[0] - 1}, got {wrong[0]}")
        i, j = self.pairs(numbers)
        used, places = np.unique(np.concatenate((i, j)), return_inverse=True)
        first, second = places[: len(i)], places[len(i) :]
        y = self.rows[used] @ x[0]
        q = self.manifold.points(y)
        signed, sizes, b, m = q * self.constraint.signs, self.manifold.sizes(q), len(numbers), len(self.rows)
        products = (signed[first] * q[second]).sum(-1)
        pull = self._pull(products, sizes[first] * sizes[second], self.wanted[i, j])
        pull *= (m - 1) / (m * b)
        weights: Any = csr_array((pull, (first, second)), shape=(len(q), len(q)))
        g: Array = weights @ signed
        g += weights.T @ signed
        gradient: Array = self.rows[used].T @ self.manifold.pulled_back(y, g)
        return gradient[None]


def _check_distances(T: Array, m: int) -> None:
    if m < 2:
        raise ValueError("the structural probe needs at least two points, got a single row of D")
    if T.shape != (m, m):
        raise ValueError(f"D has {m} rows, so T must be {m} x {m}, got {T.shape[0]} x {T.shape[1]}")
    for wrong, what in ((np.diagonal(T) != 0.0, "zero on its diagonal"), ((T != T.T) | (T < 0.0), "symmetric, not negative")):
        at = np.argwhere(wrong)
        if len(at):
            i, j = int(at[0][0]), int(at[0][-1])
            raise ValueError(f"T must be {what}, but entry [{i}, {j}] is {T[i, j]:g} (entry [{j}, {i}] is {T[j, i]:g})")


def squared_distances(D: Array) -> Array:
    """``(m, m)``: ||d_i - d_j||^2, symmetric to the bit, zero on the diagonal, and exact for small integers."""
    squares = (D * D).sum(-1)
    gaps: Array = squares[:, None] + squares - 2.0 * (D @ D.T)
    gaps = np.maximum(np.maximum(gaps, gaps.T), 0.0)
    gaps[np.arange(len(D)), np.arange(len(D))] = 0.0
    return gaps


def random_tree(rng: np.random.Generator, m: int) -> Array:
    """``(m, m)``: of each node of a random recursive tree the edges on its way to the root, as zeros and ones (edge k is above node
    k). The number of edges between two nodes is the squared distance of their rows."""
    paths = np.zeros((m, m))
    for node in range(1, m):
        paths[node] = paths[int(rng.integers(node))]
        paths[node, node] = 1.0
    return paths


@dataclass(frozen=True, kw_only=True)
class HSPPSettings:
    """The hyperbolic structural probe, for a single agent.

    Parameters
    ----------
    data
        D: tree, the nodes of a random tree in a random projection; gaussian; or a file with one point a row (.npy, .npz, .csv,
        svmlight, Matrix Market).
    distances
        T: edges between the nodes (tree); euclidean distances of the rows of D; planted, those of a random feasible x, so that the
        least value is 0; or a file with a square matrix. auto: tree for tree, else euclidean.
    points
        m, the rows of D (tree and gaussian).
    dimension
        n, the length of a row (tree and gaussian).
    noise
        Standard deviation of the Gaussian noise added to a tree's nodes.
    positive
        How many signs of J are +1, the first ones; by default half. At least one must be -1.
    alpha
        The radius of curvature.
    smoothing
        s > 0 bounds the slope of the distances, d becoming sqrt(d^2 + s^2 alpha^2) - s alpha; 0 leaves them as they are.
    """

    data: str = "tree"
    distances: str = "auto"
    points: int = 100
    dimension: int = 20
    noise: float = 0.1
    positive: int | None = None
    alpha: float = 1.0
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.points < 2:
            raise ValueError(f"points must be at least 2, got {self.points}")
        if self.dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {self.dimension}")
        if not 0.0 <= self.noise < np.inf:
            raise ValueError(f"noise must be finite and not negative, got {self.noise}")
        if self.distances == "tree" and self.data != "tree":
            raise ValueError(f"distances of a tree need its data: choose data tree, got {self.data!r}")

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem, to be built where its one agent lives.

        Raises
        ------
        ValueError
            For several agents.
        """
        if n_agents != 1:
            raise ValueError(f"hspp is a problem for one agent (--agents 1), got {n_agents} agents")

        def build(agents: slice, collective: Collective) -> HSPP:
            with collective.together():
                return self._made(seed)

        return Deferred(1, build)

    def _made(self, seed: int) -> HSPP:
        from ..data import load_matrix, resolve

        rng, kind = stream(seed), self.distances
        if kind == "auto":
            kind = "tree" if self.data == "tree" else "euclidean"
        if self.data == "tree":
            paths = random_tree(rng, self.points)
            D = paths @ rng.standard_normal((self.points, self.dimension)) / np.sqrt(self.dimension)
            D += self.noise * rng.standard_normal(D.shape)
            if self.noise == 0.0:
                D = D[1:]  # the root is zero
                paths = paths[1:]
        elif self.data == "gaussian":
            D = rng.standard_normal((self.points, self.dimension))
        else:
            samples = resolve(self.data)
            D = samples.rows(np.arange(samples.shape[0]))
        n = D.shape[1]
        p = n // 2 if self.positive is None else self.positive
        if not 0 <= p < n:
            raise ValueError(f"positive must lie between 0 and {n - 1}, one less than the dimension, got {p}")
        constraint = JOrthogonal(p, n - p)
        if kind == "planted":
            plain = HSPP(D, np.zeros((len(D), len(D))), constraint.signs, self.alpha, smoothing=self.smoothing)
            T = plain.distances(constraint.random(rng))
            return HSPP(D, T, constraint.signs, self.alpha, smoothing=self.smoothing, optimal_value=0.0)
        if kind == "tree":
            T = squared_distances(paths)
        elif kind == "euclidean":
            T = np.sqrt(squared_distances(D))
        else:
            T = load_matrix(kind)
        return HSPP(D, T, constraint.signs, self.alpha, smoothing=self.smoothing)
