"""Discriminant directions and canonical correlations of several views: in one place, and held by
agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from decentorth.estimators import CCA, LDA, PCA, MultiviewCCA
from decentorth.protocols import Array
from tests.support.marks import first_is_quick


def wine() -> tuple[Array, Any]:
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), np.array(["red", "rose", "white"])[y]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["alone", "generalized_drfgt", "cdadt"])
def test_the_directions_are_scikit_learns(algorithm: str) -> None:
    """Also where sites have unequally many samples, and some of them only one class."""
    X, y = wine()
    judge = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    if algorithm == "alone":
        found = LDA(tol=1e-10).fit(X, y)
    else:
        sites = {
            f"site {i}": (X[a:b], y[a:b])
            for i, (a, b) in enumerate([(0, 30), (30, 100), (100, 150), (150, 178)])
        }
        found = LDA(algorithm=algorithm, tol=1e-10).fit_agents(sites, "ring")
        assert found.sites_ == tuple(sites)
    expected = judge.scalings_[:, :2].T
    expected *= np.sign((expected * found.components_).sum(1))[:, None]
    np.testing.assert_allclose(found.components_, expected, atol=1e-8)
    np.testing.assert_allclose(
        found.eigenvalues_ / found.eigenvalues_.sum(), judge.explained_variance_ratio_, atol=1e-10
    )
    for ours, theirs in (
        (found.means_, judge.means_),
        (found.priors_, judge.priors_),
        (found.mean_, X.mean(0)),
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    scores, other = found.transform(X), judge.transform(X)
    np.testing.assert_allclose(
        np.abs(scores - scores.mean(0)), np.abs(other - other.mean(0)), atol=1e-7
    )
    np.testing.assert_allclose(found.transform(found.inverse_transform(scores)), scores, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["generalized_drfgt", "cdadt"])
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_correlated_features_in_any_unit(algorithm: str, unit: float) -> None:
    X, y = load_iris(return_X_y=True)
    expected = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2].T
    parts = [(X[i::4] * unit, y[i::4]) for i in range(4)]
    found = (
        LDA(algorithm=algorithm, tol=1e-10, random_state=0).fit_agents(parts, "ring").components_
        * unit
    )
    np.testing.assert_allclose(
        found * np.sign((found * expected).sum(1))[:, None], expected, atol=1e-8
    )


VIEWS = (3, 4, 2)


def columns() -> Array:
    rng = np.random.default_rng(0)
    common = rng.standard_normal((600, 2))
    views = [
        common @ rng.standard_normal((2, d)) + s * rng.standard_normal((600, d))
        for d, s in zip(VIEWS, (0.5, 0.8, 0.6), strict=True)
    ]
    return np.hstack(views) * np.geomspace(1e-2, 1e2, 9) + 5.0


@pytest.mark.parametrize("algorithm", first_is_quick(["alone", "generalized_drfgt", "cdadt"]))
def test_the_directions_are_those_of_the_pooled_pencil(algorithm: str) -> None:
    X = columns()
    C = np.cov(X.T, bias=True)
    values, vectors = scipy.linalg.eigh(
        C, scipy.linalg.block_diag(C[:3, :3], C[3:7, 3:7], C[7:, 7:])
    )
    if algorithm == "alone":
        found = MultiviewCCA(2, views=VIEWS, tol=1e-10).fit(X)
    else:
        sites = {"north": X[:100], "south": X[100:350], "west": X[350:]}
        found = MultiviewCCA(2, views=VIEWS, algorithm=algorithm, tol=1e-10).fit_agents(
            sites, "ring"
        )
    expected = vectors[:, :-3:-1].T * X.std(0)
    ours = found.components_ * X.std(0)
    np.testing.assert_allclose(
        ours * np.sign((ours * expected).sum(1))[:, None], expected, atol=1e-8
    )
    np.testing.assert_allclose(found.eigenvalues_, values[:-3:-1], rtol=1e-10)
    scores = found.transform(X)
    np.testing.assert_allclose(np.cov(scores.T, bias=True), np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found.transform(found.inverse_transform(scores)), scores, atol=1e-10)
    regression = np.linalg.lstsq(np.column_stack((scores, np.ones(600))), X, rcond=None)[0]
    np.testing.assert_allclose(
        found.inverse_transform(np.eye(2)), regression[:2] + regression[2], rtol=1e-7
    )


def test_two_views_are_canonical_correlation_analysis_and_single_columns_are_correlations() -> None:
    X = columns()
    two = MultiviewCCA(views=(3, 4), tol=1e-10).fit(X[:, :7])
    np.testing.assert_allclose(
        two.eigenvalues_, 1.0 + CCA(3).fit(X[:, :3], X[:, 3:7]).correlations_, atol=1e-12
    )
    each = MultiviewCCA(3, tol=1e-10).fit(X)
    principal = PCA(3).fit((X - X.mean(0)) / X.std(0))
    np.testing.assert_allclose(
        each.eigenvalues_, principal.explained_variance_ * 599 / 600, rtol=1e-10
    )


@pytest.mark.parametrize("algorithm", first_is_quick(["alone", "generalized_drfgt", "cdadt"]))
def test_dependent_columns_give_the_directions_of_the_column_spaces(algorithm: str) -> None:
    """Indicators of all categories, a repeated column and a sum beside independent ones: as without
    these."""
    X = columns()
    kinds = np.eye(3)[(X[:, 0] > 5.0).astype(int) + (X[:, 3] > 5.0)]
    dependent = np.column_stack((X[:, :3], X[:, 0], kinds, X[:, 3:7], X[:, 3] + 2.0 * X[:, 4]))
    independent = np.column_stack((X[:, :3], kinds[:, :2], X[:, 3:7]))
    expected = MultiviewCCA(2, views=(3, 2, 4), tol=1e-10).fit(independent)
    found = MultiviewCCA(2, views=(4, 3, 5), tol=1e-10)
    if algorithm == "alone":
        found.fit(dependent)
    else:
        found.set_params(algorithm=algorithm).fit_agents(np.split(dependent, [100, 350]), "ring")
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    scores, wanted = found.transform(dependent), expected.transform(independent)
    np.testing.assert_allclose(scores * np.sign((scores * wanted).sum(0)), wanted, atol=1e-7)
    back, whole = found.inverse_transform(scores), expected.inverse_transform(wanted)
    np.testing.assert_allclose(back[:, [0, 1, 2, 4, 5, 7, 8, 9, 10]], whole, atol=1e-5)
    np.testing.assert_allclose(back[:, 3], back[:, 0], rtol=1e-10)


@pytest.mark.parametrize("sites", [3, 5])
def test_sites_that_add_find_scikit_learns_directions(sites: int) -> None:
    """569 samples with 30 collinear columns, on which gossip does not settle in 10,000
    iterations; the default adds class sums and both scatters once."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    parts = [(X[i], y[i]) for i in np.array_split(order, sites)]
    lda = LDA(1).fit_agents(parts, "ring")
    found = lda.transform(X)
    expected = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).transform(X)
    angles = scipy.linalg.subspace_angles(found - found.mean(0), expected - expected.mean(0))
    assert angles.max() < 1e-8
    assert lda.communication_["bytes"] < 150_000
