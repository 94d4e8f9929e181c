"""The naive rivals themselves: derivatives, invariants, equivalent forms and closed solutions, whatever the implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.reference import naive, rivals
from tests.reference.naive import Array, Gradient, Order
from tests.reference.rivals import Factor, Gradients, Steps, Trajectory, Variant
from tests.reference.test_naive import ORDERS, STEPS, D, N, R, ring, rng, slope

VARIANTS: tuple[Variant, ...] = ("dissolved", "direct")
Method = Callable[[Gradients, Array, Array, Steps, int], Trajectory]

PENALTY = 5.0
TRACKING: dict[str, Method] = {
    "drgta": rivals.drgta,
    "drgta-qr": partial(rivals.drgta, consensus_step=0.5, retract=rivals.qr_factor),
    "dprgt": rivals.dprgt,
    **{f"gradient tracking {order}": partial(rivals.gradient_tracking, penalty=PENALTY, order=order) for order in ORDERS},
    **{f"drfgt {order}": partial(rivals.drfgt, penalty=PENALTY, order=order) for order in ORDERS},
    **{f"destiny {v} {o}": partial(rivals.destiny, penalty=PENALTY, variant=v, order=o) for v in VARIANTS for o in ORDERS},
}
UNTRACKED: dict[str, Method] = {
    "dgd": partial(rivals.dgd, penalty=PENALTY),
    "drsgd": rivals.drsgd,
    "drsgd-qr": partial(rivals.drsgd, consensus_step=0.5, retract=rivals.qr_factor),
    "drsgd-cholesky-qr": partial(rivals.drsgd, retract=rivals.cholesky_qr_factor),
    "dprgd": rivals.dprgd,
}


def constant(method: Callable[..., Trajectory], **numbers: float) -> Method:
    """A method that knows only constant steps."""

    def run(gradients: Gradients, W: Array, x0: Array, step_size: Steps, iterations: int) -> Trajectory:
        return method(gradients, W, x0, rivals.step_at(step_size, 0), iterations, **numbers)

    return run


EXTRA: dict[str, Method] = {"rextra": constant(rivals.rextra), "rfextra": constant(rivals.rfextra, penalty=PENALTY)}
EVERY = {**TRACKING, **UNTRACKED, **EXTRA}
FEASIBLE = [name for name in EVERY if name.startswith(("dr", "dp", "rextra")) and not name.startswith("drfgt")]


def feasible(seed: int, n: int = N) -> Array:
    """``n`` random points of St(D, R)."""
    return np.array([naive.polar(y) for y in rng(seed).standard_normal((n, D, R))])


def quadratics(seed: int, alike: bool) -> tuple[Array, Array, Gradients]:
    """``H`` (N, D, D) with eigenvalues in [1, 3], one for all agents if ``alike``, ``K``, and the gradients ``H_i x - K_i``."""
    generator = rng(seed)
    basis = np.linalg.qr(generator.standard_normal((N, D, D)))[0]
    H = (basis * generator.uniform(1, 3, (N, 1, D))) @ basis.transpose(0, 2, 1)
    H = np.array([H[0]] * N) if alike else H
    K = generator.standard_normal((N, D, R))
    return H, K, lambda i, k, x: H[i] @ x - K[i]


# Feasible points.


@pytest.mark.parametrize("factor", [naive.polar, rivals.qr_factor, rivals.cholesky_qr_factor])
def test_factors_are_retractions(factor: Factor) -> None:
    """Feasible, the identity on St, and first-order: factor(x + t v) = x + t v + O(t^2) for a tangent v."""
    x = feasible(1)[0]
    v = naive.tangent_projection(x, rng(2).standard_normal((D, R)))
    np.testing.assert_allclose(factor(x), x, atol=1e-14)
    assert max(naive.infeasibility(factor(x + t * v)) for t in STEPS) < 1e-14
    assert slope([naive.norm(factor(x + t * v) - x - t * v) for t in STEPS]) == pytest.approx(2, abs=0.05)


def test_both_qr_factors_have_a_positive_diagonal() -> None:
    y = rng(3).standard_normal((D, R))
    upper = rivals.qr_factor(y).T @ y
    np.testing.assert_allclose(upper, np.triu(upper), atol=1e-14)
    assert np.diag(upper).min() > 0
    np.testing.assert_allclose(rivals.cholesky_qr_factor(y), rivals.qr_factor(y), atol=1e-13)


# Fields.


def objectives(name: str) -> tuple[Callable[[Array], float], Gradient]:
    a, b = rng(4).standard_normal((9, D)), rng(5).standard_normal((R, 9))
    if name == "pca":
        return partial(naive.pca_value, a), partial(naive.pca_gradient, a)
    return partial(naive.procrustes_value, a, b), partial(naive.procrustes_gradient, a, b)


@pytest.mark.parametrize("name", ["procrustes", "pca"])
@pytest.mark.parametrize("kind", ["dissolved", "soft"])
def test_fields_are_gradients(kind: str, name: str) -> None:
    """Of f(x (3I - x^T x)/2) + 1/2 ||x^T x - I||^2 and of f + 1/2 ||x^T x - I||^2, entry by entry."""
    value, gradient = objectives(name)

    def whole(x: Array) -> float:
        return value(rivals.dissolved_point(x) if kind == "dissolved" else x) + naive.infeasibility(x) ** 2 / 2

    gradients = rivals.full([gradient])
    field = rivals.dissolved_field(gradients, 2.0, "dissolved") if kind == "dissolved" else rivals.soft_field(gradients, 2.0)
    x = feasible(6)[0] + 0.1 * rng(7).standard_normal((D, R))
    difference, h = np.zeros_like(x), 1e-3
    for index in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[index] = h
        difference[index] = (8 * (whole(x + e) - whole(x - e)) - (whole(x + 2 * e) - whole(x - 2 * e))) / (12 * h)
    np.testing.assert_allclose(field(0, 0, x), difference, atol=1e-9 * np.abs(difference).max())


@pytest.mark.parametrize("variant", VARIANTS)
def test_destiny_follows_the_riemannian_gradient_on_the_manifold(variant: Variant) -> None:
    gradients = rivals.full([objectives("procrustes")[1]])
    x = feasible(8)[0]
    field = rivals.dissolved_field(gradients, 7.0, variant)(0, 0, x)
    np.testing.assert_allclose(field, naive.tangent_projection(x, gradients(0, 0, x)), atol=1e-13 * np.abs(field).max())


def test_variants_of_destiny_differ_off_the_manifold_unless_the_gradient_is_constant() -> None:
    x = feasible(8)[0] + 0.1 * rng(9).standard_normal((D, R))
    c = rng(10).standard_normal((D, R))

    def gap(gradient: Gradient) -> float:
        dissolved, direct = (rivals.dissolved_field(rivals.full([gradient]), 7.0, variant)(0, 0, x) for variant in VARIANTS)
        return naive.norm(dissolved - direct) / naive.norm(direct)

    assert gap(lambda x: c) == 0
    assert gap(objectives("procrustes")[1]) > 1e-2


# Mixing.


def path(n: int) -> Array:
    """Metropolis weights on a path: every edge 1/3, which leaves 2/3 on the ends."""
    W = np.eye(n) / 3 + (np.eye(n, k=1) + np.eye(n, k=-1)) / 3
    W[0, 0] = W[-1, -1] = 2 / 3
    return W


GRAPHS = {"ring": ring(8, 0.6), "path": path(7), "nearly bipartite": ring(6, 0.05), "pair": np.array([[0.7, 0.3], [0.3, 0.7]])}
ROUNDS = (1, 2, 3, 6)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_mixing_keeps_the_mean_and_reaches_as_far_as_its_rounds(graph: str, rounds: int) -> None:
    W = GRAPHS[graph]
    hops = np.linalg.matrix_power((W > 0).astype(int), rounds) > 0
    for mixing in (rivals.power(W, rounds), rivals.chebyshev(W, rounds), rivals.fast_mix(W, rounds)):
        np.testing.assert_allclose(mixing.sum(axis=1), 1, rtol=1e-13)
        np.testing.assert_allclose(mixing, mixing.T, atol=1e-14)
        np.testing.assert_allclose(mixing[~hops], 0, atol=1e-13)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("graph", [graph for graph in GRAPHS if graph != "pair"])
def test_chebyshev_leaves_the_least_of_all_polynomials(graph: str, rounds: int) -> None:
    """At most 1/T_t(z(1)) of every other eigenvector, with equality, signs alternating, at t + 1 points of the interval."""
    W = GRAPHS[graph]
    eigenvalues = np.linalg.eigvalsh(W)
    low, high = eigenvalues[0], eigenvalues[-2]
    left = 1 / math.cosh(rounds * math.acosh((2 - high - low) / (high - low)))
    mixed = np.sort(np.abs(np.linalg.eigvalsh(rivals.chebyshev(W, rounds))))
    assert mixed[-1] == pytest.approx(1, rel=1e-13)
    assert mixed[-2] == pytest.approx(left, rel=1e-12)
    polynomial = rivals.chebyshev_polynomial(low, high, rounds)
    extremes = (high + low) / 2 + (high - low) / 2 * np.cos(np.pi * np.arange(rounds + 1) / rounds)
    np.testing.assert_allclose(polynomial(extremes), left * (-1.0) ** np.arange(rounds + 1), rtol=1e-10)
    assert left <= max(high**rounds, abs(low) ** rounds) * (1 + 1e-12)


def test_fast_mix_is_its_recursion() -> None:
    """W_{k+1} = (1 + eta) L W_k - eta W_{k-1}, agent by agent, and faster than plain rounds."""
    W = ring(8, 0.8)
    second = np.linalg.eigvalsh(W)[-2]
    eta = (1 - math.sqrt(1 - second**2)) / (1 + math.sqrt(1 - second**2))
    x = list(rng(11).standard_normal((8, D, R)))
    before, now = x, x
    for rounds in range(1, 9):
        mixed = rivals.combine(W, now)
        before, now = now, [(1 + eta) * m - eta * b for m, b in zip(mixed, before, strict=True)]
        np.testing.assert_allclose(rivals.combine(rivals.fast_mix(W, rounds), x), now, atol=1e-13)
    others = np.abs(np.linalg.eigvalsh(rivals.fast_mix(W, 8)))[:-1]
    assert others.max() < second**8 / 2


# What each method keeps.


# One agent: the centralized method.


@pytest.mark.parametrize("name", [name for name in EVERY if name in FEASIBLE])
def test_steps_and_batches_on_the_circle(name: str) -> None:
    """r = 1, d = 2, gradients c_k J x: iteration k turns x by -arctan(a_k c_k), in any network."""
    c = rng(15).standard_normal(30)
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    shrinking = name != "rextra"
    steps = [1 / math.sqrt(k + 1) if shrinking else 0.5 for k in range(30)]
    angle = 0.3 - float(np.sum(np.arctan(np.array(steps) * c)))
    x0 = np.array([[math.cos(0.3)], [math.sin(0.3)]])
    run = EVERY[name](lambda i, k, x: (c[k] if k < 30 else 0.0) * turn @ x, ring(), x0, steps, 30)
    for x in run.x[-1]:
        np.testing.assert_allclose(x, [[math.cos(angle)], [math.sin(angle)]], atol=1e-13)


@pytest.mark.parametrize("order", ORDERS)
def test_steps_and_batches_in_euclidean_space(order: Order) -> None:
    """Gradients c_k, the same for all agents: x_K = x_0 - sum_k a_k c_k; a list and a function of k say the same."""
    c = rng(16).standard_normal((31, D, R))
    steps = [1 / (k + 1) for k in range(30)]
    expected = -sum((a * g for a, g in zip(steps, c[:30], strict=True)), np.zeros((D, R)))
    x0 = np.zeros((D, R))
    tracked = rivals.gradient_tracking(lambda i, k, x: c[k], ring(), x0, steps, 30, order=order)
    plain = rivals.dgd(lambda i, k, x: c[k], ring(), x0, lambda k: 1 / (k + 1), 30)
    for x in (*tracked.x[-1], *plain.x[-1]):
        np.testing.assert_allclose(x, expected, atol=1e-13)


# Equivalent forms and closed solutions.


@pytest.mark.parametrize("order", ORDERS)
def test_tracking_without_trackers(order: Order) -> None:
    """x(k+2) = 2 W x(k+1) - W^2 x(k) - a (g(k+1) - g(k)), the last term mixed twice in adapt-then-combine."""
    _, _, gradients = quadratics(20, alike=False)
    W, a = ring(), 0.05
    run = rivals.gradient_tracking(gradients, W, rng(21).standard_normal((N, D, R)), a, 20, order=order)
    for k in range(19):
        change = [gradients(i, 0, run.x[k + 1, i]) - gradients(i, 0, run.x[k, i]) for i in range(N)]
        change = change if order == "combine-then-adapt" else rivals.combine(W @ W, change)
        once, twice = rivals.combine(W, list(run.x[k + 1])), rivals.combine(W @ W, list(run.x[k]))
        np.testing.assert_allclose(run.x[k + 2], [2 * once[i] - twice[i] - a * change[i] for i in range(N)], atol=1e-13)


def test_extra_as_published() -> None:
    """x(1) = W x(0) - a g(0), x(k+2) = (I + W) x(k+1) - (I + W)/2 x(k) - a (g(k+1) - g(k))."""
    _, _, gradients = quadratics(22, alike=False)
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


# DeEPCA.
