"""``python -m decentorth.run``: one run from the command line, in this process or, under
``mpirun``, on MPI ranks.

Exit codes: 0 converged, all iterations done, or an objective said to have no minimum, 1 a fault, 2
bad input, 3 diverged or left the safety region, 4 not converged with ``--require-converged``, 130
interrupted (Ctrl-C), 141 standard output was closed, 143 ended by SIGTERM, SIGHUP or SIGUSR2.
`docs/running.md` says what each leaves.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from topologies.line.flags import InputError, arguments

from ...network.transport.communicator import Communicator
from ...process.printing import say
from ..line.config import Command
from ..line.shell import alone, read_configuration, serve


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code.

    Parameters
    ----------
    tokens
        The arguments; by default those of this process, which from then on ignores SIGUSR1 where no
        run takes it.
    """
    if tokens is None and sys.platform != "win32":
        # it asks for a checkpoint, and nothing happens where none can be written
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    words = arguments(tokens)
    if any(word.partition("=")[0] == "--join" for word in words):
        return alone(words, _join, name="decentorth")
    return serve(words, Command, _run, name="decentorth")


def _join(words: list[str]) -> int:
    """Take part in a run of sites."""
    try:
        from ..sites.joining import main as join
    except ImportError as error:
        raise InputError(f"--join needs {error.name}: pip install nats-py cryptography") from None
    return join(words)


def _run(words: Sequence[str], communicator: Communicator) -> int:
    configuration = read_configuration(Command, words, communicator)
    if configuration.run.print_config:
        return say(configuration.yaml(outputs=True), communicator.rank == 0)
    from .execution import run

    return run(words, configuration, communicator)
