"""Estimators in common units, and fits that start from the last answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import sklearn.decomposition
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from decentorth.estimators import (
    CCA,
    ICA,
    LDA,
    PCA,
    MultiviewCCA,
    OrthogonalDictionary,
    RobustSubspace,
)
from decentorth.protocols import Array

SCALES = np.array([1e-6, 1e-3, 1.0, 1e3, 1e6])


@pytest.fixture
def sites() -> list[Array]:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 5))
    found = [
        (rng.laplace(size=(m, 5)) @ mixing + i) * SCALES for i, m in enumerate((650, 1225, 1125))
    ]
    found[1][:9, 2] = found[0][3, 0] = np.nan
    return found


def fitted(estimator: Any, way: str, sites: list[Array]) -> Any:
    """The estimator after a fit to the sites' samples, divided into two classes where it needs
    them."""
    if type(estimator) is LDA:
        if way == "agents":
            return estimator.fit_agents([(a, np.arange(len(a)) % 2) for a in sites], "ring")
        return estimator.fit(
            np.concatenate(sites), np.concatenate([np.arange(len(a)) % 2 for a in sites])
        )
    if way == "agents":
        return estimator.fit_agents(sites, "ring")
    whole = np.concatenate(sites)
    if way == "alone":
        return estimator.fit(whole)
    return estimator.fit_agents(np.split(whole, [1, 4], axis=1), "path", split="features")


UNITS: dict[str, Any] = {"scale": True, "missing": "mean"}
SEED: dict[str, Any] = {"random_state": 0}
MADE: dict[str, Any] = {
    "pca": partial(PCA, 2, tol=1e-11, **SEED),
    "ica": partial(ICA, max_iter=20, **SEED),
    "lda": partial(LDA, tol=1e-10, **SEED),
    "multiview": partial(MultiviewCCA, 2, views=(3, 2), tol=1e-10, **SEED),
    "robust": partial(RobustSubspace, max_iter=5, **SEED),
    "dictionary": partial(OrthogonalDictionary, max_iter=5, **SEED),
}


@pytest.mark.filterwarnings("ignore:.*stopped after")
@pytest.mark.parametrize("way", ["alone", "agents"])
@pytest.mark.parametrize("name", MADE)
def test_estimators_in_common_units_are_those_of_samples_scaled_before(
    sites: list[Array], name: str, way: str
) -> None:
    """And filled before: by scikit-learn's SimpleImputer and StandardScaler."""
    whole = np.concatenate(sites)
    filled = SimpleImputer().fit(whole)
    scaler = StandardScaler().fit(filled.transform(whole))
    scaled = [scaler.transform(filled.transform(a)) for a in sites]
    found = fitted(MADE[name](**UNITS), way, sites)
    expected = fitted(MADE[name](), way, scaled)
    scores, other = found.transform(whole), expected.transform(np.concatenate(scaled))
    # signs and order are those in the units of the samples
    turn = np.rint(np.linalg.lstsq(other, scores)[0])
    np.testing.assert_array_equal(turn @ turn.T, np.eye(len(turn)))
    np.testing.assert_allclose(scores, other @ turn, atol=1e-8)
    back = scaler.inverse_transform(expected.inverse_transform(scores @ turn.T))
    np.testing.assert_allclose(found.inverse_transform(scores) / SCALES, back / SCALES, atol=1e-8)
    assert found.filled_ == ((1, 9, 0) if way == "agents" else (10,))
    if name == "lda":
        means = scaler.inverse_transform(expected.means_)
        np.testing.assert_allclose(found.means_ / SCALES, means / SCALES, rtol=1e-10)
    if name in ("pca", "ica", "lda"):
        np.testing.assert_allclose(found.mean_, filled.statistics_, rtol=1e-12)


def test_features_of_agents_have_the_components_of_a_pipeline(sites: list[Array]) -> None:
    whole = np.concatenate(sites)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), sklearn.decomposition.PCA(2)).fit(
        whole
    )
    found = fitted(MADE["pca"](**UNITS), "features", sites)
    scores, expected = found.transform(whole), pipeline.transform(whole)
    np.testing.assert_allclose(
        scores, expected * np.sign((scores * expected).sum(axis=0)), atol=1e-8
    )
    np.testing.assert_allclose(found.scale_, pipeline[1].scale_, rtol=1e-12)
    assert found.score(whole) == pytest.approx(pipeline.score(whole), rel=1e-9)
    assert found.filled_ == (10,)


@pytest.mark.parametrize("way", ["alone", "agents", "features"])
def test_correlations_do_not_depend_on_units(way: str) -> None:
    """Also of columns whose deviation is 1e-14 of their mean, and where missing cells have been
    filled by hand."""
    rng, offset = np.random.default_rng(0), 1e8
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
        found.fit_agents(
            [(given[:, :2], y[:, :1]), (given[:, 2:], y[:, 1:])], "path", split="features"
        )
    np.testing.assert_allclose(found.correlations_, expected.correlations_, rtol=1e-8)
    scores = expected.transform((complete - offset) / (1e-6, 1.0, 1e6))
    np.testing.assert_allclose(found.transform(given), scores, atol=1e-6)
    np.testing.assert_allclose(found.x_scale_, expected.x_scale_ * (1e-6, 1.0, 1e6), rtol=1e-8)
    assert found.filled_ == ((4, 0, 0) if way == "agents" else (4,))


def in_batches(estimator: Any, sites: list[Array]) -> Any:
    for batch in np.array_split(np.concatenate(sites), 12):
        estimator.partial_fit(batch)
    return estimator


