"""The answer of PCA, and the distance from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from decentorth.network.collective import AgentCollective
from decentorth.problems import PCA, PCASettings, subspace_distance
from decentorth.protocols import Array, KnownOptimum
from tests.reference import naive
from tests.support.building import collective
from tests.support.problems import UNEVEN, pca, samples
from tests.support.threads import on_ranks

D, R = 12, 3


def orthonormal(seed: int, d: int = D, r: int = R) -> Array:
    q: Array = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, r)))[0]
    return q


def pooled(data: list[Array]) -> Array:
    """(1/n) sum_i A_i^T A_i / m_i."""
    mean: Array = np.mean([a.T @ a / len(a) for a in data], axis=0)
    return mean


def test_the_answer_is_the_top_eigenspace_of_the_pooled_matrix() -> None:
    """With weights="agents" every agent counts the same, whatever its number of samples; its error is zero, in whatever basis."""
    data = samples(UNEVEN, D, 0)
    problem = PCA(data, R, weights="agents")
    assert not problem.error_name
    problem.prepare(collective(len(data)))
    assert (problem.error_name, isinstance(problem, KnownOptimum)) == ("subspace_distance", True)
    values, vectors = np.linalg.eigh(pooled(data))
    top = vectors[:, -R:]
    assert problem.error(top) < 1e-13
    assert problem.error(top @ orthonormal(1, R, R)) < 1e-13
    assert problem.error(vectors[:, :R]) == pytest.approx(np.sqrt(2 * R), rel=1e-12)
    assert problem.error(vectors[:, [-1, -2, -4]]) == pytest.approx(np.sqrt(2), rel=1e-12)
    stacked = np.vstack(data)
    unweighted = np.linalg.eigh(stacked.T @ stacked)[1][:, -R:]
    assert problem.error(unweighted) > 1e-2
    np.testing.assert_allclose(problem.pooled().value(top[None]), -values[-R:].sum() / 2, rtol=1e-12)


def graded(ratio: float, size: float, n: int = 5) -> tuple[list[Array], Array]:
    """Samples whose singular values fall from ``size`` to ``ratio`` times that at the third of twelve, and their directions."""
    directions = orthonormal(0, D, D)
    values = size * np.array([1.0, np.sqrt(ratio), ratio, 0.3 * ratio, *[0.1 * ratio] * (D - 4)])
    return [orthonormal(1 + i, 2 * D, D) * values @ directions.T for i in range(n)], directions[:, :R]


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e15])
@pytest.mark.parametrize("ratio", [1e-4, 1e-6, 1e-8])
def test_the_answer_holds_where_the_covariance_has_lost_it(ratio: float, size: float) -> None:
    """By perturbation theory it is known to some roundings over the gap of the samples' singular values, not of their squares."""
    data, expected = graded(ratio, size)
    problem = PCA(data, R)
    problem.prepare(collective(5))
    assert problem.error(expected) < 20 * np.finfo(np.float64).eps / (0.7 * ratio)
    bounds = np.array([0, 2, 3, 5])

    def on_rank(communicator: Any) -> bytes:
        own: Any = PCA(data, R).restrict(slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1])))
        own.prepare(AgentCollective(communicator, bounds))
        found: bytes = own.optimum.tobytes()
        return found

    assert problem.optimum is not None
    assert set(on_ranks(3, on_rank)) == {problem.optimum.tobytes()}
    pooled = problem.pooled()
    pooled.prepare(collective(1))
    assert pooled.error(expected) < 1e-6


def test_an_answer_that_samples_have_lost_too_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    problem = PCA(graded(1e-10, 1.0)[0], R)
    problem.prepare(collective(5))
    assert (problem.error_name, problem.optimum) == ("", None)
    assert caplog.messages == ["components 3 and 4 are too small: no error is reported"]


def test_all_components_and_one() -> None:
    for r in (1, D):
        problem = PCA(samples(UNEVEN, D, 0), r, weights="agents")
        problem.prepare(collective(len(UNEVEN)))
        assert problem.error(np.linalg.eigh(pooled(samples(UNEVEN, D, 0)))[1][:, D - r :]) < 1e-13


def test_the_error_is_not_known_before_the_answer() -> None:
    with pytest.raises(ValueError, match=r"the optimum is not known yet: prepare\(\) computes it"):
        pca().problem.error(orthonormal(0))


def test_a_large_dimension_has_no_known_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decentorth.problems.stiefel.pca._LARGEST_OPTIMUM", D - 1)
    problem = pca().problem
    problem.prepare(collective(5))
    assert problem.optimum is None
    assert not problem.error_name


@pytest.mark.parametrize("r", [1, 2, 4, 6])
def test_subspace_distance_is_the_formula_of_the_principal_angles(r: int) -> None:
    """sqrt(sum_k 4 sin(t_k / 2)^2), with the angles from scipy; and no rotation of a basis comes nearer."""
    for seed in range(5):
        x, basis = orthonormal(seed, 9, r), orthonormal(seed + 50, 9, r)
        angles = scipy.linalg.subspace_angles(x, basis)
        assert subspace_distance(x, basis) == pytest.approx(np.sqrt(np.sum(4 * np.sin(angles / 2) ** 2)), rel=1e-12)
        nearest = naive.norm(x - basis @ scipy.linalg.orthogonal_procrustes(basis, x)[0])
        assert subspace_distance(x, basis) == pytest.approx(nearest, rel=1e-12)
        for rotation in range(10):
            assert subspace_distance(x, basis) <= naive.norm(x - basis @ orthonormal(rotation, r, r))


