"""Exact sums along a spanning tree, against additions one by one."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import topologies as tp
from decentorth.network import Network
from decentorth.network.tree import Tree, spanning_tree
from decentorth.network.unreliable.channel import Channel
from decentorth.network.unreliable.unreliable_network import UnreliableNetwork
from decentorth.protocols import Array
from tests.support.threads import on_ranks

GRAPHS = {
    "one": tp.path(1),
    "two": tp.path(2),
    "ring": tp.ring(12),
    "star": tp.star(9),
    "torus": tp.torus(3, 4),
    "tree": nx.random_labeled_tree(40, seed=1),
    "complete": tp.complete(7),
    "erdos_renyi": tp.erdos_renyi(30, 0.2, seed=2),
}


def added(tree: Tree, x: Array) -> Array:
    """The sum over the tree: each agent's own value, then its children's sums by their numbers."""

    def below(agent: int) -> Array:
        total = x[agent].copy()
        for child in range(len(x)):
            if child != agent and tree.parents[child] == agent:
                total += below(child)
        return total

    return below(int(tree.order[0]))


def values(n: int, *shape: int) -> Array:
    """Numbers of very different sizes, so that the order of additions shows."""
    rng = np.random.default_rng(n)
    sizes = 10.0 ** rng.integers(-8, 8, n)
    return rng.standard_normal((n, *shape)) * sizes.reshape(-1, *[1] * len(shape))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_tree_is_one_of_shortest_paths_to_an_agent_in_the_middle(name: str) -> None:
    graph = GRAPHS[name]
    tree = spanning_tree(tp.metropolis_weights(graph))
    root = int(tree.order[0])
    distances = nx.single_source_shortest_path_length(graph, root)
    places = {int(agent): place for place, agent in enumerate(tree.order)}
    assert sorted(places) == list(range(len(graph)))
    assert tree.depth == max(distances.values())
    if nx.is_tree(graph):
        assert tree.depth == nx.radius(graph)
    for agent, parent in enumerate(tree.parents.tolist()):
        if agent == root:
            assert parent == root
            continue
        assert graph.has_edge(agent, parent)
        assert distances[agent] == distances[parent] + 1
        assert places[parent] < places[agent]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 10])
def test_sums_have_the_bits_of_additions_one_by_one(name: str, ranks: int) -> None:
    W = tp.metropolis_weights(GRAPHS[name])
    n, ranks = len(GRAPHS[name]), min(ranks, len(GRAPHS[name]))
    x, y, z = values(n, 4, 3), values(n), values(n, 2, 0)
    expected = [added(spanning_tree(W), one) for one in (x, y, z)]

    def on_rank(communicator: Any) -> Network:
        network = Network(W, communicator)
        own = network.agents
        for _ in range(2):
            found = network.total(x[own], y[own], z[own])
            for one, sums in zip(found, expected, strict=True):
                assert one.shape == (network.n_local, *sums.shape)
                assert one.flags.c_contiguous
                assert one.flags.writeable
                for agent in one:
                    assert agent.tobytes() == sums.tobytes()
            assert network.column_sums(x[own, 0]).tobytes() == expected[0][0].tobytes()
        return network

    networks = on_ranks(ranks, on_rank)
    tree = spanning_tree(W)
    assert {one.rounds for one in networks} == {4 * 2 * tree.depth}
    assert {one.messages for one in networks} == {4 * 2 * (n - 1)}
    assert {one.bytes for one in networks} == {8 * 2 * (13 + 3) * 2 * (n - 1)}
    crossing = sum(
        bool(
            networks[0].bounds.searchsorted(child, "right")
            != networks[0].bounds.searchsorted(parent, "right")
        )
        for child, parent in tree.up.T
    )
    sent = sum(one.transport_bytes for one in networks)
    assert sent == 8 * 2 * (13 + 3) * (crossing + ranks - 1)


def test_a_rank_sends_one_message_a_stage_to_another_rank() -> None:
    """On a ring of 12 over three ranks of four, three edges of the tree are cut, and each rank
    but that of the root has the sum once."""
    W = tp.metropolis_weights(tp.ring(12))

    def on_rank(communicator: Any) -> int:
        network = Network(W, communicator)
        network.total(np.ones((network.n_local, 2)))
        return network.transport_messages

    assert sum(on_ranks(3, on_rank)) == 3 + 2


@pytest.mark.parametrize("ranks", [1, 3])
def test_any_layout_and_any_real_numbers_are_added(ranks: int) -> None:
    W = tp.metropolis_weights(tp.ring(10))
    x = np.random.default_rng(0).integers(-9, 9, (10, 4, 6)).astype(np.float64)

    def on_rank(communicator: Any) -> None:
        network = Network(W, communicator)
        mine: Any = x[network.agents]
        one: Any
        for one, expected in (
            (np.asfortranarray(mine), x.sum(0)),
            (np.asfortranarray(mine[:, 0]), x[:, 0].sum(0)),
            (mine[:, :, ::2], x[:, :, ::2].sum(0)),
            (mine.swapaxes(1, 2), x.swapaxes(1, 2).sum(0)),
            (mine.astype(np.float32), x.sum(0)),
            (mine.astype(np.int64), x.sum(0)),
            (mine > 0, (x > 0).sum(0)),
        ):
            (total,) = network.total(one)
            assert (total == expected).all()
            assert total.dtype == np.float64
            columns = network.column_sums(one.reshape(len(one), -1))
            assert (columns == expected.reshape(-1)).all()
            (mixed,) = network.mix(one)
            assert mixed.tobytes() == network.mix(np.array(one, np.float64))[0].tobytes()
        for work in (network.total, network.mix):
            with pytest.raises((TypeError, ValueError), match=r"complex128|dtype"):
                work(mine + 1j)

    on_ranks(ranks, on_rank)


@pytest.mark.parametrize("shape", [(4, 3), (6, 3), (10, 3), (25, 3), ()])
def test_arrays_of_another_number_of_agents_are_refused(shape: tuple[int, ...]) -> None:
    network = Network(tp.metropolis_weights(tp.ring(5)), "serial")
    x, wrong = np.ones((5, 3)), np.ones(shape)
    for work in (
        lambda: network.total(wrong),
        lambda: network.total(x, wrong),
        lambda: network.column_sums(wrong),
        lambda: network.mix(wrong),
        lambda: network.mix(x, wrong),
        lambda: network.mix(x, push=(wrong,)),
        lambda: network.mix_alike(np.ones(5), wrong),
        lambda: network.mix_alike(np.ones(4), x),
        lambda: network.mix_and_max(wrong, x),
        lambda: network.max(wrong),
    ):
        with pytest.raises(ValueError, match=r"its shape must begin with 5, got \("):
            work()
    assert network.rounds == 0


@pytest.mark.parametrize(
    "written",
    ["quantize:bits=4", "quantize:bits=4,feedback=true", "topk:share=0.3", "delay:rounds=1"],
)
def test_messages_of_any_layout_pass_a_channel(written: str) -> None:
    W, nobody = tp.metropolis_weights(tp.ring(5)), np.zeros(5, dtype=np.bool_)
    x: Any = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)
    transposed = x.swapaxes(1, 2).copy().swapaxes(1, 2)
    found = []
    for one in (x.astype(np.float64), x, np.asfortranarray(x), transposed):
        network = UnreliableNetwork(W, "serial", channel=Channel(written))
        with network.iteration(nobody, nobody):
            found.append([network.mix(one)[0].tobytes() for _ in range(3)])
            with pytest.raises(ValueError, match="must begin with 5"):
                network.mix(x[:4])
    assert all(one == found[0] for one in found)
