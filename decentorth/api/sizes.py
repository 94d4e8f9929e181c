"""The memory that a run takes, compared with the free memory of each host before it is taken."""

from __future__ import annotations

import json
import math
import socket

from topologies.line import memory

from ..network import even_bounds
from ..network.collective import AgentCollective
from ..network.transport.communicator import Communicator
from ..problems import Deferred, Spread
from ..protocols import Problem

POINT_ARRAYS = 3
"""The arrays of all points that any method holds at least: points, gradients and their mixtures."""


def check_data(problem: object, communicator: Communicator) -> None:
    """Raise MemoryError on every rank where the data of a deferred problem, of which nothing
    exists, would not fit."""
    spread = isinstance(problem, Spread)
    ranks = communicator.size
    match problem:
        case Spread(problem=Deferred() as deferred) | (Deferred() as deferred):
            if deferred.outline is None or deferred.n_agents < ranks:
                return
        case _:
            return
    bounds = even_bounds(deferred.n_agents, ranks)
    collective = AgentCollective(communicator, bounds, holders=deferred.holders)
    own = collective.own
    points = POINT_ARRAYS
    if not spread:
        points *= own.stop - own.start
    if deferred.open is not None:
        deferred.open(own, collective)
    with collective.together():
        needed = deferred.outline().needed(own, points)
    _check(collective, needed, "the data and the agents' points")


def check_points(problem: Problem[object], collective: AgentCollective, n_local: int) -> None:
    """Raise MemoryError on every rank where the points of the local agents would not fit."""
    needed = POINT_ARRAYS * 8.0 * n_local * math.prod(problem.shape)
    _check(collective, needed, "the agents' points")


def _check(collective: AgentCollective, needed: float, what: str) -> None:
    """Compare the bytes that the ranks of a host take together with its free memory."""
    here = socket.gethostname()
    every = collective.ours(json.dumps([here, needed]).encode())
    on_host = sum([taken for host, taken in map(json.loads, every) if host == here])
    with collective.together():
        memory.require(needed, what, on_host=on_host)
