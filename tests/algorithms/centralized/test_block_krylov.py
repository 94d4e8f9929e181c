"""Block Krylov iterations: the spaces of their formulas, exact answers in few products for one agent
and over several, and data on which a basis degenerates."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

import decentorth as do
from decentorth.api import set_up
from decentorth.protocols import Array
from tests.reference import naive


def samples(m: int, d: int, decay: float = 0.97) -> Array:
    drawn: Array = np.random.default_rng(d).standard_normal((m, d)) * decay ** np.arange(d)
    return drawn


def distance(x: Array, basis: Array) -> float:
    """The largest sine of an angle between two subspaces."""
    return float(np.linalg.norm(x - basis @ (basis.T @ x), 2))


def leading(A: Array, r: int) -> Array:
    basis: Array = np.linalg.svd(A, full_matrices=False)[2][:r].T
    return basis


@pytest.mark.parametrize("blocks", [3, 12])
def test_points_are_the_ritz_vectors_of_krylov_spaces(blocks: int) -> None:
    """With and without restarts, of one agent and of agents who add."""
    A, r = samples(90, 60), 3
    method = do.BlockKrylov(guard=2, blocks=blocks)
    for problem, W in (
        (do.problems.PCA([A], r), None),
        (do.problems.PCA(np.array_split(A, 5), r), "ring"),
    ):
        states = set_up(problem, method, W).states()
        start = next(states)
        first = start.basis[0, :5].T.copy()
        assert distance(start.x[0], first) < 1e-14
        expected = naive.block_krylov(A.T @ A / len(A), first, r, blocks, 7)
        for state, x in zip(islice(states, 7), expected, strict=True):
            turned = state.x[0] * np.sign((state.x[0] * x).sum(0))
            assert np.abs(turned - x).max() < 1e-9


@pytest.mark.parametrize(
    ("d", "r"), [(1, 1), (2, 1), (2, 2), (7, 3), (13, 3), (36, 3), (37, 3), (60, 5), (60, 60)]
)
def test_any_dimension_and_rank_gives_the_answer(d: int, r: int) -> None:
    """A space of few blocks is taken whole, in one iteration."""
    A = samples(100, d)
    problem = do.problems.PCA(np.array_split(A, 4), r)
    result = do.solve(problem, "block_krylov", "ring", iterations=60)
    assert result.converged
    assert "rounding" in result.message
    assert distance(result.x[0], leading(A, r)) < 1e-12
    if d <= 5 * (r + 4):
        assert result.row.iteration == 1


@pytest.mark.parametrize(
    ("A", "r"),
    [
        (np.random.default_rng(0).standard_normal((3, 200)), 3),
        (np.random.default_rng(0).standard_normal((1, 200)), 1),
        (samples(80, 70) * 1e-59, 4),
        (samples(80, 70) * 1e59, 4),
        (samples(80, 70, 0.7), 5),
        (np.vstack((np.eye(4, 70), 0.1 * samples(80, 70))), 4),
    ],
    ids=["fewer samples than a block", "one sample", "tiny", "huge", "steep", "fourfold"],
)
def test_a_degenerate_basis_stays_orthonormal(A: Array, r: int) -> None:
    """Also long after the answer, when no product brings anything new."""
    problem = do.problems.PCA([A], r)
    run = set_up(problem, do.BlockKrylov(blocks=5), None)
    for state in islice(run.states(), 40):
        basis = state.basis[0, : state.filled]
        assert np.abs(basis @ basis.T - np.eye(len(basis))).max() < 1e-13
    assert distance(state.x[0], leading(A, r)) < 1e-11
    assert do.solve(problem, "block_krylov").converged


def test_a_start_at_other_eigenvectors_is_left() -> None:
    A = samples(100, 60)
    x0 = np.linalg.svd(A)[2][10:13].T
    result = do.solve(do.problems.PCA([A], 3), "block_krylov", x0=x0)
    assert distance(result.x[0], leading(A, 3)) < 1e-12


def test_every_product_is_one_sum() -> None:
    """Rows take none; sums are of d x (r + 4) numbers, in ten rounds on a ring of ten."""
    parts = np.array_split(samples(100, 60), 10)
    result = do.solve(do.problems.PCA(parts, 3), "block_krylov", "ring", iterations=6)
    products = 1 + result.row.iteration
    assert result.row.gradients == products
    assert result.row.rounds == 10 * products
    assert result.row.bytes == 8 * 60 * 7 * 18 * products
    assert {row.quantity for row in result.sent()} == {"sums over the tree"}


def centred(A: Any) -> Any:
    mean = np.asarray(A.mean(axis=0)).ravel()
    return LinearOperator(
        A.shape,
        matvec=lambda x: A @ np.ravel(x) - mean @ np.ravel(x),
        rmatvec=lambda y: A.T @ np.ravel(y) - mean * np.sum(y),
        dtype=np.float64,
    )


def test_components_of_a_sparse_table_that_cannot_be_dense() -> None:
    """60,000 columns: an array would take 1.9 GB, a covariance 29 GB. Agreement with ARPACK."""
    m, d, stored = 4000, 60_000, 120_000
    rng = np.random.default_rng(0)
    columns = np.minimum((d * rng.random(stored) ** 6).astype(int), d - 1)
    data = rng.random(stored), (rng.integers(m, size=stored), columns)
    A = sparse.csr_array(data, shape=(m, d))
    sites = {"north": A[:1000], "east": A[1000:1700], "south": A[1700:]}
    problem = do.problems.PCA.from_sites(sites, 3, center=True)
    result: Any = do.solve(problem, "block_krylov", "complete", stopping=1e-9)
    assert result.converged
    basis = svds(centred(A), 3, v0=np.ones(m), tol=1e-12)[2].T
    assert distance(result.x["south"], basis) < 1e-8


def test_a_problem_without_products_is_refused() -> None:
    problem = do.problems.MatrixCompletionSettings().problem(3, 0)
    with pytest.raises(TypeError, match=r"BlockKrylov .* Eigenproblem"):
        do.solve(problem, "block_krylov", "ring")


def test_a_checkpoint_continues_with_the_same_bits(tmp_path: Path) -> None:
    """Through a restart of the basis."""
    parts = np.array_split(samples(100, 60), 5)
    method = do.BlockKrylov(guard=1, blocks=4)

    def solve(**given: Any) -> do.Result:
        return do.solve(do.problems.PCA(parts, 3), method, "ring", **given)

    whole = solve(iterations=9, checkpoints=do.Checkpoints(tmp_path / "whole"))
    solve(iterations=5, checkpoints=do.Checkpoints(tmp_path / "part", every=5))
    rest = solve(iterations=9, resume=tmp_path / "part")
    assert rest.iterates_sha256 == whole.iterates_sha256
    assert rest.row.rounds == whole.row.rounds
