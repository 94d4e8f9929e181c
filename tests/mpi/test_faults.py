"""A job of which one rank fails ends, with the reason and an exit code that says so: scripts and the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.mpi.faulty import AFTER, FAULT
from tests.support.mpi import Job, run_ranks

pytestmark = pytest.mark.ranks
slow = pytest.mark.slow
SCRIPT, COMMAND_LINE = "tests/mpi/faulty.py", "tests/mpi/spoilt.py"
HAD_ENOUGH = "ArithmeticError: the faulty rank has had enough"


def fail(fault: str, faulty_rank: int = 1, ranks: int = 3) -> Job:
    """A user's script with that fault: it has ended by itself, and not with 0."""
    return failed(run_ranks(ranks, [SCRIPT, fault, str(faulty_rank)]))


def failed(job: Job) -> Job:
    """A job that met its fault, and has ended by itself and not with 0."""
    assert job.returncode != 0, job.report()
    assert FAULT in job.stderr, job.report()
    return job


def said_once(job: Job, reason: str) -> None:
    """The reason stands on standard error once, below one traceback."""
    assert job.stderr.count(reason) == 1, job.report()
    assert job.stderr.count("Traceback") == 1, job.report()


@pytest.mark.parametrize(("where", "faulty_rank"), [("gradient", 1), ("loop", 0), pytest.param("gradient-iterate", 1, marks=slow)])
def test_a_rank_that_raises_ends_the_job_with_its_traceback(where: str, faulty_rank: int) -> None:
    job = fail(f"{where}:raises", faulty_rank)
    said_once(job, HAD_ENOUGH)
    assert f"rank {faulty_rank} of 3" in job.stderr
    assert 'raise ArithmeticError("the faulty rank has had enough")' in job.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        "gradient:exits-3",
        "leaves-early",
        *(pytest.param(fault, marks=slow) for fault in ("loop:exits-3", "loop:exits-0", "swallows")),
    ],
)
def test_a_rank_that_ends_early_is_named(fault: str) -> None:
    """No traceback tells why it has gone, so a rank that waits for it says which one."""
    assert re.search(r"rank [02] waits .* rank 1 has ended", fail(fault).stderr)


@pytest.mark.slow
def test_rank_0_that_exits_is_named() -> None:
    assert re.search(r"rank [12] waits .* rank 0 has ended", fail("loop:exits-0", 0).stderr)


@pytest.mark.parametrize(
    ("fault", "faulty_rank", "ranks"),
    [
        ("mpi:exits-0", 1, 3),
        *(
            pytest.param(*case, marks=slow)
            for case in (
                ("exits-0", 1, 3),
                ("returns", 2, 3),
                ("late:exits-0", 1, 2),
                ("mpi:late:exits-0", 0, 3),
                ("mpi:exits-1", 1, 2),
            )
        ),
    ],
)
def test_a_rank_that_ends_before_the_run_ends_the_job(fault: str, faulty_rank: int, ranks: int) -> None:
    job = fail(f"leaves:{fault}", faulty_rank, ranks)
    gone = rf"(rank {faulty_rank}|another rank of this host) has ended before that"
    assert re.search(rf"rank \d waits for all ranks to begin the run, but {gone}", job.stderr), job.report()


@pytest.mark.slow
def test_a_rank_that_needs_longer_than_the_time_limit_before_the_run_ends_the_job() -> None:
    job = fail("leaves:sleeps:mpi")
    assert re.search(r"rank [02] has waited 1 s for all ranks to begin the run", job.stderr), job.report()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["exits-0", "mpi:returns"])
def test_ranks_that_all_end_without_a_run_are_no_fault(fault: str) -> None:
    for _ in range(2):
        job = run_ranks(3, [SCRIPT, f"leaves:{fault}", "-1"])
        assert job.returncode == 0, job.report()


@pytest.mark.parametrize("fault", ["gradient:killed", pytest.param("loop:killed", marks=slow)])
def test_a_killed_rank_ends_the_job(fault: str) -> None:
    job = fail(fault)
    assert "Killed" in job.stdout + job.stderr  # the launcher's words, which MPICH writes to standard output


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "code"), [("forks:exits-3", 3), pytest.param("forks:raises", 1, marks=slow)])
@pytest.mark.parametrize("faulty_rank", [0, pytest.param(1, marks=slow)])
def test_the_end_of_a_forked_child_is_its_own(fault: str, code: int, faulty_rank: int) -> None:
    """A child of a rank does not take leave of the others for it, and does not finalize MPI."""
    job = run_ranks(3, [SCRIPT, fault, str(faulty_rank)])
    assert job.returncode == 0, job.report()
    assert f"the child ended with {code}" in job.stderr
    assert "waits for messages" not in job.stderr
    assert job.stdout == run_ranks(0, [SCRIPT, fault, "1"]).stdout


