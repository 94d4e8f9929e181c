"""Sparse samples: the numbers of the same samples as arrays, in every problem that keeps them, in
common units, from files and at estimators; never made dense."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.datasets import dump_svmlight_file

import decentorth as do
from decentorth import estimators, problems
from decentorth.commands.run.command import main
from decentorth.data import Columns, MatrixFile
from decentorth.problems.common.pooled_rows import HERE, Wanted, in_units, normalized, root
from decentorth.problems.common.sparse_rows import SparseRows
from decentorth.protocols import Array

COUNTS = (40, 40, 7, 30)
"""The second and the third agent have more and fewer samples than half of the columns."""
D = 20


def samples() -> list[Any]:
    """The agents' sparse samples, in several of SciPy's formats."""
    formats = ("csr", "coo", "csc", "lil")
    drawn: list[Any] = [sparse.random(m, D, 0.15, random_state=m) for m in COUNTS]
    return [a.asformat(kind) for a, kind in zip(drawn, formats, strict=True)]


def arrays(given: list[Any]) -> list[Array]:
    return [a.toarray() for a in given]


TARGETS = [np.random.default_rng(m).standard_normal((3, m)) for m in COUNTS]
PROBLEMS: dict[str, Callable[[Any], Any]] = {
    "PCA": lambda A: problems.PCA(A, 3),
    "Procrustes": lambda A: problems.Procrustes(A, TARGETS),
    "SparsePCA": lambda A: problems.SparsePCA(A, 3, 0.1),
    "L1PCA": lambda A: problems.L1PCA(A, 3),
    "RobustPCA": lambda A: problems.RobustPCA(A, 3, 0.5, 0.1),
    "SparseCCA": lambda A: problems.SparseCCA(A, [2.0 * a for a in A], 3, 0.1),
    "dictionary": problems.OrthogonalDictionaryLearning,
    "subspace": lambda A: problems.RobustSubspaceRecovery(A, 17),
}


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_of_sparse_samples_has_the_numbers_of_arrays(name: str, mixed: bool) -> None:
    """Values, gradients, batches, constants, parts and the pooled problem; agents may hold arrays
    beside others that hold sparse matrices. An agent's bits are its own."""
    given = samples()
    dense = PROBLEMS[name](arrays(given))
    if mixed:
        given[1] = given[1].toarray()
    kept = PROBLEMS[name](given)
    start = dense.constraint.random
    x = np.stack([start(np.random.default_rng(agent)) for agent in range(len(COUNTS))])
    batch = np.array([[0, 1, 1, 6]] * len(COUNTS))
    measures: list[Callable[[Any], Any]] = [
        lambda p: p.value(x),
        lambda p: p.gradient(x),
        lambda p: p.gradient_on(x, batch),
        lambda p: p.without(np.array([1])).gradient(x[[0, 2, 3]]),
    ]
    for constant in ("lipschitz", "lipschitz_value", "weak_convexity"):
        if hasattr(dense, constant):
            measures.append(attrgetter(constant))
    if hasattr(dense, "pooled"):
        measures.append(lambda p: p.pooled().gradient(x[:1]))
    if hasattr(dense, "hessian"):
        measures += [lambda p: p.hessian(), lambda p: p.hessian_product(x, x)]
    if name == "subspace":
        columns = np.array([0, 2])
        measures.append(lambda p: p.partial_gradient(x, columns, p.cache(x)))
    for measure in measures:
        np.testing.assert_allclose(measure(kept), measure(dense), rtol=1e-12, atol=1e-12)
    for part in (slice(1, 3), slice(2, 3)):
        assert np.array_equal(kept.restrict(part).gradient(x[part]), kept.gradient(x)[part])


