"""The command ``python -m decentorth.theory``: every constant of paper 004 for a problem and a graph, beside practical steps.

The flags are those of ``python -m decentorth.run`` for the problem, the network and the algorithm, and those of
`TheorySettings`; the safety region is the ``eps`` of DRFGT.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..cli.config import Command, Configuration
from ..cli.flags import HELP, InputError, take
from ..cli.progress import SettingUp
from ..cli.settings import NETWORK
from ..cli.shell import REFUSALS, alone, read_configuration, say, show_help
from ..network.transport.communicator import SerialCommunicator
from ..settings import Count, Settings, settings


@dataclass(frozen=True)
class TheorySettings(Settings):
    """The settings of the theory command.

    Parameters
    ----------
    measure : int
        Also make this many iterations with the practical step, and as many with the guaranteed one, and print the bounds beside
        what was measured.
    """

    measure: Count | None = None


class TheoryForm(Command):
    """The flags of a run that the theory uses; a file of a run may have the others."""

    program = "decentorth theory"
    summary = (
        "Print the constants and guaranteed steps of paper 004 for a smooth problem on the Stiefel manifold, a network and a step "
        "of DRFGT (published, given, or auto); the settings are those of decentorth.run."
    )
    own: ClassVar = {name: Command.own[name] for name in ("problem", "seed", "algorithm", *NETWORK, "plugin", "config")}
    output = ("config",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.file = {name: value for name, value in self.file.items() if name in self.own or name not in Command.own}
        self.groups = {"Theory": settings(TheorySettings), **self.groups}


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code: 0, or 2 with the reason on standard error."""
    return alone(tokens, _print, name="decentorth.theory", refused=REFUSALS)


def _print(words: Sequence[str]) -> int:
    asked, rest = take(TheorySettings, [word for word in words if word not in HELP])
    if HELP & set(words):
        return show_help(TheoryForm, rest)
    for line in report(read_configuration(TheoryForm, rest, SerialCommunicator()), asked):
        say(line)
    return 0


def report(configuration: Configuration, asked: TheorySettings) -> Iterator[str]:
    """The lines for one configuration; ValueError for an algorithm other than DRFGT, and a problem that is not the paper's."""
    import numpy as np

    from topologies import WeightSequence

    from ..algorithms import DRFGT
    from ..api import Run, set_up
    from ..cli import wiring
    from ..network.collective import AgentCollective
    from ..numerics.threads import one_thread
    from ..problems import Deferred
    from .constants import check_problem, constants
    from .measured import measure
    from .report import beside, table

    if type(configuration.algorithm) is not DRFGT:
        raise InputError(f"paper 004 is about drfgt, not {configuration.run.algorithm}; leave --algorithm out")
    with SettingUp(True):
        W, origin = wiring.make(configuration.run)
    if isinstance(W, WeightSequence):
        raise InputError("paper 004 is about a fixed W, not a time-varying network: take a graph, such as --topology ring")

    def run(algorithm: Any) -> Run:
        return set_up(problem, algorithm, W, seed=configuration.run.seed, comm=SerialCommunicator())

    with SettingUp(True):
        problem, n = configuration.problem.problem(configuration.run.agents, configuration.run.seed), configuration.run.agents
        if isinstance(problem, Deferred):
            with one_thread():
                problem = problem.build(slice(0, n), AgentCollective(SerialCommunicator(), np.array([0, n])))
        check_problem(problem)
        practical: Any = run(configuration.algorithm)
        state = next(itertools.islice(practical.states(), 1))
        step, penalty = float(state.step_size.mean()), float(state.penalty.mean())
        second, smallest = practical.network.spectrum
        sigma = max(second, -smallest)
        found = constants(practical.problem, sigma, smallest, penalty, configuration.algorithm.eps, seed=configuration.run.seed)
    given = configuration.algorithm.step_size
    name = "the published step" if configuration.published else "the auto step" if given == "auto" else "the given step"
    shape = " x ".join(map(str, practical.problem.shape))
    yield f"{configuration.run.problem}, x is {shape}, {configuration.run.agents} agents, {origin}"
    yield from table(found, step, name)
    if practical.algorithm.order != "combine-then-adapt":
        yield f"(the practical step is for {practical.algorithm.order}; the paper's order is combine-then-adapt)"
    if asked.measure is not None:
        own = replace(practical.algorithm, step_size=step, penalty=penalty)
        least = replace(own, step_size=found.guaranteed, order="combine-then-adapt")
        yield from beside(measure(run(own), found, asked.measure), step, guaranteed=step <= found.guaranteed)
        yield from beside(measure(run(least), found, asked.measure), found.guaranteed, guaranteed=True)


if __name__ == "__main__":
    sys.exit(main())
