"""A rank that is stopped, stuck or left alone ends the job, by name; one that is only slow, or
stopped for a moment, does not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from decentorth.records.saved_runs import read_summary
from tests.mpi.faulty import AFTER
from tests.support.mpi import Job, Running, run_ranks, until

pytestmark = pytest.mark.ranks
LIMIT = 5.0
PATIENT = 10.0
"""The limit where the job must not be ended: a busy machine keeps ranks silent for seconds."""
SPOILT = ["tests/mpi/spoilt.py", "--algorithm", "spoilt"]


def run(
    ranks: int, fault: str, *words: str, meanwhile: Callable[[Running], None] | None = None
) -> Job:
    """A run of which one rank meets a fault after half of its iterations; nothing of it is left."""
    length = [] if "--iterations" in words else ["--iterations", str(2 * AFTER)]
    job = run_ranks(ranks, [*SPOILT, "--fault", fault, *length, *words], meanwhile=meanwhile)
    assert job.left == 0, job.report()
    return job


def in_state(running: Running, state: str) -> list[int]:
    """The ranks that the operating system has in that state."""
    found = []
    for pid in running.ranks():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == state:
                found.append(pid)
    return found


def until_stopped(running: Running) -> int:
    return until(lambda: in_state(running, "T"), process=running.process)[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """SHA-256 of the points without a fault."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run(0, "paused", "--faulty-rank", "1", "--out", str(folder)).returncode == 0
    digest: str = read_summary(folder)["iterates_sha256"]
    return digest


@pytest.mark.parametrize("faulty_rank", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_stopped_rank_ends_the_job(faulty_rank: int, whole: str, tmp_path: Path) -> None:
    """It is named; the stopped process ends too, and so does its shared memory; the last checkpoint
    is good."""
    stopped, segments = [], set()

    def look(running: Running) -> None:
        stopped.append(until_stopped(running))
        segments.update(running.segments())

    folder = str(tmp_path / "run")
    words = [
        "--faulty-rank",
        str(faulty_rank),
        "--checkpoint-every",
        "20",
        "--out",
        folder,
        "--rank-timeout",
        str(LIMIT),
    ]
    job = run(3, "paused", *words, meanwhile=look)
    assert job.returncode != 0, job.report()
    said = (
        rf"rank {faulty_rank} \(process {stopped[0]} on \S+\) has given no sign of life for "
        r"[.\d]+ s"
    )
    assert len(re.findall(said, job.stderr)) == 1, job.report()
    assert segments
    assert not [path for path in segments if path.exists()]
    job = run_ranks(0, ["tests/mpi/spoilt.py", "--resume", folder, "--rank-timeout", "0"])
    assert f"resumed     from {folder}/checkpoints/{AFTER // 20 * 20:09d}" in job.stdout, (
        job.report()
    )
    assert read_summary(Path(folder))["iterates_sha256"] == whole


@pytest.mark.slow
@pytest.mark.parametrize(("everyone", "share"), [(False, 0.1), (True, 1.3)])
def test_a_rank_that_is_stopped_for_a_moment_and_a_job_that_is_stopped_as_a_whole_go_on(
    everyone: bool, share: float, whole: str, tmp_path: Path
) -> None:
    """As schedulers suspend jobs; a rank that was stopped itself does not hold it against the
    others."""

    def suspend(running: Running) -> None:
        stopped = [until_stopped(running)]
        if everyone:
            stopped = running.ranks()
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
        time.sleep(share * PATIENT)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    job = run(
        3,
        "paused",
        "--rank-timeout",
        str(PATIENT),
        "--out",
        str(tmp_path / "run"),
        meanwhile=suspend,
    )
    assert job.returncode == 0, job.report()
    assert read_summary(tmp_path / "run")["iterates_sha256"] == whole


@pytest.mark.slow
def test_a_long_numpy_call_is_a_sign_of_life(whole: str, tmp_path: Path) -> None:
    job = run(3, "computes", "--rank-timeout", "2", "--out", str(tmp_path / "run"))
    assert job.returncode == 0, job.report()
    (took,) = re.findall(r"computed for ([\d.]+) s", job.stderr)
    assert float(took) > 2.5
    assert read_summary(tmp_path / "run")["iterates_sha256"] == whole


@pytest.mark.slow
def test_a_gradient_that_never_returns() -> None:
    """It lives, and the others wait: only who says how long may be computed ends that, with the
    place."""
    job = run(3, "stuck", "--compute-timeout", str(LIMIT))
    assert job.returncode != 0, job.report()
    assert (
        len(re.findall(r"rank 1 has computed for [.\d]+ s without meeting the others", job.stderr))
        == 1
    ), job.report()
    assert "signal.pause()" in job.stderr


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["launcher", "its proxy"])
def test_ranks_do_not_outlive_their_launcher(victim: str) -> None:
    """Of one that has no proxy, as Open MPI's on one host, the two are the same."""

    def kill(running: Running) -> None:
        stopped = until_stopped(running)
        parent = int(Path(f"/proc/{stopped}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(stopped, signal.SIGCONT)
        os.kill(running.process.pid if victim == "launcher" else parent, signal.SIGKILL)

    job = run(3, "paused", "--iterations", "100000000", meanwhile=kill)
    assert job.returncode != 0, job.report()
