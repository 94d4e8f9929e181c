"""The merit function: its gradient by Taylor slopes, its descent and the bounds of Theorem IV.7
along runs."""

from __future__ import annotations

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.api import set_up
from decentorth.lab.theory.measured import measure
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from decentorth.theory import Merit, constants, merit, merit_gradient, region_points

N, D, R = 5, 6, 2
GAMMA = 7.0


def problem(
    name: str,
) -> do.problems.PCA | do.problems.Procrustes | do.problems.FunctionProblem[Stiefel]:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((N, 8, D))
    if name == "pca":
        return do.problems.PCA(A, R)
    if name == "procrustes":
        return do.problems.Procrustes(A, rng.standard_normal((N, R, 8)))
    return do.problems.FunctionProblem(
        lambda agents, x: (x**4).sum((-2, -1)) / 4.0,
        lambda agents, x: x**3,
        Stiefel(D, R),
        N,
        stacked=True,
    )


def value(
    own: do.problems.PCA | do.problems.Procrustes | do.problems.FunctionProblem[Stiefel], x: Array
) -> float:
    points = np.repeat(x[None], N, axis=0)
    return merit(x, float(own.value(points).mean()), own.gradient(points).mean(0), GAMMA)


@pytest.mark.parametrize("name", ["pca", "procrustes", "quartic"])
def test_gradient_has_taylor_slope_two(name: str) -> None:
    own, rng = problem(name), np.random.default_rng(6)
    (x,) = region_points((D, R), 0.5, 1, rng)
    v = rng.standard_normal((D, R))
    slope = float((merit_gradient(own, x, GAMMA) * v).sum())
    steps = np.array([1e-2, 1e-3])
    errors = [abs(value(own, x + t * v) - value(own, x) - t * slope) for t in steps]
    assert np.log10(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("name", ["pca", "procrustes"])
def test_gradient_on_the_manifold_is_the_tangent_part_and_not_the_landing_field(name: str) -> None:
    own = problem(name)
    x = own.start(0)
    points = np.repeat(x[None], N, axis=0)
    mean = own.gradient(points).mean(0)[None]
    gradient = merit_gradient(own, x, GAMMA)
    np.testing.assert_allclose(gradient, Stiefel(D, R).tangent(x[None], mean)[0], atol=1e-12)
    canonical = Stiefel(D, R).relative_gradient(x[None], mean)[0]
    normal = np.eye(D) - x @ x.T
    np.testing.assert_allclose(x.T @ gradient, x.T @ canonical, atol=1e-12)
    np.testing.assert_allclose(normal @ gradient, 2.0 * normal @ canonical, atol=1e-12)
    assert np.linalg.norm(gradient - canonical) > 0.1 * np.linalg.norm(gradient)


def test_metric_is_the_merit_function_at_the_mean() -> None:
    own, W = problem("procrustes"), tp.metropolis_weights(tp.ring(N))
    result = do.solve(own, do.DRFGT(), W, iterations=7, record_every=7, metrics=[Merit(GAMMA)])
    mean = result.x.mean(0)
    assert result.row.values["merit"] == pytest.approx(value(own, mean), rel=1e-12)
    assert result.row.values["consensus_square"] == pytest.approx(
        ((result.x - mean) ** 2).sum(), rel=1e-12
    )
    assert result.row.values["mean_tracker_square"] == pytest.approx(
        (result.state.tracker.mean(0) ** 2).sum(), rel=1e-12
    )


@pytest.mark.parametrize("name", ["pca", "procrustes"])
def test_bounds_and_descent_hold_along_a_run_with_a_guaranteed_step(name: str) -> None:
    own, W, penalty = problem(name), tp.metropolis_weights(tp.complete(N)), 20.0
    c = constants(own, 0.0, 0.0, penalty, 0.5)
    measured = measure(set_up(own, do.DRFGT(step_size=c.guaranteed, penalty=penalty), W), c, 400)
    assert 0.0 < measured.field <= measured.field_bound
    assert 0.0 < measured.consensus <= measured.consensus_bound
    assert measured.feasibility <= 0.5
    rounding = 1e-14 * np.abs(measured.merit).max()
    assert (np.diff(measured.merit) <= measured.allowance + rounding).all()
    assert measured.merit[-1] < measured.merit[0] - 100 * rounding


def test_weight_must_be_positive() -> None:
    with pytest.raises(ValueError, match="gamma must be positive, got 0"):
        Merit(0.0)
