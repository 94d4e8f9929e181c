"""The statements of paper 000 about RSSM: the averaging operator, the adaptive proximal map, the
stationarity of its runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from decentorth.problems import PCA, OrthogonalDictionaryLearning, RobustSubspaceRecovery, SparsePCA
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from tests.reference import naive, nonsmooth
from tests.reference.stationarity import (
    Averaging,
    largest_parameter,
    proximal,
    surrogate_stationarity,
)

BLOCKS = {
    "even": (np.array([0, 1]), np.array([2, 3]), np.array([4])),
    "mixed": (np.array([4, 0]), np.array([3]), np.array([1]), np.array([2])),
    "two": (np.array([0, 3]), np.array([1, 2, 4])),
}
every = pytest.mark.parametrize("name", BLOCKS)
RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((25, 6))


def feasible(n: int = 8, p: int = 5, seed: int = 0) -> Array:
    return Stiefel(n, p).random(np.random.default_rng(seed))


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@every
def test_the_averaging_operator_is_its_sum_over_pairs(name: str) -> None:
    x, xi = feasible(), drawn(8, 5)
    average = Averaging(x, BLOCKS[name])
    np.testing.assert_allclose(average(xi), nonsmooth.averaging(x, BLOCKS[name], xi), atol=1e-14)
    np.testing.assert_allclose(average.inverse(average(xi)), xi, atol=1e-13)
    np.testing.assert_allclose(average.inverse(x), x, atol=1e-14)
    assert average.norm(xi) ** 2 == pytest.approx(
        float((average.inverse(xi) * xi).sum()), rel=1e-14
    )


@every
def test_its_spectrum(name: str) -> None:
    """Lemma A.2: self-adjoint, with the eigenvalues 1 and 1/(l - 1)."""
    average = Averaging(feasible(), BLOCKS[name])
    matrix = np.array([average(unit.reshape(8, 5)).ravel() for unit in np.eye(40)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-15)
    expected = np.concatenate([np.full(many, value) for value, many in average.spectrum()])
    np.testing.assert_allclose(np.linalg.eigvalsh(matrix), np.sort(expected), atol=1e-13)
    assert sum(many for _, many in average.spectrum()) == 40


@every
def test_it_averages_partial_riemannian_subgradients(name: str) -> None:
    """Lemmas A.1 and 4.2: it commutes with the tangent projection; (21), (22) for a uniform
    pair."""
    x, g, eta, blocks = feasible(), drawn(8, 5), drawn(8, 5, seed=2), BLOCKS[name]
    average, number = Averaging(x, blocks), len(blocks)
    riemannian = naive.tangent_projection(x, g)
    np.testing.assert_allclose(
        average(riemannian), naive.tangent_projection(x, average(g)), atol=1e-14
    )
    lifted = []
    for i, j in combinations(range(number), 2):
        columns = [*blocks[i], *blocks[j]]
        whole = np.zeros((8, 5))
        whole[:, columns] = nonsmooth.partial_riemannian(x, g[:, columns], columns)
        lifted.append(whole)
    np.testing.assert_allclose(sum(lifted) / (number - 1), average(riemannian), atol=1e-14)
    inner = np.mean([(average.inverse(part) * eta).sum() for part in lifted])
    assert inner == pytest.approx(2 / number * (riemannian * eta).sum(), rel=1e-12)
    squares = np.mean([average.norm(part) ** 2 for part in lifted])
    assert squares == pytest.approx(2 / number * (riemannian * riemannian).sum(), rel=1e-12)


@pytest.mark.parametrize("lam", [0.01, 0.05, 0.2])
def test_the_proximal_map_of_a_linear_function(lam: float) -> None:
    """With two blocks A is the identity, and P(x) the polar factor of x + lam c for f = -<c, y>."""
    x, c = feasible(), 0.4 * drawn(8, 5)
    found = proximal(
        lambda y: -float((c * y).sum()), lambda y: -c, Averaging(x, BLOCKS["two"]), lam
    )
    expected = naive.polar(x + lam * c)
    assert naive.norm(found.point - expected) < 1e-6 * lam
    assert found.stationarity == pytest.approx(naive.norm(expected - x) / lam, abs=2e-6)
    envelope = -float((c * expected).sum()) + naive.norm(expected - x) ** 2 / (2 * lam)
    assert found.envelope == pytest.approx(envelope, abs=1e-13)


PROBLEMS: dict[str, Callable[[], Any]] = {
    "odl": lambda: OrthogonalDictionaryLearning([DATA]),
    "rsr": lambda: RobustSubspaceRecovery([DATA], 2),
    "sparse_pca": lambda: SparsePCA([DATA], 3, 0.3),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_proposition_46_says(name: str, seed: int) -> None:
    """(a) the envelope; (b) stationarity at P(x) and at x; and P(x) is stationary for f + ||. -
    x||^2 / (2 lam)."""
    problem = PROBLEMS[name]()
    p = problem.shape[1]
    x = feasible(6, p, seed)
    blocks = tuple(np.array_split(np.arange(p), 3))
    tau, steep = float(problem.weak_convexity[0]), float(problem.lipschitz_value[0])
    lam = 0.5 * largest_parameter(3, tau, steep)
    found = surrogate_stationarity(problem, x, blocks)
    moved = lam * found.stationarity
    value = float(problem.value(x[None])[0])
    assert naive.infeasibility(found.point) < 1e-13
    assert moved > 0.0
    assert found.envelope <= value - 0.5 * (1 / lam - tau - 5 * steep) * moved**2 + 1e-12
    riemannian = naive.norm(naive.tangent_projection(x, problem.gradient(x[None])[0]))
    assert (1 - lam * (tau + 3 * steep)) * found.stationarity <= riemannian * (1 + 1e-9)
    at_p = naive.norm(naive.tangent_projection(found.point, found.subgradient))
    assert at_p <= 2 * found.stationarity * (1 + 1e-3) + 1e-5
    assert found.residual < 1e-3 * (1 + found.stationarity)


def test_stationary_points_are_those_that_the_map_keeps() -> None:
    """Proposition 4.6 (c): eigenvectors for PCA, which are no minimisers, and a dictionary."""
    second = DATA.T @ DATA / 25
    middle = np.ascontiguousarray(np.linalg.eigh(second)[1][:, 1:4])
    blocks = tuple(np.array([j]) for j in range(3))
    f = PCA([DATA], 3)
    bound = float(np.linalg.eigvalsh(second)[-1])
    lam = 0.4 / (bound + 5 * bound * math.sqrt(3))
    found = proximal(
        lambda y: float(f.value(y[None])[0]),
        lambda y: f.gradient(y[None])[0],
        Averaging(middle, blocks),
        lam,
        weak_convexity=bound,
    )
    assert found.stationarity < 1e-6
    sparse = np.random.default_rng(3).standard_normal((200, 3)) * (
        np.random.default_rng(4).random((200, 3)) < 0.2
    )
    dictionary = feasible(3, 3)
    exact = surrogate_stationarity(
        OrthogonalDictionaryLearning([sparse @ dictionary.T]), dictionary, blocks
    )
    assert exact.stationarity < 1e-6
    near = surrogate_stationarity(
        OrthogonalDictionaryLearning([sparse @ dictionary.T]), feasible(3, 3, 5), blocks
    )
    assert near.stationarity > 1.0
