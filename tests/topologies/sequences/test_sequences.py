"""Time-varying sequences: doubly stochastic at every iteration, random access, exact contraction, laws of the random ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
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
    topologies.PeriodicSequence([topologies.metropolis_weights(topologies.ring(5)), np.full((5, 5), 0.2)]),
]


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: f"{type(sequence).__name__}-{sequence.n}")
def test_every_matrix_is_canonical_and_random_access_needs_no_replay(sequence: topologies.WeightSequence) -> None:
    order = [10**9, 7, 3, 0, 7, 12]
    for k in order:
        W = sequence.at(k)
        again = sequence.at(k)
        assert isinstance(W, sparse.csr_array)
        dense = W.toarray()
        assert W.shape == (sequence.n, sequence.n)
        np.testing.assert_array_equal(dense, dense.T)
        np.testing.assert_array_equal(dense, topologies.canonical_weights(W).toarray())
        np.testing.assert_array_equal(dense, again.toarray())
        again.data[:] = 0
        np.testing.assert_array_equal(dense, sequence.at(k).toarray())
        assert W.nnz == topologies.canonical_weights(W).nnz


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: f"{type(sequence).__name__}-{sequence.n}")
def test_equal_keys_mean_equal_matrices_and_the_other_way(sequence: topologies.WeightSequence) -> None:
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
        assert joint_contraction(sequence, window=sequence.period - 1) == pytest.approx(1, abs=1e-15)
    for k in range(int(np.log2(n))):
        expected = np.eye(n) / 2
        expected[np.arange(n), np.arange(n) ^ (1 << k)] = 0.5
        np.testing.assert_array_equal(sequence.at(k).toarray(), expected)


def test_contraction_of_a_constant_sequence_is_a_power_of_sigma() -> None:
    W = topologies.metropolis_weights(TORUS)
    sequence = topologies.PeriodicSequence([W])
    assert joint_contraction(sequence, window=7) == pytest.approx(topologies.spectrum(W).sigma ** 7, rel=1e-12)


def test_two_matchings_of_a_ring_average_only_together() -> None:
    ring = nx.to_numpy_array(topologies.ring(6))
    even = np.kron(np.eye(3), np.full((2, 2), 0.5))
    odd = np.roll(even, (1, 1), (0, 1))
    assert np.all((even > 0) <= (ring + np.eye(6) > 0))
    sequence = topologies.PeriodicSequence([even, odd])
    assert joint_contraction(sequence, window=1) == pytest.approx(1)
    assert joint_contraction(sequence) == pytest.approx(np.linalg.norm(odd @ even - 1 / 6, 2), abs=1e-14)
    assert joint_contraction(sequence) < 1


@pytest.mark.slow
def test_random_matching_meets_everybody_equally_often() -> None:
    n, draws = 7, 3000
    sequence = topologies.RandomMatching(n, seed=5)
    met = sum((sequence.at(k).toarray() for k in range(draws)), np.zeros((n, n)))
    p = 1 / n  # n odd: 6 of 7 agents are paired, each with one of 6 others
    frequencies = 2 * met[np.triu_indices(n, 1)] / draws
    assert np.abs(frequencies - p).max() < 5 * np.sqrt(p * (1 - p) / draws)


@pytest.mark.slow
def test_link_failures_fail_with_their_probability_and_keep_the_weights() -> None:
    W = topologies.metropolis_weights(TORUS).toarray()
    sequence = topologies.LinkFailures(W, 0.3, seed=1)
    draws = 2000
    present = np.zeros_like(W)
    for k in range(draws):
        dense = sequence.at(k).toarray()
        edge = np.triu(dense, 1) > 0
        np.testing.assert_array_equal(dense[edge], W[edge])
        present += edge
    edges = np.triu(W, 1) > 0
    assert np.abs(present[edges] / draws - 0.7).max() < 5 * np.sqrt(0.21 / draws)
    assert not present[~edges].any()
    assert topologies.LinkFailures(W, 0.0).at(4).toarray() == pytest.approx(W, abs=1e-15)


@pytest.mark.slow
def test_mean_of_random_gossip_is_that_of_boyd() -> None:
    """E W = I - L / (2 |E|), and the second eigenvalue of E W'W = E W bounds the expected contraction."""
    graph = topologies.star(5)
    sequence = topologies.RandomGossip(graph, seed=0)
    draws = 4000
    mean = sum((sequence.at(k).toarray() for k in range(draws)), np.zeros((5, 5))) / draws
    expected = np.eye(5) - nx.laplacian_matrix(graph).toarray() / 8
    np.testing.assert_allclose(mean, expected, atol=5 * 0.5 / np.sqrt(draws))


def test_seeds_and_iterations_differ() -> None:
    keys = {topologies.RandomMatching(20, seed).distinct(k) for seed in range(10) for k in range(10)}
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
            topologies.LinkFailures(topologies.lazy(topologies.metropolis_weights(topologies.torus(4, 4))), 0.2, 9),
        ),
        (
            "periodic@ring|star:16",
            topologies.PeriodicSequence([topologies.metropolis_weights(g) for g in (topologies.ring(16), topologies.star(16))]),
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
        ("one_per_exponential:16", None, "did you mean 'one_peer_exponential'.*known sequences: link_failures"),
        ("one_peer_exponential", None, "leaves the number of agents open.*'one_peer_exponential:16'"),
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
