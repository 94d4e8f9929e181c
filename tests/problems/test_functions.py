"""A user's own functions: what they may return and touch, their samples, who is named, and the
check of gradients."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp

import topologies as tp
from decentorth import DGD, DRFGT, DRGTA, DRSGD, registry, solve
from decentorth.api import set_up
from decentorth.problems import PCA, FunctionProblem, GradientCheck
from decentorth.protocols import Array, Index, Sampled, Smooth
from decentorth.sets import Euclidean, Stiefel
from tests.reference import naive
from tests.support.mpi import HUNG, ROOT
from tests.support.problems import UNEVEN, samples

N, D = 3, 4
KEPT = np.random.default_rng(0).standard_normal((N, D, 1))
HOLDER = {"kept": KEPT}


def gaussian(n: int, *shape: int) -> Array:
    return np.random.default_rng(1).standard_normal((n, *shape))


@pytest.mark.parametrize(
    "gradient",
    [
        lambda agents, x: HOLDER["kept"],
        lambda agents, x: KEPT[:],
        lambda agents, x: x,
        lambda agents, x: (x - KEPT).swapaxes(0, 1).copy().swapaxes(0, 1),
        lambda agents, x: x - KEPT,
    ],
    ids=["kept", "a view", "the point", "in another order", "fresh"],
)
def test_a_gradient_is_nobody_else_s_and_contiguous(
    gradient: Callable[[Index, Array], Array],
) -> None:
    problem = FunctionProblem(
        lambda agents, x: np.zeros(len(x)), gradient, Euclidean(D, 1), N, stacked=True
    )
    x, kept = gaussian(N, D, 1), KEPT.copy()
    expected, before = np.array(gradient(np.arange(N), x)), x.copy()
    found = problem.gradient(x)
    assert found.flags.carray
    np.testing.assert_array_equal(found, expected)
    found += 1.0
    np.testing.assert_array_equal(KEPT, kept)
    np.testing.assert_array_equal(x, before)


class Lines:
    def __repr__(self) -> str:
        return "one\ntwo"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            lambda g: None,
            TypeError,
            "must be of real numbers, got None: does the function end with `return`?",
        ),
        (
            lambda g: {"g": 1.0},
            TypeError,
            "must be of real numbers, got {'g': 1.0}: return one array of numbers",
        ),
        (
            lambda g: Lines(),
            TypeError,
            "must be of real numbers, got one two: return one array of numbers",
        ),
        (lambda g: sp.csr_array(g), TypeError, "must be of real numbers, got <Compressed Sparse"),
        (lambda g: g[:1], ValueError, "must have shape (4, 2), got (1, 2)"),
        (
            lambda g: [[1.0, 2.0], [3.0], [4.0], [5.0]],
            TypeError,
            "must be one array of NumPy, got a list (",
        ),
        (
            lambda g: np.ma.masked_less(g, 0.0),
            ValueError,
            "has masked entries: return np.ma.filled(",
        ),
    ],
    ids=["None", "dict", "lines", "sparse", "shape", "ragged", "masked"],
)
def test_a_gradient_that_changes_during_a_run_names_its_agent_in_one_line(
    change: Callable[[Array], Any], error: type[Exception], words: str
) -> None:
    calls: list[int] = []

    def gradient(agent: int, x: Array) -> Any:
        calls.append(agent)
        exact = 4.0 * x**3
        return change(exact) if agent == 1 and len(calls) > 12 else exact

    problem = FunctionProblem(lambda agent, x: float((x**4).sum()), gradient, Stiefel(D, 2), N)
    with pytest.raises(error, match=f"^gradient of agent 1 {re.escape(words)}") as refused:
        solve(problem, DRGTA(step_size=0.01), "ring", iterations=20)
    assert len(calls) > 12
    assert "\n" not in str(refused.value)


def test_a_mask_that_hides_nothing_is_no_mask_and_other_errors_name_the_agent() -> None:
    plain = FunctionProblem(
        lambda agent, x: 0.0, lambda agent, x: np.ma.masked_array(x, mask=False), Euclidean(D, 1), N
    )
    np.testing.assert_array_equal(plain.gradient(KEPT), KEPT)
    with pytest.raises(ZeroDivisionError) as raised:
        FunctionProblem(
            lambda agent, x: 1 / (agent - 2), lambda agent, x: x, Euclidean(D, 1), N
        ).value(KEPT)
    assert raised.value.__notes__ == ["raised by value of agent 2"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"gradient": 1.0}, TypeError, "gradient must be a function, got float"),
        ({"n_agents": 0}, ValueError, "n_agents must be at least 1, got 0"),
        ({"n_agents": 3.0}, TypeError, "n_agents must be a whole number, got 3.0"),
        (
            {"constraint": (4, 2)},
            TypeError,
            "constraint must be a set such as do.sets.Stiefel(8, 2), got ",
        ),
        (
            {"constraint": Stiefel},
            TypeError,
            "constraint must be a set such as do.sets.Stiefel(8, 2), got ",
        ),
        ({"n_samples": 3}, ValueError, "gradient_on and n_samples go together: give both"),
        (
            {"gradient_on": min, "n_samples": [3, 4]},
            ValueError,
            "one number or one for each of the 3 agents, got shape (2,)",
        ),
        (
            {"gradient_on": min, "n_samples": [1, 1, 0]},
            ValueError,
            "n_samples must be at least 1, got 0 for agent 2",
        ),
    ],
)
def test_what_cannot_be_a_problem_is_refused(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    given: dict[str, Any] = {
        "value": min,
        "gradient": min,
        "constraint": Stiefel(4, 2),
        "n_agents": 3,
    }
    with pytest.raises(error, match=re.escape(words)):
        FunctionProblem(**given | change)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            None,
            TypeError,
            "must be of real numbers, got None: does the function end with `return`?",
        ),
        ("1.0", TypeError, "must be of real numbers, got '1.0': return one array of numbers"),
        (np.ones((1, 1)), ValueError, "must be one number, got an array of shape (1, 1)"),
    ],
    ids=["None", "text", "a matrix"],
)
def test_an_objective_that_is_not_one_number_is_refused(
    answer: Any, kind: type[Exception], words: str
) -> None:
    problem = FunctionProblem(lambda agent, x: answer, lambda agent, x: x, Stiefel(4, 2), 3)
    with pytest.raises(kind, match=f"^value of agent 0 {re.escape(words)}$"):
        problem.value(gaussian(3, 4, 2))


@pytest.mark.parametrize(("stacked", "whose"), [(False, " of agent 1"), (True, "")])
def test_complex_answers_and_wrong_shapes_of_a_users_functions_are_refused(
    stacked: bool, whose: str
) -> None:
    def turned(agents: Any, x: Array) -> Array:
        found: Any = x * (1j if np.any(agents == 1) else 1.0)
        return cast(Array, found)

    where: Any = (Stiefel(4, 2), 3)
    problem = FunctionProblem(
        lambda agents, x: turned(agents, x).sum((-2, -1)), turned, *where, stacked=stacked
    )
    for name, function in (("value", problem.value), ("gradient", problem.gradient)):
        with pytest.raises(
            TypeError, match=rf"^{name}{whose} must be of real numbers, got dtype complex128"
        ):
            function(gaussian(3, 4, 2))
    cut = FunctionProblem(
        lambda agents, x: x, lambda agents, x: x[..., :1], *where, stacked=stacked
    )
    wrong = "(3, 4, 2), got (3, 4, 1)" if stacked else "(4, 2), got (4, 1)"
    with pytest.raises(ValueError, match=re.escape(f"must have shape {wrong}")):
        cut.gradient(gaussian(3, 4, 2))
    with pytest.raises(ValueError, match=r"must have shape .* got|must be one number"):
        cut.value(gaussian(3, 4, 2))


@pytest.mark.parametrize(("stacked", "whose"), [(False, " of agent 2"), (True, "")])
def test_a_users_function_cannot_change_the_agents_points(stacked: bool, whose: str) -> None:
    def spoiling(name: str) -> Any:
        def function(agents: Any, x: Array, *batch: Array) -> Any:
            if np.any(agents == 2):
                np.multiply(x, 2.0, out=x)
            return x.sum((-2, -1)) if name == "value" else x

        return function

    value, gradient, gradient_on = map(spoiling, ("value", "gradient", "gradient_on"))
    problem = FunctionProblem(
        value, gradient, Stiefel(4, 2), 3, stacked=stacked, gradient_on=gradient_on, n_samples=5
    )
    x, batch = gaussian(3, 4, 2), (np.zeros((3, 1), dtype=np.int64),)
    before = x.copy()
    for name, more in (("value", ()), ("gradient", ()), ("gradient_on", batch)):
        with pytest.raises(
            ValueError,
            match=rf"^{name}{whose} must not write into x, .* let it work on x\.copy\(\)$",
        ):
            getattr(problem, name)(x, *more)
    assert x.tobytes() == before.tobytes()
    assert x.flags.writeable


DATA = samples(UNEVEN, 12, 0)


def own(stacked: bool, **more: Any) -> FunctionProblem[Stiefel]:
    def value(agent: int, x: Array) -> float:
        return naive.pca_value(DATA[agent], x)

    def one(agent: int, x: Array) -> Array:
        return naive.pca_gradient(DATA[agent], x)

    def on(agent: int, x: Array, batch: Index) -> Array:
        return naive.pca_gradient(DATA[agent][batch], x)

    def over(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda agents, *rest: np.array(
            [function(int(i), *part) for i, *part in zip(agents, *rest, strict=True)]
        )

    functions: list[Any] = [over(f) if stacked else f for f in (value, one, on)]
    given = {"gradient_on": functions[2], "n_samples": UNEVEN, **more}
    return FunctionProblem(
        functions[0], functions[1], Stiefel(12, 3), len(UNEVEN), stacked=stacked, **given
    )


def batches(size: int) -> Index:
    return np.random.default_rng(0).integers(0, np.array(UNEVEN)[:, None], (len(UNEVEN), size))


@pytest.mark.parametrize("stacked", [False, True])
def test_a_users_own_samples(stacked: bool) -> None:
    problem, x, batch, shipped = (
        own(stacked),
        gaussian(len(UNEVEN), 12, 3),
        batches(3),
        PCA(DATA, 3, weights="agents"),
    )
    assert isinstance(problem, Sampled)
    assert not isinstance(problem, Smooth)
    part = problem.restrict(slice(2, 6)).restrict(slice(3, 5))
    np.testing.assert_array_equal(part.n_samples, UNEVEN[3:5])
    for name, more in (("value", ()), ("gradient", ()), ("gradient_on", (batch,))):
        found = getattr(problem, name)(x, *more)
        np.testing.assert_allclose(found, getattr(shipped, name)(x, *more), rtol=1e-12, atol=1e-13)
        assert (
            getattr(part, name)(x[3:5], *(one[3:5] for one in more)).tobytes()
            == found[3:5].tobytes()
        )
    method = DRSGD(step_size=0.1, batch_size=2)
    mine, theirs = (
        solve(p, method, "ring", x0=problem.start(1), iterations=20) for p in (problem, shipped)
    )
    np.testing.assert_allclose(mine.x, theirs.x, atol=1e-12)


def test_one_number_of_samples_is_everybodys() -> None:
    assert own(False, n_samples=7).n_samples.tolist() == [7] * len(UNEVEN)
    plain = own(False, gradient_on=None, n_samples=None)
    assert not any(isinstance(problem, Sampled) for problem in (plain, plain.restrict(slice(0, 2))))


def test_what_gradient_on_returns_is_checked() -> None:
    for stacked, message in (
        (False, "gradient_on of agent 0 must have shape (12, 3)"),
        (True, "gradient_on must have shape (10,"),
    ):
        problem = own(stacked, gradient_on=lambda agent, x, batch: x[..., :2])
        with pytest.raises(ValueError, match=re.escape(message)):
            problem.gradient_on(gaussian(len(UNEVEN), 12, 3), batches(1))
    with pytest.raises(
        TypeError, match="gradients on a few samples need gradient_on: give it, and n_samples"
    ):
        own(False, gradient_on=None, n_samples=None).gradient_on(
            gaussian(len(UNEVEN), 12, 3), batches(1)
        )


ALONE = ("hevp", "hspp", "lda", "ultrae")


@pytest.mark.slow_cases("ultrae")
@pytest.mark.parametrize("name", registry.problems.names())
def test_every_shipped_gradient_fits_its_value(name: str) -> None:
    n = 1 if name in ALONE else 5
    run = set_up(
        registry.problems.get(name)().problem(n, 0),
        DGD(step_size=1.0),
        tp.metropolis_weights(tp.complete(n)),
    )
    assert run.check_gradient().right


def quartic(wrong: float = 0.0, at: int = 2) -> FunctionProblem[Stiefel]:
    def gradient(agent: int, x: Array) -> Array:
        return 4.0 * x**3 * (1.0 + (wrong if agent == at else 0.0))

    return FunctionProblem(lambda agent, x: float((x**4).sum()), gradient, Stiefel(6, 2), 4)


def test_a_right_gradient_has_slope_two() -> None:
    found = quartic().check_gradient()
    assert isinstance(found, GradientCheck)
    np.testing.assert_allclose(found.slopes, 2.0, atol=0.05)
    assert found.right
    assert "right, Taylor slope 2.0" in repr(found)


@pytest.mark.parametrize("wrong", [-2.0, 1e-3])
def test_a_wrong_gradient_has_slope_one_and_its_agent_is_named(wrong: float) -> None:
    for problem in (quartic(wrong), quartic(wrong).restrict(slice(1, 4))):
        found = problem.check_gradient()
        assert (found.agent, found.right) == (2, False)
        assert abs(found.slope - 1.0) < 0.1
        assert "WRONG, the gradient of agent 2" in repr(found)
    with pytest.raises(
        ValueError, match="WRONG, the gradient of agent 2 does not fit its value: Taylor slope"
    ):
        solve(quartic(wrong), DRFGT(), tp.metropolis_weights(tp.ring(4)), check=True)


def test_what_is_not_finite_is_said_to_be_so() -> None:
    assert "agent 2 is not finite" in repr(quartic(np.inf).check_gradient())


def test_a_linear_function_is_exact() -> None:
    problem = FunctionProblem(
        lambda i, x: float(x[0, 0]), lambda i, x: np.eye(3, 1), Stiefel(3, 1), 1
    )
    assert problem.check_gradient().right


def test_a_point_of_another_shape_is_refused() -> None:
    with pytest.raises(
        ValueError, match=re.escape("x must have the shape of a point, (6, 2), got (2, 6)")
    ):
        quartic().check_gradient(np.ones((2, 6)))


WRONG = """
import sys
from dataclasses import dataclass
import decentorth as do
from decentorth.run import main
from decentorth.settings import Settings

