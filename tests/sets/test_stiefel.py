"""The Stiefel manifold: projection, tangent spaces, the landing field and its safe step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from decentorth.protocols import Array
from decentorth.sets import Euclidean, GeneralizedStiefel, JOrthogonal, JOrthogonalStack, Stiefel
from tests.reference import naive
from tests.support.sets import gaussian, norm

SHAPES = [(6, 3), (5, 5), (7, 1), (1, 1), (50, 20), (70, 52)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
N = 4


def feasible(shape: tuple[int, int], seed: int = 1, n: int = N) -> Array:
    rng = np.random.default_rng(seed)
    return np.stack([Stiefel(*shape).random(rng) for _ in range(n)])


@shapes
def test_distance_is_that_of_the_singular_values_from_one(shape: tuple[int, int]) -> None:
    y = gaussian(shape)
    expected = [np.sqrt(np.sum((scipy.linalg.svdvals(one) - 1) ** 2)) for one in y]
    np.testing.assert_allclose(Stiefel(*shape).distance(y), expected, rtol=1e-13)


@shapes
def test_fields_are_their_formulas(shape: tuple[int, int]) -> None:
    """With d x d matrices, to 1e-13 relative, on and off the manifold, one penalty per agent; on it
    two are gradients."""
    manifold, g = Stiefel(*shape), gaussian(shape, seed=3)
    penalty = np.array([1e-3, 1.0, 20.0, 500.0])

    def soft(x: Array, g: Array, penalty: float) -> Array:
        return g + penalty * x @ (x.T @ x - np.eye(shape[1]))

    def augmented(x: Array, g: Array, penalty: float) -> Array:
        return soft(x, g, penalty) - g @ (x.T @ x - np.eye(shape[1])) / 2 - x @ naive.sym(x.T @ g)

    formulas = (
        (manifold.landing, naive.landing_field),
        (manifold.penalised, soft),
        (manifold.dissolved, augmented),
    )
    for x in (gaussian(shape), feasible(shape)):
        scale = norm(g) * norm(x) ** 2 + penalty * norm(x) ** 3
        for field, formula in formulas:
            found, expected = (
                field(x, g, penalty),
                np.array([formula(*one) for one in zip(x, g, penalty, strict=True)]),
            )
            assert np.all(norm(found - expected) <= 1e-13 * scale)
            assert found.flags.c_contiguous
        relative = np.array([naive.canonical_gradient(*one) for one in zip(x, g, strict=True)])
        assert np.all(
            norm(manifold.relative_gradient(x, g) - relative) <= 1e-13 * norm(g) * norm(x) ** 2
        )
    np.testing.assert_allclose(
        manifold.dissolved(x, g, penalty), manifold.tangent(x, g), atol=1e-11
    )
    np.testing.assert_allclose(manifold.penalised(x, g, penalty), g, atol=1e-11)


@shapes
def test_the_dissolved_gradient_is_a_gradient(shape: tuple[int, int]) -> None:
    """Of sum(cos(A(x) - C)) + penalty/4 ||x^T x - I||^2, the gradient of the cosines taken at
    A(x) = x (3I - x^T x)/2."""
    manifold, x, u, C = (
        Stiefel(*shape),
        0.4 * gaussian(shape),
        gaussian(shape, seed=4),
        gaussian(shape, seed=6),
    )
    penalty = np.array([0.5, 1.0, 2.0, 4.0])
    np.testing.assert_allclose(
        manifold.dissolve(x),
        [one @ (3 * np.eye(shape[1]) - one.T @ one) / 2 for one in x],
        atol=1e-13,
    )

    def value(x: Array) -> Array:
        function: Array = (
            np.cos(manifold.dissolve(x) - C).sum((-2, -1))
            + penalty / 4 * manifold.feasibility(x) ** 2
        )
        return function

    slope = (manifold.dissolved(x, -np.sin(manifold.dissolve(x) - C), penalty) * u).sum((-2, -1))
    steps = np.logspace(-4, -2, 7)
    remainders = np.abs([value(x + t * u) - value(x) - t * slope for t in steps])
    orders = [np.polyfit(np.log(steps), np.log(remainder), 1)[0] for remainder in remainders.T]
    np.testing.assert_allclose(orders, 2, atol=0.1)


SAFE = (6, 3)


def inside(seed: int, fraction: float, eps: float) -> Array:
    """``(d, r)``: a random point with ``||x^T x - I||_F = fraction * eps``."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal(SAFE[1])
    spread *= fraction * eps / np.linalg.norm(spread)
    rotation, _ = np.linalg.qr(rng.standard_normal((SAFE[1], SAFE[1])))
    x: Array = Stiefel(*SAFE).random(rng) @ (rotation * np.sqrt(1 + spread)) @ rotation.T
    return x


