"""Suprema over the safety region: bounds that no point exceeds, attained where they are called exact."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import decentorth as do
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from decentorth.theory import region_points, suprema

N, D, R = 4, 6, 3


def problems() -> dict[str, do.problems.PCA | do.problems.Procrustes]:
    rng = np.random.default_rng(1)
    A = rng.standard_normal((N, 9, D)) * np.linspace(1.0, 3.0, D)
    return {"pca": do.problems.PCA(A, R), "procrustes": do.problems.Procrustes(A, rng.standard_normal((N, R, 9)))}


def norms_at(problem: do.problems.PCA | do.problems.Procrustes, x: Array) -> tuple[float, float]:
    gradient = problem.gradient(np.repeat(x[None], N, axis=0))
    product = x.T @ gradient
    symmetric = 0.5 * (product + product.swapaxes(-1, -2))
    return float(np.linalg.norm(gradient, axis=(-2, -1)).max()), float(np.linalg.norm(symmetric, axis=(-2, -1)).max())


@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("eps", [0.1, 0.7])
def test_points_fill_the_region(eps: float, boundary: bool) -> None:
    x = region_points((D, R), eps, 400, np.random.default_rng(0), boundary=boundary)
    away = np.linalg.norm(x.swapaxes(-1, -2) @ x - np.eye(R), axis=(-2, -1))
    if boundary:
        np.testing.assert_allclose(away, eps, rtol=1e-12)
    else:
        assert 0.98 * eps < away.max() <= eps * (1 + 1e-12)
        assert away.min() < 0.3 * eps


@pytest.mark.parametrize("name", ["pca", "procrustes"])
@pytest.mark.parametrize("eps", [0.05, 0.5, 0.7])
def test_no_point_exceeds_the_bounds(name: str, eps: float) -> None:
    problem = problems()[name]
    top = suprema(problem, eps)
    for x in region_points((D, R), eps, 300, np.random.default_rng(2), boundary=True):
        gradient, symmetric = norms_at(problem, x)
        assert gradient <= top.gradient
        assert symmetric <= top.symmetric
    np.testing.assert_allclose(top.lipschitz, problem.lipschitz.max(), rtol=1e-12)


def stretched(z: Array, h: Array, eps: float) -> float:
    return -float(np.linalg.norm(h * (1.0 + eps * z / np.linalg.norm(z))))


@pytest.mark.parametrize("eps", [0.05, 0.5, 0.7])
def test_exact_suprema_are_attained_on_the_leading_eigenvectors(eps: float) -> None:
    problem = problems()["pca"]
    top = suprema(problem, eps)
    assert top.kind == "exact"
    best = np.zeros(2)
    for hessian in -problem.hessian():
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
    problem = problems()["procrustes"]
    functions = do.problems.FunctionProblem(
        lambda agents, x: problem.value(x), lambda agents, x: problem.gradient(x), Stiefel(D, R), N, stacked=True
    )
    sampled, proved = suprema(functions, 0.5), suprema(problem, 0.5)
    assert (sampled.kind, proved.kind) == ("sampled", "bound")
    assert 0.9 * proved.lipschitz < sampled.lipschitz < proved.lipschitz * (1 + 1e-6)
    assert 0.5 * proved.gradient < sampled.gradient < proved.gradient
    assert 0.2 * proved.symmetric < sampled.symmetric < proved.symmetric


@pytest.mark.parametrize("eps", [0.0, 0.75, -1.0])
def test_eps_out_of_range_is_refused(eps: float) -> None:
    with pytest.raises(ValueError, match=r"eps must be above 0 and below 0.75"):
        suprema(problems()["pca"], eps)
