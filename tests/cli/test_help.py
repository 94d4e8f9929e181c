"""``--help`` of every command, for every problem and every method."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from decentorth import __main__ as top
from decentorth import registry
from decentorth.commands.line.config import Command
from decentorth.commands.line.settings import RunSettings
from decentorth.settings import settings
from tests.support.mpi import ROOT

PROBLEMS, ALGORITHMS = registry.problems.names(), registry.algorithms.names()


def printed(command: str, words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert top.main([command, *words, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("command", ["run", "compare", "theory"])
def test_help_fits_80_columns_and_divides_no_flag_and_no_default(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = printed(command, [], capsys)
    assert max(map(len, out.splitlines())) <= 80
    listed = settings(RunSettings)
    assert not [line for line in out.splitlines() if line.endswith("-") or ("[default:" in line and "]" not in line)]
    assert all(f"[default: {listed[name].default}]" in out for name in ("agents", "seed"))


def test_the_help_of_a_run_has_its_settings_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, set[str]] = {}
    for line in printed("run", [], capsys).splitlines():
        if line[:1].isalpha():
            heading = line
        elif line.startswith("  --"):
            found.setdefault(heading, set()).add(line.split()[0].rstrip(","))
    assert {"--gradient-tolerance", "--time-limit", "--local-rounds"} < found["Stopping"]
    assert found["Start"] == {"--start", "--resume"}
    assert found["Channel"] == {"--channel", "--repair", "--tracker-correction"}
    assert {"--placement", "--rank-timeout", "--on-rank-loss"} < found["Ranks"]
    assert {"--out", "--checkpoint-every", "--history-rows"} < found["Output"]
    assert sum(map(len, found.values())) == len({name for group in Command([]).groups.values() for name in group})


@pytest.mark.slow
def test_help_loads_neither_scipy_nor_a_library_for_command_lines() -> None:
    code = "import sys; from decentorth.run import main; main(['--help']); print([n for n in sys.modules if n in sys.argv])"
    heavy = ["scipy", "scipy.sparse", "networkx", "rich", "yaml"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_help_for_every_problem(command: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(command, ["--problem", problem], capsys)
    assert f"Problem: {problem}" in text
    assert all(f"--{name.replace('_', '-')}" in text for name in settings(registry.problems.get(problem)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_help_for_every_algorithm(algorithm: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("run", ["--algorithm", algorithm], capsys)
    assert all(f"--{name.replace('_', '-')}" in text for name in settings(registry.algorithms.get(algorithm)))


@pytest.mark.slow
def test_no_problem_shares_a_setting_with_an_algorithm() -> None:
    """The command line takes any pair of them, so a flag must mean one thing."""
    for problem in PROBLEMS:
        for algorithm in ALGORITHMS:
            assert len(Command(["--problem", problem, "--algorithm", algorithm]).groups) == 5
