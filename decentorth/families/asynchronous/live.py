"""The agents of one MPI rank in an asynchronous run.

Every rank activates its agents in turn, with the newest messages that have arrived, and sends
without waiting: a message that the last one to the same agent still blocks is dropped, as if lost.
The agents learn the end by flooding (`agent.AsynchronousAgent.level`); the ranks continue until each has
learned it.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decentorth.protocols import Index

from .agent import AGREED, COUNT, AsynchronousAgent, Message
from .driver import Driver
from .log import write_agent
from .schedule import Clocks, Graph, uniforms


class Live(Driver):
    """Agents of one rank.

    Parameters
    ----------
    agents
        The rank's agents, in their order.
    graph
        The graph of all agents.
    clocks
        The periods and the losses: after an activation an agent sleeps for its period less one
        times what the activation took.
    seed
        Of the losses.
    network
        The network, for the ranks of agents and for counting.

    Attributes
    ----------
    agreed
        True if the run ended by agreement; the same on every rank.
    """

    def __init__(
        self,
        agents: Sequence[AsynchronousAgent],
        graph: Graph,
        clocks: Clocks,
        seed: int,
        network: Any,
    ) -> None:
        super().__init__(agents)
        self._graph = graph
        self._clocks = clocks
        self._network = network
        self.agreed = False
        self._places: dict[tuple[int, int], int] = {}
        """The number of the link of each edge to another rank."""
        self._sources: list[tuple[int, int]] = []
        """The edge of each link from another rank."""
        self._newest: dict[tuple[int, int], Message] = {}
        self._streams = [uniforms(seed, agent.number, len(agent.outs)) for agent in agents]
        self._sent = 0
        self._keeping: tuple[Path, float, float, Callable[[], bool]] | None = None
        self._due = [(0.0, 0.0)] * len(agents)

    def step(self, network: Any, k: int, activations: int) -> int:
        """Activate until all agents know the end, after ``activations`` of all agents on all ranks.
        Called once.

        Where the loss of a rank is survived, the agents of the others write their checkpoints, and
        the error is raised.
        """
        try:
            self._open()
            while not (all(agent.level >= AGREED for agent in self.agents) and self._post.over()):
                for number in range(len(self.agents)):
                    self._turn(number, activations)
            return self._finish()
        except network.communicator.failures:
            for number in range(len(self.agents)):
                self._due[number] = 0.0, 0.0
                self._keep(number)
            raise

    def _open(self) -> None:
        """Open the links to other ranks; each agent has the messages that it starts with."""
        network = self._network
        graph = self._graph
        n = self._network.n_agents
        if not self.whole:
            own = json.dumps([agent.known[0].tolist() for agent in self.agents])
            every = network.communicator.allgather_bytes(own.encode())
            self.come_back([row for one in every for row in json.loads(one)])
        rank = (np.searchsorted(network.bounds, np.arange(n), side="right") - 1).tolist()
        crossing = [(j, i) for j in range(n) for i in graph.outs[j] if rank[i] != rank[j]]
        tags = Counter[tuple[int, int]]()
        sends: list[tuple[int, int]] = []
        receives: list[tuple[int, int]] = []
        for j, i in crossing:
            tag = tags[rank[j], rank[i]]
            # the number of the edge among those between the same two ranks
            tags[rank[j], rank[i]] += 1
            if rank[j] == network.communicator.rank:
                self._places[j, i] = len(sends)
                sends.append((rank[i], tag))
            if rank[i] == network.communicator.rank:
                self._sources.append((j, i))
                receives.append((rank[j], tag))
        self._post = network.communicator.post(sends, receives, len(self.first.words()))
        for agent in self.agents:
            for j, message in zip(agent.ins, agent.heard, strict=True):
                self._newest[j, agent.number] = message

    def _turn(self, number: int, activations: int) -> None:
        """Activate an agent with the newest messages, send, and sleep if the agent is slow."""
        began = time.perf_counter()
        for link, words in self._post.arrived().items():
            self._newest[self._sources[link]] = self.first.read(words)
        agent = self.agents[number]
        heard = [self._newest[j, agent.number] for j in agent.ins]
        message = agent.activate(heard)
        self.write(number, [one.version & COUNT for one in heard])
        agent.spend(activations)
        message.known[1, agent.number] = agent.level
        self._keep(number)
        for draw, i in zip(next(self._streams[number]), agent.outs, strict=True):
            edge = (agent.number, i)
            self._sent += 1
            if draw < self._clocks.loss:
                continue
            if edge in self._places:
                self._post.send(self._places[edge], message.words())
            else:
                self._newest[edge] = message
        slow = self._clocks.periods[agent.number] - 1.0
        if slow > 0.0:
            time.sleep(slow * (time.perf_counter() - began))

    def _finish(self) -> int:
        """Close the links and add up what all ranks did; the activations of all agents."""
        self._post.close()
        made = sum(agent.version & COUNT for agent in self.agents)
        facts = [made, self._sent, all(agent.level == AGREED for agent in self.agents)]
        every = self._network.communicator.allgather_bytes(json.dumps(facts).encode())
        activations, messages, agreed = zip(*map(json.loads, every), strict=True)
        self.agreed = all(agreed)
        self._network.messages += sum(messages)
        self._network.bytes += sum(messages) * self.message_bytes
        return sum(activations)

    def keep(
        self, folder: Path, activations: float, seconds: float, ended: Callable[[], bool]
    ) -> None:
        """Let every agent write its checkpoint at the start, and again after ``activations`` more
        known activations or ``seconds``; end the run once ``ended()``."""
        self._keeping = folder, activations, seconds, ended

    def _keep(self, number: int) -> None:
        """Write an agent's checkpoint if it is due; before the message is sent, so that no agent
        learns of an incarnation that is not on disk."""
        if self._keeping is None:
            return
        folder, activations, seconds, ended = self._keeping
        agent = self.agents[number]
        now = time.monotonic()
        known = agent.activations_known
        if ended():
            agent.spend(0)
        if agent.finite and (known >= self._due[number][0] or now >= self._due[number][1]):
            write_agent(folder, agent)
            self._due[number] = known + activations, now + seconds

    def saved(self) -> Index:
        """``(n_local, length)``: -1 and 0, as for agents that were not at rest together, and each
        agent's checkpoint."""
        rows = [np.concatenate([[-1, 0], agent.checkpoint()]) for agent in self.agents]
        size = self.agents[0].x.size
        degree = max(map(len, self._graph.ins))
        length = 4 + 4 * size + 2 * self._network.n_agents + degree * (3 * size + 1)
        return np.stack([np.pad(row, (0, length - len(row))) for row in rows])

    def restore(self, rows: Index, k: int) -> None:
        """Continue from the result of ``saved`` of these agents, here or in one process; messages
        on their way are lost."""
        self.recover(self.checkpoints(rows))
