"""Max-consensus: what is known after each round, when all know the maximum, what it costs, and the same bits over ranks."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentorth.network import Channel, Network, UnreliableNetwork
from decentorth.network.halo import plan
from decentorth.numerics.ordered_sums import plain
from tests.network.test_halo import random_bounds, random_weights
from tests.network.test_sequences import SEQUENCES
from tests.support.problems import GRAPHS
from tests.support.threads import ThreadCommunicator, on_ranks

RANKS = (1, 2, 3, 7, 10)
graphs = st.tuples(st.integers(1, 12), st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.integers(0, 999))


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True)
@given(graph=graphs, data=st.data())
def test_after_r_rounds_it_is_the_maximum_within_r_edges(graph: tuple[int, float, int], data: st.DataObject) -> None:
    """Exactly, and so after diameter rounds that of all on all; the largest at one end is not known at the other before."""
    W = random_weights(*graph)
    n = graph[0]
    network = Network(W, "serial")
    distances = dict(nx.all_pairs_shortest_path_length(nx.from_scipy_sparse_array(W)))
    diameter = max(max(row.values()) for row in distances.values())
    assert network.flooding_rounds == diameter
    rng = np.random.default_rng(graph[2])
    x = rng.standard_normal((n, 2, 2)) * 10.0 ** rng.integers(-300, 300, (n, 2, 2))
    far = next(i for i in range(n) if max(distances[i].values()) == diameter)
    x[far, 0, 0] = np.inf
    before = x.copy()
    rounds = data.draw(st.integers(0, diameter))
    found = network.max(x, rounds)
    for i in range(n):
        near = [j for j in range(n) if distances[i][j] <= rounds]
        assert found[i].tobytes() == before[near].max(0).tobytes()
    assert x.tobytes() == before.tobytes()
    assert bool((found[:, 0, 0] == np.inf).all()) is (rounds == diameter)
    edges = W.nnz - n
    assert (network.rounds, network.messages, network.bytes) == (rounds, rounds * edges, rounds * edges * 8 * 4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(graph=graphs, data=st.data())
def test_the_plans_of_any_ranks_find_the_same(graph: tuple[int, float, int], data: st.DataObject) -> None:
    W = random_weights(*graph)
    n = graph[0]
    rng = np.random.default_rng(graph[2])
    x = rng.standard_normal((n, 3))
    ranks = data.draw(st.integers(1, n))
    bounds = random_bounds(n, ranks, rng)
    found = []
    for rank in range(ranks):
        halo = plan(plain(W), bounds, rank)
        found.append(halo.largest([x[piece.agents] for piece in halo.pieces]))
    assert np.concatenate(found).tobytes() == Network(W, "serial").max(x).tobytes()


def test_what_is_not_a_number_is_the_largest() -> None:
    """An agent that has run away is not overlooked."""
    network = Network(GRAPHS["ring"](6), "serial")
    x = np.arange(6.0)[:, None]
    x[2] = np.nan
    assert np.isnan(network.max(x, 3)).all()
    assert np.flatnonzero(np.isnan(network.max(x)[:, 0])).tolist() == [1, 2, 3]


def history(W: Any, communicator: ThreadCommunicator | str, channel: Channel | None = None) -> tuple[list[bytes], list[int]]:
    """Of maxima with mixing in between, by agent; counts."""
    network = Network(W, communicator) if channel is None else UnreliableNetwork(W, communicator, channel=channel, seed=3)
    rng = np.random.default_rng(5)
    found = []
    for rounds in (1, 3, 2):
        x, y = (rng.standard_normal((network.n_agents, *shape)) for shape in ((3,), (2, 2)))
        with network.reliable():
            found.append(network.max(x[network.agents], rounds))
            found.append(network.mix(y[network.agents])[0].reshape(network.n_local, -1))
        assert all(m.flags.c_contiguous for m in found)
    return [row.tobytes() for row in np.concatenate(found, axis=1)], [network.rounds, network.messages, network.bytes]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_same_bits_over_ranks(graph: str, ranks: int) -> None:
    W = GRAPHS[graph](10)
    edges = W.nnz - 10
    alone, counts = history(W, "serial")
    assert counts == [9, 9 * edges, 8 * edges * (6 * 3 + 3 * 4)]
    results = on_ranks(ranks, lambda communicator: history(W, communicator))
    assert [agent for agents, _ in results for agent in agents] == alone
    assert all(found == counts for _, found in results)


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_time_varying_network_uses_the_neighbours_of_each_round(name: str) -> None:
    sequence = SEQUENCES[name]()
    alone, counts = history(sequence, "serial")
    results = on_ranks(3, lambda communicator: history(SEQUENCES[name](), communicator))
    assert [agent for agents, _ in results for agent in agents] == alone
    assert all(found == counts for _, found in results)
    network, known = Network(sequence, "serial"), np.eye(sequence.n)
    for k in range(5):
        heard = (sequence.at(k).toarray() != 0) | np.eye(sequence.n, dtype=bool)
        known = np.stack([known[row].max(0) for row in heard])
    assert network.max(np.eye(sequence.n), 5).tobytes() == known.tobytes()


def test_on_a_periodic_network_all_know_after_flooding_rounds_whenever_they_begin() -> None:
    for name in ("one-peer exponential", "ring and star"):
        network = Network(SEQUENCES[name](), "serial")
        for _ in range(4):
            assert (network.max(np.eye(network.n_agents), network.flooding_rounds) == 1.0).all()
            network.max(np.zeros((network.n_agents, 1)))


BAD = {
    "loss": ("loss:p=0.3",),
    "bursts": ("bursts:p=0.3,length=4,bad=1",),
    "failures": ("failures:p=0.3", "topk:share=0.1"),
    "asleep": ("loss:p=0.1", "sleep:p=0.3,length=5"),
    "late": ("delay:rounds=2", "loss:p=0.1"),
}


@pytest.mark.parametrize("faults", BAD)
def test_on_a_bad_channel_the_same_is_found_and_more_is_sent(faults: str) -> None:
    """What arrives is what was said, whatever it takes; the same over ranks, where each counts alike."""
    W = GRAPHS["ring"](10)
    channel = Channel(*BAD[faults])
    clean, fewest = history(W, "serial")
    found, counts = history(W, "serial", channel)
    assert found == clean
    assert all(more > least for more, least in zip(counts, fewest, strict=True))
    for agents, theirs in zip(*zip(*on_ranks(3, lambda communicator: history(W, communicator, channel)), strict=True), strict=True):
        assert theirs == counts
        assert set(agents) <= set(clean)


@pytest.mark.slow
def test_each_message_is_sent_until_it_arrives() -> None:
    """At loss p in 1 / (1 - p) messages on average, and in as many rounds as the unluckiest of all needs."""
    W, p, rounds = GRAPHS["ring"](10), 0.4, 2000
    network = UnreliableNetwork(W, "serial", channel=Channel(f"loss:p={p}"), seed=1)
    with network.reliable():
        network.max(np.zeros((10, 1)), rounds)
    edges = W.nnz - 10
    assert network.messages / (rounds * edges) == pytest.approx(1 / (1 - p), rel=0.02)
    longest = sum(1.0 - (1.0 - p**k) ** edges for k in range(60))  # the mean of the largest of so many geometric numbers
    assert network.rounds / rounds == pytest.approx(longest, rel=0.03)
    assert network.bytes == 8 * network.messages


def test_before_the_run_nothing_is_lost() -> None:
    """As ever; only what must arrive while the network is bad is sent again."""
    network = UnreliableNetwork(GRAPHS["ring"](10), "serial", channel=Channel("loss:p=0.5"), seed=1)
    network.max(np.zeros((10, 1)), 7)
    network.mix(np.zeros((10, 1)), rounds=3)
    assert (network.rounds, network.messages) == (10, 10 * 20)


def test_on_a_bad_time_varying_network_nothing_is_sure() -> None:
    network = UnreliableNetwork(SEQUENCES["ring and star"](), "serial", channel=Channel("loss:p=0.1"))
    with pytest.raises(ValueError, match="what is lost cannot be sent again"):
        _ = network.flooding_rounds
