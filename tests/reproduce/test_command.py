"""``python -m decentorth.reproduce``: its table against docs/papers/*.md, what it runs, keeps and refuses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from decentorth import __version__
from decentorth.cli.flags import InputError
from decentorth.reproduce.command import checkout, main
from decentorth.reproduce.items import ITEMS, PAPERS
from tests.support.source import ROOT

PAGES = {paper: (ROOT / "docs" / "papers" / f"{paper}.md").read_text() for paper in PAPERS}
RESULTS = sorted((ROOT / "docs" / "results").glob("*/*.txt"))


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_of_a_paper_has_a_row_for_every_item_and_no_other(paper: str) -> None:
    rows = [
        f"| `{paper} {item.name}` | {item.shows} | `{item.command('fast')}` | `{item.command('full')}` | {item.takes} |"
        for item in ITEMS
        if item.paper == paper
    ]
    assert re.findall(r"^\| `\d{3} \w+` \|.*$", PAGES[paper], re.M) == rows


@pytest.mark.parametrize(
    ("paper", "figures", "tables"), [("004", 1, 0), ("001", 12, 5), ("003", 10, 2), ("002", 2, 1), ("000", 0, 1)]
)
def test_the_page_of_a_paper_has_all_its_figures_and_tables(paper: str, figures: int, tables: int) -> None:
    """Below the paragraph that says how many there are."""
    _, _, text = PAGES[paper].split("\n\n", 2)
    text = re.sub(r"(\d+) to (\d+)", lambda span: ", ".join(map(str, range(int(span[1]), int(span[2]) + 1))), text)
    for kind, most in (("figure", figures), ("table", tables)):
        listed = re.findall(rf"{kind}s? (\d+(?:(?:, | and )\d+)*)", text, re.I)
        assert {int(number) for one in listed for number in re.findall(r"\d+", one)} == {*range(1, most + 1)}


def test_stored_results_are_on_the_page_of_their_paper() -> None:
    stored = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs" / "results").glob("0*/*.*")}
    shown = {Path(name) for text in PAGES.values() for name in re.findall(r"\.\./(results/[\w/]+\.\w+)", text)}
    assert shown == stored


def test_names_are_unique_within_a_paper_and_scripts_and_figures_are_there() -> None:
    assert len({(item.paper, item.name) for item in ITEMS}) == len(ITEMS)
    figures = [(item.paper, word) for item in ITEMS for word in item.program.split() if word.endswith(".png")]
    assert len(set(figures)) == len(figures)
    for item in ITEMS:
        program = item.program.split()
        assert program[0] == "-m" or (ROOT / program[0]).is_file()


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_stored_results_are_of_the_full_commands_of_today(path: Path) -> None:
    """The first line has the version, the commit and the command; the last the processor time."""
    (item,) = [item for item in ITEMS if (item.paper, item.name) == (path.parent.name, path.stem)]
    first, *_, last = path.read_text().splitlines()
    head = re.fullmatch(r"# decentorth [\d.]+, commit [0-9a-f]{12}: (.*)", first)
    assert head is not None
    assert head[1] == item.command("full")
    assert re.fullmatch(r"# \d+ s of the processor", last)


def test_the_list_has_every_item_or_those_of_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    whole = capsys.readouterr().out
    assert re.findall(r"^(\d{3} \w+): ", whole, re.M) == [f"{item.paper} {item.name}" for item in ITEMS]
    assert main(["002", "--list"]) == 0
    of_one = capsys.readouterr().out
    assert of_one in whole
    assert set(re.findall(r"^(\d{3}) \w+: ", of_one, re.M)) == {"002"}


def test_an_item_runs_and_its_output_is_kept_with_commit_and_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started elsewhere, the checkout of the package is found."""
    monkeypatch.chdir(tmp_path)
    assert main(["004", "theory", "--fast"]) == 0
    said = capsys.readouterr().out
    first, *middle, last = (tmp_path / "reproduced-fast" / "004" / "theory.txt").read_text().splitlines(keepends=True)
    assert "".join(middle) in said
    assert re.search(r"^alpha_safe +3\.97e-12", "".join(middle), re.M)
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    assert re.fullmatch(rf"# decentorth {__version__}(, commit {commit}(-dirty)?)?: python -m decentorth.theory\n", first)
    assert re.fullmatch(r"# \d+ s of the processor\n", last)


def test_an_item_that_fails_is_said_and_nothing_of_it_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of NumPy that cannot be loaded."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "scipy.py").write_text("raise ImportError('no scipy here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    assert main(["004", "theory", "--fast", "--out", str(tmp_path / "out")]) == 1
    said = capfd.readouterr().err
    assert "no scipy here" in said
    assert "004 theory failed (exit code 1); nothing of it was kept" in said
    assert list((tmp_path / "out" / "004").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fast"], "say which paper: 004, 001, 003, 002, 000 or all"),
        (["4", "--fast"], "no paper is called '4' (there are 004, 001, 003, 002, 000, and all)"),
        (["004", "figre1", "--fast"], "paper 004 has no 'figre1'"),
        (["004", "figre1", "--fast"], "did you mean figure1?"),
        (["004", "figure1"], "give --fast (short runs) or --full"),
        (["004", "--fast", "--full"], "give --fast (short runs) or --full"),
        (["004", "figure1", "theory", "--fast"], "unexpected 'theory': give one paper and one of its items"),
        (["004", "--fats"], "unknown flag --fats; did you mean --fast?"),
        (["004", "theory", "--fast", "--out", "/dev/null/x"], "cannot use /dev/null/x/004"),
    ],
)
def test_bad_input_is_refused_with_the_reason(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_without_the_scripts_it_says_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="clone the repository or unpack the source distribution, and start this command in its"):
        checkout([tmp_path])
    assert checkout([tmp_path, ROOT]) == ROOT
