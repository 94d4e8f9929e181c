"""Principal components against scikit-learn's and against eigenvectors: in one place, in batches,
and held by agents."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import sklearn.decomposition
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import topologies as tp
from decentorth import DRFGT, problems, solve
from decentorth.estimators import PCA
from decentorth.network.collective import AgentCollective
from decentorth.network.transport.communicator import SerialCommunicator
from decentorth.protocols import Array

RING = tp.metropolis_weights(tp.ring(5))


def digits() -> tuple[Array, list[Array]]:
    """Images, and the same divided by label among five agents, which have 80 to 700 of them."""
    X, labels = load_digits(return_X_y=True)
    order = np.argsort(labels, kind="stable")
    return X, [X[part] for part in np.split(order, [80, 600, 1000, 1700])]


def same(found: PCA, expected: Any, tol: float = 1e-6) -> None:
    """The attributes of another PCA, by scikit-learn's names; eigenvalues are accurate to the
    square of what vectors are."""
    np.testing.assert_allclose(found.components_, expected.components_, atol=tol)
    for name in ("mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


@pytest.mark.parametrize("algorithm", ["auto", "landing", DRFGT()])
def test_fit_is_that_of_scikit_learn(algorithm: Any) -> None:
    X, _ = digits()
    same(
        PCA(4, algorithm=algorithm, random_state=0).fit(X),
        sklearn.decomposition.PCA(4, svd_solver="full").fit(X),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rank"), [((1100, 1050), 8), ((1050, 1100), 110)])
def test_the_leading_of_many_components_are_exact(shape: tuple[int, int], rank: int) -> None:
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal(shape)
        * 0.98 ** np.arange(shape[1])
        @ np.linalg.qr(rng.standard_normal((shape[1],) * 2))[0]
        + 1.0
    )
    found = PCA(rank, random_state=0).fit(X)
    _, singular, rows = np.linalg.svd(X - X.mean(0), full_matrices=False)
    np.testing.assert_allclose(np.abs(found.components_ @ rows[:rank].T), np.eye(rank), atol=1e-10)
    np.testing.assert_allclose(found.singular_values_, singular[:rank], rtol=1e-12)


def test_components_that_are_all_there_is() -> None:
    rng = np.random.default_rng(0)
    for shape in ((30, 4), (4, 30)):
        X = rng.standard_normal(shape) * 3.0 + 1.0
        ours, theirs = PCA(random_state=0).fit(X), sklearn.decomposition.PCA().fit(X)
        assert ours.n_components_ == 4
        np.testing.assert_allclose(ours.components_ @ ours.components_.T, np.eye(4), atol=1e-12)
        np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, atol=1e-7)
        np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, atol=1e-12)
        assert ours.explained_variance_ratio_.sum() == pytest.approx(1.0, rel=1e-12)


def test_the_scale_of_the_data_does_not_matter() -> None:
    X, _ = digits()
    plain = PCA(3, algorithm="rgd", random_state=0).fit(X)
    for scale in (1e-8, 1e8):
        other = PCA(3, algorithm="rgd", random_state=0).fit(scale * (X + 100.0))
        assert abs(other.n_iter_ - plain.n_iter_) < 10
        np.testing.assert_allclose(other.components_, plain.components_, atol=1e-6)
        np.testing.assert_allclose(
            other.explained_variance_, scale**2 * plain.explained_variance_, rtol=1e-9
        )


def test_data_that_does_not_vary() -> None:
    found = PCA(2, random_state=0).fit(np.full((5, 3), 7.0))
    np.testing.assert_array_equal(found.explained_variance_ratio_, 0.0)
    np.testing.assert_allclose(found.inverse_transform(found.transform(np.full((1, 3), 7.0))), 7.0)


@pytest.mark.slow_cases("rextra")
@pytest.mark.parametrize("algorithm", ["auto", "drfgt", "rextra"])
def test_agents_find_the_components_of_all_samples(algorithm: str) -> None:
    """Every sample counts the same, although the agents have unequally many, of different
    digits."""
    X, agents = digits()
    found = PCA(4, algorithm=algorithm, random_state=0).fit_agents(agents, RING)
    same(found, sklearn.decomposition.PCA(4, svd_solver="full").fit(X))
    assert (found.n_samples_seen_, found.n_features_in_) == (1797, 64)


@pytest.mark.parametrize("weights", ["samples", "agents"])
def test_the_weights_of_agents_are_those_of_the_problem(weights: Any) -> None:
    """The components are the answer of `problems.PCA` with the same word, and the variances its
    eigenvalues, times m / (m - 1)."""
    X, agents = digits()
    found = PCA(4, weights=weights, random_state=0).fit_agents(agents, RING)
    problem = problems.PCA([x - X.mean(axis=0) for x in agents], 4, weights=weights)
    problem.find_answer(AgentCollective(SerialCommunicator(), np.array([0, 5])))
    assert problem.error(found.components_.T) < 1e-6
    value = -2.0 * problem.value(np.repeat(found.components_.T[None], 5, axis=0)).mean()
    assert found.explained_variance_.sum() == pytest.approx(value * len(X) / (len(X) - 1), rel=1e-9)


@pytest.mark.slow
def test_agents_stop_once_they_agree_too() -> None:
    """Along a path the mean comes near to the answer before the agents come near to it."""
    X = np.random.default_rng(0).standard_normal((400, 6)) * np.array(
        [3.0, 2.5, 1.0, 0.8, 0.5, 0.3]
    )
    agents = [X[part] for part in np.split(np.argsort(X[:, 0]), 8)]
    path, tol = tp.metropolis_weights(tp.path(8)), 1e-3
    found = PCA(2, algorithm="drfgt", tol=tol, random_state=0).fit_agents(agents, path)
    scale = np.sqrt(8 * 50 / ((X - X.mean(axis=0)) ** 2).sum())
    problem = problems.PCA([scale * (x - X.mean(axis=0)) for x in agents], 2)
    seed = int(np.random.RandomState(0).randint(1 << 31))  # scikit-learn's
    run = solve(problem, DRFGT(), path, iterations=found.n_iter_, record_every=1, seed=seed).history
    slopes, distances = run["gradient_norm"], run["consensus_rms"]
    assert max(slopes[-1], distances[-1]) <= tol
    assert distances[np.flatnonzero(slopes <= tol)[0]] > 1.5 * tol


@pytest.mark.parametrize("whiten", [False, True])
def test_whitening_likelihoods_and_shares_are_those_of_scikit_learn(whiten: bool) -> None:
    X, _ = digits()
    train, rest = X[:1200] + 0.1 * np.random.default_rng(0).standard_normal((1200, 64)), X[1200:]
    for components in (5, 0.5, 0.9):
        ours = PCA(components, whiten=whiten).fit(train)
        theirs = sklearn.decomposition.PCA(components, whiten=whiten, svd_solver="full").fit(train)
        same(ours, theirs)
        assert ours.n_components_ == theirs.n_components_
        assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-9)
        scores = theirs.transform(rest)
        np.testing.assert_allclose(ours.transform(rest), scores, atol=1e-8)
        np.testing.assert_allclose(
            ours.inverse_transform(scores), theirs.inverse_transform(scores), atol=1e-8
        )
        # the density of the samples does not depend on the units of coordinates
        theirs.set_params(whiten=False)
        np.testing.assert_allclose(ours.score_samples(rest), theirs.score_samples(rest), rtol=1e-8)
        assert ours.score(rest) == pytest.approx(theirs.score(rest), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rank"), [((400, 30), None), ((300, 1500), 4)])
def test_sparse_samples_have_the_components_of_dense_ones(
    shape: tuple[int, int], rank: int | None
) -> None:
    """With LAPACK, and with ARPACK above 1000 features; nothing is made dense in a transform."""
    rng = np.random.default_rng(0)
    sparse: Any = random_array(shape, density=0.05, rng=rng, format="csr")
    X = csr_array(sparse * np.geomspace(8.0, 1.0, shape[1]))
    found = PCA(rank, random_state=0).fit(X)
    dense = X.toarray()
    exact = sklearn.decomposition.PCA(rank, svd_solver="full").fit(dense)
    np.testing.assert_allclose(
        np.abs(np.sum(found.components_ * exact.components_, axis=1)), 1.0, atol=1e-9
    )
    np.testing.assert_allclose(found.explained_variance_, exact.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(found.transform(X), found.transform(dense), atol=1e-10)


def test_float32_samples_have_float32_coordinates() -> None:
    X, _ = digits()
    found = PCA(3).fit(X.astype(np.float32))
    coordinates = found.transform(X.astype(np.float32))
    assert coordinates.dtype == found.inverse_transform(coordinates).dtype == np.float32
    np.testing.assert_allclose(found.components_, PCA(3).fit(X).components_, atol=1e-6)


def test_agents_leave_a_history_and_count_their_messages() -> None:
    """Ten directed edges in the ring of five, one message each in every round; two sums of columns
    along its tree before."""
    _, agents = digits()
    found = PCA(2, algorithm="deepca", random_state=0).fit_agents(agents, RING)
    assert found.history_["iteration"][-1] == found.n_iter_
    assert found.history_["gradient_norm"][-1] <= found.tol
    assert found.communication_["messages"] == 10 * (found.communication_["rounds"] - 2 * 4) + 2 * 8
    assert found.communication_["bytes"] == found.history_["bytes"][-1]
    assert sum(row.bytes for row in found.sent_) == found.communication_["bytes"]
    again = found.set_params(algorithm="auto").fit(agents[0])
    assert not hasattr(again, "history_")
    assert not hasattr(again, "sent_")


@pytest.mark.parametrize("batch", [7, 100, 1797])
def test_batches_are_exact_while_the_rank_is_kept(batch: int) -> None:
    """2 r + 10 directions are kept, as many as these samples have; the mean of the first batches is
    not that of the last."""
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((300, 14)) @ rng.standard_normal((14, 40))
        + np.linspace(0, 3, 300)[:, None]
    )
    found = PCA(3)
    for first in range(0, 300, batch):
        found.partial_fit(X[first : first + batch])
    same(found, sklearn.decomposition.PCA(3, svd_solver="full").fit(X), 1e-10)
    assert (found.n_samples_seen_, found.n_iter_) == (300, -(-300 // batch))


def test_batches_continue_a_fit() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) * np.array([4.0, 3.0, 2.0, 1.0])
    found = PCA(4, random_state=0).fit(X[:40]).partial_fit(X[40:])
    same(found, sklearn.decomposition.PCA(4).fit(X), 1e-7)


@pytest.mark.slow
def test_an_error_of_the_first_batch_falls_as_the_theory_says() -> None:
    """As t^-(1 - lambda_{k+1} / lambda_1), here t^-0.4, where all batches but the first have the
    same covariance."""
    d = 40
    spectrum = np.sqrt(np.where(np.arange(d) == 0, 1.0, 0.6))
    batch = np.concatenate((np.diag(spectrum), -np.diag(spectrum)))
    found = PCA(1).partial_fit(np.random.default_rng(0).standard_normal((20, d)))
    times, errors = np.arange(1, 1001), []
    for _ in times:
        found.partial_fit(batch)
        errors.append(np.sqrt(max(1.0 - found.components_[0, 0] ** 2, 0.0)))
    late = times > 300
    assert np.polyfit(np.log(times[late]), np.log(np.array(errors)[late]), 1)[0] == pytest.approx(
        -0.4, abs=0.03
    )


def test_too_few_iterations_are_said() -> None:
    X, _ = digits()
    with pytest.warns(
        ConvergenceWarning,
        match=r"PCA stopped after 3 iterations at a gradient norm of .*, above tol = 1e-08: raise",
    ):
        PCA(3, algorithm="rgd", max_iter=3, random_state=0).fit(X)


def test_without_scikit_learn_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("decentorth.estimators")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"decentorth.estimators needs scikit-learn \(.*\): pip install scikit-learn",
    ):
        import decentorth.estimators  # noqa: F401


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_share_of_the_variance_over_agents_is_scikit_learns(share: float) -> None:
    rng = np.random.default_rng(1)
    X = (
        rng.standard_normal((1000, 8))
        * 0.7 ** np.arange(8)
        @ np.linalg.qr(rng.standard_normal((8, 8)))[0]
        + 5.0
    )
    ours = PCA(share, random_state=0).fit_agents(
        np.split(X, [50, 300, 800]), tp.metropolis_weights(tp.ring(4))
    )
    theirs = sklearn.decomposition.PCA(share, svd_solver="full").fit(X)
    assert ours.n_components_ == theirs.n_components_
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-8
    )


@pytest.mark.slow
def test_batches_of_agents_find_what_a_fit_to_all_samples_finds() -> None:
    """Batches of unequal sizes, in less than half the rounds of fits to all samples so far from a
    random start."""
    rng, W = np.random.default_rng(0), tp.metropolis_weights(tp.ring(5))
    settings: Any = {"algorithm": "deepca", "random_state": 0}
    stream, rounds = PCA(2, tol=1e-6, **settings), np.zeros(2)
    turn, seen = np.linalg.qr(rng.standard_normal((6, 6)))[0], [np.empty((0, 6))] * 5
    for number in range(5):
        batches = [
            rng.standard_normal((m, 6)) * 0.7 ** np.arange(6) @ turn + 3.0
            for m in (200, 210, 205, 190, 100)
        ]
        stream.partial_fit_agents(batches, W)
        seen = [np.concatenate(both) for both in zip(seen, batches, strict=True)]
        whole = PCA(2, tol=1e-6, **settings).fit_agents(seen, W)
        for name in ("components_", "explained_variance_", "mean_"):
            np.testing.assert_allclose(
                getattr(stream, name), getattr(whole, name), rtol=1e-9, atol=1e-4
            )
        if number > 0:
            rounds += stream.communication_["rounds"], whole.communication_["rounds"]
    assert stream.n_samples_seen_ == 4525
    assert rounds[0] < rounds[1] / 2
    by_agents = PCA(2, weights="agents", tol=1e-9, **settings)
    one = by_agents.fit_agents(batches, W).components_
    np.testing.assert_allclose(by_agents.partial_fit_agents(batches, W).components_, one, atol=1e-7)
