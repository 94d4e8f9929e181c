"""Measures against their definitions; closed forms of Laplacians against numerical eigenvalues,
dense and by multigrid."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import topologies
from tests.support import closed_forms
from topologies import graph_measures, kemeny_constant, mixing_time
from topologies.canonical import distances
from topologies.spectra import eigenvalues
from topologies.spectra.multigrid import smallest_eigenvalue


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (topologies.ring(11), closed_forms.ring(11)),
        (topologies.path(12), closed_forms.path(12)),
        (topologies.complete(7), closed_forms.complete(7)),
        (topologies.star(9), closed_forms.star(9)),
        (
            topologies.numbered(nx.complete_bipartite_graph(3, 5)),
            closed_forms.complete_bipartite(3, 5),
        ),
        (topologies.hypercube(32), closed_forms.hypercube(32)),
        (topologies.grid(3, 4, 5), closed_forms.grid(3, 4, 5)),
        (topologies.torus(3, 4, 5), closed_forms.torus(3, 4, 5)),
        (topologies.circulant(13, (1, 3, 4)), closed_forms.circulant(13, (1, 3, 4))),
        (topologies.exponential(11), closed_forms.circulant(11, (1, 2, 4, 8))),
    ],
)
def test_closed_forms_are_the_laplacian_s_eigenvalues(
    graph: nx.Graph[int], expected: np.ndarray
) -> None:
    np.testing.assert_allclose(
        np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray()), expected, rtol=0, atol=1e-12
    )
    assert topologies.algebraic_connectivity(graph) == pytest.approx(expected[1], abs=1e-12)


@pytest.mark.parametrize(
    "name",
    ["grid:4x5", "karate_club", "barbell:12", "binary_tree:20", "watts_strogatz:30", "ring:1"],
)
def test_measures_agree_with_networkx(name: str) -> None:
    graph = topologies.graph_from_name(name)
    found = graph_measures(graph)
    degrees = [d for _, d in graph.degree]
    assert (found.n, found.edges) == (graph.number_of_nodes(), graph.number_of_edges())
    assert (found.smallest_degree, found.largest_degree) == (min(degrees), max(degrees))
    assert found.mean_degree == pytest.approx(np.mean(degrees))
    assert found.diameter == topologies.diameter(graph) == nx.diameter(graph)
    assert found == graph_measures(topologies.adjacency(graph))


def test_diameter_of_more_agents_than_one_block_of_searches() -> None:
    assert topologies.diameter(topologies.adjacency_from_name("path:700")) == 699
    assert topologies.diameter(topologies.adjacency_from_name("torus:20x30")) == 25


def test_kemeny_constant_is_the_mean_hitting_time() -> None:
    """From any agent, the mean over targets of the expected rounds to reach it: solved as linear
    systems."""
    W = topologies.metropolis_weights(topologies.grid(3, 4)).toarray()
    n = len(W)
    hitting = np.zeros((n, n))
    for target in range(n):
        others = np.delete(np.arange(n), target)
        hitting[others, target] = np.linalg.solve(
            np.eye(n - 1) - W[np.ix_(others, others)], np.ones(n - 1)
        )
    np.testing.assert_allclose(hitting.mean(axis=1), kemeny_constant(W), rtol=1e-10)
    assert kemeny_constant([[1.0]]) == 0


@pytest.mark.parametrize("distance", [0.25, 0.01])
@pytest.mark.parametrize(
    "name", ["ring:9", "star:8", "grid:3x4", "complete:6", "ring:1", "lollipop:14"]
)
def test_mixing_time_is_the_least_power(name: str, distance: float) -> None:
    W = topologies.metropolis_weights(topologies.graph_from_name(name)).toarray()
    power, rounds = np.eye(len(W)), 0
    while np.abs(power - 1 / len(W)).sum(axis=1).max() / 2 > distance:
        power, rounds = power @ W, rounds + 1
    assert mixing_time(W, distance) == rounds


def test_mixing_time_needs_a_random_walk() -> None:
    with pytest.raises(ValueError, match="must not have negative entries"):
        mixing_time(topologies.best_constant_weights(topologies.star(6)))
    with pytest.raises(ValueError, match=r"distance must be in \(0, 1\).*got 1"):
        mixing_time(topologies.metropolis_weights(topologies.ring(4)), 1)


@pytest.mark.slow
def test_multigrid_agrees_with_dense() -> None:
    """On an irregular graph; test_spectra has closed forms of meshes for which it is used."""
    W = topologies.metropolis_weights(topologies.adjacency_from_name("random_geometric:1700"))
    values = np.linalg.eigvalsh(W.toarray())
    gap = smallest_eigenvalue(eigenvalues._laplacian(W), without_constant=True)
    assert gap == pytest.approx(1 - values[-2], rel=1e-9, abs=1e-14)
    assert eigenvalues._smallest_by_multigrid(W, distances(W, 0)) == pytest.approx(
        values[0], abs=1e-11
    )
