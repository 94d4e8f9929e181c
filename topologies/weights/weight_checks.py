"""Checks of communication graphs and mixing matrices, with errors that name the place and the
repair."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from topologies.canonical import (
    Adjacency,
    Weights,
    WeightsLike,
    canonical_weights,
    distances,
    entry_at,
    refuse_other_graphs,
)
from topologies.line.later import nx
from topologies.spectra.eigenvalues import spectrum

Names: TypeAlias = Mapping[int, object]
"""The names of agents that have one, by number."""
NAMELESS: Names = MappingProxyType({})
_SPECTRAL_TOLERANCE = 1e-12
_SHOWN = 5


def adjacency(graph: nx.Graph[int] | Adjacency) -> Weights:
    """Return the adjacency matrix of a checked graph, ``(n, n)``: ones, in sorted CSR.

    Edge attributes are ignored. In an adjacency matrix, sparse or dense, every non-zero is an
    edge. Raises the errors of `check_graph`.
    """
    matrix = edges_of(graph)
    one_way = (matrix - matrix.T.tocsr()).tocoo()
    one_way.eliminate_zeros()
    if one_way.nnz:
        i = one_way.row[0]
        j = one_way.col[0]
        i, j = (i, j) if one_way.data[0] > 0 else (j, i)
        raise ValueError(
            f"an adjacency matrix must be symmetric, but there is an edge {i} - {j} and none {j} "
            f"- {i}; use A + A.T"
        )
    check_no_loops(matrix, "an agent's own weight is W's diagonal")
    _check_connected(matrix, "the graph", agent_names(graph))
    return matrix


def agent_names(graph: Any) -> Names:
    """The labels that `numbered` has left in a graph, by the agents' numbers; empty for a
    matrix."""
    if _is_matrix(graph):
        return NAMELESS
    labels = nx.get_node_attributes(graph, "label")
    return {agent: label for agent, label in labels.items() if label is not None}


def _is_matrix(graph: object) -> bool:
    return sparse.issparse(graph) or isinstance(graph, np.ndarray)


def edges_of(graph: nx.Graph[int] | Adjacency, directed: bool = False) -> Weights:
    """The adjacency matrix of a graph, which may have directions if ``directed``; ones for the
    non-zero entries of a matrix."""
    if _is_matrix(graph):
        return _pattern(graph)
    return _from_graph(graph, directed)


def check_no_loops(matrix: Weights, why: str) -> None:
    """Raise ValueError if an agent is its own neighbour in an adjacency matrix; the message says
    ``why`` that cannot be."""
    loops = np.flatnonzero(matrix.diagonal())
    if loops.size:
        raise ValueError(
            f"the graph must have no self-loops ({why}), but agent {loops[0]} has one; use "
            "graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
        )


def check_graph(graph: nx.Graph[int] | Adjacency) -> None:
    """Raise unless ``graph`` can be a communication graph.

    ``graph`` is a ``networkx.Graph``, or an adjacency matrix, sparse or dense. Raises TypeError
    if it is of another type, directed, or a multigraph. Raises ValueError if it is empty, its
    nodes are not 0..n-1 in order, it has self-loops or is disconnected, or if a matrix is not
    square or not symmetric.
    """
    adjacency(graph)


def _from_graph(graph: object, directed: bool) -> Weights:
    """The adjacency matrix of a networkx graph with nodes 0..n-1."""
    refuse_other_graphs(graph)
    kind = "DiGraph" if directed else "Graph"
    if not isinstance(graph, nx.Graph):
        raise TypeError(f"the graph must be a networkx.{kind}, got {type(graph).__name__}")
    if graph.is_directed() and not directed:
        raise TypeError(
            "the graph must be undirected; use graph.to_undirected(), or "
            "topologies.directed_weights(graph) for methods on directed graphs"
        )
    if graph.is_multigraph():
        raise TypeError(f"the graph must not be a multigraph; use networkx.{kind}(graph)")
    n = graph.number_of_nodes()
    if n == 0:
        raise ValueError("the graph must have at least one agent, got none")
    for agent, node in enumerate(graph):
        if node != agent:
            raise ValueError(
                f"the nodes must be 0..{n - 1} in order, but node number {agent} is {node!r}; "
                "use topologies.numbered(graph)"
            )
    kind_of = np.dtype(np.float64)
    matrix: Weights = nx.to_scipy_sparse_array(graph, dtype=kind_of, weight=None)
    matrix.sort_indices()
    return matrix


def _pattern(graph: Any) -> Weights:
    """A sparse adjacency matrix with ones for its non-zero entries, sorted."""
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or graph.shape[0] == 0:
        raise ValueError(
            "an adjacency matrix must be square, a row and a column per agent, got shape "
            f"{graph.shape}"
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused below
        matrix: Weights = sparse.csr_array(graph, dtype=np.float64, copy=True)
    if not np.isfinite(matrix.data).all():
        raise ValueError(
            "an adjacency matrix has NaN or infinite entries: give 0 where there is no edge"
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    matrix.data[:] = 1
    return matrix


def check_weights(W: WeightsLike, graph: nx.Graph[int] | Adjacency | None = None) -> Weights:
    """``W``, shape (n, n), in canonical form (see `canonical_weights`), if averaging with it
    converges to the mean.

    Entries may have any sign. With ``graph``, only its edges and the diagonal may carry weight.

    Errors as `canonical_weights` and `check_graph`; ValueError if ``W`` has an entry outside the
    graph's edges, is disconnected, or has a second eigenvalue of modulus 1 or more.
    """
    matrix = canonical_weights(W)
    if graph is not None:
        _check_support(matrix, adjacency(graph))
    _check_connected(matrix, "the graph of W's non-zero entries")
    if matrix.data.min() >= 0:
        _check_aperiodic(matrix)
    else:
        _check_eigenvalues(matrix)
    return matrix


def _check_support(matrix: Weights, edges: Weights) -> None:
    n = edges.shape[0]
    if matrix.shape[0] != n:
        raise ValueError(
            f"W must have one row per agent of the graph: it has {matrix.shape[0]} rows, the "
            f"graph {n} agents"
        )
    allowed = edges + sparse.eye_array(n, format="csr")
    outside = (matrix - matrix.multiply(allowed)).tocoo()
    bad = np.flatnonzero(outside.data)
    if bad.size:
        i, j, entry = entry_at(outside, bad)
        raise ValueError(
            f"W may only have entries on the graph's edges, but W[{i}, {j}] = {entry:.3g} and "
            f"agents {i} and {j} are not neighbours ({bad.size} such entries); add the edge or "
            f"move the weight to the diagonals W[{i}, {i}] and W[{j}, {j}]"
        )


def _check_connected(matrix: Weights, what: str, names: Names = NAMELESS) -> None:
    """Raise ValueError with an agent of each of several components; ``names`` are those of agents
    that have one."""
    count, labels = csgraph.connected_components(matrix, directed=False)
    if count > 1:
        _, first, sizes = np.unique(labels, return_index=True, return_counts=True)
        agents = [names.get(agent, agent) for agent in first.tolist()]
        parts = [f"{size} with agent {agent}" for size, agent in zip(sizes, agents, strict=True)]
        listed = ", ".join([*parts[:_SHOWN], *["..."] * (count > _SHOWN)])
        raise ValueError(
            f"{what} must be connected, but it has {count} components, by number of agents: "
            f"{listed}; join them with edges, for example {agents[0]} - {agents[1]}"
        )


def _check_aperiodic(matrix: Weights) -> None:
    """Raise if a connected W >= 0 has the eigenvalue -1: the graph is bipartite and the diagonal
    0."""
    n = matrix.shape[0]
    if n == 1 or matrix.diagonal().any():
        return
    depth = distances(matrix, 0)
    edges = matrix.tocoo()
    edge = edges.data != 0
    if np.all((depth[edges.row[edge]] - depth[edges.col[edge]]) % 2 == 1):
        raise ValueError(
            "W has the eigenvalue -1, so averaging oscillates and never converges: the graph is "
            "bipartite and W's diagonal is zero; use lazy weights, (I + W) / 2"
        )


def _check_eigenvalues(matrix: Weights) -> None:
    found = spectrum(matrix)
    if found.lambda_min <= -1 + _SPECTRAL_TOLERANCE:
        wrong = f"the smallest is {found.lambda_min:.12g}"
        repair = f"use lazy weights, (1 - t) I + t W with t < {2 / (1 - found.lambda_min):.3g}"
    elif found.lambda_2 >= 1 - _SPECTRAL_TOLERANCE:
        wrong = f"the second largest is {found.lambda_2:.12g}"
        repair = "make the negative weights smaller"
    else:
        return
    wrong += f", so averaging does not converge; {repair}"
    raise ValueError(
        f"all eigenvalues of W but one must lie strictly between -1 and 1, but {wrong}"
    )
