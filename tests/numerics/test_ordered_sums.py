"""Sums in a fixed order by SciPy's loops, which check nothing: any layout is added, and other sizes
are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from decentorth.numerics.ordered_sums import add_agents, add_multiple, scatter, subtract_scaled
from decentorth.protocols import Array

X = np.random.default_rng(0).integers(-9, 9, (4, 6, 5)).astype(np.float64)
SCALE = np.array([1.0, -2.0, 0.5, 3.0])


def strided(x: Array) -> Array:
    """The same numbers, every second of an array."""
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan)
    wide[..., ::2] = x
    return wide[..., ::2]


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transposed": lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "strided": strided,
    "reversed": lambda x: x[::-1].copy()[::-1],
}


@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", [*LAYOUTS, "float32"])
def test_any_layout_is_added_in_place(source: str, target: str) -> None:
    x: Any = X.astype(np.float32) if source == "float32" else LAYOUTS[source](X)
    out = LAYOUTS[target](np.ones(X.shape))
    subtract_scaled(SCALE, x, out)
    assert (out == 1.0 - SCALE[:, None, None] * X).all()
    add_multiple(-2.0, x, out)
    assert (out == 1.0 - SCALE[:, None, None] * X - 2.0 * X).all()
    total = LAYOUTS[target](np.ones(X.shape))[0]
    add_agents(x, total)
    assert (total == 1.0 + X.sum(0)).all()


def test_other_sizes_are_refused_and_nothing_is_written() -> None:
    shape: tuple[int, ...]
    for shape in ((4, 6, 4), (3, 6, 5), (5, 6, 5), (8, 6, 5)):
        out = np.ones(shape)
        with pytest.raises(ValueError, match=r"subtract_scaled needs arrays of equal sizes"):
            subtract_scaled(SCALE, X, out)
        with pytest.raises(ValueError, match=r"subtract_scaled needs arrays of equal sizes"):
            subtract_scaled(SCALE, out, np.ones(X.shape))
        with pytest.raises(ValueError, match=r"add_multiple needs arrays of equal sizes"):
            add_multiple(2.0, X, out)
        assert (out == 1.0).all()
    with pytest.raises(ValueError, match=r"subtract_scaled needs arrays of equal sizes"):
        subtract_scaled(SCALE[:3], X, np.ones(X.shape))
    for shape in ((5, 5), (6, 6), (7,)):
        with pytest.raises(ValueError, match=r"add_agents needs arrays of equal sizes"):
            add_agents(X, np.ones(shape))


def test_complex_numbers_and_results_of_another_type_are_refused() -> None:
    x: Any
    out: Any
    for x, out in ((1j * X, np.ones(X.shape)), (X, np.ones(X.shape, np.float32))):
        with pytest.raises(ValueError, match="Output dtype"):
            subtract_scaled(SCALE, x, out)
        with pytest.raises(ValueError, match="Output dtype"):
            add_multiple(2.0, x, out)
        with pytest.raises(ValueError, match="Output dtype"):
            add_agents(x, out[0])


def test_scattered_sums_are_those_of_a_loop_and_stay_in_their_array() -> None:
    rng = np.random.default_rng(1)
    places, weights = rng.integers(0, 7, (5, 3)), rng.standard_normal((5, 3))
    x = rng.standard_normal((5, 4))
    expected, found = np.zeros((7, 4)), np.zeros((7, 4))
    for i in range(5):
        for j in range(3):
            expected[places[i, j]] += weights[i, j] * x[i]
    scatter(np.asfortranarray(places), np.asfortranarray(weights), np.asfortranarray(x), found)
    assert found.tobytes() == expected.tobytes()
    for place in (-1, 7):
        with pytest.raises(ValueError, match="scatter needs places from 0 to 6"):
            scatter(np.full((5, 3), place), weights, x, found)
    for wrong in (
        (places, weights[:, :2], x, found),
        (places, weights, x[:4], found),
        (places, weights, x[:, :3], found),
        (places, weights, x, np.asfortranarray(found)),
    ):
        with pytest.raises(ValueError, match="scatter needs arrays of equal sizes"):
            scatter(*wrong)
    assert found.tobytes() == expected.tobytes()
