"""Mixing with momentum: its rate, its mean, and how far gradient tracking on it is stable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth.algorithms.common.automatic_steps import tracking_limit
from decentorth.algorithms.common.loopless import Momenta, loopless, mix_loopless
from decentorth.network import Network
from decentorth.protocols import Array, Spectrum

SPECTRA = [
    Spectrum(1.0 - slow, 1.0 - fast)
    for slow in (1e-8, 1e-6, 1e-4, 1e-3, 0.0053, 0.038, 0.127, 0.5, 1.0, 1.1)
    for fast in (0.4, 1.0, 4 / 3, 1.999)
    if fast >= slow
]
GRAPHS: dict[str, Any] = {
    "ring": tp.metropolis_weights(tp.ring(50)),
    "nearly bipartite": tp.uniform_weights(tp.ring(10), 0.01),
    "fastest": tp.fmmc_weights(tp.ring(10)),
    "complete": tp.uniform_weights(tp.complete(6), 0.0),
}


def eigenvalues(spectrum: Spectrum) -> Array:
    """Eigenvalues of V from its least to its second, the ends more densely."""
    share = loopless(spectrum).share
    low = 1.0 - share * (1.0 - spectrum.lambda_min)
    high = 1.0 - share * (1.0 - spectrum.lambda_2)
    near = high - (high - low) * np.geomspace(1e-6, 1.0, 30)
    return np.concatenate((np.linspace(low, high, 30), near))


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_every_deviation_falls_by_the_gap(spectrum: Spectrum) -> None:
    """The roots of z^2 - (1 + eta) w z + eta w; a double root has the square root of the
    rounding."""
    _, eta, gap = loopless(spectrum)
    roots = [np.roots([1.0, -(1.0 + eta) * w, eta * w]) for w in eigenvalues(spectrum)]
    assert max(np.abs(one).max() for one in roots) <= 1.0 - gap + 1e-7


@pytest.mark.parametrize("name", GRAPHS)
def test_a_round_leaves_the_mean_and_many_leave_nothing_else(name: str) -> None:
    network = Network(GRAPHS[name])
    n = network.n_agents
    x = np.random.default_rng(0).standard_normal((n, 3, 2))
    y, mean = 2.0 * x, x.mean(0)
    last = Momenta(0.0 * x, 0.0 * x)
    gap = loopless(network.spectrum).gap
    assert gap > 0.9 * min(
        1.0, math.sqrt(loopless(network.spectrum).share * (1.0 - network.spectrum.lambda_2))
    )
    rounds = math.ceil(1.0 + 40.0 / gap)
    for _ in range(rounds):
        mixed, shared = mix_loopless(network, x, y, last)
        last = Momenta(mixed - x, shared - y)
        x, y = mixed, shared
    assert network.rounds == rounds
    np.testing.assert_allclose(x, np.broadcast_to(mean, x.shape), rtol=0, atol=1e-12)
    np.testing.assert_allclose(y, np.broadcast_to(2.0 * mean, x.shape), rtol=0, atol=1e-12)


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_tracking_is_stable_up_to_the_limit_on_every_network(spectrum: Spectrum) -> None:
    """Equal agents with f(x) = x^2 / 2 and a step t: the iteration is linear in x, u, y, v."""
    eta = loopless(spectrum).momentum
    x, u, y, v = np.eye(4)
    for w in eigenvalues(spectrum):
        for t in np.linspace(0.05, tracking_limit(spectrum, "accelerated"), 14):
            p = x - t * y
            new = w * (p + eta * u)
            mixed = w * (y + eta * v)
            step = np.stack((new, new - p, mixed + new - x, mixed - y))
            assert np.abs(np.linalg.eigvals(step)).max() < 1.0 + 1e-12, (w, t)
