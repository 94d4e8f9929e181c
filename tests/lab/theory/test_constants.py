"""The constants of paper 004: closed forms, what they promise on random points, and where the
printed promise fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import decentorth as do
import topologies as tp
from decentorth.api import set_up
from decentorth.lab import theory
from decentorth.problems.stiefel.procrustes import ProcrustesSettings
from decentorth.protocols import Array
from decentorth.sets import Stiefel

N, D, R = 3, 6, 2
SIGMAS = st.floats(0.0, 0.999)


def problem(name: str, seed: int = 0) -> do.problems.PCA | do.problems.Procrustes:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, 8, D))
    return (
        do.problems.PCA(A, R)
        if name == "pca"
        else do.problems.Procrustes(A, rng.standard_normal((N, R, 8)))
    )


def mean_field(own: do.problems.PCA | do.problems.Procrustes, x: Array, penalty: float) -> Array:
    points = np.repeat(x[None], N, axis=0)
    return Stiefel(D, R).landing(points, own.gradient(points), np.full(N, penalty)).mean(0)


def test_published_setting_has_the_orders_of_magnitude_that_were_worked_out_before() -> None:
    run = set_up(
        ProcrustesSettings().problem(10, 0),
        do.DRFGT(step_size=1e-2, penalty=10.0),
        tp.uniform_weights(tp.ring(10)),
    )
    c = theory.constants(run.problem, 0.8 + 0.2 * math.cos(math.pi / 5), 0.6, 10.0, 0.5)
    expected = {
        "lipschitz": 154.0,
        "gradient": 432.0,
        "gamma": 5.9e4,
        "smoothness": 2.1e5,
        "safe": 2.9e-12,
        "stable": 3.5e-9,
    }
    for name, value in (expected | {"ergodic": 1e-11}).items():
        assert value / 1.5 < getattr(c, name) < value * 1.5, name
    assert c.guaranteed == c.safe
    assert 1e9 < 1e-2 / c.guaranteed < 1e10


def test_published_constants_follow_from_each_other() -> None:
    gamma = theory.merit_weight(154.0, 476.0, 432.0, 10.0, 0.5)
    assert gamma == pytest.approx(2.0 * (77.0 + 1428.0 + 432.0**2 * 0.15), rel=1e-14)
    assert theory.merit_smoothness(432.0, gamma, 0.5) == pytest.approx(
        432.0 + 3.5 * gamma, rel=1e-14
    )
    assert theory.merit_weight(1.0, 0.0, 1.0, 1e6, 0.5) == 1e6
    assert theory.descent_ratio(gamma, 10.0, 0.5) == 0.5
    assert theory.descent_ratio(10.0, 10.0, 0.25) == pytest.approx(0.2, rel=1e-14)


@given(sigma=SIGMAS, smoothness=st.floats(1e-2, 1e6), disagreement=st.none() | st.floats(0.0, 2.0))
def test_contraction_matrix_is_stable_exactly_below_its_limit(
    sigma: float, smoothness: float, disagreement: float | None
) -> None:
    limit = theory.contraction_limit(sigma, smoothness, disagreement)
    below, at, above = (
        1.0
        - np.abs(
            np.linalg.eigvals(theory.contraction_matrix(step, sigma, smoothness, disagreement))
        ).max()
        for step in (0.999 * limit, limit, 1.001 * limit)
    )
    assert below > 0.0 > above
    assert abs(at) < 1e-9


@given(sigma=SIGMAS)
def test_theorem_IV_4_is_sufficient_and_loses_less_than_a_factor_of_two(sigma: float) -> None:
    ratio = theory.contraction_limit(sigma, 1.0) / theory.stable_step(sigma, 1.0)
    assert math.sqrt(2.0) * (1 - 1e-12) <= ratio < 1.75


def test_lemma_IV_3_fails_as_printed_and_holds_with_the_norm_of_W_minus_I() -> None:
    W = np.full((2, 2), 0.5)  # sigma_W = 0: one round averages exactly
    # Lambda_i(x) = x, so that L' = 1
    x, y, step, curvature = np.array([1.0, -1.0]), np.array([0.0, 0.0]), 1e-3, 1.0
    new_x = W @ x - step * y
    new_y = W @ y + curvature * (new_x - x)
    off = new_y - new_y.mean()
    state = np.array([0.0, x @ x])
    assert off @ off > (theory.contraction_matrix(step, 0.0, 1.0) @ state)[0]
    assert off @ off <= (theory.contraction_matrix(step, 0.0, 1.0, disagreement=1.0) @ state)[0]
    ring = tp.uniform_weights(tp.ring(10), 0.8).toarray()  # of figure 1: sigma_W is the larger one
    assert np.linalg.norm(ring - np.eye(10), 2) == pytest.approx(0.4)
    assert np.linalg.norm(ring - 1 / 10, 2) > 0.96


@given(seed=st.integers(0, 1000), step=st.floats(1e-4, 10.0))
def test_lemma_IV_2_bounds_the_consensus_error_of_the_next_points(seed: int, step: float) -> None:
    """(11); the appendix's (23) lacks the square of the last norm."""
    rng = np.random.default_rng(seed)
    graph = (tp.ring(6), tp.star(6), tp.complete(6), tp.path(6))[seed % 4]
    W = tp.metropolis_weights(graph).toarray()
    x, y = rng.standard_normal((6, 3)), 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((6, 3))
    off = [float(((one - one.mean(0)) ** 2).sum()) for one in (W @ x - step * y, x, y)]
    square = np.linalg.norm(W - 1 / 6, 2) ** 2
    assert off[0] <= (
        0.5 * (1 + square) * off[1] + (1 + square) / (1 - square) * step**2 * off[2]
    ) * (1 + 1e-12)


