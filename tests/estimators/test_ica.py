"""Independent components against the true sources and scikit-learn's FastICA: in one place, in
batches, and held by agents."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import sklearn.decomposition

import topologies as tp
from decentorth.estimators import ICA
from decentorth.problems import amari_distance
from decentorth.protocols import Array

RING = tp.metropolis_weights(tp.ring(5))


def mixed(
    count: int = 20_000, n: int = 4, d: int | None = None, seed: int = 0
) -> tuple[Array, Array]:
    """Samples of n Laplace sources in d columns that are not centred, and the matrix that mixed
    them."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((d or n, n)) * 2.0 ** np.arange(n)
    return rng.laplace(scale=np.sqrt(0.5), size=(count, n)) @ mixing.T + 5.0, mixing


def apart(found: ICA, mixing: Any) -> float:
    return amari_distance(found.components_ @ mixing)


@pytest.mark.parametrize("algorithm", ["auto", "landing"])
def test_fit_is_that_of_fastica_up_to_order_and_sign(algorithm: str) -> None:
    X, mixing = mixed()
    ours = ICA(algorithm=algorithm, random_state=0).fit(X)
    theirs = sklearn.decomposition.FastICA(
        whiten="unit-variance", tol=1e-12, max_iter=1000, random_state=0
    ).fit(X)
    match = ours.components_ @ theirs.mixing_
    order = np.abs(match).argmax(axis=1)
    np.testing.assert_allclose(np.abs(match), np.eye(4)[order], atol=1e-5)
    assert apart(ours, mixing) < 0.02
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)


@pytest.mark.parametrize("kind", ["laplace", "logistic", "both"])
def test_the_fixed_point_is_the_answer_of_gradient_descent(kind: str) -> None:
    rng = np.random.default_rng(1)
    sources = getattr(rng, "laplace" if kind == "both" else kind)(size=(10_000, 8))
    if kind == "both":
        sources[:, :4] = rng.uniform(-1.0, 1.0, size=(10_000, 4))
    X = sources @ rng.standard_normal((8, 8))
    found, slow = (ICA(algorithm=one, random_state=0).fit(X) for one in ("auto", "rgd"))
    np.testing.assert_allclose(found.components_, slow.components_, atol=1e-6)
    np.testing.assert_array_equal(found.signs_, slow.signs_)
    # measured by the method that follows, which has next to nothing left to do
    assert found.history_["gradient_norm"][-1] <= found.tol
    assert len(found.history_["iteration"]) <= 3


def test_sources_are_uncorrelated_of_variance_one_and_in_order() -> None:
    X, _ = mixed()
    found = ICA(random_state=1).fit(X)
    sources = found.transform(X)
    np.testing.assert_allclose(sources.T @ sources / len(X), np.eye(4), atol=1e-10)
    np.testing.assert_allclose(found.inverse_transform(sources), X, atol=1e-9)
    explained = (found.mixing_**2).sum(axis=0)
    assert (np.diff(explained) < 0).all()
    assert (found.mixing_.max(axis=0) == np.abs(found.mixing_).max(axis=0)).all()
    other = ICA(random_state=2).fit(X)
    np.testing.assert_allclose(found.components_, other.components_, atol=1e-6)