def test_batches_are_scaled_as_all_samples_seen(sites: list[Array]) -> None:
    """Although the units of the first batches are others; a missing cell gets the mean of the
    samples seen."""
    whole = np.concatenate(sites)
    complete = SimpleImputer().fit_transform(whole)
    found = in_batches(PCA(2, scale=True), np.split(complete, 3))
    expected = PCA(2, scale=True).fit(complete)
    for name in ("components_", "explained_variance_", "mean_", "scale_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
    np.testing.assert_allclose(found.transform(complete), expected.transform(complete), atol=1e-9)
    filled = in_batches(PCA(2, scale=True, missing="mean"), sites)
    assert filled.filled_ == (10,)
    np.testing.assert_allclose(filled.transform(whole), expected.transform(complete), atol=0.1)


def test_sources_in_batches_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(6000, 5)) @ rng.normal(size=(5, 5)) * SCALES + 1e3 * SCALES
    found, rescaled = [
        in_batches(ICA(scale=True, random_state=0), np.split(own, 3)) for own in (X, X / SCALES)
    ]
    np.testing.assert_allclose(found.transform(X), rescaled.transform(X / SCALES), atol=1e-8)
    np.testing.assert_allclose(found.scale_, X.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.mean_, X.mean(axis=0), rtol=1e-9)


def test_correlations_in_batches_fill_missing_cells() -> None:
    """With the mean of the samples seen, so that only the last batch's cells can have that of
    all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ rng.normal(size=(3, 2)) + rng.normal(size=(300, 2))
    X[280:290, 1] = np.nan
    complete = SimpleImputer().fit_transform(X)
    found = CCA(2, missing="mean").partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    expected = CCA(2).partial_fit(complete, y)
    np.testing.assert_allclose(found.correlations_, expected.correlations_, rtol=1e-12)
    np.testing.assert_allclose(found.transform(X), expected.transform(complete), atol=1e-12)
    assert found.filled_ == (10,)


@pytest.mark.parametrize("make", [PCA, MultiviewCCA])
def test_batches_of_agents_are_in_the_units_of_all_samples(sites: list[Array], make: Any) -> None:
    complete = [1e3 * SCALES + np.nan_to_num(a) for a in sites]
    batches = [
        [a[:60] for a in complete],
        [a[60:120] for a in complete],
        [a[120:] for a in complete],
    ]
    found = make(2, scale=True, tol=1e-10, random_state=0)
    for batch in batches:
        found.partial_fit_agents(batch, "ring")
    expected = make(2, scale=True, tol=1e-10, random_state=0).fit_agents(complete, "ring")
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-6)
    np.testing.assert_allclose(found.scale_, expected.scale_, rtol=1e-10)
    np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-10)
    gaps = [
        [np.where(np.arange(len(a))[:, None] < [9, 0, 0, 0, 0], np.nan, a) for a in batch]
        for batch in batches
    ]
    filling = make(2, scale=True, missing="mean", tol=1e-10, random_state=0)
    for batch in gaps:
        filling.partial_fit_agents(batch, "ring")
    assert filling.filled_ == (27, 27, 27)


def windows() -> list[list[Array]]:
    """Three windows of fresh samples of five agents, each turned a little further."""
    rng = np.random.default_rng(0)
    mixing, drift = rng.standard_normal((6, 6)), rng.standard_normal((6, 6))
    turns = [scipy.linalg.expm(0.003 * window * drift) @ mixing for window in range(3)]
    return [[rng.laplace(size=(600, 6)) @ turn + 1.0 for _ in range(5)] for turn in turns]


def given(estimator: Any, window: list[Array]) -> list[Any]:
    if type(estimator) is CCA:
        return [(a[:, :3], a[:, 3:]) for a in window]
    if type(estimator) is LDA:
        return [(a, (a[:, 0] > 1.0) + (a[:, 1] > 2.0)) for a in window]
    return window


QUICK: dict[str, Any] = {"tol": 1e-6, "random_state": 0}
GOSSIP: dict[str, Any] = {**QUICK, "algorithm": "generalized_drfgt"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: PCA(3, algorithm="deepca", **QUICK),
        lambda: ICA(**QUICK),
        lambda: CCA(2, **GOSSIP),
        lambda: MultiviewCCA(2, views=(3, 3), **GOSSIP),
        pytest.param(lambda: LDA(**GOSSIP), marks=pytest.mark.slow),
    ],
    ids=["pca", "ica", "cca", "multiview", "lda"],
)
def test_warm_starts_find_the_same_answers_in_fewer_rounds(make: Any) -> None:
    warm, rounds = make(), np.zeros(2)
    for number, window in enumerate(windows()):
        samples = given(warm, window)
        cold = make().fit_agents(samples, "ring")
        warm.fit_agents(samples, "ring", warm_start=number > 0)
        name = "x_weights_" if type(cold) is CCA else "components_"
        np.testing.assert_allclose(getattr(warm, name), getattr(cold, name), atol=2e-5)
        if number > 0:
            rounds += warm.communication_["rounds"], cold.communication_["rounds"]
    assert rounds[0] < 0.9 * rounds[1]


@pytest.mark.parametrize("make", [OrthogonalDictionary, lambda **more: RobustSubspace(2, **more)])
def test_a_warm_start_of_subgradient_methods_begins_at_the_last_answer(make: Any) -> None:
    """Whatever the seed: the first point, which one iteration with short steps hardly changes."""
    first, second, _ = windows()
    last = make(tol=1e-3, random_state=0).fit_agents(first, "ring")
    before = last.components_.copy()
    last.set_params(
        algorithm="drsm", step_size="geometric:initial=1e-6,ratio=0.9", max_iter=1, random_state=7
    )
    with pytest.warns(Warning, match="stopped after 1 iterations"):
        last.fit_agents(second, "ring", warm_start=True)
    cosines = np.linalg.svd(before @ last.components_.T)[1]
    np.testing.assert_allclose(cosines, 1.0, atol=1e-6)
