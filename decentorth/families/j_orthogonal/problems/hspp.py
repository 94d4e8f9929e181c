"""The hyperbolic structural probe: points whose ultrahyperbolic distances are near given ones,
under J-orthogonality.

    f(x) = (1/m^2) sum_{i,j} (T_ij - d(q_i, q_j))^2,   q_i = phi(x^T d_i),   x^T J x = J

over the m rows d_i of D, with phi and d of `ultrahyperbolic`. Paper 001 prints q_i = x^T phi(d_i).
That objective is constant: x^T J x = J implies x J x^T = J, so <q_i, q_j>_q does not change with x.

f is not smooth: where <q_i, q_j>_q = +-alpha^2 the slope of d is infinite, and where it is 0 d has
a kink. Pairs at distance zero (i = j, equal rows) stay there for every x, so they do not contribute
to the gradient. No Lipschitz constant exists: methods find step sizes by trial (J-JOBCD's
backtracking). Where pairs are sampled, infinite slopes give infinite variance: smooth the
distances.

As a finite sum over the N = m (m - 1) / 2 pairs i < j, f(x) = (1/N) sum_pairs (m - 1)/m (T_ij -
d_ij)^2. In blocks, one for each of n agents, block b has the pairs whose i is in the b-th of n runs
of rows, about equally many: f is the mean of f_b(x) = (2 n/m^2) sum_pairs (T_ij - d_ij)^2 over its
own pairs. Every agent has D; each has its own rows of T.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from decentorth.data import load_matrix
from decentorth.problems.base import AgentProblem, Selection, selected, stream
from decentorth.problems.common.checks import matrices
from decentorth.problems.deferred import Deferred, Outline, on_each_rank
from decentorth.protocols import Array, Index
from decentorth.settings import Count, NotNegative, Range

from ..sets.j_orthogonal import JOrthogonal
from .drawn_samples import DrawnSamples, DrawnSettings
from .signed_settings import SignedSettings
from .ultrahyperbolic import Ultrahyperbolic

PASS_BYTES = 1 << 19
"""The bytes of a piece of the pairs, small enough to stay in cache."""


class HSPP(AgentProblem[JOrthogonal]):
    """The hyperbolic structural probe of one agent: points at given distances.

        f(x) = (1/m^2) sum_ij (T_ij - d(q_i, q_j))^2 over x^T J x = J

    q_i = phi(x^T d_i) for the m rows d_i of D, with phi and d of `ultrahyperbolic`.

    Parameters
    ----------
    D
        ``(m, n)``, m >= 2, no row zero.
    T
        ``(m, m)``: the wanted distances, symmetric, zero on the diagonal.
    signs
        ``(n,)``: the diagonal of J, +1 and -1 in any order.
    alpha, smoothing
        The radius of curvature, and the smoothing of the distances, see `ultrahyperbolic`; 0 for
        none.
    optimal_value
        The least value, where it is known.
    n_blocks
        The number of blocks of pairs, at most m/2; each block is the share of one agent.

    Raises
    ------
    ValueError
        When shapes do not fit, T cannot be distances, a row of D is zero, an entry is not finite,
        or there are too many blocks.

    Attributes
    ----------
    rows
        D.
    wanted
        The rows of T of each local block, from the column of its first row on.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> D = np.random.default_rng(0).standard_normal((8, 4))
    >>> T = np.abs(np.subtract.outer(D[:, 0], D[:, 0]))
    >>> problem = do.problems.HSPP(D, T, [1, 1, -1, -1])
    >>> result = do.solve(problem, do.CSDM(), iterations=50)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    def __init__(
        self,
        D: Array,
        T: Array,
        signs: ArrayLike,
        alpha: float = 1.0,
        *,
        smoothing: float = 0.0,
        optimal_value: float | None = None,
        n_blocks: int = 1,
    ) -> None:
        (self.rows,) = matrices("D", [D])
        (wanted,) = matrices("T", [T])
        constraint = JOrthogonal.with_signs(signs)
        m, n = self.rows.shape
        if constraint.shape[0] != n:
            raise ValueError(f"D has {n} columns, so J needs {n} signs, got {constraint.shape[0]}")
        _check_distances(wanted, m)
        most = max(1, m // 2)
        if not 1 <= n_blocks <= most:
            raise ValueError(f"pairs of {m} points make from 1 to {most} blocks, got {n_blocks}")
        zero = np.flatnonzero(np.abs(self.rows).max(-1) == 0.0)
        if len(zero):
            raise ValueError(f"rows of D must not be zero, off the manifold, but row {zero[0]} is")
        super().__init__(n_blocks, slice(0, n_blocks), constraint)
        self.manifold = Ultrahyperbolic(constraint.signs, alpha, smoothing)
        self.optimal_value = optimal_value
        ahead = np.arange(m) * (2 * m - 1 - np.arange(m)) // 2
        """The number of pairs of all earlier rows, for each row."""
        first = np.searchsorted(n_blocks * ahead, np.arange(n_blocks) * ahead[-1])
        self._runs = [*pairwise([*first.tolist(), m])]
        self._ahead = ahead
        self.wanted = [np.ascontiguousarray(wanted[start:end, start:]) for start, end in self._runs]
        self.n_samples: Index = np.diff([*ahead[first], ahead[-1]])

    def _take(self, local: Selection) -> None:
        self._runs, self.wanted = selected(self._runs, local), selected(self.wanted, local)
        self.n_samples = self.n_samples[local]

    def points(self, x: Array) -> Array:
        """``(m, n)``: q_i = phi(x^T d_i), from one point ``(n, n)``."""
        return self.manifold.points(self.rows @ x)

    def _placed(self, x: Array) -> Iterator[tuple[int, Array, Array]]:
        """The number of each local block, with y = D x and q = phi(y), which blocks at the same
        point share."""
        for block, point in enumerate(x):
            if block == 0 or not np.array_equal(point, x[block - 1]):
                y = self.rows @ point
                q = self.manifold.points(y)
            yield block, y, q

    def _pieces(self, q: Array, run: tuple[int, int]) -> Iterator[tuple[int, int, Array, Array]]:
        """Rows ``start:end`` of a run in pieces, with the products and sizes of their pairs with
        the points from ``start`` on."""
        signed = q * self.constraint.signs
        sizes = self.manifold.sizes(q)
        size = max(1, PASS_BYTES // (8 * len(q)))
        for start in range(*run, size):
            end = min(start + size, run[1])
            yield (
                start,
                end,
                signed[start:end] @ q[start:].T,
                sizes[start:end, None] * sizes[start:],
            )

    def distances(self, x: Array) -> Array:
        """``(m, m)``: d(q_i, q_j) at one point ``(n, n)``."""
        q = self.points(x)
        found = np.empty((len(q), len(q)))
        for start, end, products, sizes in self._pieces(q, (0, len(q))):
            u, _ = self.manifold.cosines(products, sizes)
            found[start:end, start:] = self.manifold.distances(u)
            found[end:, start:end] = found[start:end, end:].T
        return found

    def value(self, x: Array) -> Array:
        found = np.zeros(len(x))
        for block, _, q in self._placed(x):
            run = self._runs[block]
            for start, end, products, sizes in self._pieces(q, run):
                gap = self.manifold.distances(self.manifold.cosines(products, sizes)[0])
                gap -= self.wanted[block][start - run[0] : end - run[0], start - run[0] :]
                gap *= gap
                gap[:, end - start :] *= 2.0
                found[block] += float(gap.reshape(-1).sum(-1))
        found *= self.n_agents / len(self.rows) ** 2
        return found

    def _pull(self, products: Array, sizes: Array, wanted: Array) -> Array:
        """The derivative of (T - d)^2 with respect to each product."""
        u, sign = self.manifold.cosines(products, sizes)
        pull = self.manifold.distances(u)
        pull -= wanted
        pull *= self.manifold.steepness(u)
        pull *= sign
        pull *= 2.0
        return pull

    def gradient(self, x: Array) -> Array:
        """``(n_local, n, n)``: the gradients; kinks contribute 0."""
        found = np.empty_like(x)
        for block, y, q in self._placed(x):
            run = self._runs[block]
            signed = q * self.constraint.signs
            first = run[0]
            g = np.zeros((len(q) - run[0], q.shape[1]))
            for start, end, products, sizes in self._pieces(q, run):
                wanted = self.wanted[block][start - first : end - first, start - first :]
                pull = self._pull(products, sizes, wanted)
                g[start - first : end - first] += pull @ signed[start:]
                g[end - first :] += pull[:, end - start :].T @ signed[start:end]
            g *= 2.0 * self.n_agents / len(q) ** 2
            np.matmul(
                self.rows[first:].T, self.manifold.pulled_back(y[first:], g), out=found[block]
            )
        return found

    def pairs(self, numbers: Index, block: int = 0) -> tuple[Index, Index]:
        """The points i and j > i of the pairs ``numbers`` of a local block; pairs are numbered from
        0, row by row."""
        numbers = numbers + self._ahead[self._runs[block][0]]
        i = np.searchsorted(self._ahead, numbers, side="right") - 1
        return i, numbers - self._ahead[i] + i + 1

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, n, n)``: from the pairs ``batch``, ``(n_local, b)``, see `pairs`; its mean
        over random pairs is the gradient.

        An IndexError says that there is no such pair.
        """
        found = np.empty_like(x)
        m = len(self.rows)
        blocks = zip(x, batch, self.n_samples.tolist(), strict=True)
        for block, (point, numbers, number) in enumerate(blocks):
            wrong = numbers[(numbers < 0) | (numbers >= number)]
            if len(wrong):
                raise IndexError(f"pairs are numbered from 0 to {number - 1}, got {wrong[0]}")
            i, j = self.pairs(numbers, block)
            used, places = np.unique(np.concatenate((i, j)), return_inverse=True)
            first = places[: len(i)]
            second = places[len(i) :]
            y = self.rows[used] @ point
            q = self.manifold.points(y)
            signed = q * self.constraint.signs
            sizes = self.manifold.sizes(q)
            products = (signed[first] * q[second]).sum(-1)
            start = self._runs[block][0]
            wanted = self.wanted[block][i - start, j - start]
            pull = self._pull(products, sizes[first] * sizes[second], wanted)
            pull *= 2.0 * self.n_agents * number / (m * m * len(numbers))
            weights: Any = csr_array((pull, (first, second)), shape=(len(q), len(q)))
            g: Array = weights @ signed
            g += weights.T @ signed
            np.matmul(self.rows[used].T, self.manifold.pulled_back(y, g), out=found[block])
        return found


def _check_distances(T: Array, m: int) -> None:
    if m < 2:
        raise ValueError("the structural probe needs at least two points, got a single row of D")
    if T.shape != (m, m):
        raise ValueError(f"D has {m} rows, so T must be {m} x {m}, got {T.shape[0]} x {T.shape[1]}")
    wrong = np.argwhere((T != T.T) | (T < 0.0) | (np.eye(m) * T != 0.0))
    if len(wrong):
        i, j = wrong[0]
        raise ValueError(
            f"T must be symmetric, not negative, and zero on its diagonal, but entry [{i}, {j}] is "
            f"{T[i, j]:g} (entry [{j}, {i}] is {T[j, i]:g})"
        )


def squared_distances(D: Array) -> Array:
    """``(m, m)``: ||d_i - d_j||^2, symmetric to the bit, zero on the diagonal, and exact for small
    integers."""
    squares = (D * D).sum(-1)
    gaps = squares[:, None] + squares - 2.0 * (D @ D.T)
    gaps = np.maximum(np.maximum(gaps, gaps.T), 0.0)
    np.fill_diagonal(gaps, 0.0)
    return gaps


def random_tree(rng: np.random.Generator, m: int) -> Array:
    """``(m, m)``: zeros and ones that mark, for each node of a random recursive tree, the edges on
    its way to the root.

    Edge k is above node k. The number of edges between two nodes is the squared distance of their
    rows.
    """
    paths = np.zeros((m, m))
    for node in range(1, m):
        paths[node] = paths[int(rng.integers(node))]
        paths[node, node] = 1.0
    return paths


@dataclass(frozen=True, kw_only=True)
class HSPPSettings(SignedSettings, DrawnSettings):
    """The hyperbolic structural probe, for a single agent.

    Parameters
    ----------
    data
        D: tree, the nodes of a random tree in a random projection; gaussian; or a file with one
        point a row (.npy, .npz, .csv, svmlight, Matrix Market).
    distances
        T: edges between the nodes (tree); euclidean distances of the rows of D; squared, their
        squares; planted, those of a random feasible x, so that the least value is 0; or a file with
        a square matrix. auto: tree for tree, else euclidean.
    points
        m, the rows of D (tree and gaussian).
    dimension
        n, the length of a row (tree and gaussian).
    noise
        Standard deviation of the Gaussian noise added to a tree's nodes.
    alpha
        The radius of curvature.
    smoothing
        s > 0 bounds the slope of the distances, d becoming sqrt(d^2 + s^2 alpha^2) - s alpha; 0
        leaves them as they are.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HSPPSettings(dimension=6).problem(1, seed=0)
    >>> result = do.solve(problem, do.CSDM(), iterations=50)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    data: str = "tree"
    distances: str = "auto"
    points: Annotated[int, Range(least=2)] = 100
    dimension: Count = 20
    noise: NotNegative = 0.1
    alpha: float = 1.0
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distances == "tree" and self.data != "tree":
            raise ValueError(f"distances of a tree need data tree, got {self.data!r}")

    _generators, _for_generated = ("tree", "gaussian"), ("points", "dimension")

    def in_blocks(self, n_blocks: int, seed: int) -> Deferred:
        """The problem with the pairs in blocks, see `HSPP`; each rank keeps its own rows of T."""

        def outline() -> Outline:
            m = self.points
            n = self.dimension
            if self.from_file:
                m, n = DrawnSamples(self.data, self, seed, with_entries=True).shape
            return Outline([0] * n_blocks, more=lambda own: m * (n + 2 * m))

        return on_each_rank(n_blocks, lambda own: self._made(n_blocks, seed).restrict(own), outline)

    def _made(self, n_blocks: int, seed: int) -> HSPP:
        rng = stream(seed)
        kind = self.distances
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
            samples = DrawnSamples(self.data, self, seed, with_entries=True)
            D = samples.rows(np.arange(samples.shape[0]))
        n = D.shape[1]
        constraint = self._constraint(n, n - 1)
        value = None
        made = partial(HSPP, D, signs=constraint.signs, alpha=self.alpha, smoothing=self.smoothing)
        if kind == "planted":
            plain = made(np.zeros((len(D), len(D))))
            upper = np.triu(plain.distances(constraint.random(rng)), 1)
            value = 0.0
            T = upper + upper.T  # products of matrices need not be symmetric to the bit
        elif kind == "tree":
            T = squared_distances(paths)
        elif kind == "euclidean":
            T = np.sqrt(squared_distances(D))
        elif kind == "squared":
            T = squared_distances(D)
        else:
            T = load_matrix(kind)
        return made(T, optimal_value=value, n_blocks=n_blocks)
