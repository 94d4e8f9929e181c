"""Graph families against their definitions, networkx and laws; graphs by name in every way of
writing; the errors."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

import topologies as tp


def edges(graph: nx.Graph[Any]) -> set[tuple[int, int]]:
    """Without loops and repetitions; the agents must be numbered in order."""
    assert list(graph) == list(range(len(graph)))
    return {(min(i, j), max(i, j)) for i, j in graph.edges() if i != j}


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_ring_path_complete_and_star_have_the_edges_of_their_definition(n: int) -> None:
    assert edges(tp.ring(n)) == {
        (min(i, (i + 1) % n), max(i, (i + 1) % n)) for i in range(n) if n > 1
    }
    assert edges(tp.path(n)) == {(i, i + 1) for i in range(n - 1)}
    assert (
        edges(tp.complete(n))
        == edges(tp.erdos_renyi(n, 1.0))
        == set(itertools.combinations(range(n), 2))
    )
    assert edges(tp.star(n)) == {(0, i) for i in range(1, n)}


@pytest.mark.parametrize(
    "sides", [(1,), (6,), (1, 5), (2, 2), (3, 3), (4, 5), (2, 3, 4), (3, 4, 5)]
)
def test_grids_and_tori_join_places_at_distance_one_in_row_major_order(
    sides: tuple[int, ...],
) -> None:
    places = [*enumerate(itertools.product(*map(range, sides)))]

    def near(distance: Callable[[int, int, int], int]) -> set[tuple[int, int]]:
        return {
            (i, j)
            for (i, a), (j, b) in itertools.combinations(places, 2)
            if sum(map(distance, a, b, sides)) == 1
        }

    assert edges(tp.grid(*sides)) == near(lambda a, b, m: abs(a - b))
    if min(sides) > 2:
        assert edges(tp.torus(*sides)) == near(lambda a, b, m: min((a - b) % m, (b - a) % m))


@pytest.mark.parametrize("d", [0, 1, 3, 5])
def test_hypercube_joins_numbers_that_differ_in_one_binary_digit(d: int) -> None:
    expected = {
        (i, j) for i, j in itertools.combinations(range(2**d), 2) if (i ^ j).bit_count() == 1
    }
    assert edges(tp.hypercube(2**d)) == expected


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        *(
            (tp.circulant(n, offsets), nx.circulant_graph(n, [offset % n for offset in offsets]))
            for n, offsets in (
                (1, (1,)),
                (2, (1,)),
                (6, (1, 3)),
                (10, (2, 5)),
                (12, (5,)),
                (9, (1, 10, 8)),
                (10, (10**30 + 1,)),
            )
        ),
        *(
            (tp.exponential(n), nx.circulant_graph(n, [2**j for j in range(7) if 2**j < n]))
            for n in (1, 2, 3, 8, 10, 100)
        ),
        *(
            (tp.binary_tree(2 ** (depth + 1) - 1), nx.balanced_tree(2, depth))
            for depth in (0, 1, 4)
        ),
        *(
            (tp.barbell(n, bridge), tp.numbered(nx.barbell_graph((n - bridge) // 2, bridge)))
            for n, bridge in ((6, 0), (7, 1), (13, 3))
        ),
        (tp.barbell(2), nx.path_graph(2)),
        *(
            (tp.lollipop(n, tail), nx.lollipop_graph(n - tail, tail))
            for n, tail in ((5, 2), (9, 0), (12, 8))
        ),
        *(
            (tp.margulis(m * m), tp.numbered(nx.Graph(nx.margulis_gabber_galil_graph(m))))
            for m in (1, 2, 3, 8)
        ),
        *(
            (tp.chordal_cycle(p), tp.numbered(nx.Graph(nx.chordal_cycle_graph(p))))
            for p in (2, 3, 13)
        ),
        (tp.watts_strogatz(12, 4, 0.0), nx.circulant_graph(12, [1, 2])),
    ],
)
def test_families_are_those_of_networkx_made_simple(
    graph: nx.Graph[int], expected: nx.Graph[Any]
) -> None:
    assert edges(graph) == edges(expected)
    assert nx.number_of_selfloops(graph) == 0


def test_binary_tree_of_any_size_is_a_tree() -> None:
    for n in range(1, 40):
        assert nx.is_tree(tp.binary_tree(n))
        assert max(d for _, d in tp.binary_tree(n).degree) <= 3


def test_expanders_keep_their_gap() -> None:
    """Gabber and Galil: the second eigenvalue of the 8-regular multigraph is at most 5 sqrt 2, for
    every size."""
    for m in (10, 20):
        assert np.linalg.eigvalsh(nx.laplacian_matrix(tp.margulis(m * m)).toarray())[
            1
        ] >= 8 - 5 * np.sqrt(2)


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (10, 3), (9, 6), (8, 7), (30, 15), (200, 8)])
def test_random_regular_is_simple_connected_and_regular(n: int, degree: int) -> None:
    for seed in range(5):
        graph = tp.random_regular(n, degree, seed)
        assert nx.is_connected(graph)
        assert {d for _, d in graph.degree} == {degree}
        assert nx.number_of_selfloops(graph) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "n", "p"),
    [
        (lambda seed: tp.erdos_renyi(20, 0.8, seed), 20, 0.8),
        (lambda seed: tp.random_regular(12, 3, seed), 12, 3 / 11),
    ],
)
def test_every_edge_is_drawn_with_its_probability(
    draw: Callable[[int], nx.Graph[int]], n: int, p: float
) -> None:
    draws = 400
    counts = sum((nx.to_numpy_array(draw(seed)) for seed in range(draws)), np.zeros((n, n)))
    frequencies = counts[np.triu_indices(n, 1)] / draws
    assert np.abs(frequencies - p).max() < 5 * np.sqrt(p * (1 - p) / draws)
    assert abs(frequencies.mean() - p) < 5 * np.sqrt(p * (1 - p) / draws / len(frequencies))


def test_random_graphs_depend_on_the_seed_only() -> None:
    for name in ("erdos_renyi:30,p=0.2", "watts_strogatz:30,k=4,p=0.3"):
        first, again, other = (edges(tp.graph_from_name(name, seed=seed)) for seed in (5, 5, 6))
        assert first == again != other
    assert tp.watts_strogatz(30, 4, 0.3, 1).number_of_edges() == 60
    assert nx.is_connected(tp.barabasi_albert(50, 3, seed=2))
    assert tp.barabasi_albert(50, 3, seed=2).number_of_edges() == 3 + 3 * (50 - 4)


def test_random_geometric_joins_exactly_the_agents_within_the_radius() -> None:
    graph = tp.random_geometric(40, 0.3, seed=3)
    places = np.array([graph.nodes[i]["pos"] for i in graph])
    assert 0 <= places.min() < places.max() <= 1
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    assert edges(graph) == {
        (i, j) for i, j in itertools.combinations(range(40), 2) if distances[i, j] <= 0.3
    }


def test_numbered_sorts_labels_that_can_be_sorted_and_keeps_edges_and_attributes() -> None:
    source: nx.Graph[tuple[int, int]] = nx.Graph([((0, 0), (0, 1)), ((0, 0), (1, 0))])
    source.add_edge((1, 0), (0, 1), length=2.0)
    graph = tp.numbered(source)
    assert [graph.nodes[i]["label"] for i in graph] == [(0, 0), (0, 1), (1, 0)]
    assert edges(graph) == {(0, 1), (0, 2), (1, 2)}
    assert graph.edges[1, 2]["length"] == 2.0
    mixed = tp.numbered(nx.path_graph(["b", 1, "a"]))
    assert [mixed.nodes[i]["label"] for i in mixed] == ["b", 1, "a"]
    assert edges(mixed) == {(0, 1), (1, 2)}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tp.ring(0), "ring: the number of agents must be at least 1, got 0"),
        (lambda: tp.path(2.5), "path: the number of agents must be an integer, got 2.5"),  # type: ignore[arg-type]
        (lambda: tp.torus(2, 5), "torus: every side of 2x5 must be at least 3, got 2; use grid"),
        (lambda: tp.grid(4, 0), "grid: every side of 4x0 must be at least 1, got 0$"),
        (lambda: tp.torus(), "torus needs its sides"),
        (lambda: tp.erdos_renyi(5, 1.5), r"p must be a probability in \[0, 1\], got 1.5"),
        (lambda: tp.erdos_renyi(200, 0.005), r"n=200, p=0.005.*log\(n\)/n = 0.0265: try p=0.053"),
        (lambda: tp.hypercube(12), "power of 2, got 12; the nearest: 8 and 16"),
        (
            lambda: tp.circulant(10, (2, 4)),
            "disconnected: n and all offsets are multiples of 2; add offset 1",
        ),
        (lambda: tp.barbell(7), "n - bridge must be even.*try bridge=1"),
        (lambda: tp.chordal_cycle(9), "must be a prime, got 9; the nearest: 7 and 11"),
        (lambda: tp.random_regular(9, 3), r"n \* degree even, got n=9, degree=3"),
        (lambda: tp.random_regular(200, 1), "none of 100 draws was connected; .*try degree=3"),
        (
            lambda: tp.random_geometric(50, 0.05),
            r"none of 100 draws was connected.*try radius=0\.268",
        ),
        (lambda: tp.watts_strogatz(10, 4, 1.5), r"p must be a probability in \[0, 1\], got 1.5"),
    ],
)
def test_impossible_families_are_refused_with_the_repair(
    build: Callable[[], object], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        build()


@pytest.mark.parametrize(
    ("specification", "n_agents", "words"),
    [
        (
            "margulis:1000000000000",
            None,
            r"margulis: the number of agents must be at most 10\^8, got 1000000000000",
        ),
        (
            "chordal_cycle:1000000000000000000000000000057",
            None,
            "n must be at most 9223372036854775807, got",
        ),
        (
            "complete:1000000",
            None,
            r"complete: the number of edges must be at most 10\^9, got 499999500000",
        ),
        ("complete:1000000", 10, "has 10+ agents, but n_agents is 10; leave one of the two out"),
        (
            "torus:1000000x1000000",
            10,
            "has 10+ agents, but n_agents is 10; leave one of the two out",
        ),
        ("torus", 10**12, r"torus: the number of agents must be at most 10\^8"),
        ("random_matching", 10**12, r"random_matching: the number of agents must be at most 10\^8"),
    ],
)
def test_sizes_are_checked_before_a_graph_is_built(
    specification: str, n_agents: int | None, words: str
) -> None:
    functions = (
        [tp.sequence_from_name]
        if specification == "random_matching"
        else [tp.adjacency_from_name, tp.graph_from_name]
    )
    for function in functions:
        with pytest.raises(ValueError, match=words):
            function(specification, n_agents)


@pytest.mark.parametrize(
    ("specification", "n_agents", "expected"),
    [
        ("ring", 10, tp.ring(10)),
        ("ring:10", None, tp.ring(10)),
        (" Ring : n = 10 ", None, tp.ring(10)),
        ("path:n=1", None, tp.path(1)),
        ("torus:4x5", None, tp.torus(4, 5)),
        ("torus:sides=4X5", 20, tp.torus(4, 5)),
        ("torus", 900, tp.torus(30, 30)),
        ("grid", 10, tp.grid(2, 5)),
        ("erdos_renyi:p=0.5", 12, tp.erdos_renyi(12, 0.5, 7)),
        ("erdos-renyi:n=12,p=0.4,seed=4", None, tp.erdos_renyi(12, 0.4, 4)),
        ("hypercube", 8, tp.hypercube(8)),
        ("circulant:10,offsets=1+3+5", None, tp.circulant(10, (1, 3, 5))),
        ("lollipop:10,tail=3", None, tp.lollipop(10, 3)),
        ("random_geometric:radius=0.7", 9, tp.random_geometric(9, 0.7, 7)),
        ("watts-strogatz:20,k=6,p=0.5", None, tp.watts_strogatz(20, 6, 0.5, 7)),
        ("karate-club", None, tp.karate_club()),
    ],
)
def test_specification_names_the_same_graph_as_the_function(
    specification: str, n_agents: int | None, expected: nx.Graph[int]
) -> None:
    graph = tp.graph_from_name(specification, n_agents, seed=7)
    assert list(graph) == list(expected)
    assert nx.utils.graphs_equal(graph, expected)


SIZES = {"chordal_cycle": 13, "hypercube": 16, "margulis": 9}
SIZES |= {"davis_women": 32, "florentine_families": 15, "karate_club": 34, "les_miserables": 77}


@pytest.mark.parametrize("name", tp.available())
def test_every_available_name_builds_a_connected_graph_of_the_asked_size(name: str) -> None:
    n = SIZES.get(name, 12)
    graph = tp.graph_from_name(name, n)
    assert list(graph) == list(range(n))
    assert nx.is_connected(graph)
    arrays = tp.adjacency_from_name(name, n)
    np.testing.assert_array_equal(arrays.toarray(), tp.adjacency(graph).toarray())
    assert arrays.has_sorted_indices


@pytest.mark.parametrize("name", tp.available_weights())
def test_weights_from_arrays_and_from_the_graph_are_the_same(name: str) -> None:
    from_arrays = tp.weights_from_name(tp.adjacency_from_name("torus:3x3"), name)
    np.testing.assert_array_equal(
        from_arrays.toarray(), tp.weights_from_name(tp.torus(3, 3), name).toarray()
    )


@pytest.mark.parametrize(
    ("specification", "n_agents", "message"),
    [
        (
            "rng:4",
            None,
            "unknown graph 'rng'; did you mean 'ring'.*known graphs: barabasi_albert, .*torus, "
            ".*file:PATH",
        ),
        ("ring:10,n=10", None, "n is given twice"),
        ("ring", None, "leaves the number of agents open.*'ring:10'"),
        ("file:", None, "'file:' names no file: write file:PATH, as file:my/graph.txt"),
        ("file:,largest_component=true", None, "names no file: write file:PATH"),
        ("ring:10", 12, "'ring:10' has 10 agents, but n_agents is 12"),
        ("torus:2x5", None, "every side of 2x5 must be at least 3, got 2"),
        (
            "torus",
            14,
            "no two-dimensional torus has 14 agents.*nearest numbers that work: 12 and 15",
        ),
        ("karate_club:34", None, "karate_club takes no parameters; write 'karate_club'"),
        ("circulant:10,offsets=1x2", None, "offsets must be integers joined by .* got '1x2'"),
    ],
)
def test_mistakes_are_explained(specification: str, n_agents: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tp.graph_from_name(specification, n_agents)
    with pytest.raises(ValueError, match=message):
        tp.adjacency_from_name(specification, n_agents)


def test_torus_is_the_most_square_one() -> None:
    for n in range(9, 200):
        factors = [(a, n // a) for a in range(3, n) if n % a == 0 and 3 <= a <= n // a]
        if factors:
            assert nx.utils.graphs_equal(tp.graph_from_name("torus", n), tp.torus(*factors[-1]))


@pytest.mark.slow
def test_import_is_lazy_and_needs_neither_the_solver_package_nor_mpi() -> None:
    code = """
import sys, topologies
assert not {'networkx', 'scipy', 'numpy'} & set(sys.modules)
for name in topologies.__all__: getattr(topologies, name)
topologies.spectrum(topologies.weights_from_name(topologies.graph_from_name('torus:3x4')))
assert not {'decentorth', 'mpi4py'} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'rign'"):
        _ = tp.rign  # type: ignore[attr-defined]
