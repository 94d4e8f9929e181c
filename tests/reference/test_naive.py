"""The naive reference itself: derivatives, identities and limits that hold whatever the implementation."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.reference import naive
from tests.reference.naive import Array, Gradient, Order, Value

ORDERS: tuple[Order, ...] = ("combine-then-adapt", "adapt-then-combine")
STEPS = np.logspace(-3, -1, 9)
D, R, N = 6, 3, 5


def ring(n: int = N, own: float = 0.6) -> Array:
    """A ring's mixing matrix: ``own`` on the diagonal, the rest evenly to both neighbours."""
    eye = np.eye(n)
    return own * eye + (1 - own) / 2 * (np.roll(eye, 1, axis=1) + np.roll(eye, -1, axis=1))


def slope(errors: list[float]) -> float:
    """The slope of ``errors`` over STEPS on log-log axes."""
    return float(np.polyfit(np.log(STEPS), np.log(errors), 1)[0])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def smooth_functions() -> dict[str, tuple[Value, Gradient]]:
    a = rng(2).standard_normal((9, D))
    b = rng(3).standard_normal((R, 9))
    return {
        "procrustes": (partial(naive.procrustes_value, a, b), partial(naive.procrustes_gradient, a, b)),
        "pca": (partial(naive.pca_value, a), partial(naive.pca_gradient, a)),
        "penalty": (lambda x: naive.infeasibility(x) ** 2 / 4, lambda x: naive.landing_field(x, np.zeros_like(x), 1.0)),
    }


@pytest.mark.parametrize("name", ["procrustes", "pca", "penalty"])
def test_gradient_leaves_a_second_order_taylor_remainder(name: str) -> None:
    value, gradient = smooth_functions()[name]
    x, u = rng(4).standard_normal((D, R)), rng(5).standard_normal((D, R))
    linear = float(np.sum(gradient(x) * u))
    assert slope([abs(value(x + t * u) - value(x) - t * linear) for t in STEPS]) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("own", [0.05, 0.6, 0.9])
def test_tracking_limit_is_the_edge_of_stability(order: Order, own: float) -> None:
    """Tracking the gradients of f_i(x) = x^2/2 is linear; the spectral radius over W's eigenspaces crosses 1 at the limit."""
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
