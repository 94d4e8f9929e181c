"""The exchange plans of all ranks, played in one process, and how agents are divided over ranks."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import topologies as tp
from decentorth.network import Network
from decentorth.network.halo import Halo, even_bounds, fewer_cuts_bounds, plan
from decentorth.numerics.ordered_sums import plain
from decentorth.protocols import Array, Index

Weights = csr_array
"""A mixing matrix."""


def random_weights(n: int, density: float, seed: int) -> Weights:
    """Metropolis weights of a random connected graph: a random tree and each other edge with
    probability ``density``."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((int(order[i]), int(order[rng.integers(i)])) for i in range(1, n))
    graph.add_edges_from((i, j) for i in range(n) for j in range(i) if rng.random() < density)
    return tp.metropolis_weights(graph)


def played(halos: list[Halo], x: Array) -> Array:
    """Every rank's plan, with its pieces added one stored entry after the other in plain Python."""
    bounds = [halo.agents.start for halo in halos] + [halos[-1].agents.stop]
    letters = {}
    for rank, halo in enumerate(halos):
        for send in halo.sends:
            letters[rank, send.target] = x[halo.agents][send.rows]
    out = np.empty_like(x)
    for rank, halo in enumerate(halos):
        mixed = np.zeros((bounds[rank + 1] - bounds[rank], *x.shape[1:]))
        for piece in halo.pieces:
            values = x[halo.agents] if piece.source == rank else letters.pop((piece.source, rank))
            assert len(values) == piece.block.columns
            assert len(mixed) == piece.block.rows
            for row in range(piece.block.rows):
                for entry in range(piece.block.indptr[row], piece.block.indptr[row + 1]):
                    mixed[row] += piece.block.data[entry] * values[piece.block.indices[entry]]
        out[halo.agents] = mixed
    assert not letters, "a message that nobody receives"
    return out


def random_bounds(n: int, ranks: int, rng: np.random.Generator) -> Index:
    """Any division into consecutive non-empty blocks."""
    inner = (
        np.sort(rng.choice(np.arange(1, n), ranks - 1, replace=False))
        if ranks > 1
        else np.arange(0)
    )
    return np.concatenate(([0], inner, [n])).astype(np.int64)


@pytest.mark.parametrize("n", range(1, 13))
def test_the_plans_of_all_ranks_are_the_mixing_of_one_process(n: int) -> None:
    """Bit for bit, for every number of ranks and any blocks, from trees to complete; what is sent
    is what is needed."""
    rng = np.random.default_rng(n)
    for density in (0.0, 0.2, 0.6, 1.0):
        W = random_weights(n, density, seed=n)
        x = rng.standard_normal((n, 2, 3)) * 10.0 ** rng.integers(-8, 8, (n, 1, 1))
        (expected,) = Network(W, "serial").mix(x)
        np.testing.assert_allclose(
            expected, (W.toarray() @ x.reshape(n, -1)).reshape(x.shape), rtol=1e-14, atol=1e-6
        )
        for ranks in range(1, n + 1):
            for bounds in (even_bounds(n, ranks), random_bounds(n, ranks, rng)):
                halos = [plan(plain(W), bounds, rank) for rank in range(ranks)]
                assert [(halo.agents.start, halo.agents.stop) for halo in halos] == list(
                    pairwise(bounds)
                )
                assert played(halos, x).tobytes() == expected.tobytes()


@given(n=st.integers(1, 500), data=st.data())
def test_even_blocks_cover_all_agents_and_differ_by_one(n: int, data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, n))
    bounds = even_bounds(n, ranks)
    sizes = np.diff(bounds)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, n, ranks + 1)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1
    assert np.all(np.diff(sizes) <= 0)


def cuts(W: Weights, bounds: Index) -> int:
    """Edges over each border, summed over the borders."""
    dense = np.triu(W.toarray() != 0, 1)
    return sum(int(dense[:border, border:].sum()) for border in bounds[1:-1])


@pytest.mark.slow
@settings(max_examples=80)
@given(n=st.integers(1, 60), density=st.floats(0, 0.3), seed=st.integers(0, 1000), data=st.data())
def test_moved_borders_cut_no_more_edges_and_stay_near(
    n: int, density: float, seed: int, data: st.DataObject
) -> None:
    """Every border within a tenth of a block of the even one, or two fifths where the slack is four
    times as wide."""
    ranks = data.draw(st.integers(1, n))
    slack = data.draw(st.sampled_from([0.2, 0.8]))
    W = random_weights(n, density, seed)
    even, moved = even_bounds(n, ranks), fewer_cuts_bounds(W, ranks, slack)
    assert np.abs(moved - even).max() <= slack / 2 * n / ranks
    assert (moved[0], moved[-1], len(moved)) == (0, n, ranks + 1)
    assert np.diff(moved).min() >= 1
    assert cuts(W, moved) <= cuts(W, even)


def test_a_border_moves_to_the_bridge() -> None:
    """Two cliques of 22 and 18 joined by one edge: in two blocks with slack 0.2 the border moves
    from 20 to the bridge."""
    graph = nx.disjoint_union(nx.complete_graph(22), nx.complete_graph(18))
    graph.add_edge(21, 22)
    W = tp.metropolis_weights(graph)
    assert fewer_cuts_bounds(W, 2).tolist() == [0, 22, 40]
    assert even_bounds(40, 2).tolist() == [0, 20, 40]
    assert cuts(W, fewer_cuts_bounds(W, 2)) == 1
