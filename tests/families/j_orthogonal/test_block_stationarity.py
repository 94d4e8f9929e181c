"""The theorems of paper 001 by the quantities that they bound, and its statements that fail as
printed."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, islice, pairwise, product
from math import comb
from typing import Any

import numpy as np
import pytest

from decentorth import GSJOBCD, VRJJOBCD, HyperbolicJacobi, iterate, solve
from decentorth.protocols import Array
from decentorth.sets import JOrthogonal
from decentorth.theory import block_stationarity
from tests.families.j_orthogonal import jobcd_by_equations as naive
from tests.support.j_orthogonal import LogCosh, hevp, signs

N, SAMPLES = 6, 36


def measure(problem: Any, x: Array, varsigma: float, theta: float, scaled: bool = True) -> float:
    return block_stationarity(
        x, problem.gradient(x[None])[0], problem.constraint.signs, varsigma, theta, scaled=scaled
    )


def followed(
    problem: Any, algorithm: Any, iterations: int, seed: int = 0, x0: Array | None = None
) -> list[Array]:
    return [
        state.x[0].copy()
        for state in islice(iterate(problem, algorithm, x0=x0, seed=seed), iterations + 1)
    ]


def sums(seed: int = 0) -> tuple[LogCosh, float]:
    """A finite sum, and a constant L_f of each of its functions (A-ii)."""
    A = np.random.default_rng(seed).standard_normal((SAMPLES, N))
    return LogCosh(A, signs(N, seed)), float((A * A).sum(-1).max())


def far(problem: Any, seed: int = 1) -> Array:
    return problem.constraint.random(np.random.default_rng(seed))


@pytest.mark.parametrize("scaled", [True, False])
def test_the_measure_is_definition_4_4(scaled: bool) -> None:
    problem = hevp(N)
    x, L, theta = far(problem), float(problem.lipschitz[0]), 0.1
    G, J, found = problem.gradient(x[None])[0], problem.constraint.signs, []
    for i, j in combinations(range(N), 2):
        own = x[[i, j]]
        level = L * np.linalg.norm(own @ own.T, 2) if scaled else L
        Q = (level + theta) * np.eye(4)
        P = (G @ x.T)[np.ix_([i, j], [i, j])] - naive.mat(Q @ naive.vec(np.eye(2)))
        found.append(np.linalg.norm(naive.minimiser(P, Q, (J[i], J[j])) - np.eye(2)) ** 2)
    assert measure(problem, x, L, theta, scaled) == pytest.approx(np.mean(found), rel=1e-8)
    assert len(found) == comb(N, 2)


def test_theorem_3_3_a_block_stationary_point_is_critical_and_not_conversely() -> None:
    """The minimum of the eigenvalue problem is both. x = I is critical for <A, x>, A diagonal, and
    a turn by pi is better."""
    problem = hevp(N)
    L, J = float(problem.lipschitz[0]), problem.constraint.signs
    x = solve(problem, HyperbolicJacobi(), iterations=40, comm="serial").x[0]
    assert measure(problem, x, L, 1e-6) < 1e-20
    lemma = x @ problem.gradient(x[None])[0].T * J
    np.testing.assert_allclose(lemma, lemma.T, atol=1e-9)
    A, one = np.diag([3.0, 2.0, 4.0]), np.eye(3)
    assert block_stationarity(one, A, np.ones(3), 0.1) == pytest.approx(8.0)
    np.testing.assert_array_equal(one @ A.T, (one @ A.T).T)
    assert block_stationarity(one, -A, np.ones(3), 0.1) == 0.0


def test_theorem_4_6_bounds_the_measure_of_gs_jobcd() -> None:
    """The mean over the iterations, and so the least, is at most 2 (f(x_0) - f*) / (theta (T + 1)),
    with the repaired varsigma."""
    problem, T = hevp(N), 60
    x0, L = far(problem), float(problem.lipschitz[0])
    for theta in (0.1 * L, L):
        found = []
        for seed in range(5):
            points = followed(problem, GSJOBCD(varsigma="pair", theta=theta, pairs=1), T, seed, x0)
            found.append(np.mean([measure(problem, x, L, theta) for x in points]))
        assert problem.optimum is not None
        bound = 2.0 * (problem.value(x0[None])[0] - problem.optimum) / (theta * (T + 1))
        assert 1e-4 * bound < np.mean(found) <= bound


def test_theorem_4_7_is_empty_for_the_published_theta() -> None:
    """varpi = (theta - X^2 - L_f^2 X^2) / 2 must be positive, but every J-orthogonal x has
    ||x||_F^2 >= n."""
    for seed in range(20):
        x = far(hevp(N), seed)
        assert (x * x).sum() >= N - 1e-12
        assert 1e-6 - (x * x).sum() < 0.0


def test_theorem_4_7_repaired_bounds_the_measure_of_vr_j_jobcd() -> None:
    """With varsigma >= L_f X^2 and theta > 2 L_f X^2, the mean is at most 2 (f(x_0) - 0) /
    ((theta - 2 L_f X^2) (T + 1))."""
    problem, L = sums()
    x0, T = far(problem), 40
    X2 = 2.0 * (x0 * x0).sum()
    theta, found = 4.0 * L * X2, []
    method = VRJJOBCD(varsigma=L * X2, theta=theta)
    for seed in range(5):
        points = followed(problem, method, T, seed, x0)
        assert max((x * x).sum() for x in points) <= X2
        found.append(
            np.mean([N / 2 * measure(problem, x, L * X2, theta, scaled=False) for x in points])
        )
    bound = 2.0 * (problem.value(x0[None])[0]) / ((theta - 2.0 * L * X2) * (T + 1))
    assert np.mean(found) <= bound


@pytest.mark.parametrize("large", [2, 3, 5, 6])
def test_lemma_4_5_bounds_the_error_of_the_estimate(large: int) -> None:
    """E u_k <= p (N - b) / (b (N - 1)) sigma^2 + (1 - p) u + (1 - p) L_f^2 X^2 / b' sum ||V_i -
    I||^2, exactly, over the coin, all subsets of b and all draws of b' of N = 6 samples.

    The first term is an equality. u is the error of the estimate along a run, whose next estimate is
    one of those that are averaged. The package draws b samples with replacement, as it does b'.
    """
    A = np.random.default_rng(0).standard_normal((6, N))
    problem, total, small, restart = LogCosh(A, signs(N)), 6, 2, 0.3
    L = float((A * A).sum(-1).max())
    method = VRJJOBCD(
        varsigma=50.0, large_batch=large, batch_size=small, restart=restart, correction=0
    )

    def each(x: Array) -> Array:
        return np.stack([problem.gradient_on(x[None], np.array([[i]]))[0] for i in range(total)])

    run = [
        (state.x[0].copy(), state.estimate[0].copy())
        for state in islice(iterate(problem, method, x0=far(problem), seed=3), 12)
    ]
    errors = 0
    for (before, estimate), (after, drawn) in pairwise(run):
        gradients, mean = each(after), problem.gradient(after[None])[0]
        u = np.square(estimate - problem.gradient(before[None])[0]).sum()
        errors += u > 1e-8
        sigma2 = np.square(gradients - mean).sum((1, 2)).mean()
        fresh = [gradients[list(own)].mean(0) for own in combinations(range(total), large)]
        first = np.mean([np.square(one - mean).sum() for one in fresh])
        assert first == pytest.approx(
            (total - large) / (large * (total - 1)) * sigma2, rel=1e-9, abs=1e-12
        )
        changes = gradients - each(before)
        moved = [
            estimate + changes[list(own)].mean(0) for own in product(range(total), repeat=small)
        ]
        second = np.mean([np.square(one - mean).sum() for one in moved])
        turned = after @ np.linalg.inv(before) - np.eye(N)  # the blocks V_i - I
        reach = L**2 * np.square(before).sum() / small * np.square(turned).sum()
        assert second <= u + reach
        assert restart * first + (1 - restart) * second <= restart * first + (1 - restart) * (
            u + reach
        )
        again = combinations_with_replacement(range(total), large)
        possible = [*moved, *(gradients[list(own)].mean(0) for own in again)]
        assert min(np.abs(one - drawn).max() for one in possible) < 1e-12
    assert errors > 5 or large == 6


def test_theorem_4_9_the_path_of_gs_jobcd_has_a_finite_length() -> None:
    """Its second half is shorter than a thousandth of the first."""
    problem = hevp(N)
    points = np.stack(followed(problem, GSJOBCD(pairs=40), 60, x0=far(problem)))
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=(-2, -1))
    assert lengths[30:].sum() < 1e-3 * lengths[:30].sum()


@pytest.mark.slow
def test_theorem_4_10_the_path_of_vr_j_jobcd_is_finite_and_does_not_shorten_with_the_samples() -> (
    None
):
    """The same f from 16 rows, each of them once or 4096 times: N^(1/4) says that the second path
    is an eighth of the first.

    It has the same length, which no path can have below the distance of its ends, whatever N. The
    last fifth is short.
    """
    rows, lengths = np.random.default_rng(0).standard_normal((16, N)), {}
    for copies in (1, 4096):
        problem, total = LogCosh(np.repeat(rows, copies, axis=0), signs(N)), 16 * copies
        small = int(total**0.5)
        method = VRJJOBCD(
            varsigma="pair", large_batch=total, batch_size=small, restart=small / (total + small)
        )
        found = []
        for seed in range(3):
            points = np.stack(followed(problem, method, 1500, seed, far(problem))[1:])
            moves = np.linalg.norm(np.diff(points, axis=0), axis=(-2, -1))
            assert moves[1200:].sum() < 0.05 * moves.sum()
            assert moves.sum() > np.linalg.norm(points[-1] - points[0])
            found.append(moves.sum())
        lengths[copies] = np.mean(found)
    assert lengths[4096] == pytest.approx(lengths[1], rel=0.2)


def test_lemma_2_5_c_needs_the_bound_of_H() -> None:
    """Step 1 has no cross terms between pairs: they are there for a general H, and its claim with
    Q = Q_underbar fails by them.

    With ||.||_H^2 <= L_f ||.||_F^2 first, the terms of disjoint rows separate, and varsigma = L_f
    ||Z||_2^2 is enough.
    """
    rng, apart, above = np.random.default_rng(0), 0, 0
    for _ in range(200):
        root = rng.standard_normal((N, N))
        H, x = root @ root.T, JOrthogonal.with_signs(signs(N)).random(rng)
        parts = []
        for rows in ([0, 1], [2, 3], [4, 5]):
            part = np.zeros((N, N))
            part[rows] = (
                naive.minimiser(rng.standard_normal((2, 2)), np.eye(4), tuple(signs(N)[rows]))
                - np.eye(2)
            ) @ x[rows]
            parts.append(part)
        whole = sum(parts)
        together, each = (
            np.sum(whole * (H @ whole)),
            sum(np.sum(part * (H @ part)) for part in parts),
        )
        apart += not np.isclose(together, each, rtol=1e-6)
        above += int(together > each)
        L = np.linalg.norm(H, 2)
        assert together <= L * sum(np.sum(part * part) for part in parts) * (1.0 + 1e-12)
    assert apart == 200
    assert above > 50


def test_the_third_matrix_of_7_is_not_j_orthogonal() -> None:
    """(-c -s; -s c) is printed; (-c -s; s c), as in appendix B.1, is."""
    c, s, J = np.cosh(0.7), np.sinh(0.7), np.diag([1.0, -1.0])
    printed, right = np.array([[-c, -s], [-s, c]]), np.array([[-c, -s], [s, c]])
    assert np.abs(printed.T @ J @ printed - J).max() == pytest.approx(2.0 * c * s)
    np.testing.assert_allclose(right.T @ J @ right, J, atol=1e-14)


def test_algorithm_2_counts_theta_twice() -> None:
    """Its P has -mat(Q vec(I)) - theta I with a Q that has theta already: not the minimiser of its
    own (12) but for theta = 0."""
    T, theta = np.array([[0.3, -1.0], [0.4, 0.2]]), 0.5
    Q = (1.0 + theta) * np.eye(4)
    P = T - naive.mat(Q @ naive.vec(np.eye(2)))

    def value(v: Array) -> float:
        gap = v - np.eye(2)
        return float(0.5 * (1.0 + theta) * (gap * gap).sum() + (gap * T).sum())

    right, printed = (
        naive.minimiser(P, Q, (1.0, -1.0)),
        naive.minimiser(P - theta * np.eye(2), Q, (1.0, -1.0)),
    )
    assert value(printed) > value(right) + 1e-3
