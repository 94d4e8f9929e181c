"""Principal component analysis over agents.

f_i(x) = -1/2 tr(x^T C_i x) over St(d, r) with C_i = (n / m) A_i^T A_i and m = sum_i m_i, so
G_i(x) = -C_i x. The answer is any orthonormal basis of the top-r eigenspace of C = (1/n) sum_i C_i,
the matrix of all samples together: every sample counts the same. With ``weights="agents"`` every
agent counts the same, however many samples it has: C_i = A_i^T A_i / m_i, the mean of the papers.
`decentorth.estimators.PCA` has the same two. For equally many samples of each agent both are the
same, bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
import scipy.linalg

from ...protocols import Array, Collective
from ...sets import Stiefel
from ...settings import Count, NotNegative, Positive, Share
from ..base import stream
from ..common import division
from ..common.checks import SparseOrArrays, samples
from ..common.division import Centred, Part, of_one_view, samples_of
from ..common.pooled_rows import Units, root, symmetric_total, with_spectrum
from ..common.pooled_rows import rows as number_of_rows
from ..common.squares import SquaresProblem, gram_numbers
from ..deferred import Deferred, Outline
from ..loadable import Loadable

log = logging.getLogger(__name__)
_SMALL = 1e-6
"""The share of the largest eigenvalue below which a covariance gives at most ten digits of an
eigenvalue."""
_LOST = 1e-9
"""The share of the largest singular value below which samples give at most seven digits of a gap
between singular values."""
Weights = Literal["agents", "samples"]
_LARGEST_OPTIMUM = 3000
"""The dimension above which the pooled matrix and its eigenvectors are not computed and no error is
reported."""


def subspace_distance(x: Array, basis: Array) -> float:
    """min over orthogonal R of ||x - basis R||_F for orthonormal ``(d, r)`` matrices, accurate also
    where it is tiny.

    From the principal angles t_k: sqrt(sum_k 4 sin(t_k / 2)^2). With s = h sin t and c = h cos t
    each term is 2 s^2 / (h (h + c)).
    """
    product = basis.T @ x
    cosines = np.linalg.svd(product, compute_uv=False)
    sines = np.linalg.svd(x - basis @ product, compute_uv=False)[::-1]
    lengths = np.sqrt(sines * sines + cosines * cosines)
    return float(np.sqrt((2.0 * sines * sines / (lengths * (lengths + cosines))).sum()))


class PCA(SquaresProblem[Stiefel], Loadable):
    """Principal components of the samples of all agents.

        f_i(x) = -n/(2m) tr(x^T A_i^T A_i x) over x^T x = I

    The n agents have m samples in all.

    Parameters
    ----------
    A
        Samples of each agent, ``(m_i, d)``, as a list or stack. They are not centred or scaled.
        Sparse matrices of SciPy stay sparse.
    rank
        The number r of components.
    weights
        ``"samples"`` counts every sample equally, as in one table. ``"agents"`` counts every agent
        equally: m_i n replaces m.
    n_agents
        Number of all agents. By default those of A.
    first_agent
        Number of the first agent of A among all agents.
    n_samples
        Number m of samples of all agents. Needed for ``"samples"`` if the samples of some agents
        only are given.

    Raises
    ------
    ValueError
        The number of all samples is needed, and not given.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 6)) * np.arange(1, 7)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> result = do.solve(problem, do.DeEPCA(), "ring", iterations=300)
    >>> bool(result.history["error"][-1] < 1e-6)
    True
    """

    _keeps_sparse = True
    columns = ((),)

    def __init__(
        self,
        A: SparseOrArrays,
        rank: int,
        *,
        weights: Weights = "samples",
        n_agents: int | None = None,
        first_agent: int = 0,
        n_samples: int | None = None,
    ):
        rows, d = samples("A", A, first_agent, sparse=True)
        n = n_agents or len(rows)
        if weights not in get_args(Weights):
            raise ValueError(f"weights must be 'agents' or 'samples', got {weights!r}")
        if weights == "samples" and n_samples is None and n > len(rows):
            raise ValueError(
                f"weights='samples' needs n_samples, the number of samples of all {n} agents, "
                f"of which {len(rows)} are given here; or take weights='agents'"
            )
        pooled = (n_samples or sum(map(len, rows))) / n
        each = np.array([-0.5 / (len(a) if weights == "agents" else pooled) for a in rows])
        super().__init__(rows, None, each, Stiefel(d, rank), n, first_agent)
        self.optimum: Array | None = None

    @classmethod
    def _of_all(
        cls, data: list[Array], collective: Collective, units: Sequence[Units]
    ) -> dict[str, object]:
        return {"n_samples": number_of_rows(data, collective, units)}

    def on(self, put: Callable[[Array], Array]) -> Self:
        placed = super().on(put)
        placed.optimum = None if self.optimum is None else put(self.optimum)
        return placed

    def product(self, x: Array) -> Array:
        """``(n_local, d, r)``, fresh: C_i x_i."""
        product = self.gradient(x)
        return np.negative(product, out=product)

    def answer(self) -> Array:
        """The leading eigenvectors of a single agent's C, ``(d, r)``."""
        d, r = self.shape
        vectors = scipy.linalg.eigh(-self.hessian()[0], subset_by_index=(d - r, d - 1))[1]
        return np.ascontiguousarray(vectors[:, ::-1])

    def find_answer(self, collective: Collective) -> None:
        """Compute the answer: the top-r eigenvectors of the pooled C, summed in agent order.

        Where the r-th eigenvalue of C is so small that most of its digits are lost, the singular
        vectors of the samples are used. Where the samples have lost them too, the answer stays
        unknown, and rank 0 prints a message.
        """
        d, r = self.constraint.shape
        if d > _LARGEST_OPTIMUM:
            return

        each = (h for _, part in self.blocks() for h in part.hessian())
        values, vectors = np.linalg.eigh(-symmetric_total(each, d, np.asarray, collective))
        values = values[::-1]
        vectors = vectors[:, ::-1]
        if r < d and values[r - 1] < _SMALL * values[0]:
            _, values, rows = np.linalg.svd(root(self.weighted_rows(), collective))
            if values[r - 1] - values[r] < _LOST * values[0]:
                self.optimum, self.error_name = None, ""
                if collective.rank == 0:
                    small = (
                        "components %d and %d are too small to distinguish: no error is reported"
                    )
                    log.warning(small, r, r + 1)
                return
            vectors = rows.T
        self.optimum = np.ascontiguousarray(vectors[:, :r])
        self.error_name = "subspace_distance"

    def error(self, xhat: Array) -> float:
        """The distance of the orthonormal ``(d, r)`` matrix from the closest basis of the answer,
        which `find_answer` computes."""
        if self.optimum is None:
            raise ValueError("the optimum is not known yet: find_answer() computes it")
        return subspace_distance(xhat, self.optimum)


