"""Weight rules entry by entry and as mixing matrices; the scaling of Sinkhorn and Knopp; agents
that leave."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies
from topologies.line.words import ranges

EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@st.composite
def connected_graphs(draw: st.DrawFn) -> nx.Graph[int]:
    n = draw(st.integers(1, 12))
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((draw(st.integers(0, i - 1)), i) for i in range(1, n))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
        lambda pair: pair[0] != pair[1]
    )
    if n > 1:
        graph.add_edges_from(draw(st.lists(pairs, max_size=2 * n)))
    return graph


def expected_weights(graph: nx.Graph[int], rule: str, self_weight: float) -> np.ndarray:
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


@EXAMPLES
@given(connected_graphs(), st.integers(0, 2**32 - 1))
def test_conductances_give_a_mixing_matrix(graph: nx.Graph[int], seed: int) -> None:
    """Entry by entry; symmetric, doubly stochastic, with a positive diagonal."""
    draw = np.random.default_rng(seed)
    for u, v in graph.edges:
        graph.edges[u, v]["km"] = float(10 ** draw.uniform(-6, 6))
    W = topologies.conductance_weights(graph, "1/km").toarray()
    c = np.zeros((len(graph), len(graph)))
    edges: Any = graph.edges(data="km")
    for u, v, km in edges:
        c[u, v] = c[v, u] = 1 / km
    d, m = c.sum(axis=1), c.max(axis=1, initial=0)
    for i, j in graph.edges:
        assert W[i, j] == pytest.approx(c[i, j] / (max(d[i], d[j]) + max(m[i], m[j])), rel=1e-12)
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-14)
    linked = d > 0
    assert (W.diagonal()[linked] >= (m / (d + m + ~linked))[linked] - 1e-14).all()
    assert W.diagonal().min() > 0


@EXAMPLES
@given(connected_graphs(), st.sampled_from([1, 3.0, "0.1", 1e300]))
def test_equal_conductances_give_metropolis_weights(
    graph: nx.Graph[int], conductance: float | str
) -> None:
    nx.set_edge_attributes(graph, conductance, "capacity")  # type: ignore[call-overload]
    W = topologies.conductance_weights(graph, "capacity")
    expected = topologies.metropolis_weights(graph)
    np.testing.assert_array_equal(W.toarray(), expected.toarray())


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (-2.5, "-2.5"), ("far", "'far'"), (np.nan, "nan"), (np.inf, "inf"), (None, "None")],
)
@pytest.mark.parametrize("edge_weight", ["km", "1/km"])
def test_conductances_that_are_no_positive_numbers(
    value: object, shown: str, edge_weight: str
) -> None:
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, 1.0, "km")  # type: ignore[call-overload]
    graph.edges[1, 2]["km"] = value
    with pytest.raises(ValueError, match=rf"^km of the edge 1 - 2 must be .*, got {shown};"):
        topologies.conductance_weights(graph, edge_weight)


def test_conductances_of_edges_without_the_attribute() -> None:
    lines = nx.Graph([("Bern", "Thun", {"km": 30}), ("Thun", "Brig", {"len": 60})])
    graph, _ = topologies.named_graph(lines)
    with pytest.raises(ValueError, match=r"'km', and Brig - Thun lacks it; the edges have km, len"):
        topologies.conductance_weights(graph, "km")
    with pytest.raises(TypeError, match="need a networkx graph"):
        topologies.conductance_weights(topologies.adjacency(graph), "km")  # type: ignore[arg-type]


LOCAL = [name for name in topologies.available_weights() if not name.endswith(("fmmc", "fdla"))]


@pytest.mark.slow
@EXAMPLES
@given(connected_graphs(), st.sampled_from(LOCAL), st.sampled_from([0.0, 0.3, 0.8]))
def test_every_rule_gives_a_mixing_matrix_on_every_connected_graph(
    graph: nx.Graph[int], name: str, self_weight: float
) -> None:
    n = len(graph)
    rule = topologies.resolve_weights_name(name)
    assert rule == name.replace("auto", "metropolis")
    if rule.endswith("uniform") and not nx.is_regular(graph):
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
    assert np.array_equal(dense, dense.T)
    np.testing.assert_allclose(dense, expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(dense.sum(axis=1), 1, rtol=0, atol=n * np.finfo(float).eps)
    for i in range(n):
        assert W.indices[W.indptr[i] : W.indptr[i + 1]].tolist() == sorted([i, *graph[i]])
    if n > 1:
        assert topologies.spectrum(W).sigma < 1
        assert topologies.spectrum(W).sigma == pytest.approx(
            np.linalg.norm(dense - 1 / n, 2), abs=1e-14
        )


@pytest.mark.parametrize("name", topologies.available_weights())
def test_one_agent_keeps_everything(name: str) -> None:
    np.testing.assert_array_equal(
        topologies.weights_from_name(topologies.ring(1), name).toarray(), [[1.0]]
    )


def test_zero_own_weights_are_stored() -> None:
    W = topologies.uniform_weights(topologies.complete(4), 0.0)
    assert W.nnz == 16
    np.testing.assert_array_equal(W.diagonal(), 0)
    assert topologies.max_degree_weights(topologies.star(4)).diagonal()[0] == 0


def test_lazy_repairs_a_periodic_matrix() -> None:
    swap = [[0.0, 1.0], [1.0, 0.0]]
    np.testing.assert_array_equal(topologies.lazy(swap).toarray(), [[0.5, 0.5], [0.5, 0.5]])
    W = topologies.metropolis_weights(topologies.grid(3, 4))
    np.testing.assert_allclose(
        topologies.eigenvalues(topologies.lazy(W)), (1 + topologies.eigenvalues(W)) / 2, atol=1e-14
    )


def test_rules_that_cannot_be_meant_are_refused() -> None:
    for self_weight in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"self_weight must be in \[0, 1\)"):
            topologies.uniform_weights(topologies.ring(5), self_weight)
    with pytest.raises(ValueError, match="agent 0 has 1 and agent 1 has 2; use metropolis weights"):
        topologies.uniform_weights(topologies.path(4))
    with pytest.raises(
        ValueError,
        match=r"unknown weights 'metropolix'; did you mean 'metropolis'.*lazy-max-degree",
    ):
        topologies.weights_from_name(topologies.ring(4), "metropolix")
    assert topologies.resolve_weights_name("Lazy_Max_Degree") == "lazy-max-degree"


@pytest.mark.slow
@EXAMPLES
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_scaling_of_random_matrices(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) * topologies.adjacency(topologies.erdos_renyi(n, 0.6, seed)).toarray()
    A = A + A.T + np.diag(rng.random(n) + 1e-3)
    W = topologies.sinkhorn_weights(A).toarray()
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-12)
    scale = np.sqrt(np.diag(W) / np.diag(A))
    np.testing.assert_allclose(W, scale[:, None] * A * scale, rtol=1e-12)


def test_scaling_is_unique() -> None:
    """A mixing matrix is its own scaling, and any D W D scales back to it."""
    W = topologies.metropolis_weights(topologies.les_miserables())
    scale = np.random.default_rng(0).uniform(0.1, 10, 77)
    np.testing.assert_allclose(topologies.sinkhorn_weights(W).toarray(), W.toarray(), atol=1e-14)
    spoilt = sparse.diags_array(scale) @ W @ sparse.diags_array(scale)
    np.testing.assert_allclose(
        topologies.sinkhorn_weights((spoilt + spoilt.T) / 2).toarray(), W.toarray(), atol=1e-11
    )


@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([[1, -1], [-1, 1]], r"must not be negative, but A\[0, 1\] = -1"),
        (
            [[1, 2], [1, 1]],
            r"must be symmetric, but A\[0, 1\] - A\[1, 0\] = 1; use \(A \+ A.T\) / 2",
        ),
        ([[1, 0], [0, 0]], r"row 1 has none; give A\[1, 1\] > 0"),
        (
            [[0, 1, 1], [1, 0, 0], [1, 0, 0]],
            r"cannot be scaled.*give every agent a weight of its own",
        ),
    ],
)
def test_matrices_that_cannot_be_scaled_are_named(A: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.sinkhorn_weights(A)


@pytest.mark.slow
@EXAMPLES
@given(
    n=st.integers(2, 11),
    seed=st.integers(0, 99),
    rule=st.sampled_from(["metropolis", "lazy-metropolis"]),
    data=st.data(),
)
def test_the_repaired_matrix_is_a_mixing_matrix_on_the_induced_subgraph(
    n: int, seed: int, rule: str, data: st.DataObject
) -> None:
    graph = topologies.erdos_renyi(n, 0.5, seed=seed)
    lost = sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1)))
    left = [i for i in range(n) if i not in lost]
    induced = graph.subgraph(left)
    assume(nx.is_connected(induced))
    W = topologies.weights_from_name(graph, rule)
    repaired = topologies.without_agents(W, lost)
    dense, whole = repaired.toarray(), W.toarray()
    expected = whole[np.ix_(left, left)] + np.diag(whole[np.ix_(left, lost)].sum(axis=1))
    np.testing.assert_allclose(dense, expected, rtol=0, atol=1e-15)
    assert dense.min() >= 0
    topologies.check_weights(repaired, topologies.numbered(induced))
    assert np.linalg.eigvalsh(dense)[0] >= np.linalg.eigvalsh(whole)[0] - 1e-12


def test_who_leaves_first_makes_no_difference() -> None:
    W = topologies.metropolis_weights(topologies.complete(7))
    at_once = topologies.without_agents(W, [1, 4]).toarray()
    np.testing.assert_allclose(
        topologies.without_agents(topologies.without_agents(W, [4]), [1]).toarray(),
        at_once,
        atol=1e-16,
    )
    np.testing.assert_array_equal(topologies.without_agents(W, [4, 1, 4]).toarray(), at_once)


@pytest.mark.parametrize(
    ("name", "lost", "words"),
    [
        (
            "path:10",
            [5, 6, 2],
            r"agents 2, 5 to 6 the others are not connected \(3 comp.*: 0 to 1; 3 to 4; 7 to 9",
        ),
        ("star:10", [0], r"\(9 components.*: 1; 2; 3; 4; 5; 6; \.\.\."),
        ("ring:10", [10], "must be among 0 to 9, got 10"),
        ("ring:10", [-1, 3], "got -1, 3"),
        ("ring:10", [*range(10)], "all 10 agents leave"),
    ],
)
def test_who_cannot_leave_is_named(name: str, lost: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        topologies.without_agents(
            topologies.metropolis_weights(topologies.graph_from_name(name)), lost
        )


@pytest.mark.parametrize(
    ("numbers", "words"),
    [([], ""), ([4], "4"), ([0, 1, 2, 7], "0 to 2, 7"), ([1, 3, 4], "1, 3 to 4")],
)
def test_numbers_in_words(numbers: list[int], words: str) -> None:
    assert ranges(numbers) == words
