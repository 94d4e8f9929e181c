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
