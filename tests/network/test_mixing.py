"""Mixing, mixing among agents of equal label, and maxima: the formulas, and the same bits and
counts on any number of ranks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import topologies as tp
from decentorth.network import Channel, Network, UnreliableNetwork
from decentorth.network.halo import Halo, plan
from decentorth.numerics.ordered_sums import plain
from decentorth.protocols import Array
from tests.network.test_halo import random_bounds, random_weights
from tests.support.problems import GRAPHS
from tests.support.threads import ThreadCommunicator, on_ranks

N = 10
SEQUENCES: dict[str, Callable[[], tp.WeightSequence]] = {
    "one-peer exponential": lambda: tp.sequence_from_name("one_peer_exponential", 8),
    "random matching": lambda: tp.sequence_from_name("random_matching", 8, seed=3),
    "random gossip": lambda: tp.sequence_from_name("random_gossip@ring:8", 8, seed=3),
    "link failures": lambda: tp.sequence_from_name("link_failures:p=0.3@torus:3x3", 9, seed=3),
    "ring and star": lambda: tp.sequence_from_name("periodic@ring:8|star:8", 8),
}
NETWORKS: dict[str, Callable[[], Any]] = {
    **{name: partial(make, N) for name, make in GRAPHS.items()},
    **SEQUENCES,
}
graphs = st.tuples(st.integers(1, 12), st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.integers(0, 999))


def at(W: Any, k: int) -> Array:
    dense: Array = (W.at(k) if isinstance(W, tp.WeightSequence) else W).toarray()
    return dense


@pytest.mark.parametrize("name", NETWORKS)
def test_mix_multiplies_by_the_matrix_of_each_round(name: str) -> None:
    W = NETWORKS[name]()
    network = Network(W, "serial")
    n, rng = network.n_agents, np.random.default_rng(0)
    xs = [rng.standard_normal((n, *shape)) for shape in ((4, 3), (1,), (), (2, 2, 2))]
    before = [x.copy() for x in xs]
    mixed = network.mix(*xs, rounds=5)
    product = np.linalg.multi_dot([at(W, k) for k in range(4, -1, -1)])
    edges = sum(
        np.count_nonzero(at(W, k)) - np.count_nonzero(at(W, k).diagonal()) for k in range(5)
    )
    assert (network.rounds, network.messages, network.bytes) == (
        5,
        edges,
        edges * 8 * (12 + 1 + 1 + 8),
    )
    assert (network.transport_messages, network.transport_bytes) == (0, 0)
    for x, original, result in zip(xs, before, mixed, strict=True):
        np.testing.assert_allclose(
            result.reshape(n, -1), product @ x.reshape(n, -1), rtol=0, atol=1e-14
        )
        np.testing.assert_array_equal(x, original)
        assert (result.shape, result.flags.c_contiguous) == (x.shape, True)
        assert result.dtype == np.float64
        assert not any(
            np.shares_memory(result, other) for other in (*xs, *mixed) if other is not result
        )
    kept = [result.tobytes() for result in mixed]
    network.mix(*(2 * x for x in xs))
    assert [result.tobytes() for result in mixed] == kept


def masked(W: Array, labels: Array) -> csr_array:
    """W with the edges between equal labels, entry by entry; each own weight takes up the others,
    added in agent order."""
    n = len(labels)
    indptr, indices, data = [0], [], []
    for i in range(n):
        rest = 0.0
        for j in range(n):
            if labels[i] != labels[j]:
                rest += W[i, j]
        for j in range(n):
            if i == j or (labels[i] == labels[j] and W[i, j] != 0):
                indices.append(j)
                data.append(W[i, j] + rest if i == j else W[i, j])
        indptr.append(len(indices))
    return csr_array((np.array(data), np.array(indices), np.array(indptr)), shape=(n, n))


def largest_heard(W: Array, labels: Array) -> list[float]:
    """Over an agent's neighbours and itself."""
    return [
        max(labels[j] for j in range(len(labels)) if i == j or W[i, j] != 0)
        for i in range(len(labels))
    ]


