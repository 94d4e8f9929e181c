"""Robust subspaces and dictionaries: losses, subgradients, column oracles, measures of the answer, and what data are."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize

from decentorth import RSM, solve
from decentorth.problems import (
    ICA,
    ODLSettings,
    OrthogonalDictionaryLearning,
    RobustSubspaceRecovery,
    RSRSettings,
    complement_distance,
    dictionary_error,
)
from decentorth.protocols import Array, ColumnOracle
from tests.support.building import built, collective, prepared
from tests.support.problems import stack

COUNTS = (40, 40, 3, 1, 200, 40, 7, 7)
"""Samples of each agent."""
N, D, RANK = len(COUNTS), 6, 2


def samples(counts: tuple[int, ...] = COUNTS, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, D)) * 1.3 ** np.arange(D) for count in counts]


@dataclass(frozen=True)
class Kind:
    """A problem, and its objective and its subgradient from the formulas."""

    make: Callable[..., Any]
    columns: int
    value: Callable[[Array, Array], float]
    gradient: Callable[[Array, Array], Array]


def unit(v: Array) -> Array:
    return v / np.linalg.norm(v) if np.any(v) else v


KINDS = {
    "rsr": Kind(
        lambda data, **where: RobustSubspaceRecovery(data, RANK, **where),
        D - RANK,
        lambda a, x: sum(float(np.linalg.norm(row @ x)) for row in a) / len(a),
        lambda a, x: np.mean([np.outer(row, unit(row @ x)) for row in a], axis=0),
    ),
    "odl": Kind(
        OrthogonalDictionaryLearning,
        D,
        lambda a, x: float(np.abs(a @ x).sum()),
        lambda a, x: np.sum([np.outer(row, np.sign(row @ x)) for row in a], axis=0),
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def gaussian(kind: Kind, n: int = N, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, D, kind.columns))


def orthonormal(rows: int, columns: int, seed: int) -> Array:
    q: Array = np.linalg.qr(np.random.default_rng(seed).standard_normal((rows, columns)))[0]
    return q


def rows_of(problem: Any) -> list[Array]:
    """Each agent's samples."""
    return [a for _, (stacked,) in problem._rows for a in stacked]


