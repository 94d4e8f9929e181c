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
TABLES = sorted((ROOT / "docs" / "results").glob("*/*.csv"))
HEAD = r"# decentorth [\d.]+, commit [0-9a-f]{12}: (.*)"


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
    that of the clock. Runs on files that are not in the repository have their command on the page."""
    first, *_, last = path.read_text().splitlines()
    head = re.fullmatch(HEAD, first)
    assert head is not None
    if path.parent.name == "examples":  # of the gallery's pages
        assert (ROOT / head[1].split()[1]).is_file()
        return
    assert re.fullmatch(r"# \d+ s of the (processor|clock)", last)
    if "--data" in head[1] and "randn" not in head[1]:
        assert f"`{head[1]}`" in PAGES[path.parent.name]
        return
    (item,) = [item for item in ITEMS if (item.paper, item.name) == (path.parent.name, path.stem)]
    assert head[1] == item.full


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_stored_tables_have_the_version_too(path: Path) -> None:
    head = re.fullmatch(HEAD, path.read_text().splitlines()[0])
    assert head is not None
    assert (ROOT / head[1].split()[1]).is_file()


def test_the_stored_table_of_the_field_is_that_of_its_page() -> None:
    """Its version and command, sums beside gossip, and both orders of DRFGT; the tables above it
    have its numbers."""
    first, _, text = (ROOT / "docs" / "papers" / "field.txt").read_text().partition("\n")
    (item,) = [item for item in ITEMS if item.paper == "field"]
    head = re.fullmatch(HEAD, first)
    assert head is not None
    assert head[1] == item.full
    page = PAGES["field"]
    for block in re.split(r"^(?=\w+ on \w+$)", text, flags=re.M)[1:]:
        rows = [[cell.strip() for cell in line.split(" | ")] for line in block.splitlines()]
        found = {row[0]: row for row in rows if len(row) == 8}
        if not block.startswith("sparse_pca"):
            assert {"lbfgs", "drfgt:order=combine-then-adapt"} < found.keys()
            assert "drfgt:order=accelerated" in found
        for name, row in list(found.items())[1:]:
            (line, *_) = [
                line
                for line in page.partition(f"| {block.split()[0]}, iterations |")[2].splitlines()
                if line.startswith(f"| `{name}` |")
            ]
            assert row[3].replace("inf", "-") in line


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


VERDICTS = re.findall(
    r"^- \*\*([\w ]+)\*\*: ",
    (ROOT / "docs" / "papers.md").read_text().split("## Verdicts")[1],
    re.M,
)[:5]
"""The words that docs/papers.md defines."""


def claims(paper: str) -> list[list[str]]:
    """The cells of the rows of a page's tables of claims and theorems, above its commands."""
    above, _, _ = PAGES[paper].partition("\n## Commands")
    rows = [line for line in above.splitlines() if re.match(r"\| (?!claim|statement)", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_row_has_one_verdict_which_the_table_of_verdicts_counts(paper: str) -> None:
    assert VERDICTS == ["confirmed", "own settings", "repaired", "refuted", "open"]
    found = [verdict for _, verdict, _ in claims(paper)]
    assert set(found) <= {*VERDICTS}
    counts = " | ".join(str(found.count(word)) for word in VERDICTS)
    page = (ROOT / "docs" / "papers.md").read_text()
    assert f"| {paper} | {len(found)} | {counts} |" in page


@pytest.mark.parametrize("paper", PAPERS)
def test_every_row_leads_to_evidence_and_that_to_a_command_or_a_run(paper: str) -> None:
    """Links of rows go to labels of the page, each label is used, and what stands at one names a
    test, a command or a stored run; theorems of paper 003 have the name of their test instead."""
    text = PAGES[paper]
    labels = re.findall(r"^\((\w[\w-]*)\)=$", text, re.M)
    assert len(set(labels)) == len(labels)
    linked = {
        label for cells in claims(paper) for label in re.findall(r"\]\(#([\w-]+)\)", cells[-1])
    }
    own = {label for label in labels if label.startswith("e")}
    assert linked == own
    for _, _, last in claims(paper):
        named = re.match(r"`(\w+)`", last)
        assert "](#" in last or named is not None or last.startswith("an order without")
        if "](#" not in last and named is not None:
            tests = (ROOT / "tests" / "lab" / "theory" / "test_generalized_landing.py").read_text()
            assert re.search(rf"def test_\w*{named[1]}", tests)
    for label in own:
        _, _, below = text.partition(f"({label})=\n")
        evidence = re.split(r"\n\(\w[\w-]*\)=\n|\n## ", below)[0]
        assert re.search(r"`(?:python|pytest) |\]\((?:\d{3}\.md)?#", evidence), label


@pytest.mark.parametrize("paper", PAPERS)
def test_links_to_labels_of_the_pages_of_papers_lead_somewhere(paper: str) -> None:
    for page, label in re.findall(r"\]\((\d{3}\.md)?#(\w[\w-]*)\)", PAGES[paper]):
        target = PAGES[page.removesuffix(".md")] if page else PAGES[paper]
        headings = [
            re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-")
            for line in re.findall(r"^#+ (.*)$", target, re.M)
        ]
        assert f"({label})=\n" in target or label in headings, label


@pytest.mark.parametrize("paper", PAPERS)
def test_a_mark_of_numbers_is_explained_on_its_page(paper: str) -> None:
    starred = re.search(
        r"[\dr]\*(?!\*)", re.sub(r"\*\*.*?\*\*|`[^`]*`|```.*?```", "", PAGES[paper], flags=re.S)
    )
    assert bool(starred) == bool(re.search(r"marked \*\s+were\s+run\s+again", PAGES[paper]))
