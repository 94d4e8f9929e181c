"""The findings on the MPI library that mpi4py loads, on ``mpirun``, and on a job of ranks started
with it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .findings import Finding

_ASK = "from mpi4py import MPI; print(MPI.Get_library_version())"
_PATIENCE = 120.0
"""The time limit of a job of ranks, in seconds."""
SHARED = 6_000_000
"""The bytes of shared memory that MPICH takes for a rank; without them its ranks crash."""
OWN = Path(sys.prefix) / "bin" / "mpirun"
"""The launcher of this environment, if there is one."""
_FAMILIES = {"Open MPI": "Open MPI|OpenRTE|PRRTE", "Intel MPI": "Intel", "MPICH": "MPICH|HYDRA"}
_NO_LIBRARY = 'pip install "mpich>=5", or leave mpirun out: one process gives the same bits'
_OPEN_MPI = (
    "Open MPI refuses root, and more ranks than cores, unless told: export "
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe; MPICH needs none of them"
)


class Library(NamedTuple):
    """The MPI library that mpi4py loads, or the reason why it does not load."""

    family: str
    """MPICH, Intel MPI or Open MPI; empty where there is none."""
    said: str


def family(words: str) -> str:
    """Return the MPI family named in the version text of a library or launcher; empty if
    unknown."""
    return next((name for name, mark in _FAMILIES.items() if re.search(mark, words)), "")


def belong_together(launcher: str, library: str) -> bool:
    """True if ``launcher`` can start ranks that use ``library``.

    Both are families. MPICH and Intel MPI share a protocol.
    """
    return (launcher == "Open MPI") == (library == "Open MPI")


def library() -> Library:
    """The library, queried without MPI_Init, which under a launcher of another family would end
    this process."""
    code, out, err = _ask(["env", "MPI4PY_RC_INITIALIZE=0", sys.executable, "-c", _ASK], 30.0)
    if code:
        reason = " ".join(err.rpartition("Error: ")[2].split())
        return Library("", reason[-480:] or "mpi4py gives no reason")
    first = " ".join(out.replace("\0", " ").splitlines()[0].split())
    return Library(family(out), first.partition(",")[0])


def library_finding(loaded: Library) -> Finding:
    """The finding on the library that mpi4py loads."""
    if not loaded.family:
        return Finding("MPI library", "fault", loaded.said, _NO_LIBRARY)
    if re.match(r"MPICH Version: [1-4]\.", loaded.said):
        return Finding(
            "MPI library",
            "warning",
            (
                f"{loaded.said}: before 5.0 it never gives a core away, 90 times slower with "
                "more ranks than cores"
            ),
            'pip install "mpich>=5"',
        )
    return Finding("MPI library", "works", loaded.said)


def _ask(command: Sequence[str], seconds: float) -> tuple[int, str, str]:
    """The exit code and the output of a command; a launcher that does not end is terminated, which
    ends its ranks."""
    try:
        pipe = subprocess.PIPE
        null = subprocess.DEVNULL
        streams: dict[str, Any] = {"stdin": null, "stdout": pipe, "stderr": pipe}
        with subprocess.Popen(command, text=True, errors="replace", **streams) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.terminate()
                out, err = process.communicate(timeout=10)
                err = f"{err}\nnot ended after {seconds:.0f} seconds"
            return process.returncode, out, err
    except OSError as error:
        return 127, "", f"cannot start {command[0]}: {error.strerror}"


def job_findings(loaded: Library, ranks: int) -> Iterator[Finding]:
    """The findings on shared memory, on ``mpirun`` on PATH, and of ``ranks`` ranks started with
    it."""
    if Path("/dev/shm").is_dir() and (free := shutil.disk_usage("/dev/shm").free) < ranks * SHARED:
        remedy = "remove files that are left there, or start the container with --shm-size=1g"
        yield Finding(
            "/dev/shm",
            "warning",
            (
                f"{free / 1000000.0:.0f} MB are free, and {ranks} ranks need about "
                f"{ranks * SHARED / 1000000.0:.0f} MB"
            ),
            remedy,
        )
    found = shutil.which("mpirun")
    remedy = f"put the launcher of {loaded.family} first on PATH"
    if OWN.is_file():
        remedy = f"source {sys.prefix}/bin/activate, or call {OWN}"
    if found is None:
        yield Finding("mpirun", "fault", "not on PATH", remedy)
        return
    launcher = family("".join(_ask([found, "--version"], 30.0)[1:]))
    if launcher and not belong_together(launcher, loaded.family):
        yield Finding(
            "mpirun",
            "fault",
            (
                f"{found} is of {launcher}, but mpi4py loads {loaded.family}: every rank would "
                "run alone, or end"
            ),
            remedy,
        )
        return
    yield Finding("mpirun", "works", f"{found} ({launcher or 'of an unknown MPI'})")
    yield from _on_ranks(found, ranks)


def _on_ranks(mpirun: str, ranks: int) -> Iterator[Finding]:
    words = [mpirun, "-n", str(ranks), sys.executable, "-m", "decentorth", "doctor", "--ranks", "0"]
    code, out, err = _ask([*words, "--json"], _PATIENCE)
    reports = [json.loads(line) for line in out.splitlines() if line.startswith('{"works"')]
    if len(reports) == 1 and reports[0]["ranks"] == ranks:
        yield from (Finding(**finding) for finding in reports[0]["findings"])
        return
    how = f"exit code {code}"
    if reports and not code:
        how = "every rank ran alone"
    remedy = f"see what this prints: {' '.join(words)}"
    if re.search("run as root|enough slots", err + out):
        remedy = _OPEN_MPI
    said = " ".join((err + out).split())
    yield Finding(f"{ranks} ranks", "fault", f"the job failed ({how}): {said[-480:]}", remedy)
