"""Weights on directed graphs: row-stochastic A to average what is heard, column-stochastic B to
divide what is sent.

An edge j -> i says that i hears j: it carries A_ij, the weight that i gives to what j sends, and
B_ij, the share of its own mass that j gives to i. Every row of A sums to 1, so agents that agree
stay agreed; every column of B sums to 1, so that no mass is lost. Both need an agent's own degrees
only. Perron vectors: pi^T A = pi^T and B v = v, both positive with sum 1 (Perron and Frobenius).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from topologies.canonical import ROW_SUM_TOLERANCE as NEAR
from topologies.canonical import (
    Adjacency,
    Weights,
    WeightsLike,
    entry_at,
    finite_square,
    row_sums,
    with_diagonal,
)
from topologies.line.later import nx
from topologies.weights.weight_checks import NAMELESS, Names, agent_names, check_no_loops, edges_of

Digraph: TypeAlias = "nx.Graph[int] | Adjacency"


@dataclass(frozen=True, eq=False)
class DirectedWeights:
    """The weights of a directed network: A to pull points, B to push trackers, with entries in the
    same places.

    Raises ValueError as `check_row_stochastic` and `check_column_stochastic`, or if the two are not
    of the same edges.

    Examples
    --------
    >>> import topologies as tp
    >>> weights = tp.directed_weights(tp.directed_ring(6, chords=2, seed=0))
    >>> weights.A.sum(axis=1), weights.B.sum(axis=0)
    (array([1., 1., 1., 1., 1., 1.]), array([1., 1., 1., 1., 1., 1.]))
    """

    A: Weights
    """``(n, n)``, every row sums to 1."""
    B: Weights
    """``(n, n)``, every column sums to 1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "A", check_row_stochastic(self.A))
        object.__setattr__(self, "B", check_column_stochastic(self.B))
        if self.A.shape != self.B.shape:
            raise ValueError(f"A is for {self.A.shape[0]} agents, and B for {self.B.shape[0]}")
        apart = (self.A.sign() - self.B.sign()).tocoo()
        apart.eliminate_zeros()
        off = np.flatnonzero(apart.row != apart.col)
        if off.size:
            i, j, sign = entry_at(apart, off)
            has, lacks = ("A", "B") if sign > 0 else ("B", "A")
            raise ValueError(
                f"A and B must be of the same edges, but {has}[{i}, {j}] is not zero and "
                f"{lacks}[{i}, {j}] is: give {lacks} a weight there, or take the edge {j} -> {i} "
                "away"
            )

    def __repr__(self) -> str:
        links = self.A.nnz - np.count_nonzero(self.A.diagonal())
        return f"DirectedWeights(n={self.A.shape[0]}, links={links})"

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, n)``."""
        return self.A.shape


def check_digraph(graph: Digraph) -> Weights:
    """The adjacency matrix of a directed graph, ``(n, n)``: 1 at (j, i) where i hears j, as
    networkx has it.

    An undirected graph counts as one with both directions; of a matrix every non-zero is an edge
    from its row to its column.

    Raises TypeError if it is no graph or a multigraph; ValueError if it is empty, its nodes are not
    0..n-1 in order, it has self-loops, or is not strongly connected: then two agents without a path
    from one to the other are named.
    """
    matrix = edges_of(graph, directed=True)
    check_no_loops(matrix, "an agent always hears itself")
    _check_strongly_connected(matrix, "the graph", agent_names(graph))
    return matrix


def row_stochastic(graph: Digraph) -> Weights:
    """``A_ij = 1 / (1 + number of agents that i hears)`` for these and for i itself, shape (n, n).
    Errors as `check_digraph`."""
    heard = check_digraph(graph).T.tocsr()
    weights = 1.0 / (1.0 + row_sums(heard))
    heard.data = np.repeat(weights, np.diff(heard.indptr))
    return with_diagonal(heard, weights)


def column_stochastic(graph: Digraph) -> Weights:
    """``B_ij = 1 / (1 + number of agents that hear j)`` for these and for j itself, shape (n, n).
    Errors as `check_digraph`."""
    hearers = check_digraph(graph)
    weights = 1.0 / (1.0 + row_sums(hearers))
    hearers.data = np.repeat(weights, np.diff(hearers.indptr))
    return with_diagonal(hearers.T.tocsr(), weights)


def directed_weights(graph: Digraph) -> DirectedWeights:
    """`row_stochastic` and `column_stochastic` weights of a graph. Raises the errors of
    `check_digraph`."""
    return DirectedWeights(row_stochastic(graph), column_stochastic(graph))


def check_row_stochastic(A: WeightsLike) -> Weights:
    """``A``, ``(n, n)``, in canonical form (sorted rows, the diagonal stored), if repeated
    averaging with it makes agents agree.

    Raises TypeError if it does not hold real numbers; ValueError if it is not square or not finite,
    an entry is negative, a row does not sum to 1 within 1e-10, its graph is not strongly connected,
    or no agent gives itself any weight.
    """
    return _checked(finite_square(A, "A"), "A", "row")


def check_column_stochastic(B: WeightsLike) -> Weights:
    """``B``, ``(n, n)``, in canonical form (sorted rows, the diagonal stored), if repeated pushing
    with it spreads every mass.

    Raises the errors of `check_row_stochastic`, for columns.
    """
    return _checked(finite_square(B, "B").T.tocsr(), "B", "column").T.tocsr().sorted_indices()


def _checked(matrix: Weights, name: str, line: str) -> Weights:
    """The canonical form of a row-stochastic matrix; messages call it ``name``, and its rows
    ``line``."""
    entries = matrix.tocoo()
    other = "column"
    edges = matrix.T.tocsr()
    if line == "column":
        entries = edges.tocoo()
        edges = matrix
        other = "row"
    negative = np.flatnonzero(entries.data < 0)
    if negative.size:
        i, j, entry = entry_at(entries, negative)
        raise ValueError(
            f"{name} must not have negative entries, but {name}[{i}, {j}] = {entry:.3g}"
        )
    sums = row_sums(matrix)
    bad = np.flatnonzero(np.abs(sums - 1) > NEAR)
    if bad.size:
        hint = ""
        if np.all(np.abs(row_sums(matrix.T.tocsr()) - 1) <= NEAR):
            hint = f"; its {other}s do, so it may be the other matrix of the two"
        elif sums[bad[0]] > 0:
            hint = f"; divide it by {sums[bad[0]]:.12g}"
        raise ValueError(
            f"every {line} of {name} must sum to 1, but {line} {bad[0]} sums to "
            f"{sums[bad[0]]:.12g} ({bad.size} are off){hint}"
        )
    _check_strongly_connected(edges, f"the graph of {name}")
    if not matrix.diagonal().any():
        raise ValueError(
            f"some agent must give itself weight, but {name}'s diagonal is zero, so values may "
            "go round for ever"
        )
    return with_diagonal(matrix, matrix.diagonal())


def _check_strongly_connected(adjacency: Weights, what: str, names: Names = NAMELESS) -> None:
    """Raise ValueError with two agents between which there is no path; an entry (j, i) is an edge
    from j to i."""
    parts, _ = csgraph.connected_components(adjacency, directed=True, connection="strong")
    if parts == 1:
        return
    n = adjacency.shape[0]
    for matrix, forward in ((adjacency, True), (adjacency.T.tocsr(), False)):
        reached = csgraph.breadth_first_order(matrix, 0, directed=True, return_predecessors=False)
        if len(reached) < n:
            agent = int(np.setdiff1d(np.arange(n), reached)[0])
            ends = (0, agent) if forward else (agent, 0)
            tail, head = (names.get(end, end) for end in ends)
            raise ValueError(
                f"{what} must be strongly connected, but there is no path from agent {tail} to "
                f"agent {head} ({parts} strongly connected parts); add edges, for example {tail} "
                f"-> {head}"
            )


def perron_vector(M: WeightsLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The Perron vector, ``(n,)``, positive with sum 1: pi with pi^T A = pi^T of row-stochastic A,
    v with B v = v of column-stochastic B. Of a doubly stochastic matrix both are 1/n.

    Solved directly by a sparse factorisation, to rounding. Errors as `check_row_stochastic` where
    the rows sum to 1, else as `check_column_stochastic`.
    """
    push = pushing(M)
    n = push.shape[0]
    vector = np.ones(n)
    if n > 1:
        minor = sparse.csc_array(sparse.eye_array(n - 1) - push[1:, 1:])
        vector[1:] = splu(minor).solve(push[1:, [0]].toarray()[:, 0])
    return vector / vector.sum()  # type: ignore[no-any-return]  # float64


def pushing(M: WeightsLike) -> Weights:
    """A checked row-stochastic matrix transposed, or a checked column-stochastic one as it is."""
    rows = row_sums(finite_square(M, "M"))
    if np.all(np.abs(rows - 1) <= NEAR):
        return check_row_stochastic(M).T.tocsr()
    return check_column_stochastic(M)
