"""``examples/reproduce.py``: the tables of docs/papers/*.md that it reads, what it runs, keeps and
refuses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from decentorth import __version__
from examples.reproduce import PAPERS, main, read_items
from tests.support.mpi import ROOT

PAGES = {paper: (ROOT / "docs" / "papers" / f"{paper}.md").read_text() for paper in PAPERS}
ITEMS = [item for paper in PAPERS for item in read_items(paper)]
RESULTS = sorted((ROOT / "docs" / "results").glob("*/*.txt"))


def test_every_row_of_the_pages_is_an_item_with_a_name_and_scripts_that_exist() -> None:
    rows = [
        row
        for paper in PAPERS
        for row in re.findall(rf"^\| `({paper} \w+)` \|", PAGES[paper], re.M)
    ]
    assert [f"{item.paper} {item.name}" for item in ITEMS] == rows
    assert len(set(rows)) == len(rows) > 30
    for item in ITEMS:
        for command in (item.fast, item.full):
            python, program, *_ = command.split()
            assert python == "python"
            assert program == "-m" or (ROOT / program).is_file()
    figures = {
        (item.paper, word) for item in ITEMS for word in item.full.split() if word.endswith(".png")
    }
    assert len(figures) == sum(".png" in item.full for item in ITEMS)


@pytest.mark.parametrize(
    ("paper", "figures", "tables"),
    [("004", 1, 0), ("001", 12, 5), ("003", 10, 2), ("002", 2, 1), ("000", 0, 1)],
)
def test_the_page_of_a_paper_has_all_its_figures_and_tables(
    paper: str, figures: int, tables: int
) -> None:
    """Below the paragraph that says how many there are."""
    _, _, text = PAGES[paper].split("\n\n", 2)
    text = re.sub(
        r"(\d+) to (\d+)",
        lambda span: ", ".join(map(str, range(int(span[1]), int(span[2]) + 1))),
        text,
    )
    for kind, most in (("figure", figures), ("table", tables)):
        listed = re.findall(rf"{kind}s? (\d+(?:(?:, | and )\d+)*)", text, re.I)
        assert {int(number) for one in listed for number in re.findall(r"\d+", one)} == {
            *range(1, most + 1)
        }


def test_stored_results_are_on_the_page_of_their_paper() -> None:
    stored = {
        path.relative_to(ROOT / "docs") for path in (ROOT / "docs" / "results").glob("0*/*.*")
    }
    shown = {
        Path(name)
        for text in PAGES.values()
        for name in re.findall(r"\.\./(results/[\w/]+\.\w+)", text)
    }
    assert shown == stored


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_stored_results_are_of_the_full_commands_of_today(path: Path) -> None:
    """The first line has the version, the commit and the command; the last the processor time, or
    that of the clock."""
    first, *_, last = path.read_text().splitlines()
    head = re.fullmatch(r"# decentorth [\d.]+, commit [0-9a-f]{12}: (.*)", first)
    assert head is not None
    if path.parent.name == "examples":  # of the gallery's pages
        assert (ROOT / head[1].split()[1]).is_file()
        return
    (item,) = [item for item in ITEMS if (item.paper, item.name) == (path.parent.name, path.stem)]
    assert head[1] == item.full
    assert re.fullmatch(r"# \d+ s of the (processor|clock)", last)


def test_an_item_runs_and_its_output_is_kept_with_commit_and_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started in another folder, the script finds its checkout."""
    monkeypatch.chdir(tmp_path)
    assert main(["004", "theory", "--fast"]) == 0
    printed = capsys.readouterr().out
    first, *middle, last = (
        (tmp_path / "reproduced-fast" / "004" / "theory.txt").read_text().splitlines(keepends=True)
    )
    assert "".join(middle) in printed
    assert re.search(r"^alpha_safe +3\.97e-12", "".join(middle), re.M)
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    assert re.fullmatch(
        rf"# decentorth {__version__}(, commit {commit}(-dirty)?)?: python -m decentorth theory\n",
        first,
    )
    assert re.fullmatch(r"# \d+ s of the processor\n", last)


def test_an_item_that_fails_is_reported_and_nothing_of_it_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of NumPy that cannot be loaded; and a file of somebody else."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "scipy.py").write_text("raise ImportError('no scipy here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    kept = tmp_path / "out" / "004"
    assert main(["004", "theory", "--fast", "--out", str(tmp_path / "out")]) == 1
    printed = capfd.readouterr().err
    assert "no scipy here" in printed
    assert "004 theory failed (exit code 1); nothing of it was kept" in printed
    assert list(kept.iterdir()) == []
    (kept / "theory.txt").write_text("mine\n")
    assert main(["004", "theory", "--fast", "--out", str(tmp_path / "out")]) == 1
    assert "is no output of this script: choose another --out" in capfd.readouterr().err
    assert (kept / "theory.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["4", "--fast"], "no paper is called '4'; there are 004, 001"),
        (
            ["004", "figre1", "--fast"],
            "no item of paper 004 is called 'figre1'; did you mean figure1?",
        ),
        (["004", "figure1"], "give --fast (short runs) or --full"),
        (["004", "--fast", "--full"], "not allowed with argument"),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def verdict(row: str) -> str:
    cells = re.split(r"(?<!\\)\|", row.strip().strip("|"))
    words = cells[-1] if "**" not in row else " ".join(cells[1:])
    found = {
        word
        for word in ("confirmed", "own settings", "refuted", "open")
        if re.search(rf"\b{word}\b", words)
    }
    if "confirmed" in found:
        return "confirmed in part" if found & {"refuted", "own settings"} else "confirmed"
    return next(word for word in ("own settings", "refuted", "open") if word in found)


def test_the_table_of_verdicts_counts_the_rows_of_the_pages() -> None:
    kinds = ("confirmed", "confirmed in part", "own settings", "refuted", "open")
    page = (ROOT / "docs" / "papers.md").read_text()
    for paper, text in PAGES.items():
        claims, _, _ = text.partition("\n## Commands")
        rows = [line for line in claims.splitlines() if re.match(r"\| (?!claim|statement)", line)]
        verdicts = [verdict(row) for row in rows]
        counts = " | ".join(str(verdicts.count(kind)) for kind in kinds)
        assert f"| {paper} | {len(rows)} | {counts} |" in page
