"""Graphs by name: every way to write a specification, and every way to get it wrong."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import topologies


@pytest.mark.parametrize(
    ("specification", "n_agents", "expected"),
    [
        ("ring", 10, topologies.ring(10)),
        ("ring:10", None, topologies.ring(10)),
        (" Ring : n = 10 ", None, topologies.ring(10)),
        ("path:n=1", None, topologies.path(1)),
        ("torus:4x5", None, topologies.torus(4, 5)),
        ("torus:sides=4X5", 20, topologies.torus(4, 5)),
        ("torus", 900, topologies.torus(30, 30)),
        ("grid", 10, topologies.grid(2, 5)),
        ("erdos_renyi:p=0.5", 12, topologies.erdos_renyi(12, 0.5, 7)),
        ("erdos-renyi:n=12,p=0.4,seed=4", None, topologies.erdos_renyi(12, 0.4, 4)),
        ("hypercube", 8, topologies.hypercube(8)),
        ("circulant:10,offsets=1+3+5", None, topologies.circulant(10, (1, 3, 5))),
        ("lollipop:10,tail=3", None, topologies.lollipop(10, 3)),
        ("random_geometric:radius=0.7", 9, topologies.random_geometric(9, 0.7, 7)),
        ("watts-strogatz:20,k=6,p=0.5", None, topologies.watts_strogatz(20, 6, 0.5, 7)),
        ("karate-club", None, topologies.karate_club()),
    ],
)
def test_specification_names_the_same_graph_as_the_function(
    specification: str, n_agents: int | None, expected: nx.Graph[int]
) -> None:
    graph = topologies.graph_from_name(specification, n_agents, seed=7)
    assert list(graph) == list(expected)
    assert nx.utils.graphs_equal(graph, expected)


SIZES = {"chordal_cycle": 13, "hypercube": 16, "margulis": 9}
SIZES |= {"davis_women": 32, "florentine_families": 15, "karate_club": 34, "les_miserables": 77}


@pytest.mark.parametrize("name", topologies.available())
def test_every_available_name_builds_a_connected_graph_of_the_asked_size(name: str) -> None:
    n = SIZES.get(name, 12)
    graph = topologies.graph_from_name(name, n)
    assert list(graph) == list(range(n))
    assert nx.is_connected(graph)
    arrays = topologies.adjacency_from_name(name, n)
    np.testing.assert_array_equal(arrays.toarray(), topologies.adjacency(graph).toarray())
    assert arrays.has_sorted_indices


@pytest.mark.parametrize("name", topologies.available_weights())
def test_weights_from_arrays_and_from_the_graph_are_the_same(name: str) -> None:
    from_arrays = topologies.weights_from_name(topologies.adjacency_from_name("torus:3x3"), name)
    np.testing.assert_array_equal(from_arrays.toarray(), topologies.weights_from_name(topologies.torus(3, 3), name).toarray())


@pytest.mark.parametrize(
    ("specification", "n_agents", "message"),
    [
        ("rng:4", None, "unknown graph 'rng'; did you mean 'ring'.*known graphs: barabasi_albert, .*torus, .*file:PATH"),
        ("ring:10,n=10", None, "n is given twice"),
        ("ring", None, "leaves the number of agents open.*'ring:10'"),
        ("file:", None, "'file:' names no file: write file:PATH, as file:my/graph.txt"),
        ("file:,largest_component=true", None, "names no file: write file:PATH"),
        ("ring:10", 12, "'ring:10' has 10 agents, but n_agents is 12"),
        ("torus:2x5", None, "every side of 2x5 must be at least 3, got 2"),
        ("torus", 14, "no two-dimensional torus has 14 agents.*nearest numbers that work: 12 and 15"),
        ("karate_club:34", None, "karate_club takes no parameters; write 'karate_club'"),
        ("circulant:10,offsets=1x2", None, "offsets must be integers joined by .* got '1x2'"),
    ],
)
def test_mistakes_are_explained(specification: str, n_agents: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.graph_from_name(specification, n_agents)
    with pytest.raises(ValueError, match=message):
        topologies.adjacency_from_name(specification, n_agents)


def test_torus_is_the_most_square_one() -> None:
    for n in range(9, 200):
        factors = [(a, n // a) for a in range(3, n) if n % a == 0 and 3 <= a <= n // a]
        if factors:
            assert nx.utils.graphs_equal(topologies.graph_from_name("torus", n), topologies.torus(*factors[-1]))
