"""The command ``python -m decentorth.doctor``: an examination of the installation, with a remedy for each fault.

Started alone it examines this process and starts ``mpirun -n 10`` on itself; started under a launcher it examines the launched
ranks. Exit codes: 0 the main job works, 1 it does not, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from ..cli.flags import HELP, InputError, Parser, take
from ..cli.shell import BAD_INPUT, INTERRUPTED, say
from ..process import environment as _mpienv
from ..settings import Range, Settings, settings
from .findings import Finding, text, works


@dataclass(frozen=True)
class DoctorSettings(Settings):
    """The settings of the doctor.

    Parameters
    ----------
    ranks : int
        How many ranks are started, none with 0; under a launcher those it has started are examined instead.
    json : bool
        Print one line of JSON.
    """

    ranks: Annotated[int, Range(least=0, most=1000)] = 10
    json: bool = False


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    words = list(sys.argv[1:] if tokens is None else tokens)
    _mpienv.prepare()
    root = _mpienv.rank() == 0
    try:
        if HELP & set(words):
            summary = "Say what works here, with a remedy for what does not: packages, MPI, cores, speed, and the main job itself."
            return say(Parser({"Settings": settings(DoctorSettings)}, "decentorth doctor", summary).format_help(), root)
        asked = take(DoctorSettings, words, alone=True)[0]
        ranks, variable = _mpienv.expected_ranks()
        findings: dict[str, Finding] = {}
        for finding in _launched() if variable else _alone(asked.ranks):
            findings.setdefault(finding.what, finding)
    except InputError as error:
        if root:
            sys.stderr.write(f"decentorth.doctor: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    said = list(findings.values())
    fine = works(said)
    if asked.json:
        say(json.dumps({"works": fine, "ranks": ranks, "findings": [finding._asdict() for finding in said]}), root)
    else:
        started = ranks if variable else asked.ranks
        say(text(said, f"{f'mpirun -n {started} ' if started else ''}python -m decentorth.run"), root)
    return 0 if fine else 1


def _alone(ranks: int) -> Iterator[Finding]:
    from .host import host_findings, one_process
    from .launcher import job_findings, library, library_finding

    yield from host_findings()
    yield one_process()
    loaded = library()
    yield library_finding(loaded)
    if ranks > 0:
        yield from job_findings(loaded, ranks)


def _launched() -> Iterator[Finding]:
    """The findings of the launched ranks; ranks other than 0 give only a failure to communicate."""
    from ..network import connect
    from .host import host_findings
    from .launcher import belong_together, library, library_finding
    from .ranks import rank_findings

    if _mpienv.rank() == 0:
        yield from host_findings()
    loaded = library()
    ranks, variable = _mpienv.expected_ranks()
    launcher = "Open MPI" if variable.startswith("OMPI") else "MPICH"
    yield library_finding(loaded)
    if not loaded.family:
        return
    if not belong_together(launcher, loaded.family):
        remedy = f"start with its own launcher, {sys.prefix}/bin/mpirun"
        yield Finding("mpirun", "fault", f"{launcher}'s ({variable}={ranks}), but mpi4py loads {loaded.family}", remedy)
        return
    try:
        communicator = connect()
    except RuntimeError as error:
        yield Finding("mpirun", "fault", str(error), f"start with {sys.prefix}/bin/mpirun")
        return
    yield from rank_findings(communicator)


if __name__ == "__main__":
    sys.exit(main())
