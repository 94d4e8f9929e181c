"""Conjugate gradients and L-BFGS against dense formulas, the conditions of their line search, and
answers known from SciPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse import csr_array, diags_array

from decentorth import LBFGS, ConjugateGradients, solve
from decentorth.algorithms.centralized import (
    conjugate_gradients,
    lbfgs,
    line_search,
    search_points,
)
from decentorth.algorithms.centralized.rgd import REFRESHED
from decentorth.api import Run, set_up
from decentorth.problems import CCA, GEVP
from decentorth.protocols import Array
from tests.reference import naive
from tests.support import generalized
from tests.support.generalized import pencil
from tests.support.problems import pca, point, procrustes, relative

methods = pytest.mark.parametrize(
    "method", [ConjugateGradients(), LBFGS(memory=3)], ids=["conjugate_gradients", "lbfgs"]
)


def states(run: Run, iterations: int) -> list[Any]:
    return list(islice(run.states(), iterations + 1))


@pytest.mark.parametrize(
    ("method", "reference"),
    [
        (ConjugateGradients(), naive.conjugate_gradients),
        (LBFGS(memory=3), partial(naive.lbfgs, memory=3)),
    ],
)
def test_iterates_are_those_of_the_formulas(
    method: Any, reference: Callable[..., list[Array]]
) -> None:
    """With the steps that the line search found; a third of the pairs are forgotten."""
    problem = procrustes(rows=(20,)).problem
    x0 = point(problem, 2)
    found = states(set_up(problem, method, x0=x0), 9)
    expected = reference(
        lambda x: problem.gradient(x[None])[0],
        x0,
        [float(state.step_size[0]) for state in found[1:]],
    )
    for state, x in zip(found, expected, strict=True):
        assert relative(state.x[0], x) < 1e-7
    assert relative(found[-1].x[0], x0) > 0.1


@methods
def test_every_step_satisfies_the_wolfe_conditions(method: Any) -> None:
    """The slope after a step is that of the direction's projection to the tangent space there."""
    sigma = lbfgs.SIGMA if isinstance(method, LBFGS) else conjugate_gradients.SIGMA
    problem = procrustes(rows=(20,)).problem
    found = states(set_up(problem, method, x0=point(problem, 2)), 20)
    for old, new in pairwise(found):
        d = old.tangent[0]
        field = [
            naive.tangent_projection(state.x[0], problem.gradient(state.x)[0])
            for state in (old, new)
        ]
        start, slope = (
            np.sum(field[0] * d),
            np.sum(field[1] * naive.tangent_projection(new.x[0], d)),
        )
        rise = problem.value(new.x)[0] - problem.value(old.x)[0]
        assert start < 0.0
        assert rise <= line_search.DELTA * new.step_size[0] * start + 1e-12 * abs(
            problem.value(old.x)[0]
        )
        assert abs(slope) <= sigma * abs(start) * (1 + 1e-9)


@methods
@pytest.mark.parametrize(
    "make",
    [lambda: procrustes(rows=(20,)).problem, lambda: pca(rows=(20,)).problem],
    ids=["procrustes", "pca"],
)
def test_products_that_are_carried_along_give_the_gradients(
    method: Any, make: Callable[[], Any]
) -> None:
    """One product for each iteration, whatever the trials, and two at the start; just before
    gradients are made anew."""
    problem = make()
    last = states(set_up(problem, method, x0=point(problem, 2)), REFRESHED - 1)[-1]
    assert last.gradients == REFRESHED
    assert relative(last.point.gradient, problem.gradient(last.x)) < 1e-13
    assert relative(last.point.form, problem.hessian_product(last.x, last.x)) < 1e-13


