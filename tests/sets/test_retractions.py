"""Retractions of the Stiefel manifold and the ways of computing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pymanopt.manifolds
import pytest

from decentorth.protocols import Array, Retraction
from decentorth.sets import Stiefel
from decentorth.sets.retractions import CONDITION, SERIES, STEPS, Polar
from tests.reference import naive
from tests.support.sets import norm

SHAPES = [(6, 3), (5, 5), (7, 1), (1, 1), (50, 20), (70, 52), (784, 10)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
retractions = pytest.mark.parametrize("name", get_args(Retraction))
polars = pytest.mark.parametrize("name", get_args(Polar))
N = 3
LENGTHS = (0.0, 1e-12, 1e-6, 1e-4, 1e-2, 0.03, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 3.0, 10.0)
ROUNDING = 2.0**-53


def feasible(shape: tuple[int, int], n: int = N, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    return np.stack([Stiefel(*shape).random(rng) for _ in range(n)])


def tangents(x: Array, seed: int = 2) -> Array:
    """Tangents of norm 1 (0 where there are no others): in every second agent of rank 1 before
    projection, so that x + v is as badly conditioned as the length of v allows."""
    rng = np.random.default_rng(seed)
    g = rng.standard_normal(x.shape)
    g[1::2] = rng.standard_normal((*x[1::2].shape[:2], 1)) @ rng.standard_normal(
        (len(x[1::2]), 1, x.shape[2])
    )
    v = Stiefel(*x.shape[1:]).tangent(x, g)
    return v / np.maximum(norm(v), 1e-3)[:, None, None]


def spread(shape: tuple[int, int], eigenvalues: Array, seed: int = 3) -> tuple[Array, Array]:
    """x feasible and y = x h, where h is positive definite and h^2 = y^T y has these eigenvalues,
    ``(n, r)``: polar(y) = x."""
    x, turn = (
        feasible(shape, len(eigenvalues), seed),
        feasible((shape[1], shape[1]), len(eigenvalues), seed + 1),
    )
    y: Array = x @ (turn * np.sqrt(eigenvalues)[:, None, :]) @ turn.swapaxes(-1, -2)
    return x, y


def far_apart(shape: tuple[int, int]) -> tuple[Array, Array]:
    """Points and tangents of which every way of computing some retraction gets one."""
    lengths = np.array([0.0, 1e-9, 1e-3, 2e-2, 0.11, 0.35, 0.6, 0.9, 3.0, 8.0, 1e2, 1e200])
    x = feasible(shape, len(lengths))
    return x, lengths[:, None, None] * tangents(x)


def slope(steps: Array, errors: Array) -> float:
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


@shapes
@retractions
def test_every_point_reached_is_feasible(shape: tuple[int, int], name: Retraction) -> None:
    manifold, x = Stiefel(*shape), feasible(shape)
    direction = tangents(x)
    for length in (*LENGTHS, 1e2, 1e6):
        reached = manifold.retract(x, length * direction, name)
        np.testing.assert_array_less(manifold.feasibility(reached), 1e-13 * np.sqrt(shape[1]))


@pytest.mark.parametrize("shape", [(6, 3), (5, 5), (50, 20)])
@retractions
def test_polar_follows_the_geodesic_to_second_order_and_qr_to_first(
    shape: tuple[int, int], name: Retraction
) -> None:
    manifold, x, steps = Stiefel(*shape), feasible(shape), np.logspace(-3, -1, 7)
    v = tangents(x)
    exponential: Callable[[Array, Array], Array] = pymanopt.manifolds.Stiefel(*shape, k=N).exp
    errors = np.array(
        [norm(manifold.retract(x, t * v, name) - exponential(x, t * v)) for t in steps]
    )
    for each in errors.T:
        assert slope(steps, each) == pytest.approx(3 if name in get_args(Polar) else 2, abs=0.1)


@shapes
@polars
def test_polar_is_the_naive_one(shape: tuple[int, int], name: Polar) -> None:
    """To 1e-14 a column, times cond(x + v) <= 1 + ||v||, with which a polar factor answers to
    rounding of x + v."""
    manifold, x = Stiefel(*shape), feasible(shape)
    direction = tangents(x)
    for length in (*LENGTHS, 1e2):
        y = x + length * direction
        expected = np.stack([naive.polar(one) for one in y])
        bound = 1e-14 * np.sqrt(shape[1]) * (1 + length)
        assert np.all(norm(manifold.project(y, name) - expected) <= bound)
        np.testing.assert_array_equal(
            manifold.retract(x, length * direction, name), manifold.project(y, name)
        )


@pytest.mark.parametrize("shape", [(6, 3), (40, 12), (70, 52)])
@polars
def test_polar_factors_that_are_known(shape: tuple[int, int], name: Polar) -> None:
    """On both sides of every delta at which another way is taken; the eigenvalues of y^T y are all
    1 but one, or half of them above and half below 1, or spread."""
    r = shape[1]
    bounds = [delta for _, _, delta in SERIES] + [delta for _, delta in STEPS]
    patterns = np.stack(
        [
            np.eye(r)[0],
            -np.eye(r)[0],
            np.resize([1.0, -1.0], r),
            np.linspace(-1, 1, r),
            np.linspace(0, 1, r),
        ]
    )
    patterns /= np.sqrt((patterns**2).sum(-1))[:, None]
    for delta in [factor * bound for bound in bounds for factor in (0.999, 1.001)] + [0.95]:
        x, y = spread(shape, 1 + delta * patterns)
        assert np.all(
            norm(Stiefel(*shape).project(y, name) - x) <= 1.5e-15 * r * (1 + delta) / (1 - delta)
        )


@polars
def test_polar_where_the_gram_matrix_tells_too_little(name: Polar) -> None:
    """On both sides of the largest condition number for eigenvalues and up to cond(y) = 1e12:
    feasible, and as near as the condition number lets any method come."""
    conditions = np.array([10.0, 0.99 * CONDITION, 1.01 * CONDITION, 1e4, 1e8, 1e16, 1e24])
    x, y = spread((30, 8), np.geomspace(np.ones(7), 1 / conditions, 8, axis=-1))
    found = Stiefel(30, 8).project(y, name)
    np.testing.assert_array_less(Stiefel(30, 8).feasibility(found), 1e-13 * np.sqrt(8))
    cond = np.sqrt(conditions) + np.where(conditions <= CONDITION, conditions, 0)
    assert np.all(norm(found - x) <= 1e-15 * 8 * cond)


@shapes
@polars
def test_polar_ignores_positive_factors(shape: tuple[int, int], name: Polar) -> None:
    manifold, x = Stiefel(*shape), feasible(shape)
    y = x + 0.3 * tangents(x)
    expected = manifold.project(y)
    for factor in (0.3, 7.0, 1e5, 1e-7, 1e152, 1e200, 1e307, 1e-145, 1e-160, 1e-200, 1e-300):
        np.testing.assert_allclose(manifold.project(factor * y, name), expected, atol=1e-14)


@pytest.mark.parametrize("name", ["qr", "cholesky-qr"])
@shapes
def test_qr_gives_back_the_orthonormal_factor(shape: tuple[int, int], name: Retraction) -> None:
    """Of x u with u upper triangular and positive on its diagonal; to rounding times the condition
    number of u."""
    r = shape[1]
    x, strict = feasible(shape), np.triu(np.random.default_rng(5).standard_normal((N, r, r)), 1) / r
    for size in (0.0, 1e-12, 1e-9, 1e-5, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.4, 0.7):
        upper = np.eye(r) * (1 + size * np.linspace(-0.3, 0.3, r)) + size * strict
        found = Stiefel(*shape).retract(x, x @ upper - x, name)
        assert np.all(norm(found - x) <= 1e-15 * r * np.linalg.cond(upper))


@shapes
@retractions
def test_an_agent_gets_the_same_bits_in_any_company(
    shape: tuple[int, int], name: Retraction
) -> None:
    manifold, (x, v) = Stiefel(*shape), far_apart(shape)
    together = manifold.retract(x, v, name)
    for part in (
        *[slice(i, i + 1) for i in range(len(x))],
        slice(0, 5),
        slice(3, 9),
        slice(None, None, 3),
    ):
        alone = manifold.retract(np.ascontiguousarray(x[part]), np.ascontiguousarray(v[part]), name)
        assert alone.tobytes() == together[part].tobytes()


@retractions
def test_many_agents_get_the_bits_of_few(name: Retraction) -> None:
    x = feasible((10, 4), n=3000)
    v = np.geomspace(1e-9, 20, 3000)[:, None, None] * tangents(x)
    together = Stiefel(10, 4).retract(x, v, name)
    for part in (slice(0, 1), slice(700, 960), slice(2999, 3000)):
        assert Stiefel(10, 4).retract(x[part], v[part], name).tobytes() == together[part].tobytes()


@pytest.mark.parametrize("shape", [(6, 3), (7, 1), (70, 52)])
@retractions
def test_who_is_not_finite_is_nan_and_alone(shape: tuple[int, int], name: Retraction) -> None:
    manifold, (x, v) = Stiefel(*shape), far_apart(shape)
    expected = manifold.retract(x, v, name)
    bad = [1, 4, 6, 9]
    v[1, -1, -1] = np.nan
    v[4, 0, 0], v[6] = np.inf, -np.inf
    x[9, 2, 0] = v[9, 2, 0] = 1e308
    x_kept, v_kept = x.copy(), v.copy()
    found = manifold.retract(x, v, name)
    assert np.isnan(found[bad]).all()
    others = [i for i in range(len(x)) if i not in bad]
    assert found[others].tobytes() == expected[others].tobytes()
    np.testing.assert_array_equal(x, x_kept)
    np.testing.assert_array_equal(v, v_kept)
    assert np.isnan(manifold.retract(x[bad], v[bad], name)).all()


@shapes
@polars
def test_one_of_the_nearest_points_where_there_are_several(
    shape: tuple[int, int], name: Polar
) -> None:
    """Of y without full rank, whose neighbours in the stack have it: feasible, at the distance of
    the singular values from 1."""
    d, r = shape
    rng = np.random.default_rng(6)
    y = rng.standard_normal((4, d, r))
    y[0] = 0.0
    y[1, :, 0] = 0.0
    y[2] = rng.standard_normal((d, 1)) @ rng.standard_normal((1, r))
    found = Stiefel(*shape).project(y, name)
    np.testing.assert_array_less(Stiefel(*shape).feasibility(found), 1e-13 * np.sqrt(r))
    least = [np.sqrt(np.sum((np.linalg.svd(one, compute_uv=False) - 1) ** 2)) for one in y]
    np.testing.assert_allclose(norm(y - found), least, rtol=1e-13, atol=1e-14 * np.sqrt(d))


@pytest.mark.parametrize("length", [1e-5, 0.5, 1.5])
@pytest.mark.parametrize("name", get_args(Retraction))
def test_another_array_is_retracted_by_the_same_matrix(name: Retraction, length: float) -> None:
    """``other`` S, for an ``other`` that is a matrix times y, is that matrix times the retraction
    of y."""
    rng, stiefel = np.random.default_rng(3), Stiefel(12, 4)
    x, H = np.stack([stiefel.random(rng) for _ in range(3)]), rng.standard_normal((12, 12))
    v = stiefel.tangent(x, length * rng.standard_normal(x.shape))
    found = stiefel.retract_both(x + v, H @ (x + v), name)
    assert found is not None
    expected = stiefel.retract(x, v, name)
    assert np.abs(found[0] - expected).max() < 1e-13
    assert np.abs(found[1] - H @ expected).max() < 1e-12


def test_steps_too_long_for_one_matrix_are_left_to_the_retraction() -> None:
    stiefel = Stiefel(5, 2)
    x = stiefel.random(np.random.default_rng(0))[None]
    v = stiefel.tangent(x, np.ones_like(x))
    assert stiefel.retract_both(x + 100.0 * v, x) is None
    assert stiefel.retract_both(x + np.nan * v, x) is None
    with pytest.raises(
        ValueError, match="method must be one of polar, polar-svd, polar-eigh, got 'qr'"
    ):
        stiefel.project(x, "qr")  # type: ignore[arg-type]  # the mistake under test
