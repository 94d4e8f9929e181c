"""Robust subspace recovery: the holistic form of dual principal component pursuit (DPCP).

Samples a_j of R^n are inliers, in a subspace S of dimension d, and outliers. Over St(n, n - d)

    f_i(x) = (1/m_i) sum_j ||x^T a_j||_2,    G_i(x) = (1/m_i) A_i^T diag(1/||x^T a_j||) A_i x

with 0 for samples whose product is 0: a subgradient. A minimiser spans the orthogonal complement of
S where the inliers are spread and the outliers are not too many (Ding, Zhu, Vidal, Robinson, "Dual
principal component pursuit for robust subspace learning: theory and algorithms for a holistic
approach", ICML 2021). The experiment of paper 002 (Cheung, Wang, Yue, So, "Randomized submanifold
subgradient method for optimization over Stiefel manifolds", Section 5.1) starts at the bottom
eigenvectors of the second moments.

With orthonormal inlier coefficients and outliers, as printed there, the second moments are S S^T +
I, and that start is the answer. With unit-norm samples it is not, and the published figures come
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from decentorth.data import partition
from decentorth.problems.base import stream
from decentorth.problems.common.checks import SparseOrArrays, agent_weights, samples
from decentorth.problems.common.division import (
    DividedSettings,
    Part,
    SampleFile,
    even_counts,
    of_one_view,
    samples_of,
)
from decentorth.problems.common.once import ComputedOnce
from decentorth.problems.common.pooled_rows import symmetric_total, with_spectrum
from decentorth.problems.common.rows import RowLosses
from decentorth.problems.common.sparse_rows import SparseRows
from decentorth.problems.deferred import Deferred, Outline
from decentorth.problems.loadable import Loadable
from decentorth.protocols import Array, Collective, Index, SubgradientSettings
from decentorth.sets import Stiefel
from decentorth.settings import Count, Range, check

STALE = 1e-3
"""The share of its largest value since the last summation below which a squared norm is summed
again."""


def complement_distance(x: Array, subspace: Array) -> float:
    """min over bases B of the complement of ``subspace``, ``(n, d)``, of ||x - B||_F, x ``(n, p)``,
    p <= n - d, both orthonormal.

    It is accurate also where it is tiny. Paper 002 has sqrt(2 (p - ||(I - S S^T) x||_*)): the
    singular values of (I - S S^T) x are cosines, those of S^T x the sines s of the same angles, and
    1 - cos = s^2 / (1 + cos).
    """
    sines = np.minimum(np.linalg.svd(subspace.T @ x, compute_uv=False), 1.0)
    squares = sines * sines
    return float(np.sqrt(2.0 * (squares / (1.0 + np.sqrt(1.0 - squares))).sum(-1)))


class RobustSubspaceRecovery(RowLosses[Stiefel], Loadable):
    """Robust subspace recovery: a basis of the complement of the inliers' subspace.

        f_i(x) = (w_i/m_i) sum_j ||x^T a_j||_2 over x^T x = I

    x has n - rank columns.

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, n)``, one matrix per agent, used unchanged (the rows are
        the columns of paper 002's Y).
    rank
        Dimension d of the subspace, from 1 to n - 1.
    subspace
        ``(n, d)``: an orthonormal basis of the inliers' subspace, if it is known; then the error is
        ``complement_distance``.
    weights
        ``(n_local,)``: w_i, by default 1. With m_i over the mean of all m_i every sample, not every
        agent, has the same weight.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> inliers = rng.standard_normal((90, 2)) @ np.eye(2, 5)
    >>> outliers = rng.standard_normal((30, 5))
    >>> samples = rng.permutation(np.vstack([inliers, outliers]))
    >>> parts = np.array_split(do.problems.on_sphere(samples), 4)
    >>> problem = do.problems.RobustSubspaceRecovery(parts, 2)
    >>> result = do.solve(problem, do.DRSM(), "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    nonsmooth = True
    _keeps_sparse = True
    moments: Array | None
    """``(n, n)``: sum_i w_i A_i^T A_i / m_i over all agents, once `prepare` has added them up."""

    def __init__(
        self,
        A: SparseOrArrays,
        rank: int,
        *,
        subspace: Array | None = None,
        weights: Sequence[float] | Array | None = None,
        n_agents: int | None = None,
        first_agent: int = 0,
    ):
        rows, n = samples("A", A, first_agent, sparse=True)
        if not 1 <= check("rank", int, rank) < n:
            raise ValueError(
                f"rank, the dimension of the subspace, must be from 1 to {n - 1} for samples of "
                f"length {n}, got {rank}"
            )
        if subspace is not None and subspace.shape[0] != n:
            raise ValueError(f"subspace must have {n} rows, got shape {subspace.shape}")
        own = agent_weights(weights, len(rows)) / np.array([len(a) for a in rows])
        super().__init__(rows, own, Stiefel(n, n - rank), n_agents, first_agent)
        self.subspace = subspace
        self.error_name = "" if subspace is None else "complement_distance"
        self._width = max(len(a) for a in rows)
        self.moments = None

    @staticmethod
    def losses(products: Array) -> Array:
        """Return the norms ||x^T a_j|| of all samples, from products ``(n, b, c)``, as ``(n,
        b)``."""
        return np.sqrt((products * products).sum(-1))

    @staticmethod
    def differentiate(products: Array) -> None:
        """Divide every sample's product by its norm."""
        products *= _inverse_root((products * products).sum(-1))[..., None]

    @property
    def weak_convexity(self) -> Array:
        """``(n_local,)``: 0, since f_i is convex."""
        return np.zeros(self.n_local)

    @property
    def lipschitz_value(self) -> Array:
        """``(n_local,)``: w_i ||A_i||_2 / sqrt(m_i), which bounds w_i ||A_i^T U||_F / m_i where U
        has rows of norm 1."""
        return self._weights * np.sqrt(self.n_samples * self.largest)

    def cache(self, x: Array) -> Array:
        """``(n_local, p + 2, m)``, m the most samples of an agent: A_i x by columns, the squared
        norms of its rows, their maxima.

        The maximum of a squared norm is over the time since it was last summed, see `STALE`.
        """
        p = x.shape[-1]
        cache = np.zeros((len(x), p + 2, self._width))
        xt = x.swapaxes(-1, -2)
        for local, (a,) in self._rows:
            own = cache[local, :, : a.shape[-2]]
            own[:, :p] = xt[local] @ a.swapaxes(-1, -2)
            own[:, p] = own[:, p + 1] = (own[:, :p] * own[:, :p]).sum(1)
        return cache

    def refresh(self, cache: Array, x: Array, columns: Index) -> None:
        """Multiply the samples with the new columns and correct the squared norms by the
        difference."""
        p = x.shape[-1]
        points = np.ascontiguousarray(x.take(columns, -1).swapaxes(-1, -2))
        for local, (a,) in self._rows:
            own = cache[local, :, : a.shape[-2]]
            new = points[local] @ a.swapaxes(-1, -2)
            change = own.take(columns, 1)
            own[:, columns] = new
            change *= change
            new *= new
            new -= change
            own[:, p] += new.sum(1)
            np.maximum(own[:, p + 1], own[:, p], out=own[:, p + 1])
            agent, sample = np.nonzero(own[:, p] < STALE * own[:, p + 1])
            products = np.ascontiguousarray(own[agent, :p, sample])
            own[agent, p, sample] = own[agent, p + 1, sample] = (products * products).sum(-1)

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """``(n_local, n, c)``: (w_i/m_i) A_i^T diag(1/||x^T a_j||) A_i x_C, with one product."""
        p = x.shape[-1]
        out = np.empty((len(x), len(columns), x.shape[1]))
        for local, (a,) in self._rows:
            own = cache[local, :, : a.shape[-2]]
            products = own.take(columns, 1)
            products *= _inverse_root(own[:, p])[:, None]
            out[local] = products @ a
        out *= self._weights[:, None, None]
        return np.ascontiguousarray(out.swapaxes(-1, -2))

    def flops(self, columns: int) -> Array:
        """``(n_local,)``: the operations of two products with samples for ``columns`` columns, and
        five an entry for norms."""
        return (self.n_samples * ((4 * self.shape[0] + 5) * columns)).astype(np.float64)

    def subgradient_settings(self, blocks: int) -> SubgradientSettings:
        """Return the settings of paper 002, for samples of norm 1.

        With more than five blocks, the first steps are limited to five times those of one block.
        With ten blocks and steps 45 times as long, the method moved away from the start and did
        not return on four seeds of ten. With steps limited to ten times, this happened on one
        seed.
        """
        if blocks == 1:
            return SubgradientSettings("square-summable:initial=0.9")
        printed = f"annealed:initial=0.9,pairs={blocks * (blocks - 1) // 2},power=2.0,ratio=0.991"
        return SubgradientSettings(printed if blocks <= 5 else f"{printed},cap=5.0")

    def prepare(self, collective: Collective) -> None:
        """Compute the second moments of all agents, sum_i w_i A_i^T A_i / m_i, for the start."""
        n = self.shape[0]

        def each() -> Iterator[Array]:
            for local, (stack,) in self._rows:
                tables = [stack] if isinstance(stack, SparseRows) else stack
                for a, weight in zip(tables, self._weights[local], strict=True):
                    yield weight * (a.T @ a)

        self.moments = symmetric_total(each(), n, np.asarray, collective)
        self._width = int(collective.max(float(self._width)))

    def start(self, seed: int) -> Array:
        """``(n, n - rank)``: the eigenvectors with the smallest eigenvalues of the second moments
        of all agents."""
        if self.moments is None:
            raise ValueError("the second moments are not known yet: prepare() adds them up")
        return np.ascontiguousarray(np.linalg.eigh(self.moments)[1][:, : self.shape[1]])

    def error(self, xhat: Array) -> float:
        """The distance of the orthonormal ``(n, n - rank)`` matrix from the closest basis of the
        complement of a known subspace."""
        if self.subspace is None:
            raise ValueError("the subspace is known for generated data, or given as subspace")
        return complement_distance(xhat, self.subspace)


def _inverse_root(squares: Array) -> Array:
    """The inverse root of every positive entry, 0 for the others."""
    positive = squares > 0.0
    return positive / np.sqrt(np.where(positive, squares, 1.0))


@dataclass(frozen=True, kw_only=True)
class RSRSettings(DividedSettings):
    """Robust subspace recovery: generated as in paper 002, Section 5.1, or from a user's samples.

    Parameters
    ----------
    dimension
        n (generated data).
    rank
        Dimension d of the inliers' subspace; x has dimension - d columns.
    inliers
        Samples in the subspace, of all agents together (generated data).
    outliers
        Samples anywhere, of all agents together (generated data).
    points
        Where generated samples lie: on the sphere (inliers on that of the subspace), uniformly; or
        orthonormal, as printed in the paper: the coefficients of all inliers, and all outliers, are
        orthonormal rows, with which the start is the answer.
    normalize
        Divide each of the file's samples by its norm.
    partition
        As for files; the labels of generated data are inlier and outlier.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.RSRSettings(dimension=20, rank=3).problem(4, seed=0)
    >>> result = do.solve(problem, do.DRSM(), "ring", iterations=200)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    keeps_sparse = True

    dimension: Count = 100
    rank: Count = 10
    inliers: Count = 1500
    outliers: Annotated[int, Range(least=0)] = 3500
    points: Literal["sphere", "orthonormal"] = "sphere"
    data: SampleFile | None = None
    normalize: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data is not None:
            return
        if self.rank >= self.dimension:
            raise ValueError(f"rank must be below dimension, got {self.rank} and {self.dimension}")
        if self.inliers < self.rank:
            raise ValueError(f"inliers must be at least {self.rank}, got {self.inliers}")
        if self.points == "orthonormal" and 0 < self.outliers < self.dimension:
            raise ValueError(
                f"orthonormal outliers must be at least dimension = {self.dimension}, got "
                f"{self.outliers}"
            )

    _for_generated = "dimension", "inliers", "outliers", "points"
    _for_files = "labels", "normalize", "scale", "missing"

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples, or generates them."""
        if self.data is None:
            return self._generated(n_agents, seed)

        def prepare(rows: list[Array], collective: Collective) -> list[Array]:
            return [on_sphere(a) for a in rows] if self.normalize else rows

        def make(part: Part) -> RobustSubspaceRecovery:
            return RobustSubspaceRecovery(part.rows, self.rank, **part.place)

        def outline(d: int) -> Outline:
            return Outline(copies=1.0 + self.normalize, point=d * self.rank)

        return of_one_view(samples_of(self, n_agents, seed), make, outline, prepare)

    def _generated(self, n_agents: int, seed: int) -> Deferred:
        total = self.inliers + self.outliers

        @ComputedOnce
        def divided() -> tuple[Index, list[Index]]:
            labels = (np.arange(total) >= self.inliers).astype(np.int64)
            return labels, partition(
                self.partition, total, n_agents, labels, seed, self.dirichlet_alpha, self.shuffle
            )

        def problem(rows: list[Array], agents: slice, subspace: Array) -> RobustSubspaceRecovery:
            return RobustSubspaceRecovery(
                rows, self.rank, subspace=subspace, n_agents=n_agents, first_agent=agents.start
            )

        def build(agents: slice, collective: Collective) -> RobustSubspaceRecovery:
            labels, parts = divided()
            subspace = Stiefel(self.dimension, self.rank).random(stream(seed))
            generators = [stream(seed, agent) for agent in range(agents.start, agents.stop)]
            counts = [int(sum(labels[numbers].tolist())) for numbers in parts[agents]]
            sizes = [len(numbers) for numbers in parts[agents]]
            drawn = list(zip(generators, sizes, counts, strict=True))
            inside = [rng.standard_normal((m - out, self.rank)) for rng, m, out in drawn]
            outside = [rng.standard_normal((out, self.dimension)) for rng, _, out in drawn]
            if self.points == "sphere":
                inside = [on_sphere(a) for a in inside]
                outside = [on_sphere(a) for a in outside]
            else:
                inside = with_spectrum(inside, 1.0, 1.0, collective)
                outside = with_spectrum(outside, 1.0, 1.0, collective) if self.outliers else outside
            pairs = zip(inside, outside, strict=True)
            both = [np.concatenate([a @ subspace.T, b]) for a, b in pairs]
            rows = [rng.permutation(a) for rng, a in zip(generators, both, strict=True)]
            return problem(rows, agents, subspace)

        def stand_in(rows: list[Array], agents: slice, _: Collective) -> RobustSubspaceRecovery:
            return problem(rows, agents, np.eye(self.dimension, self.rank))

        def outline() -> Outline:
            counts = even_counts(total, n_agents)
            if self.partition != "even":
                counts = [len(part) for part in divided()[1]]
            point = self.dimension * self.rank
            return Outline(counts, self.dimension, 2.0, made=stand_in, point=point)

        return Deferred(n_agents, build, outline)


def on_sphere(a: Any) -> Any:
    """The rows of ``(m, n)`` divided by their norms; rows of zeros stay zero."""
    squares = a.row_squares() if isinstance(a, SparseRows) else (a * a).sum(-1)
    return a * _inverse_root(squares)[:, None]
