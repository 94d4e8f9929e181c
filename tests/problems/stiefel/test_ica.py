"""Independent component analysis: the loss, the measure of the answer, and what generated and
loaded data are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import DRFGT, RGD, iterate, solve
from decentorth.problems import ICA, GeneralizedICA, ICASettings, amari_distance, log_cosh
from decentorth.problems.common.pooled_rows import whitening
from decentorth.protocols import Array, KnownOptimum
from decentorth.stopping import GradientNorm
from tests.support.building import built, collective
from tests.support.problems import stack

K = 5
COUNTS = (40, 40, 3, 1, 200, 40, 7, 7)
N = len(COUNTS)


def samples(counts: tuple[int, ...] = COUNTS, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.laplace(size=(count, K)) * 1.5 ** np.arange(K) for count in counts]


def gaussian(n: int = N, seed: int = 0, k: int = K) -> Array:
    return np.random.default_rng(seed).standard_normal((n, k, k))


def orthogonal(seed: int, k: int = K) -> Array:
    q: Array = np.linalg.qr(np.random.default_rng(seed).standard_normal((k, k)))[0]
    return q


def rows_of(problem: Any) -> list[Array]:
    return [z for _, (stacked,) in problem._rows for z in stacked]


def test_log_cosh_is_that_of_numpy_and_does_not_overflow() -> None:
    t = np.linspace(-20, 20, 401)
    np.testing.assert_allclose(log_cosh(t), np.log(np.cosh(t)), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(log_cosh(t), log_cosh(-t))
    large = np.array([1e3, -1e10, 1e300])
    np.testing.assert_allclose(log_cosh(large), np.abs(large) - np.log(2), rtol=1e-15)


def test_lipschitz_constants_are_met_at_zero() -> None:
    data = samples()
    problem = ICA(data)
    np.testing.assert_allclose(
        problem.lipschitz, [np.linalg.eigvalsh(z.T @ z / len(z))[-1] for z in data], rtol=1e-12
    )
    tiny = 1e-6 * np.stack([np.linalg.eigh(z.T @ z)[1][:, -1:] @ np.ones((1, K)) for z in data])
    steepest = np.linalg.norm(problem.gradient(tiny), axis=(-2, -1)) / np.linalg.norm(
        tiny, axis=(-2, -1)
    )
    np.testing.assert_allclose(steepest, problem.lipschitz, rtol=1e-6)


def test_amari_distance_is_that_of_the_definition() -> None:
    p = np.random.default_rng(0).standard_normal((4, 4))
    rows = sum(
        sum(abs(p[i, j]) for j in range(4)) / max(abs(p[i, j]) for j in range(4)) - 1
        for i in range(4)
    )
    columns = sum(
        sum(abs(p[i, j]) for i in range(4)) / max(abs(p[i, j]) for i in range(4)) - 1
        for j in range(4)
    )
    assert amari_distance(p) == pytest.approx((rows + columns) / (2 * 4 * 3), rel=1e-14)


def test_amari_distance_sees_neither_order_nor_scale() -> None:
    """Zero for permutations with scales, one at most, the same after permuting; to scales of all
    lines alike it is blind."""
    rng = np.random.default_rng(1)
    assert amari_distance(np.eye(4)[[2, 0, 3, 1]] * rng.uniform(-5, 5, 4)) == 0.0
    p = rng.standard_normal((4, 4))
    distance = amari_distance(p)
    assert 0.0 < distance < 1.0
    assert amari_distance(np.ones((4, 4))) == pytest.approx(1.0, rel=1e-15)
    assert amari_distance(np.ones((1, 1))) == 0.0
    signs = rng.choice([-1.0, 1.0], 4)
    for changed in (p.T, p[rng.permutation(4)], p[:, rng.permutation(4)] * signs, -3.0 * p):
        assert amari_distance(changed) == pytest.approx(distance, rel=1e-14)


@pytest.mark.parametrize("mixing", ["orthogonal", "general"])
def test_generated_samples_are_whitened_over_all_agents(mixing: Any) -> None:
    """Mean zero and second moments I over the rows of all agents, not of each; and unmixing them
    gives the Laplace sources."""
    problem = built(ICASettings(sources=4, samples=500, imbalance=9.0, mixing=mixing).problem(5, 3))
    rows = rows_of(problem)
    assert [len(z) for z in rows] == [1500, 866, 500, 289, 167] == problem.n_samples.tolist()
    pooled = np.vstack(rows)
    np.testing.assert_allclose(pooled.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(pooled.T @ pooled / len(pooled), np.eye(4), atol=1e-12)
    assert np.abs(rows[4].T @ rows[4] / len(rows[4]) - np.eye(4)).max() > 1e-2
    sources = np.linalg.solve(problem.mixing, pooled.T).T
    drawn = [
        np.random.default_rng(np.random.SeedSequence(3, spawn_key=(agent, 0))).laplace(
            0, np.sqrt(0.5), (len(z), 4)
        )
        for agent, z in enumerate(rows)
    ]
    expected = np.vstack(drawn)
    np.testing.assert_allclose(sources, expected - expected.mean(axis=0), atol=1e-11)
    assert np.var(sources) == pytest.approx(1.0, abs=0.05)


def test_the_error_is_the_amari_distance_of_unmixing_times_mixing() -> None:
    problem = built(ICASettings(sources=4, samples=5000).problem(2, 0))
    assert (isinstance(problem, KnownOptimum), problem.error_name) == (True, "amari_distance")
    nearest = np.linalg.svd(problem.mixing)
    best = nearest[0] @ nearest[2]
    assert problem.error(best) < 0.03
    assert problem.error(best[:, [2, 0, 3, 1]] * [1, -1, -1, 1]) == pytest.approx(
        problem.error(best), rel=1e-9
    )
    assert problem.error(orthogonal(0, 4)) > 0.1


def test_drfgt_finds_the_sources_with_nothing_tuned() -> None:
    problem = ICASettings(sources=4, mixing="general", imbalance=20.0).problem(6, 0)
    result = solve(
        problem,
        DRFGT(),
        tp.metropolis_weights(tp.ring(6)),
        iterations=3000,
        stopping=GradientNorm(1e-8),
    )
    assert result.converged, result.message
    assert result.history.rows[0].values["error"] > 0.2
    assert result.row.values["error"] < 0.03


@pytest.mark.parametrize("partition", ["even", "by-label", "dirichlet"])
def test_samples_of_a_file_are_whitened_after_their_division(
    partition: Any, tmp_path: Path
) -> None:
    """The three principal components, whoever has which samples: whitened samples are as long as
    their rows of U sqrt(m)."""
    rng = np.random.default_rng(0)
    a = (
        3.0
        + rng.laplace(size=(400, 3)) @ rng.standard_normal((3, 6))
        + 1e-3 * rng.standard_normal((400, 6))
    )
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "y.npy", (a[:, 0] > 3.0).astype(int))
    labels = None if partition == "even" else str(tmp_path / "y.npy")
    settings = ICASettings(
        data=str(tmp_path / "a.npy"), labels=labels, partition=partition, sources=3
    )
    problem = built(settings.problem(4, 1))
    pooled = np.vstack(rows_of(problem))
    assert problem.shape == (3, 3)
    assert not problem.error_name
    np.testing.assert_allclose(pooled.T @ pooled / 400, np.eye(3), atol=1e-12)
    directions = np.linalg.svd(a - a.mean(axis=0), full_matrices=False)[0][:, :3]
    np.testing.assert_allclose(
        np.sort((pooled**2).sum(1)), np.sort(400 * (directions**2).sum(1)), rtol=1e-9
    )
    assert (max(problem.n_samples) > 110) == (partition == "dirichlet")


def test_whitening_needs_directions_that_vary() -> None:
    rng = np.random.default_rng(0)
    A = [rng.standard_normal((30, 3)) @ rng.standard_normal((3, 5))] * 2
    found = whitening(A, 3, collective(2))
    stacked = np.vstack(A) @ found
    np.testing.assert_allclose(stacked.T @ stacked / 60, np.eye(3), atol=1e-10)
    with pytest.raises(
        ValueError,
        match=r"whitening to 4 components .* only 3 of 5: ask for at most 3, or leave out constant",
    ):
        whitening(A, 4, collective(2))


def test_weights_make_every_sample_count_the_same() -> None:
    """w_i = N_i over their mean: the mean over agents is that of one agent with all samples."""
    data, x = samples(), gaussian(1)
    counts = np.array(COUNTS, dtype=np.float64)
    problem, pooled, many = (
        ICA(data, weights=counts / counts.mean()),
        ICA([np.vstack(data)]),
        np.repeat(x, N, axis=0),
    )
    assert problem.value(many).mean() == pytest.approx(pooled.value(x)[0], rel=1e-13)
    np.testing.assert_allclose(
        problem.gradient(many).mean(axis=0), pooled.gradient(x)[0], atol=1e-13
    )
    np.testing.assert_allclose(
        problem.lipschitz, counts / counts.mean() * ICA(data).lipschitz, rtol=1e-13
    )
    first = problem.restrict(slice(0, 1))
    np.testing.assert_allclose(
        first.gradient_on(x, np.arange(40)[None]), first.gradient(x), atol=1e-13
    )


def mixed(count: int, n: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Centred samples of Laplace sources, correlated and of different scales, and the matrix that
    mixed them."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((n, n)) * 2.0 ** np.arange(n)[:, None]
    A = rng.laplace(scale=np.sqrt(0.5), size=(count, n)) @ mixing.T
    return A - A.mean(axis=0), mixing


def test_the_generalized_problem_is_the_whitened_one_seen_through_the_whitening() -> None:
    """Values, errors, and the iterates of Riemannian gradient descent in the metric in which the
    sets are isometric."""
    A, mixing = mixed(400)
    whiten = whitening([A], 3, collective(1))
    general, plain = GeneralizedICA(A, mixing=mixing), ICA([A @ whiten], mixing=whiten.T @ mixing)
    assert general.lipschitz[0] == pytest.approx(np.linalg.eigvalsh(A.T @ A / 400)[-1], rel=1e-12)
    z = stack(orthogonal(4, 3), 1)
    assert general.value(whiten @ z)[0] == pytest.approx(plain.value(z)[0], rel=1e-12)
    method = RGD(step_size=0.3)
    states = zip(
        iterate(general, method, x0=whiten @ z[0]),
        iterate(plain, method, x0=z[0]),
        range(20),
        strict=False,
    )
    for state, other, _ in states:
        np.testing.assert_allclose(state.x, whiten @ other.x, atol=1e-11 * np.abs(whiten).max())
        assert general.error(state.x[0]) == pytest.approx(plain.error(other.x[0]), rel=1e-9)
    assert np.linalg.norm(other.x - z) > 0.1


def test_samples_of_a_file_that_are_not_whitened_are_centred(tmp_path: Path) -> None:
    A, _ = mixed(300)
    np.save(tmp_path / "a.npy", A + 5.0)
    settings = ICASettings(data=str(tmp_path / "a.npy"), whiten=False)
    x = gaussian(1, k=3)
    problem = built(settings.problem(1, 0))
    np.testing.assert_allclose(problem.constraint.product(x), A.T @ (A @ x) / 300, rtol=1e-10)
    assert problem.value(x)[0] == pytest.approx(GeneralizedICA(A).value(x)[0], rel=1e-10)
    with pytest.raises(
        ValueError,
        match="as many sources as columns, 3, but sources is 2: leave it out, or whiten the samples",
    ):
        built(ICASettings(data=str(tmp_path / "a.npy"), whiten=False, sources=2).problem(1, 0))


def test_signs_are_those_of_the_sources() -> None:
    rng = np.random.default_rng(0)
    S = np.concatenate((rng.laplace(size=(6000, 2)), rng.uniform(-1, 1, (6000, 2))), axis=1)
    S -= S.mean(axis=0)
    white = S @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    white = white @ whitening([white], 4, collective(1))
    problem = ICA(np.split(white, 3), signs="data")
    problem.prepare(collective(3))
    assert problem.signs is not None
    assert sorted(problem.signs) == [-1, -1, 1, 1]
    assert problem.check_gradient().right
    given = ICA(np.split(white, 3), signs=problem.signs)
    x = np.linalg.qr(rng.standard_normal((3, 4, 4)))[0]
    gradient = given.gradient(x)
    plain = ICA(np.split(white, 3)).gradient(x)
    np.testing.assert_array_equal(gradient, plain * problem.signs)
    columns = np.array([2, 0])
    np.testing.assert_allclose(
        given.partial_gradient(x, columns, given.cache(x)), gradient[:, :, columns], rtol=1e-12
    )
