"""The J-orthogonal set and stacks of it: random points, tangents, retraction and correction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from decentorth.protocols import Array, Retractable, Riemannian, Signature, Signatures
from decentorth.sets import JOrthogonal, JOrthogonalStack

SETS = {
    "sorted": JOrthogonal(4, 3),
    "mixed": JOrthogonal.with_signs([-1, 1, 1, -1, 1]),
    "lorentz": JOrthogonal(1, 6),
    "definite": JOrthogonal(4, 0),
    "negative": JOrthogonal(0, 3),
}
EACH = JOrthogonal.with_signs([-1, 1, 1, -1, 1])


@pytest.fixture(params=SETS)
def case(request: pytest.FixtureRequest) -> JOrthogonal:
    return SETS[request.param]


def points(case: JOrthogonal, number: int = 3) -> Array:
    rng = np.random.default_rng(0)
    return np.stack([case.random(rng) for _ in range(number)])


def lie(case: JOrthogonal, seed: int, number: int = 3) -> Array:
    """Random a = w J, w skew: the tangents at x are a x."""
    w = np.random.default_rng(seed).standard_normal((number, *case.shape))
    return (w - w.swapaxes(-1, -2)) * case.signs


def test_measures_are_the_formulas(case: JOrthogonal) -> None:
    x = np.random.default_rng(1).standard_normal((2, *case.shape))
    n = case.shape[0]
    for one, mean, largest in zip(x, case.feasibility(x), case.violation(x), strict=True):
        entries = [
            abs(
                sum(one[k, i] * case.signs[k] * one[k, j] for k in range(n))
                - (case.signs[i] if i == j else 0.0)
            )
            for i in range(n)
            for j in range(n)
        ]
        assert mean == pytest.approx(sum(entries) / n**2, rel=1e-13)
        assert largest == pytest.approx(max(entries), rel=1e-13)


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_random_points_are_feasible_and_spread(case: JOrthogonal, spread: float) -> None:
    x = case.random(np.random.default_rng(2), spread)[None]
    size = float(np.linalg.norm(x[0], 2)) ** 2
    assert case.violation(x)[0] <= 1e-14 * size
    assert case.feasibility(x)[0] <= 1e-9
    if spread == 0.0:
        np.testing.assert_allclose(x[0] @ x[0].T, np.eye(len(x[0])), atol=1e-14)


def test_random_points_reach_everywhere() -> None:
    """Both signs of both diagonal blocks' determinants: all four components of the group."""
    rng = np.random.default_rng(3)
    drawn = [JOrthogonal(2, 2).random(rng) for _ in range(40)]
    assert {(np.linalg.det(x[:2, :2]) > 0, np.linalg.det(x[2:, 2:]) > 0) for x in drawn} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }


def test_the_gradient_is_tangent_and_represents_the_differential(case: JOrthogonal) -> None:
    x, a = points(case), lie(case, 4)
    g = np.random.default_rng(5).standard_normal(x.shape)
    gradient = case.tangent(x, g)
    skewed = gradient.swapaxes(-1, -2) @ (case.signs[:, None] * x)
    np.testing.assert_allclose(skewed, -skewed.swapaxes(-1, -2), atol=1e-12 * np.abs(skewed).max())
    b = gradient @ (case.signs[:, None] * x.swapaxes(-1, -2) * case.signs)  # gradient = b x
    np.testing.assert_allclose((g * (a @ x)).sum((-2, -1)), (b * a).sum((-2, -1)), rtol=1e-11)


def test_cayley_stays_and_is_of_second_order(case: JOrthogonal) -> None:
    x, a = points(case), lie(case, 9)
    errors = []
    for t in (1e-1, 1e-2):
        moved = case.retract(x, t * a @ x)
        assert (case.violation(moved) <= 1e-13 * np.linalg.norm(moved, 2, axis=(-2, -1)) ** 2).all()
        errors.append(
            np.abs(
                moved - np.stack([expm(t * one) @ at for one, at in zip(a, x, strict=True)])
            ).max()
        )
    if np.abs(a).max() > 0.0:
        assert np.log10(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.2)
    np.testing.assert_allclose(case.retract(x, 0.0 * x), x, rtol=1e-14)


def excess(case: JOrthogonal, x: Array) -> Array:
    norm: Array = np.linalg.norm(
        np.diag(case.signs) @ x.swapaxes(-1, -2) @ np.diag(case.signs) @ x - np.eye(len(x[0])),
        axis=(-2, -1),
    )
    return norm


@pytest.mark.parametrize("size", [1e-3, 1e-5])
def test_the_correction_squares_the_error(case: JOrthogonal, size: float) -> None:
    x = points(case)
    off = x + size * np.random.default_rng(10).standard_normal(x.shape)
    assert (
        excess(case, case.corrected(off))
        <= excess(case, off) ** 2 + 1e-13 * np.linalg.norm(x, axis=(-2, -1)) ** 2
    ).all()


