"""Sparse principal components: the explained variance with the l1 norm of the components as a penalty.

Over St(d, r), with C_i = A_i^T A_i / m_i of an agent's samples A_i,

    f_i(x) = -1/2 tr(x^T C_i x) + mu ||x||_1             G_i(x) = -C_i x + mu sign(x)

or another term in the place of the l1 norm (`common.regularizers`): the norms of rows, or the negative parts.

A form of Jolliffe, Trendafilov, Uddin, "A modified principal component technique based on the LASSO", JCGS 2003; weakly convex,
with constant lambda_max(C_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ...protocols import Array, Collective, Index, SubgradientSettings
from ...sets import Stiefel
from ...settings import NotNegative, check
from ..base import AgentProblem, Selection, SeparateColumns
from ..common.checks import samples
from ..common.regularizers import REGULARIZERS
from ..common.squares import SquaresProblem, SumsOfSquares, gram_numbers
from .l1_pca import L1PCASettings

Term = Literal["l1", "rows", "negative"]


class SparsePCA(AgentProblem[Stiefel], SeparateColumns):
    """f_i(x) = -1/2 tr(x^T A_i^T A_i x) / m_i + mu ||x||_1 over St(d, rank).

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, d)``, one matrix per agent. Nothing is centred or scaled.
    rank
        The number r of components.
    mu
        Weight of the l1 norm, not negative: a larger weight makes more entries 0.
    term
        What mu weighs: l1 (entries become 0), rows (the norms of rows; whole rows become 0), negative (negative entries).
    """

    nonsmooth = True

    def __init__(
        self,
        A: Sequence[Array] | Array,
        rank: int,
        mu: float,
        *,
        term: Term = "l1",
        n_agents: int | None = None,
        first_agent: int = 0,
    ) -> None:
        rows, d = samples("A", A, first_agent)
        mu = check("mu", NotNegative, mu)
        agents = slice(first_agent, first_agent + len(rows))
        super().__init__(n_agents or len(rows), agents, Stiefel(d, rank))
        self._steepest = 0.0
        self._sums = SumsOfSquares(rows, None, np.array([-0.5 / len(a) for a in rows]))
        self._mu = mu
        self.regularizer = REGULARIZERS[check("term", Term, term)](mu)

    @cached_property
    def smooth(self) -> SquaresProblem[Stiefel]:
        """The problem without the l1 norm."""
        return SquaresProblem(self.n_agents, self.agents, self.constraint, self._sums)

    def _take(self, local: Selection) -> None:
        self._sums = self._sums.take(local)

    @property
    def n_samples(self) -> Index:
        """``(n_local,)``: the numbers of samples m_i."""
        return self._sums.n_samples

    def value(self, x: Array) -> Array:
        return self._sums.value(x) + self.regularizer.value(x)

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``: -C_i x_i + mu sign(x_i), the sign of 0 being 0, at points with any number r of columns."""
        return self._sums.gradient(x) + self.regularizer.subgradient(x)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, d, r)``: the subgradient from the samples ``batch``, ``(n_local, b)`` numbers within each agent."""
        return self._sums.gradient_on(x, batch) + self.regularizer.subgradient(x)

    @cached_property
    def weak_convexity(self) -> Array:
        """``(n_local,)``: lambda_max(C_i)."""
        return self._sums.curvature()

    @property
    def lipschitz_value(self) -> Array:
        """``(n_local,)``: lambda_max(C_i) sqrt(r) + mu sqrt(d r), which bounds the subgradients where ||x||_F^2 <= r."""
        d, r = self.shape
        return self.weak_convexity * np.sqrt(r) + self._mu * np.sqrt(d * r)

    def prepare(self, collective: Collective) -> None:
        """Compute the largest lambda_max(C_i) of all agents, for a common step."""
        self._steepest = collective.max(max(self.weak_convexity.tolist()))

    def subgradient_settings(self, blocks: int) -> SubgradientSettings:
        """Geometric steps from 1 / lambda_max(C_i), which shrink more slowly the fewer columns move in an iteration.

        They need the largest lambda_max(C_i), from `prepare`.
        """
        initial = f"{1.0 / self._steepest:.6g}" if self._steepest > 0.0 else "auto"
        ratio = 1.0 - 0.005 * min(1.0, 2.0 / blocks)
        return SubgradientSettings(f"geometric:initial={initial},ratio={ratio:.6g}")

    def flops(self, columns: int) -> Array:
        """``(n_local,)``: the operations for ``columns`` columns: a product with C_i, or two with few samples, and the signs."""
        d = self.shape[0]
        return ((2 * np.minimum(d, 2 * self.n_samples) + 2) * (d * columns)).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class SparsePCASettings(L1PCASettings):
    """Sparse principal components, of bundled data or a user's.

    Parameters
    ----------
    mu
        Weight of the components' l1 norm.
    term
        What mu weighs: l1 (entries become 0), rows (the norms of rows; whole rows become 0), negative (negative entries).
    """

    mu: NotNegative = 0.5
    term: Term = "l1"

    def _beside(self, counts: Sequence[int], d: int) -> int:
        return gram_numbers(counts, d)

    def _made(self, rows: Sequence[Array], n_agents: int, first_agent: int) -> AgentProblem[Stiefel]:
        return SparsePCA(rows, self.rank, self.mu, term=self.term, n_agents=n_agents, first_agent=first_agent)
