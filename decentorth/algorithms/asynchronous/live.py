"""The agents of one MPI rank in a run that waits for nobody.

Every rank activates its agents in turn, with the newest messages that have arrived, and sends without waiting: a message that the
last one to the same agent still blocks is dropped, as if lost. The end is known by flooding (`agent.Agent.level`); then the ranks
go on until each knows it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...protocols import Index
from .agent import AGREED, COUNT, Agent
from .log import entry, write_agent
from .schedule import Clocks, Graph, uniforms


class Live:
    """Agents of one rank.

    Parameters
    ----------
    agents
        The rank's agents, in their order.
    graph
        The graph of all agents.
    clocks
        The periods and the losses: after an activation an agent sleeps for its period less one times what the activation took.
    seed
        Of the losses.
    network
        The network, for the ranks of agents and for counting.

    Attributes
    ----------
    logs
        The agents' logs so far.
    agreed
        True if the run ended by agreement; the same on every rank.
    absent
        The agents that are not there at the beginning, and then at the end; the same on every rank.
    message_bytes
        The size of a message.
    whole
        False of a run that continues, so that the logs do not repeat it.
    """

    def __init__(self, agents: Sequence[Agent], graph: Graph, clocks: Clocks, seed: int, network: Any) -> None:
        self.agents, self.logs, self.agreed = list(agents), [bytearray() for _ in agents], False
        self._graph, self._clocks, self._seed, self._network = graph, clocks, seed, network
        self.absent, self.whole = sorted(agents[0].joiners), True
        self.message_bytes = self.agents[0].first().bytes
        self._keeping: tuple[Path, float, float, Callable[[], bool]] | None = None
        self._due = [(0.0, 0.0)] * len(agents)

    def run(self, activations: int) -> int:
        """Activate until all agents know of the end; the activations of all ranks. Called once, on every rank.

        Where the loss of a rank is survived, the agents of the others write their checkpoints, and the error is raised.
        """
        try:
            return self._run(activations)
        except getattr(self._network.communicator, "failures", ()):
            for number in range(len(self.agents)):
                self._due[number] = 0.0, 0.0
                self._keep(number)
            raise

    def _run(self, activations: int) -> int:
        network, graph, loss = self._network, self._graph, self._clocks.loss
        if not self.whole:
            self._come_back()
        rank = (np.searchsorted(network.bounds, np.arange(network.n_agents), side="right") - 1).tolist()
        own = network.communicator.rank
        crossing = [(j, i) for j in range(network.n_agents) for i in graph.outs[j] if rank[i] != rank[j]]
        sends = [edge for edge in crossing if rank[edge[0]] == own]
        receives = [edge for edge in crossing if rank[edge[1]] == own]
        first, zero = self.agents[0].first(), np.zeros_like(self.agents[0].sent)
        newest = {(j, agent.number): message for agent in self.agents for j, message in zip(agent.ins, agent.heard, strict=True)}
        post = network.communicator.post(
            [(rank[i], _tag(crossing, rank, (j, i))) for j, i in sends],
            [(rank[j], _tag(crossing, rank, (j, i))) for j, i in receives],
            1 + 2 * first.point.size + first.known.size,
        )
        place = {edge: number for number, edge in enumerate(sends)}
        streams = [uniforms(self._seed, agent.number, len(agent.outs)) for agent in self.agents]
        used = [[0] * len(agent.ins) for agent in self.agents]
        sent = 0
        over = False
        while not over:
            for number, agent in enumerate(self.agents):
                began = time.perf_counter()
                for which, arrived in post.arrived().items():
                    newest[receives[which]] = first.read(arrived, {receives[which][1]: zero})
                heard = [newest[j, agent.number] for j in agent.ins]
                message = agent.activate(heard)
                if message is None:
                    continue
                versions = [one.version & COUNT for one in heard]
                self.logs[number] += entry(used[number], versions)
                used[number] = versions
                agent.spend(activations)
                message.known[1, agent.number] = agent.level
                self._keep(number)
                receivers = agent.receivers
                for draw, i in zip(next(streams[number]), agent.outs, strict=True):
                    if i not in receivers:
                        continue
                    sent += 1
                    if draw < loss:
                        continue
                    edge = (agent.number, i)
                    if edge not in place:
                        newest[edge] = message
                    else:
                        post.send(place[edge], message._replace(sent=agent.given(i)).words())
                slow = self._clocks.periods[agent.number] - 1.0
                if slow > 0.0:
                    time.sleep(slow * (time.perf_counter() - began))
            over = all(agent.level >= AGREED or not agent.there for agent in self.agents) and post.over()
        post.close()
        facts = [
            sum(agent.version & COUNT for agent in self.agents),
            sent,
            all(agent.level == AGREED for agent in self.agents if agent.there),
            [agent.number for agent in self.agents if not agent.there],
        ]
        every = [json.loads(one) for one in network.communicator.allgather_bytes(json.dumps(facts).encode())]
        self.agreed = all(one[2] for one in every)
        self.absent = [number for one in every for number in one[3]]
        messages: int = sum(one[1] for one in every)
        network.messages += messages
        network.bytes += messages * self.message_bytes
        return sum(one[0] for one in every)

    def keep(self, folder: Path, activations: float, seconds: float, ended: Callable[[], bool]) -> None:
        """Let every agent write its checkpoint, at the start and then each time that it knows of so many more activations, or so
        many seconds have passed; and end the run once ``ended()``."""
        self._keeping = folder, activations, seconds, ended

    def _keep(self, number: int) -> None:
        """Write an agent's checkpoint where it is due; before the message is sent, so that nobody hears of an incarnation that is
        not on disk."""
        if self._keeping is None:
            return
        folder, activations, seconds, ended = self._keeping
        agent, known, now = self.agents[number], self.agents[number].activations_known, time.monotonic()
        if ended():
            agent.spend(0)
        if agent.finite and (known >= self._due[number][0] or now >= self._due[number][1]):
            write_agent(folder, agent)
            self._due[number] = known + activations, now + seconds

    def saved(self) -> Index:
        """``(n_local, length)``: -1 and 0, as for agents that were not at rest together, and each agent's checkpoint."""
        rows = [np.concatenate([[-1, 0], agent.checkpoint()]) for agent in self.agents]
        size, degree = self.agents[0].x.size, max(map(len, self._graph.ins))
        length = 4 + 4 * size + 2 * self._network.n_agents + degree * (3 * size + 1)
        return np.stack([np.pad(row, (0, length - len(row))) for row in rows])

    def restore(self, rows: Index, k: int) -> None:
        """Go on from what ``saved`` of these agents, here or in one process, has returned; messages under way are lost."""
        self.recover([row[2 : 2 + len(agent.checkpoint())] for agent, row in zip(self.agents, rows, strict=True)])

    def recover(self, rows: Sequence[Index | None]) -> None:
        """Take checkpoints that the agents have made at different times, where there are any; `run` goes on from them."""
        self.whole = False
        for agent, row in zip(self.agents, rows, strict=True):
            agent.take(agent.checkpoint() if row is None else row)

    def _come_back(self) -> None:
        """Let all agents' versions rise beyond those that are in anybody's checkpoint: a neighbour's may be the later one."""
        known = json.dumps([agent.known[0].tolist() for agent in self.agents])
        every = [row for one in self._network.communicator.allgather_bytes(known.encode()) for row in json.loads(one)]
        newest = [max(versions) for versions in zip(*every, strict=True)]
        for agent in self.agents:
            agent.come_back(newest[agent.number])


def _tag(crossing: Sequence[tuple[int, int]], rank: Sequence[int], edge: tuple[int, int]) -> int:
    """The number of an edge among those between the same two ranks."""
    ends = [(rank[j], rank[i]) for j, i in crossing]
    where = crossing.index(edge)
    return ends[:where].count(ends[where])
