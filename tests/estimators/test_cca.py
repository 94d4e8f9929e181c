"""Canonical correlations against scikit-learn's and the closed form: in one place, in batches, and
held by agents."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import sklearn.cross_decomposition
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

import topologies as tp
from decentorth.estimators import CCA
from decentorth.problems import canonical_correlations
from decentorth.protocols import Array
from tests.support.marks import first_is_quick

RING = tp.metropolis_weights(tp.ring(5))


def halves() -> tuple[Array, Array, Array]:
    images, labels = load_digits(return_X_y=True)
    views = [
        half.reshape(len(images), -1) for half in np.split(images.reshape(-1, 8, 8), 2, axis=2)
    ]
    left, right = (view[:, view.std(axis=0) > 0.1] for view in views)
    return left, right, labels


def related(count: int, n1: int = 6, n2: int = 4, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((count, 4)) * np.array([2.0, 1.2, 0.6, 0.2])
    first = common @ rng.standard_normal((4, n1)) + rng.standard_normal((count, n1))
    second = common @ rng.standard_normal((4, n2)) + rng.standard_normal((count, n2))
    return 3.0 * first + 1.0, 0.1 * second - 7.0


def answer(X: Array, y: Array) -> Array:
    angles = scipy.linalg.subspace_angles(X - X.mean(axis=0), y - y.mean(axis=0))
    return np.sort(np.cos(angles))[::-1]


def correlations(scores: tuple[Array, Array]) -> Array:
    return np.array(
        [np.corrcoef(u, v)[0, 1] for u, v in zip(scores[0].T, scores[1].T, strict=True)]
    )


def test_fit_is_that_of_scikit_learn_up_to_sign() -> None:
    X, y, _ = halves()
    ours = CCA(3, random_state=0).fit(X, y)
    theirs = sklearn.cross_decomposition.CCA(3, tol=1e-20, max_iter=20_000).fit(X, y)
    for mine, other in zip(ours.transform(X, y), theirs.transform(X, y), strict=True):
        np.testing.assert_allclose(
            np.abs(np.corrcoef(mine.T, other.T)[:3, 3:]), np.eye(3), atol=1e-6
        )
    np.testing.assert_allclose(ours.correlations_, correlations(theirs.transform(X, y)), atol=1e-9)
    np.testing.assert_allclose(ours.correlations_, answer(X, y)[:3], atol=1e-12)
    assert (ours.x_weights_.shape, ours.y_weights_.shape) == (
        theirs.x_weights_.shape,
        theirs.y_weights_.shape,
    )
    assert len(ours.n_iter_) == len(theirs.n_iter_)


@pytest.mark.parametrize("scale", [True, False])
def test_scores_are_canonical(scale: bool) -> None:
    X, y = related(300)
    found = CCA(3, scale=scale, random_state=0).fit(X, y)
    u, v = found.fit_transform(X, y)
    np.testing.assert_allclose(u.T @ u / 300, np.eye(3), atol=1e-7)
    np.testing.assert_allclose(v.T @ v / 300, np.eye(3), atol=1e-7)
    np.testing.assert_allclose(u.T @ v / 300, np.diag(answer(X, y)[:3]), atol=1e-7)
    assert (found.x_weights_.max(axis=0) == np.abs(found.x_weights_).max(axis=0)).all()
    np.testing.assert_array_equal(found.transform(X), u)
    columns = (X - X.mean(axis=0)) / (X.std(axis=0, ddof=1) if scale else 1.0)
    np.testing.assert_allclose(columns @ found.x_weights_, u, atol=1e-12)


def test_predictions_and_inverse_transforms_are_regressions_on_the_scores() -> None:
    """On all scores the prediction is that on the features; on fewer, scikit-learn's own way is no
    better."""
    X, y = related(200)
    full = CCA(4, random_state=0).fit(X, y)
    regression = LinearRegression().fit(X, y)
    np.testing.assert_allclose(full.predict(X), regression.predict(X), atol=1e-7)
    np.testing.assert_allclose(full.coef_, regression.coef_, atol=1e-8)
    np.testing.assert_allclose(full.intercept_, regression.intercept_, atol=1e-7)
    few = CCA(2, random_state=0).fit(X, y)
    scores = few.transform(X, y)
    np.testing.assert_allclose(
        few.predict(X), LinearRegression().fit(scores[0], y).predict(scores[0]), atol=1e-7
    )
    np.testing.assert_allclose(few.predict(X), X @ few.coef_.T + few.intercept_, atol=1e-10)
    assert few.score(X, y) > sklearn.cross_decomposition.CCA(2).fit(X, y).score(X, y)
    for view, own, back in zip((X, y), scores, few.inverse_transform(*scores), strict=True):
        np.testing.assert_allclose(back, LinearRegression().fit(own, view).predict(own), atol=1e-6)


def test_one_target_is_the_multiple_correlation() -> None:
    X, y = related(200)
    found = CCA(1, random_state=0).fit(X, y[:, 0])
    regression = LinearRegression().fit(X, y[:, 0])
    assert found.predict(X).shape == (200,)
    np.testing.assert_allclose(found.predict(X), regression.predict(X), atol=1e-9)
    assert found.correlations_[0] ** 2 == pytest.approx(regression.score(X, y[:, 0]), rel=1e-9)


def test_a_ridge_makes_columns_that_depend_on_each_other_possible() -> None:
    """With it the correlations are those of the covariances that it is added to."""
    X, y = related(100)
    X = np.column_stack((X, X[:, 0] - X[:, 1], np.ones(100)))
    found = CCA(2, ridge=0.01, random_state=0).fit(X, y)
    first, second = (
        (view - view.mean(axis=0)) / np.where(view.std(axis=0) > 0, view.std(axis=0, ddof=1), 1)
        for view in (X, y)
    )
    c11, c22 = (view.T @ view / 100 for view in (first, second))
    roots = [
        scipy.linalg.fractional_matrix_power(c + 0.01 * np.trace(c) / len(c) * np.eye(len(c)), -0.5)
        for c in (c11, c22)
    ]
    expected = np.linalg.svd(roots[0] @ (first.T @ second / 100) @ roots[1], compute_uv=False)
    np.testing.assert_allclose(found.correlations_, expected[:2], rtol=1e-10)
    assert (correlations(found.transform(X, y)) >= found.correlations_).all()


@pytest.mark.parametrize(("n1", "n2"), [(90, 70), (90, 8)])
def test_a_ridge_with_fewer_samples_than_columns(n1: int, n2: int) -> None:
    """The correlations, weights and regression of the covariances with the ridge; batches continue
    the fit."""
    rng = np.random.default_rng(3)
    common = rng.standard_normal((40, 2))
    X = common @ rng.standard_normal((2, n1)) + rng.standard_normal((40, n1)) + 5.0
    Y = common @ rng.standard_normal((2, n2)) + rng.standard_normal((40, n2))
    found = CCA(2, ridge=0.1, random_state=0, tol=1e-10).fit(X[:30], Y[:30])
    x, y = ((a - a.mean(0)) / a.std(0, ddof=1) for a in (X[:30], Y[:30]))
    c11, c12, c22 = x.T @ x / 30, x.T @ y / 30, y.T @ y / 30
    ridged = [c + 0.1 * np.trace(c) / len(c) * np.eye(len(c)) for c in (c11, c22)]
    expected = canonical_correlations(ridged[0], c12, ridged[1])
    np.testing.assert_allclose(found.correlations_, expected.correlations[:2], rtol=1e-10)
    for own, other in ((found.x_weights_, expected.x), (found.y_weights_, expected.y)):
        other = other[:, :2] * np.sign((own * other[:, :2]).sum(0))
        np.testing.assert_allclose(own, other, atol=1e-7)
    scores = found.transform(X[:30])
    fitted = np.linalg.lstsq(scores, y, rcond=None)[0]
    np.testing.assert_allclose(
        found.predict(X[:30]), Y[:30].mean(0) + Y[:30].std(0, ddof=1) * (scores @ fitted), atol=1e-9
    )
    continued = found.partial_fit(X[30:], Y[30:])
    whole = CCA(2, ridge=0.1, random_state=0, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(continued.correlations_, whole.correlations_, rtol=1e-9)
    np.testing.assert_allclose(continued.predict(X), whole.predict(X), atol=1e-7)


def test_wide_views_with_a_ridge_take_no_covariance() -> None:
    """40 samples of 2 x 3000 columns: a covariance would take 72 MB, the samples take 2."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 40, 3000)) + rng.standard_normal((40, 1))
    CCA(1, ridge=0.1).fit(X[:, :50], Y[:, :50])
    tracemalloc.start()
    found = CCA(1, ridge=0.1).fit(X, Y)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20e6
    assert found.correlations_[0] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", first_is_quick(["auto", "cdadt"]))