def test_the_first_trial_on_a_product_of_sets_is_newtons() -> None:
    """The step to the minimiser of the quadratic with phi's slope and curvature, from differences
    of values."""
    rng = np.random.default_rng(4)
    problem = CCA([rng.standard_normal((60, 6))], [rng.standard_normal((60, 4))], 2)
    view: Any = search_points.viewed(problem)
    point, _ = search_points.begun(problem, set_up(problem, ConjugateGradients(), seed=2).x0)
    d = search_points.field(point).times(-1.0)

    def phi(step: float) -> float:
        return float(view.value(view.constraint.retract(point.x, step * d.tangent))[0])

    small = 1e-3
    slope = (phi(small) - phi(-small)) / (2.0 * small)
    curvature = (phi(small) - 2.0 * phi(0.0) + phi(-small)) / small**2
    assert curvature > 0.0
    assert line_search.taylor(view, point, d) == pytest.approx(-slope / curvature, rel=1e-4)


@methods
def test_whitened_variables_give_the_iterates_of_the_metric_of_b(method: Any) -> None:
    """A sparse B is not whitened: the same iterates from solves with B and products that are
    carried along."""
    A, B = pencil(12, 30.0)
    x0 = GEVP(A, B, 3).start(1)
    dense, sparse = [
        solve(GEVP(A, one, 3), method, x0=x0, iterations=12, rows=2) for one in (B, csr_array(B))
    ]
    assert relative(dense.x[0], sparse.x[0]) < 1e-6
    assert relative(dense.x[0], x0) > 0.1
    assert dense.row.values["feasibility"] < 1e-13
    assert sparse.row.values["feasibility"] < 1e-13


@methods
@pytest.mark.parametrize("kind", ["dense", "sparse", "values"])
def test_generalized_eigenvectors(method: Any, kind: str) -> None:
    """Condition 100, to 1e-12 of scipy's least value, also where values are those of an unknown
    function."""
    A, B = pencil(40)
    problem: Any = (
        GEVP(A, csr_array(B) if kind == "sparse" else B, 4)
        if kind != "values"
        else generalized.gevp(40, 4)
    )
    A = problem.A if kind == "values" else A
    least = -0.5 * float(scipy.linalg.eigh(A, B, eigvals_only=True)[-4:].sum())
    result = solve(problem, method, iterations=150, rows=2, seed=3)
    assert float(problem.value(result.x)[0]) == pytest.approx(least, rel=1e-12)
    assert result.row.values["gradient_norm"] < 1e-6


@methods
def test_finite_elements_stay_on_the_set_of_their_mass_matrix(method: Any) -> None:
    """Linear elements on an interval: eigenvectors sin(k pi i / n), and directions that are much
    shorter than the pairs of which they are combined."""
    n, rank = 100, 3
    side: Any = np.ones(n - 2)
    angles = np.pi * np.arange(1, rank + 1) / n
    stiffness = n * diags_array([-side, 2.0 * np.ones(n - 1), -side], offsets=[-1, 0, 1])
    mass = diags_array([side, 4.0 * np.ones(n - 1), side], offsets=[-1, 0, 1]) / (6.0 * n)
    result = solve(GEVP(-stiffness, mass, rank), method, iterations=1500, rows=2)
    (x,) = result.x
    assert np.abs(x.T @ (mass @ x) - np.eye(rank)).max() < 1e-14
    frequencies = 6.0 * n * n * (2.0 - 2.0 * np.cos(angles)) / (4.0 + 2.0 * np.cos(angles))
    assert np.trace(x.T @ (stiffness @ x)) == pytest.approx(frequencies.sum(), rel=1e-10)


@methods
def test_at_a_minimiser_nothing_moves_away(method: Any) -> None:
    """Where the gradient is as small as rounding errors."""
    problem = GEVP(np.diag([5.0, 4.0, 1.0, 0.5]), np.eye(4), 2)
    result = solve(problem, method, x0=np.eye(4)[:, :2], iterations=30, rows=2)
    assert float(problem.value(result.x)[0]) == pytest.approx(-4.5, rel=1e-15)
