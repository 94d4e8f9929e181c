"""Smooth problems plus a term: robust components and sparse correlations, against loops and answers that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import decentorth as do
from decentorth.problems import PCA, RobustPCA, SparseCCA, SparsePCA, WithTerm
from decentorth.protocols import Array, Composite, Nonsmooth, Sampled
from tests.algorithms.decentralized.test_field import pooled
from tests.problems.nonsmooth.test_l1 import COUNTS, N, gaussian, samples
from tests.reference import naive
from tests.support.building import built, prepared

P, DELTA, MU = 2, 1.5, 0.3


def huber(a: Array, x: Array) -> float:
    """The mean over the samples, where x^T x = I of the residuals' lengths."""
    total = 0.0
    for row in a:
        e = float(np.sqrt(max(row @ row - np.sum((row @ x) ** 2), 0.0)))
        total += e * e / 2 if e <= DELTA else DELTA * e - DELTA**2 / 2
    return total / len(a)


def huber_slope(a: Array, x: Array) -> Array:
    slope = np.zeros_like(x)
    for row in a:
        e = float(np.sqrt(max(row @ row - np.sum((row @ x) ** 2), 0.0)))
        slope -= (1.0 if e <= DELTA else DELTA / e) * np.outer(row, row @ x) / len(a)
    return slope


def covariance(a: Array, z: Array) -> float:
    return -float(np.trace(z[:P].T @ a[:, :P].T @ a[:, P:] @ z[P:])) / len(a)


def covariance_slope(a: Array, z: Array) -> Array:
    left, right = a[:, :P], a[:, P:]
    return -np.vstack((left.T @ right @ z[P:], right.T @ left @ z[:P])) / len(a)


def views(data: list[Array]) -> tuple[list[Array], list[Array]]:
    return [a[:, :P] for a in data], [a[:, P:] for a in data]


PROBLEMS: dict[str, tuple[Callable[..., Any], Callable[[Array, Array], float], Callable[[Array, Array], Array]]] = {
    "robust_pca": (lambda data, **own: RobustPCA(data, 3, DELTA, MU, **own), huber, huber_slope),
    "sparse_cca": (lambda data, **own: SparseCCA(*views(data), 3, MU, **own), covariance, covariance_slope),
}
every = pytest.mark.parametrize("name", PROBLEMS)


@every
def test_values_and_gradients_are_the_formulas(name: str) -> None:
    make, value, slope = PROBLEMS[name]
    problem, data, x = make(samples()), samples(), gaussian() / 4
    each = list(zip(data, x, strict=True))
    np.testing.assert_allclose(problem.smooth.value(x), [value(a, p) for a, p in each], rtol=1e-12)
    np.testing.assert_allclose(problem.value(x), [value(a, p) + MU * np.abs(p).sum() for a, p in each], rtol=1e-12)
    np.testing.assert_allclose(problem.smooth.gradient(x), [slope(a, p) for a, p in each], atol=1e-12)
    np.testing.assert_allclose(problem.gradient(x), [slope(a, p) + MU * np.sign(p) for a, p in each], atol=1e-12)
    assert problem.gradient(x).flags.c_contiguous
    batch = np.array([[1, 0, 0]] * N) % np.array(COUNTS)[:, None]
    rows = [a[own] for a, own in zip(data, batch, strict=True)]
    np.testing.assert_allclose(
        problem.smooth.gradient_on(x, batch), [slope(a, p) for a, p in zip(rows, x, strict=True)], atol=1e-12
    )
    for capability in (Composite, Nonsmooth, Sampled):
        assert isinstance(problem, capability)
    assert problem.smooth.check_gradient(problem.start(1)).slope == pytest.approx(2.0, abs=0.1)


@every
def test_some_agents_have_the_bits_of_all(name: str) -> None:
    make = PROBLEMS[name][0]
    whole, data, x = make(samples()), samples(), gaussian()
    part, alone = whole.restrict(slice(1, 4)), make(data[1:4], n_agents=N, first_agent=1)
    left = whole.without(np.array([0, 2]))
    assert left.n_agents == left.smooth.n_agents == N - 2
    assert part.smooth.agents == slice(1, 4)
    for one, rows in ((part, slice(1, 4)), (alone, slice(1, 4)), (left, [1, 3, 4])):
        assert one.gradient(x[rows]).tobytes() == whole.gradient(x)[rows].tobytes()
        assert one.smooth.value(x[rows]).tobytes() == whole.smooth.value(x)[rows].tobytes()
        assert one.n_samples.tolist() == np.array(COUNTS)[rows].tolist()


