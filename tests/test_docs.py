"""The pages of docs/: their code runs as written, their commands are complete, their links and the
list of public names too.

Blocks of a page run one after the other in a folder of their own. A comment before a block says
more of it:

    <!-- needs ranks -->        starts mpirun, or reads what such a block has left
    <!-- not run: REASON -->    needs what no test has, such as a cluster
    <!-- file: NAME -->         is run, and stands in the folder under this name

and <!-- before, a line of Python, --> is set-up that the page does not show. Blocks marked sh
install and are not run.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pickle
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib.externals.loky.backend.reduction import dumps

from decentorth import FinishedRun
from decentorth.problems import Deferred
from decentorth.registry import algorithms
from tests.support.mpi import HUNG, ROOT

PARTS = "compare data estimators figures problems sets theory".split()
# the build lists them
METHODS = [f"   decentorth.{algorithms.get(name).__name__}" for name in algorithms.names()]
DOCS = ROOT / "docs"
ELSEWHERE = "using.md"
"""The page whose commands are those of tests/test_readme.py."""
API = "\n".join([*METHODS, *(page.read_text() for page in (DOCS / "api").glob("*.md"))])
PAGES = sorted(page for page in DOCS.rglob("*.md") if not {"gallery", "generated"} & {*page.parts})
BLOCK = re.compile(
    r"<!-- before\n(?P<before>.*?)-->"
    r"|(?:<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>python|bash)\n(?P<code>.*?)^```$",
    re.S | re.M,
)
QUICK = ("index.md", "problems.md", "topologies.md")
"""The pages whose code takes less than a second."""


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text()))


def with_code() -> list[Any]:
    """The pages that have blocks, marked by what these need."""
    found = []
    for page in PAGES:
        if page.name != ELSEWHERE and (here := blocks(page)):
            marks = [pytest.mark.slow] if page.name not in QUICK else []
            marks += (
                [pytest.mark.ranks] if any(block["mark"] == "needs ranks" for block in here) else []
            )
            found.append(pytest.param(page, marks=marks, id=str(page.relative_to(DOCS))))
    return found


def shell(code: str, folder: Path, programs: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    words = ["bash", "-euc", code]
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=HUNG, check=False
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", with_code())
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, programs = tmp_path / "page", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    command = programs / "decentorth"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m decentorth "$@"\n')
    command.chmod(0o755)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        mark = block["mark"] or ""
        if mark.startswith("not run: "):
            continue
        if mark.startswith("file: "):
            (folder / mark.removeprefix("file: ")).write_text(block["code"])
        if block["language"] == "bash":
            shell(block["code"], folder, programs)
        else:
            exec(compile(block["before"] or block["code"], str(page), "exec"), names)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_code_fits_80_columns(page: Path) -> None:
    """All but the two set-up lines of the README, and output."""
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.S | re.M)
    code = [
        line
        for language, block in blocks
        if language in ("", "python", "bash", "sh")
        for line in block.splitlines()
    ]
    code += re.findall(
        r"^ {4}((?:decentorth|mpirun|python|pytest|sbatch) .*)$", page.read_text(), re.M
    )
    wide = [line for line in code if len(line) > 80 and "venv" not in line]
    assert not wide


def test_blocks_are_found() -> None:
    """Guards the test above against a list that is empty, and marks against slips of the pen."""
    assert {"data.md", "objective.md", "graphs.md", "cluster.md"} <= {
        page.values[0].name for page in with_code()
    }
    marks = {block["mark"] for page in PAGES for block in blocks(page) if block["mark"]}
    assert all(mark == "needs ranks" or mark.startswith(("not run: ", "file: ")) for mark in marks)


def commands() -> list[tuple[str, list[str]]]:
    """Page and words of the runs that stand in pages, whole lines of them."""
    found = []
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for line in re.findall(
            r"^ *(?:mpirun .*?)?(?:python -m decentorth\.run|decentorth run)( .*|)$", text, re.M
        ):
            words = shlex.split(line, comments=True)
            if not {"--config", "--resume", "--plugin", "--help", "--print-config"} & {*words}:
                found.append((page.name, words))
    return found


@pytest.mark.slow
def test_runs_in_pages_have_flags_and_names_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from decentorth.commands.run.command import main

    for page, words in commands():
        if "--join" in words:  # needs a folder of a site; tests/sites runs it
            continue
        assert main([*words, "--print-config"]) == 0, (
            f"{page}: {' '.join(words)}\n{capsys.readouterr().err}"
        )
    assert len(commands()) > 20


def test_files_and_tests_that_pages_name_exist() -> None:
    """Scripts, tests and pages, by their paths from the root; the words after -k are in the name of
    a test of that file."""
    missing = [
        f"{page.name}: {path}"
        for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        for path in re.findall(
            r"(?<![\w/.])((?:examples|benchmarks|launch|docs|tests)/[\w/]+\.(?:py|md|sh|sbatch|txt|csv))",
            page.read_text(),
        )
        if not (ROOT / path).exists()
    ]
    missing += [
        f"{page.name}: {path} -k {word}"
        for page in PAGES
        for path, word in re.findall(r"pytest (tests/\S+\.py) -k (\w+)", page.read_text())
        if not re.search(rf"def test_\w*{word}", (ROOT / path).read_text())
    ]
    assert not missing


def test_a_page_has_the_counts_of_its_stored_result() -> None:
    """Of pairs of step and penalty at which a method diverges (figures 8 and 10 of paper 003)."""
    stored = (DOCS / "results" / "003" / "sensitivity.txt").read_text()
    page = " ".join((DOCS / "generalized.md").read_text().split())
    counts = [
        re.search(rf"^{name}: .* (\d+) diverged", stored, re.M)
        for name in ("landing, exact", "landing, exact, safe steps", "PLAM, exact")
    ]
    exact, safe, plam = (int(found[1]) for found in counts if found is not None)
    assert safe == 0
    said = f"exact landing diverges at {exact}, with safe steps at none, PLAM at {plam}."
    assert said in page


def test_examples_have_titles_and_pictures_for_the_gallery() -> None:
    scripts = [
        path
        for path in (ROOT / "examples").rglob("*.py")
        if path.name not in ("experiment.py", "reproduce.py")
    ]
    missing = [
        path.name for path in scripts if not re.match(r'"""\n(.+)\n=+\n\n', path.read_text())
    ]
    assert not missing, "begin the docstring with a title and a line of ==="
    names = [
        "-".join(path.relative_to(ROOT / "examples").with_suffix("").parts) for path in scripts
    ]
    missing = [
        name for name in names if not (DOCS / "_static" / "gallery" / f"{name}.png").is_file()
    ]
    assert not missing, "give it a line in RUNS of docs/thumbnails.py, and run that"


