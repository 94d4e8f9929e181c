"""Robust subspaces and orthogonal dictionaries: planted ones, in one place and held by agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.decomposition
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

import topologies as tp
from decentorth import RSSM
from decentorth.estimators import OrthogonalDictionary, RobustSubspace
from decentorth.protocols import Array
from tests.support.marks import first_is_quick

RING = tp.metropolis_weights(tp.ring(5))


def planted(
    d: int = 12, rank: int = 4, inliers: int = 200, outliers: int = 150, seed: int = 0
) -> tuple[Array, Any, Array]:
    """Samples, whether each is an inlier, and the projection onto the subspace; outliers are up to
    1000 times as large."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    inside = rng.standard_normal((inliers, rank)) * 1.4 ** -np.arange(rank) @ basis.T
    outside = rng.standard_normal((outliers, d)) * 10.0 ** rng.uniform(-3, 3, (outliers, 1))
    order = rng.permutation(inliers + outliers)
    subspace: Array = basis @ basis.T
    return np.vstack([inside, outside])[order], order < inliers, subspace


def projection(components: Array) -> Array:
    return components.T @ components


@pytest.mark.slow_cases("algorithm1")
@pytest.mark.parametrize(
    "algorithm", ["auto", RSSM(blocks=4, step_size="geometric:initial=2,ratio=0.985")]
)
def test_the_subspace_is_found_among_outliers(algorithm: Any) -> None:
    """To 1e-5, and scores tell outliers apart; principal components are nowhere near."""
    X, inlier, subspace = planted()
    found = RobustSubspace(4, center=False, algorithm=algorithm, tol=1e-7, random_state=0).fit(X)
    assert np.abs(projection(found.components_) - subspace).max() < 1e-5
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(4), atol=1e-13)
    scores = found.score_samples(X)
    assert roc_auc_score(inlier, scores) == 1.0
    assert scores[inlier].min() > -1e-5 > -0.2 > scores[~inlier].max()
    pca = sklearn.decomposition.PCA(4).fit(X)
    assert np.abs(projection(pca.components_) - subspace).max() > 0.1


def test_components_are_principal_axes_on_the_sphere() -> None:
    X, _, _ = planted()
    found = RobustSubspace(4, random_state=0).fit(X)
    seen = X - found.location_
    sphere = seen / np.linalg.norm(seen, axis=1)[:, None]
    moments = found.components_ @ sphere.T @ sphere @ found.components_.T
    np.testing.assert_allclose(
        moments, np.diag(np.sort(np.diag(moments))[::-1]), atol=1e-9 * moments.max()
    )
    assert all(row[np.abs(row).argmax()] > 0 for row in found.components_)


@pytest.mark.slow
def test_location_scale_and_coordinates() -> None:
    """The median; neither the samples' unit nor where they are matters, and what lies in the
    subspace comes back."""
    X, _, _ = planted()
    plain = RobustSubspace(4, random_state=0).fit(X)
    np.testing.assert_allclose(plain.location_, np.median(X, axis=0), rtol=1e-14)
    for scale in (1e-8, 1e8):
        other = RobustSubspace(4, random_state=0).fit(scale * (X + 5.0))
        np.testing.assert_allclose(other.components_, plain.components_, atol=1e-6)
        np.testing.assert_allclose(
            other.score_samples(scale * (X + 5.0)), plain.score_samples(X), atol=1e-6
        )
    inside = plain.inverse_transform(plain.transform(X))
    np.testing.assert_allclose(
        plain.inverse_transform(plain.transform(inside)), inside, atol=1e-12 * np.abs(X).max()
    )
    away = np.linalg.norm(X - inside, axis=1) / np.linalg.norm(X - plain.location_, axis=1)
    np.testing.assert_allclose(plain.score_samples(X), -away, atol=1e-12)
    assert plain.score_samples(plain.location_[None])[0] == 0.0


