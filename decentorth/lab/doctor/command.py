"""The command ``python -m decentorth doctor``: an examination of the installation, with a remedy
for each fault.

Started alone it examines this process and starts ``mpirun -n 10`` on itself; started under a
launcher it examines the launched ranks. Exit codes: 0 the main job works, 1 it does not, 2 bad
input, 130 interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from topologies.line.flags import HELP, Parser, arguments, take

from ...commands.line.shell import framed
from ...network import connect
from ...process import environment as _mpienv
from ...process.printing import say
from ...settings import Range, Settings, settings
from .findings import Finding, text, works
from .host import host_findings, one_process
from .launcher import OWN, belong_together, job_findings, library, library_finding
from .ranks import rank_findings, torch_findings


@dataclass(frozen=True)
class DoctorSettings(Settings):
    """The settings of the doctor.

    Parameters
    ----------
    ranks : int
        Number of ranks to start; 0: none. Under a launcher its ranks are tested instead.
    json : bool
        Print one line of JSON.
    """

    ranks: Annotated[int, Range(least=0, most=1000)] = 10
    json: bool = False


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    _mpienv.prepare()
    return framed(lambda: _examined(arguments(tokens)), "decentorth doctor", together=False)


def _examined(words: Sequence[str]) -> int:
    """Print the findings; 0 if the main job works, else 1."""
    root = _mpienv.rank() == 0
    ranks, variable = _mpienv.expected_ranks()
    if HELP & set(words):
        summary = "Test packages, threads, MPI and the main job, and print remedies."
        parser = Parser({"Settings": settings(DoctorSettings)}, "decentorth doctor", summary)
        return say(parser.format_help(), root)
    asked, _ = take(DoctorSettings, words, alone=True)
    started = asked.ranks
    command = "python -m decentorth.run"
    if variable:
        started = ranks
    if started and _mpienv.torchrun():
        command = "torchrun --nproc-per-node N -m decentorth.run"
    elif started:
        command = f"mpirun -n {started} {command}"
    found: dict[str, Finding] = {}
    for finding in _findings(started, variable):
        found.setdefault(finding.what, finding)
    findings = list(found.values())
    report = text(findings, command)
    if asked.json:
        listed = [one._asdict() for one in findings]
        report = json.dumps({"works": works(findings), "ranks": ranks, "findings": listed})
    say(report, root)
    return int(not works(findings))


def _findings(ranks: int, variable: str) -> Iterator[Finding]:
    """The findings of this process and of its ranks; launched ranks other than 0 give only a
    failure to communicate."""
    if _mpienv.rank() == 0:
        yield from host_findings()
    if _mpienv.torchrun():
        yield from torch_findings()
        return
    if not variable:
        yield one_process()
        try:
            _mpienv.check_alone()
        except RuntimeError as error:
            yield Finding("launcher", "fault", str(error), f"start with {OWN}")
            return
    loaded = library()
    yield library_finding(loaded)
    if not loaded.family:
        return
    if not variable:
        if ranks > 0:
            yield from job_findings(loaded, ranks)
        return
    launcher = "Open MPI" if variable.startswith("OMPI") else "MPICH"
    remedy = f"start with its own launcher, {OWN}"
    if not belong_together(launcher, loaded.family):
        found = f"{launcher}'s ({variable}={ranks}), but mpi4py loads {loaded.family}"
        yield Finding("mpirun", "fault", found, remedy)
        return
    try:
        yield from rank_findings(connect())
    except RuntimeError as error:
        yield Finding("mpirun", "fault", str(error), remedy)
