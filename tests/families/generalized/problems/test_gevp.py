"""Generalized eigenvalue problems, discriminant analysis and correlations of several views, against
SciPy and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_wine

from decentorth import RGD, GeneralizedLanding, solve
from decentorth.api import set_up
from decentorth.data import digits
from decentorth.problems import (
    GEVP,
    GEVPSettings,
    LDASettings,
    MAXVARSettings,
    PooledGEVP,
    pencil,
    scatters,
    subspace_distance,
)
from decentorth.protocols import Array, Eigenproblem, KnownOptimum, KnownValue, Quadratic, Smooth
from decentorth.stopping import Consensus, Error, GradientNorm
from tests.support import building

N, P = 12, 3


def matrices(n: int = N, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    A, F = rng.standard_normal((2, n, n))
    return (A + A.T) / 2, F @ F.T / n + 0.1 * np.eye(n)


def prepared(problem: GEVP) -> Any:
    found: Any = set_up(problem, RGD()).problem
    return found


@pytest.mark.parametrize("condition", [1.0, 1e4])
def test_generated_matrices_have_exactly_the_spectra_of_the_paper(condition: float) -> None:
    """Their eigenvectors are unrelated and change with the seed; normalised they are the same up to
    their norms."""
    A, B = pencil(40, condition, seed=1)
    low = 1.0 / condition
    np.testing.assert_allclose(np.linalg.eigvalsh(A), np.linspace(low, 1.0, 40), atol=1e-14)
    np.testing.assert_allclose(np.linalg.eigvalsh(B), np.geomspace(low, 1.0, 40), atol=1e-14)
    for matrix, normalised in zip(
        (A, B), pencil(40, condition, 1, frobenius_normalised=True), strict=True
    ):
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_allclose(normalised, matrix / np.linalg.norm(matrix), rtol=1e-15)
    if condition > 1.0:
        assert np.linalg.norm(A @ B - B @ A) > 0.1 * np.linalg.norm(A @ B)
        assert not np.allclose(A, pencil(40, condition, 2)[0])


@pytest.mark.parametrize(
    "kind",
    [np.asarray, scipy.sparse.csr_array, aslinearoperator],
    ids=["dense", "sparse", "operator"],
)
def test_the_closed_forms_and_the_answer_of_scipy(kind: Callable[[Array], Any]) -> None:
    A, B = matrices()
    problem = prepared(GEVP(kind(A), kind(B), P))
    x = np.random.default_rng(1).standard_normal((1, N, P))
    np.testing.assert_allclose(problem.value(x), [-0.5 * np.trace(x[0].T @ A @ x[0])], rtol=1e-13)
    np.testing.assert_allclose(problem.gradient(x)[0], -A @ x[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(problem.lipschitz, [np.linalg.norm(A, 2)], rtol=1e-12)
    np.testing.assert_allclose(problem.hessian()[0], -A, atol=1e-14)
    np.testing.assert_allclose(problem.constraint.product(x)[0], B @ x[0], rtol=1e-12, atol=1e-13)
    values, vectors = scipy.linalg.eigh(A, B)
    assert problem.error_name == "subspace_distance"
    assert problem.optimal_value == pytest.approx(-0.5 * values[-P:].sum(), rel=1e-12)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((P, P)))[0]
    assert problem.error(vectors[:, -P:] @ turn) < 1e-12
    worst = vectors[:, :P]  # orthogonal to the answer under B: each of the p angles is a right one
    np.testing.assert_allclose(problem.error(worst), np.sqrt(2 * P), rtol=1e-12)


@pytest.mark.parametrize("n", [N, 80], ids=["formed", "lanczos"])
def test_the_lipschitz_constant_of_an_operator_bounds_the_most_negative_eigenvalue_too(
    n: int,
) -> None:
    A, B = matrices(n)
    A -= 3.0 * np.linalg.norm(A, 2) * np.eye(n)
    (bound,) = GEVP(aslinearoperator(A), B, P).lipschitz
    assert np.linalg.norm(A, 2) * (1 - 1e-10) <= bound <= np.linalg.norm(A, 2) * (1 + 2e-4)


def test_the_error_is_the_distance_in_the_metric_of_B() -> None:
    """A turn by an angle t of one eigenvector towards another is 2 sin(t / 2) away, however
    stretched B is."""
    A, B = pencil(N, 1e3, 0)
    problem = prepared(GEVP(A, B, 1))
    vectors = scipy.linalg.eigh(A, B)[1]
    for t in (1e-9, 1e-3, 0.7):
        turned = np.cos(t) * vectors[:, -1:] + np.sin(t) * vectors[:, -2:-1]
        np.testing.assert_allclose(
            problem.error(turned), 2 * np.sin(t / 2), rtol=1e-4 if t < 1e-6 else 1e-10
        )


def test_a_run_that_diverges_says_so() -> None:
    """Between finite and infinite there are points without a projection: their error is NaN."""
    problem: Any = GEVP(*pencil(N, 100.0, 0), P)
    result = solve(problem, GeneralizedLanding(step_size=1e3, safe=False), iterations=100, rows=100)
    assert result.status == "diverged"
    assert np.isnan(prepared(GEVP(*pencil(N, 100.0, 0), P)).error(np.full((N, P), np.nan)))


def test_capabilities_are_those_that_hold() -> None:
    problem = GEVP(*matrices(), P)
    assert all(isinstance(problem, can) for can in (Smooth, Quadratic, KnownOptimum, KnownValue))
    # power iterations with A find the eigenvectors of A, not those of (A, B)
    assert not isinstance(problem, Eigenproblem)


def test_large_problems_have_no_answer_and_say_so() -> None:
    n = 3001
    diagonal = scipy.sparse.diags_array(np.linspace(1.0, 2.0, n)).tocsr()
    problem = prepared(GEVP(diagonal, scipy.sparse.eye_array(n).tocsr(), 2))
    assert (problem.error_name, problem.optimal_value) == ("", None)
    columns = solve(problem, GeneralizedLanding(), iterations=0).history
    assert "error" not in columns
    assert "relative_gap" not in columns


@pytest.mark.slow
def test_natural_landing_takes_about_as_many_iterations_as_rgd() -> None:
    """With Barzilai-Borwein steps and condition 1000; psi-br, whose pull to the set depends on the
    condition, takes many more."""
    problem = GEVPSettings(dimension=60, rank=6, condition=1000.0).problem(1, 0)
    natural, other = (
        GeneralizedLanding(step_size="bb", direction=one) for one in ("natural", "psi-br")
    )
    methods: tuple[Any, ...] = (RGD(step_size="bb"), natural, other)
    given: Any = {"iterations": 500, "record_every": 5, "stopping": Error(1e-5), "seed": 1}
    taken = [solve(problem, method, **given).row.iteration for method in methods]
    assert taken[1] < 1.5 * taken[0] < 0.5 * taken[2]


def test_shares_have_the_mean_A_and_differ() -> None:
    A, _ = pencil(20, 10.0, 0)
    parts = [-h for h in built(GEVPSettings(dimension=20, rank=2, condition=10.0), 4).hessian()]
    np.testing.assert_allclose(sum(parts) / 4, A, atol=1e-14)
    assert [np.linalg.matrix_rank(part, tol=1e-10) for part in parts] == [5] * 4
    # nobody is given eigenvectors of A
    assert min(np.linalg.norm(part @ A - A @ part) for part in parts) > 0.1
    np.testing.assert_allclose(
        built(GEVPSettings(dimension=20, rank=2, condition=10.0), 1).hessian()[0], -A, atol=1e-15
    )


def test_restriction_keeps_every_bit_and_pooling_the_mean() -> None:
    problem = built(GEVPSettings(dimension=20, rank=2, condition=10.0), 5)
    x = np.random.default_rng(0).standard_normal((5, 20, 2))
    part = problem.restrict(slice(2, 4))
    for of in ("value", "gradient"):
        np.testing.assert_array_equal(getattr(part, of)(x[2:4]), getattr(problem, of)(x)[2:4])
    np.testing.assert_array_equal(part.lipschitz, problem.lipschitz[2:4])
    same = np.repeat(x[:1], 5, axis=0)
    np.testing.assert_allclose(
        problem.pooled().value(x[:1]), problem.value(same).mean(keepdims=True), rtol=1e-13
    )
    np.testing.assert_allclose(
        problem.pooled().gradient(x[:1])[0], problem.gradient(same).mean(0), rtol=1e-12, atol=1e-14
    )
    with pytest.raises(ValueError, match="needs all 5 agents, but only 2"):
        part.pooled()


def built(settings: GEVPSettings, n_agents: int) -> GEVP:
    problem: GEVP = building.built(settings.problem(n_agents, 0))
    return problem


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_files(tmp_path: Path, sparse: bool) -> None:
    A, B = matrices()
    for name, matrix in (("A", A), ("B", B)):
        scipy.io.mmwrite(
            tmp_path / f"{name}.mtx",
            scipy.sparse.coo_array(matrix) if sparse else matrix,
            precision=17,
        )
    problem = built(
        GEVPSettings(matrix_a=str(tmp_path / "A.mtx"), matrix_b=str(tmp_path / "B.mtx"), rank=P), 1
    )
    np.testing.assert_allclose(problem.hessian()[0], -A, rtol=1e-12, atol=1e-14)
    assert scipy.sparse.issparse(getattr(problem.constraint.operator, "matrix", None)) == sparse


@pytest.mark.parametrize("method", ["cdadt", "generalized_drfgt"])
def test_stacks_of_both_matrices_have_the_answer_of_the_pooled_pencil(method: str) -> None:
    """Nobody knows B; single B_i are singular. The answer is that of SciPy."""
    rng = np.random.default_rng(0)
    A, B = (
        part.swapaxes(1, 2) @ part
        for part in (rng.standard_normal((5, 9, 6)), rng.standard_normal((5, 4, 6)))
    )
    values, vectors = scipy.linalg.eigh(A.mean(0), B.mean(0))
    problem: Any = PooledGEVP(A, B, 2)
    rule = GradientNorm(1e-10) & Consensus(1e-10)
    result = solve(problem, method, "ring", iterations=20_000, stopping=rule)
    assert result.converged
    assert result.problem.optimal_value == pytest.approx(-0.5 * values[-2:].sum(), rel=1e-12)
    root = np.linalg.cholesky(B.mean(0)).T
    for x in result.x:
        assert subspace_distance(root @ x, root @ vectors[:, :-3:-1]) < 1e-8
    pooled = problem.pooled()
    np.testing.assert_allclose(
        pooled.gradient(result.x[:1])[0], -A.mean(0) @ result.x[0], atol=1e-12
    )
    np.testing.assert_allclose(problem.local_diagonal(), np.einsum("ijj->ij", B), atol=1e-14)


def test_a_subclass_stays_itself_when_it_is_given_stacks() -> None:
    class Mine(GEVP):
        def __init__(self, A: Any, B: Any) -> None:
            super().__init__(list(A), B.mean(axis=0), 1)

    assert type(Mine(np.stack([np.eye(3)] * 2), np.stack([np.eye(3)] * 2))) is Mine


def test_scatters_are_the_definitions_and_add_up_to_the_covariance() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), np.array(["a", "b", "c"])[rng.integers(0, 3, 30)]
    between, within = scatters(X, y)
    expected = sum(np.cov(X[y == c].T, bias=True) * np.mean(y == c) for c in "abc")
    np.testing.assert_allclose(within, expected, atol=1e-14)
    np.testing.assert_allclose(between + within, np.cov(X.T, bias=True), atol=1e-14)
    assert np.linalg.matrix_rank(between, tol=1e-10) == 2


def test_sites_bring_their_labels(tmp_path: Path) -> None:
    """Files with another order of columns and other classes at each site: the pooled scatters,
    whatever the division."""
    X, y = load_wine(return_X_y=True)
    for site, part in (("north", slice(0, 70)), ("south", slice(70, 178))):
        frame = pd.DataFrame(X[part], columns=[f"c{i:02}" for i in range(13)]).assign(
            kind=np.array(["red", "rose", "white"])[y[part]]
        )
        frame[frame.columns[:: 1 if site == "north" else -1]].to_csv(
            tmp_path / f"{site}.csv", index=False
        )
    settings = LDASettings(data=str(tmp_path), label_column="kind")
    problem: Any = set_up(settings.problem(2, 0), "cdadt", "complete").problem
    between, within = scatters(X, y)
    ridge = 1e-2 * np.trace(within) / 13
    np.testing.assert_allclose(-problem.hessian().mean(0), between, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(
        problem.constraint.product(np.eye(13)[None])[0],
        within + ridge * np.eye(13),
        rtol=1e-10,
        atol=1e-9,
    )
    with pytest.raises(
        ValueError, match=r"labels are of one file, not of sites: give label_column='NAME'"
    ):
        set_up(
            LDASettings(data=str(tmp_path), label_column="kind", labels="y.npy").problem(2, 0),
            "cdadt",
            "complete",
        )


def test_files_with_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    settings = LDASettings(data=str(tmp_path / "X.npy"), labels=str(tmp_path / "y.npy"), ridge=0.0)
    problem: Any = set_up(settings.problem(1, 0), RGD()).problem
    assert problem.shape == (5, 2)
    np.testing.assert_allclose(-problem.hessian()[0], scatters(X, y)[0], atol=1e-15)
    with pytest.raises(ValueError, match="brings no labels: give labels, or label_column"):
        set_up(LDASettings(data=str(tmp_path / "X.npy")).problem(1, 0), RGD())
    with pytest.raises(ValueError, match="has 1797 samples, but there are 40 labels"):
        set_up(LDASettings(labels=str(tmp_path / "y.npy")).problem(1, 0), RGD())


def pooled_pencil(X: Array, views: tuple[int, ...], ridge: float) -> tuple[Array, Array]:
    """The covariance of all columns, and its blocks with the ridge."""
    C = X.T @ X / len(X)
    parts = [slice(end - d, end) for d, end in zip(views, np.cumsum(views), strict=True)]
    blocks = [
        C[part, part] + ridge * np.diagonal(C)[part].mean() * np.eye(d)
        for part, d in zip(parts, views, strict=True)
    ]
    return C, scipy.linalg.block_diag(*blocks)


def test_sites_bring_their_columns_in_any_order(tmp_path: Path) -> None:
    X, _ = digits()
    X = X[:200, 18:24]
    for site, part in (("north", slice(0, 70)), ("south", slice(70, 200))):
        frame = pd.DataFrame(X[part], columns=[*"abcdef"])
        frame[frame.columns[:: 1 if site == "north" else -1]].to_csv(
            tmp_path / f"{site}.csv", index=False
        )
    settings = MAXVARSettings(
        data=str(tmp_path), columns=("d", "a", "b"), views=(1, 2), rank=1, center=False, ridge=0.5
    )
    problem: Any = set_up(settings.problem(2, 0), "cdadt", "complete").problem
    C, D = pooled_pencil(X[:, [3, 0, 1]], (1, 2), 0.5)
    np.testing.assert_allclose(-problem.hessian().mean(0), C, rtol=1e-12)
    np.testing.assert_allclose(problem.constraint.product(np.eye(3)[None])[0], D, rtol=1e-12)