@pytest.mark.parametrize("graph", [tp.complete(N), tp.path(N)], ids=["complete", "path"])
@pytest.mark.parametrize("name", ["pca", "procrustes"])
def test_corollary_IV_5_bounds_the_sum_of_consensus_errors(name: str, graph: Any) -> None:
    """With L_Lambda for L', and up to 1/sqrt(2) of the limit of the matrix of Theorem IV.4 with the
    norm of W - I.

    Then the determinant in the proof is at least (1 - sigma^2)^2 / 8. The points stay in the region
    of eps = 0.7.
    """
    own, W, penalty = problem(name), tp.metropolis_weights(graph), 5.0
    values = np.linalg.eigvalsh(W.toarray())
    sigma, top = max(abs(values[0]), values[-2]), theory.suprema(own, 0.7)
    steep = theory.landing_lipschitz(top.lipschitz, top.gradient, penalty, 0.7)
    step = theory.contraction_limit(sigma, steep, 1 - values[0]) / math.sqrt(2.0)
    run = set_up(own, do.DRFGT(step_size=step, penalty=penalty, order="combine-then-adapt"), W)
    points, means, spread = 0.0, 0.0, None
    for _, state in zip(range(300), run.states(), strict=False):
        y = state.tracker
        if spread is None:
            spread = float(((y - y.mean(0)) ** 2).sum())
        assert Stiefel(D, R).feasibility(state.x).max() < 0.7
        points += float(((state.x - state.x.mean(0)) ** 2).sum())
        means += N * float((y.mean(0) ** 2).sum())
    assert spread is not None
    s = sigma**2
    bound = (1 + s) / (1 - s) ** 3 * 8 * step**2 * spread
    bound += (1 + s) ** 2 / (1 - s) ** 4 * 32 * step**4 * steep**2 * means
    assert 0.0 < points <= bound


@pytest.mark.parametrize("eps", [0.1, 0.5, 0.6])
def test_inequality_27_fails_as_printed_on_its_right(eps: float) -> None:
    """||x^T x - I|| is near twice the distance to St, and (1 + eps) times it is printed; 1 + sqrt(1 + eps) bounds it."""
    for x in theory.region_points((D, R), eps, 300, np.random.default_rng(5)):
        u, _, vt = np.linalg.svd(x, full_matrices=False)
        distance, gap = np.linalg.norm(x - u @ vt), np.linalg.norm(x.T @ x - np.eye(R))
        assert distance <= gap / (1 + math.sqrt(1 - eps)) * (1 + 1e-12)
        assert (1 + eps) * distance < gap <= (1 + math.sqrt(1 + eps)) * distance * (1 + 1e-12)


