"""The naive references themselves: derivatives, limits, and the published forms of their
iterations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.reference import naive, rivals
from tests.reference.naive import Array, Order

ORDERS: tuple[Order, ...] = ("combine-then-adapt", "adapt-then-combine")
D, R, N = 6, 3, 5


def ring(n: int = N, own: float = 0.6) -> Array:
    """A ring's mixing matrix: ``own`` on the diagonal, the rest evenly to both neighbours."""
    eye = np.eye(n)
    return own * eye + (1 - own) / 2 * (np.roll(eye, 1, axis=1) + np.roll(eye, -1, axis=1))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", ["procrustes", "pca", "penalty"])
def test_gradients_are_those_of_their_values(name: str) -> None:
    """By central differences of smooth functions."""
    a, b = rng(2).standard_normal((9, D)), rng(3).standard_normal((R, 9))
    functions: dict[str, Any] = {
        "procrustes": (
            partial(naive.procrustes_value, a, b),
            partial(naive.procrustes_gradient, a, b),
        ),
        "pca": (partial(naive.pca_value, a), partial(naive.pca_gradient, a)),
        "penalty": (
            lambda x: naive.infeasibility(x) ** 2 / 4,
            lambda x: naive.landing_field(x, np.zeros_like(x), 1.0),
        ),
    }
    value, gradient = functions[name]
    x, u = rng(4).standard_normal((D, R)), 1e-5 * rng(5).standard_normal((D, R))
    assert value(x + u) - value(x - u) == pytest.approx(
        2 * float(np.sum(gradient(x) * u)), rel=1e-6
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("own", [0.05, 0.6, 0.9])
def test_tracking_limit_is_the_edge_of_stability(order: Order, own: float) -> None:
    """Tracking the gradients of f_i(x) = x^2/2 is linear; the spectral radius over W's eigenspaces
    crosses 1 at the limit."""
    eigenvalues = np.linalg.eigvalsh(ring(N, own))
    assert eigenvalues[-1] == pytest.approx(1)

    def radius(a: float) -> float:
        radii = [float(abs(1 - a))]
        for w in eigenvalues[:-1]:
            if order == "combine-then-adapt":
                step = np.array([[w, -a], [w - 1, w - a]])
            else:
                step = np.array([[w, -a * w], [w * (w - 1), w - a * w * w]])
            radii.append(float(np.max(np.abs(np.linalg.eigvals(step)))))
        return max(radii)

    u = naive.tracking_limit(eigenvalues[-2], eigenvalues[0], order)
    assert radius(0.999 * u) < 1 < radius(1.001 * u)


def test_extra_as_published() -> None:
    """x(1) = W x(0) - a g(0), x(k+2) = (I + W) x(k+1) - (I + W)/2 x(k) - a (g(k+1) - g(k)), for the
    gradients H_i x - K_i."""
    H, K, x0 = (
        rng(22).uniform(1, 3, (N, D, 1)),
        rng(21).standard_normal((N, D, R)),
        rng(23).standard_normal((N, D, R)),
    )
    W, eye, a = ring(), np.eye(N), 0.1

    def mix(A: Array, x: Array) -> Array:
        return np.array(rivals.combine(A, list(x)))

    before, now = x0, mix(W, x0) - a * (H * x0 - K)
    run = rivals.extra(lambda i, k, x: H[i] * x - K[i], W, x0, a, 30)
    np.testing.assert_allclose(run.x[1], now, atol=1e-14)
    for x in run.x[2:]:
        before, now = now, mix(eye + W, now) - mix((eye + W) / 2, before) - a * H * (now - before)
        np.testing.assert_allclose(x, now, atol=1e-13)
