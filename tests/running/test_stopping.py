"""When a run ends: the rules, and how they combine."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from decentorth.network import SerialCommunicator
from decentorth.network.collective import AgentCollective
from decentorth.protocols import Collective, Row, Stop
from decentorth.stopping import Consensus, Error, Feasibility, GradientNorm, Iterations, ObjectiveBelow, Rule, Time
from tests.support.threads import on_ranks

ALONE = AgentCollective(SerialCommunicator(), np.array([0, 4]))


def row(iteration: int = 10, seconds: float = 2.0, **values: float) -> Row:
    return Row(iteration, iteration, 0, 0, iteration, seconds, values)


@dataclass
class Says(Rule):
    """A rule with one answer, which counts how often it was asked."""

    answer: Stop | None
    asked: int = field(default=0, compare=False)

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        self.asked += 1
        return self.answer


GOOD = Stop("converged", True, "small enough")
BETTER = Stop("converged", True, "smaller still")
LATE = Stop("time_limit", False, "too late")
DONE = Stop("iterations", False, "all done")


def test_the_floor_of_an_objective() -> None:
    floor = ObjectiveBelow(-1e3)
    assert floor(row(objective=-999.0), ALONE) is None
    assert floor(row(objective=-1e3), ALONE) == Stop("objective_floor", False, "objective -1000 <= -1000")
    with pytest.raises(ValueError, match="floor must be finite, got nan"):
        ObjectiveBelow(np.nan)


@pytest.mark.parametrize("other", [1e-3, True, None, Consensus])
def test_what_is_no_rule_does_not_combine(other: Any) -> None:
    for combine in (operator.and_, operator.or_):
        with pytest.raises(TypeError, match=r"combine rules such as do\.stopping\.GradientNorm\(1e-6\), got "):
            combine(GradientNorm(1e-6), other)


def test_a_function_in_a_combination_answers_true_or_false() -> None:
    answers: Any = lambda row, collective: row.iteration > 10  # noqa: E731
    either, both = GradientNorm(1e-6) | answers | Iterations(99), GradientNorm(1e-6) & answers
    stopped = Stop("stopped", False, "the stopping rule ended the run at iteration 11")
    assert (either(row(gradient_norm=1.0), ALONE), both(row(gradient_norm=1.0), ALONE)) == (None, None)
    assert (either(row(11, gradient_norm=1.0), ALONE), both(row(11, gradient_norm=1.0), ALONE)) == (stopped, None)
    found = both(row(11, gradient_norm=0.0), ALONE)
    assert found is not None
    assert (found.status, found.converged) == ("stopped", False)


@pytest.mark.parametrize("answer", [1, 0.0, "yes"])
def test_other_answers_of_a_function_are_refused(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"must return True or False, decentorth\.protocols\.Stop\(.*\) or None, got "):
        (GradientNorm(1e-6) | (lambda row: answer))(row(gradient_norm=1.0), ALONE)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (None, None, None),
        (GOOD, None, GOOD),
        (None, GOOD, GOOD),
        (LATE, None, LATE),
        (None, LATE, LATE),
        (GOOD, BETTER, GOOD),
        (GOOD, LATE, GOOD),
        (LATE, GOOD, GOOD),
    ],
)
def test_either(one: Stop | None, two: Stop | None, expected: Stop | None) -> None:
    """Where one rule means convergence and the other does not, the run has converged."""
    first, second = Says(one), Says(two)
    assert (first | second)(row(), ALONE) == expected
    assert (first.asked, second.asked) == (1, 1)


@pytest.mark.parametrize(
    ("one", "two", "status", "converged"),
    [
        (GOOD, BETTER, "converged", True),
        (GOOD, LATE, "time_limit", False),
        (LATE, GOOD, "time_limit", False),
        (LATE, DONE, "iterations", False),
        (DONE, LATE, "time_limit", False),
    ],
)
def test_both(one: Stop, two: Stop, status: str, converged: bool) -> None:
    """Convergence only where both mean it; the status never says otherwise."""
    found = (Says(one) & Says(two))(row(), ALONE)
    assert found is not None
    assert found.converged is converged
    assert found.status == status
    assert found.message == f"{one.message}, {two.message}"


@pytest.mark.parametrize(("one", "two"), [(None, None), (GOOD, None), (None, GOOD), (LATE, None), (None, LATE)])
def test_both_wait_for_both(one: Stop | None, two: Stop | None) -> None:
    first, second = Says(one), Says(two)
    assert (first & second)(row(), ALONE) is None
    assert (first.asked, second.asked) == (1, 1)


@pytest.mark.parametrize(
    ("rule", "metric", "words"),
    [
        (GradientNorm, "gradient_norm", "gradient norm"),
        (Consensus, "consensus_rms", "consensus rms"),
        (Feasibility, "feasibility", "feasibility"),
        (Error, "error", "error"),
    ],
)
def test_tolerances(rule: Any, metric: str, words: str) -> None:
    """At or below; nothing else in the row matters, and NaN is not small."""
    others: dict[str, Any] = dict.fromkeys(("gradient_norm", "consensus_rms", "feasibility", "error"), 1.0)
    small = rule(1e-3)
    assert small(row(**{**others, metric: 1e-3}), ALONE) == Stop("converged", True, f"{words} 1.00e-03 <= 0.001")
    assert small(row(**{**others, metric: np.nextafter(1e-3, 1)}), ALONE) is None
    assert small(row(**{**others, metric: float("nan")}), ALONE) is None
    assert small(row(**others), ALONE) is None
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"tolerance must be positive and finite, got {bad}"):
            rule(bad)


def test_an_error_tolerance_needs_a_known_answer() -> None:
    with pytest.raises(ValueError, match="an error tolerance needs a problem whose answer is known"):
        Error(1e-3)(row(gradient_norm=0.0), ALONE)


def test_iterations() -> None:
    assert Iterations(10)(row(9), ALONE) is None
    assert Iterations(10)(row(10), ALONE) == Stop("iterations", False, "stopped at the limit of 10 iterations")
    assert Iterations(10)(row(11), ALONE) is not None
    with pytest.raises(ValueError, match="number must be at least 0, got -1"):
        Iterations(-1)


def test_time() -> None:
    assert Time("2m") == Time(120)  # type: ignore[arg-type]  # text is read
    assert Time(2.5)(row(seconds=2.0), ALONE) is None
    assert Time(2.0)(row(seconds=2.0), ALONE) == Stop("time_limit", False, "stopped at the time limit of 2 s")
    with pytest.raises(ValueError, match="seconds must be positive and finite, got 0"):
        Time(0)


def test_the_clock_of_rank_0_decides_for_all() -> None:
    bounds = np.array([0, 1, 2, 3])

    def asked(fast: int) -> list[bool]:
        """Whether each rank stops when rank ``fast`` alone has more time left."""

        def on_rank(communicator: Any) -> bool:
            seconds = 1.0 if communicator.rank == fast else 3.0
            return Time(2.0)(row(seconds=seconds), AgentCollective(communicator, bounds)) is not None

        return on_ranks(3, on_rank)

    assert asked(0) == [False] * 3
    assert asked(1) == [True] * 3


def test_and_or_and_not_name_the_signs_that_combine_rules() -> None:
    """Python's own words would keep one rule and drop the other without a word."""
    one, two = GradientNorm(1e-6), Consensus(1e-6)
    for combined in (lambda: one and two, lambda: one | two or one, lambda: not one & two):
        with pytest.raises(TypeError, match=r"neither true nor false: write & for 'and' and \| for 'or'"):
            combined()


def test_an_incomplete_rule_says_so() -> None:
    class Nothing(Rule):
        pass

    with pytest.raises(TypeError, match="Nothing is not a complete rule: it must define __call__"):
        Nothing()(row(), ALONE)