@pytest.mark.parametrize("name", ["pca", "procrustes"])
@pytest.mark.parametrize(("eps", "penalty"), [(0.1, 0.1), (0.5, 10.0), (0.7, 300.0)])
def test_landing_field_points_along_the_gradient_of_the_merit_function(
    name: str, eps: float, penalty: float
) -> None:
    own = problem(name)
    c = theory.constants(own, 0.5, 0.0, penalty, eps)
    for x in theory.region_points((D, R), eps, 200, np.random.default_rng(3), boundary=True):
        field, gradient = mean_field(own, x, penalty), theory.merit_gradient(own, x, c.gamma)
        assert (field * gradient).sum() >= c.rho * (field * field).sum()


@pytest.mark.parametrize("name", ["pca", "procrustes"])
@pytest.mark.parametrize("eps", [0.1, 0.5, 0.7])
def test_proved_smoothness_bounds_second_differences_and_the_field_s_differences(
    name: str, eps: float
) -> None:
    own, rng = problem(name), np.random.default_rng(4)
    top = theory.suprema(own, eps)
    for penalty in (0.1, 10.0):
        c = theory.constants(own, 0.5, 0.0, penalty, eps)
        field_bound = theory.landing_lipschitz(top.lipschitz, top.gradient, penalty, eps)
        for x in theory.region_points((D, R), eps, 60, rng):
            u, _, vt = np.linalg.svd(x)
            steepest = np.outer(u[:, 0], vt[0])  # where p is steepest
            for v in (steepest, rng.standard_normal((D, R))):
                step = 1e-5 * v / np.linalg.norm(v)
                change = theory.merit_gradient(own, x + step, c.gamma) - theory.merit_gradient(
                    own, x - step, c.gamma
                )
                assert np.linalg.norm(change) <= c.smoothness_quadratic * 2e-5 * (1 + 1e-8)
                turned = mean_field(own, x + step, penalty) - mean_field(own, x - step, penalty)
                assert np.linalg.norm(turned) <= field_bound * 2e-5 * (1 + 1e-8)


def test_printed_smoothness_is_exceeded_by_one_principal_component() -> None:
    """f(x) = -x^2/2 on R: the merit function's second derivative at x^2 = 1 + eps is (4 + 6 eps) +
    (2 + 3 eps) gamma."""
    eps, penalty = 0.5, 1e3
    own = do.problems.PCA(np.ones((1, 1, 1)), 1)
    top = theory.suprema(own, eps)
    assert top == (1.0, math.sqrt(1.0 + eps), 1.0 + eps, "exact")
    gamma = theory.merit_weight(1.0, 1.0 + eps, math.sqrt(1.0 + eps), penalty, eps)
    x, step = np.full((1, 1), math.sqrt(1.0 + eps)), 1e-5
    change = theory.merit_gradient(own, x + step, gamma) - theory.merit_gradient(
        own, x - step, gamma
    )
    second = float(change[0, 0]) / (2.0 * step)
    assert second == pytest.approx((4.0 + 6.0 * eps) + (2.0 + 3.0 * eps) * gamma, rel=1e-8)
    assert second > theory.merit_smoothness(math.sqrt(1.0 + eps), gamma, eps)
    assert second < theory.merit_smoothness_quadratic(
        1.0, math.sqrt(1.0 + eps), 1.0 + eps, gamma, eps
    )


def test_safety_of_mean_and_spread_does_not_make_every_agent_safe() -> None:
    """Proposition IV.1 uses that it does: two numbers with xbar^2 = 1 + eps/2 and ||x - xbar|| =
    eps/2 leave the region."""
    eps = 0.5
    mean = math.sqrt(1.0 + eps / 2.0)
    x = mean + np.array([1.0, -1.0]) * eps / (2.0 * math.sqrt(2.0))
    assert np.linalg.norm(x - x.mean()) == pytest.approx(eps / 2.0)
    assert abs(x.mean() ** 2 - 1.0) == pytest.approx(eps / 2.0)
    assert abs(x[0] ** 2 - 1.0) > eps


def test_proposition_VI_1_squares_the_distance_that_IV_1_bounds() -> None:
    """The appendix asks ||x - xbar||^2 <= eps/2. Two numbers around xbar = 1 with it leave the
    region; with ||x - xbar|| <= eps/2, which the proof shows, they do not."""
    eps, apart = 0.5, np.array([1.0, -1.0]) / math.sqrt(2.0)
    squared, right = 1.0 + apart * math.sqrt(eps / 2.0), 1.0 + apart * eps / 2.0
    assert np.linalg.norm(squared - 1.0) ** 2 == pytest.approx(eps / 2.0)
    assert np.abs(squared**2 - 1.0).max() > eps
    assert np.abs(right**2 - 1.0).max() < eps


