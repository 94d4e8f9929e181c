"""The order of activations: drawn from a seed, as of agents with clocks of their own, or repeated
from their logs.

A schedule gives, activation by activation, the agent and the version that it uses of each of its
in-neighbours. It depends on no point and no mass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np

from decentorth.protocols import Index

Activation = tuple[int, Sequence[int]]
"""An agent, and the version that it uses of each of its in-neighbours."""
_BLOCK = 256
_TAG = 0xA5
"""The numbers of the streams of schedules among those of a seed."""


class Graph(NamedTuple):
    """A directed graph, as each agent knows it."""

    ins: tuple[tuple[int, ...], ...]
    """The agents that each agent hears, ascending."""
    outs: tuple[tuple[int, ...], ...]
    """The agents that hear it, ascending."""

    @classmethod
    def of(cls, indptr: Index, indices: Index) -> Graph:
        """Return the graph of a CSR matrix whose row i lists the agents that send to agent i."""
        n = len(indptr) - 1
        ins = [[int(j) for j in indices[indptr[i] : indptr[i + 1]] if j != i] for i in range(n)]
        outs: list[list[int]] = [[] for _ in range(n)]
        for i, heard in enumerate(ins):
            for j in heard:
                outs[j].append(i)
        return cls(tuple(tuple(sorted(one)) for one in ins), tuple(tuple(one) for one in outs))


class Clocks(NamedTuple):
    """The clocks and the links of simulated agents; one period of a fast agent is the unit of
    time."""

    periods: tuple[float, ...]
    """The mean time between two activations of each agent; each interval is within 20 % of it."""
    delay: float
    """A message takes a time uniform in (0, delay)."""
    loss: float
    """The probability that a message is lost, independently for each direction."""


def uniforms(seed: int, agent: int, width: int) -> Iterator[list[float]]:
    """Rows of ``width`` numbers in [0, 1) from an agent's own stream."""
    own = np.random.SeedSequence(seed, spawn_key=(_TAG, agent))
    stream = np.random.Generator(np.random.Philox(own))
    while True:
        yield from stream.random((_BLOCK, width)).tolist()


def drawn(graph: Graph, clocks: Clocks, seed: int) -> Iterator[Activation]:
    """Yield the activations in order of time, without end."""
    n = len(graph.ins)
    streams = [uniforms(seed, i, 1 + 2 * len(graph.outs[i])) for i in range(n)]
    coming = {(j, i): list[tuple[float, int]]() for i in range(n) for j in graph.ins[i]}
    newest = dict.fromkeys(coming, 0)
    count = [0] * n
    events = [(clocks.periods[i] * next(streams[i])[0], i) for i in range(n)]
    heapify(events)
    while True:
        now, i = events[0]
        for j in graph.ins[i]:
            arrivals = coming[j, i]
            while arrivals and arrivals[0][0] <= now:
                newest[j, i] = max(newest[j, i], heappop(arrivals)[1])
        yield i, [newest[j, i] for j in graph.ins[i]]
        count[i] += 1
        numbers = next(streams[i])
        for place, k in enumerate(graph.outs[i]):
            if numbers[1 + 2 * place] >= clocks.loss:
                heappush(coming[i, k], (now + clocks.delay * numbers[2 + 2 * place], count[i]))
        heapreplace(events, (now + clocks.periods[i] * (0.8 + 0.4 * numbers[0]), i))


def repeated(graph: Graph, versions: Sequence[Index]) -> Iterator[Activation]:
    """Yield the activations of a log in an order that sends each message before its use.

    ``versions`` holds the versions used by each agent, ``(activations, in-degree)``. Raises
    ValueError if there is no such order.
    """
    rows = [[tuple(row) for row in one.tolist()] for one in versions]
    done = [0] * len(rows)
    left = sum(map(len, rows))
    while left:
        before = left
        for i in range(len(rows)):
            for row in rows[i][done[i] :]:
                if any(version > done[j] for version, j in zip(row, graph.ins[i], strict=True)):
                    break
                yield i, row
                done[i] += 1
                left -= 1
        if left == before:
            raise ValueError("its agents wait for messages that were never sent")