def test_relative_links_lead_to_files() -> None:
    generated = re.compile(r"(^|/)(gallery|generated)/")
    missing = [
        f"{page.relative_to(DOCS)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
        if not generated.search(target) and not (page.parent / target).exists()
    ]
    assert not missing


def public(module: str) -> list[str]:
    package = importlib.import_module(module)
    return [name for name in package.__all__ if not inspect.ismodule(getattr(package, name))]


@pytest.mark.parametrize(
    "module", ["decentorth", "topologies", *map("decentorth.{}".format, PARTS)]
)
def test_every_public_name_has_a_page(module: str) -> None:
    missing = [
        name
        for name in public(module)
        if f"{module}.{name}\n" not in API and f"`{name}`" not in API
    ]
    assert not missing, f"docs/api/*.md lack {missing} of {module}: add them under autosummary"


def documented() -> list[str]:
    found = re.findall(r"^   ([\w.]+\.[A-Z]\w*)$", API, re.M)
    # types
    return [name for name in found if name not in ("decentorth.data.Labels", "topologies.Order")]


@pytest.mark.parametrize("name", documented())
def test_every_public_class_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, own = name.rsplit(".", 1)
    try:
        text = getattr(importlib.import_module(module), own).__doc__
        names = {"__name__": "__main__"}
        example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
        assert example.examples, f"give {name} a section Examples"
        monkeypatch.chdir(tmp_path)
        doctest.DebugRunner().run(example, clear_globs=False)
    except (ModuleNotFoundError, doctest.UnexpectedException) as error:
        cause = error.exc_info[1] if isinstance(error, doctest.UnexpectedException) else error
        if not isinstance(cause, ModuleNotFoundError):
            raise
        pytest.skip(str(cause))  # an extra that is not installed
    for value in example.globs.values():
        if type(value).__module__.startswith(("decentorth", "topologies")):
            check_copy(value)


def check_copy(value: Any) -> None:
    """The object comes back from joblib, and from pickle but for functions, which pickle names."""
    again = pickle.loads(dumps(value))
    assert type(again) is type(value)
    if isinstance(value, FinishedRun):
        assert repr(again) == repr(value)
        np.testing.assert_array_equal(again.x, value.x)
    try:
        assert type(pickle.loads(pickle.dumps(value))) is type(value)
    except (pickle.PicklingError, AttributeError) as error:
        assert isinstance(value, Deferred) or "<function" in str(error)  # noqa: PT017


def test_plain_formulas_become_mathematics_and_names_in_the_code_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    found = importlib.import_module("plain_formulas").formulas
    step = "    x_i <- sum_j W_ij x_j - alpha y_i            (10)"
    change = "    y_i <- Lambda_i(new x_i), y the mean of <s, B^T s>"
    assert found([step, change]) == (
        r"\begin{aligned} x_{i} &\leftarrow  \sum_{j} W_{ij} x_{j} - \alpha y_{i} \qquad (10) \\ "
        r"y_{i} &\leftarrow  \Lambda_{i}(x_{i}^{\text{new}}), y \;\text{the mean of}\;"
        r"\langle s, B^{\top} s\rangle  \end{aligned}"
    )
    assert found(["    x_i    state.x     W_ij    network.mix"]) is None
    assert found(["    x = y, where rows are added in the order of the agents alone"]) is None


def test_every_example_names_the_page_that_explains_it() -> None:
    scripts = [*(ROOT / "examples").rglob("*.py")]
    pages = {
        script: re.findall(r"``docs/([\w/]+\.md)``", script.read_text())
        for script in scripts
        if script.name not in ("experiment.py", "reproduce.py")
    }
    assert [script.name for script, named in pages.items() if not named] == []
    assert all((DOCS / page).exists() for named in pages.values() for page in named)
