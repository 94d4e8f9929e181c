"""Sparse principal components: the explained variance with the l1 norm of the components as a
penalty.

Over St(d, r), with C_i = A_i^T A_i / m_i of an agent's samples A_i,

    f_i(x) = -1/2 tr(x^T C_i x) + mu ||x||_1             G_i(x) = -C_i x + mu sign(x)

or another term in the place of the l1 norm (`common.regularizers`): the norms of rows, or the
negative parts.

A form of Jolliffe, Trendafilov, Uddin, "A modified principal component technique based on the
LASSO", JCGS 2003; weakly convex, with constant lambda_max(C_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from decentorth.problems.base import AgentProblem, SeparateColumns
from decentorth.problems.common.checks import SparseOrArrays, samples
from decentorth.problems.common.division import Part
from decentorth.problems.common.squares import SquaresProblem, gram_numbers
from decentorth.problems.common.with_term import Term, WithTerm
from decentorth.problems.deferred import Deferred
from decentorth.protocols import Array, Collective, Smooth, SubgradientSettings
from decentorth.sets import Stiefel
from decentorth.settings import NotNegative

from .l1_pca import L1PCASettings


class SparsePCA(WithTerm, SeparateColumns):
    """Sparse principal components of samples at agents.

        f_i(x) = -1/(2 m_i) tr(x^T A_i^T A_i x) + mu h(x) over x^T x = I

    h is the l1 norm, or another term.

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, d)``, one matrix per agent. Nothing is centred or scaled.
        Sparse matrices of SciPy stay sparse.
    rank
        The number r of components.
    mu
        Weight of the l1 norm, not negative: a larger weight makes more entries 0.
    term
        What mu weighs: l1 (entries become 0), rows (the norms of rows; whole rows become 0),
        negative (negative entries).

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 8)) * np.arange(1, 9)
    >>> problem = do.problems.SparsePCA(np.array_split(samples, 4), 2, mu=0.5)
    >>> method = do.DRProxGT(step_size=0.005)
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
        mu: float,
        *,
        term: Term = "l1",
        n_agents: int | None = None,
        first_agent: int = 0,
    ) -> None:
        rows, d = samples("A", A, first_agent, sparse=True)
        weights = np.array([-0.5 / len(a) for a in rows])
        smooth = SquaresProblem(rows, None, weights, Stiefel(d, rank), n_agents, first_agent)
        super().__init__(smooth, mu, term=term)
        self._steepest = 0.0

    @cached_property
    def weak_convexity(self) -> Array:
        """``(n_local,)``: lambda_max(C_i)."""
        return cast(Smooth, self._smooth).lipschitz

    @property
    def lipschitz_value(self) -> Array:
        """``(n_local,)``: lambda_max(C_i) sqrt(r) + mu sqrt(d r), which bounds the subgradients
        where ||x||_F^2 <= r."""
        d, r = self.shape
        return self.weak_convexity * np.sqrt(r) + self._mu * np.sqrt(d * r)

    def prepare(self, collective: Collective) -> None:
        """Compute the largest lambda_max(C_i) of all agents, for a common step."""
        self._steepest = collective.max(max(self.weak_convexity.tolist()))

    def subgradient_settings(self, blocks: int) -> SubgradientSettings:
        """Geometric steps from 1 / lambda_max(C_i), which shrink more slowly the fewer columns move
        in an iteration.

        They need the largest lambda_max(C_i), from `prepare`.
        """
        initial = f"{1.0 / self._steepest:.6g}" if self._steepest > 0.0 else "auto"
        ratio = 1.0 - 0.005 * min(1.0, 2.0 / blocks)
        return SubgradientSettings(f"geometric:initial={initial},ratio={ratio:.6g}")

    def flops(self, columns: int) -> Array:
        """``(n_local,)``: the operations for ``columns`` columns: a product with C_i, or two with
        few samples, and the signs."""
        d = self.shape[0]
        return ((2 * np.minimum(d, 2 * self.n_samples) + 2) * (d * columns)).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class SparsePCASettings(L1PCASettings):
    """Sparse principal components, of bundled data or a user's.

    Parameters
    ----------
    mu
        Weight of the components' l1 norm.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.SparsePCASettings(data="digits", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRProxGT(step_size=0.08)
    >>> result = do.solve(problem, method, "ring", iterations=100)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    mu: NotNegative = 0.5
    term: Term = "l1"

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples."""

        def make(part: Part) -> AgentProblem[Stiefel]:
            return SparsePCA(part.rows, self.rank, self.mu, term=self.term, **part.place)

        return self._of_normalized(n_agents, seed, make, gram_numbers)
