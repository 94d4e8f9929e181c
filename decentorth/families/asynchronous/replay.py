"""``decentorth replay FILE`` repeats the run of an asynchronous log in one process.

It ends with the same ``iterates_sha256``. The log has the run's settings; its data are read again.
Exit codes: 0 the same iterates, 1 others, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial

from decentorth.api import Options
from decentorth.commands.line.config import Command, Configuration
from decentorth.commands.line.shell import REFUSALS, one_line, serve, together
from decentorth.commands.run.execution import made
from decentorth.network import Communicator
from decentorth.process.printing import FAULT, complain, say
from decentorth.running.checkpoint.checkpoint_files import Json
from topologies.line.flags import HELP, InputError

from .log import read

USAGE = """Usage: decentorth replay FILE [--plugin FILE]

Repeat the run of an asynchronous method in one process, from the log that --log has written,
and compare the iterates."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code."""
    if tokens is None:
        tokens = sys.argv[1:]
    if not tokens or HELP & set(tokens):
        return say(USAGE)
    return serve(tokens, Command, _replay, name="decentorth")


def _replay(words: Sequence[str], communicator: Communicator) -> int:
    path, *flags = words
    if path.startswith("-"):
        raise InputError("give the log first, as in: decentorth replay run.log --plugin FILE.py")
    if flags and not flags[0].startswith("--plugin"):
        raise InputError(
            "replay takes a log and --plugin alone, since the log has the run's settings, got "
            f"{flags[0]!r:.80}"
        )
    header = together(communicator, lambda: _header(path))
    saved = {**header["settings"], "log": None, "schedule": path}
    configuration = together(communicator, partial(_resolved, path, flags, saved))
    run, origin = made(configuration, communicator)
    say(
        f"replays     {configuration.run.problem} on {origin}, "
        f"{configuration.algorithm.activations} activations of {run.network.n_agents} agents"
    )
    try:
        result = run.solve(Options(rows=2))
    except REFUSALS as error:
        raise InputError(one_line(error)) from error
    here = result.iterates_sha256
    there = header.get("iterates_sha256")
    if here != there:
        complain(
            f"decentorth: the iterates differ from those of {path}: iterates_sha256 is {here} "
            f"here, and {there!r:.80} there; give the same data, on the same type of machine"
        )
        return FAULT
    names = ("gradient_norm", "consensus_rms", "feasibility")
    measured = ", ".join(f"{name} {result.row.values[name]:.3g}" for name in names)
    return say(f"iterates_sha256 {here}, as in the log; {measured}")


def _header(path: str) -> Json:
    header = read(path).header
    if not (type(header.get("settings")) is dict and header["settings"]):
        raise ValueError(
            f"{path} was written in Python, without settings: solve its problem with "
            f"AsynchronousDRFGT(schedule={path!r})"
        )
    return header


def _resolved(path: str, flags: Sequence[str], saved: Mapping[str, object]) -> Configuration:
    form = Command(flags, None, b"", saved)
    form.path = path
    form.fixed = form.fixed_settings()
    return form.resolve()
