"""The agents of one MPI rank in a run that waits for nobody.

Every rank activates its agents in turn, with the newest messages that have arrived, and sends without waiting: a message that the
last one to the same agent still blocks is dropped, as if lost. The end is known by flooding (`agent.Agent.level`); then the ranks
go on until each knows it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .agent import AGREED, Agent, Message
from .log import entry
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
    """

    def __init__(self, agents: Sequence[Agent], graph: Graph, clocks: Clocks, seed: int, network: Any) -> None:
        self.agents, self.logs, self.agreed = list(agents), [bytearray() for _ in agents], False
        self._graph, self._clocks, self._seed, self._network = graph, clocks, seed, network

    def run(self, activations: int) -> int:
        """Activate until all agents know of the end; the activations of all ranks. Called once, on every rank."""
        network, graph, loss = self._network, self._graph, self._clocks.loss
        rank = (np.searchsorted(network.bounds, np.arange(network.n_agents), side="right") - 1).tolist()
        own = network.communicator.rank
        crossing = [(j, i) for j in range(network.n_agents) for i in graph.outs[j] if rank[i] != rank[j]]
        sends = [edge for edge in crossing if rank[edge[0]] == own]
        receives = [edge for edge in crossing if rank[edge[1]] == own]
        first = self.agents[0].first()
        newest = {(j, agent.number): first for agent in self.agents for j in agent.ins}
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
                    newest[receives[which]] = _read(arrived, first)
                heard = [newest[j, agent.number] for j in agent.ins]
                message = agent.activate(heard)
                versions = [one.version for one in heard]
                self.logs[number] += entry(used[number], versions)
                used[number] = versions
                agent.spend(activations)
                message.known[1, agent.number] = agent.level
                words = None
                for draw, i in zip(next(streams[number]), agent.outs, strict=True):
                    sent += 1
                    if draw < loss:
                        continue
                    edge = (agent.number, i)
                    if edge not in place:
                        newest[edge] = message
                    else:
                        words = _written(message) if words is None else words
                        post.send(place[edge], words)
                slow = self._clocks.periods[agent.number] - 1.0
                if slow > 0.0:
                    time.sleep(slow * (time.perf_counter() - began))
            over = all(agent.level >= AGREED for agent in self.agents) and post.over()
        post.close()
        facts = [sum(agent.version for agent in self.agents), sent, all(agent.level == AGREED for agent in self.agents)]
        every = [json.loads(one) for one in network.communicator.allgather_bytes(json.dumps(facts).encode())]
        self.agreed = all(one[2] for one in every)
        messages: int = sum(one[1] for one in every)
        network.messages += messages
        network.bytes += messages * first.bytes
        return sum(one[0] for one in every)


def _tag(crossing: Sequence[tuple[int, int]], rank: Sequence[int], edge: tuple[int, int]) -> int:
    """The number of an edge among those between the same two ranks."""
    ends = [(rank[j], rank[i]) for j, i in crossing]
    where = crossing.index(edge)
    return ends[:where].count(ends[where])


def _written(message: Message) -> Any:
    """The message as int64 words; floats keep their bits."""
    parts = (message.point.reshape(-1).view(np.int64), message.sent.reshape(-1), message.known.reshape(-1))
    return np.concatenate(([message.version], *parts))


def _read(words: Any, like: Message) -> Message:
    """The message in words."""
    size, shape = like.point.size, like.point.shape
    return Message(
        int(words[0]),
        words[1 : 1 + size].view(np.float64).reshape(shape),
        words[1 + size : 1 + 2 * size].reshape(shape),
        words[1 + 2 * size :].reshape(like.known.shape),
    )
