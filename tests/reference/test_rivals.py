"""The naive rivals against the published forms of their iterations."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import rivals
from tests.reference.naive import Array, Order
from tests.reference.rivals import Gradients
from tests.reference.test_naive import ORDERS, D, N, R, ring, rng


def quadratics(seed: int) -> Gradients:
    """The gradients H_i x - K_i, H_i with eigenvalues in [1, 3]."""
    generator = rng(seed)
    basis = np.linalg.qr(generator.standard_normal((N, D, D)))[0]
    H = (basis * generator.uniform(1, 3, (N, 1, D))) @ basis.transpose(0, 2, 1)
    K = generator.standard_normal((N, D, R))
    return lambda i, k, x: H[i] @ x - K[i]


def path(n: int) -> Array:
    """Metropolis weights on a path: every edge 1/3, which leaves 2/3 on the ends."""
    W = np.eye(n) / 3 + (np.eye(n, k=1) + np.eye(n, k=-1)) / 3
    W[0, 0] = W[-1, -1] = 2 / 3
    return W


@pytest.mark.parametrize("order", ORDERS)
def test_tracking_without_trackers(order: Order) -> None:
    """x(k+2) = 2 W x(k+1) - W^2 x(k) - a (g(k+1) - g(k)), the last term mixed twice in adapt-then-combine."""
    gradients = quadratics(20)
    W, a = ring(), 0.05
    run = rivals.gradient_tracking(gradients, W, rng(21).standard_normal((N, D, R)), a, 20, order=order)
    for k in range(19):
        change = [gradients(i, 0, run.x[k + 1, i]) - gradients(i, 0, run.x[k, i]) for i in range(N)]
        change = change if order == "combine-then-adapt" else rivals.combine(W @ W, change)
        once, twice = rivals.combine(W, list(run.x[k + 1])), rivals.combine(W @ W, list(run.x[k]))
        np.testing.assert_allclose(run.x[k + 2], [2 * once[i] - twice[i] - a * change[i] for i in range(N)], atol=1e-13)


def test_extra_as_published() -> None:
    """x(1) = W x(0) - a g(0), x(k+2) = (I + W) x(k+1) - (I + W)/2 x(k) - a (g(k+1) - g(k))."""
    gradients = quadratics(22)
    W, a = ring(), 0.1
    x0 = rng(23).standard_normal((N, D, R))

    def fields(x: Array) -> Array:
        return np.array([gradients(i, 0, x[i]) for i in range(N)])

    def mix(A: Array, x: Array) -> Array:
        return np.array(rivals.combine(A, list(x)))

    before, now = x0, mix(W, x0) - a * fields(x0)
    run = rivals.extra(gradients, W, x0, a, 30)
    np.testing.assert_allclose(run.x[1], now, atol=1e-14)
    for k in range(29):
        eye = np.eye(N)
        before, now = now, mix(eye + W, now) - mix((eye + W) / 2, before) - a * (fields(now) - fields(before))
        np.testing.assert_allclose(run.x[k + 2], now, atol=1e-13)
