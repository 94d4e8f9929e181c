"""Checks of graphs and mixing matrices: the canonical form, and for each fault the place, the
amount and the repair."""

from __future__ import annotations

from typing import Any, cast

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

RING = topologies.ring(5)
GOOD = topologies.uniform_weights(RING, 0.5).toarray()


def changed(*entries: tuple[int, int, float]) -> np.ndarray:
    W = GOOD.copy()
    for i, j, value in entries:
        W[i, j] += value
    return W


def with_duplicates() -> sparse.coo_array:
    rows, columns = np.nonzero(GOOD)
    values = GOOD[rows, columns]
    return sparse.coo_array(
        (np.concatenate([values / 4, 3 * values / 4]), (np.tile(rows, 2), np.tile(columns, 2))),
        shape=GOOD.shape,
    )


def with_stored_zeros() -> sparse.csr_array:
    n = len(GOOD)
    full = np.indices((n, n)).reshape(2, -1)[:, ::-1]
    return sparse.coo_array((GOOD[full[0], full[1]], (full[0], full[1])), shape=(n, n)).tocsr()


@pytest.mark.parametrize(
    "W",
    [
        GOOD,
        GOOD.astype(np.float32),
        GOOD.tolist(),
        sparse.csc_matrix(GOOD),
        with_duplicates(),
        with_stored_zeros(),
    ],
    ids=["array", "single precision", "list", "csc_matrix", "duplicates", "stored zeros"],
)
def test_every_kind_of_matrix_becomes_the_same_canonical_one(W: Any) -> None:
    result = topologies.check_weights(W, RING)
    assert isinstance(result, sparse.csr_array)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result.toarray(), GOOD)
    assert result.nnz == 15
    assert all(
        np.all(np.diff(result.indices[a:b]) > 0)
        for a, b in zip(result.indptr[:-1], result.indptr[1:], strict=True)
    )


