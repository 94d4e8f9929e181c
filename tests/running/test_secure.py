"""Runs by secure sums: the answers of clear sums, and nothing for a neighbour to use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth as do
from decentorth.commands.run.command import main
from decentorth.network import Network
from decentorth.problems.common.moments import unpacked
from decentorth.protocols import Array

SIZES = (30, 40, 25, 18, 60)
N = len(SIZES)
pytestmark = pytest.mark.filterwarnings("ignore:secure:UserWarning")


def tables(d: int = 6) -> list[Array]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((m, d)) * np.arange(1.0, d + 1.0) @ rng.standard_normal((d, d))
        for m in SIZES
    ]


def drawn(name: str, **settings: Any) -> Any:
    return getattr(do.problems, f"{name}Settings")(**settings).problem(N, 0)


def pca() -> Any:
    return do.problems.PCA(tables(), 2)


def heard(problem: Any, method: str, secure: bool) -> list[Array]:
    """What agent 0, an end of the path, sends to its only neighbour."""
    messages: list[Array] = []
    add = Network._add_up

    def listening(self: Network, values: Array, use: str) -> Array:
        messages.append(values[0].copy())
        return add(self, values, use)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "_add_up", listening)
        do.solve(problem, method, "path", secure=secure, iterations=40, seed=1)
    return messages


def distance(found: Array, matrix: Array) -> float:
    """The distance of a matrix from the multiples of another one, relative."""
    share = float(np.vdot(found, matrix)) / (float(np.vdot(found, found)) or 1.0)
    return float(np.linalg.norm(share * found - matrix) / np.linalg.norm(matrix))


def from_moments(messages: list[Array], C: Array) -> float:
    """The best guess of C from a message that may have its triangle anywhere."""
    size = len(C) * (len(C) + 1) // 2
    guesses = [one[at : at + size] for one in messages for at in range(len(one) - size + 1)]
    return min(distance(unpacked(guess, len(C)), C) for guess in guesses)


def from_gradients(messages: list[Array], C: Array, points: list[Array]) -> float:
    """The best least-squares guess of C from the last messages, which may have -C x anywhere, x
    the points that all agents know."""
    X, last, shape = np.hstack(points), messages[-len(points) :], points[0].shape
    found = []
    for at in range(len(last[0]) - points[0].size + 1):
        products = [one[at : at + points[0].size].reshape(shape) for one in last]
        found.append(distance(np.hstack(products) @ np.linalg.pinv(X), C))
    return min(found)


def test_a_neighbour_reads_a_covariance_from_clear_sums_and_not_from_masked_ones() -> None:
    """`direct` sends the covariance itself; a gradient is C times a point that all agents know.

    The identity, a guess without any message, is at a distance of 0.76 from this covariance.
    """
    A = tables()[0]
    C = A.T @ A
    assert from_moments(heard(pca(), "direct", secure=False), C) < 1e-12
    assert from_moments(heard(pca(), "direct", secure=True), C) > 0.5
    method, points = "rgd:step_size=1e-3", list[Array]()
    for state in do.iterate(pca(), method, "path", seed=1):
        points.append(state.x[0].copy())
        if state.k == 40:
            break
    assert from_gradients(heard(pca(), method, secure=False), C, points) < 1e-9
    assert from_gradients(heard(pca(), method, secure=True), C, points) > 0.5


def solved(problem: Any, method: str, **more: Any) -> list[do.Result]:
    """The runs by clear and by secure sums."""
    given: dict[str, Any] = {"iterations": 20, "seed": 2, "rows": 4, **more}
    return [do.solve(problem, method, "ring", secure=secure, **given) for secure in (False, True)]


@pytest.mark.parametrize(
    ("method", "made"),
    [
        ("direct", pca),
        ("block_krylov", pca),
        ("lbfgs", pca),
        ("conjugate_gradients", pca),
        ("rgd:step_size=1e-3,batch_size=20", pca),
        ("landing:step_size=1e-3", lambda: drawn("ICA")),
        ("lbfgs", lambda: drawn("MatrixCompletion")),
        ("direct", lambda: drawn("GEVP", dimension=9, rank=2)),
        ("lbfgs", lambda: drawn("GEVP", dimension=9, rank=2)),
        ("direct", lambda: drawn("CCA", rank=2)),
        ("direct", lambda: drawn("LDA", rank=2)),
        ("direct", lambda: drawn("MAXVAR", rank=2)),
    ],
)
def test_secure_runs_are_those_of_clear_sums(method: str, made: Callable[[], Any]) -> None:
    clear, secure = solved(made(), method)
    assert secure.row.iteration == clear.row.iteration
    assert np.abs(secure.x - clear.x).max() < 3e-13 * np.abs(clear.x).max()
    assert (secure.x == secure.x[:1]).all()
    again = do.solve(made(), method, "ring", secure=True, iterations=20, seed=2, rows=4)
    assert again.iterates_sha256 == secure.iterates_sha256


def site_problems() -> dict[str, Any]:
    problems = do.problems
    sites = {f"site{i}": a for i, a in enumerate(tables())}
    pairs = {name: (a[:, :3], a[:, 3:]) for name, a in sites.items()}
    grams = {name: (a.T @ a, a.T @ a / len(a) + np.eye(6)) for name, a in sites.items()}
    return {
        "pca": problems.PCA.from_sites(sites, 2, scale=True),
        "cca": problems.CCA.from_sites(pairs, 2, center=True),
        "maxvar": problems.MAXVAR.from_sites(sites, (2, 2, 2), 1, ridge=0.1),
        "gevp": problems.PooledGEVP.from_sites(grams, 2),
    }


@pytest.mark.parametrize("method", ["direct", "lbfgs"])
@pytest.mark.parametrize("name", site_problems())
def test_nothing_but_keys_and_masked_sums_leaves_a_site(name: str, method: str) -> None:
    """Set-up, rows and answer too; every message is counted, and columns of any units are right."""
    clear, secure = solved(site_problems()[name], method, answer=True)
    sent = secure.sent()
    assert {row.quantity for row in sent if row.quantity[:7] != "masked "} == {"public keys"}
    assert sum(row.bytes for row in sent) == secure.row.bytes
    if method == "direct":
        assert np.abs(secure.x - clear.x).max() < 3e-13 * np.abs(clear.x).max()


def test_products_with_features_of_a_site_are_masked_too(tmp_path: Path) -> None:
    """LOBPCG and its certificate, by exact sums alone: without masks a leaf shows D_i x_i."""
    names = [str(tmp_path / f"{name}.npy") for name in "abc"]
    for name, part in zip(names, np.split(np.vstack(tables()), 3, axis=1), strict=True):
        np.save(name, part)
    problem = do.problems.PCASettings(data=",".join(names), rank=2, scale=True).features(3, 0)
    given: dict[str, Any] = {"iterations": 15, "stopping": do.stopping.GradientNorm(1e-9)}
    clear, secure = (
        do.solve(problem, "lobpcg", "path", secure=one, **given) for one in (False, True)
    )
    assert secure.row.iteration == clear.row.iteration
    found = [do.certify(one)[0] for one in (clear, secure)]
    assert np.abs(found[1].x - found[0].x).max() < 1e-9
    kinds = {row.quantity for row in found[1].sent()}
    assert kinds == {"public keys", "masked sums over the tree", "masked rows of the history"}


def test_columns_of_very_different_units_keep_their_digits() -> None:
    """A column in units of 1e-9 beside one of 1e9: squares that differ by 36 digits."""
    units = 10.0 ** np.array([9.0, 0.0, -9.0, 3.0, -3.0, 0.0])
    sites = {f"site{i}": a * units for i, a in enumerate(tables())}
    problem = do.problems.PCA.from_sites(sites, 2, scale=True)
    clear, secure = solved(problem, "direct")
    assert np.abs(secure.x - clear.x).max() < 1e-12
    for found, expected in zip(secure.units, clear.units, strict=True):
        assert found.scale == pytest.approx(expected.scale, rel=1e-14)


def test_a_row_of_a_secure_run_takes_no_sum_of_its_own() -> None:
    """Keys, sizes of value and gradient, those of products; then what clear sums take."""
    rounds = []
    for rows in (2, 11):
        clear, secure = solved(pca(), "lbfgs", iterations=10, rows=rows)
        rounds.append(secure.row.rounds)
        assert secure.row.rounds == clear.row.rounds + 3 * 4
    assert rounds[0] == rounds[1]


def test_a_resumed_run_has_new_keys_and_the_bits_and_counts_of_a_whole_one(
    tmp_path: Path,
) -> None:
    """Also where the sizes were agreed long before: they are in the checkpoint."""
    for method in ("lbfgs", "rgd:batch_size=4,step_size=0.001"):
        given: dict[str, Any] = {"record_every": 5, "secure": True}
        whole = do.solve(drawn("ICA"), method, "ring", iterations=25, **given)
        kept = do.Checkpoints(tmp_path / method.partition(":")[0], every=4)
        do.solve(drawn("ICA"), method, "ring", iterations=12, checkpoints=kept, **given)
        at = Path(kept.folder) / f"{8:09d}"
        resumed = do.solve(drawn("ICA"), method, "ring", iterations=25, resume=at, **given)
        assert resumed.iterates_sha256 == whole.iterates_sha256
        for name in (*whole.history, "rounds"):
            if name != "seconds":
                both = resumed.history[name], whole.history[name]
                assert np.array_equal(*both, equal_nan=True), name
        with pytest.raises(do.CheckpointError, match="sums is masked there and missing here"):
            do.solve(drawn("ICA"), method, "ring", iterations=25, resume=at)


def test_a_run_that_diverges_ends_as_by_clear_sums() -> None:
    clear, secure = solved(drawn("ICA"), "landing:step_size=1e3", iterations=50)
    assert (secure.status, secure.row.iteration) == (clear.status, clear.row.iteration)
    assert secure.status == "diverged"


@pytest.mark.parametrize(
    ("method", "n", "words"),
    [
        ("drfgt", 5, "secure sums are for methods by exact sums, and DRFGT sends points to neighbours: "
         "take direct, block_krylov, lbfgs"),
        ("lbfgs", 65, "secure sums are for at most 64 agents, as each has a mask with every other "
         "one, and this run has 65"),
        ("lobpcg", 5, "LOBPCG needs SplitFeatures of its problem"),
        ("lbfgs", 1, "secure hides the terms of several agents, and this run has one"),
    ],
)  # fmt: skip
def test_what_masks_cannot_hide_is_refused(method: str, n: int, words: str) -> None:
    problem = do.problems.PCA([tables()[0]] * n, 2)
    with pytest.raises((ValueError, TypeError), match=words):
        do.solve(problem, method, "ring" if n > 1 else None, secure=True, iterations=1)
    if n == 5:
        others: list[dict[str, Any]] = [{"channel": "loss:p=0.1"}, {"device": "cpu"}]
        for more in others:
            with pytest.raises(ValueError, match="sums are made on the host, and need every"):
                do.solve(problem, "lbfgs", "ring", secure=True, **more)


def test_dependent_columns_are_found_by_masked_sums() -> None:
    """Two sums of products take the place of a triangular factor of all samples."""
    sites = {f"site{i}": (a[:, [0, 1, 1]], a[:, 3:]) for i, a in enumerate(tables())}
    problem = do.problems.CCA.from_sites(sites, 1, center=True)
    clear = do.solve(problem, "direct", "ring")
    secure = do.solve(problem, "direct", "ring", secure=True)
    # up to the sign
    np.testing.assert_allclose(np.abs(secure.x), np.abs(clear.x), atol=1e-10)


@pytest.mark.filterwarnings("error")
def test_the_run_says_where_it_protects_nothing() -> None:
    with pytest.warns(UserWarning, match="protects nothing here: all agents are in one process"):
        do.solve(pca(), "direct", "ring", secure=True)
    pair = do.problems.PCA(tables()[:2], 2)
    with (
        pytest.warns(UserWarning, match="secure sums hide nothing between two agents"),
        pytest.warns(UserWarning, match="all agents are in one process"),
    ):
        do.solve(pair, "direct", "path", secure=True)


def test_the_command_line_has_secure_sums(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--problem pca --data digits --rank 2 --agents 4 --topology ring --secure".split()
    assert main([*words, "--algorithm", "direct"]) == 0
    out = capsys.readouterr().out
    assert "note        secure protects nothing here: all agents are in one process" in out
    assert main([*words, "--algorithm", "deepca"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "secure sums are for methods by exact sums, and DeEPCA sends points" in error
