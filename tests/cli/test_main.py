"""The command ``decentorth``: its commands, their help, its lists and shell completion."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import decentorth
import topologies as tp
from decentorth import __main__ as top
from decentorth import registry
from decentorth.commands.line.config import Command
from decentorth.commands.line.run_settings import Joining, RunSettings
from decentorth.commands.listing import FIRST, KINDS, sentence
from decentorth.network.unreliable.faults import FAULTS
from decentorth.settings import settings
from tests.support.mpi import HUNG, ROOT, run_ranks


@pytest.mark.parametrize("command", top.COMMANDS)
def test_every_command_is_reached_and_prints_its_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert top.main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert (f"Usage: decentorth {command}" in out, err) == (True, "")


def test_version_and_help_name_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["run", "--version"]):
        assert top.main(words) == 0
        assert capsys.readouterr().out == f"decentorth {decentorth.__version__}\n"
    assert top.main([]) == 0
    out = capsys.readouterr().out
    assert [
        line.split()[0] for line in out.splitlines() if line.startswith("  ") and "--" not in line
    ] == list(top.COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ruun"], "decentorth: no command is called 'ruun'; did you mean run?\n"),
        (["run", "--agnets", "3"], "decentorth: unknown flag --agnets; did you mean --agents?\n"),
        (
            ["run", "--consensus", "1"],
            "decentorth: unknown flag --consensus; did you mean --consensus-tolerance?\n",
        ),
        (["plot"], "decentorth plot: give the folder of at least one run"),
        (["graph", "rng:4"], "decentorth graph: unknown graph 'rng'; did you mean 'ring'?"),
        (["graph", "ring:4", "word"], "decentorth graph: unexpected 'word'"),
        (
            ["new", "algorithm"],
            "decentorth new: give a kind and a name, as in: decentorth new algorithm heavy_ball",
        ),
        (
            ["replay", "--plugin", "x.py"],
            "decentorth: give the log first, as in: decentorth replay run.log --plugin FILE.py",
        ),
        (
            ["list", "graphs", "word"],
            "decentorth list: unexpected 'word'; give only KIND and flags",
        ),
        (
            ["list", "problem"],
            "decentorth list: unexpected 'problem' (kinds: problems, algorithms, ",
        ),
        (
            ["--install-completion", "tcsh"],
            "decentorth: --install-completion takes one of bash, zsh, fish, or nothing",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert top.main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(said)


def test_an_interruption_while_a_command_is_imported_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slow_to_import.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(top.COMMANDS, "slow", ("slow_to_import:main", "A command."))
    before = signal.getsignal(signal.SIGINT)
    assert top.main(["slow"]) == 130
    signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "decentorth: interrupted\n"


@pytest.mark.slow_cases("words2")
@pytest.mark.ranks
@pytest.mark.parametrize(
    "words", [["ruun"], ["run", "--topology", "rng"], ["run", "--agents", "2"]]
)
def test_on_ranks_a_mistake_is_said_once_and_nobody_waits(words: list[str]) -> None:
    job = run_ranks(3, ["-m", "decentorth", *words])
    assert job.returncode == 2, job.report()
    assert (job.stdout, job.stderr.count("decentorth: ")) == ("", 1), job.report()


@pytest.mark.ranks
def test_ranks_load_no_scipy_no_graph_library_and_no_command_line_library() -> None:
    code = (
        "import sys; from decentorth.run import main; from decentorth.process.environment import "
        "rank; code = main(['--iterations', '1', '--quiet']); heavy = {'scipy', 'scipy.sparse', "
        "'networkx', 'rich', 'yaml'}; sys.exit(code or 3 * bool(rank() and heavy & "
        "set(sys.modules)))"
    )
    job = run_ranks(2, ["-c", code])
    assert job.returncode == 0, job.report()


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("problems", registry.problems.names()),
        ("algorithms", registry.algorithms.names()),
        ("graphs", tp.available()),
        (
            "weights",
            [
                name
                for name in tp.available_weights()
                if name != "auto" and not name.startswith("lazy-")
            ],
        ),
        ("faults", list(FAULTS)),
    ],
)
def test_lists_have_a_sentence_for_every_name(
    kind: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert top.main(["list", kind, "--all"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    entries = KINDS[kind]()
    assert set(names) <= set(entries)
    for name, entry in entries.items():
        assert f"{name} {sentence(entry)}" in printed
        assert len(sentence(entry).split()) >= 4


def test_the_list_of_algorithms_begins_with_first_choices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert top.main(["list", "algorithms"]) == 0
    named = re.findall(r"^(\w+)  ", capsys.readouterr().out, re.M)
    assert named == [*FIRST]
    assert {*FIRST} <= {*registry.algorithms.names()}


def test_list_alone_names_what_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert top.main(["list"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == [f"decentorth list {kind}" for kind in KINDS]


def test_sentences_end_where_they_end() -> None:
    def f() -> None:
        """Ends at A. B, with ``code`` (Author et al. 2021); not here.

        Nor here.
        """

    assert sentence(f) == "Ends at A. B, with code (Author et al. 2021); not here."


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("decentorth comp", {"compare"}),
        ("decentorth run --step-si 1 --step", {"--step-size"}),
        ("decentorth run --algorithm dr", {"drfgt", "drgta", "drsgd"}),
        ("decentorth run --placement ", {"even", "fewer-cuts"}),
        ("decentorth run --algorithm push_pull --topology random_k", {"random_k_out"}),
        ("decentorth list fa", {"faults"}),
        ("decentorth compare --algorithms drfgt,drg", {"drfgt,drgta"}),
        ("decentorth compare --network w", {"wan", "wifi"}),
        ("decentorth run --algorithm drgta --step-size g", {"growing", "geometric"}),
        ("decentorth theory --config p", {"paper004"}),
        ("decentorth replay run.log --", {"--help", "--plugin"}),
        ("decentorth run 'open", set()),
    ],
)
def test_completion_knows_the_flags_of_the_chosen_problem_and_method(
    line: str, there: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert top.main(["--complete"]) == 0
    found = set(capsys.readouterr().out.split())
    assert there <= found
    assert there or not found


def test_the_script_of_bash_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert top.main(["--install-completion"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.is_relative_to(tmp_path)
    monkeypatch.setenv("HOME", "")
    assert top.main(["--install-completion", "fish"]) == 2
    assert capsys.readouterr().err.count("HOME does not name one\n") == 1
    assert (
        shutil.which("bash") is None
        or "decentorth --complete" in by_shell(f"source {path}; complete -p decentorth").stdout
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "decentorth",
        "decentorth list algorithms",
        "decentorth graph --help",
        "decentorth.run --iterations 20000",
    ],
)
def test_a_reader_that_leaves_ends_the_command(words: str) -> None:
    ended = by_shell(f"$PYTHON -m {words} | true; echo ${{PIPESTATUS[0]}}")
    assert (ended.stdout, ended.stderr) == ("141\n", "")


@pytest.mark.slow
def test_the_simulation_needs_neither_mpi4py_nor_numba_nor_matplotlib() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('mpi4py', 'numba', 'matplotlib', "
        "'sklearn', 'pandas', 'cvxpy', 'joblib')));from decentorth.run import main; "
        "sys.exit(main(['--iterations', '10']))"
    )
    alone, ranks = (
        by_shell(f'$PYTHON -c "{code}"', **settings) for settings in ({}, {"PMI_SIZE": "2"})
    )
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout.splitlines()[-1].startswith("Stopped at the limit of 10 iterations")
    assert (ranks.returncode, ranks.stdout) == (2, "")
    assert "ranks need an MPI library" in ranks.stderr
    assert 'pip install "mpich>=5"' in ranks.stderr


def by_shell(line: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHON": sys.executable, **settings}
    return subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, env=environ, timeout=HUNG
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--version", "graph ring:10"])
def test_an_output_that_takes_nothing_is_one_line(words: str) -> None:
    full = by_shell(f"$PYTHON -m decentorth {words} > /dev/full")
    assert (full.returncode, full.stderr.count("\n")) == (1, 1), full.stderr
    assert "No space left on device" in full.stderr
    closed = by_shell(f"$PYTHON -m decentorth {words} >&-")
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.slow
def test_letters_that_the_output_lacks_are_escaped(tmp_path: Path) -> None:
    words = (
        "--problem pca --data synthetic --dimension 6 --rank 2 --samples 20 --agents 4 "
        f"--iterations 5 --out {tmp_path}/\u00e9"
    )
    ended = by_shell(f"$PYTHON -m decentorth run {words}", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\\xe9" in ended.stdout
    assert (tmp_path / "\u00e9" / "summary.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_memory_that_ends_in_the_iterations_is_one_line() -> None:
    ended = by_shell(
        "ulimit -v 2200000; $PYTHON -m decentorth run --algorithm drfgt --agents 3000 --dimension 300 --rank 50 "
        "--quiet"
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert ended.stderr.startswith("decentorth: not enough memory: Unable to allocate")


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
    assert not [
        line
        for line in out.splitlines()
        if line.endswith("-") or ("[default:" in line and "]" not in line)
    ]
    assert all(f"[default: {listed[name].default}]" in out for name in ("agents", "seed"))


def test_the_help_of_a_run_has_its_settings_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, set[str]] = {}
    assert top.main(["run", "--help", "all"]) == 0
    for line in capsys.readouterr().out.splitlines():
        if line[:1].isalpha():
            heading = line
        elif line.startswith("  --"):
            found.setdefault(heading, set()).add(line.split()[0].rstrip(","))
    assert {"--gradient-tolerance", "--time-limit", "--local-rounds"} < found["Stopping"]
    assert found["Start"] == {"--start", "--resume"}
    assert found["Channel"] == {"--channel", "--repair", "--tracker-correction"}
    assert {"--placement", "--rank-timeout", "--on-rank-loss"} < found["Ranks"]
    assert {"--out", "--checkpoint-every", "--history-rows"} < found["Output"]
    groups = {name for group in Command([]).groups.values() for name in group}
    assert sum(map(len, found.values())) == len(groups | settings(Joining).keys())


def test_the_help_of_a_run_begins_with_what_one_needs(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed("run", [], capsys)
    flags = re.findall(r"^  --([\w-]+)", out, re.M)
    assert len(flags) <= 20
    assert len(out.splitlines()) <= 80
    assert {"problem", "topology", "iterations", "out"} <= {*flags}
    named = printed("run", ["--problem", "pca"], capsys)
    assert {"rank", "data"} <= {*re.findall(r"^  --([\w-]+)", named, re.M)} - {*flags}


def test_help_has_topics(capsys: pytest.CaptureFixture[str]) -> None:
    assert top.main(["run", "--help", "start"]) == 0
    assert re.findall(r"^  --([\w-]+)", capsys.readouterr().out, re.M) == ["start", "resume"]
    assert top.main(["run", "--help", "stoping"]) == 2
    assert "no such topic; did you mean stopping?" in capsys.readouterr().err


@pytest.mark.slow
def test_help_loads_neither_scipy_nor_a_library_for_command_lines() -> None:
    code = (
        "import sys; from decentorth.run import main; main(['--help']); print([n for n in "
        "sys.modules if n in sys.argv])"
    )
    done = by_shell(f'$PYTHON -c "{code}" scipy scipy.sparse networkx rich yaml')
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_help_for_every_problem(
    command: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(command, ["--problem", problem], capsys)
    assert f"Problem: {problem}" in text
    assert all(
        f"--{name.replace('_', '-')}" in text for name in settings(registry.problems.get(problem))
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_help_for_every_algorithm(algorithm: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("run", ["--algorithm", algorithm], capsys)
    assert all(
        f"--{name.replace('_', '-')}" in text
        for name in settings(registry.algorithms.get(algorithm))
    )


@pytest.mark.slow
def test_no_problem_shares_a_setting_with_an_algorithm() -> None:
    """The command line takes any pair of them, so a flag must mean one thing."""
    for problem in PROBLEMS:
        for algorithm in ALGORITHMS:
            assert len(Command(["--problem", problem, "--algorithm", algorithm]).groups) == 5
