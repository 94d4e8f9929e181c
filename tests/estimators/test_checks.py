"""Scikit-learn's own checks of its estimators, and the names of the coordinates in data frames."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from decentorth.estimators import CCA, ICA, LDA, PCA, MultiviewCCA, OrthogonalDictionary, RobustSubspace

ESTIMATORS = [
    CCA(n_components=1),
    ICA(),
    LDA(ridge=1e-2),
    MultiviewCCA(ridge=1e-2),
    PCA(),
    OrthogonalDictionary(),
    RobustSubspace(),
]
"""CCA has one component, as scikit-learn checks its own: the checks have one target."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ICA cannot separate")  # the samples of the checks are few, and some are Gaussian
@parametrize_with_checks(ESTIMATORS)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
