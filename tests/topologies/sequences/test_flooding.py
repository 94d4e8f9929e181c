"""How long word takes to get around, against distances in the graph and word of mouth played out."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies as tp


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(n=st.integers(2, 14), p=st.sampled_from([0.1, 0.3, 0.7]), seed=st.integers(0, 999))
def test_on_a_graph_it_is_the_diameter(n: int, p: float, seed: int) -> None:
    graph = tp.erdos_renyi(n, p, seed=seed) if p > 0.2 else nx.random_labeled_tree(n, seed=seed)
    graph = tp.numbered(graph)
    assert tp.flooding_rounds(tp.metropolis_weights(graph)) == nx.diameter(graph)


def told(sequence: tp.WeightSequence, start: int) -> int:
    """Rounds from ``start`` on until every agent has heard of every other, word by word."""
    heard = [{i} for i in range(sequence.n)]
    rounds = 0
    while any(len(names) < sequence.n for names in heard):
        W = sequence.at(start + rounds).toarray()
        heard = [set().union(*(heard[j] for j in range(sequence.n) if i == j or W[i, j] != 0)) for i in range(sequence.n)]
        rounds += 1
    return rounds


@pytest.mark.parametrize("name", ["one_peer_exponential:16", "periodic@ring:8|star:8", "periodic@path:6|star:6|ring:6"])
def test_on_a_periodic_network_whenever_one_begins(name: str) -> None:
    sequence = tp.sequence_from_name(name)
    period = sequence.period
    assert period is not None
    assert tp.flooding_rounds(sequence) == max(told(sequence, start) for start in range(period))


def test_matchings_that_connect_only_together() -> None:
    """A path whose edges are there in turn: word that goes against the order of the turns waits."""
    halves = np.diag([0.5, 0.5, 1.0]) + np.array([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]])
    others = halves[::-1, ::-1]
    sequence = tp.PeriodicSequence([halves, others])
    assert tp.flooding_rounds(sequence) == max(told(sequence, start) for start in range(2)) == 3


@pytest.mark.parametrize(("graph", "least"), [(tp.ring(2100), 1050), (tp.path(2001), 2000), (tp.star(3000), 2)])
def test_of_many_agents_an_upper_bound(graph: nx.Graph[int], least: int) -> None:
    rounds = tp.flooding_rounds(tp.metropolis_weights(graph))
    assert least <= rounds <= 2 * least


def test_of_many_agents_on_a_periodic_network() -> None:
    """One-peer exponential: 11 rounds would do; the hypercube's 11 edges there and back, each waited for through a period."""
    assert tp.flooding_rounds(tp.OnePeerExponential(2048)) == 11 * 2 * 11


@pytest.mark.parametrize("name", ["random_matching:8", "random_gossip@ring:8", "link_failures:p=0.3@ring:8"])
def test_random_neighbours_are_never_sure(name: str) -> None:
    with pytest.raises(ValueError, match="no number of rounds is sure to reach all agents"):
        tp.flooding_rounds(tp.sequence_from_name(name))


def test_who_is_never_reached() -> None:
    apart: Any = np.eye(3)
    with pytest.raises(ValueError, match="never gets from agent 0 to agent 1"):
        tp.flooding_rounds(tp.PeriodicSequence([apart, apart]))
    with pytest.raises(ValueError, match="connected"):
        tp.flooding_rounds(apart)
    assert tp.flooding_rounds(np.ones((1, 1))) == 0
