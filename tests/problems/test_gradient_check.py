"""The Taylor check of gradients finds every shipped gradient right, and wrong ones wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import topologies as tp
from decentorth import DGD, DRFGT, registry, solve
from decentorth.api import set_up
from decentorth.problems import FunctionProblem, GradientCheck
from decentorth.protocols import Array
from decentorth.sets import Euclidean, Stiefel
from tests.support.mpi import HUNG, ROOT

ALONE = ("hevp", "hspp", "lda", "ultrae")


@pytest.mark.slow_cases("ultrae")
@pytest.mark.parametrize("name", registry.problems.names())
def test_every_shipped_gradient_fits_its_value(name: str) -> None:
    n = 1 if name in ALONE else 5
    run = set_up(registry.problems.get(name)().problem(n, 0), DGD(step_size=1.0), tp.metropolis_weights(tp.complete(n)))
    assert run.check_gradient().right


def quartic(wrong: float = 0.0, at: int = 2) -> FunctionProblem[Stiefel]:
    """f_i = sum x^4, with an error in agent ``at``'s gradient."""

    def gradient(agent: int, x: Array) -> Array:
        return 4.0 * x**3 * (1.0 + (wrong if agent == at else 0.0))

    return FunctionProblem(lambda agent, x: float((x**4).sum()), gradient, Stiefel(6, 2), 4)


def test_a_right_gradient_has_slope_two() -> None:
    found = quartic().check_gradient()
    assert isinstance(found, GradientCheck)
    np.testing.assert_allclose(found.slopes, 2.0, atol=0.05)
    assert found.right
    assert "right, Taylor slope 2.0" in repr(found)


@pytest.mark.parametrize("wrong", [-2.0, 1.0, 1e-3])
def test_a_wrong_gradient_has_slope_one_and_its_agent_is_named(wrong: float) -> None:
    """Of a part of the agents too, by the agent's number among all."""
    for problem in (quartic(wrong), quartic(wrong).restrict(slice(1, 4))):
        found = problem.check_gradient()
        assert (found.agent, found.right) == (2, False)
        assert abs(found.slope - 1.0) < 0.1
        assert "WRONG, the gradient of agent 2" in repr(found)
    message = "WRONG, the gradient of agent 2 does not fit its value: Taylor slope"
    with pytest.raises(ValueError, match=re.escape(message)):
        solve(quartic(wrong), DRFGT(), tp.metropolis_weights(tp.ring(4)), check=True)


def test_what_is_not_finite_is_said_to_be_so() -> None:
    assert "agent 2 is not finite" in repr(quartic(np.inf).check_gradient())


def test_a_linear_function_is_exact() -> None:
    problem = FunctionProblem(lambda i, x: float(x[0, 0]), lambda i, x: np.eye(3, 1), Stiefel(3, 1), 1)
    assert problem.check_gradient().right


def test_a_point_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("x must have the shape of a point, (6, 2), got (2, 6)")):
        quartic().check_gradient(np.ones((2, 6)))


WRONG = """
import sys
from dataclasses import dataclass
import numpy as np
import decentorth as do
from decentorth.run import main
from decentorth.settings import Settings

@do.register("bent", kind="problem")
@dataclass(frozen=True, kw_only=True)
class Bent(Settings):
    def problem(self, n_agents, seed):
        sign = lambda i: 1.0 if i != 3 else -1.0
        return do.problems.FunctionProblem(
            lambda i, x: float((x**4).sum()), lambda i, x: 4 * sign(i) * x**3, do.sets.Stiefel(4, 2), n_agents)

sys.exit(main())
"""


@pytest.mark.slow
def test_the_command_prints_the_slope_or_refuses_the_gradient(tmp_path: Path) -> None:
    script = tmp_path / "bent.py"
    script.write_text(WRONG)
    words = [sys.executable, str(script), "--iterations", "1", "--check-gradient", "--problem"]

    def run(problem: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, problem],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=HUNG,
            check=False,
        )

    assert re.search(r"^gradient    GradientCheck: right, Taylor slope 2\.0", run("pca").stdout, re.M)
    refused = run("bent")
    assert refused.returncode == 2
    assert "WRONG, the gradient of agent 3" in refused.stderr


@pytest.mark.parametrize("at", [None, 2])
def test_an_objective_that_is_cut_off_from_x_is_refused(at: int | None) -> None:
    """Of all agents, or of one, whose gradient is exactly zero while its value changes."""

    def gradient(agent: int, x: Array) -> Array:
        return 0.0 * x if at in (None, agent) else 4.0 * x**3

    problem = FunctionProblem(lambda agent, x: float((x**4).sum()), gradient, Stiefel(6, 2), 4)
    with pytest.raises(ValueError, match=f"the gradient of agent {at or 0} is zero, although its objective changes with x: does"):
        solve(problem, DRFGT(), tp.metropolis_weights(tp.ring(4)), stopping=1e-6)


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_a_gradient_that_is_zero_for_a_reason_is_not_refused(shift: float) -> None:
    """A constant, a stationary start, and a plateau: the value does not change either, or the gradient is zero there alone."""
    flat = FunctionProblem(lambda agent, x: shift, lambda agent, x: 0.0 * x, Stiefel(6, 2), 1)
    assert solve(flat, DRFGT(), iterations=3).status == "iterations"
    free = FunctionProblem(lambda agent, x: float(((x - shift) ** 2).sum()), lambda agent, x: 2.0 * (x - shift), Euclidean(3, 1), 1)
    assert solve(free, DGD(step_size=0.1), x0=np.full((3, 1), shift), stopping=1e-6).converged
    hinge = FunctionProblem(
        lambda agent, x: float((np.maximum(x - 50.0, 0.0) ** 2).sum()),
        lambda agent, x: 2.0 * np.maximum(x - 50.0, 0.0),
        Euclidean(3, 1),
        1,
    )
    assert solve(hinge, DGD(step_size=0.1), x0=np.full((3, 1), shift), stopping=1e-6).converged
