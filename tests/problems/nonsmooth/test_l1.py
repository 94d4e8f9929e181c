"""Principal components with l1 norms, and a user's own nonsmooth functions: objectives, subgradients, answers that are known."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth import RSM, RSSM, solve
from decentorth.problems import L1PCA, FunctionProblem, L1PCASettings, NonsmoothFunctionProblem, SparsePCA, SparsePCASettings
from decentorth.protocols import Array, ColumnOracle, Counted, Nonsmooth, Quadratic, Recommends, Sampled, Smooth, WeaklyConvex
from decentorth.sets import Stiefel
from tests.reference import naive
from tests.support.building import built, prepared
from tests.support.marks import first_is_quick

COUNTS = (40, 2, 1, 200, 7)
N, D, R, MU = len(COUNTS), 6, 3, 0.3


def samples(seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, D)) * 1.3 ** np.arange(D) for count in COUNTS]


def gaussian(seed: int = 0, n: int = N) -> Array:
    return np.random.default_rng(seed).standard_normal((n, D, R))


def sparse_value(a: Array, x: Array) -> float:
    return float(-0.5 * np.trace(x.T @ a.T @ a @ x) / len(a) + MU * np.abs(x).sum())


PROBLEMS: dict[str, tuple[Any, Callable[[Array, Array], float], Callable[[Array, Array], Array]]] = {
    "l1_pca": (
        lambda data, **where: L1PCA(data, R, **where),
        lambda a, x: -float(np.abs(a @ x).sum()) / len(a),
        lambda a, x: -a.T @ np.sign(a @ x) / len(a),
    ),
    "sparse_pca": (
        lambda data, **where: SparsePCA(data, R, MU, **where),
        sparse_value,
        lambda a, x: -a.T @ a @ x / len(a) + MU * np.sign(x),
    ),
}
every = pytest.mark.parametrize("name", PROBLEMS)


@every
def test_values_subgradients_and_columns_are_the_formulas(name: str) -> None:
    make, value, gradient = PROBLEMS[name]
    problem, data, x = make(samples()), samples(), gaussian()
    x[:, 0, 0] = 0.0
    np.testing.assert_allclose(problem.value(x), [value(a, p) for a, p in zip(data, x, strict=True)], rtol=1e-12)
    found = problem.gradient(x)
    np.testing.assert_allclose(found, [gradient(a, p) for a, p in zip(data, x, strict=True)], atol=1e-12)
    assert found.flags.c_contiguous
    cache = problem.cache(x)
    for columns in (np.array([2]), np.array([2, 0]), np.arange(R)):
        partial = problem.partial_gradient(x, columns, cache)
        np.testing.assert_allclose(partial, found[:, :, columns], atol=1e-13)
        assert partial.flags.c_contiguous
    for capability in (Nonsmooth, ColumnOracle, Counted, Sampled):
        assert isinstance(problem, capability)
    assert not isinstance(problem, Smooth)
    assert not isinstance(problem, Quadratic)
    assert isinstance(problem, WeaklyConvex) == isinstance(problem, Recommends) == (name == "sparse_pca")
    assert problem.nonsmooth


def test_one_is_weakly_convex_and_the_other_concave() -> None:
    """f(y) >= f(x) + <G(x), y - x> - tau/2 ||y - x||^2 with tau = lambda_max(C); and f(y) <= f(x) + <G(x), y - x>."""
    sparse, concave = SparsePCA(samples(), R, MU), L1PCA(samples(), R)
    np.testing.assert_allclose(sparse.weak_convexity, [np.linalg.eigvalsh(a.T @ a / len(a))[-1] for a in samples()], rtol=1e-12)
    for seed in range(5):
        x, y = gaussian(seed), gaussian(seed + 10) * (np.arange(D) > seed)[:, None]
        for one, other in ((x, y), (y, x)):
            step = other - one
            bend = 0.5 * sparse.weak_convexity * (step * step).sum((-2, -1))
            assert (sparse.value(other) >= sparse.value(one) + (sparse.gradient(one) * step).sum((-2, -1)) - bend - 1e-9).all()
            assert (concave.value(other) <= concave.value(one) + (concave.gradient(one) * step).sum((-2, -1)) + 1e-9).all()
    assert (np.linalg.norm(concave.gradient(x), axis=(-2, -1)) <= concave.lipschitz_value).all()
    unit = np.stack([naive.polar(point) for point in x])
    assert (np.linalg.norm(sparse.gradient(unit), axis=(-2, -1)) <= sparse.lipschitz_value).all()


@pytest.mark.slow
def test_one_robust_component_is_the_best_of_all_signs() -> None:
    """max ||A x||_1 over unit vectors is max ||A^T b|| over signs b (Markopoulos, Karystinos, Pados 2014): all 2^9 are tried."""
    a = np.random.default_rng(3).standard_normal((10, 4)) * [3.0, 1.0, 1.0, 1.0]
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=9)))
    best = max(float(np.linalg.norm(a.T @ np.concatenate(([1.0], b)))) for b in signs)
    problem = L1PCA([a], 1)
    results = [
        solve(problem, RSM(step_size="geometric:initial=0.5,ratio=0.98"), iterations=600, seed=seed, rows=2) for seed in range(8)
    ]
    reached = [-10 * result.row.values["objective"] for result in results]
    assert max(reached) == pytest.approx(best, rel=1e-6)
    assert max(reached) < best * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", first_is_quick([RSM(), RSSM(blocks=3)]))
def test_sparse_components_are_exactly_sparse_where_that_is_best(method: Any) -> None:
    """Of a diagonal covariance the leading unit vectors are best for both terms, and f is sharp there."""
    a = np.sqrt(30.0) * np.diag([3.0, 2.5, 2.0, 1.0, 0.7, 0.3])[:, np.random.default_rng(0).permutation(6)]
    problem = prepared(SparsePCA([np.tile(a, (5, 1))], 3, 0.8))
    leading = np.argsort(-np.abs(a).max(axis=0))[:3]
    start = naive.polar(np.eye(6)[:, leading] + 0.15 * np.random.default_rng(0).standard_normal((6, 3)))
    x = solve(problem, method, x0=start, iterations=3000, rows=2).x[0]
    np.testing.assert_allclose(np.abs(x @ x.T), np.eye(6)[:, leading] @ np.eye(6)[:, leading].T, atol=2e-5)
    np.testing.assert_allclose(np.sort(np.abs(x), axis=None)[-3:], 1.0, rtol=1e-8)


@pytest.mark.parametrize("settings", [L1PCASettings(), SparsePCASettings(), SparsePCASettings(center=False, normalize=False)])
def test_digits_are_centred_and_scaled_over_all_agents(settings: Any) -> None:
    problem = prepared(built(settings.problem(7, 0)))
    assert problem.shape == (64, 5)
    assert int(problem.n_samples.sum()) == 1797
    if isinstance(settings, SparsePCASettings):
        traces = [np.trace(h) for h in -problem.smooth.hessian()]
        total = float(np.average(traces, weights=problem.n_samples))
        assert total == pytest.approx(64.0 if settings.normalize else 3866.9, rel=1e-2)
        steps = problem.subgradient_settings(1).step_size
        assert steps == f"geometric:initial={1 / problem.weak_convexity.max():.6g},ratio=0.995"
    else:
        rows = np.vstack([a for _, (stack,) in problem._rows for a in stack])
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-13)
        assert np.mean(rows**2) == pytest.approx(1.0, rel=1e-12)


def test_a_users_file(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "a.csv", np.random.default_rng(0).standard_normal((20, 4)), delimiter=",")
    for settings in (L1PCASettings, SparsePCASettings):
        assert built(settings(data=str(tmp_path / "a.csv"), rank=2).problem(3, 0)).shape == (4, 2)


# A user's own functions


def own(partial: bool = True, stacked: bool = False, n: int = N) -> NonsmoothFunctionProblem[Stiefel]:
    """The l1 norms of all agents' products, as functions."""
    data = samples()

    def value(agent: int, x: Array) -> float:
        return float(np.abs(data[agent] @ x).sum())

    def subgradient(agent: int, x: Array) -> Array:
        found: Array = data[agent].T @ np.sign(data[agent] @ x)
        return found

    def some(agent: int, x: Array, columns: Array) -> Array:
        return subgradient(agent, x[:, columns.astype(int)])

    if not stacked:
        return NonsmoothFunctionProblem(value, subgradient, Stiefel(D, R), n, partial_subgradient=some if partial else None)
    return NonsmoothFunctionProblem(
        lambda agents, x: np.array([value(i, p) for i, p in zip(agents, x, strict=True)]),
        lambda agents, x: np.stack([subgradient(i, p) for i, p in zip(agents, x, strict=True)]),
        Stiefel(D, R),
        n,
        partial_subgradient=lambda agents, x, c: np.stack([some(i, p, c) for i, p in zip(agents, x, strict=True)]),
        stacked=True,
    )


