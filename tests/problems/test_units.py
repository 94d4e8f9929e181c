"""Common units of all agents' samples: exact means and deviations, the same bits on ranks, counted,
in every problem of samples."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import decentorth as do
from decentorth import problems
from decentorth.commands.run.command import main
from decentorth.data import Columns
from decentorth.problems.common.pooled_rows import HERE, Wanted, in_units
from decentorth.protocols import Array
from tests.support.mpi import run_ranks

SITES = ("north", "south", "west")
NAMES = ["age", "pulse", "weight", "glucose"]
FILES = "north.csv,south.csv,west.csv"


def samples(scales: Any, offset: float = 0.0) -> list[Array]:
    rng = np.random.default_rng(3)
    d = len(scales)
    return [
        offset + (rng.standard_normal((m, d)) + rng.standard_normal(d)) * scales
        for m in (30, 45, 25)
    ]


def exactly(column: Array) -> tuple[Array, float, float]:
    """A column in common units, its mean and its deviation, in fractions until they are rounded
    once."""
    cells = [Fraction(cell) for cell in column.tolist()]
    mean = sum(cells, Fraction()) / len(cells)
    around = [cell - mean for cell in cells]
    variance = sum((cell * cell for cell in around), Fraction()) / len(cells)
    root = Fraction(float(variance) ** 0.5)
    root = (root + variance / root) / 2  # Newton: 30 digits
    return np.array([float(cell / root) for cell in around]), float(mean), float(root)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_are_those_of_exact_arithmetic(scale: float, offset: float) -> None:
    A = samples([scale], offset)
    found, (own,) = in_units(A, HERE, SCALED)
    column, mean, deviation = exactly(np.concatenate(A)[:, 0])
    np.testing.assert_allclose(np.concatenate(found)[:, 0], column, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose((own.mean[0], own.scale[0]), (mean, deviation), rtol=1e-14)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1e156, "has cells above 1e+60, and fourth powers are computed: divide it by one num"),
        (1e306, "has cells above 1e+60, and fourth powers are computed: divide it by one num"),
        (1e-160, "varies by less than 1e-60, and fourth powers are computed: multiply it by one n"),
        (1e-310, "varies by less than 1e-60, and fourth powers are computed: multiply it by one n"),
    ],
)
@pytest.mark.parametrize("spread", ["one site", "all sites"])
def test_columns_without_squares_are_named(size: float, words: str, spread: str) -> None:
    """Also where the column is large at one site alone; a small one is then small beside others."""
    A = samples([1.0, 1.0, 1.0])
    for rows in A[: 1 if spread == "one site" else 3]:
        rows[:, 1] *= size
    if size < 1.0 and spread == "one site":
        assert in_units(A, HERE, SCALED)[1][0].scale.min() > 0.1
        return
    with pytest.raises(ValueError, match="column 'pulse' ") as refused:
        in_units(A, HERE, SCALED, NAMES[:3])
    assert words in str(refused.value)


def test_missing_cells_get_the_mean_of_all_agents() -> None:
    """As pandas fills them; in common units they are exactly 0, also far from 0."""
    A = samples([1.0, 1e-3, 1e3])
    A[0][3, 1] = A[1][:20, 2] = A[1][7, 0] = np.nan
    frame = pd.DataFrame(np.concatenate(A))
    filled, (own,) = in_units(A, HERE, Wanted(missing="mean"))
    np.testing.assert_allclose(np.concatenate(filled), frame.fillna(frame.mean()), rtol=1e-13)
    assert own.filled == (1, 21, 0)
    scaled, (own,) = in_units(A, HERE, Wanted(scale=True, missing="mean"))
    np.testing.assert_allclose(own.scale, frame.fillna(frame.mean()).std(ddof=0), rtol=1e-13)
    assert all((found[np.isnan(a)] == 0.0).all() for found, a in zip(scaled, A, strict=True))


def frames(missing: bool = False) -> dict[str, Any]:
    found = {}
    for site, a in zip(SITES, samples([1e-3, 1.0, 1e3, 10.0], 50.0), strict=True):
        mixed = a @ (np.eye(4) + np.diag([3e3, 3e3, 3e-2], 1))
        found[site] = pd.DataFrame(mixed, columns=NAMES)
        found[site]["sex"] = np.where(np.arange(len(a)) % 3 == 0, "f", "m")
        if missing and site != "north":
            found[site].iloc[:3, 1] = np.nan
    return found


def scaled() -> list[Array]:
    """The samples of the sites in common units, their missing cells filled, by pandas."""
    parts = frames(missing=True)
    whole = pd.concat(parts.values())[NAMES]
    whole = whole.fillna(whole.mean())
    whole = (whole - whole.mean()) / whole.std(ddof=0)
    cuts = np.cumsum([len(part) for part in parts.values()])[:-1]
    return np.split(whole.to_numpy(), cuts)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for site, frame in frames(missing=True).items():
        frame.to_csv(tmp_path / f"{site}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SCALED = Wanted(scale=True)
UNITS = ("--missing", "mean", "--scale", "--out", "out", "--quiet", "--overwrite")
PCA = ("--problem", "pca", "--exclude", "sex", "--rank", "2", "--iterations", "60", *UNITS)


def summary(path: str = "out") -> Any:
    return json.loads((Path(path) / "summary.json").read_text(encoding="utf-8"))


CHOSEN: dict[str, tuple[str, ...]] = {
    "pca": ("--exclude", "sex", "--rank", "2"),
    "cca": (
        "--columns",
        "age,pulse",
        "--columns-y",
        "weight,glucose",
        "--ridge",
        "0",
        "--rank",
        "2",
        "--algorithm",
        "cdadt",
    ),
    "lda": ("--label-column", "sex"),
    "lda of one table": ("--label-column", "sex", "--agents", "1", "--algorithm", "rgd"),
    **dict.fromkeys(("ica", "odl"), ("--exclude", "sex")),
    **dict.fromkeys(
        ("l1_pca", "robust_pca", "rsr", "sparse_pca"), ("--exclude", "sex", "--rank", "2")
    ),
}


@pytest.mark.parametrize("problem", CHOSEN)
def test_files_in_common_units_give_the_run_of_samples_scaled_by_pandas(
    folder: Path, problem: str
) -> None:
    """Also where the defaults would leave out columns of small units, or add a ridge that depends
    on units."""
    units = [
        pd.DataFrame(a, columns=NAMES).assign(sex=f["sex"])
        for a, f in zip(scaled(), frames().values(), strict=True)
    ]
    for name, given in (("scaled", units), ("whole", frames(missing=True).values())):
        pd.concat(given).to_csv(f"{name}.csv", index=False)
    for site, frame in zip(SITES, units, strict=True):
        frame.to_csv(f"scaled-{site}.csv", index=False)
    one, other = FILES, ",".join(f"scaled-{site}.csv" for site in SITES)
    if "table" in problem:
        one, other = "whole.csv", "scaled.csv"
    words = (
        "--problem",
        problem.split()[0],
        *CHOSEN[problem],
        "--iterations",
        "5",
        "--seed",
        "0",
        *UNITS[-4:],
    )
    assert main([*words, "--data", other]) == 0
    expected = summary()["metrics"]
    assert main([*words, "--data", one, *UNITS[:3]]) == 0
    assert summary()["metrics"] == pytest.approx(expected, rel=1e-8)
    assert sum(summary()["filled"].values()) == 6
    if problem == "pca":
        assert summary()["filled"] == {"south": 3, "west": 3}
        whole = pd.concat(frames(missing=True).values())[NAMES]
        np.testing.assert_allclose(summary()["units"][0]["mean"], whole.mean(), rtol=1e-13)


SPLIT = (
    "--data",
    "whole.csv",
    "--columns",
    ",".join(NAMES),
    "--agents",
    "2",
    "--topology",
    "path",
    "--split",
    "features",
)


@pytest.mark.parametrize("missing", [False, True])
def test_split_features_are_scaled_by_their_agents(folder: Path, missing: bool) -> None:
    pd.concat(frames(missing=missing).values()).to_csv("whole.csv", index=False)
    words = [
        "--problem",
        "pca",
        "--rank",
        "2",
        "--iterations",
        "40",
        "--out",
        "out",
        "--quiet",
        "--scale",
    ]
    assert main([*words, *SPLIT, *["--missing", "mean"] * missing]) == 0
    parts = (
        scaled()
        if missing
        else in_units([f[NAMES].to_numpy() for f in frames().values()], HERE, SCALED)[0]
    )
    values = np.linalg.eigvalsh(sum(a.T @ a for a in parts) / 100.0)
    assert summary()["metrics"]["objective"] == pytest.approx(-0.5 * values[-2:].sum(), rel=1e-11)
    assert summary()["filled"] == ({"all agents": 6} if missing else {})
    assert not [row for row in summary()["sent"] if row["quantity"] == "sums of columns"]


def test_sites_in_python_are_scaled_as_files(folder: Path) -> None:
    assert do.problems.PCASettings(scale=np.True_).scale is True  # type: ignore[arg-type]  # NumPy's truth
    columns = Columns(exclude=("sex",))
    from_frames = problems.PCA.from_sites(
        frames(missing=True), 2, columns=columns, scale=True, missing="mean"
    )
    from_files = problems.PCA.from_sites(FILES, 2, columns=columns, scale=True, missing="mean")
    arrays = [frame[NAMES].to_numpy() for frame in frames(missing=True).values()]
    loaded = problems.PCA.from_loader(arrays.__getitem__, 3, 2, scale=True, missing="mean")
    runs = [
        do.solve(one, "drfgt", "path", iterations=20, seed=0)
        for one in (from_frames, from_files, loaded)
    ]
    assert len({run.iterates_sha256 for run in runs}) == 1
    assert runs[0].filled == {"south": 3, "west": 3}
    assert runs[2].filled == {"agent 1": 3, "agent 2": 3}


@pytest.mark.parametrize("graph", ["star", "directed_ring"])
def test_sums_are_counted_from_whom_to_whom(graph: str) -> None:
    """Two messages for each edge of a tree: of the graph, or of the chain of agents where edges
    have a direction or change."""
    A = samples([1.0, 2.0, 3.0]) + samples([2.0, 1.0, 1.0])[:1]
    problem = problems.PCA.from_loader(A.__getitem__, 4, 2, scale=True)
    method = (
        do.algorithms.PushPull(step_size=0.01)
        if graph == "directed_ring"
        else do.DRFGT(step_size=0.01, penalty=1.0)
    )
    result = do.solve(problem, method, graph, iterations=3, seed=0)
    rows = [row for row in result.sent() if row.quantity == "sums of columns"]
    edges = {(1, 0), (2, 0), (3, 0)} if graph == "star" else {(0, 1), (1, 2), (2, 3)}
    named = {(f"agent {i}", f"agent {j}") for i, j in edges}
    assert {(row.site, row.to) for row in rows} == named | {(j, i) for i, j in named}
    assert {row.numbers for row in rows} == {7 + (3 + 3)}
    assert sum(row.bytes for row in result.sent()) == result.row.bytes


@pytest.mark.slow
@pytest.mark.ranks
def test_ranks_find_the_same_bits_from_their_own_files(folder: Path) -> None:
    assert main(["--data", FILES, *PCA]) == 0
    for rank, site in enumerate(SITES):
        (folder / str(rank)).mkdir()
        (folder / f"{site}.csv").rename(folder / str(rank) / f"{site}.csv")
    words = [word.replace("out", str(folder / "ranks")) if word == "out" else word for word in PCA]
    job = run_ranks(3, ["-m", "tests.mpi.own_files", str(folder), "--data", FILES, *words])
    assert job.returncode == 0, job.report()
    alone, ranks = summary(), summary("ranks")
    for key in ("iterates_sha256", "units", "filled", "sent", "bytes"):
        assert ranks[key] == alone[key]


WRONG = {
    "constant": (
        ("--scale",),
        "column 'sex' is constant over all samples of all agents: leave it out, --exclude sex",
    ),
    "number": (
        ("--scale", "255"),
        "scale must be true or false, got '255': to divide all samples by one number give "
        "divide_by",
    ),
    "both": (
        ("--missing", "mean", "--drop-missing"),
        "drop_missing leaves out rows whose cells missing mean fills",
    ),
    "word": (("--missing", "median"), "missing must be one of refuse or mean, got 'median'"),
    "refused": (
        ("--columns", "age,pulse"),
        "Take the means of the columns, --missing mean, or leave out the rows",
    ),
    "empty": (
        ("--columns", "age,sex", "--missing", "mean"),
        "column 'sex' is empty at every site: leave it out",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_scaled_is_refused(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for site, frame in frames(missing=name == "refused").items():
        frame["sex"] = 0.1 + 0.2 if site == "north" else 0.3  # one bit apart
        if name == "empty":
            frame["sex"] = np.nan
        frame.to_csv(f"{site}.csv", index=False)
    words, message = WRONG[name]
    assert (
        main(["--problem", "pca", "--rank", "1", "--iterations", "2", "--data", FILES, *words]) == 2
    )
    found = capsys.readouterr().err
    assert message in found
    assert found.count("\n") == 1
