"""Estimators in common units: those of scikit-learn behind a StandardScaler and a SimpleImputer, in one place and over agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.discriminant_analysis
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from decentorth.estimators import CCA, ICA, LDA, PCA
from decentorth.protocols import Array
from tests.support.mpi import run_ranks

SCALES = np.array([1e-6, 1e-3, 1.0, 1e3, 1e6])


@pytest.fixture
def sites() -> list[Array]:
    """The samples of three unequal sites, in very different units, with missing cells."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 5))
    found = [(rng.laplace(size=(m, 5)) @ mixing + i) * SCALES for i, m in enumerate((130, 245, 225))]
    found[1][:9, 2] = found[0][3, 0] = np.nan
    return found


def fitted(estimator: Any, way: str, sites: list[Array]) -> Any:
    """The estimator after a fit to the sites' samples."""
    whole = np.concatenate(sites)
    if way == "alone":
        return estimator.fit(whole)
    if way == "agents":
        return estimator.fit_agents(sites, "ring")
    return estimator.fit_agents(np.split(whole, [1, 4], axis=1), "path", split="features")


UNITS: dict[str, Any] = {"scale": True, "missing": "mean", "random_state": 0}


@pytest.mark.parametrize("way", ["alone", "agents", "features"])
def test_components_are_those_of_a_pipeline(sites: list[Array], way: str) -> None:
    whole = np.concatenate(sites)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), sklearn.decomposition.PCA(2)).fit(whole)
    found = fitted(PCA(2, tol=1e-11, **UNITS), way, sites)
    scores, expected = found.transform(whole), pipeline.transform(whole)
    expected *= np.sign((scores * expected).sum(axis=0))
    np.testing.assert_allclose(scores, expected, atol=1e-8)
    np.testing.assert_allclose(found.scale_, pipeline[1].scale_, rtol=1e-12)
    np.testing.assert_allclose(found.mean_, pipeline[0].statistics_, rtol=1e-12)
    back = pipeline[1].inverse_transform(pipeline[2].inverse_transform(pipeline.transform(whole)))
    np.testing.assert_allclose(found.inverse_transform(scores) / SCALES, back / SCALES, atol=1e-8)
    assert found.score(whole) == pytest.approx(pipeline.score(whole), rel=1e-9)
    assert found.filled_ == ((1, 9, 0) if way == "agents" else (10,))


@pytest.mark.parametrize("way", ["alone", "agents"])
def test_sources_do_not_depend_on_units(way: str) -> None:
    rng = np.random.default_rng(0)
    sites = list(np.split(rng.laplace(size=(3000, 5)) @ rng.normal(size=(5, 5)) * SCALES, [900, 1500]))
    sites[1][:9, 2] = np.nan
    found = fitted(ICA(**UNITS), way, sites)
    rescaled = fitted(ICA(**UNITS), way, [a * 3.0 / SCALES for a in sites])
    whole = np.concatenate(sites)
    scores = found.transform(whole)
    np.testing.assert_allclose(scores, rescaled.transform(whole * 3.0 / SCALES), atol=1e-6)
    complete = np.where(np.isnan(whole), found.mean_, whole)
    np.testing.assert_allclose(found.inverse_transform(scores) / SCALES, complete / SCALES, atol=1e-9)


def test_directions_are_those_of_a_pipeline(sites: list[Array]) -> None:
    whole = np.nan_to_num(np.concatenate(sites))
    classes = (whole[:, 2] > 0.0) + (whole[:, 4] > 1e6)
    by_sklearn = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen")
    expected = make_pipeline(StandardScaler(), by_sklearn).fit(whole, classes).transform(whole)
    alone = LDA(scale=True, tol=1e-10, random_state=0).fit(whole, classes)
    cuts = [130, 375]
    pairs = list(zip(np.split(whole, cuts), np.split(classes, cuts), strict=True))
    together = LDA(scale=True, tol=1e-10, random_state=0).fit_agents(pairs, "ring")
    for found in (alone, together):
        scores = found.transform(whole)
        cosines = (scores * expected).sum(axis=0) / np.linalg.norm(scores, axis=0) / np.linalg.norm(expected, axis=0)
        np.testing.assert_allclose(np.abs(cosines), 1.0, atol=1e-10)
        np.testing.assert_allclose(found.means_[1] / SCALES, whole[classes == 1].mean(axis=0) / SCALES, rtol=1e-10)
        np.testing.assert_allclose(found.mean_ / SCALES, whole.mean(axis=0) / SCALES, rtol=1e-10)