@pytest.mark.slow
@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    fraction=st.floats(0, 1),
    eps=st.floats(0.01, 0.74),
    size=st.floats(-6, 6),
    penalty=st.floats(-3, 3),
)
def test_safe_step_stays_inside(
    seed: int, fraction: float, eps: float, size: float, penalty: float
) -> None:
    """From any point of the region, whatever the gradient; where 1/(2 lambda) does not cap it, the
    bound that it solves is met.

    The bound of Lemma 6: ``(1 - 2 eta lam) d + 2 eta lam d^2 + eta^2 g^2 <= eps``.
    """
    manifold = Stiefel(*SAFE)
    x = inside(seed, fraction, eps)[None]
    g = 10**size * np.random.default_rng(seed + 1).standard_normal((1, *SAFE))
    lam = np.array([10**penalty])
    field = manifold.landing(x, g, lam)
    (eta,) = manifold.safe_step(x, field, lam, eps)
    (d,) = manifold.feasibility(x)
    assert 0 <= eta <= 0.5 / lam[0]
    assert manifold.feasibility(x - eta * field)[0] <= eps * (1 + 1e-9)
    bound = (1 - 2 * eta * lam[0]) * d + 2 * eta * lam[0] * d**2 + (eta * norm(field)[0]) ** 2
    if eta < 0.5 / lam[0]:
        assert bound == pytest.approx(eps, rel=1e-6)
    else:
        assert bound <= eps * (1 + 1e-9)
    assert eta == pytest.approx(
        naive.landing_safe_step(x[0], field[0], float(lam[0]), eps), rel=1e-6
    )


def test_safe_step_where_nothing_moves() -> None:
    """At a feasible critical point the field is zero, and the cap is the step."""
    x = feasible(SAFE)
    lam = np.array([0.5, 1.0, 2.0, 4.0])
    np.testing.assert_array_equal(
        Stiefel(*SAFE).safe_step(x, np.zeros_like(x), lam, 0.5), 0.5 / lam
    )


@pytest.mark.parametrize("shape", [(5, 2), (3, 3)])
def test_random_points_are_uniform(shape: tuple[int, int]) -> None:
    """Moments of the uniform distribution, each within five standard errors: E x = 0, E x x^T =
    (r/d) I, E x_ij^4 = 3/(d(d+2))."""
    d, r = shape
    x = feasible(shape, seed=11, n=4000)
    np.testing.assert_array_less(Stiefel(*shape).feasibility(x), 1e-13)
    for sample, expected in (
        (x, np.zeros((d, r))),
        (x @ x.swapaxes(-1, -2), r / d * np.eye(d)),
        (x**4, np.full((d, r), 3 / (d * (d + 2)))),
    ):
        error = sample.std(axis=0) / np.sqrt(len(x)) + 1e-14
        assert np.all(np.abs(sample.mean(axis=0) - expected) <= 5 * error)


@pytest.mark.parametrize(("d", "r"), [(3, 4), (3, 0), (2, -1)])
def test_impossible_shapes_are_refused(d: int, r: int) -> None:
    with pytest.raises(
        ValueError,
        match=rf"St\(d, r\) needs 1 <= r <= d orthonormal columns, got d = {d} and r = {r}",
    ):
        Stiefel(d, r)


@pytest.mark.parametrize("number", [2.0, True, "2", None])
def test_sizes_of_sets_are_whole_numbers(number: Any) -> None:
    makers: tuple[Callable[[Any], Any], ...] = (
        lambda r: Stiefel(4, r),
        lambda r: Euclidean(4, r),
        lambda r: GeneralizedStiefel(np.eye(4), r),
        lambda r: JOrthogonal(2, r),
        lambda r: JOrthogonalStack(JOrthogonal(2, 2), r),
    )
    for make in makers:
        with pytest.raises(TypeError, match="must be a whole number, got "):
            make(number)
        assert make(np.int64(2)).shape == make(2).shape


@shapes
def test_every_function_is_per_agent(shape: tuple[int, int]) -> None:
    manifold, x, g = Stiefel(*shape), gaussian(shape, n=7), gaussian(shape, seed=3, n=7)
    lam = np.linspace(0.1, 30, 7)

    def everything(x: Array, g: Array, lam: Array) -> list[Array]:
        functions: list[Any] = [
            manifold.feasibility,
            manifold.project,
            manifold.distance,
            manifold.dissolve,
        ]
        pairs: list[Any] = [manifold.tangent, manifold.relative_gradient, manifold.multiplier_norm]
        fields: list[Any] = [manifold.landing, manifold.penalised, manifold.dissolved]
        return [
            *(f(x) for f in functions),
            *(f(x, g) for f in pairs),
            *(f(x, g, lam) for f in fields),
        ]

    together = everything(x, g, lam)
    for part in (slice(0, 1), slice(3, 4), slice(2, 6)):
        for mine, whole in zip(everything(x[part], g[part], lam[part]), together, strict=True):
            assert mine.tobytes() == whole[part].tobytes()