@pytest.mark.slow
@settings(max_examples=100)
@given(graph=graphs, data=st.data())
def test_mixing_among_equal_labels_is_the_product_with_the_masked_matrix(
    graph: tuple[int, float, int], data: st.DataObject
) -> None:
    """To the bit, in one process and by the plans of any number of ranks with any borders."""
    W, n, rng = random_weights(*graph), graph[0], np.random.default_rng(graph[2])
    labels = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), dtype=np.float64
    )
    xs = [
        rng.standard_normal((n, *shape)) * 10.0 ** rng.integers(-8, 8, (n, *[1] * len(shape)))
        for shape in ((2, 3), (), (5,))
    ]
    before = [x.copy() for x in xs]
    heard, *mixed = Network(W, "serial").mix_alike(labels, *xs)
    assert heard.tolist() == largest_heard(W.toarray(), labels)
    expected = masked(W.toarray(), labels)
    for x, original, result in zip(xs, before, mixed, strict=True):
        assert result.tobytes() == (expected @ x.reshape(n, -1)).tobytes()
        assert (result.shape, result.flags.c_contiguous) == (x.shape, True)
        assert x.tobytes() == original.tobytes()
    ranks = data.draw(st.integers(1, n))
    bounds = random_bounds(n, ranks, rng)
    halos = [plan(plain(W), bounds, rank) for rank in range(ranks)]
    assert (
        np.concatenate([rows_of(halo, halos, labels) for halo in halos]).tobytes()
        == expected.toarray().tobytes()
    )


def rows_of(halo: Halo, halos: list[Halo], labels: Array) -> Array:
    """A rank's rows of the matrix, its blocks put back to their columns."""
    columns = []
    for piece in halo.pieces:
        source = halos[piece.source]
        rows = [send.rows for send in source.sends if halos[send.target] is halo]
        columns.append(
            np.arange(source.agents.start, source.agents.stop)[rows[0] if rows else slice(None)]
        )
    _, blocks = halo.alike([labels[agents] for agents in columns])
    out = np.zeros((halo.agents.stop - halo.agents.start, len(labels)))
    for block, agents in zip(blocks, columns, strict=True):
        out[:, agents] = csr_array(
            (block.data, block.indices, block.indptr), shape=(block.rows, block.columns)
        ).toarray()
    return out


@pytest.mark.parametrize("graph", GRAPHS)
def test_equal_labels_give_the_bits_of_mix(graph: str) -> None:
    network = Network(GRAPHS[graph](N), "serial")
    x, y = np.random.default_rng(0).standard_normal((2, N, 4, 3))
    heard, *mixed = network.mix_alike(np.full(N, 7.0), x, y)
    assert heard.tolist() == [7.0] * N
    assert [m.tobytes() for m in mixed] == [m.tobytes() for m in network.mix(x, y)]


@pytest.mark.slow
@settings(max_examples=100)
@given(graph=graphs, data=st.data())
def test_after_r_rounds_the_maximum_within_r_edges_is_known(
    graph: tuple[int, float, int], data: st.DataObject
) -> None:
    """Exactly, also by the plans of any ranks; the largest at one end is known at the other after
    the diameter, not before."""
    W, n, rng = random_weights(*graph), graph[0], np.random.default_rng(graph[2])
    network = Network(W, "serial")
    distances = dict(nx.all_pairs_shortest_path_length(nx.from_scipy_sparse_array(W)))
    diameter = max(max(row.values()) for row in distances.values())
    assert network.flooding_rounds == diameter
    x = rng.standard_normal((n, 2, 2)) * 10.0 ** rng.integers(-300, 300, (n, 2, 2))
    x[next(i for i in range(n) if max(distances[i].values()) == diameter), 0, 0] = np.inf
    before = x.copy()
    rounds = data.draw(st.integers(0, diameter))
    found = network.max(x, rounds)
    for i in range(n):
        assert (
            found[i].tobytes()
            == before[[j for j in range(n) if distances[i][j] <= rounds]].max(0).tobytes()
        )
    assert x.tobytes() == before.tobytes()
    assert bool((found[:, 0, 0] == np.inf).all()) is (rounds == diameter)
    edges = W.nnz - n
    assert (network.rounds, network.messages, network.bytes) == (
        rounds,
        rounds * edges,
        rounds * edges * 8 * 4,
    )
    bounds = random_bounds(n, data.draw(st.integers(1, n)), rng)
    halos = [plan(plain(W), bounds, rank) for rank in range(len(bounds) - 1)]
    parts = [halo.largest([x[piece.agents] for piece in halo.pieces]) for halo in halos]
    assert np.concatenate(parts).tobytes() == network.max(x).tobytes()


