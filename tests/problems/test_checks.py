"""The check of agents' matrices, as a stack or a list: the same arrays, the same refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decentorth.problems.common.checks import LARGEST, matrices
from decentorth.protocols import Array

X = np.random.default_rng(0).standard_normal((5, 4, 3))


@pytest.mark.parametrize(
    "given",
    [
        X,
        list(X),
        X.tolist(),
        np.asfortranarray(X),
        [np.asfortranarray(x) for x in X],
        np.ma.masked_array(X),
        [*X[:2], X[2].tolist(), *X[3:]],
    ],
)
def test_matrices_are_canonical(given: Any) -> None:
    found = matrices("A", given, 7)
    assert [x.tobytes() for x in found] == [x.tobytes() for x in X]
    assert all(x.dtype == np.float64 and x.flags.c_contiguous for x in found)


def test_float64_arrays_are_not_copied() -> None:
    for given in (X, list(X)):
        assert all(np.shares_memory(x, own) for x, own in zip(matrices("A", given), X, strict=True))


def test_the_largest_entries_are_accepted_in_every_agent() -> None:
    large = np.zeros((3, 2, 2))
    large[:, 0, 1] = LARGEST
    for given in (large, list(large)):
        assert [x.tobytes() for x in matrices("A", given)] == [x.tobytes() for x in large]


def bad(value: float) -> Array:
    x = X.copy()
    x[3, 2, 1] = value
    return x


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e160, -1e200])
def test_a_bad_entry_is_named_in_a_stack_as_in_a_list(value: float) -> None:
    for given in (bad(value), list(bad(value)), np.asfortranarray(bad(value))):
        with pytest.raises(ValueError, match=r"A of agent 10 must .*entry \[2, 1\] is"):
            matrices("A", given, 7)
        if np.isnan(value):
            found = matrices("A", given, 7, missing=True)
            assert [x.tobytes() for x in found] == [x.tobytes() for x in bad(value)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((2, 0, 3)), r"A of agent 7 must be a non-empty matrix, got shape \(0, 3\)"),
        ([X[0], X], r"A of agent 8 must be a non-empty matrix, got shape \(5, 4, 3\)"),
        ([X[0], X[1, 0]], r"A of agent 8 must be a non-empty matrix, got shape \(3,\)"),
    ],
)
def test_other_shapes_are_refused(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        matrices("A", given, 7)


def test_complex_and_masked_entries_are_refused() -> None:
    with pytest.raises(
        TypeError, match="A of agent 0 must hold real numbers, got dtype complex128"
    ):
        matrices("A", 1j * X)
    with pytest.raises(TypeError, match="A of agent 2 has masked entries"):
        matrices("A", np.ma.masked_equal(X, X[2, 1, 1]))
