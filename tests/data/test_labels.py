"""Labels are integers only if every label at every site is written as an integer."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth.commands.run.command import main
from decentorth.data import Columns, MatrixFile, load_labels
from decentorth.data.labels import agreed
from decentorth.estimators import LDA
from tests.support.mpi import run_ranks


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["1", "2", "1"], [1, 2, 1]),
        (["1.0", "2", "-3.00", "+4"], [1, 2, -3, 4]),
        (["01", "02"], ["01", "02"]),
        (["1", "02"], ["1", "02"]),
        (["0", "1"], [0, 1]),
        (["1.5", "2"], ["1.5", "2"]),
        (["1", "x"], ["1", "x"]),
    ],
)
def test_labels_of_a_column(tmp_path: Path, texts: list[str], labels: list[Any]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("g,u\n" + "\n".join(f"{text},1" for text in texts), encoding="utf-8")
    found = MatrixFile(path, Columns(label="g")).labels
    assert found is not None
    assert found.tolist() == labels


@pytest.mark.parametrize(("text", "labels"), [("1.0\n2\n", [1, 2]), ("01\n02\n", ["01", "02"])])
def test_labels_of_a_file_of_labels(tmp_path: Path, text: str, labels: list[Any]) -> None:
    (tmp_path / "labels.txt").write_text(text, encoding="utf-8")
    assert load_labels(tmp_path / "labels.txt").tolist() == labels


@pytest.mark.parametrize(
    ("sites", "labels"),
    [
        ([["1.0", "2.0"], ["1", "2"]], [[1, 2], [1, 2]]),
        ([["01", "02"], ["01", "x"]], [["01", "02"], ["01", "x"]]),
        ([["1.0", "2"], ["1", "x"]], [["1.0", "2"], ["1", "x"]]),
    ],
)
def test_sites_agree_on_the_type(sites: list[list[str]], labels: list[list[Any]]) -> None:
    found = agreed([np.array(site) for site in sites], lambda data: [data])
    assert [one.tolist() for one in found] == labels


ROWS = [
    (label, *(np.random.default_rng(number).standard_normal(3) + shift))
    for number, (label, shift) in enumerate([("01", 0.0), ("02", 2.0)] * 30)
]
MORE = [("x", *(np.random.default_rng(100 + k).standard_normal(3) - 2.0)) for k in range(20)]
FLAGS = "--problem lda --label-column g --rank 2 --algorithm cdadt --ridge 0.01 --iterations 400"


def write(path: Path, rows: Sequence[Sequence[object]]) -> None:
    lines = ["g,u,v,w", *[",".join(map(str, row)) for row in rows]]
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.ranks
def test_codes_of_sites_are_the_classes_of_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers with a leading zero, and text at one site only: the classes and the answer are those
    of all rows in one file."""
    parts = {"a": ROWS[::2] + ROWS[1:20:2], "b": ROWS[21::2] + MORE}
    for name, rows in parts.items():
        write(tmp_path / f"{name}.csv", rows)
    write(tmp_path / "both.csv", [row for part in parts.values() for row in part])
    sites = ["--data", f"{tmp_path}/a.csv,{tmp_path}/b.csv"]
    whole = ["--data", f"{tmp_path}/both.csv", "--agents", "2", "--no-shuffle"]
    objectives = []
    for out, data in (("sites", sites), ("whole", whole)):
        assert main([*FLAGS.split(), *data, "--out", str(tmp_path / out)]) == 0
        assert "classes     01 (30), 02 (30), x (20)\n" in capsys.readouterr().out
        summary = json.loads((tmp_path / out / "summary.json").read_text(encoding="utf-8"))
        objectives.append(summary["metrics"]["objective"])
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)
    job = run_ranks(2, ["-m", "decentorth.run", *FLAGS.split(), *sites])
    assert re.search(r"classes +01 \(30\), 02 \(30\), x \(20\)\n", job.stdout), job.report()


def test_classes_that_differ_in_case_or_spaces_have_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stays a class of its own."""
    words = "the classes 'Type A', 'type a' differ only in case or spaces, and count as 2 classes"
    for site, name in (("a", "Type A"), ("b", "type a")):
        renamed = [(name if row[0] == "01" else row[0], *row[1:]) for row in ROWS]
        write(tmp_path / f"{site}.csv", renamed)
    assert main([*FLAGS.split(), "--data", f"{tmp_path}/a.csv,{tmp_path}/b.csv"]) == 0
    out = capsys.readouterr().out
    assert f"note        {words}" in out
    assert "classes     02 (60), Type A (30), type a (30)\n" in out
    y = np.array(["Type A", "type a", "b"])[np.arange(len(ROWS)) % 3]
    with pytest.warns(UserWarning, match=words):
        LDA(random_state=0).fit(np.array([row[1:] for row in ROWS]), y)


def test_an_estimator_joins_numbers_and_their_text() -> None:
    X = np.array([row[1:] for row in (*ROWS, *MORE)], dtype=np.float64)
    y = np.array([row[0] for row in (*ROWS, *MORE)])
    numbers = np.where(y == "x", "x", np.char.lstrip(y, "0"))
    first = numbers[:60].astype(np.int64)  # a site of numbers alone, beside one with text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lda = LDA(random_state=0, max_iter=5)
        lda.fit_agents([(X[:60], first), (X[50:], numbers[50:])], "complete")
    assert lda.classes_.tolist() == ["1", "2", "x"]
    np.testing.assert_allclose(lda.priors_, [35 / 90, 35 / 90, 20 / 90])