def test_what_is_not_a_number_is_the_largest() -> None:
    """An agent that has run away is not overlooked."""
    network = Network(GRAPHS["ring"](6), "serial")
    x = np.arange(6.0)[:, None]
    x[2] = np.nan
    assert np.isnan(network.max(x, 3)).all()
    assert np.flatnonzero(np.isnan(network.max(x)[:, 0])).tolist() == [1, 2, 3]


Outcome = tuple[list[bytes], tuple[int, int, int]]


def history(
    W: Any,
    communicator: ThreadCommunicator | str,
    placement: Any = "even",
    channel: Channel | None = None,
) -> Outcome:
    """Of exchanges of every kind, by agent, and the counts; in the last with labels, an agent that
    none may hear has no numbers."""
    if channel is None:
        network: Any = Network(W, communicator, placement)
    else:
        network = UnreliableNetwork(W, communicator, channel=channel, seed=3)
    n, own, rng = network.n_agents, network.agents, np.random.default_rng(5)
    found: list[Array] = []
    for k, rounds in enumerate((1, 3, 2)):
        x, y, z = (rng.standard_normal((n, *shape)) for shape in ((4, 3), (5,), ()))
        x *= 10.0 ** rng.integers(-6, 6, (n, 1, 1))
        with network.reliable():
            found += [network.max(y[own], rounds), *network.mix(x[own], y[own], rounds=rounds)]
        if channel is None:
            labels = np.floor(rng.random(n) * (k + 1))
            if k == 2:
                labels[n // 2], x[n // 2] = -1.0, np.nan
            heard, *mixed = network.mix_alike(labels[own], x[own], y[own], z[own])
            silent = np.arange(n)[own][np.isnan(mixed[0]).any((1, 2))]
            assert silent.tolist() == (
                [n // 2] if k == 2 and own.start <= n // 2 < own.stop else []
            )
            found += [heard, *mixed]
    assert all(m.flags.c_contiguous for m in found)
    agents = [
        row.tobytes()
        for row in np.concatenate([m.reshape(network.n_local, -1) for m in found], axis=1)
    ]
    return agents, (network.rounds, network.messages, network.bytes)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 0])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_bits_and_counts_over_ranks(name: str, ranks: int) -> None:
    """Also with an agent on each rank, and with borders that cut fewer edges."""
    W = NETWORKS[name]()
    n = Network(W, "serial").n_agents
    alone, counts = history(W, "serial")
    if name in GRAPHS:
        edges = W.nnz - n
        assert counts == (15, 15 * edges, 8 * edges * (6 * 5 + 6 * (12 + 5) + 3 * (1 + 12 + 5 + 1)))
    for placement in ("even", "fewer-cuts") if name in GRAPHS else ("even",):
        results = on_ranks(
            ranks or n,
            lambda communicator, p=placement: history(NETWORKS[name](), communicator, p),  # type: ignore[misc]
        )
        assert [agent for agents, _ in results for agent in agents] == alone
        assert {found for _, found in results} == {counts}


@pytest.mark.parametrize("name", SEQUENCES)
def test_labels_and_maxima_of_a_time_varying_network_use_the_neighbours_of_each_round(
    name: str,
) -> None:
    sequence = SEQUENCES[name]()
    n = sequence.n
    alike, network, labels, known = (
        Network(sequence, "serial"),
        Network(sequence, "serial"),
        np.arange(float(n)) // 3,
        np.eye(n),
    )
    for k in range(5):
        W = at(sequence, k)
        heard, matrix = alike.mix_alike(labels, np.eye(n))
        assert matrix.tobytes() == masked(W, labels).toarray().tobytes()
        assert heard.tolist() == largest_heard(W, labels)
        known = np.stack([known[row].max(0) for row in (W != 0) | np.eye(n, dtype=bool)])
    assert network.max(np.eye(n), 5).tobytes() == known.tobytes()


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
    """What arrives is what was said, whatever it takes; the same over ranks, where each counts
    alike."""
    W, channel = GRAPHS["ring"](N), Channel(*BAD[faults])
    (clean, fewest), (found, counts) = (
        history(W, "serial", channel=Channel("loss:p=0")),
        history(W, "serial", channel=channel),
    )
    assert found == clean
    assert all(more > least for more, least in zip(counts, fewest, strict=True))
    results = on_ranks(3, lambda communicator: history(W, communicator, channel=channel))
    assert [agent for agents, _ in results for agent in agents] == clean
    assert {theirs for _, theirs in results} == {counts}


