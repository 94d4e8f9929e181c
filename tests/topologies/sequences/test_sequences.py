"""Time-varying sequences: matrices, random access, contraction, laws of the random ones, and the
rounds that word takes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies
from topologies import joint_contraction, sequence_from_name

TORUS = topologies.torus(3, 4)
SEQUENCES = [
    topologies.OnePeerExponential(16),
    topologies.RandomMatching(9, seed=1),
    topologies.RandomMatching(10, seed=1),
    topologies.RandomGossip(TORUS, seed=2),
    topologies.LinkFailures(topologies.metropolis_weights(TORUS), 0.4, seed=3),
    topologies.LinkFailures(topologies.best_constant_weights(topologies.star(7)), 0.4, seed=3),
    topologies.PeriodicSequence(
        [topologies.metropolis_weights(topologies.ring(5)), np.full((5, 5), 0.2)]
    ),
]


@pytest.mark.parametrize(
    "sequence", SEQUENCES, ids=lambda sequence: f"{type(sequence).__name__}-{sequence.n}"
)
def test_every_matrix_is_canonical_and_random_access_needs_no_replay(
    sequence: topologies.WeightSequence,
) -> None:
    for k in (10**9, 7, 3, 0, 7, 12):
        W, again = sequence.at(k), sequence.at(k)
        assert isinstance(W, sparse.csr_array)
        dense = W.toarray()
        np.testing.assert_array_equal(dense, dense.T)
        np.testing.assert_array_equal(dense, topologies.canonical_weights(W).toarray())
        np.testing.assert_array_equal(dense, again.toarray())
        again.data[:] = 0
        np.testing.assert_array_equal(dense, sequence.at(k).toarray())
        assert W.nnz == topologies.canonical_weights(W).nnz


@pytest.mark.parametrize(
    "sequence", SEQUENCES, ids=lambda sequence: f"{type(sequence).__name__}-{sequence.n}"
)
def test_equal_keys_mean_equal_matrices_and_the_other_way(
    sequence: topologies.WeightSequence,
) -> None:
    first: dict[object, int] = {}
    matrices: dict[bytes, object] = {}
    for k in range(200):
        key, dense = sequence.distinct(k), sequence.at(k).toarray()
        np.testing.assert_array_equal(dense, sequence.at(first.setdefault(key, k)).toarray())
        assert matrices.setdefault(dense.tobytes(), key) == key
        if sequence.period is not None:
            assert key == sequence.distinct(k + sequence.period)


@pytest.mark.parametrize("n", [2, 8, 64])
def test_one_peer_exponential_is_exact_after_its_period(n: int) -> None:
    sequence = topologies.OnePeerExponential(n)
    assert sequence.period is not None
    assert sequence.period == np.log2(n)
    assert joint_contraction(sequence) == pytest.approx(0, abs=1e-15)
    assert joint_contraction(sequence, start=5) == pytest.approx(0, abs=1e-15)
    if n > 2:
        assert joint_contraction(sequence, window=sequence.period - 1) == pytest.approx(
            1, abs=1e-15
        )
    for k in range(sequence.period):
        expected = np.eye(n) / 2
        expected[np.arange(n), np.arange(n) ^ (1 << k)] = 0.5
        np.testing.assert_array_equal(sequence.at(k).toarray(), expected)


def test_contraction_is_a_power_of_sigma_where_w_is_constant_and_the_norm_of_the_product_where_it_is_not() -> (
    None
):
    W = topologies.metropolis_weights(TORUS)
    constant = joint_contraction(topologies.PeriodicSequence([W]), window=7)
    assert constant == pytest.approx(topologies.spectrum(W).sigma ** 7, rel=1e-12)
    # the two matchings of a ring, which average only together
    even = np.kron(np.eye(3), np.full((2, 2), 0.5))
    odd = np.roll(even, (1, 1), (0, 1))
    sequence = topologies.PeriodicSequence([even, odd])
    assert joint_contraction(sequence, window=1) == pytest.approx(1)
    assert joint_contraction(sequence) == pytest.approx(
        np.linalg.norm(odd @ even - 1 / 6, 2), abs=1e-14
    )
    assert joint_contraction(sequence) < 1


METROPOLIS = topologies.metropolis_weights(TORUS).toarray()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sequence", "weights", "p"),
    [
        # 6 of 7 agents are paired, each with one of 6 others
        (topologies.RandomMatching(7, seed=5), np.full((7, 7), 0.5), 1 / 7),
        (
            topologies.RandomGossip(topologies.star(5), seed=0),
            nx.to_numpy_array(topologies.star(5)) / 2,
            1 / 4,
        ),
        (topologies.LinkFailures(METROPOLIS, 0.3, seed=1), METROPOLIS, 0.7),
    ],
)
def test_each_edge_is_used_with_its_weight_and_its_probability(
    sequence: topologies.WeightSequence, weights: np.ndarray, p: float
) -> None:
    draws, times = 1000, np.zeros_like(weights)
    for k in range(draws):
        used = np.triu(sequence.at(k).toarray(), 1)
        np.testing.assert_array_equal(used[used > 0], weights[used > 0])
        times += used > 0
    edges = np.triu(weights, 1) > 0
    assert np.abs(times[edges] / draws - p).max() < 5 * np.sqrt(p * (1 - p) / draws)


def test_seeds_and_iterations_differ_and_links_may_never_fail() -> None:
    assert topologies.LinkFailures(METROPOLIS, 0.0).at(4).toarray() == pytest.approx(
        METROPOLIS, abs=1e-15
    )
    keys = {
        topologies.RandomMatching(20, seed).distinct(k) for seed in range(10) for k in range(10)
    }
    assert len(keys) == 100


@pytest.mark.parametrize(
    ("specification", "expected"),
    [
        ("one_peer_exponential:16", topologies.OnePeerExponential(16)),
        ("One-Peer-Exponential: n=16", topologies.OnePeerExponential(16)),
        ("one_peer_exponential", topologies.OnePeerExponential(12 + 4)),
        ("random_matching:16,seed=3", topologies.RandomMatching(16, 3)),
        ("random_matching", topologies.RandomMatching(16, 9)),
        ("random_gossip@torus:4x4", topologies.RandomGossip(topologies.torus(4, 4), 9)),
        ("random_gossip:seed=2@torus", topologies.RandomGossip(topologies.torus(4, 4), 2)),
        (
            "link_failures:p=0.2,weights=lazy-metropolis@torus:4x4",
            topologies.LinkFailures(
                topologies.weights_from_name(topologies.torus(4, 4), "lazy-metropolis"), 0.2, 9
            ),
        ),
        (
            "periodic@ring|star:16",
            topologies.PeriodicSequence(
                [*map(topologies.metropolis_weights, (topologies.ring(16), topologies.star(16)))]
            ),
        ),
    ],
)
def test_names(specification: str, expected: topologies.WeightSequence) -> None:
    found = sequence_from_name(specification, 16, seed=9)
    assert type(found) is type(expected)
    assert found.period == expected.period
    for k in range(5):
        np.testing.assert_array_equal(found.at(k).toarray(), expected.at(k).toarray())


@pytest.mark.parametrize(
    ("specification", "n_agents", "message"),
    [
        (
            "one_per_exponential:16",
            None,
            "did you mean 'one_peer_exponential'.*known sequences: link_failures",
        ),
        (
            "one_peer_exponential",
            None,
            "leaves the number of agents open.*'one_peer_exponential:16'",
        ),
        ("one_peer_exponential:12", None, "power of 2, at least 2, got 12; use random_matching"),
        ("one_peer_exponential:8", 16, "has 8 agents, but n_agents is 16"),
        ("one_peer_exponential@ring:8", None, "takes no graph; write one_peer_exponential:16"),
        ("random_gossip", 10, "needs a graph; write random_gossip@ring:10"),
        ("random_gossip@ring:5|star:5", None, "runs on one graph, got 2; use periodic"),
        ("link_failures:p=1.5@ring:4", None, r"p must be a probability in \[0, 1\), got 1.5"),
        ("periodic@ring:4|star:5", None, r"matrices of one size, got 2 of sizes \[4, 5\]"),
    ],
)
def test_mistakes_are_explained(specification: str, n_agents: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sequence_from_name(specification, n_agents)


def test_windows_and_iterations_are_checked() -> None:
    with pytest.raises(ValueError, match="not periodic: give a window"):
        joint_contraction(topologies.RandomMatching(4))
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        joint_contraction(topologies.RandomMatching(4), window=0)
    with pytest.raises(ValueError, match="count from 0, got -1"):
        topologies.RandomMatching(4).at(-1)
    with pytest.raises(ValueError, match="matrices of one size, got 0"):
        topologies.PeriodicSequence([])


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(n=st.integers(2, 14), p=st.sampled_from([0.1, 0.3, 0.7]), seed=st.integers(0, 999))
def test_on_a_graph_word_takes_as_many_rounds_as_the_diameter(n: int, p: float, seed: int) -> None:
    graph = topologies.numbered(
        topologies.erdos_renyi(n, p, seed=seed) if p > 0.2 else nx.random_labeled_tree(n, seed=seed)
    )
    assert topologies.flooding_rounds(topologies.metropolis_weights(graph)) == nx.diameter(graph)


def told(sequence: topologies.WeightSequence, start: int) -> int:
    """Rounds from ``start`` on until every agent has heard of every other, word by word."""
    heard = [{i} for i in range(sequence.n)]
    rounds = 0
    while any(len(names) < sequence.n for names in heard):
        W = sequence.at(start + rounds).toarray()
        heard = [
            set().union(*(heard[j] for j in range(sequence.n) if i == j or W[i, j] != 0))
            for i in range(sequence.n)
        ]
        rounds += 1
    return rounds


@pytest.mark.parametrize(
    "name", ["one_peer_exponential:16", "periodic@ring:8|star:8", "periodic@path:6|star:6|ring:6"]
)
def test_on_a_periodic_network_whenever_one_begins(name: str) -> None:
    sequence = topologies.sequence_from_name(name)
    assert sequence.period is not None
    assert topologies.flooding_rounds(sequence) == max(
        told(sequence, start) for start in range(sequence.period)
    )


def test_matchings_that_connect_only_together() -> None:
    """A path whose edges are there in turn: word that goes against the order of the turns waits."""
    halves = np.diag([0.5, 0.5, 1.0]) + np.array([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]])
    others = halves[::-1, ::-1]
    sequence = topologies.PeriodicSequence([halves, others])
    assert (
        topologies.flooding_rounds(sequence)
        == max(told(sequence, start) for start in range(2))
        == 3
    )


def test_of_many_agents_an_upper_bound() -> None:
    """One-peer exponential: 11 rounds would do; the hypercube's 11 edges there and back, each
    waited for through a period."""
    for name, least in (("ring:2100", 1050), ("path:2001", 2000), ("star:3000", 2)):
        W = topologies.metropolis_weights(topologies.adjacency_from_name(name))
        assert least <= topologies.flooding_rounds(W) <= 2 * least
    assert topologies.flooding_rounds(topologies.OnePeerExponential(2048)) == 11 * 2 * 11


@pytest.mark.parametrize(
    "name", ["random_matching:8", "random_gossip@ring:8", "link_failures:p=0.3@ring:8"]
)
def test_random_neighbours_are_never_sure(name: str) -> None:
    with pytest.raises(ValueError, match="no number of rounds is sure to reach all agents"):
        topologies.flooding_rounds(topologies.sequence_from_name(name))


def test_who_is_never_reached() -> None:
    apart = np.eye(3)
    with pytest.raises(ValueError, match="never gets from agent 0 to agent 1"):
        topologies.flooding_rounds(topologies.PeriodicSequence([apart, apart]))
    with pytest.raises(ValueError, match="connected"):
        topologies.flooding_rounds(apart)
    assert topologies.flooding_rounds(np.ones((1, 1))) == 0
