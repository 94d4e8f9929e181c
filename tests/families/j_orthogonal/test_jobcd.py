"""JOBCD, the hyperbolic Jacobi method and their rivals: formulas, exact optima, descent, drift, and
what has no minimum."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from decentorth import CSDM, GSJOBCD, JADMM, JJOBCD, RGD, UMCM, VRJJOBCD, HyperbolicJacobi, solve
from decentorth.families.j_orthogonal.algorithms.jobcd import steepest_ray
from decentorth.families.j_orthogonal.kernels.subproblem import BASIS, ray_matrix
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import HEVP
from decentorth.protocols import Array, Index
from decentorth.sets import JOrthogonal
from tests.families.j_orthogonal import jobcd_by_equations as naive
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
    method = (
        GSJOBCD(theta=1e-3, pairs=4)
        if varsigma == "any function"
        else GSJOBCD(varsigma=varsigma, theta=1e-3, pairs=4)
    )
    x, found = np.eye(n), states(problem, method, 10, np.eye(n))
    for k in range(10):
        for pair in drawn_pairs(k, 4, n):
            q = naive.isotropic(x, L, pair)
            if varsigma in ("exact", 5.0):
                q = (
                    naive.exact(x, problem.trace_form()[0], pair)
                    if varsigma == "exact"
                    else 5.0 * np.eye(4)
                )
            x = naive.step(
                x, problem.gradient(x[None])[0], [pair], problem.constraint.signs, 1e-3, [q]
            )
        np.testing.assert_allclose(found[k + 1].x[0], x, atol=1e-11)
    assert varsigma != "any function" or [s.gradients for s in found] == list(range(0, 41, 4))
    with pytest.raises(TypeError, match="GSJOBCD needs TraceForm of its problem; LogCosh has none"):
        solve(log_cosh(4), GSJOBCD(varsigma="exact"), x0=np.eye(4), iterations=1)


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
            return (
                problem.gradient(x[None])
                if large is None
                else problem.gradient_on(x[None], batch(k, large))
            )[0]

        found = states(
            problem, VRJJOBCD(theta=1e-3, batch_size=5, large_batch=large, restart=0.4), 12, x
        )
        estimate, samples, started = afresh(0, x), large or 100, 0
        for k in range(12):
            pairs = shuffled_pairs(k, n)
            old = x
            x = naive.step(
                x,
                estimate,
                pairs,
                problem.constraint.signs,
                1e-3,
                [naive.isotropic(x, L, pair) for pair in pairs],
            )
            if STREAMS.integers("blocks", k + 1, 1, 1 << 31)[0, 0] < 0.4 * (1 << 31):
                estimate, samples, started = afresh(k + 1, x), samples + (large or 100), started + 1
            else:
                drawn = batch(k + 1, 5)
                estimate = (
                    estimate
                    + problem.gradient_on(x[None], drawn)[0]
                    - problem.gradient_on(old[None], drawn)[0]
                )
                samples += 10
            np.testing.assert_allclose(found[k + 1].x[0], x, atol=1e-11)
            np.testing.assert_allclose(found[k + 1].estimate[0], estimate, atol=1e-11)
            assert found[k + 1].samples == samples
        assert 0 < started < 12


@pytest.mark.parametrize(
    "algorithm",
    [GSJOBCD(pairs=1), GSJOBCD(pairs=1, varsigma="pair"), JJOBCD()],
    ids=["gs-exact", "gs-pair", "j"],
)
@pytest.mark.parametrize("seed", range(3))
def test_quadratics_never_increase(algorithm: Any, seed: int) -> None:
    problem = hevp(11, 1e3, seed=seed)
    start = problem.constraint.random(np.random.default_rng(seed), 2.0)
    values = np.array([problem.value(s.x)[0] for s in states(problem, algorithm, 200, start)])
    assert (np.diff(values) <= 1e-14 * values[:-1]).all()
    assert values[-1] < 0.5 * values[0]


@pytest.mark.parametrize(
    "algorithm",
    [GSJOBCD(), JJOBCD(), JJOBCD(varsigma="backtracking")],
    ids=["gs", "j", "j-backtracking"],
)
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
    values = [
        problem.value(s.x)[0]
        for s in states(problem, JJOBCD(varsigma=float(problem.lipschitz[0])), 5, start)
    ]
    assert max(np.diff(values)) > 0.0


@pytest.mark.parametrize("varsigma", [1.0, 3.0])
def test_a_run_whose_constant_varsigma_is_too_small_says_so(varsigma: float) -> None:
    """Where it diverges, and where the objective has only risen; with ten times as much, or auto,
    nothing is said."""
    problem = log_cosh(8)
    start = problem.constraint.random(np.random.default_rng(1), 3.0)
    assert problem.lipschitz[0] < 3.0
    small = varsigma * float(problem.lipschitz[0]) / 3.0
    said = [solve(problem, JJOBCD(varsigma=small), iterations=k, x0=start) for k in (3, 300)]
    for one in said:
        assert (
            f"the varsigma {small:g} is too small: try {10.0 * small:g}, or 'auto'" in one.message
        )
    assert "varsigma" not in solve(problem, JJOBCD(), iterations=30, x0=start).message


def test_backtracking_finds_a_smaller_constant_than_the_bound() -> None:
    """On a quadratic too, in the same state as the others; L falls by a half at most, and rises by
    doubling."""
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
@pytest.mark.parametrize(
    ("n", "condition", "near"),
    [(20, 1e2, 1e-2), (21, 1e3, 1e-2), (100, 1e3, 1e-2), (100, 1e6, 0.0)],
)
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
@pytest.mark.parametrize(
    "algorithm", [GSJOBCD(), JJOBCD(), HyperbolicJacobi()], ids=lambda a: type(a).__name__
)
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


@pytest.mark.parametrize(
    "algorithm", [GSJOBCD(correction=3), JJOBCD(correction=3)], ids=["gs", "j"]
)
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
    [
        (GSJOBCD(), "rows"),
        (GSJOBCD(varsigma="pair"), "rows"),
        (JJOBCD(), "rows"),
        (HyperbolicJacobi(), "columns"),
    ],
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
        away[[i, j]] = (
            np.array([[c, s], [s, c]] if abs(ray) == 1 else [[-c, -s], [s, c]]) @ away[[i, j]]
        )
        values.append(float(problem.value((away if lines == "rows" else away.T.copy())[None])[0]))
    assert values[3] < 100.0 * values[2] < 1e4 * values[1] < 0.0


@pytest.mark.parametrize("seed", range(12))
def test_the_steepest_ray_is_that_of_the_exact_subproblems(seed: int) -> None:
    """Of all pairs with two signs and both families: the least w - |d|, its rows, and the end at
    which f falls."""
    rng, n = np.random.default_rng(seed), 6
    half, x, j = rng.standard_normal((n, n)), rng.standard_normal((n, n)), signs(n, seed)
    H, M = half + half.T, x @ x.T
    found = []
    for i in range(n):
        for k in range(i + 1, n):
            if j[i] != j[k]:
                rows = np.ix_((i, k), (i, k))
                q = BASIS @ np.kron(M[rows], H[rows]) @ BASIS.T
                for family, (one, two, d) in enumerate(
                    ((0, 1, q[0, 1]), (2, 3, -q[2, 3])), start=1
                ):
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
    far = start @ np.linalg.matrix_power(
        problem.constraint.random(np.random.default_rng(1), 3.0), 4
    )
    for algorithm in (GSJOBCD(), JJOBCD()):
        found = states(problem, algorithm, 20, far)
        assert all(np.isnan(s.ray).all() for s in found)


def start(problem: Any, spread: float = 0.5) -> Array:
    return problem.constraint.random(np.random.default_rng(1), spread)


def alone(problem: Any) -> naive.Gradient:
    def gradient(x: Array) -> Array:
        return problem.gradient(np.ascontiguousarray(x[None]))[0]

    return gradient


KINDS = pytest.mark.parametrize("make", [hevp, log_cosh], ids=["quadratic", "not quadratic"])


@pytest.mark.parametrize(
    ("make", "positive"),
    [*((log_cosh, positive) for positive in (0, 1, 3, 5, 6, 7)), (hevp, 3), (hevp, 4)],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_csdm_is_adagrad_on_the_factors(make: Callable[[int], Any], positive: int) -> None:
    """From a start that was decomposed, with fewer and more rows of sign +1 than -1, in mixed
    order.

    A quadratic function has no slope along rotations of several rows without a mu, and Adagrad
    makes steps of what rounding leaves.
    """
    n, rate = 7, 0.1
    problem = make(n)
    signs = np.random.default_rng(2).permutation(np.where(np.arange(n) < positive, 1.0, -1.0))
    problem.constraint = JOrthogonal.with_signs(signs)
    order = np.concatenate((np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)))
    back, x0, gradient = np.argsort(order), start(problem), alone(problem)
    found = states(problem, CSDM(step_size=rate), 12, x0)

    u1, u2, v1, v2, mu = (part[0, 0] for part in found[0].factors)
    U, V = np.zeros((2, n, n))
    for whole, one, two in ((U, u1, u2), (V, v1, v2)):
        whole[:positive, :positive], whole[positive:, positive:] = one, two
        np.testing.assert_allclose(whole.T @ whole, np.eye(n), atol=1e-13)
    squares: list[Any] = [0.0, 0.0, 0.0]
    for k in range(13):
        x = (U @ naive.hyperbolic(mu, positive, n - positive) @ V.T)[np.ix_(back, back)]
        np.testing.assert_allclose(found[k].x[0], x, atol=1e-11)
        slopes = naive.csdm_slopes(U, V, mu, gradient(x)[np.ix_(order, order)], positive)
        squares = [old + slope**2 for old, slope in zip(squares, slopes, strict=True)]
        a = [naive.adagrad(slope, sums, rate) for slope, sums in zip(slopes, squares, strict=True)]
        U, mu = naive.cayley(U, a[0]), mu - a[2]
        if make is log_cosh:  # V does nothing to a quadratic function
            V = naive.cayley(V, a[1])
    assert [s.gradients for s in found] == list(range(13))


@KINDS
@pytest.mark.parametrize("schedule", ["constant", "published"])
def test_jadmm_is_algorithm_3(make: Callable[[int], Any], schedule: Any) -> None:
    problem = make(6)
    J, L, gradient = np.diag(problem.constraint.signs), float(problem.lipschitz[0]), alone(problem)
    x = start(problem)
    y, z, w = J @ x, np.zeros_like(x), np.zeros_like(x)
    found = states(
        problem, JADMM(schedule=schedule, penalty=2.0 if schedule == "published" else "auto"), 12, x
    )
    beta = 0.3 * L if schedule == "constant" else 2.0
    for k in range(1, 13):
        x, y, z, w = naive.admm(x, y, z, w, gradient, J, L, beta)
        for name, expected in (("x", x), ("y", y), ("z", z), ("w", w)):
            np.testing.assert_allclose(getattr(found[k], name)[0], expected, atol=1e-9)
        if schedule == "published" and k % 5 == 0:
            beta *= 2
    assert found[12].penalty[0] == beta
    assert [s.gradients for s in found] == list(range(13))


@KINDS
def test_umcm_descends_along_its_gradient(make: Callable[[int], Any]) -> None:
    """Off the set, by differences of h; and step by step."""
    problem, beta, eta = make(6), 1.7, 1e-3
    J, gradient = np.diag(problem.constraint.signs), alone(problem)
    x0 = start(problem) + 0.3 * np.random.default_rng(3).standard_normal((6, 6))
    found = states(problem, UMCM(step_size=eta, penalty=beta), 4, x0)

    def h(x: Array) -> float:
        return naive.umcm_value(
            lambda x: float(problem.value(np.ascontiguousarray(x[None]))[0]), gradient, x, J, beta
        )

    rng = np.random.default_rng(4)
    for before, after in pairwise(found):
        np.testing.assert_allclose(after.x, before.x - eta * before.field, atol=1e-14)
        d, x, t = rng.standard_normal((6, 6)), before.x[0], 1e-5
        assert (h(x + t * d) - h(x - t * d)) / (2 * t) == pytest.approx(
            (before.field[0] * d).sum(), rel=1e-7
        )
    if make is hevp:
        expected = naive.umcm_quadratic(0.5 * problem.trace_form()[0], x0, J, beta)
        np.testing.assert_allclose(found[0].field[0], expected, atol=1e-12)


def test_umcm_by_adagrad() -> None:
    problem, rate = hevp(6), 5e-3
    J, C = np.diag(problem.constraint.signs), 0.5 * problem.trace_form()[0]
    x = start(problem)
    found = states(problem, UMCM(optimizer="adagrad"), 10, x)
    squares = np.zeros_like(x)
    for k in range(1, 11):
        slope = naive.umcm_quadratic(C, x, J, 3.0 * float(problem.lipschitz[0]))
        squares = squares + slope**2
        x = x - naive.adagrad(slope, squares, rate)
        np.testing.assert_allclose(found[k].x[0], x, atol=1e-11)


def test_the_penalty_of_umcm_grows_as_that_of_admm() -> None:
    """From 1e2 to 1e5 on, doubled every five iterations; each gradient has the penalty of its own
    iteration."""
    problem, eta = hevp(6), 1e-6
    J, C = np.diag(problem.constraint.signs), 0.5 * problem.trace_form()[0]
    x0 = start(problem) + 0.1 * np.random.default_rng(3).standard_normal((6, 6))
    found = states(problem, UMCM(schedule="published", penalty=1e2, step_size=eta), 11, x0)
    assert [s.penalty[0] for s in found] == [1e2] * 5 + [2e2] * 5 + [4e2] * 2
    for before, after in pairwise(found):
        np.testing.assert_array_equal(after.x, before.x - eta * before.field)
        slope = naive.umcm_quadratic(C, after.x[0], J, float(after.penalty[0]))
        np.testing.assert_allclose(after.field[0], slope, atol=1e-10)
    assert states(problem, UMCM(schedule="published"), 0, x0)[0].penalty[0] == 1e3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "algorithm", "iterations", "gap"),
    [
        (20, CSDM(), 3000, 1e-5),
        (20, RGD(), 1000, 1e-12),
        (100, JADMM(), 1000, 1e-10),
        (100, UMCM(), 1000, 1e-10),
        (100, RGD(step_size="bb"), 500, 1e-12),
    ],
    ids=str,
)
def test_the_rivals_reach_the_optimum(n: int, algorithm: Any, iterations: int, gap: float) -> None:
    result = solve(hevp(n), algorithm, iterations=iterations, rows=2)
    assert abs(result.row.values["error"]) <= gap
    assert result.row.values["feasibility"] <= min(gap, 1e-13)
    assert result.history["error"][0] > 0.3


@pytest.mark.slow
def test_other_functions_have_one_minimum() -> None:
    """log cosh is convex, its minimum over the set the same for all: to each other and to a
    vanishing gradient."""
    problem: Any = log_cosh(8)
    methods: list[tuple[Any, int]] = [(RGD(step_size="bb"), 1000), (UMCM(), 3000), (JADMM(), 6000)]
    ends = [
        solve(problem, algorithm, x0=np.eye(8), iterations=iterations, rows=2).row.values
        for algorithm, iterations in methods
    ]
    for end in ends:
        assert end["gradient_norm"] <= 1e-8
        assert end["feasibility"] <= 1e-10
        assert end["objective"] == pytest.approx(ends[0]["objective"], rel=1e-9)


@pytest.mark.slow
def test_the_published_schedule_of_admm_freezes() -> None:
    """At a feasible point that is no better than the start."""
    problem = hevp(20)
    result = solve(
        problem, JADMM(schedule="published"), x0=start(problem, 1.0), iterations=2000, rows=2
    )
    assert result.row.values["feasibility"] <= 1e-13
    assert result.row.values["error"] > 0.9 * result.history["error"][0] > 1.0


def test_the_published_penalty_doubles_until_it_is_beyond_a_milliard() -> None:
    found = states(hevp(6), JADMM(schedule="published", penalty=6e8), 11, np.eye(6))
    assert [s.penalty[0] for s in found] == [6e8] * 5 + [1.2e9] * 7
    assert states(hevp(6), JADMM(schedule="published"), 0, np.eye(6))[0].penalty[0] == 1e3


def test_published_umcm_stands_still_and_a_small_penalty_runs_away() -> None:
    problem = hevp(20)
    x0 = start(problem, 1.0)
    slow = solve(problem, UMCM(optimizer="adagrad"), x0=x0, iterations=3000, rows=2)
    assert slow.row.values["error"] > 1e-2
    assert (
        solve(
            problem, UMCM(penalty=0.5 * float(problem.lipschitz[0])), x0=x0, iterations=2000
        ).status
        == "diverged"
    )


def test_automatic_steps_and_penalties_of_umcm() -> None:
    """beta = 3 L; the first step 1 / (2 L + 4 beta ||x0||_2^2), what bounds the curvature there."""
    problem = log_cosh(6)
    x0, L = start(problem), float(problem.lipschitz[0])
    size = np.linalg.norm(x0, 2) ** 2
    for algorithm, beta in ((UMCM(), 3.0 * L), (UMCM(penalty=1.7), 1.7)):
        state = states(problem, algorithm, 0, x0)[0]
        assert state.penalty[0] == pytest.approx(beta, rel=1e-14)
        assert (
            state.base[0]
            == state.step_size[0]
            == pytest.approx(1.0 / (2.0 * L + 4.0 * beta * size), rel=1e-12)
        )


def test_an_unknown_lipschitz_constant_is_estimated() -> None:
    """JADMM's l and UMCM's beta, from gradients that are counted."""
    known, rough = log_cosh(8), log_cosh(8, known=False)
    for algorithm, name, factor in ((JADMM(), "curvature", 1.0), (UMCM(), "penalty", 3.0)):
        state = states(rough, algorithm, 0, np.eye(8))[0]
        assert (
            0.1 * known.lipschitz[0]
            < getattr(state, name)[0] / factor
            <= (1.0 + 1e-6) * known.lipschitz[0]
        )
        assert state.gradients == 13 + isinstance(algorithm, UMCM)
