"""The naive reference itself: derivatives, identities and limits that hold whatever the implementation."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.linalg import polar as scipy_polar

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


def procrustes_network(seed: int = 1) -> tuple[list[Value], list[Gradient]]:
    """Heterogeneous Procrustes objectives of N agents."""
    generator = rng(seed)
    data = [(generator.standard_normal((4 + i, D)), generator.standard_normal((R, 4 + i))) for i in range(N)]
    return (
        [partial(naive.procrustes_value, a, b) for a, b in data],
        [partial(naive.procrustes_gradient, a, b) for a, b in data],
    )


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


def test_landing_components_are_orthogonal_off_the_manifold() -> None:
    x, g = rng(7).standard_normal((2, D, R))
    relative = naive.landing_field(x, g, 0.0)
    normal = naive.landing_field(x, np.zeros_like(g), 2.0)
    assert abs(np.sum(relative * normal)) <= 1e-14 * naive.norm(relative) * naive.norm(normal)


def test_landing_field_on_the_manifold() -> None:
    """On St the field is tangent, its x-component is that of P_x(g), its complement half of it; lam does not matter."""
    y, g = rng(8).standard_normal((2, D, R))
    x = naive.polar(y)
    field, projected = naive.landing_field(x, g, 7.0), naive.tangent_projection(x, g)
    complement = np.eye(D) - x @ x.T
    np.testing.assert_allclose(naive.sym(x.T @ field), 0, atol=1e-13)
    np.testing.assert_allclose(x.T @ field, x.T @ projected, atol=1e-13)
    np.testing.assert_allclose(complement @ field, complement @ projected / 2, atol=1e-13)


def test_polar_is_the_nearest_point() -> None:
    y = rng(9).standard_normal((D, R))
    nearest = naive.polar(y)
    np.testing.assert_allclose(nearest, scipy_polar(y)[0], atol=1e-13)
    singular_values = np.linalg.svd(y, compute_uv=False)
    assert naive.norm(y - nearest) == pytest.approx(np.sqrt(np.sum((singular_values - 1) ** 2)), rel=1e-13)
    generator = rng(10)
    for size in (1e-3, 1e-1, 10.0):
        for _ in range(50):
            moved = nearest + size * generator.standard_normal((D, R))
            q, upper = np.linalg.qr(moved)
            other = q * np.sign(np.diag(upper))
            assert naive.norm(y - other) > naive.norm(y - nearest)


def test_safe_step_stays_inside_and_solves_its_quadratic() -> None:
    generator, eps, uncapped = rng(11), 0.5, 0
    for _ in range(300):
        y, g = generator.standard_normal((2, D, R))
        x = naive.polar(y)
        x = x + generator.uniform(0, 0.2) / R * generator.standard_normal((D, R))
        lam = float(10 ** generator.uniform(-2, 1))
        d = naive.infeasibility(x)
        if d > eps:
            continue
        direction = naive.landing_field(x, g, lam)
        eta = naive.landing_safe_step(x, direction, lam, eps)
        assert 0 < eta <= 1 / (2 * lam)
        assert naive.infeasibility(x - eta * direction) <= eps * (1 + 1e-12)
        bound = (1 - 2 * eta * lam) * d + 2 * eta * lam * d**2 + (eta * naive.norm(direction)) ** 2
        assert bound <= eps * (1 + 1e-12)
        if eta < 1 / (2 * lam):
            uncapped += 1
            assert bound == pytest.approx(eps, rel=1e-12)
    assert uncapped > 100


def test_first_two_steps_with_per_agent_steps() -> None:
    """From a common start W x(0) = x(0): both orders written out with W acting on all agents at once."""
    _, gradients = procrustes_network()
    x0, W = naive.polar(rng(14).standard_normal((D, R))), ring()
    alpha, lam = np.linspace(1e-3, 3e-3, N), np.linspace(4, 6, N)
    a = alpha[:, None, None]

    def fields(points: Array) -> Array:
        return np.array([naive.landing_field(points[i], gradients[i](points[i]), float(lam[i])) for i in range(N)])

    def mix(points: Array) -> Array:
        return np.tensordot(W, points, axes=1)

    y0 = fields(np.array([x0] * N))
    x1 = x0 - a * y0
    y1 = mix(y0) + fields(x1) - y0
    x, y = naive.drfgt(gradients, W, x0, alpha, lam, 1, "combine-then-adapt")
    np.testing.assert_allclose(x, x1, atol=1e-15)
    np.testing.assert_allclose(y, y1, atol=1e-12)
    x, _ = naive.drfgt(gradients, W, x0, alpha, lam, 2, "combine-then-adapt")
    np.testing.assert_allclose(x, mix(x1) - a * y1, atol=1e-13)

    x1 = x0 - mix(a * y0)
    y1 = mix(fields(x1))
    x, y = naive.drfgt(gradients, W, x0, alpha, lam, 1, "adapt-then-combine")
    np.testing.assert_allclose(x, x1, atol=1e-15)
    np.testing.assert_allclose(y, y1, atol=1e-12)
    x, _ = naive.drfgt(gradients, W, x0, alpha, lam, 2, "adapt-then-combine")
    np.testing.assert_allclose(x, mix(x1 - a * y1), atol=1e-13)


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


def test_auto_constants_by_hand() -> None:
    """Eigenvalues 1, 0.75, -0.5 of W give u = 1/8 and 1/2; Lhat^4 = (3^4 + 5^4)/2, 5 being the gradient's norm."""
    x0 = np.eye(3)[:, :2]
    g = np.array([np.zeros((3, 2)), x0 @ np.array([[0.0, 5.0], [1.0, 0.0]])])
    auto = partial(naive.auto_constants, [3.0, 2.0], x0, g)
    lhat = 353**0.25
    assert auto(0.75, -0.5, "combine-then-adapt") == pytest.approx((0.125 / lhat, 0.25 * lhat))
    assert auto(0.75, -0.5, "adapt-then-combine") == pytest.approx((0.35 / lhat, 0.1 * lhat / 0.35))
    assert auto(0.99, 0.9, "adapt-then-combine") == pytest.approx((0.2 / lhat, 0.5 * lhat))


