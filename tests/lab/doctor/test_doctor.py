"""The doctor on real things: a healthy place, launchers of another MPI, that fail or tell ranks
nothing, no MPI library."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from decentorth.lab.doctor.command import main
from decentorth.lab.doctor.findings import Finding, text, works
from decentorth.lab.doctor.host import short_run
from decentorth.lab.doctor.launcher import (
    SHARED,
    Library,
    belong_together,
    family,
    job_findings,
    library,
    library_finding,
)
from decentorth.lab.doctor.ranks import agreement
from tests.support.mpi import ROOT, run_ranks

needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
OWN = Path(sys.prefix, "bin")
MODULE = ["-m", "decentorth", "doctor"]


def doctor(
    *flags: str, path: Path = OWN, **settings: str
) -> tuple[int, dict[str, Any], dict[str, dict[str, str]]]:
    """Exit code, the whole and the findings by subject of ``python -m decentorth doctor --json``
    with ``path`` first on PATH."""
    job = run_ranks(
        0, [*MODULE, "--json", *flags], settings={"PATH": f"{path}:/usr/bin:/bin", **settings}
    )
    assert job.stderr == "", job.report()
    (line,) = job.stdout.splitlines()
    report = json.loads(line)
    return job.returncode, report, {finding["what"]: finding for finding in report["findings"]}


def program(folder: Path, name: str, lines: str) -> Path:
    script = folder / name
    script.write_text(f"#!/bin/sh\n{lines}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


def launcher(folder: Path, version: str, starts: str) -> Path:
    return program(
        folder, "mpirun", f'if [ "$1" = --version ]; then echo "{version}"; exit; fi\n{starts}'
    )


@pytest.mark.slow
@pytest.mark.ranks
def test_a_healthy_place() -> None:
    code, report, findings = doctor("--ranks", "3")
    assert (code, report["works"]) == (0, True), report
    digest = short_run("serial", 10)
    assert digest[:16] in findings["one process"]["found"]
    assert findings["3 ranks"]["state"] == "works"
    assert findings["mpirun"]["found"].startswith(str(OWN / "mpirun"))
    assert ("/dev/shm" in findings) == (shutil.disk_usage("/dev/shm").free < SHARED)
    assert all(
        finding["remedy"]
        for finding in report["findings"]
        if finding["state"] in ("warning", "fault")
    )


@pytest.mark.slow
@pytest.mark.ranks
def test_under_a_launcher() -> None:
    job = run_ranks(2, [*MODULE, "--json"])
    assert job.returncode == 0, job.report()
    report = json.loads(job.stdout)
    assert report["ranks"] == 2
    assert "2 ranks" in {finding["what"] for finding in report["findings"]}


@needs_mpi
def test_a_launcher_of_another_mpi_on_path(tmp_path: Path) -> None:
    code, report, findings = doctor(
        "--ranks", "2", path=launcher(tmp_path, "mpirun (Open MPI) 4.1.4", "touch started")
    )
    assert (code, report["works"]) == (1, False)
    assert findings["mpirun"]["state"] == "fault"
    assert (
        f"{tmp_path}/mpirun is of Open MPI, but mpi4py loads MPICH" in findings["mpirun"]["found"]
    )
    assert f"source {sys.prefix}/bin/activate" in findings["mpirun"]["remedy"]
    assert "2 ranks" not in findings
    assert not Path(ROOT, "started").exists()


@pytest.mark.slow
@needs_mpi
def test_a_launcher_that_fails(tmp_path: Path) -> None:
    code, _, findings = doctor(
        "--ranks",
        "2",
        path=launcher(tmp_path, "HYDRA build details", "echo no such host >&2; exit 7"),
    )
    assert code == 1
    assert findings["2 ranks"]["found"] == "the job failed (exit code 7): no such host"
    remedy = (
        f"see what this prints: {tmp_path}/mpirun -n 2 {sys.executable} -m decentorth doctor "
        "--ranks 0"
    )
    assert (findings["2 ranks"]["state"], findings["2 ranks"]["remedy"]) == ("fault", remedy)


@pytest.mark.slow
def test_a_launcher_that_tells_ranks_nothing(tmp_path: Path) -> None:
    starts = "shift 2\n" + '"$@" &\n' * 2 + "wait"
    code, _, findings = doctor(
        "--ranks", "2", path=launcher(tmp_path, "HYDRA build details", starts)
    )
    assert code == 1
    assert findings["2 ranks"]["state"] == "fault"
    assert "every rank ran alone" in findings["2 ranks"]["found"]


@pytest.mark.slow
@pytest.mark.ranks
def test_no_mpi_library() -> None:
    code, _, findings = doctor("--ranks", "0", MPI4PY_LIBMPI="/nonexistent/libmpi.so")
    assert code == 1
    assert findings["one process"]["state"] == "works"
    assert findings["MPI library"]["state"] == "fault"
    assert findings["MPI library"]["found"].startswith(
        "cannot load MPI library /nonexistent/libmpi.so: cannot open"
    )
    assert 'pip install "mpich>=5"' in findings["MPI library"]["remedy"]
    job = run_ranks(2, MODULE, settings={"MPI4PY_LIBMPI": "/nonexistent/libmpi.so"})
    assert job.returncode == 1
    assert (
        job.stdout.count("The main job does not work: mpirun -n 2 python -m decentorth.run") == 1
    ), job.report()


@pytest.mark.slow
@needs_mpi
def test_a_launcher_of_another_mpi_around_us() -> None:
    """Its variables are there, but the library is not its own: said before the library is started,
    which would end the process."""
    code, _, findings = doctor(OMPI_COMM_WORLD_SIZE="3", OMPI_COMM_WORLD_RANK="0")
    assert code == 1
    assert (
        findings["mpirun"]["found"] == "Open MPI's (OMPI_COMM_WORLD_SIZE=3), but mpi4py loads MPICH"
    )


@pytest.mark.slow
@needs_mpi
def test_launchers_that_start_tasks_but_no_ranks() -> None:
    step: dict[str, Any] = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}
    code, _, findings = doctor(**step)
    assert (code, findings["launcher"]["state"]) == (1, "fault")
    assert "SLURM_STEP_NUM_TASKS says that 4 tasks were started" in findings["launcher"]["found"]
    code, _, findings = doctor(**step, PMIX_RANK="0", PMIX_NAMESPACE="slurm")
    assert (code, findings["mpirun"]["state"]) == (1, "fault")
    assert "srun --mpi=pmi2" in findings["mpirun"]["found"]


@pytest.mark.parametrize("flags", [["--ranks", "-1"], ["--ranks", "1000000"], ["now"]])
def test_bad_input(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith("decentorth doctor: ")) == ("", True)


def test_whose_an_mpi_is() -> None:
    assert (
        family("MPICH Version:      5.0.2")
        == family("HYDRA build details:\n    Version: 5.0.2")
        == "MPICH"
    )
    assert (
        family("Open MPI v5.0.11, package: Open MPI")
        == family("mpirun (Open MPI) 4.1.4")
        == "Open MPI"
    )
    assert family("Intel(R) MPI Library 2021.18 for Linux* OS") == "Intel MPI"
    assert family("GNU bash, version 5.2") == ""
    together = [
        belong_together(*pair)
        for pair in (("MPICH", "Intel MPI"), ("Open MPI", "MPICH"), ("MPICH", "Open MPI"))
    ]
    assert together == [True, False, False]


def test_states_of_versions_and_machines() -> None:
    versions = [
        library_finding(Library("MPICH", f"MPICH Version: {version}")).state
        for version in ("4.3.2", "10.0.0")
    ]
    assert versions == ["warning", "works"]
    first = {"host": "a", "arithmetic": ["Xeon", "2.4.6"]}
    assert agreement([first] * 3).state == "works"
    said = agreement([first, {"host": "b", "arithmetic": ["EPYC", "2.4.6"]}])
    assert (said.state, "rank 1 has EPYC on b, unlike rank 0 on a" in said.found) == (
        "warning",
        True,
    )


@needs_mpi
def test_too_little_shared_memory_is_said_in_one_line() -> None:
    first = next(job_findings(library(), 10**12))
    assert (first.what, first.state) == ("/dev/shm", "warning")
    assert "1000000000000 ranks need about 6000000000000 MB" in first.found


@pytest.mark.slow
def test_threads_of_the_environment_are_named() -> None:
    job = run_ranks(0, [*MODULE, "--ranks", "0"], settings={"OPENBLAS_NUM_THREADS": "2"})
    assert "unset OPENBLAS_NUM_THREADS" in job.stdout or os.cpu_count() == 1


def test_the_verdict_stands_on_faults_alone() -> None:
    findings = [
        Finding("a", "works", "x" * 300),
        Finding("b", "warning", "slow", "faster"),
        Finding("c", "note", "known"),
    ]
    assert works(findings)
    assert text(findings, "go").endswith("\nThe main job works: go")
    assert max(map(len, text(findings, "go").splitlines())) <= 120
    broken = [*findings, findings[0]._replace(state="fault")]
    assert text(broken, "go").endswith("\nThe main job does not work: go")
    alone = [*broken, Finding("one process", "works", "20 iterations")]
    assert text(alone, "go").endswith("go\nRuns in one process work: decentorth run")
