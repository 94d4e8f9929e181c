"""The linear rate near a solution: Jacobians against differences, the rate against runs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from decentorth.theory import landing_jacobian, local_rate, region_points, solution
from topologies.spectra.tracking_rate import Order

N, D, R = 6, 6, 2
PENALTY = 3.0


def problem(name: str) -> do.problems.PCA | do.problems.Procrustes:
    rng = np.random.default_rng(8)
    A = rng.standard_normal((N, 20, D)) * np.linspace(2.0, 0.5, D)
    return (
        do.problems.PCA(A, R)
        if name == "pca"
        else do.problems.Procrustes(A, rng.standard_normal((N, R, 20)))
    )


@pytest.mark.parametrize("name", ["pca", "procrustes"])
def test_jacobian_agrees_with_central_differences_on_and_off_the_manifold(name: str) -> None:
    own, rng = problem(name), np.random.default_rng(9)
    x = region_points((D, R), 0.5, N, rng)
    penalty = rng.uniform(1.0, 5.0, N)
    jacobian = landing_jacobian(own, x, penalty)
    v = rng.standard_normal((N, D, R))

    def field(points: Array) -> Array:
        return Stiefel(D, R).landing(points, own.gradient(points), penalty)

    difference = (field(x + 1e-6 * v) - field(x - 1e-6 * v)) / 2e-6
    expected = (jacobian @ v.reshape(N, -1, 1)).reshape(v.shape)
    np.testing.assert_allclose(difference, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_solution_of_pca_spans_the_leading_eigenspace() -> None:
    own = problem("pca")
    _, vectors = np.linalg.eigh(-own.hessian().mean(0))
    basis = vectors[:, : -R - 1 : -1]
    near = basis + 1e-2 * np.random.default_rng(1).standard_normal((D, R))
    x = solution(own, near)
    np.testing.assert_allclose(x @ x.T, basis @ basis.T, atol=1e-12)
    np.testing.assert_allclose(x.T @ x, np.eye(R), atol=1e-12)


def test_one_agent_converges_like_gradient_descent_in_the_tangent_space() -> None:
    """For one agent and r = 1 the landing field's Jacobian has the eigenvalues (c_1 - c_j)/2 and 2
    lam."""
    C = np.diag([5.0, 3.0, 1.0])
    own = do.problems.PCA(np.linalg.cholesky(C).T[None] * np.sqrt(3.0), 1)
    jacobian = landing_jacobian(own, np.eye(3)[None, :, :1], np.array([PENALTY]))[0]
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvals(jacobian)), [1.0, 2.0, 2.0 * PENALTY], atol=1e-12
    )
    rate = local_rate(
        own,
        np.ones((1, 1)),
        np.eye(3)[:, :1],
        np.array([0.1]),
        np.array([PENALTY]),
        "combine-then-adapt",
    )
    assert rate.rate == pytest.approx(0.9, abs=1e-12)
    assert rate.symmetries == 0


def check_rate(own: Any, method: Any, W: Any, order: Order | None, symmetries: int) -> None:
    trackers = []
    for state in itertools.islice(do.iterate(own, method, W), 6000):
        trackers.append(np.linalg.norm(state.tracker))
        if trackers[-1] < 1e-10 * trackers[0]:
            break
    predicted = local_rate(
        own,
        W,
        solution(own, state.x.mean(0)),
        state.step_size,
        state.penalty,
        *([order] if order else []),
    )
    assert predicted.symmetries == symmetries
    tail = np.log(trackers[len(trackers) // 2 :])
    assert trackers[-1] < 1e-5 * trackers[0]
    slope = np.polyfit(np.arange(len(tail)), tail, 1)[0]
    assert slope == pytest.approx(np.log(predicted.rate), rel=0.05)


@pytest.mark.slow_cases("procrustes-0-combine-then-adapt")
@pytest.mark.parametrize("order", ["combine-then-adapt", "adapt-then-combine"])
@pytest.mark.parametrize(("name", "symmetries"), [("pca", 1), ("procrustes", 0)])
def test_predicted_rate_is_measured(name: str, symmetries: int, order: Order) -> None:
    check_rate(
        problem(name),
        do.DRFGT(step_size="constant", order=order),
        tp.metropolis_weights(tp.path(N)),
        order,
        symmetries,
    )


@pytest.mark.parametrize(("name", "symmetries"), [("pca", 1), ("procrustes", 0)])
def test_predicted_rate_of_push_pull_is_measured(name: str, symmetries: int) -> None:
    W = tp.directed_weights(tp.directed_ring(N, chords=3, seed=2))
    check_rate(problem(name), do.PushPull(), W, None, symmetries)


def test_newton_says_when_it_is_lost() -> None:
    own = problem("procrustes")
    with pytest.raises(ValueError, match="start nearer to a solution"):
        solution(own, np.full((D, R), 1e8))
