"""Stacked J-orthogonal matrices over free rows: each part is what it would be alone."""

from __future__ import annotations

import numpy as np
import pytest

from decentorth.protocols import Array, Retractable, Riemannian, Signature, Signatures
from decentorth.sets import JOrthogonal, JOrthogonalStack

EACH = JOrthogonal.with_signs([-1, 1, 1, -1, 1])
COPIES, FREE = 3, 4
STACK = JOrthogonalStack(EACH, COPIES, FREE)


def points(number: int = 2) -> Array:
    rng = np.random.default_rng(0)
    return np.stack([STACK.random(rng) for _ in range(number)])


def parts(x: Array) -> tuple[list[Array], Array]:
    """The matrices, each ``(n_local, n, n)``, and the free rows."""
    return [np.ascontiguousarray(x[:, 5 * c : 5 * c + 5]) for c in range(COPIES)], x[:, 5 * COPIES :]


def test_capabilities() -> None:
    assert isinstance(STACK, (Riemannian, Retractable, Signatures))
    assert not isinstance(STACK, Signature)
    assert isinstance(EACH, Signatures)
    assert (EACH.copies, EACH.each) == (1, EACH)
    assert STACK.shape == (COPIES * 5 + FREE, 5)
    assert repr(STACK) == "J(3, 2, in another order)^3 x R(4, 5)"


def test_random_points_are_feasible_and_measures_are_the_worst_matrix() -> None:
    x = points()
    assert (STACK.violation(x) < 1e-13).all()
    x[0, 7] += 1e-3
    matrices, _ = parts(x)
    np.testing.assert_array_equal(STACK.feasibility(x), np.max([EACH.feasibility(one) for one in matrices], axis=0))
    np.testing.assert_array_equal(STACK.violation(x), np.max([EACH.violation(one) for one in matrices], axis=0))
    assert STACK.violation(x)[0] > 1e-4


def test_every_matrix_moves_as_it_would_alone_and_free_rows_as_in_space() -> None:
    x, g = points(), np.random.default_rng(1).standard_normal((2, *STACK.shape))
    tangent = STACK.tangent(x, g)
    moved, corrected = STACK.retract(x, -0.1 * tangent), STACK.corrected(x + 1e-4 * g)
    for one, own, along, to, near in zip(*(parts(a)[0] for a in (x, g, tangent, moved, corrected)), strict=True):
        np.testing.assert_allclose(along, EACH.tangent(one, own), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(to, EACH.retract(one, -0.1 * along), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(near, EACH.corrected(one + 1e-4 * own), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(parts(tangent)[1], parts(g)[1])
    np.testing.assert_array_equal(parts(moved)[1], parts(x)[1] - 0.1 * parts(g)[1])
    np.testing.assert_array_equal(parts(corrected)[1], parts(x + 1e-4 * g)[1])
    assert (STACK.violation(moved) < 1e-12).all()


@pytest.mark.parametrize(("copies", "free"), [(0, 3), (2, -1)])
def test_what_is_no_stack_is_refused(copies: int, free: int) -> None:
    with pytest.raises(ValueError, match="copies >= 1 matrices and free >= 0 rows"):
        JOrthogonalStack(EACH, copies, free)