def test_the_steepest_direction_of_many_columns_is_bounded() -> None:
    """Lanczos, for both shapes: above the largest eigenvalue, and not by more than 1e-5."""
    for shape in ((300, 150), (150, 300)):
        A = SparseRows.of(sparse.random(*shape, 0.1, random_state=0)) - np.full(shape[1], 0.01)
        largest = np.linalg.svd(A.dense(), compute_uv=False)[0] ** 2
        assert largest <= A.largest() <= largest * (1.0 + 1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("wanted", [Wanted(center=True), Wanted(scale=True)])
def test_units_of_sparse_samples_are_those_of_arrays(wanted: Wanted, offset: float) -> None:
    """Also where a column is full and far from 0: samples then lose the digits of the offset, which
    means and deviations keep."""
    given = samples()
    given = [a.tolil() * (1.0 + offset) for a in given]
    for a in given:
        a[:, 3] = 1.0 + offset + np.arange(a.shape[0])[:, None] % 3
    kept, (own,) = in_units([SparseRows.of(a) for a in given], HERE, wanted)
    dense, (theirs,) = in_units(arrays(given), HERE, wanted)
    np.testing.assert_allclose(own.mean, theirs.mean, rtol=1e-14)
    np.testing.assert_allclose(own.scale, theirs.scale, rtol=1e-13)
    for a, b in zip(kept, dense, strict=True):
        np.testing.assert_allclose(a.dense(), b, rtol=0, atol=1e-14 * (1.0 + offset) * b.max())
    if offset:
        return
    ratio = [a.dense() for a in normalized(kept, HERE)]
    np.testing.assert_allclose(np.concatenate(ratio), np.concatenate(normalized(dense, HERE)))
    R, S = (root(one, HERE) for one in (kept, dense))
    np.testing.assert_allclose(R.T @ R, S.T @ S, atol=1e-12 * (S.T @ S).max())


def test_a_constant_column_is_refused() -> None:
    given = [a.tocsr() for a in samples()]
    full: Any = sparse.csr_array(np.full((max(COUNTS), 1), 3.7))
    given = [sparse.hstack((a[:, :-1], full[: a.shape[0]])) for a in given]
    with pytest.raises(ValueError, match=r"column 19 .* is constant over all samples"):
        do.solve(problems.PCA.from_sites(given, 2, scale=True), "deepca", "ring")


def table(rows: int, columns: int, density: float = 0.005) -> Any:
    """A table of which one entry in 200 is stored, with falling columns."""
    rng, stored = np.random.default_rng(0), int(density * rows * columns)
    places = rng.integers(rows, size=stored), rng.integers(columns, size=stored)
    return sparse.csr_array((rng.random(stored) / (1.0 + places[1]), places), (rows, columns))


def leading(A: Any, r: int) -> Array:
    """``(d, r)``: the components of the centred table, by ARPACK on products."""
    mean = np.asarray(A.mean(axis=0)).ravel()
    m, d = A.shape
    centred = LinearOperator(
        (m, d),
        matvec=lambda x: A @ np.ravel(x) - mean @ np.ravel(x),
        rmatvec=lambda y: A.T @ np.ravel(y) - mean * np.sum(y),
        dtype=np.float64,
    )
    basis: Array = svds(centred, r, v0=np.ones(min(m, d)))[2].T
    return basis


def distance(x: Array, basis: Array) -> float:
    return float(np.linalg.norm(x - basis @ (basis.T @ x)))


def test_a_large_table_is_never_made_dense() -> None:
    """192 MB as an array; centred and scaled, at two sites, in less than a tenth of that for the
    problem and its products."""
    A = table(4000, 6000)
    tracemalloc.start()
    (one, other), _ = in_units([SparseRows.of(A[:1500]), SparseRows.of(A[1500:])], HERE, SCALED)
    problem = problems.PCA([one, other], 5)
    x = np.repeat(problem.start(0)[None], 2, axis=0)
    problem.gradient(x)
    assert problem.lipschitz.min() > 0.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 18e6


SCALED = Wanted(scale=True)


def test_agents_find_the_components_of_sparse_samples() -> None:
    """`fit_agents`: those of ARPACK on the centred table, as arrays and as sparse matrices; the
    coordinates too. What was given stays as it was."""
    A = table(600, 200, 0.05)
    parts = [A[:200], A[200:450], A[450:]]
    before = [a.copy() for a in parts]
    found = estimators.PCA(3, tol=1e-11, random_state=0).fit_agents(parts, "complete")
    assert distance(found.components_.T, leading(A, 3)) < 1e-8
    assert all((a != b).nnz == 0 for a, b in zip(parts, before, strict=True))
    for scale in (False, True):
        pca = estimators.PCA(3, scale=scale, random_state=0)
        kept, dense = (pca.fit_agents(given, "complete") for given in (parts, arrays(parts)))
        for X in (A, A.toarray()):
            np.testing.assert_allclose(kept.transform(X), dense.transform(A.toarray()), atol=1e-7)


def test_what_cannot_be_sparse_says_what_to_give() -> None:
    A, B = samples(), samples()
    for build, wrong in (
        (lambda: problems.CCA(A, B, 2), r"A of agent 0 is sparse, .*: give its toarray\(\)"),
        (lambda: problems.ICA(A), r"Z of agent 0 is sparse, .*: give its toarray\(\)"),
        (lambda: problems.Procrustes(arrays(A), A), r"B of agent 0 is sparse"),
        (lambda: problems.PCA(A[0], 2), r"one sparse matrix .*: \[A\[part\] for part in"),
    ):
        with pytest.raises((TypeError, ValueError), match=wrong):
            build()
    A[2] = sparse.csr_array(A[2])
    A[2].data[5] = np.nan
    row, column = (int(place[5]) for place in A[2].nonzero())
    with pytest.raises(ValueError, match=rf"A of agent 2 .* entry \[{row}, {column}\] is nan"):
        problems.PCA(A, 2)
    with pytest.raises(TypeError, match=r"A of agent 0 must hold real numbers, got dtype complex"):
        problems.PCA([sparse.csr_array(np.eye(3, dtype=complex))], 2)
    with pytest.raises(ValueError, match="do not run on a device"):
        problems.PCA(samples(), 2).on(lambda a: a)


def test_almost_full_matrices_become_arrays() -> None:
    """Where these take less memory: the same bits."""
    full = [np.random.default_rng(m).standard_normal((m, 5)) for m in (8, 9)]
    one, other = problems.PCA(full, 2), problems.PCA([sparse.csr_array(a) for a in full], 2)
    x = np.repeat(one.start(0)[None], 2, axis=0)
    assert np.array_equal(one.gradient(x), other.gradient(x))


@pytest.mark.parametrize("settings", [("--center",), ("--scale",), ()])
def test_files_of_sparse_samples_give_the_run_of_arrays(
    settings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table and two sites, as SciPy saves them and as arrays; also of `from_sites`."""
    monkeypatch.chdir(tmp_path)
    A = table(120, 40, 0.05)
    A.data += 0.1
    parts = {"north": A[:50], "south": A[50:]}
    sparse.save_npz("whole.npz", A)
    np.save("whole.npy", A.toarray())
    for name, part in parts.items():
        sparse.save_npz(f"{name}.npz", part)
        np.save(f"{name}.npy", part.toarray())
    words = ("--problem", "pca", "--rank", "3", "--algorithm", "deepca", "--iterations", "30")
    found = {}
    for name, data, agents in (
        ("sparse", "whole.npz", 3),
        ("dense", "whole.npy", 3),
        ("sparse sites", "north.npz,south.npz", 2),
        ("dense sites", "north.npy,south.npy", 2),
    ):
        place = ("--agents", str(agents), "--data", data, "--out", name.replace(" ", "-"))
        assert main([*words, *settings, *place]) == 0
        found[name] = np.load(f"{name.replace(' ', '-')}/final.npz")["x"]
    for kind in ("", " sites"):
        one, other = found[f"sparse{kind}"], found[f"dense{kind}"]
        np.testing.assert_allclose(one, other, atol=1e-10)
    units: dict[str, Any] = {word[2:]: True for word in settings}
    for sites in (parts, "north.npz,south.npz"):
        problem = problems.PCA.from_sites(sites, 3, **units)
        result: Any = do.solve(problem, "deepca", "ring", iterations=30, seed=0)
        np.testing.assert_allclose(result.x["south"], found["sparse sites"][1], atol=1e-10)


def test_sizes_of_sparse_files_are_those_of_their_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run, whose stand-ins are dense, counts 12 bytes for each stored entry."""
    path = tmp_path / "x.npz"
    sparse.save_npz(path, table(4000, 6000))
    words = ["--problem", "pca", "--data", str(path), "--algorithm", "deepca", "--dry-run"]
    assert main([*words, "--agents", "4"]) == 0
    (memory,) = (line for line in capsys.readouterr().out.splitlines() if "in all" in line)
    assert "data 1.8" in memory


@pytest.mark.parametrize("name", ["a.npz", "a.mtx", "a.mtx.gz", "a.mat", "a.svmlight"])
def test_every_sparse_format_may_stay_sparse(name: str, tmp_path: Path) -> None:
    """Its size is known from the header where there is one: 1.5 numbers for an entry."""
    A: Any = table(40, 30, 0.2)
    path = tmp_path / name
    match name:
        case "a.npz":
            sparse.save_npz(path, A)
        case "a.mat":
            scipy.io.savemat(path, {"A": sparse.csc_matrix(A)})
        case "a.svmlight":
            dump_svmlight_file(sparse.csr_matrix(A), np.zeros(40), str(path))
        case _:
            scipy.io.mmwrite(tmp_path / "a.mtx", A)
            packed = gzip.compress((tmp_path / "a.mtx").read_bytes())
            (tmp_path / "a.mtx.gz").write_bytes(packed)
    file = MatrixFile(path, Columns(keep_sparse=True))
    extent = file.extent()
    assert (extent.rows, extent.columns, extent.stored) == (40, 30, 1.5 * A.nnz / 40)
    rows = file.rows([7, 3, 3])
    assert isinstance(rows, sparse.csr_array)
    np.testing.assert_allclose(rows.toarray(), A[[7, 3, 3]].toarray(), rtol=1e-15)
    assert isinstance(MatrixFile(path).rows([7]), np.ndarray)


def test_an_archive_of_another_shape_is_refused(tmp_path: Path) -> None:
    """Before its entries are read."""
    path = tmp_path / "x.npz"
    sparse.save_npz(path, table(40, 30, 0.2))
    parts = dict(np.load(path))
    np.savez(path, **parts | {"shape": np.array([40, 30, 1])})
    with pytest.raises(ValueError, match="its shape must be two numbers"):
        MatrixFile(path).extent()


def test_a_value_that_is_not_finite_is_found_in_a_sparse_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    A = table(300, 40)
    A.data[7] = np.inf
    row, column = (int(place[7]) for place in A.nonzero())
    path = tmp_path / "x.npz"
    sparse.save_npz(path, A)
    assert main(["--problem", "pca", "--data", str(path), "--agents", "2"]) == 2
    assert f"inf at row {row}, column {column}" in capsys.readouterr().err


def test_the_case_of_an_issue() -> None:
    """Two agents on a path, by a method that only multiplies: ARPACK's components."""
    A: Any = sparse.random(500, 300, 0.05, random_state=0).tocsr()
    problem = problems.PCA([A[:250], A[250:]], 3)
    result = do.solve(problem, "deepca", nx.path_graph(2), iterations=1000)
    basis = svds(A, 3, v0=np.ones(300))[2].T
    assert result.history["error"][-1] < 1e-8
    assert distance(result.x[0], basis) < 1e-8
