"""Agents that leave: what they were given is kept by those who gave it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import topologies
from topologies.words import ranges

RULES: dict[str, Callable[[nx.Graph[int]], Any]] = {
    "metropolis": topologies.metropolis_weights,
    "lazy": lambda graph: topologies.lazy(topologies.metropolis_weights(graph)),
}


@pytest.mark.slow
@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(n=st.integers(2, 11), seed=st.integers(0, 99), rule=st.sampled_from(sorted(RULES)), data=st.data())
def test_the_repaired_matrix_is_a_mixing_matrix_on_the_induced_subgraph(n: int, seed: int, rule: str, data: st.DataObject) -> None:
    graph = topologies.erdos_renyi(n, 0.5, seed=seed)
    lost = sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1)))
    left = [i for i in range(n) if i not in lost]
    induced = graph.subgraph(left)
    assume(nx.is_connected(induced))
    W = RULES[rule](graph)
    repaired = topologies.without_agents(W, lost)
    dense, whole = repaired.toarray(), W.toarray()
    expected = whole[np.ix_(left, left)] + np.diag(whole[np.ix_(left, lost)].sum(axis=1))
    np.testing.assert_allclose(dense, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, rtol=0, atol=1e-15 * n)
    assert dense.min() >= 0
    edges = {(left[i], left[j]) for i, j in np.argwhere(np.triu(dense, 1))}
    assert edges == {tuple(sorted(edge)) for edge in induced.edges}
    topologies.check_weights(repaired)
    assert np.linalg.eigvalsh(dense)[0] >= np.linalg.eigvalsh(whole)[0] - 1e-12
    if not lost:
        np.testing.assert_array_equal(dense, whole)


def test_who_leaves_first_makes_no_difference() -> None:
    W = topologies.metropolis_weights(topologies.complete(7))
    at_once = topologies.without_agents(W, [1, 4]).toarray()
    np.testing.assert_allclose(topologies.without_agents(topologies.without_agents(W, [4]), [1]).toarray(), at_once, atol=1e-16)
    np.testing.assert_array_equal(topologies.without_agents(W, [4, 1, 4]).toarray(), at_once)


def test_others_that_fall_apart_are_named() -> None:
    W = topologies.metropolis_weights(topologies.path(10))
    with pytest.raises(ValueError, match=r"agents 2, 5 to 6 the others are not connected \(3 comp.*: 0 to 1; 3 to 4; 7 to 9"):
        topologies.without_agents(W, [5, 6, 2])
    with pytest.raises(ValueError, match=r"\(9 components.*: 1; 2; 3; 4; 5; 6; \.\.\."):
        topologies.without_agents(topologies.metropolis_weights(topologies.star(10)), [0])


@pytest.mark.parametrize(
    ("lost", "words"), [([10], "must be among 0 to 9, got 10"), ([-1, 3], "got -1, 3"), (range(10), "all 10 agents leave")]
)
def test_nobody_leaves_who_is_not_there(lost: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        topologies.without_agents(topologies.metropolis_weights(topologies.ring(10)), list(lost))


@pytest.mark.parametrize(("numbers", "words"), [([], ""), ([4], "4"), ([0, 1, 2, 7], "0 to 2, 7"), ([1, 3, 4], "1, 3 to 4")])
def test_numbers_in_words(numbers: list[int], words: str) -> None:
    assert ranges(numbers) == words