def test_bad_input_is_refused() -> None:
    own = problem("pca")
    with pytest.raises(ValueError, match="the penalty must be positive, got 0"):
        theory.constants(own, 0.5, 0.0, 0.0)
    with pytest.raises(ValueError, match=r"eps must be above 0 and below 0.75"):
        theory.suprema(own, 0.75)
    with pytest.raises(ValueError, match=r"sigma must lie in \[0, 1\), got 1"):
        theory.constants(own, 1.0, 0.0, 1.0)


def norms_at(own: do.problems.PCA | do.problems.Procrustes, x: Array) -> tuple[float, float]:
    gradient = own.gradient(np.repeat(x[None], N, axis=0))
    product = x.T @ gradient
    symmetric = 0.5 * (product + product.swapaxes(-1, -2))
    return float(np.linalg.norm(gradient, axis=(-2, -1)).max()), float(
        np.linalg.norm(symmetric, axis=(-2, -1)).max()
    )


@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("eps", [0.1, 0.7])
def test_points_fill_the_region(eps: float, boundary: bool) -> None:
    x = theory.region_points((D, R), eps, 400, np.random.default_rng(0), boundary=boundary)
    away = np.linalg.norm(x.swapaxes(-1, -2) @ x - np.eye(R), axis=(-2, -1))
    if boundary:
        np.testing.assert_allclose(away, eps, rtol=1e-12)
    else:
        assert 0.98 * eps < away.max() <= eps * (1 + 1e-12)
        assert away.min() < 0.3 * eps


@pytest.mark.parametrize("name", ["pca", "procrustes"])
@pytest.mark.parametrize("eps", [0.05, 0.5, 0.7])
def test_no_point_exceeds_the_bounds(name: str, eps: float) -> None:
    own = problem(name)
    top = theory.suprema(own, eps)
    for x in theory.region_points((D, R), eps, 300, np.random.default_rng(2), boundary=True):
        gradient, symmetric = norms_at(own, x)
        assert gradient <= top.gradient
        assert symmetric <= top.symmetric
    np.testing.assert_allclose(top.lipschitz, own.lipschitz.max(), rtol=1e-12)


def stretched(z: Array, h: Array, eps: float) -> float:
    return -float(np.linalg.norm(h * (1.0 + eps * z / np.linalg.norm(z))))


@pytest.mark.parametrize("eps", [0.05, 0.5, 0.7])
def test_exact_suprema_are_attained_on_the_leading_eigenvectors(eps: float) -> None:
    own = problem("pca")
    top = theory.suprema(own, eps)
    assert top.kind == "exact"
    best = np.zeros(2)
    for hessian in -own.hessian():
        values, vectors = np.linalg.eigh(hessian)
        h, u = values[: -R - 1 : -1], vectors[:, : -R - 1 : -1]
        t = h**2 * (eps / np.linalg.norm(h**2))  # maximises sum h^2 (1 + t)
        x = u * np.sqrt(1.0 + t)
        found = minimize(stretched, h, args=(h, eps), tol=1e-12)
        inside = eps * found.x / np.linalg.norm(found.x)  # maximises ||h (1 + t)||
        y = u * np.sqrt(1.0 + inside)
        best = np.maximum(best, [np.linalg.norm(hessian @ x), np.linalg.norm(y.T @ hessian @ y)])
    np.testing.assert_allclose(top[1:3], best, rtol=1e-7)


def test_sampled_suprema_lie_below_the_proved_ones_and_near_L() -> None:
    own = problem("procrustes")
    functions = do.problems.FunctionProblem(
        lambda agents, x: own.value(x),
        lambda agents, x: own.gradient(x),
        Stiefel(D, R),
        N,
        stacked=True,
    )
    sampled, proved = theory.suprema(functions, 0.5), theory.suprema(own, 0.5)
    assert (sampled.kind, proved.kind) == ("sampled", "bound")
    assert 0.9 * proved.lipschitz < sampled.lipschitz < proved.lipschitz * (1 + 1e-6)
    assert 0.5 * proved.gradient < sampled.gradient < proved.gradient
    assert 0.2 * proved.symmetric < sampled.symmetric < proved.symmetric