def test_agents_find_the_correlations_of_all_samples(algorithm: str) -> None:
    """Nobody knows the covariances; every sample counts the same, although the agents have
    unequally many, of different digits."""
    X, y, labels = halves()
    order = np.argsort(labels, kind="stable")
    agents = [(X[part], y[part]) for part in np.split(order, [80, 600, 1000, 1700])]
    settings: dict[str, Any] = {"ridge": 0.01, "random_state": 0, "max_iter": 30_000}
    pooled = CCA(3, **settings).fit(X, y)
    found = CCA(3, algorithm=algorithm, **settings).fit_agents(agents, RING)
    np.testing.assert_allclose(found.correlations_, pooled.correlations_, atol=1e-9)
    for name in ("x_weights_", "y_weights_", "x_loadings_", "coef_"):
        np.testing.assert_allclose(getattr(found, name), getattr(pooled, name), atol=1e-4)


@pytest.mark.parametrize(
    ("begin", "ridge"),
    [("batch", 0.0), ("batch", 0.1), ("fit", 0.1), ("agents", 0.0), ("features", 0.1)],
)
def test_batches_find_what_a_fit_to_all_samples_finds(begin: str, ridge: float) -> None:
    X, y = related(900)
    settings: dict[str, Any] = {"ridge": ridge, "random_state": 0, "tol": 1e-11}
    found, whole = CCA(2, **settings), CCA(2, **settings).fit(X, y)
    if begin == "fit":
        found.fit(X[:300], y[:300])
    elif begin == "agents":
        found.fit_agents([(X[i:300:5], y[i:300:5]) for i in range(5)], RING)
    elif begin == "features":
        found.fit_agents(
            [(X[:300, :3], y[:300, :2]), (X[:300, 3:], y[:300, 2:])], "ring", split="features"
        )
    else:
        found.partial_fit(X[:300], y[:300])
    found.partial_fit(X[300:350], y[300:350]).partial_fit(X[350:], y[350:])
    for name in ("correlations_", "x_weights_", "y_weights_", "x_loadings_", "coef_", "intercept_"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-7, atol=1e-9)
    assert found.n_samples_seen_ == 900


