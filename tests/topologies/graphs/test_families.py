"""The larger graph families against their definitions and against networkx, the random ones against their laws."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest

import topologies


def edges(graph: nx.Graph[int]) -> set[tuple[int, int]]:
    assert list(graph) == list(range(graph.number_of_nodes()))
    return {(min(edge), max(edge)) for edge in graph.edges}


def simple(multigraph: nx.Graph[Any]) -> set[tuple[int, int]]:
    graph = topologies.numbered(nx.Graph(multigraph))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return edges(graph)


@pytest.mark.parametrize("d", [0, 1, 3, 5])
def test_hypercube_joins_numbers_that_differ_in_one_binary_digit(d: int) -> None:
    expected = {(i, j) for i, j in itertools.combinations(range(2**d), 2) if (i ^ j).bit_count() == 1}
    assert edges(topologies.hypercube(2**d)) == expected


@pytest.mark.parametrize(("n", "offsets"), [(1, (1,)), (2, (1,)), (6, (1, 3)), (10, (2, 5)), (12, (5,)), (9, (1, 10, 8))])
def test_circulant(n: int, offsets: tuple[int, ...]) -> None:
    expected = nx.circulant_graph(n, list(offsets))
    expected.remove_edges_from(list(nx.selfloop_edges(expected)))
    assert edges(topologies.circulant(n, offsets)) == edges(expected)


@pytest.mark.parametrize(("n", "degree"), [(1, 0), (2, 1), (3, 2), (8, 5), (10, 6), (16, 7), (100, 14)])
def test_exponential_joins_powers_of_two(n: int, degree: int) -> None:
    """Offsets 2^j and -2^j modulo n, where some of them may coincide."""
    graph = topologies.exponential(n)
    powers = [2**j for j in range(n.bit_length()) if 2**j < n]
    assert edges(graph) == edges(nx.circulant_graph(n, powers))
    assert {d for _, d in graph.degree} == {degree}


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_binary_tree(depth: int) -> None:
    assert edges(topologies.binary_tree(2 ** (depth + 1) - 1)) == edges(nx.balanced_tree(2, depth))


def test_binary_tree_of_any_size_is_a_tree() -> None:
    for n in range(1, 40):
        graph = topologies.binary_tree(n)
        assert nx.is_tree(graph)
        assert max(d for _, d in graph.degree) <= 3


@pytest.mark.parametrize(("n", "bridge"), [(2, 0), (6, 0), (7, 1), (13, 3)])
def test_barbell(n: int, bridge: int) -> None:
    expected: set[tuple[int, int]] = {(0, 1)} if n == 2 else edges(topologies.numbered(nx.barbell_graph((n - bridge) // 2, bridge)))
    assert edges(topologies.barbell(n, bridge)) == expected


@pytest.mark.parametrize(("n", "tail"), [(5, 2), (9, 0), (12, 8)])
def test_lollipop(n: int, tail: int) -> None:
    assert edges(topologies.lollipop(n, tail)) == edges(nx.lollipop_graph(n - tail, tail))


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8])
def test_margulis_is_networkx_multigraph_made_simple(m: int) -> None:
    assert edges(topologies.margulis(m * m)) == simple(nx.margulis_gabber_galil_graph(m))


@pytest.mark.parametrize("p", [2, 3, 5, 13, 31])
def test_chordal_cycle_is_networkx_multigraph_made_simple(p: int) -> None:
    assert edges(topologies.chordal_cycle(p)) == simple(nx.chordal_cycle_graph(p))


def test_expanders_keep_their_gap() -> None:
    """Gabber and Galil: the second eigenvalue of the 8-regular multigraph is at most 5 sqrt 2, for every size."""
    for m in (10, 20, 30):
        laplacian = nx.laplacian_matrix(topologies.margulis(m * m)).toarray()
        assert np.linalg.eigvalsh(laplacian)[1] >= 8 - 5 * np.sqrt(2)


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (10, 3), (9, 4), (9, 6), (8, 7), (50, 3), (30, 15), (200, 8)])
def test_random_regular_is_simple_connected_and_regular(n: int, degree: int) -> None:
    for seed in range(5):
        graph = topologies.random_regular(n, degree, seed)
        assert nx.is_connected(graph)
        assert {d for _, d in graph.degree} == {degree}
        assert nx.number_of_selfloops(graph) == 0


@pytest.mark.slow
def test_random_regular_draws_every_edge_equally_often() -> None:
    n, degree, draws = 12, 3, 600
    counts = np.zeros((n, n))
    for seed in range(draws):
        counts += nx.to_numpy_array(topologies.random_regular(n, degree, seed))
    p = degree / (n - 1)
    frequencies = counts[np.triu_indices(n, 1)] / draws
    assert np.abs(frequencies - p).max() < 5 * np.sqrt(p * (1 - p) / draws)


def test_random_geometric_joins_exactly_the_agents_within_the_radius() -> None:
    graph = topologies.random_geometric(40, 0.3, seed=3)
    places = np.array([graph.nodes[i]["pos"] for i in graph])
    assert places.min() >= 0
    assert places.max() <= 1
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    assert edges(graph) == {(i, j) for i, j in itertools.combinations(range(40), 2) if distances[i, j] <= 0.3}


def test_watts_strogatz_without_rewiring_is_the_ring_lattice() -> None:
    assert edges(topologies.watts_strogatz(12, 4, 0.0)) == edges(topologies.circulant(12, (1, 2)))
    rewired = topologies.watts_strogatz(30, 4, 0.3, seed=1)
    assert rewired.number_of_edges() == 60
    assert edges(rewired) == edges(topologies.watts_strogatz(30, 4, 0.3, seed=1))


def test_barabasi_albert_has_the_edges_of_its_growth() -> None:
    graph = topologies.barabasi_albert(50, 3, seed=2)
    assert graph.number_of_edges() == 3 + 3 * (50 - 4)
    assert nx.is_connected(graph)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: topologies.hypercube(12), "power of 2, got 12; the nearest: 8 and 16"),
        (lambda: topologies.circulant(10, (2, 4)), r"disconnected: n and all offsets are multiples of 2; add offset 1"),
        (lambda: topologies.barbell(7), r"n - bridge must be even.*try bridge=1"),
        (lambda: topologies.chordal_cycle(9), "must be a prime, got 9; the nearest: 7 and 11"),
        (lambda: topologies.random_regular(9, 3), r"n \* degree even, got n=9, degree=3"),
        (lambda: topologies.random_regular(200, 1), "none of 100 draws was connected; .*try degree=3"),
        (lambda: topologies.random_geometric(50, 0.05), r"none of 100 draws was connected.*try radius=0\.268"),
        (lambda: topologies.watts_strogatz(10, 4, 1.5), r"p must be a probability in \[0, 1\], got 1.5"),
    ],
)
def test_impossible_families_are_refused_with_the_repair(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(ValueError, match=message):
        build()
