"""The methods of the field since 2024: their formulas, agent by agent, and what each of them promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.protocols import Array
from tests.algorithms.decentralized.test_rivals_reference import N, agree, final, step_for
from tests.reference import field, naive, rivals
from tests.support.building import built, prepared
from tests.support.problems import CASES, GRAPHS, point, relative

RING = tp.metropolis_weights(tp.ring(8))


def unlike(**settings: Any) -> Any:
    """PCA of eight agents with unlike data."""
    given = {"data": "synthetic", "dimension": 8, "rank": 2, "gap": 0.3, "heterogeneity": 0.5, **settings}
    return prepared(built(do.problems.PCASettings(**given).problem(8, 0)))


def gradient(problem: Any, x: Array) -> float:
    """The norm of the mean Riemannian gradient at the polar factor of the mean point."""
    mean = naive.polar(x.mean(0))
    slopes = problem.gradient(np.repeat(mean[None], len(x), axis=0))
    return naive.norm(naive.tangent_projection(mean, slopes.mean(0)))


@pytest.mark.parametrize("graph", ["ring", "star"])
@pytest.mark.parametrize("name", CASES)
def test_rmtracking_is_its_formulas(name: str, graph: str) -> None:
    case, W = CASES[name](), GRAPHS[graph](N)
    x0, a = point(case.problem), step_for(case, 0.05)
    expected = field.rmtracking(rivals.full(case.gradients), W.toarray(), x0, a, 15, 0.7)
    agree(final(case.problem, do.RMTracking(step_size=a, momentum=0.7), W, x0), expected, x0, True)
    plain = final(case.problem, do.DPRGT(step_size=a), W, x0)
    assert np.array_equal(final(case.problem, do.RMTracking(step_size=a, momentum=0.0), W, x0).x, plain.x)


def test_momenta_of_trackers_and_trackers_of_momenta_lead_to_the_same_points() -> None:
    """Both filters are linear; the projection to the tangent space comes behind them."""
    case, W, x0 = CASES["procrustes"](), GRAPHS["ring"](N).toarray(), point(CASES["procrustes"]().problem)
    own, tracked = (field.rmtracking(rivals.full(case.gradients), W, x0, 1e-3, 60, 0.8, first).x[-1] for first in (True, False))
    assert relative(own, tracked) < 1e-12
    assert relative(own, field.rmtracking(rivals.full(case.gradients), W, x0, 1e-3, 60, 0.0).x[-1]) > 1e-3


@pytest.mark.slow
def test_with_short_steps_momentum_is_as_much_faster_as_its_paper_says() -> None:
    """Iterations to a gradient of 1e-6 with one short step: 1 / (1 - beta) = 5 times fewer, within a tenth."""
    problem = unlike()

    def iterations(momentum: float) -> int:
        method = do.RMTracking(step_size=0.05, momentum=momentum)
        result = do.solve(problem, method, RING, iterations=6000, stopping=1e-6, record_every=5)
        assert result.converged
        return int(result.state.k)

    assert iterations(0.0) / iterations(0.8) == pytest.approx(5.0, rel=0.1)


@pytest.mark.parametrize("method", [do.RMTracking(), do.RMTracking(step_size="constant", momentum=0.9)])
def test_a_constant_step_leads_to_the_exact_answer_of_unlike_agents(method: Any) -> None:
    problem = unlike()
    result = do.solve(problem, method, RING, iterations=3000, stopping=1e-11, record_every=50)
    assert gradient(problem, result.x) < 1e-11
    assert np.abs(result.x - result.x[0]).max() < 1e-10


def alone(name: str) -> tuple[Any, Any, Array]:
    """A problem of one agent, its gradient, and a start."""
    case = CASES[name](rows=(30,))
    return case.problem, case.gradients[0], point(case.problem)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("name", CASES)
def test_demuon_is_its_formulas(name: str, weight: float, scaled: bool) -> None:
    case, W = CASES[name](), GRAPHS["ring"](N)
    x0, a = point(case.problem), step_for(case, 0.03) if scaled else 0.02
    expected = field.demuon(rivals.full(case.gradients), W.toarray(), x0, a, 15, weight, scaled)
    method = do.DeMuon(step_size=a, weight=weight, length="nuclear" if scaled else "unit")
    agree(final(case.problem, method, W, x0), expected, x0, True)


def test_demuon_in_the_space_of_matrices_is_the_papers() -> None:
    """Least squares of unlike agents, without a constraint: nothing is projected."""
    rng = np.random.default_rng(2)
    H, c = rng.standard_normal((N, 6, 4)), rng.standard_normal((N, 6, 3))
    problem = do.problems.FunctionProblem(
        lambda i, x: 0.5 * naive.norm(H[i] @ x - c[i]) ** 2, lambda i, x: H[i].T @ (H[i] @ x - c[i]), do.sets.Euclidean(4, 3), N
    )
    x0, W = rng.standard_normal((4, 3)), GRAPHS["star"](N)
    expected = field.demuon(lambda i, k, x: H[i].T @ (H[i] @ x - c[i]), W.toarray(), x0, 0.05, 30, 0.5, False, free=True)
    result = do.solve(problem, do.DeMuon(step_size=0.05, weight=0.5), W, x0=x0, iterations=30)
    assert relative(result.x, expected.x[-1]) < 1e-12
    assert relative(result.state.tracker, expected.tracker[-1]) < 1e-12


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_spel_is_demuon_alone(name: str, scaled: bool) -> None:
    problem, slope, x0 = alone(name)
    eta = 1e-3 if scaled else 0.03
    x = x0
    for _ in range(15):
        along = naive.tangent_projection(x, slope(x))
        x = naive.polar(x - eta * (field.nuclear_norm(along) if scaled else 1.0) * field.matrix_sign(along))
    result = do.solve(problem, do.SPEL(step_size=eta, length="nuclear" if scaled else "unit"), x0=x0, iterations=15)
    assert relative(result.x[0], x) < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_pogo_is_its_formulas(name: str) -> None:
    problem, slope, x0 = alone(name)
    result = do.solve(problem, do.POGO(step_size=2e-3), x0=x0, iterations=50)
    assert relative(result.x[0], field.pogo(slope, x0, 2e-3, 50)) < 1e-12


def test_pogo_leaves_the_set_by_the_fourth_power_of_its_step() -> None:
    _, slope, x0 = alone("procrustes")
    off = [naive.infeasibility(field.pogo(slope, x0, eta, 1)) for eta in (1e-3, 5e-4)]
    assert off[0] / off[1] == pytest.approx(16, rel=0.05)


def test_unit_steps_stop_at_a_distance_of_their_length_and_nuclear_steps_do_not() -> None:
    problem = unlike()
    far = [gradient(problem, do.solve(problem, do.DeMuon(step_size=eta), RING, iterations=1500).x) for eta in (4e-3, 1e-3)]
    assert 2 < far[0] / far[1] < 8
    exact = do.solve(problem, do.DeMuon(step_size="auto", length="nuclear"), RING, iterations=4000, stopping=1e-11)
    assert gradient(problem, exact.x) < 1e-11


def test_signs_that_are_tracked_rest_at_points_that_are_not_stationary() -> None:
    """f_i(x) = (x - c_i)^2 / 2 on the line: between the middle c_i the signs add up to 0, and the gradients do not.

    Tracking of the gradients first leads to the mean of the c_i, with the same W and the same shrinking steps.
    """
    c, W, x0 = np.array([0.0, 0.0, 0.0, 10.0]), tp.metropolis_weights(tp.ring(4)), np.array([[0.0]])

    def steps(k: int) -> float:
        return 0.5 / (k + 1) ** 0.5

    x = np.zeros((4, 1, 1))
    sign = np.sign(x - c[:, None, None])
    y = sign.copy()
    for k in range(4000):
        x = np.einsum("ij,jab->iab", W.toarray(), x - steps(k) * y)
        new = np.sign(x - c[:, None, None])
        y = np.einsum("ij,jab->iab", W.toarray(), y + new - sign)
        sign = new
    assert np.abs(x - c.mean()).min() > 2.0
    problem = do.problems.FunctionProblem(
        lambda i, x: 0.5 * float((x[0, 0] - c[i]) ** 2), lambda i, x: x - c[i], do.sets.Euclidean(1, 1), 4
    )
    tracked = do.solve(problem, do.DeMuon(step_size="diminishing:initial=0.5"), W, x0=x0, iterations=4000)
    assert np.abs(tracked.x - c.mean()).max() < 0.02


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("length", ["unit", "nuclear"])
def test_automatic_spectral_steps_do_not_depend_on_the_unit(length: Any, scale: float) -> None:
    """Data times s have gradients times s^2, and the same points."""
    rows = [np.random.default_rng(i).standard_normal((9, 6)) for i in range(8)]
    method = do.DeMuon(length=length, step_size="diminishing" if length == "unit" else "auto")
    points = [
        do.solve(do.problems.PCA([s * a for a in rows], 2), method, RING, x0=np.eye(6, 2), iterations=20).x for s in (1.0, scale)
    ]
    assert relative(points[1], points[0]) < 1e-9


def test_points_of_several_matrices_have_the_signs_of_each() -> None:
    """As for the layers of a module: the blocks of a point move as they do alone, scaled by the sum of all nuclear norms."""
    rng = np.random.default_rng(4)
    parts = do.sets.Flat(do.sets.Stiefel(5, 2), do.sets.Euclidean(3, 3), do.sets.Euclidean(4, 1))
    assert parts.singular_values == 6
    v = rng.standard_normal((2, 23, 1))
    signs = parts.matrix_sign(v)
    for own, found in zip(parts.split(v), parts.split(signs), strict=True):
        for agent in range(2):
            np.testing.assert_allclose(found[agent], field.matrix_sign(own[agent]), atol=1e-14)
    assert not parts.matrix_sign(0 * v).any()
    singular = np.outer(v[0, :5, 0], v[0, 5:7, 0])[None]
    np.testing.assert_allclose(do.sets.Stiefel(5, 2).matrix_sign(singular), singular / np.linalg.norm(singular), atol=1e-14)
