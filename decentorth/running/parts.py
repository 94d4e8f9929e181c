"""The parts of a run that stay as they are, and the states that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..protocols import (
    SETUP,
    Algorithm,
    Array,
    Collective,
    Completing,
    Observed,
    Problem,
    S,
    Streams,
)
from .checkpoint import CheckpointWriter
from .metrics import RUNAWAY, first_runaway

Method = Algorithm[Any, Any]
"""A method for problems of any kind, whatever its state."""


def _shape(x: Any) -> tuple[int, ...]:
    """The shape of an array here or on a device, or of a tuple that was taken for one."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


@dataclass(frozen=True)
class Parts:
    """The parts of a run that stay as they are."""

    repeats: ClassVar[bool] = True
    """True if iterations can be made again, from a copy of the points."""

    problem: Problem[Any]
    algorithm: Method
    network: Any
    collective: Collective
    streams: Streams
    start: Array
    stepper: Any
    """The algorithm, with the faults of agents around it on an unreliable network."""
    counted: Collective | None = None
    """The sums with which rows are made where they are messages between agents."""

    @property
    def by_messages(self) -> bool:
        """True if sums over the agents take counted messages, which the end of a run must spare."""
        return self.counted is not None

    @property
    def x0(self) -> Array:
        """The start of this process's agents, ``(n_local, *shape)``; a new array each time."""
        return np.repeat(self.start[None], self.network.n_local, axis=0)

    @property
    def size(self) -> float:
        """The norm of the start, the same on every rank; 1 for a start at zero. All ranks ask."""
        return self.collective.max(float(np.linalg.norm(self.start))) or 1.0

    def steps(self, state: Any = None) -> Iterator[Any]:
        """The states, from the initial one or ``state`` on, without an end, as the steps leave
        them.

        `completed` gives their points. A state is valid until the next one is asked for. Raises
        ValueError if the first step returns x of another shape.
        """
        problem = self.problem
        network = self.network
        streams = self.streams
        spare = min(8 * network.n_local * self.start.nbytes, _KEPT)
        np.empty(spare, np.uint8)  # freed at once, see _KEPT
        if state is None:
            SETUP.info("the first state: automatic steps")
            state = self.stepper.init(problem, network, streams, self.x0)
        yield state
        shape = _shape(state.x)
        state = self.stepper.step(problem, network, streams, state)
        if _shape(state.x) != shape:
            raise ValueError(
                f"step returned x of shape {_shape(state.x)}, and {shape} is needed; "
                "network.mix returns a tuple: (x,) = network.mix(x)"
            )
        while True:
            yield state
            state = self.stepper.step(problem, network, streams, state)

    def completed(self, state: S) -> S:
        """The state with its point x, which some methods compute only when it is recorded."""
        if not isinstance(self.stepper, Completing):
            return state
        found: S = self.stepper.completed(self.problem, state)
        return found

    def states(self, state: object = None) -> Iterator[Any]:
        """The states of `steps`, with their points."""
        steps = self.steps(state)
        return map(self.completed, steps) if isinstance(self.stepper, Completing) else steps

    def written_by(self, writer: CheckpointWriter, state: Observed) -> None:
        """Let the parts write checkpoints of their own beside the writer's."""

    def runaway(self, values: Array, bound: float = RUNAWAY) -> int | None:
        """The first agent with values that are not finite, or beyond ``bound``, the same on every
        rank."""
        problem = self.problem
        return first_runaway(values, problem.agents.start, problem.n_agents, self.collective, bound)


_KEPT = 30 << 20
"""The most bytes that are requested and freed before the first step. The C library (glibc) then
keeps up to twice as much memory that steps free, and does not return it to the system to take it
back page by page in each iteration (mallopt(3))."""
