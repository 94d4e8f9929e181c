"""Graphs: the edges of each family, the numbering, and the errors."""

from __future__ import annotations

import itertools
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

import topologies


def edges(graph: nx.Graph[int]) -> set[tuple[int, int]]:
    assert list(graph) == list(range(graph.number_of_nodes()))
    return {(min(edge), max(edge)) for edge in graph.edges}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_ring_path_complete_and_star_have_the_edges_of_their_definition(n: int) -> None:
    assert edges(topologies.ring(n)) == {(min(i, (i + 1) % n), max(i, (i + 1) % n)) for i in range(n) if n > 1}
    assert edges(topologies.path(n)) == {(i, i + 1) for i in range(n - 1)}
    assert edges(topologies.complete(n)) == set(itertools.combinations(range(n), 2))
    assert edges(topologies.star(n)) == {(0, i) for i in range(1, n)}


@pytest.mark.parametrize("sides", [(1,), (6,), (1, 1), (1, 5), (2, 2), (4, 5), (2, 3, 4)])
def test_grid_joins_places_at_distance_one_in_row_major_order(sides: tuple[int, ...]) -> None:
    places = list(itertools.product(*map(range, sides)))
    expected = {
        (i, j)
        for i, j in itertools.combinations(range(len(places)), 2)
        if sum(abs(a - b) for a, b in zip(places[i], places[j], strict=True)) == 1
    }
    assert edges(topologies.grid(*sides)) == expected


@pytest.mark.parametrize("sides", [(3,), (7,), (3, 3), (4, 5), (3, 4, 5)])
def test_torus_joins_places_that_differ_by_one_modulo_the_side(sides: tuple[int, ...]) -> None:
    places = list(itertools.product(*map(range, sides)))
    expected = {
        (i, j)
        for i, j in itertools.combinations(range(len(places)), 2)
        if sum(min((a - b) % m, (b - a) % m) for a, b, m in zip(places[i], places[j], sides, strict=True)) == 1
    }
    graph = topologies.torus(*sides)
    assert edges(graph) == expected
    assert {degree for _, degree in graph.degree} == {2 * len(sides)}


@pytest.mark.slow
def test_erdos_renyi_draws_every_pair_with_the_given_probability() -> None:
    n, p, draws = 20, 0.8, 300
    counts = np.zeros((n, n))
    for seed in range(draws):
        graph = topologies.erdos_renyi(n, p, seed)
        assert nx.is_connected(graph)
        counts += nx.to_numpy_array(graph)
    frequencies = counts[np.triu_indices(n, 1)] / draws
    assert np.abs(frequencies - p).max() < 5 * np.sqrt(p * (1 - p) / draws)
    assert abs(frequencies.mean() - p) < 5 * np.sqrt(p * (1 - p) / draws / len(frequencies))


def test_erdos_renyi_depends_on_the_seed_only() -> None:
    assert edges(topologies.erdos_renyi(30, 0.2, 5)) == edges(topologies.erdos_renyi(30, 0.2, 5))
    assert edges(topologies.erdos_renyi(30, 0.2, 5)) != edges(topologies.erdos_renyi(30, 0.2, 6))


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_erdos_renyi_with_certain_edges_is_complete(n: int) -> None:
    assert edges(topologies.erdos_renyi(n, 1.0)) == edges(topologies.complete(n))


def test_erdos_renyi_below_the_threshold_suggests_a_probability_that_works() -> None:
    with pytest.raises(ValueError, match=r"n=200, p=0.005.*log\(n\)/n = 0.0265: try p=0.053"):
        topologies.erdos_renyi(200, 0.005)
    assert nx.is_connected(topologies.erdos_renyi(200, 0.053))


def test_numbered_sorts_the_labels_and_keeps_edges_and_attributes() -> None:
    source: nx.Graph[tuple[int, int]] = nx.Graph([((0, 0), (0, 1)), ((0, 0), (1, 0))])
    source.add_edge((1, 0), (0, 1), length=2.0)
    graph = topologies.numbered(source)
    assert list(graph) == [0, 1, 2]
    assert [graph.nodes[i]["label"] for i in graph] == [(0, 0), (0, 1), (1, 0)]
    assert edges(graph) == {(0, 1), (0, 2), (1, 2)}
    assert graph.edges[1, 2]["length"] == 2.0


def test_numbered_keeps_the_order_of_labels_that_do_not_sort() -> None:
    graph = topologies.numbered(nx.path_graph(["b", 1, "a"]))
    assert [graph.nodes[i]["label"] for i in graph] == ["b", 1, "a"]
    assert edges(graph) == {(0, 1), (1, 2)}


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="ring: the number of agents must be at least 1, got 0"):
        topologies.ring(0)
    with pytest.raises(TypeError, match=r"path: the number of agents must be an integer, got 2.5"):
        topologies.path(2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="torus: every side of 2x5 must be at least 3, got 2; use grid"):
        topologies.torus(2, 5)
    with pytest.raises(ValueError, match=r"grid: every side of 4x0 must be at least 1, got 0$"):
        topologies.grid(4, 0)
    with pytest.raises(ValueError, match="torus needs its sides"):
        topologies.torus()
    with pytest.raises(ValueError, match=r"p must be a probability in \[0, 1\], got 1.5"):
        topologies.erdos_renyi(5, 1.5)


@pytest.mark.parametrize(
    ("specification", "words"),
    [
        ("margulis:1000000000000", r"margulis: the number of agents must be at most 10\^8, got 1000000000000"),
        ("ring:n=1000000000000", r"ring: the number of agents must be at most 10\^8"),
        ("chordal_cycle:1000000000000000000000000000057", "n must be at most 9223372036854775807, got"),
        ("complete:1000000", r"complete: the number of edges must be at most 10\^9, got 499999500000"),
    ],
)
def test_graphs_beyond_one_process_are_refused_before_they_are_built(specification: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        topologies.adjacency_from_name(specification)
    with pytest.raises(ValueError, match=words):
        topologies.graph_from_name(specification)


def test_sizes_are_compared_before_a_graph_is_built() -> None:
    for specification in ("complete:1000000", "torus:1000000x1000000"):
        with pytest.raises(ValueError, match=r"has 10+ agents, but n_agents is 10; leave one of the two out"):
            topologies.adjacency_from_name(specification, 10)
    with pytest.raises(ValueError, match=r"torus: the number of agents must be at most 10\^8"):
        topologies.adjacency_from_name("torus", 10**12)
    with pytest.raises(ValueError, match=r"random_matching: the number of agents must be at most 10\^8"):
        topologies.sequence_from_name("random_matching", 10**12)


def test_offsets_count_modulo_the_number_of_agents() -> None:
    assert edges(topologies.circulant(10, (10**30 + 1,))) == edges(topologies.ring(10))


@pytest.mark.slow
def test_import_is_lazy_and_needs_neither_the_solver_package_nor_mpi() -> None:
    code = (
        "import sys, topologies\n"
        "assert not {'networkx', 'scipy', 'numpy'} & set(sys.modules)\n"
        "for name in topologies.__all__: getattr(topologies, name)\n"
        "topologies.spectrum(topologies.weights_from_name(topologies.graph_from_name('torus:3x4')))\n"
        "assert not {'decentorth', 'mpi4py'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_attribute_is_an_attribute_error() -> None:
    name = "rign"
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(topologies, name)
