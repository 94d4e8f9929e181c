"""Several rounds of mixing as one, against the dense polynomial from W's eigendecomposition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import DRGTA
from decentorth.algorithms.common.mixing import effective, mix
from decentorth.network import Network
from decentorth.protocols import Array
from tests.reference import rivals
from tests.support.problems import GRAPHS

WEIGHTS: dict[str, Any] = {
    **{f"{name} of 7": build(7) for name, build in GRAPHS.items()},
    "one agent": np.ones((1, 1)),
    "pair": tp.uniform_weights(tp.ring(2), 0.7),
    "path of 12": tp.metropolis_weights(tp.path(12)),
    "ring with negative eigenvalues": tp.uniform_weights(tp.ring(8), 0.05),
    "all others negative": tp.uniform_weights(tp.complete(5), 0.1),
    "all others positive": tp.uniform_weights(tp.ring(9), 0.8),
}
ROUNDS = (1, 2, 3, 4, 9)
every = pytest.mark.parametrize("graph", WEIGHTS)
rounds_of = pytest.mark.parametrize("rounds", ROUNDS)
both = pytest.mark.parametrize("chebyshev", [True, False])


def dense(graph: str) -> Array:
    W = WEIGHTS[graph]
    return np.asarray(W if isinstance(W, np.ndarray) else W.toarray())


def polynomial(graph: str, rounds: int, chebyshev: bool) -> Array:
    return (rivals.chebyshev if chebyshev else rivals.power)(dense(graph), rounds)


def points(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, 4, 2)), 1e3 + rng.standard_normal((n, 3))


@both
@rounds_of
@every
def test_mix_is_the_polynomial_of_w(graph: str, rounds: int, chebyshev: bool) -> None:
    """For every array given, in as many exchanges as rounds; what was given is left alone."""
    network = Network(WEIGHTS[graph])
    given = points(network.n_agents)
    before = [x.copy() for x in given]
    found = mix(network, rounds, chebyshev, *given)
    assert network.rounds == (1 if chebyshev and averages_at_once(graph) else rounds)
    matrix = polynomial(graph, rounds, chebyshev)
    for x, mixed, copy in zip(given, found, before, strict=True):
        np.testing.assert_array_equal(x, copy)
        assert mixed.flags.c_contiguous
        assert not np.shares_memory(mixed, x)
        expected = (matrix @ x.reshape(len(x), -1)).reshape(x.shape)
        np.testing.assert_allclose(mixed, expected, atol=1e-13 * np.abs(x).max())


def averages_at_once(graph: str) -> bool:
    """Whether all eigenvalues but the simple 1 are equal, so that one round gives the mean."""
    eigenvalues = np.linalg.eigvalsh(dense(graph))
    return bool(len(eigenvalues) == 1 or eigenvalues[-2] - eigenvalues[0] < 1e-12)


@both
@rounds_of
@every
def test_effective_bounds_the_spectrum(graph: str, rounds: int, chebyshev: bool) -> None:
    """Of what `mix` multiplies by, found by mixing the unit vectors; equal to Chebyshev's bound on one side at least."""
    network = Network(WEIGHTS[graph])
    n = network.n_agents
    (matrix,) = mix(network, rounds, chebyshev, np.eye(n))
    differences = np.linalg.qr(np.hstack([np.ones((n, 1)), np.eye(n)[:, 1:]]))[0][:, 1:]  # orthonormal, sums zero
    others = np.linalg.eigvalsh(differences.T @ matrix @ differences)
    bound = effective(network.spectrum, rounds, chebyshev)
    assert np.all((bound.lambda_min - 1e-13 <= others) & (others <= bound.lambda_2 + 1e-13))
    if chebyshev and n > 1:
        assert np.abs(others).max() == pytest.approx(bound.lambda_2, rel=1e-10, abs=1e-13)
    if rounds == 1 and not chebyshev:
        assert bound == network.spectrum


@pytest.mark.parametrize("graph", ["erdos-renyi of 7", "ring of 7", "all others positive"])
def test_any_number_of_rounds_gives_the_mean(graph: str) -> None:
    """T_1000(z(1)) is beyond the largest float."""
    network = Network(WEIGHTS[graph])
    (x, _) = points(network.n_agents)
    (mixed,) = mix(network, 1000, True, x)
    assert effective(network.spectrum, 1000, True).lambda_2 < 1e-100
    np.testing.assert_allclose(mixed, np.broadcast_to(x.mean(axis=0), x.shape), atol=1e-13)


def test_fewer_rounds_than_one_are_refused() -> None:
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        DRGTA(rounds=0)