def ten_sources() -> Array:
    rng, n = np.random.default_rng(2), 40_000
    heavy = (rng.laplace(size=(n, 3)), rng.exponential(size=(n, 1)), rng.standard_t(5, (n, 1)))
    light = (
        rng.uniform(size=(n, 3)),
        np.sign(rng.standard_normal((n, 1))),
        np.sin(2 * np.pi * rng.random((n, 1))),
    )
    return np.concatenate((*heavy, *light), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fit", "partial_fit", "fit_agents"])
def test_sources_of_both_kinds_are_found(way: str) -> None:
    """Whichever tails they have: every source has a component with a correlation above 0.99."""
    n, rng, sources = 10, np.random.default_rng(3), ten_sources()
    X = rng.permutation(sources) @ rng.standard_normal((n, n)).T + 3.0
    found = ICA(random_state=0)
    if way == "fit":
        found.fit(X)
    elif way == "fit_agents":
        found.fit_agents(np.array_split(X, 5), RING)
    else:
        for batch in np.array_split(X, 20):
            found.partial_fit(batch)
    components = found.transform(X)
    original = np.random.default_rng(3).permutation(sources)
    match = np.abs(np.corrcoef(components.T, original.T)[:n, n:])
    assert match.max(axis=0).min() > 0.99
    assert (match.argmax(axis=0)[:, None] == np.arange(n)).any(axis=0).all()
    assert (found.signs_ > 0).sum() == 5


def test_gaussian_components_are_named() -> None:
    rng = np.random.default_rng(0)
    sources = np.concatenate(
        (rng.laplace(size=(30_000, 1)), rng.standard_normal((30_000, 2))), axis=1
    )
    X = sources * [1.0, 4.0, 2.0] @ scipy.linalg.qr(rng.standard_normal((3, 3)))[0]
    named = re.escape("ICA cannot separate nearly Gaussian sources: treat ica0, ica1 as noise")
    for name, given in (
        ("fit", (X,)),
        ("fit_agents", (np.array_split(X, 5), RING)),
        ("partial_fit", (X,)),
    ):
        with pytest.warns(UserWarning, match=named):
            getattr(ICA(random_state=0), name)(*given)


def test_fewer_sources_than_features() -> None:
    X, mixing = mixed(n=3, d=6)
    assert ICA(random_state=0).fit(X).n_components_ == 3
    noisy = X + 1e-3 * np.random.default_rng(1).standard_normal(X.shape)
    assert apart(ICA(3, random_state=0).fit(noisy), mixing) < 0.02


def test_agents_find_the_sources_of_all_samples() -> None:
    """Every sample counts the same, although the agents have unequally many, of different
    scales."""
    X, _ = mixed(5000)
    order = np.argsort(np.abs(X[:, 0]), kind="stable")
    agents = [X[part] for part in np.split(order, [200, 900, 2000, 4000])]
    pooled = ICA(random_state=0).fit(X)
    found = ICA(random_state=0).fit_agents(agents, RING)
    np.testing.assert_allclose(found.components_, pooled.components_, atol=1e-6)
    np.testing.assert_allclose(found.mixing_, pooled.mixing_, atol=1e-6)
    np.testing.assert_allclose(found.mean_, pooled.mean_, rtol=1e-12)
    assert found.n_samples_seen_ == 5000
    assert sum(row.bytes for row in found.sent_) == found.communication_["bytes"]


@pytest.mark.slow_cases("50-0")
@pytest.mark.parametrize(("batch", "begin"), [(50, 0), (60_000, 0), (20_000, 20_000)])
def test_one_pass_in_batches_is_nearly_as_good_as_a_fit(batch: int, begin: int) -> None:
    """The statistical error of all samples, and little more; also after a fit to the first of
    them."""
    X, mixing = mixed(60_000)
    found = ICA(random_state=0)
    if begin:
        found.fit(X[:begin])
    for first in range(begin, len(X), batch):
        found.partial_fit(X[first : first + batch])
    fitted = ICA(random_state=0).fit(X)
    assert apart(found, mixing) < 2.0 * apart(fitted, mixing) + 1e-3 < 0.02
    assert apart(found, fitted.mixing_) < 5e-3
    np.testing.assert_allclose(found.mean_, X.mean(axis=0), rtol=1e-10)
    sources = found.transform(X)
    np.testing.assert_allclose(sources.T @ sources / len(X), np.eye(4), atol=1e-9)
    assert found.n_samples_seen_ == 60_000


def test_batches_are_their_iteration() -> None:
    """As the module's docstring has it, from the covariance of all samples seen."""
    X, _ = mixed(95, n=3)
    found = ICA(random_state=3)
    for batch in (X[:60], X[60:]):
        found.partial_fit(batch)

    def projected(y: Array, B: Array) -> Array:
        polar: Array = y @ np.linalg.inv(scipy.linalg.sqrtm(y.T @ B @ y))
        return polar

    moments = np.zeros((3, 3))
    x = average = np.random.RandomState(3).standard_normal((3, 3))  # scikit-learn's
    for first, last in ((0, 30), (30, 60), (60, 95)):
        seen, count = X[:last], last - first
        mean, B = seen.mean(axis=0), np.cov(seen.T, bias=True)
        z, x = X[first:last] - mean, projected(x, B)
        y, share = z @ x, min(1.0, 3.0 * count / last)
        moments = moments + share * (
            np.array([1 / np.cosh(y) ** 2, y**2, y * np.tanh(y)]).mean(axis=1) - moments
        )
        along = x.T @ z.T @ (np.tanh(y) * np.sign(moments[0] * moments[1] - moments[2])) / count
        x = projected(x - 4.0 / np.sqrt(1.0 + first / 300) * x @ (along - along.T) / 2, B)
        average = average + share * (x - average)
    unmixing = projected(average, B)
    mixing = np.linalg.inv(unmixing.T)
    order = np.argsort(-np.linalg.norm(mixing, axis=0))
    np.testing.assert_allclose(np.abs(found.components_), np.abs(unmixing[:, order].T), rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.mixing_), np.abs(mixing[:, order]), rtol=1e-9)
