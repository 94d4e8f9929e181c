"""Sparse canonical correlations: the covariance of two views' scores, plus a term of the
directions.

With an agent's samples of two views, A_i ``(m_i, p)`` and B_i ``(m_i, q)``, and z = (x; y) in
St(p + q, r),

    f_i(z) = -(1/m_i) tr(x^T A_i^T B_i y) + mu h(z)     G_i(z) = -(1/m_i) (A_i^T B_i y; B_i^T A_i x), without the term

As in Witten, Tibshirani, Hastie, "A penalized matrix decomposition, with applications to sparse
principal components and canonical correlation analysis", Biostatistics 2009, the covariance of each
view is taken as I, so columns should have equal variances. There x^T x = I and y^T y = I. Here z^T
z = I: without a term the answer is (u; v)/sqrt(2), u and v the leading singular vectors of the mean
of A_i^T B_i / m_i, and with one the two parts of a column may have different lengths. All entries
are 0 for no mu: z stays on the manifold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decentorth.families.generalized.problems.cca_settings import TwoViews, View
from decentorth.problems.common.checks import SparseOrArrays, samples
from decentorth.problems.common.division import DataPlace, PooledPlace
from decentorth.problems.common.sparse_rows import beside
from decentorth.problems.common.with_term import LiftedLosses, Term, WithTerm
from decentorth.problems.deferred import Deferred
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from decentorth.settings import NotNegative


class _Covariances(LiftedLosses):
    """Products of the scores of two views; a sample is (a_j, b_j), and its products are (x^T a_j,
    y^T b_j)."""

    first = 1
    """p, the columns of the first view."""

    def lift(self, x: Array) -> Array:
        (n, d, r), p = x.shape, self.first
        lifted = np.zeros((n, d, 2 * r))
        lifted[:, :p, :r], lifted[:, p:, r:] = x[:, :p], x[:, p:]
        return lifted

    def lower(self, gradient: Array) -> Array:
        r = gradient.shape[2] // 2
        p = self.first
        return np.concatenate((gradient[:, :p, :r], gradient[:, p:, r:]), axis=1)

    @staticmethod
    def losses(products: Array) -> Array:
        """Minus the products of the scores."""
        r = products.shape[-1] // 2
        return -products[..., :r] * products[..., r:]

    @staticmethod
    def differentiate(products: Array) -> None:
        """Replace each view's scores by minus those of the other."""
        r = products.shape[-1] // 2
        products[...] = -np.concatenate((products[..., r:], products[..., :r]), axis=-1)


class SparseCCA(WithTerm):
    """Sparse canonical correlations of two views of samples at agents.

        f_i(z) = -(1/m_i) tr(x^T A_i^T B_i y) + mu h(z) over z^T z = I

    z is x above y.

    Parameters
    ----------
    A, B
        Lists or stacks of samples ``(m_i, p)`` and ``(m_i, q)`` of the two views, row for row.
        Nothing is centred or scaled.
    rank
        The number r of pairs of directions.
    mu, term
        Weight and kind of the term, as for `SparsePCA`.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 8)) * np.arange(1, 9)
    >>> first = np.array_split(samples[:, :4], 4)
    >>> second = np.array_split(samples[:, 4:] + samples[:, :4], 4)
    >>> problem = do.problems.SparseCCA(first, second, 2, mu=0.1)
    >>> method = do.PREXTRA()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    def __init__(
        self,
        A: SparseOrArrays,
        B: SparseOrArrays,
        rank: int,
        mu: float,
        *,
        term: Term = "l1",
        n_agents: int | None = None,
        first_agent: int = 0,
    ) -> None:
        left, p = samples("A", A, first_agent, sparse=True)
        right, q = samples("B", B, first_agent, sparse=True)
        if [len(a) for a in left] != [len(b) for b in right]:
            raise ValueError("A and B must have equally many samples of each agent, row for row")
        both = [beside(*pair) for pair in zip(left, right, strict=True)]
        weights = [1.0 / len(a) for a in both]
        smooth = _Covariances(both, weights, Stiefel(p + q, rank), n_agents, first_agent)
        smooth.first = p
        super().__init__(smooth, mu, term=term)


@dataclass(frozen=True, kw_only=True)
class SparseCCASettings(TwoViews):
    """Sparse canonical correlations of two views, from files or generated.

    Parameters
    ----------
    mu
        Weight of the directions' l1 norm.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.SparseCCASettings(rank=2)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRProxGT()
    >>> result = do.solve(problem, method, "ring", iterations=100)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    mu: NotNegative = 0.1
    term: Term = "l1"

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples, or generates them."""

        def make(first: View, second: View, place: PooledPlace) -> SparseCCA:
            where = DataPlace(n_agents=place["n_agents"], first_agent=place["first_agent"])
            term = self.term
            with place["collective"].together():
                return SparseCCA(first.rows, second.rows, self.rank, self.mu, term=term, **where)

        return self._of_both(n_agents, seed, make, make, lambda m, n1, n2: 0)
