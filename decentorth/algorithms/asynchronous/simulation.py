"""All agents of an asynchronous run in one process, activated by a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

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
        The activations.

    Attributes
    ----------
    logs
        The agents' logs so far.
    sent
        The messages of each agent that may still be used, by the number of its activation.
    message_bytes
        The size of a message.
    """

    def __init__(self, agents: Sequence[Agent], schedule: Iterator[Activation]) -> None:
        self.agents, self.logs = list(agents), [bytearray() for _ in agents]
        self._schedule = schedule
        self.sent: list[dict[int, Message]] = [{0: agent.first()} for agent in agents]
        self.message_bytes = self.sent[0][0].bytes
        self._count = [0] * len(agents)
        self.used = [[0] * len(agent.ins) for agent in agents]
        self._places = [[self.agents[i].ins.index(agent.number) for i in agent.outs] for agent in agents]

    def activate(self) -> Agent:
        """The next activation of the schedule; the agent whose it was."""
        number, versions = next(self._schedule)
        agent, before = self.agents[number], self.used[number]
        message = agent.activate([self.sent[j][version] for j, version in zip(agent.ins, versions, strict=True)])
        self.logs[number] += entry(before, versions)
        self.used[number] = list(versions)
        for j, old, new in zip(agent.ins, before, versions, strict=True):
            if new > old:
                self._drop(j)
        self._count[number] += 1
        self.sent[number][self._count[number]] = message
        return agent

    def _drop(self, number: int) -> None:
        """Drop the messages of an agent that all its out-neighbours have passed."""
        outs = self.agents[number].outs
        least = min(self.used[i][place] for i, place in zip(outs, self._places[number], strict=True))
        messages = self.sent[number]
        for version in list(messages):
            if version >= least:
                break
            del messages[version]

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
