"""Robust principal components: residuals that count by their length where they are long, plus a
term.

Over St(d, r), with an agent's samples a_j and their residuals e_j = ||a_j - x x^T a_j||,

    f_i(x) = (1/m_i) sum_j phi(e_j) + mu h(x)           phi(e) = e^2/2, or delta e - delta^2/2 where e > delta
    G_i(x) = -(1/m_i) sum_j min(1, delta/e_j) a_j a_j^T x, without the term

Huber's function of residuals, one of those in Ding, Zhou, He, Zha, "R1-PCA: rotational invariant
L1-norm principal component analysis for robust subspace factorization", ICML 2006. A sample far
from the subspace pulls with the force delta, not with its distance. e_j^2 = ||a_j||^2 - ||x^T
a_j||^2 is used at all x. Without a bound delta it is PCA, up to a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decentorth.problems.base import AgentProblem
from decentorth.problems.common.checks import Rows, SparseOrArrays, samples
from decentorth.problems.common.division import Part
from decentorth.problems.common.sparse_rows import SparseRows, beside
from decentorth.problems.common.with_term import LiftedLosses, Term, WithTerm
from decentorth.problems.deferred import Deferred
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from decentorth.settings import Positive, check

from .sparse_pca import SparsePCASettings


class _Residuals(LiftedLosses):
    """Huber's function of the residuals of samples; a lifted sample is (a_j, ||a_j||)."""

    delta = 1.0

    def lift(self, x: Array) -> Array:
        n, d, r = x.shape
        lifted = np.zeros((n, d + 1, r + 1))
        lifted[:, :d, :r], lifted[:, d, r] = x, 1.0
        return lifted

    def lower(self, gradient: Array) -> Array:
        return np.ascontiguousarray(gradient[:, :-1, :-1])

    def losses(self, products: Array) -> Array:  # type: ignore[override]  # these depend on delta
        """phi of every sample's residual."""
        e = self._lengths(products)
        near = np.minimum(e, self.delta)
        return near * (e - 0.5 * near)

    def differentiate(self, products: Array) -> None:  # type: ignore[override]
        """Replace the scores by their gradients, and the lengths by 0."""
        e = self._lengths(products)
        products *= -np.minimum(1.0, self.delta / np.maximum(e, self.delta))[..., None]
        products[..., -1] = 0.0

    @staticmethod
    def _lengths(products: Array) -> Array:
        """The residual of every sample."""
        squares = products * products
        return np.sqrt(np.maximum(squares[..., -1] - squares[..., :-1].sum(-1), 0.0))


def _with_length(a: Rows) -> Rows:
    """The samples, each with its length as a further entry."""
    squares = a.row_squares() if isinstance(a, SparseRows) else (a * a).sum(1)
    return beside(a, np.sqrt(squares)[:, None])


class RobustPCA(WithTerm):
    """Principal components with Huber's function of the residuals, plus a convex term.

        f_i(x) = (1/m_i) sum_j phi(||a_j - x x^T a_j||) + mu h(x) over x^T x = I

    phi(e) = e^2/2 up to delta, and delta e - delta^2/2 above.

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, d)``, one matrix per agent. Nothing is centred or scaled.
        Sparse matrices of SciPy stay sparse.
    rank
        The number r of components.
    delta
        The length from which a residual counts by its length, not by its square.
    mu, term
        Weight and kind of the term, as for `SparsePCA`.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 8)) * np.arange(1, 9)
    >>> parts = np.array_split(samples, 4)
    >>> problem = do.problems.RobustPCA(parts, 2, delta=5.0, mu=0.5)
    >>> method = do.DRProxGT()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    columns = ((),)

    def __init__(
        self,
        A: SparseOrArrays,
        rank: int,
        delta: float,
        mu: float = 0.0,
        *,
        term: Term = "l1",
        n_agents: int | None = None,
        first_agent: int = 0,
    ) -> None:
        rows, d = samples("A", A, first_agent, sparse=True)
        lifted = [_with_length(a) for a in rows]
        weights = [1.0 / len(a) for a in rows]
        smooth = _Residuals(lifted, weights, Stiefel(d, rank), n_agents, first_agent)
        smooth.delta = check("delta", Positive, delta)
        super().__init__(smooth, mu, term=term)


@dataclass(frozen=True, kw_only=True)
class RobustPCASettings(SparsePCASettings):
    """Robust, and sparse, principal components of bundled data or a user's.

    Parameters
    ----------
    delta
        The length from which a residual counts by its length; after normalising, samples have
        length sqrt(d) on average.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.RobustPCASettings(rank=3, mu=0.2)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRProxGT()
    >>> result = do.solve(problem, method, "ring", iterations=100)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    delta: Positive = 3.0

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples."""

        def make(part: Part) -> AgentProblem[Stiefel]:
            term = self.term
            return RobustPCA(part.rows, self.rank, self.delta, self.mu, term=term, **part.place)

        return self._of_normalized(n_agents, seed, make, lambda own, d: sum(own) * (d + 1))
