"""The end of a run names the tolerances that were missed, and what keeps its points from being an
answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth import (
    DESTINY,
    DGD,
    DRFGT,
    RGD,
    Checkpoints,
    GradientTracking,
    Result,
    load,
    problems,
    solve,
)
from decentorth.problems import FunctionProblem
from decentorth.protocols import Array
from decentorth.sets import Euclidean, Flat, Product, Stiefel
from decentorth.stopping import Consensus, GradientNorm, LocalMaximum, ObjectiveBelow, Time
from tests.reference import naive
from tests.support.problems import GRAPHS

N = 5
RING = GRAPHS["ring"](N)
A = np.random.default_rng(3).standard_normal((N, 20, 6))


def gradient(agent: int, x: Array) -> Array:
    slope: Array = -2.0 * A[agent].T @ (A[agent] @ x)
    return slope


def value(agent: int, x: Array) -> float:
    return -float(((A[agent] @ x) ** 2).sum())


PCA = FunctionProblem(value, gradient, Stiefel(6, 2), N)
VECTORS = np.linalg.eigh(sum(a.T @ a for a in A))[1]


def test_the_end_names_the_tolerance_that_was_missed_and_by_how_much(tmp_path: Path) -> None:
    rule = GradientNorm(1e-6) & Consensus(1e6)
    keep = Checkpoints(tmp_path, every=10)
    first = solve(PCA, "drfgt", RING, iterations=20, stopping=rule, checkpoints=keep)

    def words(result: Result, k: int) -> str:
        norm = result.row.values["gradient_norm"]
        missed = f"gradient norm {norm:.3g} is {norm / 1e-6:.3g} times its tolerance of 1e-06"
        return f"stopped at the limit of {k} iterations: {missed}"

    assert first.message == words(first, 20)
    resumed = solve(PCA, "drfgt", RING, iterations=30, stopping=rule, resume=tmp_path)
    assert resumed.message == words(resumed, 30)
    assert words(resumed, 30) in repr(resumed)
    resumed.save(tmp_path / "run")
    assert load(tmp_path / "run").message == resumed.message
    assert (
        solve(PCA, "drfgt", RING, iterations=20).message == "stopped at the limit of 20 iterations"
    )


TIMES = r"\S+ is \S+ times its tolerance of "


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            GradientNorm(1e-6, relative=True),
            rf"iterations: gradient norm {TIMES}\S+, 1e-06 of its value at the start$",
        ),
        (ObjectiveBelow(-1e9), r"iterations: objective -\S+ is above -1e\+09$"),
        (
            GradientNorm(1e-6) | Time(1e-9),
            rf"^stopped at the time limit of 1e-09 s: gradient norm {TIMES}1e-06$",
        ),
        (
            LocalMaximum(1e-6, ("gradient",), every=4),
            rf"iterations: local gradient {TIMES}1e-06 at iteration 8$",
        ),
        (LocalMaximum(1e-6, ("gradient",), every=5), rf"iterations: local gradient {TIMES}1e-06$"),
    ],
)
def test_every_rule_that_ends_unmet_names_its_value(rule: Any, words: str) -> None:
    assert re.search(words, solve(PCA, "drfgt", RING, iterations=10, stopping=rule).message)


@pytest.mark.parametrize("method", ["destiny", "dgd"])
def test_points_that_stay_at_their_start_are_named(method: str) -> None:
    result = solve(PCA, method, RING, x0=np.zeros((6, 2)), iterations=30)
    assert result.message == (
        "stopped at the limit of 30 iterations; the points have not moved from x0: try another "
        "x0 or a smaller step size"
    )


@pytest.mark.parametrize("method", ["dprgt", "rextra", "dprgd"])
def test_zero_has_no_projection(method: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"projects to St\(6, 2\), and x0 = 0 lacks a unique nearest point there: leave it out",
    ):
        solve(PCA, method, RING, x0=np.zeros((6, 2)))


def test_steps_that_grow_may_start_over_without_a_word() -> None:
    """At the iteration at which they are back at x0, a run that has moved before and will again
    does not stand still."""
    problem = problems.PCASettings(data="synthetic").problem(6, 0)
    result = solve(problem, "destiny:step_size=growing:initial=10", "ring", iterations=18)
    assert (
        result.history["gradient_norm"][[0, -1]].tolist()
        == [result.row.values["gradient_norm"]] * 2
    )
    assert len(set(result.history["gradient_norm"])) > 2
    assert result.message == "stopped at the limit of 18 iterations"


@pytest.mark.parametrize("stopping", [None, 1e-6])
@pytest.mark.parametrize("columns", [[1, 2], [4, 5]])
def test_a_stationary_start_is_named(columns: list[int], stopping: float | None) -> None:
    """Eigenvectors, of a saddle point or of the answer: nothing but another run can distinguish
    them."""

    def total(i: int, x: Array) -> Array:
        return naive.mean(np.stack([gradient(agent, x) for agent in range(N)]))

    problem = FunctionProblem(
        lambda i, x: sum(value(agent, x) for agent in range(N)) / N, total, Stiefel(6, 2), 1
    )
    result = solve(problem, "rgd", x0=VECTORS[:, columns], iterations=10, stopping=stopping)
    assert "; x0 is stationary: a solution, or a saddle point, which another x0" in result.message
    other = solve(problem, "rgd", iterations=300, stopping=1e-6)
    assert "stationary" not in other.message


def test_points_that_stop_moving_before_they_are_solved_are_named() -> None:
    """Steps that shrink below rounding; a run that stands still as it is solved to rounding is not
    named."""
    shrinking = solve(PCA, "drgta:step_size=geometric:initial=1e-3,ratio=0.3", RING, iterations=200)
    assert re.search(
        r"; neither objective nor gradient norm has changed since iteration \d+: try another "
        r"step size or start$",
        shrinking.message,
    )
    alone = FunctionProblem(value, gradient, Stiefel(6, 2), 1)
    assert solve(alone, "lbfgs", iterations=400).message == "stopped at the limit of 400 iterations"


def jump(begun: float, ended: float, slope: float = 1.0) -> FunctionProblem[Euclidean]:
    return FunctionProblem(
        lambda agent, x: begun if x[0, 0] == 1.0 else ended,
        lambda agent, x: np.full((1, 1), slope),
        Euclidean(1, 1),
        1,
    )


@pytest.mark.parametrize(
    ("begun", "ended", "told"),
    [
        (1.0, 99.0, False),
        (1.0, 102.0, True),
        (-1.0, 101.0, True),
        (1e-12, 0.5, False),
        (0.0, 0.5, False),
        (0.0, 3.0, True),
    ],
)
def test_growth_of_the_objective_is_reported_on_its_own_scale(
    begun: float, ended: float, told: bool
) -> None:
    """A hundredfold, and from a start near zero as far as a move as long as x0 may change it, which
    is 1 here."""
    result = solve(jump(begun, ended), DGD(step_size=0.5), x0=np.ones((1, 1)), iterations=2)
    words = (
        f"; the objective has grown from {begun:.3g} to {ended:.3g}, more than a hundredfold; "
        "the step size 0.5 is too large: try "
    )
    assert (words in result.message) == told
    assert told or result.message == "stopped at the limit of 2 iterations"


def test_an_objective_that_is_not_a_number_is_named_once_more_at_the_end() -> None:
    spoilt = FunctionProblem(
        lambda agent, x: np.nan if agent == 2 else value(agent, x), gradient, Stiefel(6, 2), N
    )
    result = solve(spoilt, "drgta", RING, iterations=2000, stopping=1e-6)
    assert result.converged
    assert result.message.endswith(
        "; the objective of agent 2 is not finite at the end (the mean is nan): correct the "
        "function that gives it"
    )


@pytest.mark.parametrize("method", [DGD(), GradientTracking()])
def test_points_that_left_their_set_for_good_have_diverged(method: Any) -> None:
    result = solve(PCA, method, RING, iterations=300)
    assert result.row.values["feasibility"] > 1e6
    assert (result.status, result.converged) == ("diverged", False)
    name = type(method).__name__
    assert result.message.endswith(
        f"{name} does not keep points on St(6, 2): take a method that does, such as drfgt"
    )
    assert solve(PCA, "drfgt", RING, iterations=300).status == "iterations"


@pytest.mark.parametrize(("method", "seed"), [(RGD(), 0), (DRFGT(), 1)])
def test_square_points_of_the_wrong_sign_are_named(method: Any, seed: int) -> None:
    """Procrustes on O(4), whose answer has determinant +1: from -1 nothing leads there, and the
    proposed start does."""
    n = 1 if isinstance(method, RGD) else N
    rng = np.random.default_rng(seed)
    answer, x0 = (np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(2))
    for rotation in (answer, x0):
        rotation[:, 0] *= np.sign(np.linalg.det(rotation))
    data = rng.standard_normal((n, 9, 4))
    problem = FunctionProblem(
        lambda i, x: float(((data[i] @ (x - answer)) ** 2).sum()),
        lambda i, x: 2.0 * data[i].T @ (data[i] @ (x - answer)),
        Stiefel(4, 4),
        n,
    )
    W = None if n == 1 else RING
    right = solve(problem, method, W, x0=x0, iterations=3000, stopping=1e-6)
    assert right.row.values["objective"] < 1e-10
    assert "determinant" not in right.message
    x0[:, 0] *= -1.0
    wrong = solve(problem, method, W, x0=x0, iterations=3000, stopping=1e-6)
    assert wrong.row.values["objective"] > 0.1
    assert (
        "; the points have determinant -1, as x0, and one with +1 has the objective"
        in wrong.message
    )


def test_square_points_of_an_objective_that_ignores_signs_are_not_named() -> None:
    s = np.arange(1.0, 7.0)
    square = FunctionProblem(
        lambda i, x: value(i, x * s), lambda i, x: gradient(i, x * s) * s, Stiefel(6, 6), N
    )
    result = solve(
        square, "drgta", RING, iterations=3000, stopping=GradientNorm(1e-3, relative=True)
    )
    assert result.converged
    assert "determinant" not in result.message


def rotation(rng: np.random.Generator) -> Array:
    q: Array = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    q[:, 0] *= np.linalg.det(q)
    return q


@pytest.mark.parametrize("kind", [Product, Flat])
@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_product_of_the_wrong_sign_are_named(kind: Any, seed: int) -> None:
    """Three rotations from exact measurements x_i^T x_j, which determine them up to one rotation:
    the least cost is 0, and the proposed start comes to it."""
    rng = np.random.default_rng(seed)
    true = [rotation(rng) for _ in range(3)]
    pairs = [(0, 1), (0, 2), (1, 2)]

    def residuals(x: Array) -> list[Array]:
        part = x.reshape(3, 3, 3)
        return [part[i].T @ part[j] - true[i].T @ true[j] for i, j in pairs]

    def cost(i: int, x: Array) -> float:
        return sum(float((one * one).sum()) for one in residuals(x))

    def slope(_: int, x: Array) -> Array:
        part = x.reshape(3, 3, 3)
        found = np.zeros_like(part)
        for (i, j), one in zip(pairs, residuals(x), strict=True):
            found[j] += 2.0 * part[i] @ one
            found[i] += 2.0 * part[j] @ one.T
        return found.reshape(x.shape)

    problem = FunctionProblem(cost, slope, kind(*[Stiefel(3, 3)] * 3), 1)
    x0 = np.concatenate([rotation(rng) for _ in range(3)])
    x0[6:, 0] *= -1.0
    x0 = x0.reshape(problem.constraint.shape)
    wrong = solve(problem, "rgd", x0=x0, iterations=3000, stopping=1e-8)
    assert wrong.row.values["objective"] > 1.0
    part = re.search(
        r"; part (\d) of the points has determinant [+-]1, as x0, and one with [+-]1 has the "
        r"objective \S+ in place of \S+: start again from x0 with one column of part \1 negated$",
        wrong.message,
    )
    assert part is not None
    x0.reshape(3, 3, 3)[int(part[1]), :, 0] *= -1.0
    right = solve(problem, "rgd", x0=x0, iterations=3000, stopping=1e-8)
    assert right.row.values["objective"] < 1e-12
    assert "determinant" not in right.message


@pytest.mark.parametrize("method", ["drfgt:penalty=1,", "drgta:", "ddrs:"])
def test_points_that_only_rounding_moves_are_named(method: str) -> None:
    problem = problems.PCASettings(data="synthetic").problem(5, 0)
    result = solve(problem, f"{method}step_size=1e-40", "ring", iterations=300)
    assert np.abs(result.x - result.x[0]).max() > 0.0 or method != "drgta:"
    assert result.message == (
        "stopped at the limit of 300 iterations; the points have not moved from x0: try another "
        "x0 or a larger step size"
    )


@pytest.mark.parametrize("method", ["dgd:penalty=2,", "dprgd:", "drsgd:", "drsm:"])
def test_methods_that_leave_agents_apart_say_so(method: str) -> None:
    """The distance is of the order of the step, however long the run."""
    apart = []
    for step in (1e-3, 1e-4):
        result = solve(PCA, f"{method}step_size={step}", RING, iterations=3000, stopping=0.1)
        name = type(result.algorithm).__name__
        found = re.search(
            rf"; {name} does not agree exactly: its agents are (\S+) apart, relative to their "
            r"points, and come closer with smaller steps only",
            result.message,
        )
        assert found is not None
        apart.append(float(found[1]))
        mean = result.row.values["consensus_error"] / (N * np.sqrt(2.0))
        assert apart[-1] == pytest.approx(mean, rel=0.1)
    assert apart[0] == pytest.approx(10.0 * apart[1], rel=0.3)


def test_safe_steps_that_leave_points_off_the_set_are_named() -> None:
    scales = [2.0, 1.6, 1.0, 0.8, 0.6, 0.4]
    rows = [np.random.default_rng(i).standard_normal((9, 6)) * scales for i in range(6)]
    problem = problems.PCA(rows, 2)

    def run(step: float) -> Result:
        method = DESTINY(step_size=step, safe=True, order="combine-then-adapt")
        return solve(problem, method, GRAPHS["ring"](6), iterations=4000)

    long = run(30.0)
    assert long.row.values["feasibility"] > 1e-2
    found = re.search(
        r"; safe steps keep the points within 0.5 of the set, but they have not come nearer than "
        r"\S+ since iteration \d+: try step size (\S+)$",
        long.message,
    )
    assert found is not None
    short = run(float(found[1]))
    assert short.row.values["error"] < 1e-10
    assert short.message == "stopped at the limit of 4000 iterations"
