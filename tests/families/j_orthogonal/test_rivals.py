"""The naive rivals of JOBCD: slopes and minimisers by finite differences, whatever the
implementation."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.families.j_orthogonal import jobcd_by_equations as naive
from tests.families.j_orthogonal.jobcd_by_equations import Array

P, Q = 3, 2
N = P + Q
J = np.diag([1.0] * P + [-1.0] * Q)
RNG = np.random.default_rng(0)
C = RNG.standard_normal((N, N))
C = C @ C.T + np.eye(N)


def value(x: Array) -> float:
    """Neither quadratic nor convex."""
    return float(np.sum(x * (C @ x)) + np.sum(np.sin(x) * np.arange(N)))


def gradient(x: Array) -> Array:
    return 2 * C @ x + np.cos(x) * np.arange(N)


def derivative(f: object, step: float = 1e-6) -> float:
    assert callable(f)
    return float((f(step) - f(-step)) / (2 * step))


def test_each_update_of_admm_is_a_minimiser() -> None:
    """Of the augmented Lagrangian, f replaced by its majoriser: no derivative, and a convex
    quadratic function."""
    X, Y, Z, W = RNG.standard_normal((4, N, N))
    length, beta = 7.0, 2.5
    X1, Y1, Z1, W1 = naive.admm(X, Y, Z, W, gradient, J, length, beta)

    def of_x(x: Array) -> float:
        return naive.lagrangian(naive.majorised(x, X, gradient(X), length), x, Y, Z, W, J, beta)

    def of_y(y: Array) -> float:
        return naive.lagrangian(0.0, X1, y, Z, W, J, beta)

    for of, at in ((of_x, X1), (of_y, Y1)):
        scale = abs(of(at)) + 1.0
        for _ in range(4):
            d = RNG.standard_normal((N, N))
            line = partial(lambda t, of, at, d: of(at + t * d), of=of, at=at, d=d)
            assert abs(derivative(line, 1e-3)) <= 1e-9 * scale
            assert min(line(1.0), line(-1.0)) > line(0.0)
    for name, moved, old in (("z", Z1, Z), ("w", W1, W)):
        residual = X1.T @ Y1 - J if name == "z" else J @ X1 - Y1
        np.testing.assert_allclose(moved - old, beta * residual, atol=1e-12)