@do.register("bent", kind="problem")
@dataclass(frozen=True, kw_only=True)
class Bent(Settings):
    def problem(self, n_agents, seed):
        bent = lambda i, x: 4 * (1.0 if i != 3 else -1.0) * x**3
        return do.problems.FunctionProblem(lambda i, x: float((x**4).sum()), bent, do.sets.Stiefel(4, 2), n_agents)

sys.exit(main())
"""


@pytest.mark.slow
def test_the_command_prints_the_slope_or_refuses_the_gradient(tmp_path: Path) -> None:
    script = tmp_path / "bent.py"
    script.write_text(WRONG)
    words = [sys.executable, str(script), "--iterations", "1", "--check-gradient", "--problem"]

    def run(problem: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [*words, problem],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HUNG,
            check=False,
        )

    assert re.search(
        r"^gradient    GradientCheck: right, Taylor slope 2\.0", run("pca").stdout, re.M
    )
    refused = run("bent")
    assert refused.returncode == 2
    assert "WRONG, the gradient of agent 3" in refused.stderr


@pytest.mark.parametrize("at", [None, 2])
def test_an_objective_that_is_cut_off_from_x_is_refused(at: int | None) -> None:
    def gradient(agent: int, x: Array) -> Array:
        return 0.0 * x if at in (None, agent) else 4.0 * x**3

    problem = FunctionProblem(lambda agent, x: float((x**4).sum()), gradient, Stiefel(6, 2), 4)
    with pytest.raises(
        ValueError,
        match=f"the gradient of agent {at or 0} is zero, although its objective changes with x: "
        "does",
    ):
        solve(problem, DRFGT(), tp.metropolis_weights(tp.ring(4)), stopping=1e-6)


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_a_gradient_that_is_zero_for_a_reason_is_not_refused(shift: float) -> None:
    """A constant, a stationary start, and a plateau: the value does not change either, or the
    gradient is zero there alone."""
    flat = FunctionProblem(lambda agent, x: shift, lambda agent, x: 0.0 * x, Stiefel(6, 2), 1)
    assert solve(flat, DRFGT(), iterations=3).status == "iterations"
    free = FunctionProblem(
        lambda agent, x: float(((x - shift) ** 2).sum()),
        lambda agent, x: 2.0 * (x - shift),
        Euclidean(3, 1),
        1,
    )
    assert solve(free, DGD(step_size=0.1), x0=np.full((3, 1), shift), stopping=1e-6).converged
    above: Any = lambda x: np.maximum(x - 50.0, 0.0)  # noqa: E731
    hinge = FunctionProblem(
        lambda agent, x: float((above(x) ** 2).sum()),
        lambda agent, x: 2.0 * above(x),
        Euclidean(3, 1),
        1,
    )
    assert solve(hinge, DGD(step_size=0.1), x0=np.full((3, 1), shift), stopping=1e-6).converged
