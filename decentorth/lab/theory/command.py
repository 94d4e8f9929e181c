"""The command ``python -m decentorth theory``: every constant of paper 004 for a problem and a
graph, beside practical steps.

The flags are those of ``python -m decentorth.run`` for the problem, the network and the algorithm,
and those of `TheorySettings`; the safety region is the ``eps`` of DRFGT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from topologies.line.flags import HELP, take

from ...commands.line.config import Command
from ...commands.line.run_settings import NETWORK
from ...commands.line.shell import alone, read_configuration, show_help
from ...network.transport.communicator import SerialCommunicator
from ...process.printing import say
from ...settings import Count, Settings, settings


@dataclass(frozen=True)
class TheorySettings(Settings):
    """The settings of the theory command.

    Parameters
    ----------
    measure : int
        Also run this many iterations with the practical and with the guaranteed step, and print the
        measured values beside the bounds.
    """

    measure: Count | None = None


class TheoryForm(Command):
    """The flags of a run that the theory uses; a file of a run may have the others."""

    program = "decentorth theory"
    summary = (
        "Print the constants and guaranteed steps of paper 004, for a smooth problem on the "
        "Stiefel manifold, a network and a step of DRFGT. The settings are those of decentorth "
        "run."
    )
    first: ClassVar = {}
    own: ClassVar = {
        name: Command.own[name]
        for name in ("problem", "seed", "algorithm", *NETWORK, "plugin", "config")
    }
    output = ("config",)
    method = "drfgt"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.file = {
            name: value
            for name, value in self.file.items()
            if name in self.own or name not in Command.own
        }
        self.groups = {"Theory": settings(TheorySettings), **self.groups}


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code: 0, or 2 with the reason on standard error."""
    return alone(tokens, _print, name="decentorth theory")


def _print(words: Sequence[str]) -> int:
    asked, rest = take(TheorySettings, [word for word in words if word not in HELP])
    if HELP & set(words):
        return show_help(TheoryForm, rest)
    from .constants_report import report

    for line in report(read_configuration(TheoryForm, rest, SerialCommunicator()), asked.measure):
        say(line)
    return 0
