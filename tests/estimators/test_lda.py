"""Discriminant directions against scikit-learn's: in one place, and held by agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from decentorth.estimators import LDA
from decentorth.protocols import Array


def wine() -> tuple[Array, Any]:
    """Samples in units of their deviations, and the names of their classes."""
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
        sites = {f"site {i}": (X[a:b], y[a:b]) for i, (a, b) in enumerate([(0, 30), (30, 100), (100, 150), (150, 178)])}
        found = LDA(algorithm=algorithm, tol=1e-10).fit_agents(sites, "ring")
        assert found.sites_ == tuple(sites)
    expected = judge.scalings_[:, :2].T
    expected *= np.sign((expected * found.components_).sum(1))[:, None]
    np.testing.assert_allclose(found.components_, expected, atol=1e-8)
    np.testing.assert_allclose(found.eigenvalues_ / found.eigenvalues_.sum(), judge.explained_variance_ratio_, atol=1e-10)
    for ours, theirs in ((found.means_, judge.means_), (found.priors_, judge.priors_), (found.mean_, X.mean(0))):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    scores, other = found.transform(X), judge.transform(X)
    np.testing.assert_allclose(np.abs(scores - scores.mean(0)), np.abs(other - other.mean(0)), atol=1e-7)
    np.testing.assert_allclose(found.transform(found.inverse_transform(scores)), scores, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["generalized_drfgt", "cdadt"])
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_correlated_features_in_any_unit(algorithm: str, unit: float) -> None:
    """The iris, whose covariance has the condition 177, over agents."""
    X, y = load_iris(return_X_y=True)
    expected = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2].T
    parts = [(X[i::4] * unit, y[i::4]) for i in range(4)]
    found = LDA(algorithm=algorithm, tol=1e-10, random_state=0).fit_agents(parts, "ring").components_ * unit
    np.testing.assert_allclose(found * np.sign((found * expected).sum(1))[:, None], expected, atol=1e-8)
