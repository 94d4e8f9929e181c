"""One agent whose samples are in blocks: the mean of the blocks, its samples, and every single-agent method on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decentorth import GSJOBCD, JJOBCD, PCAL, PLAM, RGD, GeneralizedLanding, Landing, solve
from decentorth.api import Run
from decentorth.problems import FunctionProblem, Spread
from decentorth.protocols import KnownOptimum, KnownValue, Sampled, Smooth
from tests.mpi.spread import BLOCKS, ellipsoid, log_cosh_blocks
from tests.support.j_orthogonal import LogCosh
from tests.support.problems import UNEVEN, pca, procrustes


def spread(problem: Any) -> Any:
    return Run(Spread(problem), RGD(step_size=1.0)).problem


@pytest.mark.parametrize("make", [pca, procrustes])
def test_it_is_the_mean_of_the_blocks(make: Any) -> None:
    case = make(UNEVEN)
    problem, x = spread(case.problem), np.random.default_rng(0).standard_normal((1, 12, 3))
    assert problem.value(x)[0] == pytest.approx(np.mean([f(x[0]) for f in case.values]), rel=1e-12)
    np.testing.assert_allclose(problem.gradient(x)[0], np.mean([g(x[0]) for g in case.gradients], axis=0), rtol=1e-11, atol=1e-12)
    assert problem.lipschitz[0] == pytest.approx(np.mean(case.lipschitz), rel=1e-12)
    pooled = case.problem.pooled()
    assert problem.lipschitz[0] >= pooled.lipschitz[0]
    np.testing.assert_array_equal(problem.start(3), case.problem.start(3))


def test_samples_are_numbered_through_the_blocks_and_weighted() -> None:
    problem, x = spread(pca(UNEVEN).problem), np.random.default_rng(0).standard_normal((1, 12, 3))
    assert problem.n_samples.tolist() == [sum(UNEVEN)]
    everything = np.arange(sum(UNEVEN))
    np.testing.assert_allclose(problem.gradient_on(x, everything[None]), problem.gradient(x), rtol=1e-11, atol=1e-12)
    singles = np.mean([problem.gradient_on(x, np.array([[k]])) for k in everything], axis=0)
    np.testing.assert_allclose(singles, problem.gradient(x), rtol=1e-11, atol=1e-12)


def test_it_can_do_what_the_blocks_can() -> None:
    known: Any = spread(pca().problem)
    unknown: Any = Run(Spread(log_cosh_blocks()), JJOBCD()).problem
    assert all(isinstance(known, ability) for ability in (Sampled, Smooth, KnownOptimum, KnownValue))
    assert known.error_name == "subspace_distance"
    assert [isinstance(unknown, ability) for ability in (Sampled, Smooth)] == [True, False]
    assert (unknown.error_name, unknown.optimal_value) == ("", None)


def test_the_answer_is_that_of_all_blocks() -> None:
    result = solve(Spread(pca(UNEVEN).problem), RGD(step_size="bb"), iterations=300, rows=2)
    assert result.row.values["error"] < 1e-9
    assert result.x.shape == (1, 12, 3)
    gathered = result.gather()
    assert gathered is not None
    np.testing.assert_array_equal(gathered, result.x)


@pytest.mark.parametrize(
    "algorithm",
    [
        RGD(step_size=1e-2),
        GeneralizedLanding(step_size=1e-2),
        GeneralizedLanding(step_size="bb"),
        PLAM(step_size=1e-2, penalty=5.0),
        PCAL(step_size=1e-2, penalty=5.0),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_methods_do_what_they_do_on_the_mean(algorithm: Any) -> None:
    """To rounding."""
    blocks, case = ellipsoid(UNEVEN), pca(UNEVEN)
    mean = FunctionProblem(
        lambda _, x: float(np.mean([f(x) for f in case.values])),
        lambda _, x: np.mean([g(x) for g in case.gradients], axis=0),
        blocks.constraint,
        1,
    )
    one, other = (solve(problem, algorithm, iterations=40, rows=2) for problem in (Spread(blocks), mean))
    np.testing.assert_allclose(one.x, other.x, atol=1e-9)


@pytest.mark.parametrize("algorithm", [RGD(), Landing(), Landing(safe=True)], ids=["rgd", "landing", "landing-safe"])
def test_automatic_steps_descend(algorithm: Any) -> None:
    result = solve(Spread(pca(UNEVEN).problem), algorithm, iterations=100, rows=2)
    assert result.row.values["gradient_norm"] < 0.2 * result.history["gradient_norm"][0]


@pytest.mark.parametrize("algorithm", [JJOBCD(varsigma=3.0), GSJOBCD(varsigma=3.0, pairs=4)], ids=["j", "gs"])
def test_j_orthogonal_methods_do_what_they_do_on_all_samples(algorithm: Any) -> None:
    """Equally large blocks, so that the mean of their means is the mean of all."""
    equal = (7,) * 5
    rng = np.random.default_rng(0)
    whole = LogCosh(np.concatenate([rng.standard_normal((m, 6)) for m in equal]), np.array([1.0] * 3 + [-1.0] * 3))
    x0 = whole.constraint.random(np.random.default_rng(1), 0.5)
    one = solve(Spread(log_cosh_blocks(6, equal)), algorithm, x0=x0, iterations=20, rows=2)
    other = solve(whole, algorithm, x0=x0, iterations=20, rows=2)
    np.testing.assert_allclose(one.x, other.x, atol=1e-10)
    assert one.row.values["objective"] == pytest.approx(other.row.values["objective"], rel=1e-12)


def test_blocks_are_those_of_the_problem() -> None:
    assert Spread(log_cosh_blocks()).n_blocks == len(BLOCKS)
    assert Spread(log_cosh_blocks()).n_agents == 1
