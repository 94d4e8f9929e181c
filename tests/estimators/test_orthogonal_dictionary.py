"""Orthogonal dictionaries: planted ones, in one place and held by agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import topologies as tp
from decentorth import RSSM
from decentorth.estimators import OrthogonalDictionary
from decentorth.protocols import Array
from tests.support.marks import first_is_quick


def planted(d: int = 12, samples: int = 1500, seed: int = 0) -> tuple[Array, Array]:
    """Samples, and the dictionary's atoms as rows, the largest coefficients' first; the largest entry of each is positive."""
    rng = np.random.default_rng(seed)
    atoms = np.linalg.qr(rng.standard_normal((d, d)))[0]
    atoms *= np.sign(np.take_along_axis(atoms, np.abs(atoms).argmax(axis=1)[:, None], 1))
    coefficients = rng.standard_normal((samples, d)) * (rng.random((samples, d)) < 0.3) * 0.97 ** np.arange(d)
    order = np.argsort(-np.abs(coefficients).sum(axis=0))
    return coefficients @ atoms, atoms[order]


REDRAWN = RSSM(blocks=4, step_size="geometric:initial=3e-3,ratio=0.98", block_partition="redraw")


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", first_is_quick([{}, {"algorithm": "rsm", "step_size": "geometric:initial=3e-3,ratio=0.97"}, {"algorithm": REDRAWN}])
)
def test_the_dictionary_is_found(settings: dict[str, Any]) -> None:
    """Its atoms in their order and with their signs, in any unit."""
    X, atoms = planted()
    for scale in (1.0, 1e8):
        found = OrthogonalDictionary(tol=1e-7, random_state=1, **settings).fit(scale * X)
        np.testing.assert_allclose(found.components_, atoms, atol=1e-6)
        np.testing.assert_allclose(found.sizes_, scale * np.abs(X @ atoms.T).mean(axis=0), rtol=1e-6)
        sparse = found.transform(scale * X)
        assert (np.abs(sparse) < 1e-5 * scale).mean() == pytest.approx(0.7, abs=0.05)
        np.testing.assert_allclose(found.inverse_transform(sparse), scale * X, atol=1e-12 * scale * np.abs(X).max())


@pytest.mark.slow
def test_agents_find_the_same_dictionary() -> None:
    """Unequally many samples each."""
    X, atoms = planted(seed=1)
    W = tp.metropolis_weights(tp.erdos_renyi(6, 0.6, seed=1))
    parts = np.split(X, [100, 400, 700, 900, 1300])
    found = OrthogonalDictionary(random_state=0).fit_agents(parts, W)
    np.testing.assert_allclose(found.components_, atoms, atol=1e-4)
    np.testing.assert_allclose(found.sizes_, np.abs(X @ atoms.T).mean(axis=0), rtol=1e-4)


def test_too_few_iterations_are_told() -> None:
    X, _ = planted()
    with pytest.warns(ConvergenceWarning, match="OrthogonalDictionary stopped after 10 iterations at a step share of"):
        OrthogonalDictionary(max_iter=10, random_state=0).fit(X)
