"""Checkpoints under the real mpirun: any number of ranks goes on with what any other wrote, also
when a rank was killed."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from decentorth.records.saved_runs import read_history, read_summary
from decentorth.running.checkpoint import kept
from tests.support.mpi import Job, Running, run_ranks, until

pytestmark = pytest.mark.ranks
MODULE = ["-m", "decentorth.run"]
ENDLESS = [*MODULE, "--iterations", "100000000", "--checkpoint-every", "1h", "--out"]


def go(ranks: int, *words: str) -> Job:
    job = run_ranks(ranks, [*MODULE, *words])
    assert job.returncode == 0, job.report()
    return job


def outcome(folder: Path) -> tuple[str, dict[str, list[float]]]:
    """The bits of a run: its points, its history without seconds."""
    history = {
        name: column.tolist() for name, column in read_history(folder).items() if name != "seconds"
    }
    return read_summary(folder)["iterates_sha256"], history


def names(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in kept(folder / "checkpoints"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 iterations without a stop, in one process."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    go(0, "--iterations", "300", "--record-every", "10", "--out", str(folder))
    return folder


@pytest.mark.slow
def test_ranks_write_and_any_number_goes_on(whole: Path, tmp_path: Path) -> None:
    """3 ranks write (one file each), then 2 and 10 ranks go on, and at last one process from what
    10 wrote."""
    a = tmp_path / "a"
    go(
        3,
        "--agents",
        "10",
        "--iterations",
        "150",
        "--record-every",
        "10",
        "--checkpoint-every",
        "50",
        "--out",
        str(a),
    )
    assert names(a) == [50, 100, 150]
    x = np.load(a / "checkpoints" / "000000150" / "state.x.npy", allow_pickle=False)
    assert hashlib.sha256(x.tobytes()).hexdigest() == read_summary(a)["iterates_sha256"]
    for ranks in (2, 10):
        go(ranks, "--resume", str(a), "--iterations", "300", "--out", str(tmp_path / str(ranks)))
        assert outcome(tmp_path / str(ranks)) == outcome(whole)
    go(
        0,
        "--resume",
        str(tmp_path / "10" / "checkpoints" / "000000250"),
        "--out",
        str(tmp_path / "last"),
    )
    assert outcome(tmp_path / "last") == outcome(whole)


def test_one_process_writes_and_ranks_go_on(whole: Path, tmp_path: Path) -> None:
    a = tmp_path / "a"
    go(0, "--iterations", "90", "--record-every", "10", "--checkpoint-every", "60", "--out", str(a))
    go(3, "--resume", str(a), "--iterations", "200")
    assert names(a) == [120, 180, 200]
    go(0, "--resume", str(a), "--iterations", "300")
    assert outcome(a) == outcome(whole)


@pytest.mark.slow
def test_what_is_refused_is_said_once(whole: Path, tmp_path: Path) -> None:
    a = tmp_path / "a"
    go(3, "--iterations", "40", "--checkpoint-every", "20", "--out", str(a))
    for words, phrase in (
        (["--step-size", "0.5"], "--step-size is 0.01 in the run to resume, but 0.5 here"),
        ([], "000000020 cannot be read: on rank 2: state.x.npy is damaged: rows 7 to 9"),
    ):
        for path in kept(a / "checkpoints") if not words else ():
            points = path / "state.x.npy"
            points.write_bytes(points.read_bytes()[:-8] + bytes(8))
        job = run_ranks(3, [*MODULE, "--resume", str(a), *words])
        assert job.returncode == 2, job.report()
        (said,) = (line for line in job.stderr.splitlines() if line.startswith("decentorth: "))
        assert phrase in said, job.report()
        assert "Traceback" not in job.stderr


@pytest.mark.slow
def test_a_full_disk_on_one_rank(whole: Path, tmp_path: Path) -> None:
    """The job ends with the reason, said once; the last good checkpoint is there, and leads to the
    same bits."""
    a = tmp_path / "a"
    go(
        3,
        "--iterations",
        "150",
        "--record-every",
        "10",
        "--checkpoint-every",
        "150",
        "--out",
        str(a),
    )
    words = [
        "tests/mpi/full_disk.py",
        "1",
        "50000",
        "--resume",
        str(a),
        "--iterations",
        "300",
        "--quiet",
    ]
    job = run_ranks(3, words)
    assert job.returncode == 1, job.report()
    assert job.stderr.count("cannot write the checkpoint of iteration 300: ") == 1, job.report()
    assert "File too large" in job.stderr
    assert f"the last good one is {a}/checkpoints/000000150" in job.stderr
    assert names(a) == [150]
    assert not list((a / "checkpoints").glob(".*"))
    go(2, "--resume", str(a), "--iterations", "300")
    assert outcome(a) == outcome(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_to_the_launcher_reaches_the_ranks(number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM ends the job with 143, SIGINT with 130, SIGUSR1 does not; what was written is a
    checkpoint of all ranks."""
    a = tmp_path / "a"

    def warn(running: Running) -> None:
        until(lambda: rows(a) > 9, process=running.process)
        os.kill(running.process.pid, number)
        until(lambda: bool(names(a)), process=running.process)
        if number == signal.SIGUSR1:
            os.kill(running.process.pid, signal.SIGTERM)

    job = run_ranks(3, [*ENDLESS, str(a)], meanwhile=warn)
    assert job.returncode == (130 if number == signal.SIGINT else 143), job.report()
    ending = "SIGTERM" if number == signal.SIGUSR1 else number.name
    assert job.stdout.count(f"Ended by {ending} after iteration") == 1, job.report()
    written = names(a)
    assert len(written) == 1 + (number == signal.SIGUSR1)
    assert (read_summary(a)["status"], read_summary(a)["iterations"]) == ("terminated", written[-1])
    more = ["--iterations", str(written[-1] + 20), "--out"]
    go(0, "--resume", str(a / "checkpoints" / f"{written[0]:09d}"), *more, str(tmp_path / "b"))
    go(0, *more, str(tmp_path / "c"))
    assert outcome(tmp_path / "b")[0] == outcome(tmp_path / "c")[0]


