"""The generalized Stiefel manifold: its operators, retractions, tangents, landing fields and safe
steps, and products of sets."""

from __future__ import annotations

import inspect
from itertools import product as every_choice
from typing import Any, cast, get_args

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from decentorth import protocols
from decentorth.protocols import Array, Direction, Retraction
from decentorth.sets import Euclidean, GeneralizedStiefel, Product, SampleCovariance, Stiefel
from tests.reference import generalized as naive
from tests.support.generalized import spectral
from tests.support.sets import Box, feasible, gaussian, norm

SHAPES = [(6, 3), (5, 5), (7, 1), (1, 1), (60, 52)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
directions = pytest.mark.parametrize("direction", get_args(Direction))
retractions = pytest.mark.parametrize("retraction", get_args(Retraction))
N = 4


def matrix(n: int, condition: float = 100.0, seed: int = 0) -> Array:
    return spectral(np.geomspace(1 / condition, 1.0, n), np.random.default_rng(seed))


def manifold(shape: tuple[int, int], condition: float = 100.0) -> tuple[GeneralizedStiefel, Array]:
    B = matrix(shape[0], condition)
    return GeneralizedStiefel(B, shape[1]), B


def near(there: Any, size: float, seed: int = 2) -> Array:
    x = feasible(there)
    points: Array = x + size * gaussian(there.shape, seed) * np.abs(x).max()
    return points


class Inverse(scipy.sparse.linalg.LinearOperator):
    """A linear operator that brings its inverse."""

    def __init__(self, B: Array) -> None:
        super().__init__(np.float64, B.shape)  # type: ignore[call-arg]  # the stubs know the factory alone
        self.B = B

    def _matmat(self, x: Array) -> Array:
        image: Array = self.B @ x
        return image

    def solve(self, g: Array) -> Array:
        inverse: Array = scipy.linalg.solve(self.B, g)
        return inverse


# operators


def operators(n: int) -> dict[str, tuple[Any, Array]]:
    rng = np.random.default_rng(3)
    B, A = matrix(n), rng.standard_normal((2 * n, n))
    few, thin = A[: n // 2], np.where(rng.random(A.shape) < 0.3, A, 0.0)
    chain = np.diag(np.full(n, 3.0)) - np.diag(np.ones(n - 1), 1) - np.diag(np.ones(n - 1), -1)
    return {
        "dense": (B, B),
        "integers": (chain.astype(int), chain),
        "fortran": (np.asfortranarray(B), B),
        "csr": (scipy.sparse.csr_array(chain), chain),
        "coo": (scipy.sparse.coo_matrix(chain), chain),
        "operator": (scipy.sparse.linalg.aslinearoperator(B), B),
        "operator with inverse": (Inverse(B), B),
        "samples": (SampleCovariance(A), A.T @ A / (2 * n)),
        "few samples": (SampleCovariance(few, 0.1), few.T @ few / (n // 2) + 0.1 * np.eye(n)),
        "sparse samples": (
            SampleCovariance(scipy.sparse.csr_array(thin), 0.2),
            thin.T @ thin / (2 * n) + 0.2 * np.eye(n),
        ),
    }


KINDS = list(operators(4))


@pytest.mark.parametrize("n", [8, 90])
@pytest.mark.parametrize("kind", KINDS)
def test_operators_are_their_matrix(kind: str, n: int) -> None:
    """Products, inverses where there are any, and the largest eigenvalue as a bound from above by
    2e-4 at most."""
    given_as, B = operators(n)[kind]
    there, x = GeneralizedStiefel(given_as, 3), gaussian((n, 3))
    np.testing.assert_allclose(there.product(x), B @ x, atol=1e-13 * norm(B[None])[0])
    assert there.solvable == (kind not in ("operator", "samples", "few samples", "sparse samples"))
    assert there.product(x).flags.c_contiguous
    exact = np.linalg.eigvalsh(B)[-1]
    assert exact * (1 - 1e-12) <= there.largest <= exact * (1 + 2e-4)
    if not there.solvable:
        with pytest.raises(
            TypeError, match=r"B\^\{-1\} g is needed: g.*products only \(psi-b, euclidean\)"
        ):
            there.solve(x)
    else:
        np.testing.assert_allclose(there.solve(x), np.linalg.solve(B, x), rtol=1e-9, atol=1e-11)
        assert there.solve(x).flags.c_contiguous


def test_samples_of_a_covariance() -> None:
    """The mean over all single samples is the whole; a batch is the mean of its samples, repeats
    counted."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((7, 4))
    for rows in (A, scipy.sparse.csr_array(A)):
        covariance = SampleCovariance(rows, 0.25)
        x = rng.standard_normal((1, 4, 2))
        each = np.concatenate([covariance.product_on(x, np.array([[i]])) for i in range(7)])
        np.testing.assert_allclose(each.mean(0), covariance.product(x)[0], rtol=1e-13)
        matrices = np.concatenate([covariance.matrix_on(np.array([[i]])) for i in range(7)])
        np.testing.assert_allclose(
            matrices.mean(0), A.T @ A / 7 + 0.25 * np.eye(4), rtol=1e-13, atol=1e-15
        )
        batch = np.array([[2, 2, 5]])
        np.testing.assert_allclose(
            covariance.product_on(x, batch)[0], (2 * each[2] + each[5]) / 3, rtol=1e-12
        )
        np.testing.assert_allclose(
            covariance.matrix_on(batch)[0], (2 * matrices[2] + matrices[5]) / 3, rtol=1e-12
        )


UNIT, HERE = GeneralizedStiefel(np.eye(4), 2), np.eye(4)[None, :, :2]
SINGULAR = scipy.sparse.csr_array(np.array([[1.0, 2.0], [2.0, 1.0]]))
LAPLACIAN = nx.laplacian_matrix(nx.grid_2d_graph(30, 30)).astype(np.float64)
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "not square": (np.ones((2, 3)), ValueError, r"B must be a square matrix, got shape \(2, 3\)"),
    "nan": (np.array([[1.0, np.nan], [np.nan, 1.0]]), ValueError, "B must be finite"),
    "complex": (np.eye(2) * 1j, TypeError, "B must hold real numbers, got dtype complex128"),
    "unsymmetric": (
        np.array([[1.0, 0.5], [0.0, 1.0]]),
        ValueError,
        r"differs from its transpose by 0.5 .* give \(B \+ B.T\) / 2",
    ),
    "indefinite": (
        np.diag([1.0, -2.0]),
        ValueError,
        "smallest eigenvalue is -2, its largest 1: add a ridge",
    ),
    "singular": (np.ones((2, 2)), ValueError, "B must be positive definite"),
    "sparse, a Laplacian": (
        lambda: GeneralizedStiefel(LAPLACIAN, 1).solve(np.ones((1, 900, 1))),
        ValueError,
        "singular or has negative eigenvalues",
    ),
    "sparse, diagonal": (
        scipy.sparse.csr_array(np.diag([1.0, 0.0])),
        ValueError,
        "its diagonal has the entry 0",
    ),
    "factored": (
        lambda: GeneralizedStiefel(SINGULAR, 1).solve(np.ones((1, 2, 1))),
        ValueError,
        "singular or has negative eigenvalues",
    ),
    "operator, unsymmetric": (Inverse(np.triu(np.ones((3, 3)))), ValueError, "B must be symmetric"),
    "operator, negative": (Inverse(-np.eye(3)), ValueError, r"v\^T B v = -.* for a vector v"),
    **{
        f"p = {p}": (
            lambda p=p: GeneralizedStiefel(np.eye(3), p),
            ValueError,
            rf"needs 1 <= p <= n .* p = {p}",
        )
        for p in (0, 4)
    },
    "few samples": (
        lambda: SampleCovariance(np.ones((2, 3))),
        ValueError,
        "of 2 samples in 3 dimensions is singular",
    ),
    "no matrix": (
        lambda: SampleCovariance(np.ones(3)),
        ValueError,
        r"a sample in each row, got shape \(3,\)",
    ),
    "complex samples": (
        lambda: SampleCovariance(np.ones((3, 2)) * 1j, 1.0),
        TypeError,
        "A must hold real numbers",
    ),
    "ridge": (
        lambda: SampleCovariance(np.ones((3, 2)), -1.0),
        ValueError,
        "ridge must be finite and not negative, got -1",
    ),
    "one set": (
        lambda: Product(Stiefel(4, 2)),
        ValueError,
        "a product needs at least two sets, got 1",
    ),
    "unequal sets": (
        lambda: Product(Stiefel(4, 2), Stiefel(4, 3)),
        ValueError,
        "must have equally many columns, got 2, 3",
    ),
    "wide points": (
        lambda: Product(Stiefel(4, 2), Stiefel(3, 2)).feasibility(np.ones((2, 7, 4))),
        ValueError,
        "cannot reshape",
    ),
    "no set": (
        lambda: Product(Stiefel(4, 2), cast(Any, "ball")),
        TypeError,
        "must be constraint sets, got str",
    ),
    "retraction": (
        lambda: UNIT.retract(HERE, HERE, cast(Any, "exp")),
        ValueError,
        "must be one of polar, .*, got 'exp'",
    ),
    "direction": (
        lambda: UNIT.landing(HERE, HERE, HERE, cast(Any, "exp")),
        ValueError,
        "must be one of psi-b, .*, got 'exp'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_set_or_no_name_is_refused(name: str) -> None:
    B, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        _ = B() if inspect.isfunction(B) else GeneralizedStiefel(B, 1)


def test_other_matrices_of_each_agent() -> None:
    """The set with a B for every agent; where one is singular, only solving with it is refused."""
    there, _ = manifold((5, 2))
    matrices = np.stack(
        [matrix(5, condition, seed=i) for i, condition in enumerate((1.0, 10.0, 100.0, 1e4))]
    )
    other = there.with_matrices(matrices)
    x, g = gaussian((5, 2)), gaussian((5, 2), seed=5)
    np.testing.assert_allclose(
        other.product(x), [B @ one for B, one in zip(matrices, x, strict=True)], rtol=1e-13
    )
    np.testing.assert_allclose(
        other.solve(g),
        [np.linalg.solve(B, one) for B, one in zip(matrices, g, strict=True)],
        rtol=1e-9,
    )
    np.testing.assert_array_less(other.feasibility(other.project(x)), 1e-11)
    assert other.largest == pytest.approx(1.0)
    singular = there.with_matrices(np.diag([1.0, 1.0, 1.0, 1.0, 0.0])[None])
    assert singular.feasibility(singular.project(x[:1]))[0] < 1e-13
    with pytest.raises(ValueError, match="its smallest eigenvalue is 0"):
        singular.solve(g[:1])


# projection and retractions


@shapes
def test_projection_is_the_polar_factor_of_the_metric(shape: tuple[int, int]) -> None:
    there, B = manifold(shape)
    y = gaussian(shape)
    found = there.project(y)
    for one, expected in zip(found, y, strict=True):
        np.testing.assert_allclose(one, naive.polar(B, expected), atol=1e-9 * np.abs(one).max())
    np.testing.assert_array_less(there.feasibility(found), 1e-12)
    np.testing.assert_array_less(there.feasibility(feasible(there, n=50)), 1e-12)
    np.testing.assert_allclose(
        there.feasibility(y), [naive.norm(naive.gap(B, one)) for one in y], rtol=1e-12
    )
    assert found.flags.c_contiguous
    root = scipy.linalg.sqrtm(B).real
    np.testing.assert_allclose(there.distance(y), norm(root @ (y - found)), rtol=1e-9)
    np.testing.assert_array_less(there.distance(found), 1e-12)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.3, 100.0])
@shapes
@retractions
def test_retractions_are_their_formulas(
    shape: tuple[int, int], retraction: Retraction, size: float
) -> None:
    """From products as well as from points; feasible, and with the product of the new point."""
    there, B = manifold(shape)
    x = feasible(there)
    v = size * there.tangent(x, gaussian(shape, seed=3))
    expected = np.array([naive.RETRACTIONS[retraction](B, one) for one in x + v])
    scale = np.abs(expected).max() * (1 + norm(v).max()) ** 2
    found = there.retract(x, v, retraction)
    np.testing.assert_allclose(found, expected, atol=1e-11 * scale)
    assert found.flags.c_contiguous
    np.testing.assert_array_less(there.feasibility(found), 1e-11 * (1 + norm(v).max()))
    point, image = there.retract_with(x + v, B @ (x + v), retraction)
    np.testing.assert_allclose(point, expected, atol=1e-11 * scale)
    np.testing.assert_allclose(image, B @ point, atol=1e-12 * scale)


@pytest.mark.parametrize("retraction", ["polar", "polar-svd", "polar-eigh", "qr", "cholesky-qr"])
def test_retractions_of_points_that_are_almost_dependent(retraction: Retraction) -> None:
    there, B = manifold((8, 3))
    y = np.repeat(gaussian((8, 1)), 3, axis=2) + 1e-6 * gaussian((8, 3), seed=4)
    found, image = there.retract_with(y, B @ y, retraction)
    np.testing.assert_array_less(there.feasibility(found), 1e-8)
    np.testing.assert_allclose(image, B @ found, atol=1e-8 * np.abs(found).max())


@retractions
def test_a_point_that_is_not_finite_or_not_independent_spoils_no_other(
    retraction: Retraction,
) -> None:
    there, _ = manifold((6, 3))
    x = feasible(there, n=7)
    v = 0.1 * there.tangent(x, gaussian((6, 3), seed=3, n=7))
    sound = there.retract(x, v, retraction)
    v[1, 2, 1] = np.nan
    v[2, 0, 0] = np.inf
    v[3] = 1e200
    v[5] = -x[5]  # x + v = 0
    found = there.retract(x, v, retraction)
    assert np.isnan(found[[1, 2, 3, 5]]).all()
    assert found[[0, 4, 6]].tobytes() == sound[[0, 4, 6]].tobytes()


# tangent spaces


@shapes
def test_tangent_vectors(shape: tuple[int, int]) -> None:
    """x^T B xi is skew, the map is the orthogonal projection onto that space, on the sheets off the
    manifold as well."""
    there, B = manifold(shape)
    g, h = gaussian(shape), gaussian(shape, seed=5)
    for x in (feasible(there), near(there, 0.1)):
        xi = there.tangent(x, g)
        product = x.swapaxes(-1, -2) @ B @ xi
        np.testing.assert_allclose(
            product + product.swapaxes(-1, -2), 0, atol=1e-11 * np.abs(x).max()
        )
        np.testing.assert_allclose(there.tangent(x, xi), xi, atol=1e-11)
        np.testing.assert_allclose(
            (xi * h).sum((-2, -1)), (g * there.tangent(x, h)).sum((-2, -1)), rtol=1e-8, atol=1e-11
        )
        if shape[1] < 20:
            np.testing.assert_allclose(
                xi, [naive.riemannian(B, *pair) for pair in zip(x, g, strict=True)], atol=1e-11
            )
        np.testing.assert_array_equal(there.tangent(x, g, B @ x), xi)


@shapes
def test_natural_gradient(shape: tuple[int, int]) -> None:
    """Tangent, with tr(z^T B v) = tr(G^T v) for every tangent v; its product with B comes with
    it."""
    there, B = manifold(shape)
    x, g = feasible(there), gaussian(shape)
    z, image = there.natural_gradient(x, g)
    np.testing.assert_allclose(
        z,
        [naive.natural_gradient(B, *pair) for pair in zip(x, g, strict=True)],
        rtol=1e-8,
        atol=1e-9,
    )
    np.testing.assert_allclose(image, B @ z, atol=1e-12 * np.abs(x).max() * np.abs(g).max())
    product = x.swapaxes(-1, -2) @ B @ z
    np.testing.assert_allclose(product + product.swapaxes(-1, -2), 0, atol=1e-10 * np.abs(x).max())
    v = there.tangent(x, gaussian(shape, seed=5))
    np.testing.assert_allclose(
        (image * v).sum((-2, -1)), (g * v).sum((-2, -1)), rtol=1e-8, atol=1e-9
    )


# landing


@shapes
@directions
def test_landing_fields_are_their_formulas(shape: tuple[int, int], direction: Direction) -> None:
    """Against the n x n matrices of the paper, on and off the manifold, one penalty per agent, with
    and without B x."""
    there, B = manifold(shape)
    g = gaussian(shape, seed=3)
    penalty = np.array([1e-3, 1.0, 20.0, 500.0])
    if direction == "riemannian" and shape[1] > 20:
        return  # the naive basis of the normal space has 1378 members
    for x in (gaussian(shape), feasible(there)):
        expected = np.array(
            [naive.landing_field(B, *one, direction) for one in zip(x, g, penalty, strict=True)]
        )
        scale = (
            norm(g) * norm(x) ** 2 * (100.0 if direction in ("psi-br", "natural") else 1.0)
            + penalty * norm(x) ** 3
            + norm(g)
        )
        found = there.landing(x, g, penalty, direction)
        assert np.all(norm(found - expected) <= 1e-11 * scale)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(there.landing(x, g, penalty, direction, B @ x), found)
        relative = np.array(
            [naive.DIRECTIONS[direction](B, *one) for one in zip(x, g, strict=True)]
        )
        assert np.all(norm(there.relative_gradient(x, g, direction) - relative) <= 1e-11 * scale)
        if direction == "natural":
            field, image = there.natural_landing(x, g, penalty)
            np.testing.assert_array_equal(field, found)
            np.testing.assert_allclose(image, B @ field, rtol=0, atol=1e-12 * np.abs(image).max())


def test_products_alone_make_the_field() -> None:
    there, B = manifold((6, 3))
    x, g, penalty = near(there, 0.2), gaussian((6, 3), seed=3), np.linspace(0.5, 3.0, N)
    same = there.landing_from_products(x, g, B @ x, (B @ x).copy(), penalty)
    np.testing.assert_allclose(same, there.landing(x, g, penalty), rtol=1e-12, atol=1e-13)
    C = matrix(6, 10.0, seed=8)
    expected = [naive.sampled_field(B, C, *one) for one in zip(x, g, penalty, strict=True)]
    np.testing.assert_allclose(
        there.landing_from_products(x, g, B @ x, C @ x, penalty), expected, rtol=1e-11, atol=1e-12
    )


def test_three_independent_draws_are_unbiased_and_fewer_are_not() -> None:
    """The mean over all triples of single samples is the field of the means; with shared samples it
    is another."""
    rng = np.random.default_rng(2)
    samples, n, p, omega = 5, 4, 2, np.array([0.8])
    C, D = rng.standard_normal((samples, n)), rng.standard_normal((samples, n))
    covariance = SampleCovariance(D, 0.05)
    there = GeneralizedStiefel(covariance, p)
    x = near(there, 0.1)[:1]
    gradients = [-np.outer(c, c) @ x for c in C]
    products = [covariance.product_on(x, np.array([[i]])) for i in range(samples)]
    whole = there.landing(x, np.mean(gradients, axis=0), omega)

    def mean(triples: Any) -> Array:
        fields = [
            there.landing_from_products(x, gradients[i], products[j], products[k], omega)
            for i, j, k in triples
        ]
        average: Array = np.mean(fields, axis=0)
        return average

    indices, pairs = range(samples), [*every_choice(range(samples), repeat=2)]
    np.testing.assert_allclose(mean(every_choice(indices, repeat=3)), whole, rtol=1e-12, atol=1e-12)
    for shared in (
        [(i, i, k) for i, k in pairs],
        [(i, k, i) for i, k in pairs],
        [(i, k, k) for i, k in pairs],
    ):
        assert norm(mean(shared) - whole)[0] > 0.05 * norm(whole)[0]
    assert norm(mean([(i, i, i) for i in indices]) - whole)[0] > 0.05 * norm(whole)[0]


@shapes
def test_multiplier_norm(shape: tuple[int, int]) -> None:
    there, B = manifold(shape)
    x, g = gaussian(shape), gaussian(shape, seed=3)
    expected = np.array(
        [np.linalg.norm(naive.sym(one.T @ other), ord=2) for one, other in zip(x, g, strict=True)]
    )
    np.testing.assert_allclose(
        there.multiplier_norm(x, g), np.linalg.eigvalsh(B)[-1] * expected, rtol=1e-11
    )
    np.testing.assert_allclose(there.multiplier_norm(x, -g, "natural"), expected, rtol=1e-11)


def test_the_landing_field_is_as_long_as_its_scale() -> None:
    """||Psi_B|| is at most 2 beta_1 ||G|| on the manifold, and that somewhere: what automatic steps are divided by."""
    there = GeneralizedStiefel(np.diag([0.1, 4.0, 0.3, 4.0]), 2)
    assert there.landing_scale() == pytest.approx(8.0)
    x, g = feasible(there, n=200), gaussian((4, 2), n=200)
    assert np.all(norm(there.relative_gradient(x, g)) <= 8.0 * norm(g))
    x, g = np.zeros((1, 4, 2)), np.zeros((1, 4, 2))
    x[0, [1, 3], [0, 1]] = 0.5
    g[0, [1, 3], [1, 0]] = 1.0, -1.0
    np.testing.assert_allclose(norm(there.relative_gradient(x, g)), 8.0 * norm(g))


# safe steps


def inside(there: GeneralizedStiefel, rng: np.random.Generator, infeasibility: Array) -> Array:
    """``(agents, n, p)``: random points with ``||x^T B x - I||_F = infeasibility``,
    ``(agents,)``."""
    p = there.shape[1]
    spread = rng.standard_normal((len(infeasibility), p))
    spread *= (infeasibility / np.sqrt((spread * spread).sum(-1)))[:, None]
    rotation, _ = np.linalg.qr(rng.standard_normal((len(infeasibility), p, p)))
    x: Array = (
        feasible(there, n=len(infeasibility))
        @ (rotation * np.sqrt(1 + spread)[:, None, :])
        @ rotation.swapaxes(-1, -2)
    )
    return x


@pytest.mark.parametrize(
    ("direction", "scale"), [*zip(get_args(Direction), (1.0, 1e-3, 300.0, 1.0), strict=True)]
)
def test_safe_steps_stay_inside(direction: Direction, scale: float) -> None:
    """From any point of the region, its border included, whatever gradient, penalty and eps; every
    part of the step as well.

    At the step itself the infeasibility is eps, and the step is at least as long as the one that
    Lemma 2.4 proves.
    """
    rng, many = np.random.default_rng(6), 1000
    B = scale * matrix(6, 50.0)
    there = GeneralizedStiefel(B, 3)
    eps = rng.uniform(0.01, 0.99, many)
    x = inside(there, rng, eps * np.minimum(rng.uniform(0.0, 1.2, many), 1.0))
    omega = 10 ** rng.uniform(-4, 4, many)
    g = 10 ** rng.uniform(-6, 6, (many, 1, 1)) * rng.standard_normal((many, 6, 3))
    field = there.landing(x, g, omega, direction)
    step = there.safe_step(x, field, omega, eps)
    assert step.min() >= 0
    for share in (rng.random(many), np.ones(many)):
        assert np.all(there.feasibility(x - (share * step)[:, None, None] * field) <= eps + 1e-12)
    np.testing.assert_allclose(
        there.feasibility(x - step[:, None, None] * field), eps, atol=1e-12, rtol=0
    )
    if direction != "natural":  # for which there is no lemma
        for i in range(0, many, 10):
            assert step[i] >= naive.lemma_2_4(B, x[i], field[i], float(omega[i]), float(eps[i])) * (
                1 - 1e-9
            )
    np.testing.assert_allclose(
        there.safe_step(x, field, omega, eps, B @ x, B @ field), step, rtol=1e-9
    )


@directions
def test_safe_steps_from_outside_come_nearer(direction: Direction) -> None:
    rng, many = np.random.default_rng(6), 1000
    there, _ = manifold((6, 3), 50.0)
    x = np.sqrt(1 + rng.uniform(0.4, 20.0, (many, 1, 1))) * feasible(there, n=many)
    g = 10 ** rng.uniform(-3, 3, (many, 1, 1)) * rng.standard_normal((many, 6, 3))
    field = there.landing(x, g, np.ones(many), direction)
    step = there.safe_step(x, field, np.ones(many), 0.5)
    assert step.min() > 0
    assert np.all(there.feasibility(x - step[:, None, None] * field) < there.feasibility(x))


def test_safe_step_where_nothing_moves() -> None:
    """At a feasible critical point the field is zero, and any step is safe: finite, so that a given
    step is the least."""
    there, _ = manifold((6, 3))
    step = there.safe_step(feasible(there), np.zeros((N, 6, 3)), np.ones(N), 0.5)
    assert np.isfinite(step).all()
    assert step.min() > 1e100


# augmented Lagrangian


@shapes
def test_augmented_gradient(shape: tuple[int, int]) -> None:
    there, B = manifold(shape)
    rng = np.random.default_rng(4)
    x, penalty = near(there, 0.1), np.linspace(0.5, 3.0, N)
    A = spectral(rng.standard_normal(shape[0]), rng)
    g = A @ x
    field = there.augmented_gradient(x, g, penalty)
    expected = [naive.augmented_gradient(B, *one) for one in zip(x, g, penalty, strict=True)]
    np.testing.assert_allclose(field, expected, atol=1e-11 * np.abs(field).max())
    np.testing.assert_array_equal(there.augmented_gradient(x, g, penalty, B @ x), field)


@shapes
def test_columns(shape: tuple[int, int]) -> None:
    there, B = manifold(shape)
    y, field = gaussian(shape), gaussian(shape, seed=3)
    x, image = there.normalized(y)
    np.testing.assert_allclose((x * (B @ x)).sum(-2), 1.0, rtol=1e-12)
    np.testing.assert_allclose(image, B @ x, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(x * np.sqrt((y * (B @ y)).sum(-2, keepdims=True)), y, rtol=1e-12)
    along = there.column_tangent(x, field)
    np.testing.assert_allclose((along * image).sum(-2), 0.0, atol=1e-12)
    np.testing.assert_allclose(there.column_tangent(x, along, image), along, atol=1e-12)


# agents


@shapes
def test_every_function_is_per_agent(shape: tuple[int, int]) -> None:
    there, _ = manifold(shape)
    x, g = near(there, 0.3), gaussian(shape, seed=3)
    x[1] *= 3.0
    v, lam = 0.1 * g, np.linspace(0.1, 30, N)

    def everything(x: Array, g: Array, v: Array, lam: Array) -> list[Array]:
        functions: list[Any] = [
            there.product,
            there.solve,
            there.feasibility,
            there.project,
            there.distance,
        ]
        pairs: list[Any] = [
            there.tangent,
            there.relative_gradient,
            there.multiplier_norm,
            there.column_tangent,
        ]
        return [
            *(f(x) for f in functions),
            *(f(x, g) for f in pairs),
            *there.natural_gradient(x, g),
            *there.natural_landing(x, g, lam),
            *there.normalized(x),
            *(there.landing(x, g, lam, direction) for direction in get_args(Direction)),
            *(there.retract(x, v, retraction) for retraction in get_args(Retraction)),
            there.augmented_gradient(x, g, lam),
            there.safe_step(x, g, lam, 0.5),
        ]

    together = everything(x, g, v, lam)
    for part in (slice(0, 1), slice(1, 2), slice(2, 4)):
        for mine, whole in zip(
            everything(x[part], g[part], v[part], lam[part]), together, strict=True
        ):
            assert mine.tobytes() == whole[part].tobytes()


# products of sets


def pair(p: int = 2) -> tuple[Any, GeneralizedStiefel, GeneralizedStiefel]:
    first, second = (
        GeneralizedStiefel(matrix(5, 10.0), p),
        GeneralizedStiefel(3.0 * matrix(4, 40.0, seed=1), p),
    )
    return Product(first, second), first, second


def test_a_product_is_its_parts() -> None:
    both, first, second = pair()
    assert (both.shape, repr(both)) == ((9, 2), "St_B(2, 5) x St_B(2, 4)")
    x, g, v, lam = (
        gaussian((9, 2)),
        gaussian((9, 2), seed=3),
        0.1 * gaussian((9, 2), seed=4),
        np.linspace(0.1, 3.0, N),
    )
    parts = ((first, slice(0, 5)), (second, slice(5, 9)))
    np.testing.assert_array_equal(both.split(x)[1], x[:, 5:])

    def joined(function: Any, *arrays: Array) -> Array:
        pieces = [
            function(part, *[np.ascontiguousarray(array[:, rows]) for array in arrays])
            for part, rows in parts
        ]
        return np.concatenate(pieces, axis=1)

    bx = joined(lambda part, x: part.product(x), x)
    close: Any = {"rtol": 1e-12, "atol": 1e-13}
    calls: list[tuple[str, tuple[Array, ...], tuple[Any, ...]]] = [
        *((name, (x,), ()) for name in ("product", "solve", "project", "normalized")),
        *((name, (x, g), ()) for name in ("tangent", "natural_gradient", "column_tangent")),
        *((name, (x, g, bx), ()) for name in ("tangent", "natural_gradient", "column_tangent")),
        *(("landing", (x, g), (lam, name)) for name in get_args(Direction)),
        *(("relative_gradient", (x, g), (name,)) for name in get_args(Direction)),
        *(("retract", (x, v), (name,)) for name in get_args(Retraction)),
        ("augmented_gradient", (x, g), (lam,)),
        ("retract_with", (x, bx), ()),
        ("landing_from_products", (x, g, bx, v), (lam,)),
    ]
    expected: Any
    for name, arrays, more in calls:
        found = getattr(both, name)(*arrays, *more)
        if isinstance(found, tuple):
            expected = [
                joined(lambda part, *own, i=i, of=name: getattr(part, of)(*own)[i], *arrays)
                for i in range(2)
            ]
        else:
            expected = joined(
                lambda part, *own, of=name, more=more: getattr(part, of)(*own, *more), *arrays
            )
        np.testing.assert_allclose(found, expected, **close)
    np.testing.assert_allclose(
        both.landing(x, g, lam, "psi-b", bx), both.landing(x, g, lam), **close
    )
    for name in ("feasibility", "distance"):
        squares = sum(getattr(part, name)(x[:, rows]) ** 2 for part, rows in parts)
        np.testing.assert_allclose(getattr(both, name)(x), np.sqrt(squares), **close)
    largest = np.maximum(*[part.multiplier_norm(x[:, rows], g[:, rows]) for part, rows in parts])
    np.testing.assert_allclose(both.multiplier_norm(x, g), largest, **close)
    assert both.landing_scale() == max(first.landing_scale(), second.landing_scale())
    assert both.largest == max(first.largest, second.largest)
    assert both.solvable
    assert not Product(first, GeneralizedStiefel(SampleCovariance(gaussian((9, 4))[0]), 2)).solvable
    assert both.feasibility(both.random(np.random.default_rng(0))[None])[0] < 1e-12


def test_a_product_with_other_matrices() -> None:
    both, _, _ = pair()
    B, C = matrix(5, 3.0, seed=7), matrix(4, 4.0, seed=8)
    matrices = np.zeros((1, 9, 5))
    matrices[0, :5, :5], matrices[0, 5:, :4] = B, C
    x = gaussian((9, 2), n=1)
    other = both.with_matrices(matrices)
    np.testing.assert_allclose(other.product(x), scipy.linalg.block_diag(B, C) @ x, rtol=1e-12)
    assert type(other) is type(both)
    # made without a look at the eigenvalues
    assert both.with_matrices(np.full_like(matrices, np.nan)).shape == both.shape


@pytest.mark.slow
def test_safe_steps_of_a_product_stay_inside() -> None:
    """Wherever the infeasibility is divided between the parts; at the step itself it is eps in
    all."""
    both, first, second = pair()
    rng, many, eps = np.random.default_rng(6), 1000, 0.6
    h, angle = eps * np.minimum(rng.uniform(0.0, 1.2, many), 1.0), rng.uniform(0.0, np.pi / 2, many)
    x = np.concatenate(
        (inside(first, rng, h * np.cos(angle)), inside(second, rng, h * np.sin(angle))), axis=1
    )
    np.testing.assert_allclose(both.feasibility(x), h, atol=1e-9)
    omega = 10 ** rng.uniform(-3, 3, many)
    field = both.landing(
        x, 10 ** rng.uniform(-4, 4, (many, 1, 1)) * rng.standard_normal((many, 9, 2)), omega
    )
    step = both.safe_step(x, field, omega, eps)
    assert np.all(both.feasibility(x - step[:, None, None] * field) <= eps * (1 + 1e-9))
    np.testing.assert_allclose(
        both.feasibility(x - step[:, None, None] * field), eps, atol=1e-12, rtol=0
    )


class Wide(Box):
    """A set without capabilities."""

    shape = (3, 2)


def test_a_product_can_do_what_all_its_parts_can() -> None:
    general, plain, space, box = (
        GeneralizedStiefel(matrix(5), 2),
        Stiefel(4, 2),
        Euclidean(3, 2),
        Wide(),
    )
    abilities: dict[Any, tuple[Any, ...]] = {
        protocols.ConstraintSet: (general, plain, space, box),
        protocols.Projection: (general, plain, space),
        protocols.Riemannian: (general, plain, space),
        protocols.Retractable: (general, plain, space),
        protocols.Landing: (general, plain, space),
        protocols.AugmentedLagrangian: (general, plain),
        protocols.ByProducts: (general,),
        protocols.ProductLanding: (general,),
        protocols.WithMatrices: (general,),
    }
    for one, other in every_choice((general, plain, space, box), repeat=2):
        product = Product(one, other)
        for ability, able in abilities.items():
            assert isinstance(product, ability) == (one in able and other in able), (
                product,
                ability,
            )
    x, g = gaussian((9, 2)), gaussian((9, 2), seed=3)
    mixed: Any = Product(general, plain)
    expected = np.concatenate(
        (
            general.landing(x[:, :5], g[:, :5], np.ones(N)),
            plain.landing(x[:, 5:], g[:, 5:], np.ones(N)),
        ),
        axis=1,
    )
    np.testing.assert_allclose(mixed.landing(x, g, np.ones(N)), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_projection_of_dependent_columns_is_nan(seed: int) -> None:
    """There is no nearest point; half of them are so only but for rounding."""
    draws = np.random.default_rng(seed)
    y = draws.standard_normal((6, 3))
    y[:, 2] = y[:, 0] if seed % 2 else y[:, 0] + y[:, 1]
    for B in (np.eye(6), np.cov(draws.standard_normal((6, 50)))):
        assert np.isnan(GeneralizedStiefel(B, 3).project(y[None])).all()
