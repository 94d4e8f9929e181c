"""Principal components with the l1 norm: of the scores (robust), or of the components (sparse).

Over St(d, r), with an agent's samples A_i, C_i = A_i^T A_i / m_i,

    l1_pca       f_i(x) = -(1/m_i) ||A_i x||_1                        G_i(x) = -(1/m_i) A_i^T sign(A_i x)
    sparse_pca   f_i(x) = -1/2 tr(x^T C_i x) + mu ||x||_1             G_i(x) = -C_i x + mu sign(x)

l1_pca (Kwak, "Principal component analysis based on L1-norm maximization", IEEE TPAMI 2008) weights samples by their distance,
not by its square. It maximises a convex function, so f_i is not weakly convex and the theory of subgradient methods does not cover
it; but at a minimiser no score is 0 in general, and f_i is smooth around it. sparse_pca (a form of Jolliffe, Trendafilov, Uddin, "A
modified principal component technique based on the LASSO", JCGS 2003) is weakly convex, with constant lambda_max(C_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...numerics.ordered_sums import sums
from ...protocols import Array, Collective, Index, SubgradientSettings
from ...sets import Stiefel
from ...settings import Count, NotNegative, check
from ..base import AgentProblem, Deferred, Selection
from ..common.checks import samples
from ..common.columns import SeparateColumns
from ..common.division import Centering, Divided, SampleFile, divided
from ..common.pooled import centered, normalized
from ..common.rows import SumsOfSquares
from ..common.rowwise import AbsoluteLosses


class L1PCA(AbsoluteLosses):
    """f_i(x) = -(1/m_i) ||A_i x||_1 over St(d, rank).

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, d)``, one matrix per agent. Nothing is centred or scaled.
    rank
        The number r of components.
    """

    def __init__(self, A: Sequence[Array] | Array, rank: int, *, n_agents: int | None = None, first_agent: int = 0):
        rows, d = samples("A", A, first_agent)
        super().__init__(rows, [-1.0 / len(a) for a in rows], Stiefel(d, rank), n_agents, first_agent)


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
    """

    nonsmooth = True

    def __init__(
        self, A: Sequence[Array] | Array, rank: int, mu: float, *, n_agents: int | None = None, first_agent: int = 0
    ) -> None:
        rows, d = samples("A", A, first_agent)
        check("mu", NotNegative, mu)
        super().__init__(n_agents or len(rows), slice(first_agent, first_agent + len(rows)), Stiefel(d, rank))
        self._steepest = 0.0
        self._sums = SumsOfSquares(rows, None, np.array([-0.5 / len(a) for a in rows]))
        self._mu = mu

    def _take(self, local: Selection) -> None:
        self._sums = self._sums.take(local)

    @property
    def n_samples(self) -> Index:
        """``(n_local,)``: the numbers of samples m_i."""
        return self._sums.n_samples

    def value(self, x: Array) -> Array:
        return self._sums.value(x) + self._mu * sums(np.abs(x))

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``: -C_i x_i + mu sign(x_i), at points with any number r of columns; the sign of 0 is 0."""
        return self._sums.gradient(x) + self._mu * np.sign(x)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, d, r)``: the subgradient from the samples ``batch``, ``(n_local, b)`` numbers within each agent."""
        return self._sums.gradient_on(x, batch) + self._mu * np.sign(x)

    @cached_property
    def weak_convexity(self) -> Array:
        """``(n_local,)``: lambda_max(C_i)."""
        return self._sums.curvature()

    @property
    def lipschitz_value(self) -> Array:
        """``(n_local,)``: lambda_max(C_i) sqrt(r) + mu sqrt(d r), which bounds the subgradients where ||x||_F^2 <= r."""
        d, r = self.shape
        bound: Array = self.weak_convexity * np.sqrt(r) + self._mu * np.sqrt(d * r)
        return bound

    def prepare(self, collective: Collective) -> None:
        """Compute the largest lambda_max(C_i) of all agents, for a common step."""
        self._steepest = collective.max(max(self.weak_convexity.tolist()))

    def subgradient_settings(self, blocks: int) -> SubgradientSettings:
        """Geometric steps from 1 / lambda_max(C_i), which shrink more slowly the fewer columns move in an iteration.

        They need the largest lambda_max(C_i), from `prepare`.
        """
        initial = f"{1.0 / self._steepest:.6g}" if self._steepest > 0.0 else "auto"
        return SubgradientSettings(f"geometric:initial={initial},ratio={1.0 - 0.005 * min(1.0, 2.0 / blocks):.6g}")

    def flops(self, columns: int) -> Array:
        """``(n_local,)``: the operations for ``columns`` columns: a product with C_i, or two with few samples, and the signs."""
        d = self.shape[0]
        return ((2 * np.minimum(d, 2 * self.n_samples) + 2) * (d * columns)).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class L1PCASettings(Divided):
    """Principal components by the l1 norm of the scores, of bundled data or a user's.

    Parameters
    ----------
    rank
        How many components.
    normalize
        Divide by the root mean square of all entries, after centring.
    """

    name: ClassVar[str] = "l1_pca"

    data: SampleFile = "digits"
    rank: Count = 5
    center: Centering = True
    normalize: bool = True

    def _made(self, rows: Sequence[Array], n_agents: int, first_agent: int) -> AgentProblem[Stiefel]:
        return L1PCA(rows, self.rank, n_agents=n_agents, first_agent=first_agent)

    def problem(self, n_agents: int, seed: int) -> Deferred:
        def build(agents: slice, collective: Collective) -> AgentProblem[Stiefel]:
            with collective.together():
                mine = divided(self.data, self, n_agents, agents, seed)
            if self.center:
                mine = centered(mine, collective)
            if self.normalize:
                mine = normalized(mine, collective)
            with collective.together():
                return self._made(mine, n_agents, agents.start)

        return Deferred(n_agents, build)


@dataclass(frozen=True, kw_only=True)
class SparsePCASettings(L1PCASettings):
    """Sparse principal components, of bundled data or a user's.

    Parameters
    ----------
    mu
        Weight of the components' l1 norm.
    """

    name: ClassVar[str] = "sparse_pca"

    mu: NotNegative = 0.5

    def _made(self, rows: Sequence[Array], n_agents: int, first_agent: int) -> AgentProblem[Stiefel]:
        return SparsePCA(rows, self.rank, self.mu, n_agents=n_agents, first_agent=first_agent)
