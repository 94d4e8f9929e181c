"""JOBCD and the hyperbolic Jacobi method: against the formulas, exact optima, monotone descent, drift, and what has no minimum."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from decentorth import GSJOBCD, JJOBCD, VRJJOBCD, HyperbolicJacobi, solve
from decentorth.algorithms.j_orthogonal.jobcd import steepest_ray
from decentorth.numerics.kernels.subproblem import BASIS, ray_matrix
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import HEVP
from decentorth.protocols import Array, Index
from tests.reference import jobcd as naive
from tests.support.j_orthogonal import hevp, log_cosh, signs, states

STREAMS = CounterStreams(0, slice(0, 1))
COMPILED = importlib.util.find_spec("numba") is not None
compiled = pytest.mark.skipif(not COMPILED, reason="so many steps need numba")


def drawn_pairs(k: int, number: int, n: int) -> list[tuple[int, int]]:
    """A pair each: 0 to n (n - 1) - 1 counts the ordered pairs row by row."""
    ordered = [(i, j) for i in range(n) for j in range(n) if i != j]
    return [ordered[at] for at in STREAMS.integers("blocks", k, number, n * (n - 1))[0].tolist()]


def shuffled_pairs(k: int, n: int) -> list[tuple[int, int]]:
    order = STREAMS.permutation("blocks", k, n).tolist()
    return [(order[i], order[i + 1]) for i in range(0, n - 1, 2)]


@pytest.mark.parametrize("varsigma", ["exact", "pair", 5.0, "any function"])
def test_gs_is_algorithm_1(varsigma: Any) -> None:
    """Of a trace form, and of a function that is not quadratic."""
    problem: Any = log_cosh(5) if varsigma == "any function" else hevp(7)
    n, L = problem.shape[0], problem.lipschitz[0]
    method = GSJOBCD(theta=1e-3, pairs=4) if varsigma == "any function" else GSJOBCD(varsigma=varsigma, theta=1e-3, pairs=4)
    x, found = np.eye(n), states(problem, method, 10, np.eye(n))
    for k in range(10):
        for pair in drawn_pairs(k, 4, n):
            q = naive.isotropic(x, L, pair)
            if varsigma in ("exact", 5.0):
                q = naive.exact(x, problem.trace_form()[0], pair) if varsigma == "exact" else 5.0 * np.eye(4)
            x = naive.step(x, problem.gradient(x[None])[0], [pair], problem.constraint.signs, 1e-3, [q])
        np.testing.assert_allclose(found[k + 1].x[0], x, atol=1e-11)
    assert varsigma != "any function" or [s.gradients for s in found] == list(range(0, 41, 4))


@pytest.mark.parametrize("n", [6, 7])
@pytest.mark.parametrize("make", [hevp, log_cosh], ids=["quadratic", "not quadratic"])
def test_j_is_algorithm_2(make: Callable[[int], Any], n: int) -> None:
    problem = make(n)
    x, L = np.eye(n), problem.lipschitz[0]
    found = states(problem, JJOBCD(theta=1e-3), 10, x)
    for k in range(10):
        pairs = shuffled_pairs(k, n)
        q = [naive.isotropic(x, L, pair) for pair in pairs]
        x = naive.step(x, problem.gradient(x[None])[0], pairs, problem.constraint.signs, 1e-3, q)
        np.testing.assert_allclose(found[k + 1].x[0], x, atol=1e-11)
    assert [s.gradients for s in found] == list(range(11))


def test_vr_is_algorithm_2() -> None:
    """(9), with b = N by default and with a smaller b."""
    problem, n, L = log_cosh(6, samples=100), 6, log_cosh(6, samples=100).lipschitz[0]
    for large in (None, 30):
        x = np.eye(n)

        def batch(k: int, size: int) -> Index:
            return STREAMS.integers("batch", k, size, problem.n_samples)

        def afresh(k: int, x: Array, large: int | None = large) -> Array:
            return (problem.gradient(x[None]) if large is None else problem.gradient_on(x[None], batch(k, large)))[0]

        found = states(problem, VRJJOBCD(theta=1e-3, batch_size=5, large_batch=large, restart=0.4), 12, x)
        estimate, samples, started = afresh(0, x), large or 100, 0
        for k in range(12):
            pairs = shuffled_pairs(k, n)
            old = x
            x = naive.step(x, estimate, pairs, problem.constraint.signs, 1e-3, [naive.isotropic(x, L, pair) for pair in pairs])
            if STREAMS.integers("blocks", k + 1, 1, 1 << 31)[0, 0] < 0.4 * (1 << 31):
                estimate, samples, started = afresh(k + 1, x), samples + (large or 100), started + 1
            else:
                drawn = batch(k + 1, 5)
                estimate = estimate + problem.gradient_on(x[None], drawn)[0] - problem.gradient_on(old[None], drawn)[0]
                samples += 10
            np.testing.assert_allclose(found[k + 1].x[0], x, atol=1e-11)
            np.testing.assert_allclose(found[k + 1].estimate[0], estimate, atol=1e-11)
            assert found[k + 1].samples == samples
        assert 0 < started < 12


@pytest.mark.parametrize(
    "algorithm", [GSJOBCD(pairs=1), GSJOBCD(pairs=1, varsigma="pair"), JJOBCD()], ids=["gs-exact", "gs-pair", "j"]
)
@pytest.mark.parametrize("seed", range(3))
def test_quadratics_never_increase(algorithm: Any, seed: int) -> None:
    problem = hevp(11, 1e3, seed=seed)
    start = problem.constraint.random(np.random.default_rng(seed), 2.0)
    values = np.array([problem.value(s.x)[0] for s in states(problem, algorithm, 200, start)])
    assert (np.diff(values) <= 1e-14 * values[:-1]).all()
    assert values[-1] < 0.5 * values[0]


@pytest.mark.parametrize("algorithm", [GSJOBCD(), JJOBCD(), JJOBCD(varsigma="backtracking")], ids=["gs", "j", "j-backtracking"])
@pytest.mark.parametrize("known", [True, False])
def test_other_functions_never_increase(algorithm: Any, known: bool) -> None:
    """Where nobody knows L_f, auto finds it by trial."""
    problem = log_cosh(8, known=known)
    start = problem.constraint.random(np.random.default_rng(1), 1.5)
    values = np.array([problem.value(s.x)[0] for s in states(problem, algorithm, 150, start)])
    assert (np.diff(values) <= 2e-13 * values[:-1]).all()
    assert values[-1] < 0.6 * values[0]


def test_varsigma_of_the_paper_is_too_small() -> None:
    """Erratum: the majoriser with varsigma = L_f alone is none, and f grows."""
    problem = log_cosh(8)
    start = problem.constraint.random(np.random.default_rng(1), 3.0)
    values = [problem.value(s.x)[0] for s in states(problem, JJOBCD(varsigma=float(problem.lipschitz[0])), 5, start)]
    assert max(np.diff(values)) > 0.0


@pytest.mark.parametrize("varsigma", [1.0, 3.0])
def test_a_run_whose_constant_varsigma_is_too_small_says_so(varsigma: float) -> None:
    """Where it diverges, and where the objective has only risen; with ten times as much, or auto, nothing is said."""
    problem = log_cosh(8)
    start = problem.constraint.random(np.random.default_rng(1), 3.0)
    assert problem.lipschitz[0] < 3.0
    small = varsigma * float(problem.lipschitz[0]) / 3.0
    said = [solve(problem, JJOBCD(varsigma=small), iterations=k, x0=start) for k in (3, 300)]
    for one in said:
        assert f"the varsigma {small:g} is too small: try {10.0 * small:g}, or 'auto'" in one.message
    assert "varsigma" not in solve(problem, JJOBCD(), iterations=30, x0=start).message


def test_backtracking_finds_a_smaller_constant_than_the_bound() -> None:
    """On a quadratic too, in the same state as the others; L falls by a half at most, and rises by doubling."""
    problem = hevp(10)
    found = states(problem, JJOBCD(varsigma="backtracking"), 100)
    levels = np.array([s.varsigma[0] for s in found])
    factors = np.log2(levels[1:] / levels[:-1])
    np.testing.assert_array_equal(factors, np.round(factors))
    assert (factors >= -1).all()
    assert levels[-1] < problem.lipschitz[0]
    assert problem.value(found[-1].x)[0] == pytest.approx(found[-1].value[0], rel=1e-12)
    off = np.eye(10) + 1e-3 * np.random.default_rng(0).standard_normal((10, 10))
    for state in states(problem, JJOBCD(varsigma="backtracking", correction=1), 3, off):
        assert problem.value(state.x)[0] == pytest.approx(state.value[0], rel=1e-12)


def test_backtracking_ends_where_rounding_begins() -> None:
    """At a minimiser no shorter step helps: x and L stay."""
    problem = hevp(8)
    best = solve(problem, HyperbolicJacobi(), iterations=50, rows=2).x[0]
    found = states(problem, JJOBCD(varsigma="backtracking"), 5, best)
    assert found[-1].varsigma[0] <= 2.0**10 * found[0].varsigma[0]
    assert problem.error(found[-1].x[0]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "algorithm", "iterations", "gap"),
    [
        (20, GSJOBCD(), 400, 1e-13),
        (20, GSJOBCD(varsigma="pair"), 400, 1e-8),
        (20, VRJJOBCD(), 2000, 1e-5),
        (100, JJOBCD(), 2000, 1e-2),
    ],
    ids=str,
)
@compiled
def test_the_optimum_is_reached(n: int, algorithm: Any, iterations: int, gap: float) -> None:
    found = solve(hevp(n), algorithm, iterations=iterations, rows=2).row.values
    assert -1e-12 <= found["error"] <= gap
    assert found["feasibility"] <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("n", "condition", "near"), [(20, 1e2, 1e-2), (21, 1e3, 1e-2), (100, 1e3, 1e-2), (100, 1e6, 0.0)])
@compiled
def test_hyperbolic_jacobi_is_exact_and_quadratic(n: int, condition: float, near: float) -> None:
    problem = hevp(n, condition)
    result = solve(problem, HyperbolicJacobi(), iterations=50, record_every=1)
    errors = result.history["error"]
    assert result.status == "converged"
    assert np.flatnonzero(errors <= 1e-10)[0] <= 12
    assert abs(errors[-1]) <= 1e-13
    assert result.row.values["feasibility"] <= 1e-12
    close = np.flatnonzero(errors[:-1] < near)
    assert (errors[close + 1] <= errors[close].clip(1e-10) ** 1.4).all()
    gradient = result.history["gradient_norm"]
    assert gradient[-1] <= 1e-10 * gradient[0]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("algorithm", [GSJOBCD(), JJOBCD(), HyperbolicJacobi()], ids=lambda a: type(a).__name__)
def test_the_smallest_problems(algorithm: Any, n: int) -> None:
    problem = HEVP(np.array([[2.0, 1.0], [0.0, 1.0], [1.0, 1.0]])[:, :n], [1.0, -1.0][:n])
    result = solve(problem, algorithm, iterations=200, rows=2)
    assert abs(result.row.values["error"]) <= 1e-9


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("correction", [0, 100])
def test_feasibility_after_a_million_row_updates(correction: int) -> None:
    problem = hevp(20)
    state = states(problem, GSJOBCD(pairs=1000, correction=correction), 500)[-1]
    assert state.corrections == (5 if correction else 0)
    assert problem.constraint.violation(state.x)[0] <= (1e-12 if correction else 1e-10)
    assert state.drift[0] <= 1e-11


@pytest.mark.parametrize("algorithm", [GSJOBCD(correction=3), JJOBCD(correction=3)], ids=["gs", "j"])
def test_corrections_are_made_and_counted(algorithm: Any) -> None:
    problem = hevp(8)
    off = np.eye(8) + 1e-4 * np.random.default_rng(0).standard_normal((8, 8))
    found = states(problem, algorithm, 7, off)
    assert [s.corrections for s in found] == [0, 0, 0, 1, 1, 1, 2, 2]
    violations = [problem.constraint.violation(s.x)[0] for s in found]
    assert violations[2] > 1e-5
    assert violations[3] < 1e-6
    assert violations[6] < 1e-11
    np.testing.assert_allclose(found[-1].product[0], found[-1].x[0] @ found[-1].x[0].T, atol=1e-12)


def test_the_product_stays_that_of_x() -> None:
    problem = hevp(12)
    end = states(problem, JJOBCD(), 201)[-1]
    np.testing.assert_allclose(end.product[0], end.x[0] @ end.x[0].T, atol=1e-14)
    assert 0.0 < end.drift[0] <= 1e-13


def as_printed(n: int = 10) -> HEVP:
    return HEVP(np.random.default_rng(0).standard_normal((n, n)), signs(n), "as-printed")


@pytest.mark.parametrize(
    ("algorithm", "lines"),
    [(GSJOBCD(), "rows"), (GSJOBCD(varsigma="pair"), "rows"), (JJOBCD(), "rows"), (HyperbolicJacobi(), "columns")],
    ids=["gs-exact", "gs-pair", "j", "jacobi"],
)
def test_what_is_unbounded_is_said_to_be(algorithm: Any, lines: str) -> None:
    problem = as_printed()
    result = solve(problem, algorithm, iterations=5000)
    assert (result.status, result.converged) == ("unbounded", False)
    assert f"the objective is unbounded below: {lines} " in result.message
    assert np.isfinite(result.x).all()
    assert result.row.values["feasibility"] <= 1e-7

    i, j, ray = (int(one) for one in result.state.ray[0])
    first, second = problem.constraint.signs[[i, j]]
    assert first != second
    values = []
    for mu in (0.0, 4.0, 8.0, 12.0):
        away = result.x[0].copy() if lines == "rows" else result.x[0].T.copy()
        c, s = np.cosh(mu), np.sign(ray) * np.sinh(mu)
        away[[i, j]] = np.array([[c, s], [s, c]] if abs(ray) == 1 else [[-c, -s], [s, c]]) @ away[[i, j]]
        values.append(float(problem.value((away if lines == "rows" else away.T.copy())[None])[0]))
    assert values[3] < 100.0 * values[2] < 1e4 * values[1] < 0.0


@pytest.mark.parametrize("seed", range(12))
def test_the_steepest_ray_is_that_of_the_exact_subproblems(seed: int) -> None:
    """Of all pairs with two signs and both families: the least w - |d|, its rows, and the end at which f falls."""
    rng, n = np.random.default_rng(seed), 6
    half, x, j = rng.standard_normal((n, n)), rng.standard_normal((n, n)), signs(n, seed)
    H, M = half + half.T, x @ x.T
    found = []
    for i in range(n):
        for k in range(i + 1, n):
            if j[i] != j[k]:
                rows = np.ix_((i, k), (i, k))
                q = BASIS @ np.kron(M[rows], H[rows]) @ BASIS.T
                for family, (one, two, d) in enumerate(((0, 1, q[0, 1]), (2, 3, -q[2, 3])), start=1):
                    w = 0.5 * (q[one, one] + q[two, two])
                    found.append((w - abs(d), i, k, family * (-1 if d > 0.0 else 1)))
    least, i, k, ray = min(found)
    assert least < 0.0
    assert steepest_ray(H, M, j)[0].tolist() == [i, k, ray]
    falls = []
    for t in (3.0, 5.0):
        away = x.copy()
        away[[i, k]] = ray_matrix(ray, t) @ x[[i, k]]
        falls.append(0.5 * np.trace(away.T @ H @ away) / np.exp(2.0 * t))
    assert falls[1] == pytest.approx(0.25 * least, rel=0.05)
    assert np.isnan(steepest_ray(half @ half.T, M, j)).all()


def test_bounded_objectives_are_not_said_to_be_unbounded() -> None:
    """From a start so large that rounding alone breaks its feasibility."""
    problem = hevp(6)
    start = problem.constraint.random(np.random.default_rng(0), 1.0)
    far = start @ np.linalg.matrix_power(problem.constraint.random(np.random.default_rng(1), 3.0), 4)
    for algorithm in (GSJOBCD(), JJOBCD()):
        found = states(problem, algorithm, 20, far)
        assert all(np.isnan(s.ray).all() for s in found)