def test_rounding_asymmetries_are_averaged_exactly_and_the_input_is_left_alone() -> None:
    W = sparse.csr_array(
        GOOD + 1e-14 * np.random.default_rng(0).standard_normal(GOOD.shape) * (GOOD > 0)
    )
    before = W.toarray()
    assert not np.array_equal(before, before.T)
    result = topologies.check_weights(W, RING)
    np.testing.assert_array_equal(result.toarray(), (before + before.T) / 2)
    result.data[:] = 0
    np.testing.assert_array_equal(W.toarray(), before)


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (GOOD[:4], r"W must be square.*shape \(4, 5\)"),
        (changed((1, 2, np.nan)), r"W must be finite, got W\[1, 2\] = nan"),
        (
            changed((1, 2, 0.1), (1, 1, -0.1)),
            r"symmetric, but W\[1, 2\] - W\[2, 1\] = 0.1 \(2 entries differ\).*W\.T",
        ),
        (
            changed((3, 3, 1e-6)),
            r"row 3 sums to 1.000001 \(\+1e-06; 1 of 5 rows are off\); subtract.*W\[3, 3\]",
        ),
        (
            changed((0, 2, 0.1), (2, 0, 0.1), (0, 0, -0.1), (2, 2, -0.1)),
            r"W\[0, 2\] = 0.1 and agents 0 and 2 are not neigh",
        ),
        (topologies.uniform_weights(topologies.ring(6)), "it has 6 rows, the graph 5 agents"),
        (np.eye(5), "non-zero entries must be connected, but it has 5 components"),
    ],
)
def test_faults_are_named_with_place_amount_and_repair(W: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.check_weights(W, RING)


def test_what_is_not_a_real_matrix_and_what_falls_apart_without_a_graph() -> None:
    for W in (GOOD * 1j, [["a"]]):
        with pytest.raises(TypeError, match="W must hold real numbers"):
            topologies.check_weights(W)
    apart = sparse.block_diag([np.full((3, 3), 1 / 3), np.full((2, 2), 1 / 2)])
    with pytest.raises(
        ValueError,
        match=r"2 components, by number of agents: 3 with agent 0, 2 with agent 3; .*0 - 3",
    ):
        topologies.check_weights(apart)


@pytest.mark.parametrize("graph", [topologies.path(2), topologies.ring(6), topologies.torus(4, 4)])
def test_bipartite_graph_without_own_weights_never_averages(graph: nx.Graph[int]) -> None:
    with pytest.raises(ValueError, match=r"eigenvalue -1.*use lazy weights"):
        topologies.check_weights(nx.to_numpy_array(graph) / graph.degree[0], graph)


def test_negative_weights_are_judged_by_the_eigenvalues_alone() -> None:
    """On the ring, W = I - a Laplacian averages exactly for 0 < a < 1/2 (n even), also where the
    diagonal is negative."""
    laplacian = nx.laplacian_matrix(topologies.ring(5)).toarray()
    largest = 2 - 2 * np.cos(4 * np.pi / 5)
    averages = topologies.check_weights(np.eye(5) - 0.51 * laplacian)
    assert averages.data.min() < 0
    assert topologies.spectrum(averages).lambda_min == pytest.approx(1 - 0.51 * largest, abs=1e-14)
    with pytest.raises(ValueError, match=r"the smallest is -1\.17.*lazy weights.*t < 0\.921"):
        topologies.check_weights(np.eye(5) - 0.6 * laplacian)
    with pytest.raises(ValueError, match=r"the second largest is 1\.36.*negative weights smaller"):
        topologies.check_weights(np.eye(5) + 0.1 * laplacian)


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (nx.Graph(), ValueError, "at least one agent"),
        (nx.DiGraph([(0, 1)]), TypeError, "must be undirected"),
        ([(0, 1)], TypeError, r"networkx\.Graph, got list"),
        (nx.Graph([(0, 1), (1, 1)]), ValueError, "no self-loops.*agent 1 has one"),
        (
            nx.Graph([(1, 2)]),
            ValueError,
            r"0\.\.1 in order, but node number 0 is 1; use topologies\.numbered",
        ),
        (nx.path_graph("abc"), ValueError, "node number 0 is 'a'"),
        (nx.empty_graph(7), ValueError, r"7 components.*1 with agent 4, \.\.\.; join them"),
    ],
)
def test_graphs_that_cannot_be_used_are_refused(
    graph: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        topologies.check_graph(graph)


def test_an_agent_whose_label_is_none_has_its_number_in_messages() -> None:
    graph = nx.empty_graph(2)
    nx.set_node_attributes(graph, cast(Any, None), "label")
    with pytest.raises(ValueError, match=r"for example 0 - 1"):
        topologies.check_graph(graph)


@pytest.mark.parametrize(
    "graph", [nx.Graph([(0, 2), (2, 1)]), nx.path_graph("cab"), nx.grid_2d_graph(3, 4)]
)
def test_the_advice_to_number_the_nodes_works(graph: Any) -> None:
    topologies.check_graph(topologies.numbered(graph))


def test_adjacency_ignores_edge_attributes() -> None:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(3))
    graph.add_edge(0, 2, weight=7.0)
    graph.add_edge(2, 1, weight=0.0)
    np.testing.assert_array_equal(
        topologies.adjacency(graph).toarray(), [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    )


def test_an_adjacency_matrix_given_as_weights_is_answered_with_its_weights() -> None:
    A = 3.0 * topologies.adjacency(topologies.karate_club()).toarray()
    advice = (
        r"an adjacency matrix A\? metropolis_weights\(A\) makes W of its non-zeros, and "
        r"file:PATH reads it"
    )
    with pytest.raises(ValueError, match=advice):
        topologies.check_weights(A)
    np.testing.assert_array_equal(
        topologies.metropolis_weights(A).toarray(),
        topologies.metropolis_weights(topologies.karate_club()).toarray(),
    )


def test_an_adjacency_matrix_must_be_finite() -> None:
    """NaN would count as an edge."""
    A = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 1.0], [np.nan, 1.0, 0.0]])
    for given in (A, sparse.csr_array(A)):
        with pytest.raises(
            ValueError, match="NaN or infinite entries: give 0 where there is no edge"
        ):
            topologies.metropolis_weights(given)
