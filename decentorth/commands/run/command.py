"""``python -m decentorth.run``: one run from the command line, in this process or, under ``mpirun``, on MPI ranks.

Exit codes: 0 converged, all iterations done, or an objective said to have no minimum, 1 a fault, 2 bad input, 3 diverged or left
the safety region, 4 not converged with ``--require-converged``, 130 interrupted (Ctrl-C), 141 standard output was closed,
143 ended by SIGTERM, SIGHUP or SIGUSR2. `docs/running.md` says what each leaves.
"""

from __future__ import annotations

import contextlib
import math
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from topologies.flags import InputError

from ...process.abort import patience
from ...process.printing import say
from ..line.config import Command
from ..line.settings import RunSettings
from ..line.shell import REFUSALS, one_line, read_configuration, serve, together

if TYPE_CHECKING:
    from ...network.transport.communicator import Communicator


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code.

    Parameters
    ----------
    tokens
        The arguments; by default those of this process, which from then on ignores SIGUSR1 where no run takes it.
    """
    if tokens is None and sys.platform != "win32":
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # it asks for a checkpoint, and nothing happens where none can be written
    return serve(tokens, Command, _run, name="decentorth")


def _run(words: Sequence[str], communicator: Communicator) -> int:
    configuration = read_configuration(Command, words, communicator)
    settings, root = configuration.run, communicator.rank == 0
    if settings.print_config:
        return say(configuration.yaml(outputs=True), root)
    communicator.watch(patience("rank_timeout", settings.rank_timeout), math.inf)
    together(communicator, lambda: _check_early(settings, communicator))

    from ...records.progress import SettingUp
    from .execution import Execution, made, stopping_rule
    from .output import RunOutput, opening

    sized = settings.dry_run and not settings.check_gradient
    with SettingUp(root and not settings.quiet):
        run, origin = made(configuration, communicator, sized)
    agreement = together(communicator, lambda: run.agreement(stopping_rule(settings), settings.resume is None))
    lines = []
    if root:
        lines = opening(configuration, run, origin, agreement)
    if settings.check_gradient:
        try:
            lines.append(f"gradient    {run.check_gradient()!r}")
        except REFUSALS as error:
            raise InputError(one_line(error)) from error
    if settings.dry_run:
        from .dryrun import report

        return say("\n".join([*lines, *report(run)]), root)
    with contextlib.closing(RunOutput(configuration, run)) as output:
        return Execution(words, configuration, run, output).execute(lines)


def _check_early(settings: RunSettings, communicator: Communicator) -> None:
    from ...network.halo import even_bounds
    from ...records.files import refuse_existing, refuse_foreign

    if settings.spread_samples is None:
        if settings.agents == 1 < communicator.size:
            remedy = f"spread its samples over them with --spread-samples {communicator.size} or more"
            raise InputError(f"{communicator.size} ranks for one agent: start one rank, or {remedy}")
        even_bounds(settings.agents, communicator.size)
    if communicator.rank > 0:
        return
    if settings.out is not None and not settings.dry_run:
        if not (settings.overwrite or settings.continues):
            refuse_existing(settings.out)
        refuse_foreign(settings.out)
    if settings.record:
        from .output import check_recorder

        for place in settings.record:
            check_recorder(place)
    if settings.plot:
        from ...records.figures import check_matplotlib

        check_matplotlib(", or leave --plot out")