def test_a_signal_to_one_rank_is_enough(tmp_path: Path) -> None:
    """As where one host of several is told to end."""
    a = tmp_path / "a"

    def warn(running: Running) -> None:
        until(lambda: rows(a) > 9, process=running.process)
        os.kill(max(running.ranks()), signal.SIGTERM)

    job = run_ranks(3, [*ENDLESS, str(a)], meanwhile=warn)
    assert job.returncode == 143, job.report()
    assert names(a) == [read_summary(a)["iterations"]]


def rows(folder: Path) -> int:
    path = folder / "history.csv"
    return path.read_text().count("\n") if path.is_file() else 0


LONG = ["--iterations", "600", "--record-every", "50", "--checkpoint-every", "10"]
"""A run that is mostly writing checkpoints."""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "run"
    go(0, *LONG[:4], "--out", str(folder))
    return folder


def killed_and_resumed(ranks: int, kills: int, rng: np.random.Generator, folder: Path) -> int:
    """Start the long run, kill one of its ranks a moment after a drawn checkpoint, go on with it,
    kill one again, and so on.

    The result is the number of kills before the last checkpoint.
    """
    at, done = 0, 0
    for left in range(kills, 0, -1):
        after = at + 10 * int(rng.integers(1, max(2, (600 - at) // (5 * (left + 1)))))
        moment, victim = float(rng.uniform(0.0, 0.05)), int(rng.integers(0, 10))

        def kill(
            running: Running, after: int = after, moment: float = moment, victim: int = victim
        ) -> None:
            until(lambda: max(names(folder), default=0) >= after, process=running.process)
            time.sleep(moment)
            living = sorted(running.ranks())
            if living:
                os.kill(living[victim % len(living)], signal.SIGKILL)

        words = ["--resume", str(folder)] if at else [*LONG, "--out", str(folder)]
        job = run_ranks(ranks, [*MODULE, *words], meanwhile=kill)
        assert job.returncode != 0 or read_summary(folder)["iterations"] == 600, job.report()
        at = names(folder)[-1]
        if at == 600:
            break
        done += 1
    go(ranks, "--resume", str(folder))
    return done


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "kills"), [(0, 4), (3, 4), (10, 2)])
def test_killed_at_many_random_moments(ranks: int, kills: int, long: Path, tmp_path: Path) -> None:
    """A run that goes on ends with the bits of one that was not killed, however often it was killed
    before."""
    killed = killed_and_resumed(ranks, kills, np.random.default_rng(20 + ranks), tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(long)
    assert killed >= kills // 2


def test_sums_go_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    """L-BFGS on ten agents: the state of one agent, and the sums that it knows."""
    words = ["--algorithm", "lbfgs", "--record-every", "5"]
    go(0, *words, "--iterations", "30", "--out", str(tmp_path / "whole"))
    a = tmp_path / "a"
    go(3, *words, "--iterations", "15", "--checkpoint-every", "10", "--out", str(a))
    go(2, "--resume", str(a), "--iterations", "25")
    go(0, "--resume", str(a), "--iterations", "30")
    assert outcome(a) == outcome(tmp_path / "whole")
