"""Generalized eigenvalue problems: matrices, gradients and answers against SciPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import topologies
from decentorth import DRFGT, RGD, GeneralizedLanding, solve
from decentorth.api import set_up
from decentorth.network import SerialCommunicator
from decentorth.network.collective import AgentCollective
from decentorth.problems import GEVP, GEVPSettings, PooledGEVP, pencil, subspace_distance
from decentorth.protocols import Array, Eigenproblem, KnownOptimum, KnownValue, Quadratic, Smooth
from decentorth.stopping import Consensus, Error, GradientNorm

N, P = 12, 3


def matrices(n: int = N, seed: int = 0) -> tuple[Array, Array]:
    """An indefinite symmetric matrix and a positive definite one."""
    rng = np.random.default_rng(seed)
    A, F = rng.standard_normal((2, n, n))
    return (A + A.T) / 2, F @ F.T / n + 0.1 * np.eye(n)


def prepared(problem: GEVP) -> Any:
    """With its answer."""
    found: Any = set_up(problem, RGD()).problem
    return found


@pytest.mark.parametrize("condition", [1.0, 100.0, 1e4])
def test_generated_matrices_have_exactly_the_spectra_of_the_paper(condition: float) -> None:
    A, B = pencil(40, condition, seed=1)
    low = 1.0 / condition
    np.testing.assert_allclose(np.linalg.eigvalsh(A), np.linspace(low, 1.0, 40), atol=1e-14)
    np.testing.assert_allclose(np.linalg.eigvalsh(B), np.geomspace(low, 1.0, 40), atol=1e-14)
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_array_equal(B, B.T)


def test_frobenius_normalised_matrices_are_the_same_up_to_their_norms() -> None:
    plain, scaled = pencil(20, 100.0, 3), pencil(20, 100.0, 3, frobenius_normalised=True)
    for matrix, normalised in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(normalised, matrix / np.linalg.norm(matrix), rtol=1e-15)


def test_eigenvectors_of_the_two_matrices_are_unrelated_and_change_with_the_seed() -> None:
    A, B = pencil(30, 100.0, 0)
    assert np.linalg.norm(A @ B - B @ A) > 0.1 * np.linalg.norm(A @ B)
    assert not np.allclose(A, pencil(30, 100.0, 1)[0])


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, aslinearoperator], ids=["dense", "sparse", "operator"])
def test_value_and_gradient_are_the_closed_forms(kind: Callable[[Array], Any]) -> None:
    A, B = matrices()
    problem = GEVP(kind(A), kind(B), P)
    x = np.random.default_rng(1).standard_normal((1, N, P))
    np.testing.assert_allclose(problem.value(x), [-0.5 * np.trace(x[0].T @ A @ x[0])], rtol=1e-13)
    np.testing.assert_allclose(problem.gradient(x)[0], -A @ x[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(problem.lipschitz, [np.linalg.norm(A, 2)], rtol=1e-12)
    np.testing.assert_allclose(problem.hessian()[0], -A, atol=1e-14)
    np.testing.assert_allclose(problem.constraint.product(x)[0], B @ x[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [N, 80], ids=["formed", "lanczos"])
def test_the_lipschitz_constant_of_an_operator_bounds_the_most_negative_eigenvalue_too(n: int) -> None:
    A, B = matrices(n)
    A -= 3.0 * np.linalg.norm(A, 2) * np.eye(n)
    (bound,) = GEVP(aslinearoperator(A), B, P).lipschitz
    assert np.linalg.norm(A, 2) * (1 - 1e-10) <= bound <= np.linalg.norm(A, 2) * (1 + 2e-4)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, aslinearoperator], ids=["dense", "sparse", "operator"])
def test_the_answer_is_scipys(kind: Callable[[Array], Any]) -> None:
    A, B = matrices()
    problem = prepared(GEVP(kind(A), kind(B), P))
    values, vectors = scipy.linalg.eigh(A, B)
    best = vectors[:, -P:]
    assert problem.error_name == "subspace_distance"
    assert problem.optimal_value is not None
    np.testing.assert_allclose(problem.optimal_value, -0.5 * values[-P:].sum(), rtol=1e-12)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((P, P)))[0]
    np.testing.assert_allclose(problem.value((best @ turn)[None]), problem.optimal_value, rtol=1e-12)
    assert problem.error(best @ turn) < 1e-12
    worst = vectors[:, :P]  # orthogonal to the answer under B: each of the p angles is a right one
    np.testing.assert_allclose(problem.error(worst), np.sqrt(2 * P), rtol=1e-12)


def test_the_error_is_the_distance_in_the_metric_of_B() -> None:
    """A turn by an angle t of one eigenvector towards another is 2 sin(t / 2) away, however stretched B is."""
    A, B = pencil(N, 1e3, 0)
    problem = prepared(GEVP(A, B, 1))
    vectors = scipy.linalg.eigh(A, B)[1]
    for t in (1e-9, 1e-3, 0.7):
        turned = np.cos(t) * vectors[:, -1:] + np.sin(t) * vectors[:, -2:-1]
        np.testing.assert_allclose(problem.error(turned), 2 * np.sin(t / 2), rtol=1e-4 if t < 1e-6 else 1e-10)


def test_a_run_that_diverges_says_so() -> None:
    """Between finite and infinite there are points without a projection: their error is NaN."""
    result = solve(GEVP(*pencil(N, 100.0, 0), P), GeneralizedLanding(step_size=1e3, safe=False), iterations=100, rows=100)
    assert result.status == "diverged"
    assert np.isnan(prepared(GEVP(*pencil(N, 100.0, 0), P)).error(np.full((N, P), np.nan)))


def test_capabilities_are_those_that_hold() -> None:
    problem = GEVP(*matrices(), P)
    assert all(isinstance(problem, can) for can in (Smooth, Quadratic, KnownOptimum, KnownValue))
    assert not isinstance(problem, Eigenproblem)  # power iterations with A find the eigenvectors of A, not those of (A, B)
    with pytest.raises(ValueError, match=r"the optimum is not known: prepare\(\)"):
        problem.error(problem.start(0))


def test_large_problems_have_no_answer_and_say_so() -> None:
    n = 3001
    diagonal = scipy.sparse.diags_array(np.linspace(1.0, 2.0, n)).tocsr()
    problem = prepared(GEVP(diagonal, scipy.sparse.eye_array(n).tocsr(), 2))
    assert (problem.error_name, problem.optimal_value) == ("", None)
    columns = solve(problem, GeneralizedLanding(), iterations=0).history
    assert "error" not in columns
    assert "relative_gap" not in columns


def test_relative_gap_is_a_column_of_the_history() -> None:
    A, B = matrices()
    result = solve(GEVP(A, B, P), RGD(step_size="bb"), iterations=200, rows=20)
    least = -0.5 * scipy.linalg.eigh(A, B, eigvals_only=True)[-P:].sum()
    gap = (result.history["objective"] - least) / abs(least)
    np.testing.assert_allclose(result.history["relative_gap"], gap, atol=1e-13)
    assert gap[0] > 0.1
    assert abs(gap[-1]) < 1e-13


@pytest.mark.slow
def test_natural_landing_takes_about_as_many_iterations_as_rgd() -> None:
    """With Barzilai-Borwein steps and condition 1000; psi-br, whose pull to the set depends on the condition, takes many more."""
    problem = GEVPSettings(dimension=60, rank=6, condition=1000.0).problem(1, 0)
    natural, other = (GeneralizedLanding(step_size="bb", direction=one) for one in ("natural", "psi-br"))
    methods: tuple[Any, ...] = (RGD(step_size="bb"), natural, other)
    taken = []
    for method in methods:
        taken.append(solve(problem, method, iterations=500, record_every=5, stopping=Error(1e-5), seed=1).row.iteration)
    assert taken[1] < 1.5 * taken[0] < 0.5 * taken[2]


class TestAgents:
    def test_shares_have_the_mean_A_and_differ(self) -> None:
        A, _ = pencil(20, 10.0, 0)
        parts = [-h for h in built(GEVPSettings(dimension=20, rank=2, condition=10.0), 4).hessian()]
        np.testing.assert_allclose(sum(parts) / 4, A, atol=1e-14)
        assert [np.linalg.matrix_rank(part, tol=1e-10) for part in parts] == [5] * 4
        assert min(np.linalg.norm(part @ A - A @ part) for part in parts) > 0.1  # nobody is given eigenvectors of A
        np.testing.assert_allclose(built(GEVPSettings(dimension=20, rank=2, condition=10.0), 1).hessian()[0], -A, atol=1e-15)

    def test_restriction_keeps_every_bit_and_pooling_the_mean(self) -> None:
        problem = built(GEVPSettings(dimension=20, rank=2, condition=10.0), 5)
        x = np.random.default_rng(0).standard_normal((5, 20, 2))
        part = problem.restrict(slice(2, 4))
        for of in ("value", "gradient"):
            np.testing.assert_array_equal(getattr(part, of)(x[2:4]), getattr(problem, of)(x)[2:4])
        np.testing.assert_array_equal(part.lipschitz, problem.lipschitz[2:4])
        same = np.repeat(x[:1], 5, axis=0)
        np.testing.assert_allclose(problem.pooled().value(x[:1]), problem.value(same).mean(keepdims=True), rtol=1e-13)
        np.testing.assert_allclose(problem.pooled().gradient(x[:1])[0], problem.gradient(same).mean(0), rtol=1e-12, atol=1e-14)
        with pytest.raises(ValueError, match="needs all 5 agents, but only 2"):
            part.pooled()

    @pytest.mark.slow
    def test_drfgt_finds_the_answer_of_the_mean(self) -> None:
        problem = built(GEVPSettings(dimension=12, rank=2, condition=3.0), 4)
        W = topologies.metropolis_weights(topologies.complete(4))
        result = solve(problem, DRFGT(), W, iterations=20_000, stopping=Error(1e-8), comm="serial")
        assert result.converged
        assert result.row.values["feasibility"] < 1e-8
        assert result.row.values["objective"] == pytest.approx(result.problem.optimal_value, rel=1e-8)


def built(settings: GEVPSettings, n_agents: int) -> GEVP:
    """The whole problem, without its answer."""
    alone = AgentCollective(SerialCommunicator(), np.array([0, n_agents]))
    problem: GEVP = settings.problem(n_agents, 0).build(slice(0, n_agents), alone)
    return problem


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mtx"])
def test_files(tmp_path: Path, suffix: str, sparse: bool) -> None:
    A, B = matrices()
    for name, matrix in (("A", A), ("B", B)):
        path = tmp_path / f"{name}{suffix}"
        if sparse and suffix == ".npz":
            scipy.sparse.save_npz(path, scipy.sparse.csc_array(matrix))
        elif suffix == ".npz":
            np.savez(path, matrix)
        elif suffix == ".mtx":
            scipy.io.mmwrite(path, scipy.sparse.coo_array(matrix) if sparse else matrix)
        else:
            np.save(path, matrix)
    problem = built(GEVPSettings(matrix_a=str(tmp_path / f"A{suffix}"), matrix_b=str(tmp_path / f"B{suffix}"), rank=P), 1)
    np.testing.assert_allclose(problem.hessian()[0], -A, rtol=1e-12, atol=1e-14)
    kept = scipy.sparse.issparse(getattr(problem.constraint.operator, "matrix", None))
    assert kept == (sparse and suffix != ".npy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda A, B: GEVP(A + np.triu(np.ones_like(A)), B, P), r"A must be symmetric, .* give \(A \+ A.T\) / 2"),
        (lambda A, B: GEVP(A, A, P), "B must be positive definite; its smallest eigenvalue is -"),
        (lambda A, B: GEVP(A, B, N + 1), f"needs 1 <= p <= n .* p = {N + 1}"),
        (lambda A, B: GEVP([A, A[:5, :5]], B, P), "got 5 for A of agent 1 and 12 for B"),
        (lambda A, B: GEVPSettings(matrix_a="A.npy"), "matrix_a and matrix_b go together"),
        (lambda A, B: GEVPSettings(rank=11, dimension=10), "rank must be at most dimension, got rank 11 and dimension 10"),
        (
            lambda A, B: GEVPSettings(matrix_a="A", matrix_b="B").problem(2, 0),
            "the matrix in A is one agent's, so n_agents must be 1, got 2",
        ),
        (lambda A, B: built(GEVPSettings(dimension=5, rank=1), 6), "6 agents cannot share 5 columns of A"),
    ],
)
def test_errors(make: Callable[[Array, Array], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(*matrices())


@pytest.mark.parametrize("method", ["cdadt", "generalized_drfgt"])
def test_stacks_of_both_matrices_have_the_answer_of_the_pooled_pencil(method: str) -> None:
    """Nobody knows B; single B_i are singular. The answer is that of SciPy."""
    rng = np.random.default_rng(0)
    A, B = (part.swapaxes(1, 2) @ part for part in (rng.standard_normal((5, 9, 6)), rng.standard_normal((5, 4, 6))))
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
    np.testing.assert_allclose(pooled.gradient(result.x[:1])[0], -A.mean(0) @ result.x[0], atol=1e-12)
    np.testing.assert_allclose(problem.local_diagonal(), np.einsum("ijj->ij", B), atol=1e-14)
    with pytest.raises(ValueError, match="A and B must hold a matrix for each agent, got 5 and 3"):
        PooledGEVP(A, B[:3], 2)
    with pytest.raises(ValueError, match="B of agent 1 has order 5, that of agent 0 has 6"):
        PooledGEVP(list(A[:2]), [B[0], np.eye(5)], 2)
