"""The commands and the Python of the README and of docs/using.md run as written and say what they
are said to say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from decentorth.__main__ import COMMANDS
from tests.support.mpi import HUNG, ROOT

README, USING = ((ROOT / name).read_text() for name in ("README.md", "docs/using.md"))


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def commands(text: str = USING, place: int = -1) -> list[str]:
    """The commands of a block, without its comments; a backslash joins lines."""
    listed = [block for block in blocks("bash", text) if "venv" not in block][place]
    lines = [" ".join(line.split()) for line in re.sub(r"\\\n", " ", listed).splitlines()]
    return [line for line in lines if not line.startswith("#")]


def run(words: list[str], folder: Path) -> str:
    """Standard output of a command in ``folder``; its programs are those of the running
    interpreter."""
    known = {
        "python": [sys.executable],
        "mpirun": [str(Path(sys.prefix, "bin", "mpirun"))],
        "decentorth": [sys.executable, "-m", "decentorth"],
    }
    first, *others = words
    done = subprocess.run(
        [
            *known.get(first, [first]),
            *(sys.executable if word == "python" else word for word in others),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


QUICK = (
    "python -m decentorth.run",
    "mpirun -n 3 python -m decentorth.run",
    "python -m decentorth.run --problem procrustes --algorithm landing --agents 1",
    "python -m decentorth.run --problem pca --data synthetic",
    "mpirun -n 3 python -m decentorth.run --problem pca --data synthetic --algorithm drgta "
    "--rounds 3 --chebyshev --gradient-tolerance 1e-6",
)
"""The runs of docs/using.md that are among the quick tests."""


def marked(words: str = "") -> list[Any]:
    """The commands with these words, marked by what they need."""
    found = []
    for command in commands():
        marks = [pytest.mark.slow] if command not in QUICK else []
        marks += (
            [pytest.mark.ranks]
            if any(word in command for word in ("mpirun", "runs/b", "decentorth doctor"))
            else []
        )
        found += [pytest.param(command, marks=marks)] if words in command else []
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


def outputs(lines: Sequence[str], folder: Path) -> Callable[[str], str]:
    """The output of a command, which is run once, after the command among the lines that writes
    what it reads."""

    @cache
    def output(command: str) -> str:
        for other in lines:
            written = re.search(r"--out (\S+)", other)
            if other != command and written is not None and written[1] in command.split():
                output(other)
        return run(shlex.split(command), folder)

    return output


@pytest.fixture(scope="module")
def say(folder: Path) -> Callable[[str], str]:
    return outputs(commands(), folder)


def without_place(said: str) -> list[str]:
    """What a run says of its result: all but where it ran and how long it took."""
    return re.sub(
        r"\d+\.\d+ s\b", "", re.sub(r", (in this process|on \d+ ranks).*", "", said)
    ).splitlines()


@pytest.mark.parametrize("command", marked("decentorth.run"))
def test_a_run_ends_with_a_verdict(command: str, say: Callable[[str], str]) -> None:
    assert re.search(
        r"^(Stopped at the limit of \d+ iterations|Converged at iteration \d+ )",
        say(command).splitlines()[-1],
    )


@pytest.mark.parametrize("command", marked("--problem cca"))
def test_canonical_correlations_are_found(command: str, say: Callable[[str], str]) -> None:
    gap = re.search(r"(?:correlation gap|principal angle)  (?:\S+ -> )?(\S+)\n", say(command))
    assert gap is not None
    assert abs(float(gap[1])) < 1e-6


@pytest.mark.ranks
def test_ranks_say_what_one_process_says(say: Callable[[str], str]) -> None:
    one, three = say("python -m decentorth.run"), say("mpirun -n 3 python -m decentorth.run")
    assert without_place(one) == without_place(three)
    assert "the published experiment" in one


@pytest.mark.parametrize(
    "command", [*marked("--local-tolerance"), *marked("--topology star"), *marked("--chebyshev")]
)
def test_agents_agree_when_to_stop_and_automatic_steps_converge(
    command: str, say: Callable[[str], str]
) -> None:
    verdict = say(command).splitlines()[-1]
    assert verdict.startswith("Converged")
    assert ("max-consensus" in verdict) is ("--local-tolerance" in command)


@pytest.mark.parametrize("command", marked("decentorth plot"))
def test_a_figure_is_drawn(command: str, say: Callable[[str], str], folder: Path) -> None:
    say(command)
    assert (folder / "runs" / "a" / "history.png").stat().st_size > 10_000


def test_commands_of_every_kind_are_found() -> None:
    """Guards the tests above against an empty list, and the marks against commands that are no
    longer there."""
    assert {*QUICK} <= {*commands()}
    assert len(marked("--problem cca")) == 3
    assert all(
        len(marked(words)) == 1
        for words in ("--topology star", "--local-tolerance", "decentorth plot")
    )


EVERY = [*commands(README), *commands(USING, 0)]
PRINTED = {
    "demo": "decentorth-demo/demo.html",
    "list": "drfgt ",
    "run": "gradient norm ",
    "plot": "runs/a/history.png",
    "compare": "| destiny ",
    "study": "runs/study/consensus.png",
    "theory": "practical ",
    "graph": "metropolis ",
    "doctor": "The main job works",
    "launch": "#SBATCH --ntasks=10",
    "new": "heavy_ball.py",
}
"""What each command of the README and of docs/using.md prints."""


OPTIONAL = {
    "sklearn": "data",
    "matplotlib": "plot",
    "pandas": "frames",
    "xarray": "frames",
    "pyarrow": "tables",
    "numba": "fast",
    "autograd": "autograd",
    "jax": "jax",
    "cvxpy": "weights",
    "pyamg": "weights",
}
"""Optional libraries, each with the extra that installs it."""


@pytest.mark.slow
@pytest.mark.parametrize("command", commands(README))
def test_the_first_installation_has_what_the_commands_need(command: str, tmp_path: Path) -> None:
    extras = re.search(r"pip install .*\[(.*)\]", blocks("bash")[0])
    assert extras is not None
    missing = [name for name, extra in OPTIONAL.items() if extra not in extras[1].split(",")]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r})); "
        f"from decentorth.__main__ import main; sys.exit(main({shlex.split(command)[1:]!r}))"
    )
    assert PRINTED[command.split()[1]] in run([sys.executable, "-c", code], tmp_path)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    return outputs(EVERY, tmp_path_factory.mktemp("every"))


NEEDS = {
    "compare": [pytest.mark.slow],
    "study": [pytest.mark.slow],
    "doctor": [pytest.mark.slow, pytest.mark.ranks],
}


@pytest.mark.parametrize(
    "command", [pytest.param(line, marks=NEEDS.get(line.split()[1], [])) for line in EVERY]
)
def test_commands_print_what_they_are_for(command: str, every: Callable[[str], str]) -> None:
    assert PRINTED[command.split()[1]] in every(command)


def test_the_pages_have_every_command() -> None:
    assert [line.split()[:2] for line in commands(USING, 0)] == [
        ["decentorth", name] for name in PRINTED
    ]
    assert set(PRINTED) == set(COMMANDS) - {
        "replay",
        "sites",
    }  # docs/asynchronous.md, docs/sites.md


def test_the_readme_is_short_and_soon_shows_python() -> None:
    assert README.count("\n") <= 80
    assert len(README.partition("```python")[0].split()) <= 120


@pytest.mark.parametrize("ranks", [1, pytest.param(3, marks=pytest.mark.ranks)])
def test_the_python_of_the_readme_prints_what_it_says(ranks: int, tmp_path: Path) -> None:
    """All but seconds, whose digits of rounding may differ on another machine."""
    (code,), (output,) = blocks("python"), blocks("text")
    said = run(
        [*(["mpirun", "-n", str(ranks)] if ranks > 1 else []), sys.executable, "-c", code], tmp_path
    )
    for line in ("  auto ", "  leaves ", "  status ", "  agents ", "  objective "):
        (promised,) = (one for one in output.splitlines() if one.startswith(line))
        assert promised in said


@pytest.mark.slow
def test_the_python_of_the_page_runs_as_written(tmp_path: Path) -> None:
    (code,) = blocks("python", USING)
    said = run([sys.executable, "-c", code], tmp_path).splitlines()
    assert said[0].startswith("converged gradient norm")
    shape, norm = said[1].rsplit(" ", 1)
    assert shape == "(10, 20, 5)"
    assert float(norm) <= 1e-6


def test_set_up_is_two_lines_that_stand_alone() -> None:
    setup = [block for block in blocks("bash") if "venv" in block]
    assert [block.count("\n") for block in setup] == [1, 1]
    assert setup[0].rstrip().endswith("mpirun -n 10 python -m decentorth.run")
    tests = (
        'pytest -q -n auto --dist loadfile -m "not slow and not ranks" && pytest -q -m "ranks '
        'and not slow"'
    )
    assert setup[1].rstrip().endswith(f"&& {tests}")
