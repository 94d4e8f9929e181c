"""Robust principal components: the l1 norm of the scores in place of their squares.

Over St(d, r), with an agent's samples A_i,

    f_i(x) = -(1/m_i) ||A_i x||_1                        G_i(x) = -(1/m_i) A_i^T sign(A_i x)

Kwak, "Principal component analysis based on L1-norm maximization", IEEE TPAMI 2008: samples are
weighted by their distance, not by its square. It maximises a convex function, so f_i is not weakly
convex and the theory of subgradient methods does not cover it; but at a minimiser no score is 0 in
general, and f_i is smooth around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decentorth.problems.base import AgentProblem
from decentorth.problems.common.checks import SparseOrArrays, samples
from decentorth.problems.common.division import Centred, Part, SampleFile, of_one_view, samples_of
from decentorth.problems.common.pooled_rows import normalized
from decentorth.problems.common.rows import AbsoluteLosses
from decentorth.problems.deferred import Deferred, Outline
from decentorth.protocols import Array, Collective
from decentorth.sets import Stiefel
from decentorth.settings import Count

Make = Callable[[Part], AgentProblem[Stiefel]]
"""The problem of the samples of some agents."""
More = Callable[[Sequence[int], int], int]
"""The numbers beside the samples of agents with these counts of them, each of d numbers."""


class L1PCA(AbsoluteLosses):
    """Principal components by the l1 norm of the scores.

        f_i(x) = -(1/m_i) ||A_i x||_1 over x^T x = I

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, d)``, one matrix per agent. Nothing is centred or scaled.
        Sparse matrices of SciPy stay sparse.
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

    columns = ((),)

    def __init__(
        self, A: SparseOrArrays, rank: int, *, n_agents: int | None = None, first_agent: int = 0
    ):
        rows, d = samples("A", A, first_agent, sparse=True)
        weights = [-1.0 / len(a) for a in rows]
        super().__init__(rows, weights, Stiefel(d, rank), n_agents, first_agent)


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

    keeps_sparse = True

    data: SampleFile = "digits"
    rank: Count = 5
    normalize: bool = True

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples."""

        def make(part: Part) -> AgentProblem[Stiefel]:
            return L1PCA(part.rows, self.rank, **part.place)

        return self._of_normalized(n_agents, seed, make, lambda own, d: 0)

    def _of_normalized(self, n_agents: int, seed: int, make: Make, more: More) -> Deferred:
        """The problem that ``make`` gives of the normalized samples, beside which agents with
        these counts of samples hold ``more`` numbers."""

        def prepare(rows: list[Array], collective: Collective) -> list[Array]:
            return normalized(rows, collective) if self.normalize else rows

        def outline(d: int) -> Outline:
            copies = 1.0 + self.normalize
            return Outline(copies=copies, more=lambda own: more(own, d), point=d * self.rank)

        return of_one_view(samples_of(self, n_agents, seed), make, outline, prepare)
