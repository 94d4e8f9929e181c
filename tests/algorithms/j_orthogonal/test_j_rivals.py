"""The rivals of JOBCD on x^T J x = J: against the formulas, exact optima, and how far their published settings get."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from decentorth import CSDM, JADMM, RGD, UMCM, solve
from decentorth.problems import Procrustes
from decentorth.protocols import Array
from decentorth.sets import JOrthogonal
from tests.reference import jobcd as naive
from tests.support.j_orthogonal import hevp, log_cosh, states


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
    """From a start that was decomposed, with fewer and more rows of sign +1 than -1, in mixed order.

    A quadratic function has no slope along rotations of several rows without a mu, and Adagrad makes steps of what rounding leaves.
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
    found = states(problem, JADMM(schedule=schedule, penalty=2.0 if schedule == "published" else "auto"), 12, x)
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
        return naive.umcm_value(lambda x: float(problem.value(np.ascontiguousarray(x[None]))[0]), gradient, x, J, beta)

    rng = np.random.default_rng(4)
    for before, after in pairwise(found):
        np.testing.assert_allclose(after.x, before.x - eta * before.field, atol=1e-14)
        d, x, t = rng.standard_normal((6, 6)), before.x[0], 1e-5
        assert (h(x + t * d) - h(x - t * d)) / (2 * t) == pytest.approx((before.field[0] * d).sum(), rel=1e-7)
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
    """From 1e2 to 1e5 on, doubled every five iterations; each gradient has the penalty of its own iteration."""
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


def test_hessian_products_of_sums_of_squares() -> None:
    """Agents that keep their rows beside agents that keep products, and targets, which do not matter."""
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((m, 6)) for m in (2, 9, 2, 3)]
    problem = Procrustes(rows, [rng.standard_normal((3, len(a))) for a in rows])
    x, v = rng.standard_normal((2, 4, 6, 3))
    np.testing.assert_allclose(problem.hessian_product(x, v), problem.gradient(x + v) - problem.gradient(x), atol=1e-12)


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
def test_the_optimum_is_reached(n: int, algorithm: Any, iterations: int, gap: float) -> None:
    result = solve(hevp(n), algorithm, iterations=iterations, rows=2)
    assert abs(result.row.values["error"]) <= gap
    assert result.row.values["feasibility"] <= min(gap, 1e-13)
    assert result.history["error"][0] > 0.3


@pytest.mark.slow
def test_other_functions_have_one_minimum() -> None:
    """log cosh is convex, its minimum over the set the same for all: to each other and to a vanishing gradient."""
    problem: Any = log_cosh(8)
    methods: list[tuple[Any, int]] = [(RGD(step_size="bb"), 1000), (UMCM(), 3000), (JADMM(), 6000)]
    ends = [solve(problem, algorithm, x0=np.eye(8), iterations=iterations, rows=2).row.values for algorithm, iterations in methods]
    for end in ends:
        assert end["gradient_norm"] <= 1e-8
        assert end["feasibility"] <= 1e-10
        assert end["objective"] == pytest.approx(ends[0]["objective"], rel=1e-9)


@pytest.mark.slow
def test_the_published_schedule_of_admm_freezes() -> None:
    """At a feasible point that is no better than the start."""
    problem = hevp(20)
    result = solve(problem, JADMM(schedule="published"), x0=start(problem, 1.0), iterations=2000, rows=2)
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
    assert solve(problem, UMCM(penalty=0.5 * float(problem.lipschitz[0])), x0=x0, iterations=2000).status == "diverged"


def test_automatic_steps_and_penalties_of_umcm() -> None:
    """beta = 3 L; the first step 1 / (2 L + 4 beta ||x0||_2^2), what bounds the curvature there."""
    problem = log_cosh(6)
    x0, L = start(problem), float(problem.lipschitz[0])
    size = np.linalg.norm(x0, 2) ** 2
    for algorithm, beta in ((UMCM(), 3.0 * L), (UMCM(penalty=1.7), 1.7)):
        state = states(problem, algorithm, 0, x0)[0]
        assert state.penalty[0] == pytest.approx(beta, rel=1e-14)
        assert state.base[0] == state.step_size[0] == pytest.approx(1.0 / (2.0 * L + 4.0 * beta * size), rel=1e-12)


def test_an_unknown_lipschitz_constant_is_estimated() -> None:
    """JADMM's l and UMCM's beta, from gradients that are counted."""
    known, rough = log_cosh(8), log_cosh(8, known=False)
    for algorithm, name, factor in ((JADMM(), "curvature", 1.0), (UMCM(), "penalty", 3.0)):
        state = states(rough, algorithm, 0, np.eye(8))[0]
        assert 0.1 * known.lipschitz[0] < getattr(state, name)[0] / factor <= (1.0 + 1e-6) * known.lipschitz[0]
        assert state.gradients == 13 + isinstance(algorithm, UMCM)