def test_a_term_beside_any_smooth_problem() -> None:
    data, x = samples(), gaussian()
    own, known = WithTerm(PCA(data, 3, weights="agents"), MU, term="rows"), SparsePCA(data, 3, MU, term="rows")
    assert own.gradient(x).tobytes() == known.gradient(x).tobytes()
    runs = [do.solve(one, "drproxgt", "ring", iterations=40, x0=known.start(0), rows=2).x for one in (own, known)]
    assert np.array_equal(runs[0], runs[1])


def test_without_a_bound_on_residuals_robust_components_are_principal_ones() -> None:
    data, x = samples(), gaussian()
    robust, plain = RobustPCA(data, 3, 1e9), PCA(data, 3, weights="agents")
    np.testing.assert_allclose(robust.smooth.gradient(x / 9), plain.gradient(x / 9), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_robust_components_bear_samples_far_away() -> None:
    """Samples in a plane and a tenth of them far outside: principal components turn to these, robust ones do not."""
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.standard_normal((8, 2))).Q
    data = []
    for _ in range(5):
        a = rng.standard_normal((60, 2)) @ plane.T + 0.01 * rng.standard_normal((60, 8))
        a[:6] = 30.0 * np.eye(8)[rng.integers(0, 8, 6)]
        data.append(a)
    distances = []
    for problem in (PCA(data, 2), RobustPCA(data, 2, 0.05)):
        x = do.solve(problem, "drproxgt" if isinstance(problem, RobustPCA) else "drfgt", "ring", iterations=1500, rows=2).x[0]
        distances.append(naive.norm(x @ x.T - plane @ plane.T))
    assert distances[0] > 1.0
    assert distances[1] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("method", ["drproxgt", "prextra"])
def test_without_a_term_correlations_are_those_of_the_singular_vectors(method: str) -> None:
    rng = np.random.default_rng(1)
    factors = [rng.standard_normal((40, 2)) * [2.0, 1.0] for _ in range(5)]
    left, right = ([f @ rng.standard_normal((2, d)) + rng.standard_normal((40, d)) for f in factors] for d in (4, 6))
    cross = sum(a.T @ b / 40 for a, b in zip(left, right, strict=True)) / 5
    u, _, v = np.linalg.svd(cross)
    z = do.solve(SparseCCA(left, right, 2, 0.0), method, "ring", iterations=3000, rows=2).x[0]
    expected = np.vstack((u[:, :2], v[:2].T)) / np.sqrt(2)
    assert naive.norm(z @ z.T - expected @ expected.T) < 1e-9


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RobustPCA(samples(), 2, 0.0), "delta must be"),
        (lambda: RobustPCA(samples(), 2, 1.0, -1.0), "mu must be"),
        (lambda: SparseCCA(samples(), samples()[:-1], 2, 0.1), "equally many samples"),
        (lambda: WithTerm(PCA(samples(), 2), 0.1, term="l2"), "term must be"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


SETTINGS: dict[str, Any] = {
    "robust_pca": do.problems.RobustPCASettings(mu=0.2),
    "sparse_cca": do.problems.SparseCCASettings(rank=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_constant_automatic_steps_come_to_stationary_points_of_digits(name: str) -> None:
    """Ten agents on a ring: stationarity 1e-8, a value as good as a pooled one's, where subgradients stop far above."""
    problem = prepared(built(SETTINGS[name].problem(10, 0)))
    x0 = problem.start(0)
    best = pooled(problem, x0, 0.05, 5000)
    least = float(problem.value(np.repeat(best[None], 10, axis=0)).mean())
    for method in (do.DRProxGT(), do.PREXTRA()):
        row = do.solve(problem, method, "ring", iterations=3000, rows=2, x0=x0).row.values
        assert row["stationarity"] < 1e-8
        assert row["objective"] <= least + 1e-8
    assert do.solve(problem, do.DRSM(), "ring", iterations=3000, rows=2, x0=x0).row.values["stationarity"] > 1e-4
