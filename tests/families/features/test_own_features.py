"""Features of the same samples in one file for each site, rows matched by a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import decentorth as do
from decentorth.commands.run.command import main
from decentorth.families.features.own_files import _bit_counts
from decentorth.protocols import Array
from tests.support.mpi import run_ranks

M = 60
NAMES = [f"c{k}" for k in range(9)]
SITES = {"a": [0, 1, 2], "b": [3, 4, 5, 6], "c": [7, 8]}
FILES = "a.csv,b.csv,c.csv"
RULE = do.stopping.GradientNorm(1e-11)


@cache
def samples() -> Array:
    rng = np.random.default_rng(0)
    kinds = np.eye(9)[labels()] * 2.0
    return (rng.standard_normal((M, 9)) + kinds) @ np.linalg.qr(rng.standard_normal((9, 9)))[0]


@cache
def labels() -> Any:
    return np.random.default_rng(1).integers(0, 3, M)


def write(name: str, columns: Sequence[int], rows: Any, renamed: Mapping[int, str]) -> None:
    """A table with some columns of some samples, in this order."""
    lines = [",".join(("id", "kind", *(NAMES[k] for k in columns)))]
    for row in rows:
        numbers = [repr(float(samples()[row, k])) for k in columns]
        key = renamed.get(int(row), f"p{row:03d}")
        lines.append(",".join((key, "xyz"[labels()[row]], *numbers)))
    Path(f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each site has its rows in an order of its own."""
    monkeypatch.chdir(tmp_path)
    for number, (name, columns) in enumerate(SITES.items()):
        write(name, columns, np.random.default_rng(number).permutation(M), {})
    return tmp_path


def solved(settings: Any) -> do.Result:
    problem = settings.features(3, 0)
    return do.solve(problem, "lobpcg", "path", iterations=400, stopping=RULE)


def joined(result: do.FinishedRun) -> Array:
    """The rows of all sites, in the order of the columns; a site's rows end where its features
    do."""
    return np.concatenate([x[: len(own)] for x, own in zip(result.x, SITES.values(), strict=True)])


def angle(found: Array, expected: Array) -> float:
    return float(scipy.linalg.subspace_angles(found, expected).max())


def test_components_are_those_of_the_table_of_all_columns() -> None:
    settings = do.problems.PCASettings(data=FILES, key="id", exclude=("kind",), rank=2, scale=True)
    result = solved(settings)
    X = samples()
    X = (X - X.mean(0)) / X.std(0)
    assert angle(joined(result), np.linalg.svd(X)[2][:2].T) < 1e-9
    assert result.error == pytest.approx(0.0, abs=1e-9)
    assert result.sites == ("a", "b", "c")
    assert sum(row.bytes for row in result.sent()) == result.row.bytes


def test_directions_are_those_of_the_table_of_all_columns() -> None:
    result = solved(do.problems.LDASettings(data=FILES, key="id", label_column="kind", ridge=0.1))
    X, kinds = samples(), labels()
    between, within = np.zeros((2, 9, 9))
    for kind in range(3):
        own = X[kinds == kind]
        away = own.mean(0) - X.mean(0)
        between += len(own) / M * np.outer(away, away)
        within += (own - own.mean(0)).T @ (own - own.mean(0)) / M
    within += 0.1 * np.trace(within) / 9 * np.eye(9)
    expected = scipy.linalg.eigh(between, within)[1][:, ::-1][:, :2]
    assert angle(joined(result), expected) < 1e-9


def test_correlations_are_those_of_the_table_of_all_columns() -> None:
    """The views are chosen by names: the site in the middle has columns of both. With x^T B x = I
    for both views together the objective is half of theirs."""
    first, second = tuple(NAMES[:5]), tuple(NAMES[5:])
    given: dict[str, Any] = {"columns": first, "columns_y": second, "rank": 2, "ridge": 0.01}
    result = solved(do.problems.CCASettings(data=FILES, key="id", scale="view", **given))
    write("whole", range(9), range(M), {})
    whole = do.problems.CCASettings(data="whole.csv", scale="view", **given).problem(1, 0)
    values = do.solve(whole, "lbfgs", iterations=500, stopping=RULE).row.values["objective"]
    assert 2.0 * result.row.values["objective"] == pytest.approx(values, rel=1e-10)


