"""The command ``decentorth`` (and ``python -m decentorth``): every command of the package under one
name.

A command is imported when it is asked for, and has the exit codes that its own module documents.
Without one: 0, or 2 for a word that is no command.
"""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pkgutil import resolve_name

from topologies.line.words import nearest

from ._version import __version__
from .process import environment as _mpienv
from .process.printing import BAD_INPUT, FAULT, complain, discard, say

_AT = "decentorth.commands"
_LAB = "decentorth.lab"
COMMANDS = {
    "demo": (f"{_LAB}.demo:main", "Run a small example and open a page that plays it."),
    "run": ("decentorth.run:main", "Run a method on a problem; under mpirun, on MPI ranks."),
    "compare": (
        f"{_LAB}.compare.command:main",
        "Compare methods on the same problems, graphs and seeds.",
    ),
    "replay": (
        "decentorth.families.asynchronous.replay:main",
        "Repeat an asynchronous run from its log.",
    ),
    "plot": (f"{_LAB}.plot.command:main", "Draw the figures of runs."),
    "study": (f"{_LAB}.study.command:main", "Repeat a study of graphs, averaging or DRFGT."),
    "theory": (
        f"{_LAB}.theory.command:main",
        "Print the constants and guaranteed steps of paper 004.",
    ),
    "graph": ("topologies.command:command", "Measure or draw a graph and its mixing matrix."),
    "doctor": (f"{_LAB}.doctor.command:main", "Test this machine, and print remedies."),
    "sites": (
        f"{_AT}.sites.command:main",
        "Make the folders of a run between institutions, or try one here.",
    ),
    "new": (
        f"{_AT}.new.command:main",
        "Write a file for your own method or problem, and its test.",
    ),
    "launch": (f"{_AT}.launch:main", "Print a script for Slurm, several hosts or this machine."),
    "list": (f"{_AT}.listing:main", "List problems, algorithms, graphs, weights or faults."),
}
"""The function of each command, and a sentence about it."""
_COMPLETION = "--install-completion"
_INTERRUPTED, _NO_READER = 130, 141
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The errors of a file that takes no more."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, by default those of this process, and return its
    exit code."""
    _mpienv.prepare_command()
    try:
        code = _command(tokens)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        discard(sys.stdout)
        return _NO_READER
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        discard(sys.stdout)
        complain(f"decentorth: cannot write to standard output ({error.strerror})")
        return FAULT
    if code == _INTERRUPTED:
        # a second interruption no longer changes the exit code
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _command(tokens: Sequence[str] | None) -> int:
    words = list(tokens or ())
    if tokens is None:
        words = sys.argv[1:]
    root = _mpienv.rank() == 0
    if not words or words[0] in ("--help", "-h"):
        return say(_help(), root)
    if words[0] == "--version":
        return say(f"decentorth {__version__}", root)
    if words[0] == "--complete":
        answer: Callable[[Iterable[str]], int] = resolve_name(f"{_AT}.completion:answer")
        return answer(COMMANDS)
    name = words[0]
    if name not in COMMANDS and name != _COMPLETION:
        hint = f"there are {', '.join(COMMANDS)}"
        if near := nearest(name, COMMANDS):
            hint = f"did you mean {near}?"
        if root:
            complain(f"decentorth: no command is called {name!r:.80}; {hint}")
        return BAD_INPUT
    try:
        place, _ = COMMANDS.get(name, (f"{_AT}.completion:install", ""))
        command: Callable[[Sequence[str] | None], int] = resolve_name(place)
        if tokens is not None or name == _COMPLETION:
            return command(words[1:])
        if name == "run" and sys.platform != "win32":
            # as the command does, once it is imported
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        sys.argv = [f"decentorth {name}", *words[1:]]
        return command(None)
    except KeyboardInterrupt:  # while the command was imported; later ones are its own affair
        if root:
            complain("decentorth: interrupted")
        return _INTERRUPTED


def _help() -> str:
    lines = ["Usage: decentorth COMMAND [flags]", "", "Commands"]
    lines += [f"  {name:<22}{about}" for name, (_, about) in COMMANDS.items()]
    lines += [
        "",
        "Flags",
        f"  {'--version':<22}Print the version.",
        f"  {_COMPLETION:<22}Let this shell complete commands and flags.",
    ]
    return "\n".join([*lines, "", "decentorth COMMAND --help describes a command."])


if __name__ == "__main__":
    sys.exit(main())
