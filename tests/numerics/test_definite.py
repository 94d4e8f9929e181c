"""Positive definite or not: decided by more than the sign of a rounding error."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import splu

from decentorth.numerics.definite import SINGULAR, is_singular, upper_factor
from decentorth.protocols import Array

rng = np.random.default_rng(0)
UNITS = np.geomspace(1e-8, 1e8, 7)


def moments(rows: Array) -> Array:
    return rows.T @ rows / len(rows)


DEPENDENT = {
    "twice": lambda a: np.column_stack((a, a[:, 0])),
    "twice, first": lambda a: np.column_stack((a[:, 5], a)),
    "a sum": lambda a: np.column_stack((a, a @ np.arange(1.0, 7.0))),
    "a large sum": lambda a: np.column_stack((a, 1e3 * a[:, 0] + a[:, 1])),
    "a small difference": lambda a: np.column_stack((a, a[:, 0] + 1e-3 * a[:, 1], 1e-3 * a[:, 1]))[
        :, 1:
    ],
    "few samples": lambda a: np.column_stack((a[:6], a[6:12, 0])),
}


@pytest.mark.parametrize("kind", DEPENDENT)
@pytest.mark.parametrize("seed", range(5))
def test_dependent_columns_are_singular_in_any_units_and_order(kind: str, seed: int) -> None:
    draws = np.random.default_rng(seed)
    rows = DEPENDENT[kind](draws.standard_normal((200, 6)))
    for order in (slice(None), slice(None, None, -1), draws.permutation(rows.shape[1])):
        assert upper_factor(moments(rows[:, order])) is None
        assert upper_factor(moments(rows[:, order] * UNITS[: rows.shape[1]])) is None


@pytest.mark.parametrize("condition", [1.0, 1e6, 1e11])
def test_definite_matrices_have_their_factor_in_any_units(condition: float) -> None:
    turn = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    matrix = (turn * np.geomspace(1.0 / condition, 1.0, 7)) @ turn.T
    for scaled in (matrix, matrix * np.outer(UNITS, UNITS)):
        symmetric = 0.5 * (scaled + scaled.T)
        factor = upper_factor(symmetric)
        assert factor is not None
        lengths = np.sqrt(np.diagonal(symmetric))
        np.testing.assert_allclose(
            factor.T @ factor / np.outer(lengths, lengths),
            symmetric / np.outer(lengths, lengths),
            atol=1e-15,
        )
        np.testing.assert_array_equal(factor, np.triu(factor))


@pytest.mark.parametrize("units", [1.0, 1e5])
def test_the_laplacian_of_a_graph_is_singular_and_with_a_ridge_it_is_not(units: float) -> None:
    laplacian = nx.laplacian_matrix(nx.erdos_renyi_graph(400, 0.03, seed=1)).astype(np.float64)
    scale = diags_array(np.geomspace(1.0 / units, units, 400))
    for ridge, singular in ((1e-9, False), (0.01 * SINGULAR, True)):
        matrix = csc_array(scale @ (laplacian + ridge * diags_array(laplacian.diagonal())) @ scale)
        assert is_singular(matrix, splu(matrix).solve) is singular
