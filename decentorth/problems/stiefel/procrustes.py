"""Orthogonal Procrustes, the experiment of paper 004 (Sun, Chen, Garcia, Shahrampour), Section V.

f_i(x) = ||A_i x - B_i^T||_F^2 over St(d, r), A_i in R^{m_i x d}, B_i in R^{r x m_i} (the paper
writes ||x^T A_i^T - B_i||); Euclidean gradient G_i(x) = 2 A_i^T (A_i x - B_i^T).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...protocols import Array, Collective
from ...sets import Stiefel
from ...settings import Count, Positive, Share
from ..base import stream
from ..common.checks import AgentArrays, SparseOrArrays, matrices, samples
from ..common.division import Shuffling, Sourced, even_counts
from ..common.once import ComputedOnce
from ..common.pooled_rows import with_spectrum
from ..common.squares import SquaresProblem, gram_numbers
from ..deferred import Deferred, Outline, on_each_rank
from ..loadable import Loadable


class Procrustes(SquaresProblem[Stiefel], Loadable):
    """Orthogonal Procrustes: a matrix with orthonormal columns that takes rows to targets.

        f_i(x) = ||A_i x - B_i^T||_F^2 over x^T x = I

    Parameters
    ----------
    A
        List or stack of ``(m_i, d)``, one matrix per agent. Sparse matrices of SciPy stay sparse.
    B
        List or stack of ``(r, m_i)``.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((4, 30, 6))
    >>> x = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    >>> problem = do.problems.Procrustes(A, np.swapaxes(A @ x, 1, 2))
    >>> result = do.solve(problem, do.DRFGT(), "ring", stopping=1e-6)
    >>> result.status
    'converged'
    """

    _arrays = 2
    _keeps_sparse = True

    def __init__(
        self,
        A: SparseOrArrays,
        B: AgentArrays,
        *,
        n_agents: int | None = None,
        first_agent: int = 0,
    ):
        rows, d = samples("A", A, first_agent, sparse=True)
        targets = matrices("B", B, first_agent)
        if len(rows) != len(targets):
            raise ValueError(
                f"A and B must have one matrix per agent each, got {len(rows)} and {len(targets)}"
            )
        r = targets[0].shape[0]
        for agent, (a, b) in enumerate(zip(rows, targets, strict=True), first_agent):
            if b.shape != (r, len(a)):
                raise ValueError(
                    f"B of agent {agent} must have shape (r, m_i) = ({r}, {len(a)}) to go with A "
                    f"of shape {a.shape}, got {b.shape}"
                )
        given = [b.T for b in targets]
        ones = np.ones(len(rows))
        super().__init__(rows, given, ones, Stiefel(d, r), n_agents, first_agent)


def published_rows(
    agents: slice, rows: int, d: int, r: int, seed: int
) -> tuple[list[Array], list[Array]]:
    """Gaussian A_i ``(rows, d)`` and B_i ``(r, rows)`` of the agents in ``agents``, each agent from
    its own stream."""
    a = []
    b = []
    for agent in range(agents.start, agents.stop):
        rng = stream(seed, agent)
        a.append(rng.standard_normal((rows, d)))
        b.append(rng.standard_normal((r, rows)))
    return a, b


@dataclass(frozen=True, kw_only=True)
class ProcrustesSettings(Sourced):
    """Orthogonal Procrustes: generated as in paper 004, Section V, or from files.

    Parameters
    ----------
    dimension
        Rows d of x (generated data).
    rank
        Columns r of x (generated data).
    rows
        Rows m_i of each agent's A_i (generated data); by default 10, or more so that all agents
        together have dimension rows.
    decay
        Ratio of successive eigenvalues of sum_i A_i^T A_i (generated data).
    largest_eigenvalue
        Largest eigenvalue of sum_i A_i^T A_i; by default the Gaussian data are not scaled.
    data
        File with the rows of all A_i, shape (m, d): .npy, .npz, .csv, svmlight or Matrix Market.
    targets
        File with the rows of all B_i^T, shape (m, r); goes with data.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.ProcrustesSettings(dimension=10, rank=3)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, do.DRFGT(), "ring", iterations=500)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    dimension: Count = 50
    rank: Count = 20
    rows: Count | None = None
    decay: Share = 0.9
    largest_eigenvalue: Positive | None = None
    data: str | None = None
    targets: str | None = None
    shuffle: Shuffling = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.data is None) != (self.targets is None):
            raise ValueError("data and targets go together: give both files, or neither")
        if self.data is None:
            Stiefel(self.dimension, self.rank)

    _for_generated = "dimension", "rank", "rows", "decay", "largest_eigenvalue"
    _for_files = ("shuffle",)

    def problem(self, n_agents: int, seed: int) -> Deferred:
        if self.data is not None:
            return self._from_files(n_agents, seed)
        if self.rows is not None and n_agents * self.rows < self.dimension:
            raise ValueError(
                f"{n_agents} agents with {self.rows} rows each have {n_agents * self.rows} in all, "
                f"fewer than dimension {self.dimension}: give more agents or rows"
            )
        return self._generated(n_agents, seed)

    def _generated(self, n_agents: int, seed: int) -> Deferred:
        rows = self.rows or max(10, -(-self.dimension // n_agents))

        def build(agents: slice, collective: Collective) -> Procrustes:
            a, b = published_rows(agents, rows, self.dimension, self.rank, seed)
            a = with_spectrum(a, self.decay, self.largest_eigenvalue, collective)
            return Procrustes(a, b, n_agents=n_agents, first_agent=agents.start)

        d = self.dimension
        r = self.rank
        copies = (2.0 * d + r) / (d + r)
        return Deferred(n_agents, build, lambda: _outline([rows] * n_agents, d, r, copies))

    def _from_files(self, n_agents: int, seed: int) -> Deferred:
        from ...data import Columns, partition, resolve

        @ComputedOnce
        def files() -> tuple[Any, Any]:
            data = resolve(str(self.data), Columns(keep_sparse=True))
            targets = resolve(str(self.targets))
            if data.extent().rows != targets.extent().rows and data.shape[0] != targets.shape[0]:
                raise ValueError(
                    f"data and targets must have equally many rows, got {data.shape[0]} in "
                    f"{self.data} and {targets.shape[0]} in {self.targets}"
                )
            return data, targets

        def make(agents: slice) -> Procrustes:
            data, targets = files()
            parts = partition("even", data.shape[0], n_agents, seed=seed, shuffle=self.shuffle)
            mine = parts[agents]
            a = [data.rows(index) for index in mine]
            b = [targets.rows(index).T for index in mine]
            return Procrustes(a, b, n_agents=n_agents, first_agent=agents.start)

        def outline() -> Outline:
            data, targets = [file.extent() for file in files()]
            counts = even_counts(data.rows, n_agents)
            sizes = _outline(counts, data.columns, targets.columns)
            stored = None if data.stored is None else data.stored + targets.columns
            return sizes._replace(beside=data.beside + targets.beside, stored=stored)

        return on_each_rank(n_agents, make, outline)


def _outline(counts: list[int], d: int, r: int, copies: float = 1.0) -> Outline:
    """The sizes of agents with these counts of rows, each d numbers of A and r of B^T."""

    def made(rows: list[Array], agents: slice, collective: Collective) -> Procrustes:
        a = [own[:, :d] for own in rows]
        b = [own[:, d:].T for own in rows]
        return Procrustes(a, b, n_agents=len(counts), first_agent=agents.start)

    return Outline(counts, d + r, copies, lambda own: gram_numbers(own, d, r), made, d * r)
