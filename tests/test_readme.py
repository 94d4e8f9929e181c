"""The README's commands and its Python run as written and say what the README says they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mpi import HUNG, ROOT

pytestmark = pytest.mark.ranks
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


def commands() -> list[str]:
    (listed,) = [block for block in blocks("bash") if "decentorth.plot" in block]
    return [line.split("#")[0].strip() for line in listed.splitlines()]


def run(words: list[str], folder: Path) -> str:
    """Standard output of a command in ``folder``; python and mpirun are those of the running interpreter."""
    known = {"python": sys.executable, "mpirun": str(Path(sys.prefix, "bin", "mpirun"))}
    done = subprocess.run(
        [known.get(word, word) for word in words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LARGE = "python -m decentorth.run --agents 10000 "
"""How the command begins that takes much longer than the others."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("readme")
    said = {command: run(shlex.split(command), folder) for command in commands() if not command.startswith(LARGE)}
    assert (folder / "runs" / "a" / "history.png").stat().st_size > 10_000
    return said


def without_place(said: str) -> list[str]:
    """What a run says of its result: all but where it ran and how long it took."""
    return re.sub(r"\d+\.\d+ s\b", "", re.sub(r", (in this process|on \d+ ranks).*", "", said)).splitlines()


def has_a_verdict(said: str) -> bool:
    """Whether the last line of a run says how it ended."""
    return re.search(r"^(All \d+ iterations are done|Converged at iteration \d+ )", said.splitlines()[-1]) is not None


def test_canonical_correlations_are_found(outputs: dict[str, str]) -> None:
    gaps = [re.search(r"correlation gap (\S+),", said) for command, said in outputs.items() if "cca" in command]
    assert len(gaps) == 2
    assert all(gap is not None and abs(float(gap[1])) < 1e-6 for gap in gaps)


def test_ranks_say_what_one_process_says(outputs: dict[str, str]) -> None:
    one, three = outputs["python -m decentorth.run"], outputs["mpirun -n 3 python -m decentorth.run"]
    assert without_place(one) == without_place(three)
    assert "the published experiment" in one


def test_every_command_ends_with_a_verdict(outputs: dict[str, str]) -> None:
    for command, said in outputs.items():
        assert "decentorth.run" not in command or has_a_verdict(said), command


@pytest.mark.slow
def test_ten_thousand_agents_end_with_a_verdict(tmp_path: Path) -> None:
    (command,) = [command for command in commands() if command.startswith(LARGE)]
    assert has_a_verdict(run(shlex.split(command), tmp_path))


def test_auto_by_label_on_a_star_converges(outputs: dict[str, str]) -> None:
    (said,) = [said for command, said in outputs.items() if "--topology star" in command]
    assert said.splitlines()[-1].startswith("Converged")


def test_agents_agree_when_to_stop(outputs: dict[str, str]) -> None:
    (said,) = [said for command, said in outputs.items() if "--local-tolerance" in command]
    assert said.splitlines()[-1].startswith("Converged")
    assert "max-consensus" in said.splitlines()[-1]


def test_the_python_runs_as_written(tmp_path: Path) -> None:
    (code,) = blocks("python")
    said = run([sys.executable, "-c", code], tmp_path).splitlines()
    assert said[0].startswith("converged gradient norm")
    shape, norm = said[1].rsplit(" ", 1)
    assert shape == "(10, 20, 5)"
    assert float(norm) <= 1e-6


def test_set_up_is_two_lines_that_stand_alone() -> None:
    setup = [block for block in blocks("bash") if "venv" in block]
    assert [block.count("\n") for block in setup] == [1, 1]
    assert setup[0].rstrip().endswith("mpirun -n 10 python -m decentorth.run")
    assert (
        setup[1]
        .rstrip()
        .endswith('&& pytest -q -n auto --dist loadfile -m "not slow and not ranks" && pytest -q -m "ranks and not slow"')
    )