@pytest.mark.parametrize("size", [10.0**-k for k in range(1, 15)])
def test_tiny_subspace_distances_are_exact(size: float) -> None:
    """A basis turned by known angles: the cosines alone would be wrong below 1e-8."""
    frame = orthonormal(3, D, 2 * R)
    angles = size * np.array([1.0, 0.5, 0.25])
    basis = frame[:, :R]
    turned = basis * np.cos(angles) + frame[:, R:] * np.sin(angles)
    x = turned @ orthonormal(4, R, R)
    expected = np.sqrt(np.sum(4 * np.sin(angles / 2) ** 2))
    assert subspace_distance(x, basis) == pytest.approx(expected, rel=1e-10, abs=2e-15)
    scipys = scipy.linalg.subspace_angles(x, basis)
    assert subspace_distance(x, basis) == pytest.approx(np.sqrt(np.sum(4 * np.sin(scipys / 2) ** 2)), rel=1e-10, abs=4e-15)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-3, 1.0])
def test_subspace_distance_does_not_depend_on_the_bases(size: float) -> None:
    basis = orthonormal(5)
    x = naive.polar(basis + size * np.random.default_rng(6).standard_normal((D, R)))
    expected = subspace_distance(x, basis)
    for seed in range(5):
        left, right, turn = orthonormal(seed, R, R), orthonormal(seed + 9, R, R), orthonormal(seed, D, D)
        assert subspace_distance(x @ left, basis @ right) == pytest.approx(expected, rel=1e-10, abs=1e-14)
        assert subspace_distance(turn @ x, turn @ basis) == pytest.approx(expected, rel=1e-10, abs=1e-14)
    assert subspace_distance(basis, x) == pytest.approx(expected, rel=1e-10, abs=1e-14)


def built(n_agents: int, seed: int = 0, **settings: Any) -> PCA:
    problem: PCA = PCASettings(**settings).problem(n_agents, seed).build(slice(0, n_agents), collective(n_agents))
    return problem


def covariance(problem: PCA) -> Array:
    """The pooled matrix, from gradients: G(e) = -C e."""
    d, r = problem.shape
    unit = np.zeros((d, 1, d, r))
    unit[:, 0, :, 0] = np.eye(d)
    pooled = problem.pooled()
    return -np.stack([pooled.gradient(e)[0, :, 0] for e in unit], axis=1)


def test_digits_are_the_data_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    X = load_digits().data
    parts = np.array_split(X, 7)
    expected = np.mean([a.T @ a / len(a) for a in parts], axis=0)
    np.testing.assert_allclose(covariance(built(7, shuffle=False, weighting="agents")), expected, atol=1e-11)
    np.testing.assert_allclose(covariance(built(7)), X.T @ X / len(X), atol=1e-11)
    one = built(1)
    np.testing.assert_allclose(covariance(one), X.T @ X / len(X), atol=1e-11)
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(covariance(built(1, center=True)), centred.T @ centred / len(X), atol=1e-11)
    assert one.shape == (64, 5)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        PCASettings(rank=0)
    with pytest.raises(ValueError, match="dirichlet_alpha must be positive and finite, got 0"):
        PCASettings(dirichlet_alpha=0.0)


def test_samples_that_count_the_same_have_the_answer_of_all_samples_in_one_place() -> None:
    """The mean of the agents' matrices is that of the stacked rows, also where each rank knows its own agents only; equal numbers
    of samples leave the bits as they are."""
    data = samples(UNEVEN, D, 0)
    n, rows = len(data), np.concatenate(data)
    problem = PCA(data, R)
    x = np.repeat(orthonormal(1)[None], n, axis=0)
    np.testing.assert_allclose(-problem.gradient(x).mean(0), rows.T @ rows @ x[0] / len(rows), rtol=1e-12, atol=1e-12)
    problem.prepare(collective(n))
    top = np.linalg.eigh(rows.T @ rows)[1][:, -R:]
    assert problem.error(top) < 1e-7
    second = PCA(data[1:2], R, n_agents=n, first_agent=1, n_samples=len(rows))
    assert (second.gradient(x[:1]) == problem.gradient(x)[1:2]).all()
    even = samples([7, 7, 7], D, 0)
    assert (PCA(even, R, weights="samples").gradient(x[:3]) == PCA(even, R, weights="agents").gradient(x[:3])).all()


def test_the_number_of_all_samples_is_asked_for_where_it_is_not_known() -> None:
    data = samples(UNEVEN, D, 0)
    with pytest.raises(
        ValueError, match=r"weights='samples' needs n_samples, the number of samples of all 5 agents, of which 1 are given here; or"
    ):
        PCA(data[:1], R, n_agents=5)
    with pytest.raises(ValueError, match="weights must be 'agents' or 'samples', got 'rows'"):
        PCA(data, R, weights="rows")  # type: ignore[arg-type]