@dataclass(frozen=True, kw_only=True)
class PCASettings(Centred):
    """Principal components of real data, its samples divided over the agents, or of generated data.

    Parameters
    ----------
    data
        The name of bundled data (digits), a file with one sample per row (.npy, .npz, .csv,
        svmlight, Matrix Market or idx; a sparse one stays sparse), or synthetic: Gaussian samples
        whose pooled singular values are replaced by s_1 gap^(j/2), s_1 being their own largest.
    rank
        How many components.
    weighting
        Every sample counts the same, as if all were in one place, or every agent does, however many
        samples it has.
    divide_by
        Divide all samples by this: 255 brings images of bytes to [0, 1].
    dimension
        Length of a sample (synthetic data).
    gap
        Ratio of successive eigenvalues of the pooled covariance (synthetic data).
    heterogeneity
        Each agent's Gaussian samples are first stretched along random orthogonal axes of its own,
        by factors that fall geometrically from 1 to 10^-heterogeneity; at 0 all agents' samples
        have one distribution. The pooled singular values are the same in any case (synthetic data).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, do.DeEPCA(), "ring", iterations=300)
    >>> bool(result.history["error"][-1] < 1e-3)
    True
    """

    data: str = "digits"
    rank: Count = 5
    center: division.Centering = False
    weighting: Weights = "samples"
    divide_by: Positive = 1.0
    dimension: Count = 10
    samples: division.AgentSamples = 1000
    gap: Share = 0.8
    heterogeneity: NotNegative = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data == "synthetic":
            Stiefel(self.dimension, self.rank)

    keeps_sparse = True
    _generators, _for_generated = ("synthetic",), ("dimension", "samples", "gap", "heterogeneity")

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples, or generates them."""
        total = n_agents * self.samples
        if self.data == "synthetic" and total < self.dimension:
            raise ValueError(
                f"{n_agents} agents with {self.samples} samples each have {total} in all, fewer "
                f"than dimension {self.dimension}: give more agents or samples"
            )

        def make(part: Part) -> PCA:
            weights = self.weighting
            return PCA(part.rows, self.rank, weights=weights, n_samples=part.total, **part.place)

        def outline(d: int) -> Outline:
            changed = self.data == "synthetic" or self.divide_by != 1.0
            point = d * self.rank
            return Outline(copies=1.0 + changed, more=lambda own: gram_numbers(own, d), point=point)

        source = samples_of(self, n_agents, seed, self.drawn)
        return of_one_view(source, make, outline, self.prepared)

    def features(self, n_agents: int, seed: int) -> Deferred:
        """The problem of agents that hold features of all samples: those of their own files, or
        consecutive columns of one file, which each rank reads whole."""
        from ..split_features import split_pca

        return split_pca(self, n_agents, seed)

    def drawn(self, n_agents: int, seed: int) -> division.Generated:
        """Gaussian samples of each agent from its own stream, stretched along its own axes."""
        d = self.dimension

        def draw(agent: int) -> tuple[Array]:
            rng = stream(seed, agent)
            a = rng.standard_normal((self.samples, d))
            if self.heterogeneity > 0.0:
                axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
                a = a @ ((axes * np.logspace(0.0, -self.heterogeneity, d)) @ axes.T)
            return (a,)

        return division.Generated([self.samples] * n_agents, d, draw, self.wanted)

    def prepared(self, rows: list[Array], collective: Collective) -> list[Array]:
        """The samples with the spectrum of synthetic ones, all divided by one number."""
        if self.data == "synthetic":
            rows = with_spectrum(rows, self.gap, None, collective)
        if self.divide_by != 1.0:
            rows = [a / self.divide_by for a in rows]
        return rows