@pytest.mark.slow
def test_agents_find_what_one_place_finds() -> None:
    """Unequally many samples each, some outliers only; every sample counts the same, so the
    division does not matter."""
    X, inlier, subspace = planted(seed=1)
    order = np.argsort(inlier, kind="stable")
    parts = [X[part] for part in np.split(order, [60, 140, 200, 203])]
    together = RobustSubspace(4, center=False, random_state=0, tol=1e-7).fit_agents(parts, RING)
    assert np.abs(projection(together.components_) - subspace).max() < 1e-4
    alone = RobustSubspace(4, center=False, random_state=0, tol=1e-7).fit(X)
    np.testing.assert_allclose(together.components_, alone.components_, atol=1e-4)
    found = RobustSubspace(4, random_state=0).fit_agents(parts, RING)
    medians = [np.median(part, axis=0) for part in parts]
    np.testing.assert_allclose(
        found.location_, np.average(medians, axis=0, weights=[60, 80, 60, 3, 147]), rtol=1e-12
    )


def test_too_few_iterations_are_told() -> None:
    X, _, _ = planted()
    with pytest.warns(
        ConvergenceWarning,
        match=r"stopped after 20 iterations at a step share of 5\.\de-01, above tol = 1e-06",
    ):
        RobustSubspace(4, max_iter=20, random_state=0).fit(X)


def dictionary(d: int = 12, samples: int = 1500, seed: int = 0) -> tuple[Array, Array]:
    """Samples, and the dictionary's atoms as rows, the largest coefficients' first; the largest
    entry of each is positive."""
    rng = np.random.default_rng(seed)
    atoms = np.linalg.qr(rng.standard_normal((d, d)))[0]
    atoms *= np.sign(np.take_along_axis(atoms, np.abs(atoms).argmax(axis=1)[:, None], 1))
    coefficients = (
        rng.standard_normal((samples, d)) * (rng.random((samples, d)) < 0.3) * 0.97 ** np.arange(d)
    )
    order = np.argsort(-np.abs(coefficients).sum(axis=0))
    return coefficients @ atoms, atoms[order]


REDRAWN = RSSM(blocks=4, step_size="geometric:initial=3e-3,ratio=0.98", block_partition="redraw")


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    first_is_quick(
        [
            {},
            {"algorithm": "rsm", "step_size": "geometric:initial=3e-3,ratio=0.97"},
            {"algorithm": REDRAWN},
        ]
    ),
)
def test_the_dictionary_is_found(settings: dict[str, Any]) -> None:
    X, atoms = dictionary()
    for scale in (1.0, 1e8):
        found = OrthogonalDictionary(tol=1e-7, random_state=1, **settings).fit(scale * X)
        np.testing.assert_allclose(found.components_, atoms, atol=1e-6)
        np.testing.assert_allclose(
            found.sizes_, scale * np.abs(X @ atoms.T).mean(axis=0), rtol=1e-6
        )
        sparse = found.transform(scale * X)
        assert (np.abs(sparse) < 1e-5 * scale).mean() == pytest.approx(0.7, abs=0.05)
        np.testing.assert_allclose(
            found.inverse_transform(sparse), scale * X, atol=1e-12 * scale * np.abs(X).max()
        )


@pytest.mark.slow
def test_agents_find_the_same_dictionary() -> None:
    X, atoms = dictionary(seed=1)
    W = tp.metropolis_weights(tp.erdos_renyi(6, 0.6, seed=1))
    parts = np.split(X, [100, 400, 700, 900, 1300])
    found = OrthogonalDictionary(random_state=0).fit_agents(parts, W)
    np.testing.assert_allclose(found.components_, atoms, atol=1e-4)
    np.testing.assert_allclose(found.sizes_, np.abs(X @ atoms.T).mean(axis=0), rtol=1e-4)


def test_too_few_iterations_for_a_dictionary_are_told() -> None:
    X, _ = dictionary()
    with pytest.warns(
        ConvergenceWarning,
        match="OrthogonalDictionary stopped after 10 iterations at a step share of",
    ):
        OrthogonalDictionary(max_iter=10, random_state=0).fit(X)
