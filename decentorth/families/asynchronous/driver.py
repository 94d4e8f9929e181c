"""The common part of both drivers of asynchronous agents: their logs, and checkpoints of different
times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from decentorth.protocols import Index

from .agent import AsynchronousAgent


class Driver:
    """Agents of this process.

    Parameters
    ----------
    agents
        The agents, in their order.

    Attributes
    ----------
    logs
        The agents' logs so far.
    used
        The versions that each agent used last.
    message_bytes
        The size of a message.
    whole
        False of a run that continues from checkpoints of different times, so that the logs do not
        repeat it.
    """

    def __init__(self, agents: Sequence[AsynchronousAgent]) -> None:
        self.agents = list(agents)
        self.whole = True
        self.first = self.agents[0].first()
        self.message_bytes = self.first.bytes
        self.clear()

    def clear(self) -> None:
        """Begin the logs."""
        self.logs = [bytearray() for _ in self.agents]
        self.used = [[0] * len(agent.ins) for agent in self.agents]

    def write(self, number: int, versions: Sequence[int]) -> list[int]:
        """Write an activation to the agent's log; the versions that it used before."""
        before, self.used[number] = self.used[number], list(versions)
        self.logs[number] += np.array(versions, "<i8").tobytes()
        return before

    def checkpoints(self, rows: Index) -> list[Index]:
        """The agents' checkpoints in rows that ``saved`` of a driver returned."""
        sizes = [len(agent.checkpoint()) for agent in self.agents]
        return [row[2 : 2 + size] for size, row in zip(sizes, rows, strict=True)]

    def recover(self, rows: Sequence[Index | None]) -> None:
        """Take checkpoints that the agents have made at different times, where there are any;
        messages under way are lost."""
        self.whole = False
        for agent, row in zip(self.agents, rows, strict=True):
            if row is not None:
                agent.take(row)

    def come_back(self, known: Iterable[Sequence[int]]) -> None:
        """Let the versions rise beyond those ``known`` in anybody's checkpoint: a neighbour's may
        be the later one."""
        newest = [max(versions) for versions in zip(*known, strict=True)]
        for agent in self.agents:
            agent.come_back(newest[agent.number])
