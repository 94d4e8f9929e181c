"""Nonsmooth problems: bounds of their subgradients, column oracles, known answers, measures, data,
and a user's functions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize

from decentorth import DRSM, PREXTRA, RSM, RSSM, DRProxGT, solve
from decentorth.problems import (
    L1PCA,
    PCA,
    L1PCASettings,
    NonsmoothFunctionProblem,
    ODLSettings,
    OrthogonalDictionaryLearning,
    RobustPCASettings,
    RobustSubspaceRecovery,
    RSRSettings,
    SparseCCA,
    SparseCCASettings,
    SparsePCA,
    SparsePCASettings,
    WithTerm,
    complement_distance,
    dictionary_error,
)
from decentorth.protocols import Array, ColumnOracle, Nonsmooth
from decentorth.sets import Stiefel
from tests.algorithms.decentralized.test_field import pooled
from tests.problems.test_contract import unit
from tests.reference import naive
from tests.support.building import built, prepared
from tests.support.marks import first_is_quick

COUNTS = (40, 40, 3, 1, 200, 40, 7, 7)
N, D, RANK, MU = len(COUNTS), 6, 2, 0.3


MAKE: dict[str, tuple[Callable[..., Any], int]] = {
    "rsr": (lambda data: RobustSubspaceRecovery(data, RANK), D - RANK),
    "odl": (OrthogonalDictionaryLearning, D),
}
kinds = pytest.mark.parametrize(("make", "columns"), MAKE.values(), ids=MAKE)


def samples(counts: tuple[int, ...] = COUNTS, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, D)) * 1.3 ** np.arange(D) for count in counts]


def gaussian(columns: int, n: int = N, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, D, columns))


def orthonormal(rows: int, columns: int, seed: int) -> Array:
    q: Array = np.linalg.qr(np.random.default_rng(seed).standard_normal((rows, columns)))[0]
    return q


def rows_of(problem: Any) -> list[Array]:
    return [a for _, (stacked,) in problem._rows for a in stacked]


@pytest.mark.parametrize("name", ["rsr", "odl", "sparse-pca", "l1-pca"])
def test_constants_of_curvature_and_slope_hold(name: str) -> None:
    """f(y) >= f(x) + <G(x), y - x> - tau/2 ||y - x||^2 also where it has kinks, -f of l1-PCA;
    ||G(x)|| <= L where x^T x = I."""
    made: Any = {"sparse-pca": lambda a: SparsePCA(a, 4, MU), "l1-pca": lambda a: L1PCA(a, 4)} | {
        n: MAKE[n][0] for n in MAKE
    }
    problem, sign = made[name](samples()), -1.0 if name == "l1-pca" else 1.0
    columns = problem.shape[1]
    points = [gaussian(columns, seed=seed) for seed in range(4)]
    points += [
        np.zeros_like(points[0]),
        points[1] * (np.arange(columns) > 1),
        points[0] * (np.arange(D) > 2)[:, None],
    ]
    for row, x in zip(samples(), points[2], strict=True):
        x -= np.outer(row[0], row[0] @ x) / (row[0] @ row[0])
    for x in points:
        gradient, value = sign * problem.gradient(x), sign * problem.value(x)
        for y in points:
            bend = (
                0.0
                if name == "l1-pca"
                else 0.5 * problem.weak_convexity * ((y - x) ** 2).sum((-2, -1))
            )
            below = value + (gradient * (y - x)).sum((-2, -1)) - bend
            assert (sign * problem.value(y) >= below - 1e-11 * (1.0 + np.abs(below))).all()
    unit = np.linalg.qr(points[3])[0]
    assert (
        np.linalg.norm(problem.gradient(unit), axis=(-2, -1))
        <= problem.lipschitz_value * (1 + 1e-12)
    ).all()


@kinds
def test_constants_are_met_where_all_samples_are_alike(make: Any, columns: int) -> None:
    alike = make([np.tile(np.arange(1.0, D + 1), (7, 1))])
    steepest = np.linalg.norm(alike.gradient(gaussian(columns, 1)))
    assert steepest == pytest.approx(float(alike.lipschitz_value[0]), rel=1e-12)
    assert (alike.weak_convexity == 0.0).all()
    sparse = SparsePCA(samples(), 3, MU)
    np.testing.assert_allclose(
        sparse.weak_convexity,
        [np.linalg.eigvalsh(a.T @ a / len(a))[-1] for a in samples()],
        rtol=1e-12,
    )


@kinds
def test_columns_are_those_of_the_full_subgradient(make: Any, columns: int) -> None:
    """Any of them, in any order, while blocks change one after the other; to the same bits on every
    part of the agents."""
    rng = np.random.default_rng(4)
    problem = prepared(make(samples()))
    x = gaussian(columns, seed=4)
    cache = problem.cache(x)
    parts = [problem.restrict(slice(i, i + 1)) for i in range(N)]
    alone = [part.cache(x[i : i + 1]) for i, part in enumerate(parts)]
    for _ in range(60):
        chosen = rng.permutation(columns)[: rng.integers(1, columns + 1)]
        found = problem.partial_gradient(x, chosen, cache)
        np.testing.assert_allclose(
            found, problem.gradient(x)[:, :, chosen], atol=1e-12 * np.abs(found).max()
        )
        assert found.flags.c_contiguous
        for i, part in enumerate(parts):
            assert (
                part.partial_gradient(x[i : i + 1], chosen, alone[i]).tobytes()
                == found[i : i + 1].tobytes()
            )
        x[:, :, chosen] += 0.3 * rng.standard_normal((N, D, len(chosen)))
        problem.refresh(cache, x, chosen)
        for i, part in enumerate(parts):
            part.refresh(alone[i], x[i : i + 1], chosen)
            assert alone[i].tobytes() == cache[i : i + 1].tobytes()


@pytest.mark.slow
def test_maintained_norms_keep_their_relative_accuracy() -> None:
    """While they shrink by twelve orders of magnitude, in thousands of changes, and when they
    become 0."""
    rng = np.random.default_rng(5)
    problem = RobustSubspaceRecovery(samples((50,)), RANK)
    x = gaussian(D - RANK, 1)
    cache = problem.cache(x)
    worst = 0.0
    for k in range(6000):
        columns = np.array([k % 4, (k + 1) % 4])
        size = 0.99 ** (k // 2) if k < 5500 else 1.0
        x[:, :, columns] = size * rng.standard_normal((1, D, 2))
        problem.refresh(cache, x, columns)
        exact = ((rows_of(problem)[0] @ x[0]) ** 2).sum(1)
        worst = max(worst, float(np.max(np.abs(cache[0, -2] / exact - 1.0))))
    assert worst < 1e-11
    x[...] = 0.0
    for columns in (np.array([0, 1]), np.array([2, 3])):
        problem.refresh(cache, x, columns)
    assert not cache[:, :-1].any()
    assert not problem.partial_gradient(x, np.arange(4), cache).any()


def test_flops_are_those_of_the_products() -> None:
    """Two products with the samples, 2 m n c each, and little beside them; in proportion to the
    columns."""
    for problem, beside in (
        (RobustSubspaceRecovery(samples(), RANK), 5),
        (OrthogonalDictionaryLearning(samples()), 1),
    ):
        np.testing.assert_array_equal(problem.flops(3), [3 * m * (4 * D + beside) for m in COUNTS])


# The measures of the answers


def printed_distance(x: Array, subspace: Array) -> float:
    n, p = x.shape
    nuclear = np.linalg.svd((np.eye(n) - subspace @ subspace.T) @ x, compute_uv=False).sum()
    return float(np.sqrt(2 * max(p - nuclear, 0.0)))


@pytest.mark.parametrize(("n", "d", "p"), [(7, 2, 5), (7, 5, 2), (7, 3, 2), (6, 1, 5), (5, 4, 1)])
def test_complement_distance_is_the_printed_one(n: int, d: int, p: int) -> None:
    """It is the least distance to a basis of the complement: that of the one which the polar factor
    of B^T x makes."""
    for seed in range(5):
        x, whole = orthonormal(n, p, seed), orthonormal(n, n, seed + 50)
        subspace, complement = whole[:, :d], whole[:, d:]
        u, _, vt = np.linalg.svd(complement.T @ x, full_matrices=False)
        assert complement_distance(x, subspace) == pytest.approx(
            printed_distance(x, subspace), rel=1e-7
        )
        assert complement_distance(x, subspace) == pytest.approx(
            np.linalg.norm(x - complement @ u @ vt), rel=1e-12
        )
        inside = orthonormal(n - d, p, seed + 9)
        assert complement_distance(complement @ inside, subspace) < 1e-14


@pytest.mark.parametrize("angle", [1e-2, 1e-6, 1e-10])
def test_complement_distance_is_exact_where_it_is_tiny(angle: float) -> None:
    whole = orthonormal(8, 8, 0)
    subspace, x = whole[:, :3], whole[:, 3:].copy()
    x[:, 0] = np.cos(angle) * x[:, 0] + np.sin(angle) * whole[:, 1]
    rotated = x @ orthonormal(5, 5, 1)
    assert complement_distance(rotated, subspace) == pytest.approx(2 * np.sin(angle / 2), rel=1e-5)


def test_dictionary_error_sees_neither_order_nor_signs() -> None:
    dictionary, rng = orthonormal(5, 5, 0), np.random.default_rng(0)
    for order in itertools.permutations(range(5)):
        signs = rng.choice([-1.0, 1.0], 5)
        assert dictionary_error(dictionary[:, list(order)] * signs, dictionary) < 1e-14
    x = orthonormal(5, 5, 1)
    expected = sum(
        abs(max(abs(x[:, i] @ dictionary[:, j]) for j in range(5)) - 1) for i in range(5)
    )
    assert dictionary_error(x, dictionary) == pytest.approx(expected, rel=1e-13)


# Generated data


def test_generated_points_lie_on_the_sphere_and_inliers_in_the_subspace() -> None:
    """Published numbers for one agent; norms 1, 1500 in the subspace, shuffled; the start is 0.12
    away, as is known of it."""
    problem = prepared(built(RSRSettings().problem(1, 0)))
    (a,) = rows_of(problem)
    assert (a.shape, problem.shape, problem.error_name) == (
        (5000, 100),
        (100, 90),
        "complement_distance",
    )
    np.testing.assert_allclose(np.linalg.norm(a, axis=1), 1.0, rtol=1e-14)
    inside = np.linalg.norm(a @ problem.subspace, axis=1) > 1 - 1e-12
    assert inside.sum() == 1500
    assert 600 < inside[:2500].sum() < 900
    coordinates = a[inside] @ problem.subspace
    np.testing.assert_allclose(coordinates.T @ coordinates / 1500, np.eye(10) / 10, atol=0.015)
    np.testing.assert_allclose(a[~inside].T @ a[~inside] / 3500, np.eye(100) / 100, atol=0.003)
    start = problem.start(0)
    assert problem.error(start) == pytest.approx(0.12, abs=0.01)
    moments = a.T @ a
    assert np.trace(start.T @ moments @ start) == pytest.approx(
        np.linalg.eigvalsh(moments)[:90].sum(), rel=1e-12
    )


@pytest.mark.parametrize("agents", [1, 7])
def test_with_orthonormal_points_the_start_is_the_answer(agents: int) -> None:
    """The erratum: Y Y^T = S S^T + I, over all agents together."""
    settings = RSRSettings(points="orthonormal", dimension=20, rank=3, inliers=60, outliers=150)
    problem = prepared(built(settings.problem(agents, 1)))
    pooled = np.vstack(rows_of(problem))
    inside = np.linalg.norm(pooled - pooled @ problem.subspace @ problem.subspace.T, axis=1) < 1e-12
    coefficients = pooled[inside] @ problem.subspace
    assert len(coefficients) == 60
    np.testing.assert_allclose(coefficients.T @ coefficients, np.eye(3), atol=1e-13)
    np.testing.assert_allclose(pooled[~inside].T @ pooled[~inside], np.eye(20), atol=1e-13)
    assert problem.error(problem.start(0)) < 1e-13


@pytest.mark.parametrize("partition", ["even", "by-label", "dirichlet"])
def test_inliers_and_outliers_are_divided_over_the_agents(partition: Any) -> None:
    problem = built(
        RSRSettings(dimension=12, rank=3, inliers=40, outliers=80, partition=partition).problem(
            5, 2
        )
    )
    kinds = [np.linalg.norm(a @ problem.subspace, axis=1) > 1 - 1e-12 for a in rows_of(problem)]
    assert sum(len(kind) for kind in kinds) == 120
    assert sum(int(kind.sum()) for kind in kinds) == 40
    mixed = sum(0 < kind.sum() < len(kind) for kind in kinds)
    assert mixed == {"even": 5, "by-label": 1, "dirichlet": mixed}[partition]
    assert (len({len(kind) for kind in kinds}) == 1) == (partition != "dirichlet")


def test_generated_coefficients_are_bernoulli_gaussian() -> None:
    """Published numbers: 0.3 of them are not 0, those have variance 1; for several agents evenly
    divided."""
    problem = built(ODLSettings().problem(1, 0))
    assert problem.shape == (60, 60)
    coefficients = rows_of(problem)[0] @ problem.dictionary
    assert coefficients.shape == (4648, 60)
    drawn = np.abs(coefficients) > 1e-9
    assert drawn.mean() == pytest.approx(0.3, abs=0.003)
    assert coefficients[drawn].var() == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(problem.dictionary.T @ problem.dictionary, np.eye(60), atol=1e-13)
    np.testing.assert_allclose(problem.start(0).T @ problem.start(0), np.eye(60), atol=1e-13)
    assert built(ODLSettings(dimension=4, samples=11).problem(3, 0)).n_samples.tolist() == [4, 4, 3]


# Answers


def by_linear_programs(a: Array, b: Array) -> Array:
    """min ||A b||_1 over unit vectors (Spaeth, Watson 1987): b <- argmin ||A c||_1 with <b, c> = 1,
    until it stays."""
    m, n = a.shape
    for _ in range(30):
        cost = np.concatenate([np.zeros(n), np.ones(m)])
        above = np.block([[a, -np.eye(m)], [-a, -np.eye(m)]])
        found = scipy.optimize.linprog(
            cost,
            above,
            np.zeros(2 * m),
            np.concatenate([b, np.zeros(m)])[None],
            [1.0],
            [(None, None)] * n + [(0, None)] * m,
        )
        after = unit(np.array(found.x)[:n])
        if np.abs(after - b).max() < 1e-12:
            break
        b = after
    return b


@pytest.mark.parametrize(("noise", "gap"), [(0.0, 1e-13), (0.02, 1e-6)])
@pytest.mark.parametrize("seed", range(2))
def test_hyperplanes_are_those_of_linear_programs(noise: float, gap: float, seed: int) -> None:
    """DPCP with one column, in eight dimensions: inliers in a hyperplane, a sharp minimum, or near
    it, a flat one."""
    rng = np.random.default_rng(seed)
    normal = unit(rng.standard_normal(8))
    inside = rng.standard_normal((120, 8))
    inside -= np.outer(inside @ normal, normal)
    rows = np.vstack(
        [inside + noise * rng.standard_normal(inside.shape), rng.standard_normal((60, 8))]
    )
    a = rows / np.linalg.norm(rows, axis=1)[:, None]
    problem = RobustSubspaceRecovery([a], 7)
    found = solve(
        problem, RSM(step_size="geometric:initial=1.0,ratio=0.96"), iterations=600, rows=2
    ).x[0, :, 0]
    start = prepared(problem).start(0)[:, 0]
    other = by_linear_programs(a, start)
    assert abs(found @ other) > 1 - gap
    assert np.abs(a @ found).sum() == pytest.approx(np.abs(a @ other).sum(), rel=max(gap, 1e-9))
    assert abs(found @ normal) > 1 - (1e-14 if noise == 0.0 else 1e-3)
    assert abs(start @ normal) < 1 - 1e-4


@pytest.mark.slow
def test_one_robust_component_is_the_best_of_all_signs() -> None:
    """max ||A x||_1 over unit vectors is max ||A^T b|| over signs b (Markopoulos, Karystinos, Pados
    2014): all 2^9 are tried."""
    a = np.random.default_rng(3).standard_normal((10, 4)) * [3.0, 1.0, 1.0, 1.0]
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=9)))
    best = max(float(np.linalg.norm(a.T @ np.concatenate(([1.0], b)))) for b in signs)
    problem = L1PCA([a], 1)
    results = [
        solve(
            problem,
            RSM(step_size="geometric:initial=0.5,ratio=0.98"),
            iterations=600,
            seed=seed,
            rows=2,
        )
        for seed in range(8)
    ]
    reached = [-10 * result.row.values["objective"] for result in results]
    assert max(reached) == pytest.approx(best, rel=1e-6)
    assert max(reached) < best * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", first_is_quick([RSM(), RSSM(blocks=3)]))
def test_sparse_components_are_exactly_sparse_where_that_is_best(method: Any) -> None:
    """Of a diagonal covariance the leading unit vectors are best for both terms, and f is sharp
    there."""
    a = (
        np.sqrt(30.0)
        * np.diag([3.0, 2.5, 2.0, 1.0, 0.7, 0.3])[:, np.random.default_rng(0).permutation(6)]
    )
    problem = prepared(SparsePCA([np.tile(a, (5, 1))], 3, 0.8))
    leading = np.argsort(-np.abs(a).max(axis=0))[:3]
    start = naive.polar(
        np.eye(6)[:, leading] + 0.15 * np.random.default_rng(0).standard_normal((6, 3))
    )
    x = solve(problem, method, x0=start, iterations=3000, rows=2).x[0]
    np.testing.assert_allclose(
        np.abs(x @ x.T), np.eye(6)[:, leading] @ np.eye(6)[:, leading].T, atol=2e-5
    )
    np.testing.assert_allclose(np.sort(np.abs(x), axis=None)[-3:], 1.0, rtol=1e-8)


@pytest.mark.parametrize(
    "settings",
    [L1PCASettings(), SparsePCASettings(), SparsePCASettings(center=False, normalize=False)],
)
def test_digits_are_centred_and_scaled_over_all_agents(settings: Any) -> None:
    problem = prepared(built(settings.problem(7, 0)))
    assert problem.shape == (64, 5)
    assert int(problem.n_samples.sum()) == 1797
    if isinstance(settings, SparsePCASettings):
        traces = [np.trace(h) for h in -problem.smooth.hessian()]
        total = float(np.average(traces, weights=problem.n_samples))
        assert total == pytest.approx(64.0 if settings.normalize else 3866.9, rel=1e-2)
        steps = problem.subgradient_settings(1).step_size
        assert steps == f"geometric:initial={1 / problem.weak_convexity.max():.6g},ratio=0.995"
    else:
        rows = np.vstack([a for _, (stack,) in problem._rows for a in stack])
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-13)
        assert np.mean(rows**2) == pytest.approx(1.0, rel=1e-12)


def test_a_term_beside_any_smooth_problem() -> None:
    own, known = (
        WithTerm(PCA(samples(), 3, weights="agents"), MU, term="rows"),
        SparsePCA(samples(), 3, MU, term="rows"),
    )
    assert own.gradient(gaussian(3)).tobytes() == known.gradient(gaussian(3)).tobytes()


@pytest.mark.slow
def test_without_a_term_correlations_are_those_of_the_singular_vectors() -> None:
    rng = np.random.default_rng(1)
    factors = [rng.standard_normal((40, 2)) * [2.0, 1.0] for _ in range(5)]
    left, right = (
        [f @ rng.standard_normal((2, d)) + rng.standard_normal((40, d)) for f in factors]
        for d in (4, 6)
    )
    cross = sum(a.T @ b / 40 for a, b in zip(left, right, strict=True)) / 5
    u, _, v = np.linalg.svd(cross)
    z = solve(SparseCCA(left, right, 2, 0.0), "drproxgt", "ring", iterations=3000, rows=2).x[0]
    expected = np.vstack((u[:, :2], v[:2].T)) / np.sqrt(2)
    assert naive.norm(z @ z.T - expected @ expected.T) < 1e-9


SETTINGS: dict[str, Any] = {
    "robust_pca": RobustPCASettings(mu=0.2),
    "sparse_cca": SparseCCASettings(rank=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_constant_automatic_steps_come_to_stationary_points_of_digits(name: str) -> None:
    """Five agents on a ring: stationarity 1e-8, a value as good as a pooled one's, where
    subgradients stop far above."""
    problem = prepared(built(SETTINGS[name].problem(5, 0)))
    x0 = problem.start(0)
    best = pooled(problem, x0, 0.05, 2500)
    least = float(problem.value(np.repeat(best[None], 5, axis=0)).mean())
    for method in (DRProxGT(), PREXTRA()):
        row = solve(problem, method, "ring", iterations=1500, rows=2, x0=x0).row.values
        assert row["stationarity"] < 1e-8
        assert row["objective"] <= least + 1e-8
    assert (
        solve(problem, DRSM(), "ring", iterations=1500, rows=2, x0=x0).row.values["stationarity"]
        > 1e-4
    )


def l1_norms(partial: bool, stacked: bool) -> NonsmoothFunctionProblem[Stiefel]:
    data = samples()

    def value(agent: int, x: Array) -> float:
        return float(np.abs(data[agent] @ x).sum())

    def subgradient(agent: int, x: Array) -> Array:
        found: Array = data[agent].T @ np.sign(data[agent] @ x)
        return found

    def some(agent: int, x: Array, columns: Array) -> Array:
        return subgradient(agent, x[:, columns.astype(int)])

    def each(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda agents, x, *rest: np.stack(
            [function(i, p, *rest) for i, p in zip(agents, x, strict=True)]
        )

    given: Any = [each(f) if stacked else f for f in (value, subgradient, some)]
    where: Any = {"partial_subgradient": given[2] if partial else None, "stacked": stacked}
    return NonsmoothFunctionProblem(given[0], given[1], Stiefel(D, 3), N, **where)


@pytest.mark.parametrize(("partial", "stacked"), [(True, False), (False, False), (True, True)])
def test_own_functions_and_their_columns(partial: bool, stacked: bool) -> None:
    problem, x = l1_norms(partial, stacked), gaussian(3)
    assert isinstance(problem, ColumnOracle)
    assert isinstance(problem, Nonsmooth)
    for part, points in ((problem, x), (problem.restrict(slice(1, 4)), x[1:4])):
        for columns in (np.array([1]), np.array([2, 0])):
            found = part.partial_gradient(points, columns, part.cache(points))
            np.testing.assert_allclose(found, part.gradient(points)[:, :, columns], atol=1e-12)
            assert found.flags.c_contiguous


def test_wrong_functions_are_refused() -> None:
    f: Any = lambda agent, x: x  # noqa: E731  # a name for what is passed twice
    wrong: Any = 3
    with pytest.raises(TypeError, match="subgradient must be a function, got int"):
        NonsmoothFunctionProblem(f, wrong, Stiefel(3, 2), 1)
    with pytest.raises(TypeError, match="partial_subgradient must be a function, got int"):
        NonsmoothFunctionProblem(f, f, Stiefel(3, 2), 1, partial_subgradient=wrong)
    problem = NonsmoothFunctionProblem(
        f, f, Stiefel(3, 2), 1, partial_subgradient=lambda i, x, columns: x
    )
    with pytest.raises(
        ValueError,
        match=re.escape("partial_subgradient of agent 0 must have shape (3, 1), got (3, 2)"),
    ):
        problem.partial_gradient(np.ones((1, 3, 2)), np.array([0]), np.empty((1, 0)))


# Files


@pytest.mark.parametrize("normalize", [True, False])
def test_samples_of_a_file_are_divided_and_normalized(normalize: bool, tmp_path: Path) -> None:
    a = 5.0 * np.random.default_rng(0).standard_normal((90, 4))
    a[7] = 0.0
    np.save(tmp_path / "a.npy", a)
    where: dict[str, Any] = {"data": str(tmp_path / "a.npy"), "normalize": normalize}
    rsr, odl = (
        built(RSRSettings(rank=2, **where).problem(4, 1)),
        built(ODLSettings(**where).problem(4, 1)),
    )
    assert (rsr.shape, odl.shape, rsr.error_name, odl.error_name) == ((4, 2), (4, 4), "", "")
    rows = [np.vstack(rows_of(problem)) for problem in (rsr, odl)]
    if normalize:
        np.testing.assert_allclose(
            sorted(np.linalg.norm(rows[0], axis=1)), [0.0, *[1.0] * 89], rtol=1e-14
        )
        assert np.mean(rows[1] ** 2) == pytest.approx(1.0, rel=1e-13)
    else:
        for own in rows:
            np.testing.assert_array_equal(np.sort(own, axis=0), np.sort(a, axis=0))