def test_metrics_by_hand() -> None:
    """r = d = 1, f_i(x) = (x - i)^2 at the points 1/2 and 2: every metric in closed form."""
    values: list[Value] = [lambda x: float(x[0, 0]) ** 2, lambda x: (float(x[0, 0]) - 1) ** 2]
    gradients: list[Gradient] = [lambda x: 2 * x, lambda x: 2 * (x - 1)]
    x = [np.full((1, 1), 0.5), np.full((1, 1), 2.0)]
    y = [np.full((1, 1), 1.0), np.full((1, 1), 4.0)]
    field = (0.5 * (0.25 - 1) + 2.0 * (4 - 1)) / 2
    expected = {
        "objective": 0.5,
        "gradient_norm": 0.0,
        "local_gradient_sum": 0.0,
        "consensus_error": 1.5,
        "consensus_rms": np.sqrt((0.25 + 1) / 2),
        "distance_to_manifold": 1.5,
        "feasibility": 3.0,
        "landing_norm": 10 * 1.25 * (1.25**2 - 1),
        "tracking_error": 10 * field - 2.5,
    }
    assert naive.metrics(values, gradients, x, y, penalty=10.0) == pytest.approx(expected)
    assert naive.metrics(values, gradients, x, y, landing=y)["tracking_error"] == 0.0


def test_check_decay_tells_recoloured_data_from_gaussian() -> None:
    """``A_i V diag(sqrt(target/actual)) V^T`` of Section V has the target's spectrum, the raw data has not."""
    data = [rng(20 + i).standard_normal((10, 50)) for i in range(10)]
    actual, V = np.linalg.eigh(sum(a.T @ a for a in data))
    target = actual[-1] * 0.9 ** np.arange(49, -1, -1)
    recoloured = [a @ V @ np.diag(np.sqrt(target / actual)) @ V.T for a in data]
    naive.check_decay(sum((a.T @ a for a in recoloured), np.zeros((50, 50))), 0.9)
    with pytest.raises(AssertionError):
        naive.check_decay(sum((a.T @ a for a in data), np.zeros((50, 50))), 0.9)
