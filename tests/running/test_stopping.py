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
    ("one", "two", "either", "both"),
    [
        (None, None, None, None),
        (GOOD, None, GOOD, None),
        (None, GOOD, GOOD, None),
        (LATE, None, LATE, None),
        (GOOD, BETTER, GOOD, ("converged", True)),
        (GOOD, LATE, GOOD, ("time_limit", False)),
        (LATE, GOOD, GOOD, ("time_limit", False)),
        (DONE, LATE, LATE, ("time_limit", False)),
    ],
)
def test_either_and_both(one: Stop | None, two: Stop | None, either: Stop | None, both: tuple[str, bool] | None) -> None:
    """The run has converged where either rule means it, or where both do; both are asked, since asking may communicate."""
    first, second = Says(one), Says(two)
    assert (first | second)(row(), ALONE) == either
    found = (first & second)(row(), ALONE)
    assert (first.asked, second.asked) == (2, 2)
    assert found == (both and one and two and Stop(*both, f"{one.message}, {two.message}"))


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


def test_iterations_and_time() -> None:
    assert [Iterations(10)(row(k), ALONE) is None for k in (9, 10, 11)] == [True, False, False]
    assert Iterations(10)(row(10), ALONE) == Stop("iterations", False, "stopped at the limit of 10 iterations")
    assert Time("2m") == Time(120)  # type: ignore[arg-type]  # text is read
    assert Time(2.5)(row(seconds=2.0), ALONE) is None
    assert Time(2.0)(row(seconds=2.0), ALONE) == Stop("time_limit", False, "stopped at the time limit of 2 s")
    for make, words in ((Iterations, "number must be at least 0, got -1"), (Time, "seconds must be positive and finite, got -1")):
        with pytest.raises(ValueError, match=words):
            make(-1)


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
