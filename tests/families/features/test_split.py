"""Features split over agents: the answers of independent libraries, what is sent, and the agents'
sums."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as LibraryPCA

import decentorth as do
import topologies as tp
from decentorth.commands.run import command as run
from decentorth.estimators import CCA, PCA
from decentorth.network import Network
from decentorth.protocols import Array
from decentorth.stopping import Error, Feasibility
from tests.support.mpi import run_ranks

N, RANK, RIDGE = 7, 3, 1e-2
METHODS: tuple[Any, ...] = (do.LOBPCG(), do.TrackedLanding(), do.LOBPCG(rows_per_message=7))
W = tp.uniform_weights(tp.ring(N), self_weight=1 / 3)


Made = Callable[[], tuple[Any, Array, Array]]  # a problem, its M and its B


def parts(whole: Array, n: int = N) -> list[Array]:
    return np.array_split(whole, n, axis=1)


def draws(m: int, d: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, d)) * rng.permutation(np.geomspace(1.0, 0.2, d))


def pca() -> tuple[Any, Array, Array]:
    A = draws(30, 24, 0)
    return do.problems.SplitPCA(parts(A), RANK), A.T @ A / 30, np.eye(24)


def gevp() -> tuple[Any, Array, Array]:
    Y, Z = np.array([1.0] * 3 + [0.1] * 6)[:, None] * draws(9, 24, 1), draws(60, 24, 2)
    return (
        do.problems.SplitGEVP(parts(Y), parts(Z), RANK, RIDGE),
        Y.T @ Y,
        Z.T @ Z + RIDGE * np.eye(24),
    )


def cca() -> tuple[Any, Array, Array]:
    """Two views that share factors, the features of each with other agents than those of the
    other."""
    rng = np.random.default_rng(3)
    shared = rng.standard_normal((60, 6)) * np.array([3.0, 2.0, 1.5, 0.5, 0.3, 0.1])
    U, V = (shared @ rng.standard_normal((6, 12)) + rng.standard_normal((60, 12)) for _ in range(2))
    none = np.empty((60, 0))
    problem = do.problems.SplitCCA(
        [*parts(U, 3), *[none] * 4], [*[none] * 3, *parts(V, 4)], RANK, (RIDGE, RIDGE)
    )
    zero = np.zeros((12, 12))
    cross = U.T @ V / 60
    own = [view.T @ view / 60 + RIDGE * np.eye(12) for view in (U, V)]
    return problem, np.block([[zero, cross], [cross.T, zero]]), scipy.linalg.block_diag(*own)


PROBLEMS = {"pca": pca, "gevp": gevp, "cca": cca}


def angle(x: Array, y: Array) -> float:
    return float(np.sin(scipy.linalg.subspace_angles(x, y)).max())


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_the_answer_is_that_of_the_whole_pencil(make: Made) -> None:
    problem, M, B = make()
    values, vectors = scipy.linalg.eigh(M, B)
    result = do.solve(problem, "lobpcg", W, iterations=300, stopping=Error(1e-10))
    result, certificate = do.certify(result)
    x = result.problem.joined(result.x, result.collective)
    assert angle(x, vectors[:, -RANK:]) < 1e-8
    np.testing.assert_allclose(certificate.values, values[::-1][:RANK], rtol=1e-12)
    np.testing.assert_allclose(x.T @ B @ x, np.eye(RANK), atol=1e-13)
    assert certificate.orthonormality < 1e-13
    assert certificate.residual < 1e-8
    assert certificate.missed < 1e-10
    assert certificate.next_value <= values[-RANK - 1] * (1 + 1e-12)


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_all_agents_hold_the_same_bits_of_the_sums_and_they_do_not_drift(make: Made) -> None:
    problem = make()[0]
    state = do.solve(problem, "lobpcg", W, iterations=40).state
    for sums in (state.image, state.values):
        assert (sums == sums[0]).all()
    whole = problem.products(state.x).sum(axis=0)
    np.testing.assert_allclose(state.image[0], whole, atol=1e-12 * np.abs(whole).max())


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e59])
@pytest.mark.parametrize("rank", [3, 5, 8])
def test_dependent_samples_and_any_scale_do_no_harm(rank: int, scale: float) -> None:
    """Three samples of eight features: only three eigenvalues are not 0."""
    A = scale * np.random.default_rng(0).standard_normal((3, 8))
    result = do.solve(do.problems.SplitPCA(parts(A, 3), rank), "lobpcg", "ring", iterations=40)
    _, certificate = do.certify(result)
    values = np.linalg.eigvalsh(A.T @ A / 3)[::-1][:rank]
    np.testing.assert_allclose(certificate.values, values, atol=1e-13 * values[0])
    assert certificate.orthonormality < 1e-13
    assert certificate.residual < 1e-12 * values[0]


@pytest.mark.parametrize("make", [pca, gevp])
def test_tracked_landing_rests_at_the_answer_and_its_trackers_keep_the_sums(make: Made) -> None:
    problem = make()[0]
    result = do.solve(
        problem,
        do.TrackedLanding(),
        W,
        iterations=3000,
        stopping=Error(1e-7) & Feasibility(1e-6),
        record_every=100,
    )
    state = result.state
    image, gram = problem.products(state.x), state.x.transpose(0, 2, 1) @ (problem.ridge * state.x)
    sums = np.concatenate((image, gram), axis=1).sum(axis=0)
    np.testing.assert_allclose(state.tracker.mean(axis=0), sums, atol=1e-12 * np.abs(sums).max())
    assert result.converged


@pytest.mark.slow
def test_lobpcg_rests_when_its_columns_have_converged() -> None:
    """Digits: from iteration 17 on the first columns are exact to rounding, and the last one is not
    yet."""
    digits = load_digits().data
    problem = do.problems.SplitPCA(parts(digits - digits.mean(axis=0), 8), 5)
    history = do.solve(problem, "lobpcg", "ring", iterations=80, record_every=1).history
    assert history["error"][20:].max() < 1e-8
    assert history["error"][-1] < 1e-10


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_lobpcg_in_small_messages_is_lobpcg(make: Made) -> None:
    problem = make()[0]
    whole, pieces = (
        do.solve(problem, do.LOBPCG(rows_per_message=b), W, iterations=10) for b in (None, 7)
    )
    assert pieces.iterates_sha256 == whole.iterates_sha256
    assert pieces.row.bytes == whole.row.bytes
    k = problem.products(whole.x).shape[1]
    assert pieces.row.messages == -(-k // 7) * whole.row.messages


@pytest.mark.slow
@pytest.mark.parametrize("make", [pca, gevp])
@pytest.mark.parametrize("channel", ["loss:p=0.3", "bursts:p=0.2,length=5"])
def test_tracked_landing_is_exact_where_messages_are_lost(make: Made, channel: str) -> None:
    """What an agent did not send or hear, it keeps (repair), so that the trackers' mean stays the
    sum."""
    problem = make()[0]
    lossy = do.solve(
        problem,
        do.TrackedLanding(),
        W,
        channel=channel,
        iterations=6000,
        stopping=Error(1e-8),
        record_every=50,
    )
    assert lossy.converged


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["periodic@ring|path", "random_matching", "link_failures@ring", "random_gossip@ring"]
)
def test_tracked_landing_is_exact_where_edges_change(name: str) -> None:
    problem, M, _ = pca()
    largest = np.linalg.eigvalsh(M)[-1]
    method = do.TrackedLanding(step_size=0.1 / largest, penalty=largest / 4)
    changing = tp.sequence_from_name(name, N, 0)
    result = do.solve(
        problem, method, changing, iterations=12_000, stopping=Error(1e-8), record_every=100
    )
    assert result.converged
    if changing.period is None:  # no number of rounds is sure to reach all agents
        with pytest.raises(ValueError, match="reach"):
            do.certify(result)
        return
    certified, certificate = do.certify(result)
    x = certified.problem.joined(certified.x, certified.collective)
    np.testing.assert_allclose(x.T @ x, np.eye(RANK), atol=1e-13)
    assert certificate.orthonormality < 1e-13


def test_the_certificate_says_that_an_eigenvector_is_missing() -> None:
    problem, M, _ = pca()
    vectors = np.linalg.eigh(M)[1][:, ::-1]
    result = do.solve(problem, "lobpcg", W, iterations=1)
    wrong = np.zeros_like(result.x)
    for i, rows in enumerate(np.array_split(vectors[:, 1 : RANK + 1], N)):
        wrong[i, : len(rows)] = rows
    _, certificate = do.certify(dataclasses.replace(result, x=wrong))
    assert certificate.residual < 1e-13
    assert certificate.missed > 0.1 * certificate.values[0]


@pytest.mark.slow_cases("1000")
@pytest.mark.parametrize("features", [1000, 100_000])
def test_bytes_of_an_iteration_do_not_depend_on_the_number_of_features(features: int) -> None:
    m, n, r = 8, 4, 2
    problem = do.problems.SplitPCA(
        parts(np.random.default_rng(0).standard_normal((m, features)), n), r
    )
    ring = tp.uniform_weights(tp.ring(n), self_weight=1 / 3)
    method: Any
    for method, numbers in (
        (do.LOBPCG(), 2 * (n - 1) * (m * r + 9 * r * r)),
        (do.TrackedLanding(), 2 * n * (m * r + r * r)),
    ):
        history = do.solve(problem, method, ring, iterations=3, record_every=1).history
        assert (np.diff(history["bytes"]) == 8 * numbers).all()


@pytest.mark.parametrize(
    "graph",
    [
        tp.ring(8),
        tp.path(5),
        tp.star(6),
        tp.torus(3, 4),
        nx.random_labeled_tree(30, seed=0),
        tp.ring(2),
    ],
)
def test_sums_over_the_tree_are_exact_and_take_two_messages_for_each_edge(graph: Any) -> None:
    n = len(graph)
    network = Network(tp.metropolis_weights(graph))
    whole = np.random.default_rng(0).integers(-1000, 1000, (n, 3, 2)).astype(np.float64)
    total, ones = network.total(whole, np.ones((n, 1)))
    assert (total == whole.sum(axis=0)).all()
    assert (ones == n).all()
    assert (network.messages, network.bytes) == (2 * (n - 1), 2 * (n - 1) * 8 * 7)
    assert network.rounds <= 2 * nx.diameter(graph)
    assert network.rounds >= 2 * nx.radius(graph)
    noisy = network.total(np.random.default_rng(1).standard_normal((n, 4)))[0]
    assert (noisy == noisy[0]).all()


@pytest.mark.slow
def test_a_run_goes_on_from_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    problem = gevp()[0]
    for method in METHODS:
        whole = do.solve(problem, method, W, iterations=12)
        folder = tmp_path / str(method)
        do.solve(problem, method, W, iterations=7, checkpoints=do.Checkpoints(folder, every=5))
        assert (
            do.solve(problem, method, W, iterations=12, resume=folder).iterates_sha256
            == whole.iterates_sha256
        )


@pytest.mark.slow
def test_estimators_of_split_features_find_what_the_libraries_find() -> None:
    X = load_digits().data[:400]
    fit = PCA(4, tol=1e-10).fit_agents(parts(X, 8), "ring", split="features")
    library = LibraryPCA(4, svd_solver="full").fit(X)
    assert angle(fit.components_.T, library.components_.T) < 1e-8
    np.testing.assert_allclose(fit.explained_variance_, library.explained_variance_, rtol=1e-11)
    np.testing.assert_allclose(np.abs(fit.transform(X)), np.abs(library.transform(X)), atol=1e-4)
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((100, 3))
    views = [shared @ rng.standard_normal((3, 8)) + rng.standard_normal((100, 8)) for _ in range(2)]
    agents, estimator = (
        list(zip(parts(views[0], 4), parts(views[1], 4), strict=True)),
        partial(CCA, 2, tol=1e-10, ridge=1e-2),
    )
    split, alone = estimator().fit_agents(agents, "ring", split="features"), estimator().fit(*views)
    np.testing.assert_allclose(split.correlations_, alone.correlations_, rtol=1e-10)
    np.testing.assert_allclose(split.predict(views[0]), alone.predict(views[0]), atol=1e-7)


def test_input_that_cannot_be_split_is_refused_in_one_line() -> None:
    A = draws(30, 24, 0)
    problem = do.problems.SplitPCA(parts(A), RANK)
    refused: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: do.problems.SplitPCA([A[:10, :4], A[:, 4:]], 2),
            "same samples, row for row: A of agent 0 has 10 rows",
        ),
        (
            lambda: do.problems.SplitPCA(parts(A), 25),
            "rank must be from 1 to 24, the features of all agents, got 25",
        ),
        (
            lambda: do.problems.SplitGEVP(parts(A[:2]), parts(A[:2]), 2),
            "own features depend on each other: give a ridge",
        ),
        (
            lambda: do.problems.SplitCCA([A[:, :3]], [A[:9, 3:]], 2),
            "same samples, got 30 and 9 rows of agent 0",
        ),
        (
            lambda: do.problems.SplitCCA([A[:, :3]], [A[:, 3:]], 4),
            "the smaller view has 3 features",
        ),
        (lambda: do.solve(problem, "lobpcg", nx.empty_graph(N)), "the graph must be connected"),
        (
            lambda: do.solve(problem, "lobpcg", "directed_ring"),
            "needs an undirected graph: take ring",
        ),
        (
            lambda: do.solve(problem, "drfgt", W),
            "Algorithms that fit with their default settings: lobpcg, tracked_landing",
        ),
        (lambda: do.solve(problem, "lobpcg", W, channel="loss:p=0.1"), "LOBPCG needs exact sums"),
        (
            lambda: do.solve(problem, "lobpcg", W, x0=np.ones((4, RANK))),
            "x0 is a point that every agent has",
        ),
        (
            lambda: do.solve(problem, "lobpcg", W, stopping=do.stopping.LocalMaximum(1e-6)),
            "a local tolerance is for agents that",
        ),
        (
            lambda: PCA(2).fit_agents(parts(A), W, split=cast(Any, "columns")),
            "must be 'samples' or 'features', got 'columns'",
        ),
        (
            lambda: PCA(0.9).fit_agents(parts(A), W, split="features"),
            "a share of the variance, n_components=0.9, needs all",
        ),
        (
            lambda: do.problems.SplitPCA(cast(Any, A), 2),
            "axis=1\\) gives each of n agents its columns",
        ),
        (
            lambda: do.problems.SplitPCA(cast(Any, sparse.csr_array(A)), 2),
            "gives each of n agents its columns",
        ),
        (
            lambda: PCA(25).fit_agents(parts(A), W, split="features"),
            "n_components must be between 1 and 24",
        ),
    ]
    for call, words in refused:
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match=r"X of agent 0 is sparse, .*: give X_i.toarray\(\)"):
        PCA(2).fit_agents([sparse.csr_array(one) for one in parts(A)], W, split="features")


@pytest.mark.slow
def test_the_command_line_splits_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--problem",
        "lda",
        "--split",
        "features",
        "--agents",
        "8",
        "--rank",
        "3",
        "--iterations",
        "100",
    ]
    assert run.main([*words, "--gradient-tolerance", "1e-8", "--out", str(tmp_path / "run")]) == 0
    assert re.search(r"^certificate +\|x\^T B x - I\|", capsys.readouterr().out, re.M)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["config"]["algorithm"] == "lobpcg"
    assert summary["metrics"]["error"] < 1e-7
    assert summary["certificate"]["orthonormality"] < 1e-12
    for wrong, said in (
        (["--problem", "procrustes", "--split", "features"], "take --problem pca, lda or cca"),
        (["--problem", "pca", "--split", "features", "--agents", "65"], "cannot share 64 features"),
        (
            ["--problem", "pca", "--split", "features", "--partition", "by-label"],
            "partition divides samples",
        ),
        (["--problem", "pca", "--algorithm", "lobpcg"], "(--split features)"),
        (
            ["--problem", "pca", "--split", "features", "--start", "x.npy"],
            "leave it out with split features",
        ),
    ):
        assert run.main(wrong) == 2
        assert said in capsys.readouterr().err


SCRIPT = """
import json, sys
import numpy as np
import decentorth as do
A = np.random.default_rng(0).standard_normal((30, 24))
parts = np.array_split(A, 10, axis=1)
gevp = do.problems.SplitGEVP([one[:9] for one in parts], [one[9:] for one in parts], 3, 1e-2)
pca = do.problems.SplitPCA(parts, 3)
found = []
for problem, method in (
    (gevp, do.LOBPCG()),
    (gevp, do.LOBPCG(rows_per_message=4)),
    (gevp, do.TrackedLanding()),
    (pca, do.TrackedLanding()),
):
    result, certificate = do.certify(do.solve(problem, method, "erdos_renyi:p=0.4", iterations=15))
    found += [result.iterates_sha256, result.row.values["gradient_norm"].hex(), result.network.bytes, certificate.residual.hex()]
if result.collective.rank == 0:
    print(json.dumps(found))
"""


@pytest.mark.ranks
@pytest.mark.slow
def test_the_bits_are_the_same_on_any_number_of_ranks(tmp_path: Path) -> None:
    script = tmp_path / "split.py"
    script.write_text(SCRIPT)
    jobs = [run_ranks(ranks, [str(script)]) for ranks in (0, 2, 3, 10)]
    for job in jobs:
        assert job.returncode == 0, job.report()
    assert len({job.stdout for job in jobs}) == 1, [job.stdout for job in jobs]
