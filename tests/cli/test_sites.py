"""One file for each agent: the answer of all rows in one place, whoever opens which file, and
errors that name site and column."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import scipy.linalg
from numpy.lib import format as npy

import decentorth as do
from decentorth.commands.run.command import main
from decentorth.data import Columns
from decentorth.data.sites import site_files, site_names
from decentorth.lab.plot.command import read_configuration
from decentorth.lab.plot.saved_graph import run_graph
from tests.support.mpi import run_ranks

NAMES = ("age", "pulse", "weight", "glucose")
ORDERS = {"north": (0, 1, 2, 3), "south": (3, 1, 0, 2), "west": (0, 2, 1, 3)}
GROUPS = ("Ann", "Bo", "Cy")
FILES = "north.csv,south.csv,west.csv"
CHOSEN = ("--exclude", "id,name", "--drop-missing")


def rows(site: str) -> Any:
    number = sorted(ORDERS).index(site)
    X = np.random.default_rng(number).standard_normal((20 + 10 * number, 4)) * (3.0, 2.0, 1.0, 0.5)
    return np.delete(X, 7, axis=0) if site == "west" else X


def text(site: str) -> str:
    """The table of a site, with an identifier, a name, its columns in an order of its own, and in
    the west a missing cell."""
    header, order = ["id", "name"], list(ORDERS[site])
    lines = [
        [f"{site}-{i}", GROUPS[i % 3], *map(repr, row[order].tolist())]
        for i, row in enumerate(rows(site))
    ]
    if site == "west":
        lines.insert(7, ["west-x", "Ann", "1.5", "", "2.5", "0.5"])
    return "\n".join(map(",".join, [header + [NAMES[j] for j in order], *lines])) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for site in ORDERS:
        (tmp_path / f"{site}.csv").write_text(text(site), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, problem: str = "pca") -> int:
    rank = ("--rank", "2") if problem == "pca" else ()
    return main(["--problem", problem, *rank, "--iterations", "2000", "--quiet", *words])


def summary(out: Path) -> Any:
    return json.loads((out / "summary.json").read_text(encoding="utf-8"))


def test_components_are_those_of_all_rows(folder: Path) -> None:
    assert run("--data", ".", *CHOSEN, "--gradient-tolerance", "1e-10", "--out", "out") == 0
    points = np.load(folder / "out" / "final.npz")["x"]
    _, _, directions = np.linalg.svd(np.concatenate([rows(site) for site in ORDERS]))
    answer = directions[:2].T
    for x in points:
        np.testing.assert_allclose(x @ x.T, answer @ answer.T, atol=1e-8)
    assert summary(folder / "out")["labels"] == list(ORDERS)
    assert do.load(folder / "out").sites == tuple(ORDERS)


def test_discriminant_directions_are_those_of_all_rows(folder: Path) -> None:
    words = (
        "--exclude",
        "id",
        "--label-column",
        "name",
        "--drop-missing",
        "--ridge",
        "0",
        "--algorithm",
        "cdadt",
    )
    assert (
        run("--data", FILES, *words, "--gradient-tolerance", "1e-10", "--out", "out", problem="lda")
        == 0
    )
    X = np.concatenate([rows(site) for site in ORDERS])
    classes = np.concatenate([np.arange(len(rows(site))) % 3 for site in ORDERS])
    X = X - X.mean(axis=0)
    means = np.stack([X[classes == number].mean(axis=0) for number in classes])
    answer = scipy.linalg.eigh(means.T @ means, (X - means).T @ (X - means))[1][:, -2:]
    for x in np.load(folder / "out" / "final.npz")["x"]:
        assert scipy.linalg.subspace_angles(x, answer).max() < 1e-8


def test_correlations_are_those_of_all_rows(folder: Path) -> None:
    views = (
        "--columns",
        "age,pulse",
        "--columns-y",
        "weight,glucose",
        "--drop-missing",
        "--ridge",
        "0",
    )
    words = ("--algorithm", "cdadt", "--rank", "1", "--gradient-tolerance", "1e-9", "--out", "out")
    assert run("--data", FILES, *views, *words, problem="cca") == 0
    X = np.concatenate([rows(site) for site in ORDERS])
    X = X - X.mean(axis=0)
    first, second = [np.linalg.qr(view)[0] for view in (X[:, :2], X[:, 2:])]
    expected = -np.linalg.svd(first.T @ second, compute_uv=False)[0]
    assert summary(folder / "out")["metrics"]["objective"] == pytest.approx(expected, abs=1e-8)


def test_columns_as_they_are_have_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "columns     as given: means not subtracted (--center), not scaled (--scale)"
    pca = ["--problem", "pca", "--data", FILES, *CHOSEN, "--rank", "2"]
    for flags, told in (((), True), (("--center",), False), (("--scale",), False)):
        assert main([*pca, *flags]) == 0
        assert (words in capsys.readouterr().out.splitlines()) == told
    assert main(["--problem", "pca", "--rank", "2"]) == 0
    assert "columns  " not in capsys.readouterr().out


def test_correlations_of_sites_in_python_are_those_of_centred_columns(folder: Path) -> None:
    """As on the command line, far from 0 too."""
    sites = {site: (rows(site)[:, :2] + 9.0, rows(site)[:, 2:] - 5.0) for site in ORDERS}
    result = do.solve(do.problems.CCA.from_sites(sites, 1, ridge=0.0), W="ring")
    X = np.concatenate([rows(site) for site in ORDERS])
    X = X - X.mean(axis=0)
    first, second = [np.linalg.qr(view)[0] for view in (X[:, :2], X[:, 2:])]
    expected = -np.linalg.svd(first.T @ second, compute_uv=False)[0]
    assert result.row.values["objective"] == pytest.approx(expected, abs=1e-10)
    assert "as given" not in repr(result)
    plain = do.solve(do.problems.PCA.from_sites({"a": X, "b": X}, 1), W="complete")
    assert "means not subtracted (center=True), not scaled (scale=True)" in repr(plain)


OWN = {
    "pca": "--exclude id,name --drop-missing --rank 2",
    "cca": "--columns age,pulse --columns-y weight,glucose --drop-missing --ridge 0 --algorithm cdadt "
    "--rank 1",
    "lda": "--exclude id --label-column name --drop-missing --ridge 0 --algorithm cdadt",
}
"""The flags of each problem of sites."""


def at_home(folder: Path, runs: Sequence[Sequence[str]]) -> Any:
    """The codes and the errors of runs on three ranks, each of which has a folder of its own with
    the file of its own site."""
    for rank, site in enumerate(ORDERS):
        (folder / str(rank)).mkdir(exist_ok=True)
        (folder / f"{site}.csv").rename(folder / str(rank) / f"{site}.csv")
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    job = run_ranks(3, ["-m", "tests.mpi.own_runs", str(folder)])
    assert job.returncode == 0, job.report()
    return json.loads(job.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.ranks
def test_a_rank_opens_only_its_own_file(folder: Path) -> None:
    words = {
        problem: [
            "--problem",
            problem,
            "--quiet",
            "--iterations",
            "200",
            "--data",
            FILES,
            *OWN[problem].split(),
        ]
        for problem in OWN
    }
    for problem in OWN:
        assert main([*words[problem], "--out", f"alone/{problem}"]) == 0
    found = at_home(folder, [[*words[problem], "--out", f"{folder}/{problem}"] for problem in OWN])
    assert found == [[[0, ""]] * 3] * len(OWN)
    for problem in OWN:
        assert (
            summary(folder / problem)["iterates_sha256"]
            == summary(folder / "alone" / problem)["iterates_sha256"]
        )


CHAIN = (("west", "north"), ("north", "south"))
"""The edges between sites, in a file whose nodes sort in another order than the files."""


@pytest.mark.ranks
def test_sites_are_joined_to_the_nodes_of_a_file_by_name(folder: Path) -> None:
    lines = [",".join(edge) for edge in CHAIN]
    (folder / "edges.csv").write_text("\n".join(["from,to", *lines]), encoding="utf-8")
    data = ",".join(f"{folder}/{name}.csv" for name in ("south", "west", "north"))
    words = ["--problem", "pca", "--rank", "2", "--quiet", "--iterations", "20", *CHOSEN]
    words += ["--data", data, "--topology", f"file:{folder}/edges.csv"]
    assert main([*words, "--out", "alone"]) == 0
    job = run_ranks(3, ["-m", "decentorth.run", *words, "--out", f"{folder}/three"])
    assert job.returncode == 0, job.report()
    for out in ("alone", "three"):
        rows = summary(folder / out)["sent"]
        assert {frozenset((row["site"], row["to"])) for row in rows} == set(map(frozenset, CHAIN))
    one, three = (summary(folder / out)["iterates_sha256"] for out in ("alone", "three"))
    assert one == three
    graph, _ = run_graph("alone", read_configuration("alone"))
    places = {name: number for number, name in enumerate(("south", "west", "north"))}
    assert {*graph.edges} == {tuple(sorted((places[a], places[b]))) for a, b in CHAIN}


def test_a_site_without_a_node_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "edges.csv").write_text("from,to\nwest,nort\nnort,south\n", encoding="utf-8")
    words = ("--data", FILES, *CHOSEN, "--topology", "file:edges.csv")
    assert run(*words) == 2
    said = capsys.readouterr().err
    assert "no node is called 'north'; did you mean 'nort'?" in said
    assert said.count("\n") == 1


def test_files_are_in_natural_order_and_give_the_names(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        np.save(tmp_path / f"site-{number}.npy", np.eye(3))
    for spec in (str(tmp_path), f"{tmp_path}/*.npy", f"{tmp_path}/site-{{agent}}.npy"):
        assert site_names(site_files(spec)) == ("site-1", "site-9", "site-10")
    assert site_names(site_files(f"{tmp_path}/site-{{agent}}.npy", 4)) == (
        "site-0",
        "site-1",
        "site-2",
        "site-3",
    )
    assert site_files(f"{tmp_path}/site-1.npy") == site_files("digits") == ()
    assert site_names(["a/b.mtx.gz", "c.npz:key", "train-images-ubyte.gz"]) == (
        "b",
        "c",
        "train-images",
    )


PLAIN = ("--exclude", "", "--drop-missing", "")
WRONG = [
    (
        ("--agents", "5"),
        "--data names 3 files, so there are 3 agents, but --agents is 5: leave it out",
    ),
    (
        ("--topology", "grid:2x2"),
        "--data names 3 files, so there are 3 agents, but the graph has 4",
    ),
    (
        ("--data", "north.csv,old/north.csv"),
        "2 sites are named 'north', after north.csv and old/north.csv",
    ),
    (("--data", "north.csv,,west.csv"), "leave one comma between two files"),
    (("--data", "none/*.csv"), "names no file"),
    (
        ("--exclude", "id"),
        "north.csv: line 2, column 'name': 'Ann' is not a number; leave such columns out, "
        "--exclude id,name, or",
    ),
    (("--exclude", "id,nme"), "no site has the column 'nme' to exclude; did you mean 'name'?"),
    (
        ("--columns", "age,gluc", "--exclude", ""),
        "site north (north.csv) lacks the column 'gluc'; did you mean 'glucose'?",
    ),
    (
        ("--label-column", "diagnosis"),
        "site north (north.csv) lacks the column 'diagnosis'; its columns are id, name, age, pulse, "
        "weight, glucose",
    ),
    (
        ("--data", "north.csv,short.csv"),
        "(short.csv) lacks the column 'weight': add it, or leave it out, --exclude id,name,weight",
    ),
    (
        ("--data", "short.csv,north.csv"),
        "site north (north.csv) has a column 'weight', and site short (short.csv) has none",
    ),
    (("--data", "north.csv,empty.csv"), "empty.csv is empty: it holds no rows"),
    (
        ("--data", "north.csv,bare.npy"),
        "site bare (bare.npy) lacks names of columns, and site north (north.csv) has",
    ),
    (
        ("--drop-missing", ""),
        "the first is nan at line 9, column 'weight'. Take the means of the columns, --missing "
        "mean, or leave",
    ),
    (
        ("--data", "bare.npy,huge.npy", *PLAIN),
        "not enough memory: the data and the agents' points would take",
    ),
    (
        ("--data", "north.csv,huge.csv", "--dry-run", "true"),
        "the data and the agents' points would take",
    ),
    (("--partition", "by-label"), "partition by-label divides one table"),
    (("--split", "features"), "drop_missing leaves out rows that other sites have: leave it out"),
]


FAULTY = [
    (
        "short.csv",
        "site short (short.csv) lacks the column 'weight': add it, or leave it out, "
        "--exclude id,name,weight",
    ),
    ("empty.csv", "empty.csv is empty: it holds no rows"),
    (
        "west.csv",
        "--exclude",
        "id",
        "north.csv: line 2, column 'name': 'Ann' is not a number; leave such columns out, "
        "--exclude id,",
    ),
    (
        "west.csv",
        "--drop-missing",
        "",
        "west.csv: 1 of the 160 values read are not finite",
    ),
    ("huge.csv", "the data and the agents' points would take "),
]
"""The file of the third of three ranks, further words, and the message."""
ON_RANKS = [
    (("--data", "north.csv,south.csv"), "3 ranks for 2 agents"),
    (("--data", "south.csv,north.csv,west.csv"), "no such file: south.csv"),
    (
        ("--data", "bare.npy,bare-2.npy,huge.npy", *PLAIN),
        "the data and the agents' points would take ",
    ),
    (
        ("--data", "synthetic", "--samples", "1000000000000", *PLAIN),
        "the data and the agents' points would take ",
    ),
]


ELSEWHERE = "the reason is on its own screen"


def spoil(folder: Path) -> None:
    """Write files that lack a column, rows, or names, and two of 10^15 bytes without content, or as
    many as a file may have."""
    lines = text("north").splitlines()
    (folder / "short.csv").write_text(
        "\n".join(",".join(line.split(",")[:4]) for line in lines), encoding="utf-8"
    )
    (folder / "empty.csv").write_text(lines[0], encoding="utf-8")
    (folder / "huge.csv").write_text(
        "\n".join([lines[0], *["x,y,1,2,3,4"] * 100_000]), encoding="utf-8"
    )
    for name in ("bare", "bare-2"):
        np.save(folder / f"{name}.npy", np.eye(4))
    for exponent in (12, 10):
        with contextlib.suppress(OSError):
            with (folder / "huge.npy").open("wb") as file:
                npy.write_array_header_1_0(
                    file,
                    {"descr": "<f8", "fortran_order": False, "shape": (125 * 10**exponent // 4, 4)},
                )
                file.truncate(file.tell() + 10 ** (exponent + 3))
            os.truncate(folder / "huge.csv", 10 ** (exponent + 3))
            return


def faulty(words: tuple[str, ...]) -> list[str]:
    given = {
        "--data": FILES,
        "--exclude": "id,name",
        "--drop-missing": "true",
        **dict(zip(words[::2], words[1::2], strict=True)),
    }
    chosen = [word for pair in given.items() if pair[1] for word in pair]
    return [
        "--problem",
        "pca",
        "--rank",
        "2",
        "--quiet",
        *[word for word in chosen if word != "true"],
    ]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_errors_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    spoil(folder)
    assert main(faulty(words)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.ranks
def test_errors_are_one_line_and_the_same_code_on_every_rank(folder: Path) -> None:
    for rank in range(3):
        (folder / str(rank)).mkdir()
        spoil(folder / str(rank))
    cases = [
        *ON_RANKS,
        *(
            (("--data", f"north.csv,south.csv,{wrong}", *words), said)
            for wrong, *words, said in FAULTY
        ),
    ]
    for (words, message), ranks in zip(
        cases, at_home(folder, [faulty(words) for words, _ in cases]), strict=True
    ):
        assert [code for code, _ in ranks] == [2, 2, 2], (words, ranks)
        errors = [error for _, error in ranks]
        assert errors[0].count("\n") == 1, errors
        assert all(error.count("\n") <= 1 for error in errors), errors
        assert any(message in error for error in errors), errors
        if errors[1] == "" != errors[2]:  # the site of the third rank alone cannot continue
            (site,) = re.findall(r"(\w+)\.csv", message)
            assert errors[0].endswith(f"site {site} cannot continue: {ELSEWHERE}\n")


def frames() -> dict[str, Any]:
    pd = pytest.importorskip("pandas")
    return {site: pd.read_csv(f"{site}.csv") for site in ORDERS}


def test_python_takes_the_same_sites(folder: Path) -> None:
    columns = Columns(exclude=("id", "name"), drop_missing=True)

    def solved(sites: Any, chosen: Columns | None = columns) -> do.Result:
        return do.solve(
            do.problems.PCA.from_sites(sites, 2, columns=chosen),
            do.DRFGT(),
            "ring",
            iterations=50,
            seed=0,
        )

    expected = do.solve(
        do.problems.PCA([rows(site) for site in ORDERS], 2),
        do.DRFGT(),
        "ring",
        iterations=50,
        seed=0,
    )
    arrays = {site: rows(site) for site in ORDERS}
    loaders = {site: (lambda site=site: rows(site)) for site in ORDERS}
    for result in (solved("*.csv"), solved(frames()), solved(arrays, None), solved(loaders, None)):
        assert result.sites == tuple(ORDERS)
        assert result.iterates_sha256 == expected.iterates_sha256
        x: Any = result.x  # for type checkers an array
        np.testing.assert_array_equal(x["west"], expected.x[2])
    unnamed = solved((rows(site) for site in ORDERS), None)
    assert unnamed.sites is None
    assert unnamed.iterates_sha256 == expected.iterates_sha256
    with pytest.raises(KeyError, match="no site 'east' is here: there is north, south, west"):
        x["east"]


def test_python_names_site_row_and_column(folder: Path) -> None:
    labelled = {
        site: frame.set_index("id").drop(columns="name") for site, frame in frames().items()
    }
    spoilt = {site: rows(site) for site in ORDERS}
    spoilt["south"][3, 1] = np.inf
    for sites, message in (
        (labelled, "site west: row west-x, column 'weight' is nan. .*drop_missing=True"),
        (
            frames(),
            "site north: column '(id|name)' must hold real numbers: leave it out, "
            "exclude=\\('(id|name)',\\)",
        ),
        (spoilt, r"A of site south must be finite; entry \[3, 1\] is inf"),
        (
            {"north": rows("north"), "south": None},
            "site south belongs to this rank, and its samples are None",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            do.solve(
                do.problems.PCA.from_sites(sites, 2),
                do.DRFGT(),
                None if len(sites) == 1 else "path",
                iterations=1,
            )


@pytest.mark.slow
@pytest.mark.ranks
def test_estimators_take_a_ranks_own_samples() -> None:
    job = run_ranks(3, ["-m", "tests.estimators.own_samples"])
    assert job.returncode == 0, job.report()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        (
            {"colunms": 3},
            r"takes the settings of PCA after sites: got an unexpected keyword argument 'colunms'",
        ),
        (
            {"exclude": ("id",)},
            r"exclude: give columns=Columns\(exclude=\('id',\)\), of decentorth\.data",
        ),
        (
            {"columns": Columns(exclude=cast("Any", "id"))},
            r"exclude of Columns must be a tuple of names, such as \('id',\), got 'id'",
        ),
    ],
)
def test_choices_of_columns_in_the_wrong_form_are_refused_at_once(
    keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        do.problems.PCA.from_sites("north.csv,south.csv", 1, **keywords)


@pytest.mark.slow
def test_an_index_of_a_site_is_left_out_in_one_line(tmp_path: Path) -> None:
    for site in ("north", "south"):
        (tmp_path / f"{site}.csv").write_text(",x,y\n0,1,2\n1,3,5\n2,2,1\n")
    words = "-m decentorth.run --problem pca --data north.csv,south.csv --rank 1 --iterations 3"
    done = subprocess.run(
        [sys.executable, *words.split()], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "x is 2 x 1" in done.stdout
    assert done.stderr.splitlines() == [
        f"decentorth: {site}.csv: a column without a name is left out, as the numbers of the rows"
        for site in ("north", "south")
    ]


def test_a_run_that_continues_after_its_answer_names_the_tolerance(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--problem", "pca", "--data", FILES, *CHOSEN, "--rank", "2", "--algorithm", "drfgt"]
    assert main([*words, "--iterations", "2000"]) == 0
    assert "--relative-gradient-tolerance 1e-09 or --gradient-tolerance" in capsys.readouterr().out
    assert main([*words, "--iterations", "2"]) == 0
    assert "-tolerance" not in capsys.readouterr().out
