"""Fastest weights: closed forms on edge-transitive graphs, certificates that close, and optimality that needs no certificate."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import topologies
from tests.support import closed_forms as known
from topologies import fastest_weights
from topologies.weights import fastest


@pytest.mark.parametrize(
    ("graph", "laplacian"),
    [
        (topologies.path(2), known.path(2)),
        (topologies.ring(9), known.ring(9)),
        (topologies.ring(32), known.ring(32)),
        (topologies.complete(7), known.complete(7)),
        (topologies.star(3), known.star(3)),
        (topologies.star(8), known.star(8)),
        (topologies.numbered(nx.complete_bipartite_graph(3, 5)), known.complete_bipartite(3, 5)),
        (topologies.hypercube(16), known.hypercube(16)),
        (topologies.torus(5, 5), known.torus(5, 5)),
    ],
)
@pytest.mark.parametrize("nonnegative", [True, False])
def test_edge_transitive_graphs_in_closed_form(graph: nx.Graph[int], laplacian: np.ndarray, nonnegative: bool) -> None:
    """One weight a for all edges: 2 / (lambda_2 + lambda_n), with W >= 0 at most 1 / (largest degree)."""
    second, largest = laplacian[[1, -1]]
    best = 2 / (second + largest)
    weight = min(best, 1 / max(d for _, d in graph.degree)) if nonnegative else best
    found = fastest_weights(graph, nonnegative)
    expected = np.eye(graph.number_of_nodes()) - weight * nx.laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(found.W.toarray(), expected, rtol=0, atol=1e-13)
    assert found.sigma == pytest.approx(max(1 - weight * second, weight * largest - 1), abs=1e-13)
    assert found.certified_gap <= 1e-12


def test_one_agent_and_too_many() -> None:
    assert fastest_weights(topologies.ring(1)).sigma == 0
    with pytest.raises(ValueError, match="up to 1500 agents, got 1600; use best-constant"):
        fastest_weights(topologies.adjacency_from_name("ring:1600"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torus:3x5", "path:9", "watts_strogatz:14", "barbell:8", "ring:33", "grid:5x6"])
@pytest.mark.parametrize("nonnegative", [True, False])
def test_certificates_close(name: str, nonnegative: bool) -> None:
    graph = topologies.graph_from_name(name)
    found = fastest_weights(graph, nonnegative)
    assert found.sigma - 1e-6 <= found.lower_bound <= found.sigma + 1e-12
    assert found.sigma == pytest.approx(topologies.spectrum(found.W).sigma, abs=1e-13)
    assert not nonnegative or found.W.data.min() >= 0
    topologies.check_weights(found.W, graph)


@pytest.mark.parametrize("nonnegative", [True, False])
def test_any_dual_matrix_gives_a_valid_bound(nonnegative: bool) -> None:
    """Also one that is no solution of anything: the certificate does not rest on the solver."""
    graph = topologies.grid(3, 3)
    tails, heads = np.array(sorted(graph.edges)).T
    problem = fastest._Problem(9, tails, heads, nonnegative)
    optimum = fastest_weights(graph, nonnegative).sigma
    _, vectors = np.linalg.eigh(nx.laplacian_matrix(graph).toarray())
    fiedler = np.outer(vectors[:, 1], vectors[:, 1])
    rng = np.random.default_rng(0)
    bounds = [fastest._lower_bound(problem, fiedler + 0.3 * rng.standard_normal((9, 9))) for _ in range(50)]
    assert max(bounds) <= optimum + 1e-9
    assert nonnegative is False or fastest._lower_bound(problem, fiedler) > 0.2