@pytest.mark.parametrize("way", ["alone", "agents", "features"])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_correlations_do_not_depend_on_units(way: str, offset: float) -> None:
    """Also of columns whose deviation is 1e-14 of their mean, and where missing cells have been filled by hand."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * (1e-6, 1.0, 1e6) + offset
    around = (X - X.mean(axis=0)) / (1e-6, 1.0, 1e6)
    y = around @ rng.normal(size=(3, 2)) + rng.normal(size=(300, 2))
    complete, given = X.copy(), X.copy()
    given[:4, 1] = np.nan
    complete[:4, 1] = np.nanmean(given[:, 1])
    expected = CCA(2, tol=1e-10, random_state=0).fit((complete - offset) / (1e-6, 1.0, 1e6), y)
    found = CCA(2, tol=1e-10, missing="mean", random_state=0)
    if way == "alone":
        found.fit(given, y)
    elif way == "agents":
        pairs = list(zip(np.split(given, [90, 200]), np.split(y, [90, 200]), strict=True))
        found.fit_agents(pairs, "ring")
    else:
        found.fit_agents([(given[:, :2], y[:, :1]), (given[:, 2:], y[:, 1:])], "path", split="features")
    np.testing.assert_allclose(found.correlations_, expected.correlations_, rtol=1e-8)
    scores = expected.transform((complete - offset) / (1e-6, 1.0, 1e6))
    np.testing.assert_allclose(found.transform(given), scores, atol=1e-6)
    np.testing.assert_allclose(found.x_scale_, expected.x_scale_ * (1e-6, 1.0, 1e6), rtol=1e-8)
    assert found.filled_ == ((4, 0, 0) if way == "agents" else (4,))


def test_sums_of_columns_are_counted(sites: list[Array]) -> None:
    """Three sums of 11, 5 and 5 numbers, four messages each on three agents."""
    complete = [np.nan_to_num(a) / SCALES for a in sites]
    runs = [PCA(2, scale=scale, max_iter=1, tol=10.0, random_state=0).fit_agents(complete, "path") for scale in (True, False)]
    scaled, plain = [run.communication_ for run in runs]
    assert scaled["messages"] - plain["messages"] == 12
    assert scaled["bytes"] - plain["bytes"] == 4 * 8 * (11 + 5 + 5)


@pytest.mark.parametrize("estimator", [PCA(scale=True), ICA(missing="mean")])
def test_batches_have_no_common_units(estimator: Any, sites: list[Array]) -> None:
    with pytest.raises(ValueError, match="partial_fit keeps no samples, whose units change: leave scale and missing out"):
        estimator.partial_fit(np.concatenate(sites[2:]))


def test_what_cannot_be_scaled_is_refused(sites: list[Array]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(sites[2], columns=list("abcde")).assign(ward=7.0)
    with pytest.raises(
        ValueError, match=r"column 'ward' is constant over all samples of all agents: leave it out, exclude=\('ward',\)"
    ):
        PCA(2, scale=True).fit_agents([frame, frame], "path")
    with pytest.raises(ValueError, match="missing must be 'refuse' or 'mean', got 'median'"):
        PCA(2, missing="median").fit(sites[2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="X of agent 1 must be finite"):
        PCA(2, scale=True).fit_agents(sites[2:] + sites[:1], "path")


@pytest.mark.slow
@pytest.mark.ranks
def test_a_ranks_own_samples_are_in_common_units() -> None:
    job = run_ranks(3, ["-m", "tests.estimators.own_units"])
    assert job.returncode == 0, job.report()
