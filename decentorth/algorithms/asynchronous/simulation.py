"""All agents of an asynchronous run in one process, activated by a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from ...protocols import Index
from .agent import AGREED, Agent, Mass, Message
from .log import entry
from .schedule import Activation


class Simulation:
    """Agents in one process.

    Parameters
    ----------
    agents
        All agents, in their order.
    schedule
        Makes the activations, from the first one on.
    ends
        The number of the last activation of each agent, where it is known.

    Attributes
    ----------
    logs
        The agents' logs so far.
    sent
        The messages of each agent that may still be used, by the number of its activation.
    message_bytes
        The size of a message.
    whole
        False of a run that continues from checkpoints of different times, so that the logs do not repeat it.
    """

    def __init__(self, agents: Sequence[Agent], schedule: Callable[[], Iterator[Activation]], ends: Sequence[float] = ()) -> None:
        self.agents, self._schedule, self._ends = list(agents), schedule, ends or [math.inf] * len(agents)
        self.whole = True
        self.message_bytes = self.agents[0].first().bytes
        self._places = [[self.agents[i].ins.index(agent.number) for i in agent.outs] for agent in agents]
        self._begin()

    def _begin(self) -> None:
        self.logs = [bytearray() for _ in self.agents]
        self._coming = self._schedule()
        self.sent: list[dict[int, Message]] = [{} for _ in self.agents]
        self._count = [0] * len(self.agents)
        self.used = [[0] * len(agent.ins) for agent in self.agents]

    def step(self, network: Any, k: int, activations: int) -> int:
        """Make the next activation of the schedule, and count its messages; the activations so far, ``k`` before it."""
        agent = self.activate()
        network.messages += len(agent.outs)
        network.bytes += len(agent.outs) * self.message_bytes
        return k + 1

    def activate(self) -> Agent:
        """The next activation of the schedule; the agent whose it was."""
        number, versions = next(self._coming)
        agent = self.agents[number]
        messages = zip(agent.ins, versions, agent.heard, strict=True)  # of version 0 it has a message from the start
        message = agent.activate([self.sent[j][version] if version else own for j, version, own in messages])
        self._note(number, versions, message)
        return agent

    def _note(self, number: int, versions: Sequence[int], message: Message) -> None:
        """Write an activation to the agent's log, keep its message, and drop those that all who hear an agent have passed."""
        before, self.used[number] = self.used[number], list(versions)
        self.logs[number] += entry(before, versions)
        self._count[number] += 1
        self.sent[number][self._count[number]] = message
        for j, old, new in zip(self.agents[number].ins, before, versions, strict=True):
            if new > old:
                outs = zip(self.agents[j].outs, self._places[j], strict=True)
                least = min((self.used[i][place] for i, place in outs if self._count[i] < self._ends[i]), default=math.inf)
                for version in [version for version in self.sent[j] if version < least]:
                    del self.sent[j][version]

    def saved(self) -> Index:
        """``(n, length)``: of each agent the number of its messages that may still be used, that of all activations of the
        schedule, its checkpoint, and these messages."""
        rows: list[list[Any]] = [
            [[len(sent), sum(self._count)], agent.checkpoint(), *(message.words() for message in sent.values())]
            for agent, sent in zip(self.agents, self.sent, strict=True)
        ]
        return np.array(list(zip_longest(*map(np.concatenate, rows), fillvalue=0)), dtype=np.int64).T.copy()

    def restore(self, rows: Index, k: int) -> None:
        """Go on after ``k`` activations from what `saved` has returned: with the same bits, if the schedule is the same.

        Rows of `Live.saved`, whose agents were not at rest together, are taken as checkpoints of different times. A ValueError for
        rows of other agents.
        """
        self._begin()
        if rows[0, 0] < 0:
            return self.recover([row[2 : 2 + len(agent.checkpoint())] for agent, row in zip(self.agents, rows, strict=True)])
        made = int(rows[0, 1])
        self.whole = made == k
        if not 0 <= made <= k:
            raise ValueError(f"its agents have made {made} activations of {k}")
        for _ in range(made):
            number, versions = next(self._coming)
            self._note(number, versions, self.agents[number].first())
        for agent, sent, row in zip(self.agents, self.sent, rows, strict=True):
            words, width = 2 + len(agent.checkpoint()), len(agent.first().words())
            if row[0] != len(sent) or len(row) < words + len(sent) * width:
                raise ValueError(f"agent {agent.number} has other messages under way")
            agent.take(row[2:words])
            for place, number in enumerate(sent):
                sent[number] = agent.first().read(row[words + place * width : words + (place + 1) * width].copy())

    def recover(self, rows: Sequence[Index | None]) -> None:
        """Go on from checkpoints that the agents have made at different times, where there are any; messages under way are lost."""
        self._begin()
        self.whole = False
        for agent, row in zip(self.agents, rows, strict=True):
            agent.take(agent.checkpoint() if row is None else row)
        newest = [max(versions) for versions in zip(*(agent.known[0].tolist() for agent in self.agents), strict=True)]
        for agent in self.agents:
            agent.come_back(newest[agent.number])

    @property
    def agreed(self) -> bool:
        """True once every agent knows that all have agreed on the end."""
        return all(agent.level == AGREED for agent in self.agents)

    def deviation(self) -> Mass:
        """sum_i z_i + the mass in flight - sum_i Lambda_i, modulo 2^64: exactly zero."""
        total: Mass = np.zeros_like(self.agents[0].mass)
        for agent in self.agents:
            total += agent.mass - agent.field
            for j, used in zip(agent.ins, agent.used, strict=True):
                total += self.agents[j].sent - used
        return total