@pytest.mark.slow
def test_each_message_is_sent_until_it_arrives() -> None:
    """At loss p in 1 / (1 - p) messages on average, and in as many rounds as the unluckiest of all
    needs."""
    W, p, rounds = GRAPHS["ring"](N), 0.4, 2000
    network = UnreliableNetwork(W, "serial", channel=Channel(f"loss:p={p}"), seed=1)
    with network.reliable():
        network.max(np.zeros((N, 1)), rounds)
    edges = W.nnz - N
    assert network.messages / (rounds * edges) == pytest.approx(1 / (1 - p), rel=0.02)
    # the mean of the largest of so many geometric numbers
    longest = sum(1.0 - (1.0 - p**k) ** edges for k in range(60))
    assert network.rounds / rounds == pytest.approx(longest, rel=0.03)
    assert network.bytes == 8 * network.messages


def test_before_the_run_nothing_is_lost_and_on_a_bad_time_varying_network_nothing_is_sure() -> None:
    network = UnreliableNetwork(GRAPHS["ring"](N), "serial", channel=Channel("loss:p=0.5"), seed=1)
    network.max(np.zeros((N, 1)), 7)
    network.mix(np.zeros((N, 1)), rounds=3)
    assert (network.rounds, network.messages) == (10, 10 * 20)
    network = UnreliableNetwork(
        SEQUENCES["ring and star"](), "serial", channel=Channel("loss:p=0.1")
    )
    with pytest.raises(ValueError, match="what is lost cannot be sent again"):
        _ = network.flooding_rounds


def test_spectrum_and_own_weights_are_those_of_w() -> None:
    for graph in GRAPHS:
        W = GRAPHS[graph](N).toarray()
        values = np.linalg.eigvalsh(W)
        np.testing.assert_allclose(
            Network(W, "serial").spectrum, (values[-2], values[0]), atol=1e-14
        )
        parts = on_ranks(3, lambda communicator, W=W: Network(W, communicator).self_weights)  # type: ignore[misc]
        np.testing.assert_array_equal(np.concatenate(parts), W.diagonal())
    assert Network(np.ones((1, 1)), "serial").spectrum == (0.0, 0.0)
    with pytest.raises(
        ValueError,
        match="on a time-varying network an agent's own weight changes: give step_size as a number",
    ):
        _ = Network(SEQUENCES["ring and star"](), "serial").self_weights
    with pytest.raises(
        ValueError,
        match=r"time-varying network lacks the eigenvalues .* give step_size and penalty",
    ):
        _ = Network(SEQUENCES["ring and star"](), "serial").spectrum


def test_the_digest_tells_networks_apart() -> None:
    assert len({Network(make(), "serial").digest() for make in NETWORKS.values()}) == len(NETWORKS)
    W = GRAPHS["ring"](N)
    nudged = W.toarray()
    nudged[0, 0] = np.nextafter(nudged[0, 0], 1)
    assert (
        Network(W, "serial").digest()
        == Network(W.toarray(), "serial").digest()
        != Network(nudged, "serial").digest()
    )


def test_plans_are_kept_by_matrix_and_those_that_are_dropped_are_freed_at_once() -> None:
    """Their buffers and requests would otherwise wait for the garbage collector, which seldom
    visits old objects."""
    periodic, drawn = (
        Network(SEQUENCES["ring and star"](), "serial"),
        Network(SEQUENCES["random matching"](), "serial"),
    )
    periodic.mix(np.ones((8, 1)), rounds=200)
    assert len(periodic._plans) == 2
    drawn.mix(np.ones((8, 1)))
    gc.disable()
    try:
        first = weakref.ref(next(iter(drawn._plans.values())))
        drawn.mix(np.ones((8, 1)), rounds=200)
        assert first() is None
    finally:
        gc.enable()
    assert len(drawn._plans) == 64