@pytest.mark.slow
def test_a_failing_recorder_ends_the_job() -> None:
    """Only rank 0 calls recorders."""
    said_once(fail("recorder"), HAD_ENOUGH)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["before-solve", pytest.param("raises-before-connecting", marks=slow)])
def test_a_rank_that_raises_before_the_run_ends_the_job(fault: str) -> None:
    said_once(fail(fault), HAD_ENOUGH)


@pytest.mark.slow
def test_an_error_of_all_ranks_is_printed_once() -> None:
    said_once(fail("everywhere:raises"), HAD_ENOUGH)


def test_an_error_of_all_ranks_before_the_run_is_printed_once() -> None:
    said_once(fail("bad-data"), "ValueError: A of agent 3 must be finite; entry [1, 2] is nan")


@pytest.mark.slow
def test_an_exit_code_of_all_ranks_is_kept() -> None:
    assert fail("everywhere:exits-3").returncode == 3


@pytest.mark.slow
def test_a_loader_that_fails_on_one_rank_ends_the_job_with_the_reason() -> None:
    job = fail("loader")
    assert job.stderr.count("ValueError: on rank 1: no rows of agent 5") == 1, job.report()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("W-differs", "ValueError: W must be the same on every rank; it differs from rank 0's on rank 1"),
        pytest.param(
            "x0-shape-differs", "ValueError: on rank 1: x0 must have the shape of one agent's point, (6, 2), got (6, 3)", marks=slow
        ),
        ("step-size-differs", "must be the same on every rank; it differs from rank 0's on rank 1"),
        pytest.param("rows-differ", "must be the same on every rank; it differs from rank 0's on rank 1", marks=slow),
        pytest.param("W-size-differs", "ValueError: W is for 8 agents, but the problem has 10", marks=slow),
    ],
)
def test_ranks_that_are_given_different_things_are_told(fault: str, reason: str) -> None:
    said_once(fail(fault), reason)


@slow
def test_more_ranks_than_agents() -> None:
    said_once(fail("more-ranks-than-agents", ranks=12), "ValueError: 12 ranks for 10 agents: every rank must hold at least one")


@pytest.mark.slow
def test_a_rank_that_works_on_alone_at_the_end_is_no_fault() -> None:
    job = run_ranks(3, [SCRIPT, "none"])
    assert job.returncode == 0, job.report()
    assert job.stderr == ""
    alone = run_ranks(0, [SCRIPT, "none"])
    assert job.stdout == alone.stdout
    assert job.stdout.startswith("(10, 6, 2) ")


CONNECT = ["-c", "import decentorth; decentorth.connect()"]


@pytest.mark.parametrize("variable", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_a_launcher_of_another_library_is_told_apart(variable: str) -> None:
    job = run_ranks(0, CONNECT, settings={variable: "3", "PYTHONWARNINGS": "default"})
    assert job.returncode != 0
    assert f"the launcher started 3 ranks ({variable}=3) but the MPI library sees 1" in job.stderr
    assert re.search(r"start with its own launcher, \S+/bin/mpirun", job.stderr)


def test_without_an_mpi_library_only_ranks_are_missing() -> None:
    nowhere = {"MPI4PY_LIBMPI": "/nonexistent/libmpi.so"}
    assert run_ranks(0, CONNECT, settings=nowhere).returncode == 0
    job = run_ranks(0, CONNECT, settings={**nowhere, "PMI_SIZE": "3"})
    assert job.returncode != 0
    assert 'pip install "decentorth[mpi]"' in job.stderr
    assert "/nonexistent/libmpi.so" in job.stderr


LONG_RUN = ["--iterations", "1000000", "--quiet"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("raises", HAD_ENOUGH), pytest.param("exits-3", "rank 1 has ended", marks=slow), pytest.param("killed", "Killed", marks=slow)],
)
def test_command_line(fault: str, reason: str, tmp_path: Path) -> None:
    """The same faults there; what was recorded before is on disk."""
    folder = tmp_path / "run"
    job = failed(run_ranks(3, [COMMAND_LINE, "--algorithm", "spoilt", "--fault", fault, *LONG_RUN, "--out", str(folder)]))
    assert reason in job.stdout + job.stderr, job.report()
    rows = (folder / "history.csv").read_text().splitlines()
    assert rows[0].startswith("iteration,")
    assert 0 <= int(rows[-1].split(",")[0]) <= AFTER


def test_command_line_reports_divergence_with_exit_code_3(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    job = run_ranks(3, ["-m", "decentorth.run", "--step-size", "0.5", "--iterations", "1000", "--out", str(folder)])
    assert job.returncode == 3, job.report()
    said = r"Diverged: the point of agent \d+ is not finite at iteration \d+.* step size 0\.5 is too large: try 0\.0072"
    assert len(re.findall(said, job.stdout)) == 1, job.report()
    assert json.loads((folder / "summary.json").read_text())["status"] == "diverged"
    assert len((folder / "history.csv").read_text().splitlines()) > 1
