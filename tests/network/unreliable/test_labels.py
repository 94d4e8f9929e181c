"""Mixing among agents of equal label: the matrix that it multiplies by, what is heard, and the same bits over ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from decentorth.network import Network
from decentorth.network.halo import Halo, even_bounds, plan
from decentorth.numerics.ordered_sums import plain
from decentorth.protocols import Array
from tests.network.test_halo import random_bounds, random_weights
from tests.network.test_sequences import SEQUENCES
from tests.support.problems import GRAPHS
from tests.support.threads import ThreadCommunicator, on_ranks

RANKS = (1, 2, 3, 7, 10)


def masked(W: csr_array, labels: Array) -> csr_array:
    """W with the edges between equal labels, entry by entry; each own weight takes up the others, added in agent order."""
    n = len(labels)
    dense, indptr, indices, data = W.toarray(), [0], [], []
    for i in range(n):
        rest = 0.0
        for j in range(n):
            if labels[i] != labels[j]:
                rest += dense[i, j]
        for j in range(n):
            if i == j or (labels[i] == labels[j] and dense[i, j] != 0):
                indices.append(j)
                data.append(dense[i, j] + rest if i == j else dense[i, j])
        indptr.append(len(indices))
    return csr_array((np.array(data), np.array(indices), np.array(indptr)), shape=(n, n))


def largest_heard(W: csr_array, labels: Array) -> list[float]:
    """Over an agent's neighbours and itself."""
    return [max(labels[j] for j in range(len(labels)) if i == j or W[i, j] != 0) for i in range(len(labels))]


graphs = st.tuples(st.integers(1, 12), st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.integers(0, 999))


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(graph=graphs, data=st.data())
def test_the_matrix_is_symmetric_and_doubly_stochastic_and_keeps_to_equal_labels(
    graph: tuple[int, float, int], data: st.DataObject
) -> None:
    W = random_weights(*graph)
    n = graph[0]
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=np.float64)
    heard, matrix = Network(W, "serial").mix_alike(labels, np.eye(n))
    assert heard.tolist() == largest_heard(W, labels)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix.sum(0), 1.0, rtol=0, atol=1e-15 * n)
    assert matrix.min() >= 0.0
    same, off = labels[:, None] == labels, ~np.eye(n, dtype=bool)
    np.testing.assert_array_equal(matrix[off], np.where(same, W.toarray(), 0.0)[off])
    for label in set(labels.tolist()):
        members = labels == label
        np.testing.assert_allclose(matrix[np.ix_(members, members)].sum(1), 1.0, rtol=0, atol=1e-15 * n)


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(graph=graphs, data=st.data())
def test_mixing_is_the_product_with_the_masked_matrix_to_the_bit(graph: tuple[int, float, int], data: st.DataObject) -> None:
    """In one process, and by the plans of any number of ranks with any borders."""
    W = random_weights(*graph)
    n = graph[0]
    rng = np.random.default_rng(graph[2])
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), dtype=np.float64)
    xs = [rng.standard_normal((n, *shape)) * 10.0 ** rng.integers(-8, 8, (n, *[1] * len(shape))) for shape in ((2, 3), (), (5,))]
    before = [x.copy() for x in xs]
    _, *mixed = Network(W, "serial").mix_alike(labels, *xs)
    for x, original, result in zip(xs, before, mixed, strict=True):
        assert result.tobytes() == (masked(W, labels) @ x.reshape(n, -1)).tobytes()
        assert (result.shape, result.flags.c_contiguous) == (x.shape, True)
        assert x.tobytes() == original.tobytes()
    ranks = data.draw(st.integers(1, n))
    bounds = random_bounds(n, ranks, rng)
    halos = [plan(plain(W), bounds, rank) for rank in range(ranks)]
    rows = np.concatenate([played(halo, halos, labels) for halo in halos])
    assert rows.tobytes() == masked(W, labels).toarray().tobytes()


def played(halo: Halo, halos: list[Halo], labels: Array) -> Array:
    """A rank's rows of the matrix, its blocks put back to their columns."""
    columns = []
    for piece in halo.pieces:
        source = halos[piece.source]
        rows = [send.rows for send in source.sends if halos[send.target] is halo]
        columns.append(np.arange(source.agents.start, source.agents.stop)[rows[0] if rows else slice(None)])
    _, blocks = halo.alike([labels[agents] for agents in columns])
    out = np.zeros((halo.agents.stop - halo.agents.start, len(labels)))
    for block, agents in zip(blocks, columns, strict=True):
        out[:, agents] = csr_array((block.data, block.indices, block.indptr), shape=(block.rows, block.columns)).toarray()
    return out


