"""Robust principal components: the l1 norm of the scores in place of their squares.

Over St(d, r), with an agent's samples A_i,

    f_i(x) = -(1/m_i) ||A_i x||_1                        G_i(x) = -(1/m_i) A_i^T sign(A_i x)

Kwak, "Principal component analysis based on L1-norm maximization", IEEE TPAMI 2008: samples are weighted by their distance, not by
its square. It maximises a convex function, so f_i is not weakly convex and the theory of subgradient methods does not cover it; but
at a minimiser no score is 0 in general, and f_i is smooth around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...protocols import Array, Collective
from ...sets import Stiefel
from ...settings import Count
from ..base import AgentProblem, Deferred, Outline
from ..common.checks import samples
from ..common.division import Centred, Division, SampleFile
from ..common.pooled import normalized
from ..common.rows import AbsoluteLosses


class L1PCA(AbsoluteLosses):
    """f_i(x) = -(1/m_i) ||A_i x||_1 over St(d, rank).

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, d)``, one matrix per agent. Nothing is centred or scaled.
    rank
        The number r of components.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> samples = np.random.default_rng(0).laplace(size=(120, 6)) * np.arange(1, 7)
    >>> problem = do.problems.L1PCA(np.array_split(samples, 4), 2)
    >>> result = do.solve(problem, do.DRSM(), "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    def __init__(self, A: Sequence[Array] | Array, rank: int, *, n_agents: int | None = None, first_agent: int = 0):
        rows, d = samples("A", A, first_agent)
        super().__init__(rows, [-1.0 / len(a) for a in rows], Stiefel(d, rank), n_agents, first_agent)


@dataclass(frozen=True, kw_only=True)
class L1PCASettings(Centred):
    """Principal components by the l1 norm of the scores, of bundled data or a user's.

    Parameters
    ----------
    rank
        How many components.
    normalize
        Divide by the root mean square of all entries, after centring.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.L1PCASettings(rank=2).problem(4, seed=0)
    >>> result = do.solve(problem, do.DRSM(), "ring", iterations=100)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    data: SampleFile = "digits"
    rank: Count = 5
    normalize: bool = True

    def _made(self, rows: Sequence[Array], n_agents: int, first_agent: int) -> AgentProblem[Stiefel]:
        return L1PCA(rows, self.rank, n_agents=n_agents, first_agent=first_agent)

    def _beside(self, counts: Sequence[int], d: int) -> int:
        """The numbers that agents with these counts of samples hold beside them."""
        return 0

    def problem(self, n_agents: int, seed: int) -> Deferred:
        source = Division((self.data,), self, n_agents, seed)

        def build(agents: slice, collective: Collective) -> AgentProblem[Stiefel]:
            mine = source.read(agents, collective)[0]
            if self.normalize:
                mine = normalized(mine, collective)
            with collective.together():
                return self._made(mine, n_agents, agents.start)

        def outline() -> Outline:
            def made(rows: list[Array], agents: slice, collective: Collective) -> AgentProblem[Stiefel]:
                return self._made(rows, n_agents, agents.start)

            d, copies = source.width, 1.0 + self.normalize
            return Outline(source.counts, d, copies, lambda own: self._beside(own, d), made, d * self.rank)

        return source.deferred(n_agents, build, outline)
