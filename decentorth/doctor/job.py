"""The first iterations of the main job, in one process or on the launched ranks."""

from __future__ import annotations

from typing import Any

from ..api import Options, set_up
from ..cli import wiring
from ..cli.config import Command
from ..network import connect

ITERATIONS = 20


def short_run(comm: Any, agents: int) -> str:
    """The SHA-256 of the points after the first iterations of ``python -m decentorth.run --agents agents``."""
    communicator = connect(comm)
    configuration = Command(["--agents", str(agents)]).resolve()
    settings = configuration.run
    W = wiring.share(settings, wiring.make(settings) if communicator.rank == 0 else None, communicator).W
    problem = configuration.problem.problem(settings.agents, settings.seed)
    run = set_up(problem, configuration.algorithm, W, seed=settings.seed, comm=communicator)
    return run.solve(Options(iterations=ITERATIONS)).iterates_sha256