@pytest.mark.parametrize("graph", GRAPHS)
def test_equal_labels_give_the_bits_of_mix(graph: str) -> None:
    network = Network(GRAPHS[graph](10), "serial")
    x, y = np.random.default_rng(0).standard_normal((2, 10, 4, 3))
    heard, *mixed = network.mix_alike(np.full(10, 7.0), x, y)
    assert heard.tolist() == [7.0] * 10
    assert [m.tobytes() for m in mixed] == [m.tobytes() for m in network.mix(x, y)]


def history(W: Any, communicator: ThreadCommunicator | str, rounds: int = 6) -> tuple[list[bytes], tuple[int, int, int]]:
    """Of several rounds with labels that disagree here, there and nowhere; agents whom nobody may listen to hold no numbers."""
    network = Network(W, communicator)
    own = network.agents
    rng = np.random.default_rng(5)
    found = []
    for k in range(rounds):
        n = network.n_agents
        labels = np.floor(rng.random(n) * (k % 3 + 1))
        x, y, z = (rng.standard_normal((n, *shape)) for shape in ((4, 3), (5,), ()))
        if k == rounds - 1:
            labels[n // 2], x[n // 2] = -1.0, np.nan
        heard, *mixed = network.mix_alike(labels[own], x[own], y[own], z[own])
        assert all(m.flags.c_contiguous for m in (heard, *mixed))
        assert np.flatnonzero(np.isnan(mixed[0]).any((1, 2))).tolist() == (
            [n // 2 - own.start] if k == rounds - 1 and own.start <= n // 2 < own.stop else []
        )
        found.append(np.concatenate([heard[:, None], *(m.reshape(network.n_local, -1) for m in mixed)], axis=1))
    agents = [row.tobytes() for row in np.stack(found, axis=1)]
    return agents, (network.rounds, network.messages, network.bytes)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_same_bits_over_ranks(graph: str, ranks: int) -> None:
    """The labels are 8 bytes more in each message; on 10 ranks of one agent each, in blocks, and alone."""
    W = GRAPHS[graph](10)
    alone, counts = history(W, "serial")
    edges = W.nnz - 10
    assert counts == (6, 6 * edges, 6 * edges * 8 * (1 + 12 + 5 + 1))
    results = on_ranks(ranks, lambda communicator: history(W, communicator))
    assert [agent for agents, _ in results for agent in agents] == alone
    assert {found for _, found in results} == {counts}


@pytest.mark.parametrize("ranks", [2, 3, 7, 8])
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_time_varying_network_uses_the_matrix_of_each_round(name: str, ranks: int) -> None:
    sequence = SEQUENCES[name]()
    alone, counts = history(sequence, "serial")
    results = on_ranks(ranks, lambda communicator: history(SEQUENCES[name](), communicator))
    assert [agent for agents, _ in results for agent in agents] == alone
    assert {found for _, found in results} == {counts}
    network, labels = Network(sequence, "serial"), np.arange(sequence.n, dtype=np.float64) // 3
    for k in range(5):
        heard, matrix = network.mix_alike(labels, np.eye(sequence.n))
        assert matrix.tobytes() == masked(sequence.at(k), labels).toarray().tobytes()
        assert heard.tolist() == largest_heard(sequence.at(k), labels)


def test_left_out_edges_may_be_any() -> None:
    """`Halo.using` with an arbitrary symmetric choice of edges, not only one that labels make."""
    W = random_weights(9, 0.4, 3)
    bounds = even_bounds(9, 1)
    halo = plan(plain(W), bounds, 0)
    rng = np.random.default_rng(0)
    chosen = np.triu(rng.random((9, 9)) < 0.5, 1)
    chosen = chosen | chosen.T | np.eye(9, dtype=bool)
    rows = np.repeat(np.arange(9), np.diff(W.indptr))
    (block,) = halo.using([chosen[rows, W.indices]])
    matrix = csr_array((block.data, block.indices, block.indptr), shape=(9, 9)).toarray()
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix.sum(1), 1.0, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(matrix != 0, chosen & (W.toarray() != 0))
    np.testing.assert_array_equal((matrix - np.diag(np.diag(matrix)))[chosen], (W.toarray() - np.diag(W.diagonal()))[chosen])
