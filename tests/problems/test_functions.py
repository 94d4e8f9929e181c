"""Arrays that a user's functions return: taken as they are only where nobody else holds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from decentorth import DRGTA, solve
from decentorth.problems import FunctionProblem
from decentorth.protocols import Array, Index
from decentorth.sets import Euclidean, Stiefel

N, D = 3, 4
KEPT = np.random.default_rng(0).standard_normal((N, D, 1))
HOLDER = {"kept": KEPT}


class Remembering:
    """A gradient that keeps its last answer."""

    last: Array

    def __call__(self, agents: Index, x: Array) -> Array:
        self.last = x - KEPT
        return self.last


@pytest.mark.parametrize(
    "gradient",
    [
        lambda agents, x: KEPT,
        lambda agents, x: HOLDER["kept"],
        lambda agents, x: KEPT[:],
        lambda agents, x: x,
        lambda agents, x: (x - KEPT).swapaxes(0, 1).copy().swapaxes(0, 1),
        Remembering(),
        lambda agents, x: x - KEPT,
    ],
    ids=["kept", "in a dictionary", "a view", "the point", "in another order", "remembered", "fresh"],
)
def test_a_gradient_is_nobody_else_s_and_contiguous(gradient: Callable[[Index, Array], Array]) -> None:
    problem = FunctionProblem(lambda agents, x: np.zeros(len(x)), gradient, Euclidean(D, 1), N, stacked=True)
    x, kept = np.random.default_rng(1).standard_normal((N, D, 1)), KEPT.copy()
    expected = np.array(gradient(np.arange(N), x))
    found = problem.gradient(x)
    assert found.flags.carray
    np.testing.assert_array_equal(found, expected)
    before = x.copy()
    found += 1.0
    np.testing.assert_array_equal(KEPT, kept)
    np.testing.assert_array_equal(x, before)
    if isinstance(gradient, Remembering):
        np.testing.assert_array_equal(gradient.last, x - KEPT)


class Lines:
    def __repr__(self) -> str:
        return "one\ntwo"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda g: None, TypeError, "must be of real numbers, got None: does the function end with `return`?"),
        (lambda g: {"g": 1.0}, TypeError, "must be of real numbers, got {'g': 1.0}: return one array of numbers"),
        (lambda g: Lines(), TypeError, "must be of real numbers, got one two: return one array of numbers"),
        (lambda g: sp.csr_array(g), TypeError, "must be of real numbers, got <Compressed Sparse"),
        (lambda g: g[:1], ValueError, "must have shape (4, 2), got (1, 2)"),
        (lambda g: [[1.0, 2.0], [3.0], [4.0], [5.0]], TypeError, "must be one array of NumPy, got a list ("),
        (lambda g: np.ma.masked_less(g, 0.0), ValueError, "has masked entries: return np.ma.filled("),
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
    plain = FunctionProblem(lambda agent, x: 0.0, lambda agent, x: np.ma.masked_array(x, mask=False), Euclidean(D, 1), N)
    np.testing.assert_array_equal(plain.gradient(KEPT), KEPT)
    with pytest.raises(ZeroDivisionError) as raised:
        FunctionProblem(lambda agent, x: 1 / (agent - 2), lambda agent, x: x, Euclidean(D, 1), N).value(KEPT)
    assert raised.value.__notes__ == ["raised by value of agent 2"]
