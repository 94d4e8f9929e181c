"""All agents of an asynchronous run in one process, activated by a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from decentorth.protocols import Index

from .agent import AGREED, AsynchronousAgent, Mass, Message
from .driver import Driver
from .schedule import Activation

Schedule = Callable[[], Iterator[Activation]]


class Simulation(Driver):
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
    sent
        The messages of each agent that may still be used, by the number of its activation.
    """

    def __init__(
        self, agents: Sequence[AsynchronousAgent], schedule: Schedule, ends: Sequence[float] = ()
    ) -> None:
        super().__init__(agents)
        self._schedule = schedule
        self._ends = ends or [math.inf] * len(agents)
        self._places = [[agents[i].ins.index(agent.number) for i in agent.outs] for agent in agents]
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        """The agents and their messages; a copy makes no activations."""
        iterators = ("_schedule", "_coming")
        return {name: value for name, value in vars(self).items() if name not in iterators}

    def _begin(self) -> None:
        self.clear()
        self._coming = self._schedule()
        self.sent: list[dict[int, Message]] = [{} for _ in self.agents]
        self._count = [0] * len(self.agents)

    def step(self, network: Any, k: int, activations: int) -> int:
        """Run the next activation and return the number of activations so far.

        ``k`` activations came before. The messages of the activation are counted in ``network``.
        """
        agent = self.activate()
        network.messages += len(agent.outs)
        network.bytes += len(agent.outs) * self.message_bytes
        return k + 1

    def activate(self) -> AsynchronousAgent:
        """Run the next activation of the schedule and return its agent."""
        number, versions = next(self._coming)
        agent = self.agents[number]
        heard = list(agent.heard)  # of version 0 it has a message from the start
        for place, (j, version) in enumerate(zip(agent.ins, versions, strict=True)):
            if version > 0:
                heard[place] = self.sent[j][version]
        self._note(number, versions, agent.activate(heard))
        return agent

    def _note(self, number: int, versions: Sequence[int], message: Message) -> None:
        """Write an activation to the agent's log, keep its message, and drop messages that all
        out-neighbours have passed."""
        before = self.write(number, versions)
        self._count[number] += 1
        self.sent[number][self._count[number]] = message
        for j, old, new in zip(self.agents[number].ins, before, versions, strict=True):
            if new > old:
                outs = zip(self.agents[j].outs, self._places[j], strict=True)
                waiting = (self.used[i][at] for i, at in outs if self._count[i] < self._ends[i])
                least = min(waiting, default=math.inf)
                for version in [version for version in self.sent[j] if version < least]:
                    del self.sent[j][version]

    def saved(self) -> Index:
        """Return the state of all agents, one row of ``(n, length)`` per agent.

        A row holds the number of the agent's messages that may still be used, the number of
        activations of the schedule, the agent's checkpoint, and these messages.
        """
        rows = []
        made = sum(self._count)
        for agent, sent in zip(self.agents, self.sent, strict=True):
            words = [message.words() for message in sent.values()]
            rows.append(np.concatenate(([len(sent), made], agent.checkpoint(), *words)))
        return np.array(list(zip_longest(*rows, fillvalue=0)), dtype=np.int64).T.copy()

    def restore(self, rows: Index, k: int) -> None:
        """Continue after ``k`` activations from the rows returned by `saved`.

        The results have the same bits if the schedule is the same. Rows of `Live.saved` are used
        as checkpoints taken at different times. Raises ValueError for rows of other agents.
        """
        self._begin()
        if rows[0, 0] < 0:
            return self.recover(self.checkpoints(rows))
        made = int(rows[0, 1])
        self.whole = made == k
        if not 0 <= made <= k:
            raise ValueError(f"its agents have made {made} activations of {k}")
        for _ in range(made):
            number, versions = next(self._coming)
            self._note(number, versions, self.agents[number].first())
        width = len(self.first.words())
        for agent, sent, row in zip(self.agents, self.sent, rows, strict=True):
            words = 2 + len(agent.checkpoint())
            under_way = row[words : words + len(sent) * width]
            if row[0] != len(sent) or len(under_way) < len(sent) * width:
                raise ValueError(f"agent {agent.number} has other messages under way")
            agent.take(row[2:words])
            for number, message in zip(sent, under_way.reshape(-1, width).copy(), strict=True):
                sent[number] = self.first.read(message)

    def recover(self, rows: Sequence[Index | None]) -> None:
        """Restore the agents' own checkpoints as in `Driver`; the agents return immediately."""
        self._begin()
        super().recover(rows)
        self.come_back([agent.known[0].tolist() for agent in self.agents])

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
