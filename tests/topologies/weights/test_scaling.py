"""Sinkhorn-Knopp: a symmetric scaling D A D with row sums 1, unique, and the faults of a user's matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies
from topologies import sinkhorn_weights

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@pytest.mark.slow
@EXAMPLES
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_scaling_of_random_matrices(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) * topologies.adjacency(topologies.erdos_renyi(n, 0.6, seed)).toarray()
    A = A + A.T + np.diag(rng.random(n) + 1e-3)
    W = sinkhorn_weights(A).toarray()
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-12)
    scale = np.sqrt(np.diag(W) / np.diag(A))
    np.testing.assert_allclose(W, scale[:, None] * A * scale, rtol=1e-12)


def test_scaling_is_unique() -> None:
    """A mixing matrix is its own scaling, and any D W D scales back to it."""
    W = topologies.metropolis_weights(topologies.les_miserables())
    scale = np.random.default_rng(0).uniform(0.1, 10, 77)
    np.testing.assert_allclose(sinkhorn_weights(W).toarray(), W.toarray(), atol=1e-14)
    spoilt = sparse.diags_array(scale) @ W @ sparse.diags_array(scale)
    np.testing.assert_allclose(sinkhorn_weights((spoilt + spoilt.T) / 2).toarray(), W.toarray(), atol=1e-11)


@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([[1, -1], [-1, 1]], r"must not be negative, but A\[0, 1\] = -1"),
        ([[1, 2], [1, 1]], r"must be symmetric, but A\[0, 1\] - A\[1, 0\] = 1; use \(A \+ A.T\) / 2"),
        ([[1, 0], [0, 0]], r"row 1 has none; give A\[1, 1\] > 0"),
        ([[0, 1, 1], [1, 0, 0], [1, 0, 0]], r"cannot be scaled.*give every agent a weight of its own"),
    ],
)
def test_faults_are_named(A: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sinkhorn_weights(A)
