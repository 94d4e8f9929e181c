"""The command ``python -m decentorth theory``: every constant of paper 004 for a problem and a graph, beside practical steps.

The flags are those of ``python -m decentorth.run`` for the problem, the network and the algorithm, and those of
`TheorySettings`; the safety region is the ``eps`` of DRFGT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from topologies.flags import HELP, InputError, take

from ...network.transport.communicator import SerialCommunicator
from ...process.printing import say
from ...records.progress import SettingUp
from ...settings import Count, Settings, settings
from ..line.config import Command, Configuration
from ..line.settings import NETWORK
from ..line.shell import REFUSALS, alone, read_configuration, show_help


@dataclass(frozen=True)
class TheorySettings(Settings):
    """The settings of the theory command.

    Parameters
    ----------
    measure : int
        Also run this many iterations with the practical and with the guaranteed step, and print the measured values
        beside the bounds.
    """

    measure: Count | None = None


class TheoryForm(Command):
    """The flags of a run that the theory uses; a file of a run may have the others."""

    program = "decentorth theory"
    summary = (
        "Print the constants and guaranteed steps of paper 004, for a smooth problem on the Stiefel manifold, a network and a "
        "step of DRFGT. The settings are those of decentorth run."
    )
    own: ClassVar = {name: Command.own[name] for name in ("problem", "seed", "algorithm", *NETWORK, "plugin", "config")}
    output = ("config",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.file = {name: value for name, value in self.file.items() if name in self.own or name not in Command.own}
        self.groups = {"Theory": settings(TheorySettings), **self.groups}


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code: 0, or 2 with the reason on standard error."""
    return alone(tokens, _print, name="decentorth theory", refused=REFUSALS)


def _print(words: Sequence[str]) -> int:
    asked, rest = take(TheorySettings, [word for word in words if word not in HELP])
    if HELP & set(words):
        return show_help(TheoryForm, rest)
    for line in report(read_configuration(TheoryForm, rest, SerialCommunicator()), asked):
        say(line)
    return 0


def report(configuration: Configuration, asked: TheorySettings) -> Iterator[str]:
    """The lines for one configuration; ValueError for an algorithm other than DRFGT, and a problem that is not the paper's."""
    from topologies import WeightSequence

    from ...algorithms import DRFGT
    from ...api import Run, set_up
    from ...theory.constants import constants
    from ...theory.measured import measure
    from ..line import wiring
    from .report import beside, table

    settings, method = configuration.run, configuration.algorithm
    n, seed = settings.agents, settings.seed
    if type(method) is not DRFGT:
        raise InputError(f"paper 004 is about drfgt, not {settings.algorithm}; leave --algorithm out")
    with SettingUp(True):
        W, origin = wiring.make(settings)
    if isinstance(W, WeightSequence):
        repair = "take a graph, such as --topology ring"
        raise InputError(f"paper 004 is not about a time-varying network: {repair}")

    def run(algorithm: Any) -> Run:
        return set_up(problem, algorithm, W, seed=seed, comm=SerialCommunicator())

    with SettingUp(True):
        problem = _problem(configuration)
        practical: Any = run(method)
        state = next(practical.states())
        step, penalty = float(state.step_size.mean()), float(state.penalty.mean())
        second, smallest = practical.network.spectrum
        sigma = max(second, -smallest)
        found = constants(practical.problem, sigma, smallest, penalty, method.eps, seed=seed)
    name = "the given step"
    if method.step_size == "auto":
        name = "the auto step"
    if configuration.published:
        name = "the published step"
    shape = " x ".join(map(str, practical.problem.shape))
    yield f"{settings.problem}, x is {shape}, {n} agents, {origin}"
    yield from table(found, step, name)
    order = practical.algorithm.order
    if order != "combine-then-adapt":
        yield f"(the practical step is for {order}; the paper's order is combine-then-adapt)"
    if asked.measure is not None:
        own = replace(practical.algorithm, step_size=step, penalty=penalty)
        least = replace(own, step_size=found.guaranteed, order="combine-then-adapt")
        for one in (own, least):
            measured = measure(run(one), found, asked.measure)
            yield from beside(measured, one.step_size, guaranteed=one.step_size <= found.guaranteed)


def _problem(configuration: Configuration) -> object:
    """The problem with the data of all agents, which must be one of the paper's."""
    import numpy as np

    from ...network.collective import AgentCollective
    from ...numerics.threads import one_thread
    from ...problems import Deferred
    from ...theory.constants import check_problem

    n = configuration.run.agents
    problem = configuration.problem.problem(n, configuration.run.seed)
    if isinstance(problem, Deferred):
        collective = AgentCollective(SerialCommunicator(), np.array([0, n]))
        with one_thread():
            problem = problem.build(slice(0, n), collective)
    check_problem(problem)
    return problem