@pytest.mark.parametrize(("partial", "stacked"), [(True, False), (False, False), (True, True)])
def test_own_functions_and_their_columns(partial: bool, stacked: bool) -> None:
    problem, x = own(partial, stacked), gaussian()
    assert problem.nonsmooth
    assert isinstance(problem, ColumnOracle)
    for part, points in ((problem, x), (problem.restrict(slice(1, 4)), x[1:4])):
        for columns in (np.array([1]), np.array([2, 0])):
            found = part.partial_gradient(points, columns, part.cache(points))
            np.testing.assert_allclose(found, part.gradient(points)[:, :, columns], atol=1e-12)
            assert found.flags.c_contiguous


def test_blocks_of_own_functions_are_the_same_with_and_without_partial_ones() -> None:
    method = RSSM(blocks=3, step_size="geometric:initial=1e-2,ratio=0.99")
    runs = [solve(own(partial, n=1), method, iterations=60, rows=2).x for partial in (True, False)]
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-9)
    assert np.abs(runs[0] - solve(own(n=1), method, iterations=0, rows=2).x).max() > 0.1


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "mu": (lambda: SparsePCA(samples(), 2, -1.0), "mu must be finite and not negative, got -1.0"),
    "shape": (
        lambda: NonsmoothFunctionProblem(
            lambda i, x: 0.0, lambda i, x: x, Stiefel(3, 2), 1, partial_subgradient=lambda i, x, columns: x
        ).partial_gradient(np.ones((1, 3, 2)), np.array([0]), np.empty((1, 0))),
        "partial_subgradient of agent 0 must have shape (3, 1), got (3, 2)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name: str) -> None:
    build, words = BAD[name]
    with pytest.raises(ValueError, match=re.escape(words)):
        build()


def test_functions_must_be_functions() -> None:
    f: Any = lambda agent, x: 0.0  # noqa: E731  # a name for what is passed twice
    with pytest.raises(TypeError, match="subgradient must be a function, got int"):
        NonsmoothFunctionProblem(f, 3, Stiefel(3, 2), 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="partial_subgradient must be a function, got int"):
        NonsmoothFunctionProblem(f, f, Stiefel(3, 2), 1, partial_subgradient=3)  # type: ignore[arg-type]
    assert not FunctionProblem(f, f, Stiefel(3, 2), 1).nonsmooth
