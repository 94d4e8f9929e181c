"""The naive JOBCD: its subproblems against dense scans, its forms against the functions they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import jobcd as naive
from tests.reference.jobcd import Array
from tests.support.marks import first_is_quick

SWAP, TURN, FLIP = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, -1.0], [1.0, 0.0]]), np.diag([1.0, -1.0])


def group(signs: tuple[float, float], number: int) -> list[Array]:
    """Many V with V^T J V = J, of all components."""
    if signs[0] == signs[1]:
        angles = np.linspace(0.0, 2.0 * np.pi, number, endpoint=False)
        return [np.cos(t) * one + np.sin(t) * two for t in angles for one, two in ((np.eye(2), TURN), (FLIP, SWAP))]
    mu = np.linspace(-6.0, 6.0, number)
    families = [(one, two, sign) for one, two in ((np.eye(2), SWAP), (-FLIP, TURN)) for sign in (1.0, -1.0)]
    return [sign * np.cosh(t) * one + np.sinh(t) * two for t in mu for one, two, sign in families]


@pytest.mark.slow_cases("signs0")
@pytest.mark.parametrize("signs", first_is_quick([(1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)]))
def test_no_other_matrix_of_the_group_is_better(signs: tuple[float, float]) -> None:
    rng, J = np.random.default_rng(0), np.diag(signs)
    scanned = group(signs, 4001)
    for _ in range(10):
        half, P = rng.standard_normal((4, 4)), 3.0 * rng.standard_normal((2, 2))
        Q = half @ half.T + 0.5 * np.eye(4)

        def value(V: Array, P: Array = P, Q: Array = Q) -> float:
            return float(0.5 * naive.vec(V) @ Q @ naive.vec(V) + (V * P).sum())

        best = naive.minimiser(P, Q, signs)
        np.testing.assert_allclose(best.T @ J @ best, J, atol=1e-11)
        least = min(value(V) for V in scanned)
        assert least - 1e-4 * abs(least) - 1e-3 < value(best) <= least + 1e-12


def test_a_step_with_the_exact_form_finds_the_best_of_its_rows() -> None:
    """f(x) + the subproblem's value is f at the new point, and no other V on those rows does better."""
    rng, signs, rows = np.random.default_rng(1), np.array([1.0, -1.0, 1.0, -1.0]), [1, 2]
    half = rng.standard_normal((4, 4))
    H, x = half @ half.T + np.eye(4), np.eye(4)

    def f(x: Array) -> float:
        return float(0.5 * np.trace(x.T @ H @ x))

    after = naive.step(x, H @ x, [(1, 2)], signs, 0.0, [naive.exact(x, H, (1, 2))])
    assert f(after) < f(x)
    for V in group((-1.0, 1.0), 501):
        other = x.copy()
        other[rows] = V @ x[rows]
        assert f(after) <= f(other) + 1e-12
    np.testing.assert_array_equal(after[[0, 3]], x[[0, 3]])
