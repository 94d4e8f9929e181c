"""Arrays that a user's functions return: taken as they are only where nobody else holds them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from decentorth.problems import FunctionProblem
from decentorth.protocols import Array, Index
from decentorth.sets import Euclidean

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


def test_a_fresh_gradient_is_not_copied() -> None:
    places: list[int] = []

    def gradient(agents: Index, x: Array) -> Array:
        made = x - KEPT
        places.append(made.ctypes.data)
        return made

    problem = FunctionProblem(lambda agents, x: np.zeros(len(x)), gradient, Euclidean(D, 1), N, stacked=True)
    assert problem.gradient(np.zeros((N, D, 1))).ctypes.data == places[0]
