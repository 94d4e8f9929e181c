"""The joint spectrum of a sequence of matrices."""

from __future__ import annotations

import re

import numpy as np
import pytest

import topologies as tp


def test_a_matrix_that_stays_has_its_own_spectrum() -> None:
    """Of 1 - d over B rounds, d = sigma^B between 1/4 and 1/2, more than half of 1 - sigma is
    left."""
    for graph in (tp.ring(10), tp.star(7), tp.path(6)):
        W = tp.metropolis_weights(graph)
        own = tp.spectrum(W)
        found = tp.joint_spectrum(tp.PeriodicSequence([W]))
        assert 0.5 * (1.0 - own.sigma) < found.gap <= 1.0 - own.sigma
        assert found.lambda_min == pytest.approx(own.lambda_min, abs=1e-12)


def test_one_peer_averages_in_a_period() -> None:
    gap, smallest, independent = tp.joint_spectrum(tp.OnePeerExponential(8))
    assert gap == pytest.approx(1.0 / 3.0)
    assert smallest == pytest.approx(0.0, abs=1e-12)
    assert not independent


def test_the_smallest_eigenvalue_is_that_of_the_worst_matrix() -> None:
    half = np.full((2, 2), 0.5)
    swap = np.array([[0.1, 0.9], [0.9, 0.1]])
    assert tp.joint_spectrum(tp.PeriodicSequence([half, swap])).lambda_min == pytest.approx(-0.8)


def test_drawn_pairs_of_the_complete_graph_have_their_known_rate() -> None:
    """One pair of n agents averages: E W = I - (I - J) / (n - 1), so that a round removes about
    1 / (n - 1) of a disagreement."""
    found = tp.joint_spectrum(tp.RandomGossip(tp.complete(10), seed=0))
    assert found.independent
    assert 0.2 / 9.0 < found.gap < 1.0 / 9.0


@pytest.mark.slow
def test_agents_that_never_meet_have_none() -> None:
    apart = np.kron(np.eye(2), np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match=r"too slowly: 65536 rounds leave 1 of their disagreement"):
        tp.joint_spectrum(tp.PeriodicSequence([apart]))


def test_too_many_agents_have_none() -> None:
    many = tp.RandomMatching(1502, seed=0)
    with pytest.raises(ValueError, match=re.escape("1502 agents is too large")):
        tp.joint_spectrum(many)