@pytest.mark.parametrize("pass_bytes", [1, 400, 1 << 17])
@kinds
def test_values_and_subgradients_are_the_formulas(kind: Kind, pass_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one pass over an agent's samples, or a few or one of them at a time."""
    monkeypatch.setattr("decentorth.problems.common.rows.PASS_BYTES", pass_bytes)
    data, x = samples(), gaussian(kind, seed=1)
    problem = kind.make(data)
    value, gradient = problem.value(x), problem.gradient(x)
    for i, (a, p) in enumerate(zip(data, x, strict=True)):
        assert value[i] == pytest.approx(kind.value(a, p), rel=1e-12)
        np.testing.assert_allclose(gradient[i], kind.gradient(a, p), atol=1e-12 * np.abs(a).sum())
    assert gradient.flags.c_contiguous
    assert not np.shares_memory(gradient, problem.gradient(x))


@kinds
def test_subgradients_support_the_convex_objectives(kind: Kind) -> None:
    """f(y) >= f(x) + <G(x), y - x>, also where a norm or an entry is 0; f is homogeneous, so <G(x), x> = f(x)."""
    problem = kind.make(samples())
    points = [gaussian(kind, seed=seed) for seed in range(4)]
    kinked = [np.zeros_like(points[0]), points[1] * (np.arange(kind.columns) > 1)]
    for row, x in zip(rows_of(problem), points[2], strict=True):
        x -= np.outer(row[0], row[0] @ x) / (row[0] @ row[0])
    for x in (*points, *kinked):
        gradient, value = problem.gradient(x), problem.value(x)
        np.testing.assert_allclose((gradient * x).sum((-2, -1)), value, rtol=1e-12, atol=1e-12)
        for y in (*points, *kinked):
            below = value + (gradient * (y - x)).sum((-2, -1))
            assert (problem.value(y) >= below - 1e-11 * (1.0 + np.abs(below))).all()
    assert (problem.weak_convexity == 0.0).all()


@kinds
def test_lipschitz_constants_of_the_objectives(kind: Kind) -> None:
    """They bound subgradients everywhere, and are met where all samples are alike."""
    problem = kind.make(samples())
    for seed in range(4):
        x, y = gaussian(kind, seed=seed), gaussian(kind, seed=seed + 9)
        assert (np.linalg.norm(problem.gradient(x), axis=(-2, -1)) <= problem.lipschitz_value * (1 + 1e-12)).all()
        rise = np.abs(problem.value(x) - problem.value(y))
        assert (rise <= problem.lipschitz_value * np.linalg.norm(x - y, axis=(-2, -1))).all()
    alike = kind.make([np.tile(np.arange(1.0, D + 1), (7, 1))])
    steepest = np.linalg.norm(alike.gradient(gaussian(kind, 1)))
    assert steepest == pytest.approx(float(alike.lipschitz_value[0]), rel=1e-12)


@kinds
def test_columns_are_those_of_the_full_subgradient(kind: Kind) -> None:
    """Any of them, in any order, while blocks change one after the other; to the same bits on every part of the agents."""
    rng = np.random.default_rng(4)
    problem = prepared(kind.make(samples()))
    x = gaussian(kind, seed=4)
    cache = problem.cache(x)
    parts = [problem.restrict(slice(i, i + 1)) for i in range(N)]
    alone = [part.cache(x[i : i + 1]) for i, part in enumerate(parts)]
    for _ in range(60):
        columns = rng.permutation(kind.columns)[: rng.integers(1, kind.columns + 1)]
        found = problem.partial_gradient(x, columns, cache)
        np.testing.assert_allclose(found, problem.gradient(x)[:, :, columns], atol=1e-12 * np.abs(found).max())
        assert found.flags.c_contiguous
        for i, part in enumerate(parts):
            assert part.partial_gradient(x[i : i + 1], columns, alone[i]).tobytes() == found[i : i + 1].tobytes()
        x[:, :, columns] += 0.3 * rng.standard_normal((N, D, len(columns)))
        problem.refresh(cache, x, columns)
        for i, part in enumerate(parts):
            part.refresh(alone[i], x[i : i + 1], columns)
            assert alone[i].tobytes() == cache[i : i + 1].tobytes()


@pytest.mark.slow
def test_maintained_norms_keep_their_relative_accuracy() -> None:
    """While they shrink by twelve orders of magnitude, in thousands of changes, and when they become 0."""
    rng = np.random.default_rng(5)
    problem = RobustSubspaceRecovery(samples((50,)), RANK)
    x = gaussian(KINDS["rsr"], 1)
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
    """Two products with the samples, 2 m n c each, and little beside them; in proportion to the columns."""
    for kind, beside in ((KINDS["rsr"], 5), (KINDS["odl"], 1)):
        problem = kind.make(samples())
        np.testing.assert_array_equal(problem.flops(3), [3 * m * (4 * D + beside) for m in COUNTS])


def test_ica_has_columns_too() -> None:
    problem, x = ICA(samples()), np.random.default_rng(6).standard_normal((N, D, D))
    assert isinstance(problem, ColumnOracle)
    columns = np.array([4, 0, 3])
    partial = problem.partial_gradient(x, columns, problem.cache(x))
    np.testing.assert_allclose(partial, problem.gradient(x)[:, :, columns], atol=1e-13)


# The measures of the answers


def printed_distance(x: Array, subspace: Array) -> float:
    """Paper 002, Section 5.1."""
    n, p = x.shape
    nuclear = np.linalg.svd((np.eye(n) - subspace @ subspace.T) @ x, compute_uv=False).sum()
    return float(np.sqrt(2 * max(p - nuclear, 0.0)))


@pytest.mark.parametrize(("n", "d", "p"), [(7, 2, 5), (7, 5, 2), (7, 3, 2), (6, 1, 5), (5, 4, 1)])
def test_complement_distance_is_the_printed_one(n: int, d: int, p: int) -> None:
    """It is the least distance to a basis of the complement: that of the one which the polar factor of B^T x makes."""
    for seed in range(5):
        x, whole = orthonormal(n, p, seed), orthonormal(n, n, seed + 50)
        subspace, complement = whole[:, :d], whole[:, d:]
        u, _, vt = np.linalg.svd(complement.T @ x, full_matrices=False)
        assert complement_distance(x, subspace) == pytest.approx(printed_distance(x, subspace), rel=1e-7)
        assert complement_distance(x, subspace) == pytest.approx(np.linalg.norm(x - complement @ u @ vt), rel=1e-12)
        inside = orthonormal(n - d, p, seed + 9)
        assert complement_distance(complement @ inside, subspace) < 1e-14


@pytest.mark.parametrize("angle", [1e-2, 1e-6, 1e-10])
def test_complement_distance_is_exact_where_it_is_tiny(angle: float) -> None:
    """Where the printed formula, 1 minus cosines, has no digit left."""
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
    expected = sum(abs(max(abs(x[:, i] @ dictionary[:, j]) for j in range(5)) - 1) for i in range(5))
    assert dictionary_error(x, dictionary) == pytest.approx(expected, rel=1e-13)


# Generated data


def test_generated_points_lie_on_the_sphere_and_inliers_in_the_subspace() -> None:
    """Published numbers for one agent; norms 1, 1500 in the subspace, shuffled; the start is 0.12 away, as is known of it."""
    problem = prepared(built(RSRSettings().problem(1, 0)))
    (a,) = rows_of(problem)
    assert (a.shape, problem.shape, problem.error_name) == ((5000, 100), (100, 90), "complement_distance")
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
    assert np.trace(start.T @ moments @ start) == pytest.approx(np.linalg.eigvalsh(moments)[:90].sum(), rel=1e-12)


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
    """All of them, as files' samples would be: by label all but one agent see one kind only."""
    problem = built(RSRSettings(dimension=12, rank=3, inliers=40, outliers=80, partition=partition).problem(5, 2))
    kinds = [np.linalg.norm(a @ problem.subspace, axis=1) > 1 - 1e-12 for a in rows_of(problem)]
    assert sum(len(kind) for kind in kinds) == 120
    assert sum(int(kind.sum()) for kind in kinds) == 40
    mixed = sum(0 < kind.sum() < len(kind) for kind in kinds)
    assert mixed == {"even": 5, "by-label": 1, "dirichlet": mixed}[partition]
    assert (len({len(kind) for kind in kinds}) == 1) == (partition != "dirichlet")


def test_generated_coefficients_are_bernoulli_gaussian() -> None:
    """Published numbers: 0.3 of them are not 0, those have variance 1; for several agents evenly divided."""
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


def near(answer: Array, size: float, seed: int) -> Array:
    """The orthonormal factor of a point at about that distance."""
    moved = answer + size * unit(np.random.default_rng(seed).standard_normal(answer.shape))
    u, _, vt = np.linalg.svd(moved, full_matrices=False)
    nearest: Array = u @ vt
    return nearest


def test_planted_subspaces_and_dictionaries_are_sharp_minima() -> None:
    """f rises in proportion to the distance from them, in all directions, which no smooth minimum does."""
    rsr = built(RSRSettings(dimension=20, rank=4, inliers=150, outliers=300).problem(1, 0))
    complement = np.linalg.qr(np.hstack([rsr.subspace, np.eye(20)]))[0][:, 4:]
    odl = built(ODLSettings(dimension=10, samples=1000).problem(1, 0))
    for problem, answer in ((rsr, complement), (odl, odl.dictionary)):
        least = float(problem.value(answer[None])[0])
        assert problem.error(answer) < 1e-13
        for size in (1e-1, 1e-3, 1e-5):
            rises = [float(problem.value(near(answer, size, seed)[None])[0]) - least for seed in range(20)]
            across = [x for seed in range(20) for x in [near(answer, size, seed)]]
            distances = (
                [complement_distance(x, rsr.subspace) for x in across]
                if problem is rsr
                else [float(np.linalg.norm(x - answer)) for x in across]
            )
            shares = np.divide(rises, distances)
            assert shares.min() > (0.02 if problem is rsr else 50.0)


def by_linear_programs(a: Array, b: Array) -> Array:
    """min ||A b||_1 over unit vectors (Spaeth, Watson 1987): b <- argmin ||A c||_1 with <b, c> = 1, until it stays."""
    m, n = a.shape
    for _ in range(30):
        cost = np.concatenate([np.zeros(n), np.ones(m)])
        above = np.block([[a, -np.eye(m)], [-a, -np.eye(m)]])
        found = scipy.optimize.linprog(
            cost, above, np.zeros(2 * m), np.concatenate([b, np.zeros(m)])[None], [1.0], [(None, None)] * n + [(0, None)] * m
        )
        after = unit(np.array(found.x)[:n])
        if np.abs(after - b).max() < 1e-12:
            break
        b = after
    return b


@pytest.mark.parametrize(("noise", "gap"), [(0.0, 1e-13), (0.02, 1e-6)])
@pytest.mark.parametrize("seed", range(3))
def test_hyperplanes_are_those_of_linear_programs(noise: float, gap: float, seed: int) -> None:
    """DPCP with one column, in eight dimensions: inliers in a hyperplane, a sharp minimum, or near it, a flat one."""
    rng = np.random.default_rng(seed)
    normal = unit(rng.standard_normal(8))
    inside = rng.standard_normal((120, 8))
    inside -= np.outer(inside @ normal, normal)
    rows = np.vstack([inside + noise * rng.standard_normal(inside.shape), rng.standard_normal((60, 8))])
    a = rows / np.linalg.norm(rows, axis=1)[:, None]
    problem = RobustSubspaceRecovery([a], 7)
    found = solve(problem, RSM(step_size="geometric:initial=1.0,ratio=0.96"), iterations=600, rows=2).x[0, :, 0]
    start = prepared(problem).start(0)[:, 0]
    other = by_linear_programs(a, start)
    assert abs(found @ other) > 1 - gap
    assert np.abs(a @ found).sum() == pytest.approx(np.abs(a @ other).sum(), rel=max(gap, 1e-9))
    assert abs(found @ normal) > 1 - (1e-14 if noise == 0.0 else 1e-3)
    assert abs(start @ normal) < 1 - 1e-4


# Files


def test_samples_of_a_file_are_divided_and_normalized(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a = 5.0 * rng.standard_normal((90, 4))
    a[7] = 0.0
    np.save(tmp_path / "a.npy", a)
    for normalize in (True, False):
        where: dict[str, Any] = {"data": str(tmp_path / "a.npy"), "normalize": normalize}
        rsr, odl = built(RSRSettings(rank=2, **where).problem(4, 1)), built(ODLSettings(**where).problem(4, 1))
        assert (rsr.shape, odl.shape, rsr.error_name, odl.error_name) == ((4, 2), (4, 4), "", "")
        pooled = [np.vstack(rows_of(problem)) for problem in (rsr, odl)]
        lengths = np.linalg.norm(pooled[0], axis=1)
        assert sorted(lengths)[0] == 0.0
        if normalize:
            np.testing.assert_allclose(sorted(lengths)[1:], 1.0, rtol=1e-14)
            assert np.mean(pooled[1] ** 2) == pytest.approx(1.0, rel=1e-13)
        else:
            for rows in pooled:
                np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(a, axis=0))


def test_the_start_needs_all_agents() -> None:
    problem = KINDS["rsr"].make(samples())
    with pytest.raises(ValueError, match=r"second moments .* prepare\(\)"):
        problem.start(0)
    problem.prepare(collective(N))
    moments = sum(a.T @ a / len(a) for a in samples())
    start = stack(problem.start(0), 1)[0]
    np.testing.assert_allclose(start.T @ start, np.eye(D - RANK), atol=1e-13)
    assert np.trace(start.T @ moments @ start) == pytest.approx(np.linalg.eigvalsh(moments)[: D - RANK].sum(), rel=1e-12)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "rank": (
        lambda: RobustSubspaceRecovery([np.ones((3, 2))], 2),
        "rank, the dimension of the subspace, must be from 1 to 1 for samples of length 2, got 2",
    ),
    "subspace": (
        lambda: RobustSubspaceRecovery([np.ones((3, 2))], 1, subspace=np.ones((3, 1))),
        "subspace must have 2 rows, got shape (3, 1)",
    ),
    "dictionary": (
        lambda: OrthogonalDictionaryLearning([np.ones((3, 2))], dictionary=np.ones((2, 3))),
        "dictionary must have shape (2, 2), got (2, 3)",
    ),
    "unknown subspace": (lambda: KINDS["rsr"].make(samples()).error(np.eye(D)), "the subspace is known for generated data"),
    "unknown dictionary": (
        lambda: KINDS["odl"].make(samples()).error(np.eye(D)),
        "the dictionary is known for generated data",
    ),
    "rank of all": (
        lambda: RSRSettings(rank=100),
        "rank must be below dimension, got 100 and 100",
    ),
    "orthonormal": (
        lambda: RSRSettings(outliers=50, points="orthonormal"),
        "orthonormal outliers must be at least dimension = 100, got 50",
    ),
    "density": (lambda: ODLSettings(density=0.0), "density must be above 0 and at most 1, got 0.0"),
    "samples": (lambda: ODLSettings(samples=3).problem(4, 0), "4 agents need at least as many samples, got 3: use fewer agents"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_where_and_what(name: str) -> None:
    build, words = BAD[name]
    with pytest.raises(ValueError, match=re.escape(words)):
        build()