def test_without_a_key_rows_are_matched_by_their_place(folder: Path) -> None:
    for name, columns in SITES.items():
        np.savetxt(f"{name}.csv", samples()[:, columns], delimiter=",", header=name, comments="")
        lines = Path(f"{name}.csv").read_text().split("\n", 1)
        Path(f"{name}.csv").write_text(",".join(NAMES[k] for k in columns) + "\n" + lines[1])
    words = f"--problem pca --split features --data {FILES} --center --rank 2 --quiet --out out"
    assert main(words.split()) == 0
    found = do.load("out")
    X = samples() - samples().mean(0)
    assert angle(joined(found), np.linalg.svd(X)[2][:2].T) < 1e-5


@pytest.mark.ranks
def test_same_bits_where_each_rank_opens_its_own_file(folder: Path) -> None:
    names = ",".join(str(folder / f"{name}.csv") for name in SITES)
    words = f"-m decentorth.run --problem pca --split features --data {names} --key id --scale"
    hashes = set()
    for ranks in (0, 3):
        out = folder / str(ranks)
        more = ["--exclude", "kind", "--rank", "2", "--iterations", "9", "--out", str(out)]
        job = run_ranks(ranks, [*words.split(), *more, "--quiet"])
        assert job.returncode == 0, job.report()
        hashes.add((out / "final.npz").read_bytes())
    assert len(hashes) == 1


@pytest.mark.parametrize("count", [1, 3, 30])
def test_keys_that_differ_are_counted_and_not_named(count: int) -> None:
    others = {row: f"secret{row}" for row in range(count)}
    write("c", SITES["c"], range(M), others)
    settings = do.problems.PCASettings(data=FILES, key="id", exclude=("kind",), rank=2)
    with pytest.raises(ValueError, match="the keys of site c differ from those of site a") as error:
        solved(settings)
    words = str(error.value)
    number = int(words.partition("about ")[2].split()[0])
    assert abs(number - 2 * count) <= 0.3 * 2 * count
    assert f"of {M} and {M}" in words
    assert "secret" not in words
    assert "p0" not in words


def test_sums_of_bits_tell_how_many_keys_differ() -> None:
    one, other = np.arange(5000), np.arange(700, 5200)
    apart = _bit_counts(one) - _bit_counts(other) - 0.5 * (len(one) - len(other))
    assert 4.0 * np.mean(apart**2) == pytest.approx(900, rel=0.25)


@pytest.mark.parametrize(
    ("rows", "renamed", "given", "words"),
    [
        (range(M), {3: "p004"}, {}, "site c (c.csv) has 1 rows whose key in the column 'id'"),
        (range(M - 4), {}, {}, "about 4 are at one of the two alone, of 56 and 60"),
        (range(M - 4), {}, {"key": None, "exclude": ("id", "kind")},
         "site c has 56 rows, and site a has 60: give both the same samples"),
        (range(M), {}, {"key": "who"}, "site a (a.csv) lacks the column 'who'"),
        (range(M), {}, {"exclude": ("kind", "age")}, "no site has the column 'age'"),
        (range(M), {}, {"columns": ("c0", "c3"), "exclude": ()}, "site c (c.csv) lacks columns of samples"),
        (range(M), {}, {"drop_missing": True}, "drop_missing leaves out rows that other sites"),
    ],
)  # fmt: skip
def test_what_cannot_be_matched_is_refused(
    rows: Any, renamed: Mapping[int, str], given: dict[str, Any], words: str
) -> None:
    write("c", SITES["c"], rows, renamed)
    chosen: dict[str, Any] = {"key": "id", "exclude": ("kind",), **given}
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
        solved(do.problems.PCASettings(data=FILES, rank=2, **chosen))


def test_a_key_is_for_features() -> None:
    settings = do.problems.PCASettings(data=FILES, key="id", rank=2)
    with pytest.raises(ValueError, match="key matches the rows of files with features"):
        do.solve(settings.problem(3, 0), "drfgt", "path", iterations=1)


def test_labels_of_all_sites_must_agree() -> None:
    text = Path("b.csv").read_text()
    Path("b.csv").write_text(text.replace(",x,", ",y,", 1))
    settings = do.problems.LDASettings(data=FILES, key="id", label_column="kind")
    with pytest.raises(ValueError, match="the labels of site b differ from those of site a"):
        solved(settings)


def test_the_answer_of_all_features_is_refused() -> None:
    settings = do.problems.PCASettings(data=FILES, key="id", exclude=("kind",), rank=2)
    with pytest.raises(ValueError, match="answer would show every site the features of all"):
        do.solve(settings.features(3, 0), "lobpcg", "path", answer=True)
