"""Checkpoints from the command line: written, gone on from, refused."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from decentorth import DRFGT, Checkpoints, solve
from decentorth.commands.run.command import main
from decentorth.records.saved_runs import read_history, read_summary
from decentorth.running.checkpoint import kept
from tests.support.commands import run
from tests.support.mpi import HUNG, ROOT, until
from tests.support.problems import GRAPHS, pca

SMALL = ["--dimension", "6", "--rank", "2", "--rows", "4"]

pytestmark = pytest.mark.usefixtures("folder")


def lines(name: str, seconds: bool = False) -> list[list[str]]:
    rows = [line.split(",") for line in Path(name, "history.csv").read_text().splitlines()]
    return [row if seconds else row[:5] + row[6:] for row in rows]


def names(name: str) -> list[int]:
    return sorted(int(path.name) for path in kept(Path(name, "checkpoints")))


@pytest.mark.slow
def test_the_run_goes_on_in_another_folder_with_the_same_bits() -> None:
    words = [*SMALL, *"--step-size auto --order adapt-then-combine --record-every 10".split()]
    assert run(*words, "--iterations", "150", "--checkpoint-every", "50", "--out", "a") == 0
    assert run("--resume", "a", "--iterations", "300", "--out", "b") == 0
    assert run(*words, "--iterations", "300", "--out", "c") == 0
    b, c = read_summary("b"), read_summary("c")
    same = "iterates_sha256 iterations rounds messages bytes gradients metrics steps status config W".split()
    assert {name: b[name] for name in same} == {name: c[name] for name in same}
    assert (b["resumed_from"], c["resumed_from"]) == ("a/checkpoints/000000150", None)
    assert lines("b") == lines("c")
    assert lines("b", True)[: len(lines("a"))] == lines("a", True)
    assert Path("b/config.yaml").read_text() == Path("c/config.yaml").read_text()
    assert (names("a"), names("b")) == ([50, 100, 150], [200, 250, 300])


@pytest.mark.slow
def test_the_run_goes_on_where_it_is() -> None:
    assert run(*SMALL, "--iterations", "45", "--checkpoint-every", "20", "--keep-checkpoints", "2", "--out", "a") == 0
    assert names("a") == [40, 45]
    assert run("--resume", "a", "--iterations", "90") == 0
    assert names("a") == [80, 90]
    assert run("--resume", "a/checkpoints/000000080", "--out", "b", "--iterations", "100", "--checkpoint-every", "1h") == 0
    assert names("b") == [100]
    assert run(*SMALL, "--iterations", "100", "--out", "c") == 0
    assert read_summary("b")["iterates_sha256"] == read_summary("c")["iterates_sha256"]
    assert run("--resume", "a", "--out", "./a", "--iterations", "95") == 0
    assert read_summary("a")["iterations"] == 95


def test_a_run_that_has_ended_is_left_as_it_was() -> None:
    assert run(*SMALL, "--iterations", "60", "--checkpoint-every", "25", "--out", "a") == 0
    before, history = read_summary("a"), Path("a/history.csv").read_bytes()
    assert run("--resume", "a") == 0
    after = read_summary("a")
    assert Path("a/history.csv").read_bytes() == history
    # a checkpoint has the total of what was sent, not the table
    changes = {"started", "seconds", "command", "resumed_from", "sent"}
    assert {name for name in before if before[name] != after[name]} <= changes
    assert sum(row["bytes"] for row in after["sent"]) == after["bytes"]


@pytest.mark.slow
def test_what_may_be_given_anew(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--iterations", "50", "--checkpoint-every", "25", "--out", "a") == 0
    again = (
        "--resume a --iterations 5000 --gradient-tolerance 1 --require-converged --record-every 3 --placement fewer-cuts --out b"
    )
    assert run(*again.split()) == 0
    summary = read_summary("b")
    assert summary["status"] == "converged"
    assert (summary["config"]["record_every"], summary["config"]["placement"]) == (3, "fewer-cuts")
    assert main(["--resume", "a", "--print-config", "--step-size", "auto"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert {**yaml.safe_load(Path("a/config.yaml").read_text()), "out": "a", "plot": False, "quiet": False, "record": []} | {
        "checkpoint_every": 25,
        "keep_checkpoints": 3,
    } == printed
    assert run("--resume", "a", *SMALL, "--iterations", "50", "--checkpoint-every", "25", "--out", "a") == 0


def test_a_number_of_agents_that_the_files_do_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--iterations", "20", "--checkpoint-every", "20", "--out", "a") == 0
    path = Path("a/checkpoints/000000020/manifest.json")
    whole = json.loads(path.read_text())
    whole["checkpoint"]["notes"]["settings"]["agents"] = 10**9
    canonical = json.dumps(whole["checkpoint"], sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**whole, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}))
    capsys.readouterr()
    assert main(["--resume", "a"]) == 2
    assert capsys.readouterr().err == "decentorth: the settings in a are for 1000000000 agents, its files for 10\n"


REFUSED = [
    ("--resume a --step-size 0.5", "--step-size is auto in the run to resume, but 0.5 here; only --iterations,"),
    ("--resume a --problem pca", "--problem is procrustes in the run to resume, but pca here"),
    ("--resume a --config other.yaml", "--self-weight is not given in the run to resume, but 0.7 here"),
    ("--resume a --iterations 20", "a/checkpoints/000000060 is beyond --iterations 20: give more than 60"),
    ("--resume late --activations 20", "late/checkpoints/000000060 is beyond --activations 20: give more than 60"),
    ("--resume a --out held", "held already holds a run"),
    ("--resume a/checkpoints/000000060", "checkpoint_every needs a folder for the run: give --out FOLDER"),
    ("--resume plain", "plain holds no checkpoint: was checkpoint_every"),
    ("--resume python", "the checkpoints in python were not written by this command: resume them in Python"),
    ("--config resume.yaml", "resume.yaml: a file cannot name a run to resume; give --resume a"),
    ("--checkpoint-every 5", "--checkpoint-every: checkpoint_every needs a folder for the run: give --out FOLDER"),
    ("--checkpoint-every 5d --out b", "checkpoint_every must be a number of iterations (100) or a time (30s, 10m, 2h), got '5d'"),
]


@pytest.fixture
def runs(folder: Path) -> None:
    assert run(*SMALL, "--iterations", "60", "--checkpoint-every", "30", "--out", "a") == 0
    late = "--algorithm asynchronous_drfgt --activations 60 --checkpoint-every 30 --out late"
    assert run(*SMALL, *late.split()) == 0
    assert read_summary("late")["message"] == "stopped at the limit of 60 activations"
    assert run(*SMALL, "--iterations", "5", "--out", "held") == 0
    Path("plain").mkdir()
    Path("other.yaml").write_text("self_weight: 0.7\n")
    Path("resume.yaml").write_text("resume: a\n")
    solve(pca().problem, DRFGT(), GRAPHS["ring"](5), iterations=3, checkpoints=Checkpoints("python"))


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
def test_what_is_refused_says_why_and_touches_nothing(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for words, phrase in REFUSED:
        assert main(words.split()) == 2, words
        printed = capsys.readouterr()
        assert printed.out == ""
        assert phrase in printed.err
        assert printed.err.startswith("decentorth: ")
        assert printed.err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_checkpoints_of_a_killed_run_are_not_run_over(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--iterations", "40", "--checkpoint-every", "20", "--out", "a"]
    assert run(*words) == 0
    Path("a/summary.json").unlink()
    assert run(*words) == 2
    assert "a holds the checkpoints of a run that did not end; continue with --resume a" in capsys.readouterr().err
    assert names("a") == [20, 40]
    assert run(*words, "--overwrite") == 0
    assert names("a") == [20, 40]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, None)])
def test_signals(number: signal.Signals, code: int | None) -> None:
    """SIGTERM and SIGINT end the run, SIGUSR1 does not; all leave a checkpoint that leads to the bits of an unbroken run."""
    words = [sys.executable, "-m", "decentorth.run", *SMALL, "--iterations", "100000000", "--checkpoint-every", "1h", "--out", "a"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        until(lambda: Path("a/history.csv").is_file() and Path("a/history.csv").read_text().count("\n") > 9, process=process)
        process.send_signal(number)
        until(lambda: names("a"), process=process)
        if code is None:
            assert process.poll() is None
            process.kill()
        said, _ = process.communicate(timeout=HUNG)
    (k,) = names("a")
    if code is not None:
        assert process.returncode == code
        assert (read_summary("a")["status"], read_summary("a")["iterations"]) == ("terminated", k)
        assert f"Ended by {number.name} after iteration {k}," in said
        assert "continue with --resume a." in said
        assert Path("a/final.npz").is_file()
    assert run("--resume", "a", "--iterations", str(k + 10), "--out", "b") == 0
    assert run(*SMALL, "--iterations", str(k + 10), "--out", "c") == 0
    assert read_summary("b")["iterates_sha256"] == read_summary("c")["iterates_sha256"]
    assert read_history("b")["iteration"][-1] == k + 10
