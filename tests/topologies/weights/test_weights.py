"""Weight rules: the formulas entry by entry, and over random connected graphs the invariants of a mixing matrix."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies

EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@st.composite
def connected_graphs(draw: st.DrawFn) -> nx.Graph[int]:
    """A random tree and some more edges."""
    n = draw(st.integers(1, 12))
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((draw(st.integers(0, i - 1)), i) for i in range(1, n))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    if n > 1:
        graph.add_edges_from(draw(st.lists(pairs, max_size=2 * n)))
    return graph


def expected_weights(graph: nx.Graph[int], rule: str, self_weight: float) -> np.ndarray:
    """The definition, agent by agent."""
    n = len(graph)
    degree = dict(graph.degree)
    laplacian = np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray()) if n > 1 else np.zeros(2)
    W = np.zeros((n, n))
    for i, j in [*graph.edges, *((j, i) for i, j in graph.edges)]:
        W[i, j] = {
            "uniform": (1 - self_weight) / degree[i],
            "metropolis": 1 / (1 + max(degree[i], degree[j])),
            "max-degree": 1 / max(degree.values()),
            "local-degree": 1 / max(degree[i], degree[j]),
            "best-constant": 2 / (laplacian[1] + laplacian[-1]),
        }[rule]
    return W + np.diag(1 - W.sum(axis=1))


LOCAL = [name for name in topologies.available_weights() if not name.endswith(("fmmc", "fdla"))]


@pytest.mark.slow
@EXAMPLES
@given(connected_graphs(), st.sampled_from(LOCAL), st.sampled_from([0.0, 0.3, 0.8]))
def test_every_rule_gives_a_mixing_matrix_on_every_connected_graph(graph: nx.Graph[int], name: str, self_weight: float) -> None:
    n = len(graph)
    rule = topologies.resolve_weights_name(graph, name)
    regular = nx.is_regular(graph)
    if "auto" in name:
        assert rule == name.replace("auto", "uniform" if regular else "metropolis")
    if rule.endswith("uniform") and not regular:
        with pytest.raises(ValueError, match="use metropolis"):
            topologies.weights_from_name(graph, name, self_weight)
        return
    expected = expected_weights(graph, rule.removeprefix("lazy-"), self_weight)
    if rule.startswith("lazy-"):
        expected = (np.eye(n) + expected) / 2
    if n > 1 and nx.is_bipartite(graph) and np.abs(np.diag(expected)).max() < 1e-14:
        with pytest.raises(ValueError, match=r"eigenvalue -1.*use lazy"):
            topologies.weights_from_name(graph, name, self_weight)
        return

    W = topologies.weights_from_name(graph, name, self_weight)
    dense = W.toarray()
    assert W.dtype == np.float64
    assert np.array_equal(dense, dense.T)
    np.testing.assert_allclose(dense, expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(dense.sum(axis=1), 1, rtol=0, atol=n * np.finfo(float).eps)
    for i in range(n):
        assert W.indices[W.indptr[i] : W.indptr[i + 1]].tolist() == sorted([i, *graph[i]])
    if n > 1:
        assert topologies.spectrum(W).sigma < 1
        disagreement = np.linalg.norm(dense - 1 / n, 2)
        assert topologies.spectrum(W).sigma == pytest.approx(disagreement, abs=1e-14)


def test_the_ring_of_ten_of_the_paper() -> None:
    W = topologies.uniform_weights(topologies.ring(10), 0.8).toarray()
    shift = np.roll(np.eye(10), 1, axis=0)
    np.testing.assert_allclose(W, 0.8 * np.eye(10) + 0.1 * (shift + shift.T), rtol=0, atol=1e-16)
    assert np.all(np.diag(W) == 0.8)


@pytest.mark.parametrize("name", topologies.available_weights())
def test_one_agent_keeps_everything(name: str) -> None:
    np.testing.assert_array_equal(topologies.weights_from_name(topologies.ring(1), name).toarray(), [[1.0]])


def test_zero_own_weights_are_stored() -> None:
    W = topologies.uniform_weights(topologies.complete(4), 0.0)
    assert W.nnz == 16
    np.testing.assert_array_equal(W.diagonal(), 0)
    assert topologies.max_degree_weights(topologies.star(4)).diagonal()[0] == 0


def test_lazy_repairs_a_periodic_matrix() -> None:
    swap = [[0.0, 1.0], [1.0, 0.0]]
    np.testing.assert_array_equal(topologies.lazy(swap).toarray(), [[0.5, 0.5], [0.5, 0.5]])
    W = topologies.metropolis_weights(topologies.grid(3, 4))
    np.testing.assert_allclose(topologies.eigenvalues(topologies.lazy(W)), (1 + topologies.eigenvalues(W)) / 2, atol=1e-14)


def test_best_constant_is_best() -> None:
    graph = topologies.random_geometric(15, seed=1)
    laplacian = nx.laplacian_matrix(graph).toarray()
    best = topologies.spectrum(topologies.best_constant_weights(graph)).sigma
    for a in np.linspace(0.001, 0.5, 300):
        assert np.linalg.norm(np.eye(15) - a * laplacian - 1 / 15, 2) >= best - 1e-12


@pytest.mark.parametrize("self_weight", [1.0, -0.1, float("nan")])
def test_self_weight_must_leave_something_for_the_neighbours(self_weight: float) -> None:
    with pytest.raises(ValueError, match=r"self_weight must be in \[0, 1\)"):
        topologies.uniform_weights(topologies.ring(5), self_weight)


def test_uniform_weights_name_two_agents_whose_degrees_differ() -> None:
    with pytest.raises(ValueError, match="agent 0 has 1 and agent 1 has 2; use metropolis weights"):
        topologies.uniform_weights(topologies.path(4))


def test_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown weights 'metropolix'; did you mean 'metropolis'.*lazy-max-degree"):
        topologies.weights_from_name(topologies.ring(4), "metropolix")
    assert topologies.resolve_weights_name(topologies.path(4), "Lazy_Max_Degree") == "lazy-max-degree"