def test_the_correction_converges_wherever_it_is_allowed() -> None:
    case = JOrthogonal(2, 2)
    x = 1.3 * case.random(np.random.default_rng(11), 0.2)[None]
    for _ in range(8):
        x = case.corrected(x)
    assert case.violation(x)[0] <= 1e-14


@pytest.mark.parametrize("factor", [1.5, np.nan])
def test_the_correction_refuses_what_it_cannot_mend(factor: float) -> None:
    x = points(JOrthogonal(3, 2), 2)
    x[1] *= factor
    with pytest.raises(
        ValueError,
        match=r"Newton-Schulz correction needs .* < 1, but it is (1\.25|inf) at local agent 1",
    ):
        JOrthogonal(3, 2).corrected(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JOrthogonal.with_signs([1, 0, -1]), "entry 1 is 0"),
        (lambda: JOrthogonal.with_signs([[1, -1]]), r"shape \(1, 2\)"),
        (lambda: JOrthogonal.with_signs([]), r"shape \(0,\)"),
        (lambda: JOrthogonal.with_signs([1, np.nan]), "entry 1 is nan"),
        *(
            (lambda p=p, q=q: JOrthogonal(p, q), "one of them at least, got p = ")
            for p, q in ((-1, 3), (2, -1), (0, 0))
        ),
        (lambda: JOrthogonalStack(EACH, 0, 3), "copies >= 1 matrices and free >= 0 rows"),
        (lambda: JOrthogonalStack(EACH, 2, -1), "copies >= 1 matrices and free >= 0 rows"),
    ],
)
def test_what_is_no_set_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_the_cayley_retraction_is_nan_where_it_is_undefined() -> None:
    """I - a/2 is singular for a = ((0, 2), (2, 0)), a tangent at x = I."""
    a = np.array([[[0.0, 2.0], [2.0, 0.0]]])
    both = JOrthogonal(1, 1).retract(np.eye(2)[None].repeat(2, 0), np.concatenate([a, 0.0 * a]))
    assert np.isnan(both[0]).all()
    assert (both[1] == np.eye(2)).all()


# stacked matrices over free rows: each part is what it would be alone

COPIES, FREE = 3, 4
STACK = JOrthogonalStack(EACH, COPIES, FREE)


def stacked(number: int = 2) -> Array:
    rng = np.random.default_rng(0)
    return np.stack([STACK.random(rng) for _ in range(number)])


def parts(x: Array) -> tuple[list[Array], Array]:
    return [np.ascontiguousarray(x[:, 5 * c : 5 * c + 5]) for c in range(COPIES)], x[
        :, 5 * COPIES :
    ]


def test_capabilities_of_a_stack() -> None:
    assert isinstance(STACK, (Riemannian, Retractable, Signatures))
    assert not isinstance(STACK, Signature)
    assert isinstance(EACH, Signatures)
    assert (EACH.copies, EACH.each) == (1, EACH)
    assert STACK.shape == (COPIES * 5 + FREE, 5)
    assert repr(STACK) == "J(3, 2, in another order)^3 x R(4, 5)"


def test_random_points_of_a_stack_are_feasible_and_measures_are_the_worst_matrix() -> None:
    x = stacked()
    assert (STACK.violation(x) < 1e-13).all()
    x[0, 7] += 1e-3
    matrices, _ = parts(x)
    np.testing.assert_array_equal(
        STACK.feasibility(x), np.max([EACH.feasibility(one) for one in matrices], axis=0)
    )
    np.testing.assert_array_equal(
        STACK.violation(x), np.max([EACH.violation(one) for one in matrices], axis=0)
    )
    assert STACK.violation(x)[0] > 1e-4


def test_every_matrix_moves_as_it_would_alone_and_free_rows_as_in_space() -> None:
    x, g = stacked(), np.random.default_rng(1).standard_normal((2, *STACK.shape))
    tangent = STACK.tangent(x, g)
    moved, corrected = STACK.retract(x, -0.1 * tangent), STACK.corrected(x + 1e-4 * g)
    for one, own, along, to, near in zip(
        *(parts(a)[0] for a in (x, g, tangent, moved, corrected)), strict=True
    ):
        np.testing.assert_allclose(along, EACH.tangent(one, own), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(to, EACH.retract(one, -0.1 * along), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(near, EACH.corrected(one + 1e-4 * own), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(parts(tangent)[1], parts(g)[1])
    np.testing.assert_array_equal(parts(moved)[1], parts(x)[1] - 0.1 * parts(g)[1])
    np.testing.assert_array_equal(parts(corrected)[1], parts(x + 1e-4 * g)[1])
    assert (STACK.violation(moved) < 1e-12).all()
