"""The command line with a problem at whose moments something happens: ``python
tests/support/eventful.py RANK EVENTS words...``.

EVENTS are ``moment:event`` with commas between them. Moments are ``start`` (the problem is made),
``loop`` (the 300th gradient of the rank) and ``end`` (the points are about to be written). An event
is a signal that the process sends itself, or one of the table below. The folder is the last word.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

import decentorth as do
from decentorth.commands.run.command import main
from decentorth.problems import FunctionProblem
from decentorth.protocols import Array
from decentorth.records.run_files import hold
from decentorth.sets import Stiefel

LOOP = 300
RANK, MOMENTS, OUT = int(sys.argv[1]), sys.argv[2].split(","), Path(sys.argv[-1])
asked = 0
held: list[IO[bytes]] = []


def remove() -> None:
    """Somebody removes the folder."""
    shutil.rmtree(OUT)


def replace() -> None:
    """Somebody removes the folder, and another run takes its place."""
    remove()
    held.append(hold(OUT))


def fill() -> None:
    """The disk has no room for the final points; that of temporary files has."""
    (OUT / f".final.npz.{os.getpid()}.part").symlink_to("/dev/full")


def strip() -> None:
    """Somebody removes the folder ``rows`` beside the run's folder, and a file takes its place."""
    rows = OUT.with_name("rows")
    shutil.rmtree(rows)
    rows.touch()


def block() -> None:
    """Somebody takes the name of the folder of checkpoints."""
    shutil.rmtree(OUT / "checkpoints", ignore_errors=True)
    (OUT / "checkpoints").touch()


EVENTS: dict[str, Callable[[], None]] = {
    "remove": remove,
    "replace": replace,
    "fill": fill,
    "strip": strip,
    "block": block,
}


def meet(moment: str) -> None:
    """What happens at this moment."""
    for event in MOMENTS if do.connect().rank == RANK else ():
        when, _, what = event.partition(":")
        if when == moment:
            EVENTS.get(what, lambda what=what: os.kill(os.getpid(), signal.Signals[what]))()


class Eventful(FunctionProblem[Stiefel]):
    """-1/2 ||A x||^2 for each agent."""

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The point; called before the run, and where it is written."""
        if asked >= LOOP:
            meet("end")
        return super().unpack(x)


@do.register("eventful", kind="problem")
@dataclass(frozen=True)
class Settings:
    """A problem at whose moments something happens."""

    def problem(self, n_agents: int, seed: int) -> Eventful:
        """One for so many agents."""
        meet("start")
        data = np.random.default_rng(seed).standard_normal((n_agents, 8, 6)) / 4.0

        def value(agent: int, x: Array) -> float:
            return -0.5 * float(((data[agent] @ x) ** 2).sum())

        def gradient(agent: int, x: Array) -> Array:
            global asked
            asked += 1
            if asked == LOOP:
                meet("loop")
            return -data[agent].T @ (data[agent] @ x)

        return Eventful(value, gradient, Stiefel(6, 2), n_agents)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever started this
    method = []
    if "--algorithm" not in sys.argv:
        method = ["--algorithm", "drfgt"]
    sys.argv[1:3] = ["--problem", "eventful", "--step-size", "0.05", *method]
    sys.exit(main())
