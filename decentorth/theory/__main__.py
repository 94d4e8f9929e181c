"""``python -m decentorth.theory``: every constant of paper 004 for a problem and a graph, and how far practice is from them.

The flags are those of ``python -m decentorth.run``, and those of `TheorySettings`; the safety region is the ``eps`` of DRFGT.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import _mpienv
from ..cli.config import Command, Configuration, config_flag
from ..cli.flags import InputError, help_text, settings, take_flags

SUMMARY = (
    "Print the constants and guaranteed steps of paper 004 for a problem, a network and a step of DRFGT (published, given, or "
    "auto); the settings are those of decentorth.run."
)


@dataclass(frozen=True)
class TheorySettings:
    """What is asked of the theory.

    Parameters
    ----------
    measure : int
        Also make this many iterations with the practical step, and as many with the guaranteed one, and print the bounds beside
        what was measured.
    """

    measure: int | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises
        ------
        ValueError
            There is no iteration to measure.
        """
        if self.measure is not None and self.measure < 1:
            raise ValueError(f"measure must be at least 1, got {self.measure}")


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the arguments say: 0, or 2 with the reason on standard error."""
    words = list(sys.argv[1:] if tokens is None else tokens)
    if _mpienv.rank() > 0:
        return 0
    try:
        asked, rest = take_flags([word for word in words if word not in ("--help", "-h")], TheorySettings)
        path = config_flag(rest)
        command = Command(rest, path, b"" if path is None else Path(path).read_bytes())
        if {"--help", "-h"} & set(words):
            groups = {"Theory": settings(TheorySettings), **command.groups}
            lines = iter([help_text(groups, "python -m decentorth.theory", SUMMARY)])
        else:
            lines = report(command.resolve(), asked)
        for line in lines:
            sys.stdout.write(line.rstrip() + "\n")
            sys.stdout.flush()
    except (InputError, ValueError, TypeError, OSError) as error:
        sys.stderr.write(f"decentorth.theory: {' '.join(str(error).split())}\n")
        return 2
    return 0


def report(configuration: Configuration, asked: TheorySettings) -> Iterator[str]:
    """The lines for one configuration.

    Raises
    ------
    InputError
        For another algorithm than DRFGT.
    """
    from topologies import WeightSequence

    from ..algorithms import DRFGT
    from ..api import Run
    from ..cli import wiring
    from ..network.communicator import SerialCommunicator
    from .constants import constants
    from .measured import measure
    from .report import beside, table

    if type(configuration.algorithm) is not DRFGT:
        raise InputError(f"paper 004 is about drfgt, not {configuration.run.algorithm}; leave --algorithm out")
    W, origin = wiring.make(configuration.run)
    if isinstance(W, WeightSequence):
        raise InputError("paper 004 is about a fixed W, not a time-varying network")

    def run(algorithm: Any) -> Run:
        problem = configuration.problem.problem(configuration.run.agents, configuration.run.seed)
        return Run(problem, algorithm, W, seed=configuration.run.seed, comm=SerialCommunicator())

    practical = run(configuration.algorithm)
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