def categories(n: int) -> tuple[Array, Array]:
    """Indicators of all categories of two related variables, each with numeric columns, one of them
    a sum of others."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, n)
    second = (first + (rng.random(n) < 0.4) * rng.integers(0, 3, n)) % 3
    numbers = rng.standard_normal((n, 2))
    X = np.column_stack((np.eye(4)[first], numbers, numbers @ (1.0, -2.0)))
    return X, np.column_stack((np.eye(3)[second], numbers[:, 0] + rng.standard_normal(n)))


@pytest.mark.parametrize("scale", [True, False])
def test_dependent_columns_have_the_correlations_of_the_column_spaces(scale: bool) -> None:
    """Orthonormal bases of both column spaces have these as singular values; scikit-learn's scores
    have them too."""
    X, y = categories(300)
    first, second = [scipy.linalg.orth(view - view.mean(0), rcond=1e-10) for view in (X, y)]
    expected = np.linalg.svd(first.T @ second, compute_uv=False)[:3]
    whole = CCA(3, scale=scale, random_state=0).fit(X, y)
    agents = CCA(3, scale=scale, random_state=0).fit_agents(
        [(X[i::5], y[i::5]) for i in range(5)], RING
    )
    batches = CCA(3, scale=scale).partial_fit(X[:99], y[:99]).partial_fit(X[99:], y[99:])
    judge = sklearn.cross_decomposition.CCA(3, max_iter=5000, tol=1e-14).fit(X, y)
    np.testing.assert_allclose(correlations(judge.transform(X, y)), expected, atol=1e-9)
    for found in (whole, agents, batches):
        np.testing.assert_allclose(found.correlations_, expected, atol=1e-9)
        np.testing.assert_allclose(correlations(found.transform(X, y)), expected, atol=1e-9)
        np.testing.assert_allclose(found.predict(X), whole.predict(X), atol=1e-6)
    whole.partial_fit(X[:50], y[:50])
    again = CCA(3, scale=scale).partial_fit(np.vstack((X, X[:50])), np.vstack((y, y[:50])))
    np.testing.assert_allclose(whole.correlations_, again.correlations_, atol=1e-9)
    with pytest.raises(
        ValueError,
        match="the smaller view has rank 3, so there are no 4 canonical correlations: ask for 3",
    ):
        CCA(4, scale=scale).fit(X, y)


def test_the_condition_of_nearly_dependent_columns_is_named_where_agents_take_long() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((90, 4)), rng.standard_normal((90, 3))
    X[:, 3] = X[:, 0] + X[:, 1] + 1e-4 * rng.standard_normal(90)
    cca = CCA(2, max_iter=50, algorithm="generalized_drfgt")
    with pytest.warns(
        ConvergenceWarning, match=r"nearly depend on others \(condition [1-9].*\): give ridge=1e-2"
    ):
        cca.fit_agents([(X[i::3], Y[i::3]) for i in range(3)], "ring")
