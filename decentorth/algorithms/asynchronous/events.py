"""Declared events of agents: they fall back, begin anew, leave or join, as ``"leave:agent=3,at=9000 join:agent=5,at=4000"``.

An event takes place at each agent's own time: before its first activation at which the activations that it knows of add up to
``at``. So events are functions of messages alone, happen on ranks too, and a replay finds them again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from topologies import text

from ...settings import Count, Natural, Settings
from .schedule import Graph


@dataclass(frozen=True)
class _Event(Settings):
    """An event of an agent, when it knows of ``at`` activations."""

    agent: Natural
    at: Count


@dataclass(frozen=True)
class Rollback(_Event):
    """The agent falls back to its state when it knew of ``to`` activations."""

    to: Natural = 0


@dataclass(frozen=True)
class Restart(_Event):
    """The agent begins anew at a neighbour's point, with counters of zero."""


@dataclass(frozen=True)
class Leave(_Event):
    """The agent leaves for good, and its neighbours forget it."""


@dataclass(frozen=True)
class Join(_Event):
    """The agent, which was not there before, begins at a neighbour's point, over edges that begin at zero."""


EVENTS: dict[str, type[_Event]] = {kind.__name__.lower(): kind for kind in (Rollback, Restart, Leave, Join)}


class Step(NamedTuple):
    """An act of an agent, or its news, at a time: the name of an event, or ``keep``, before a rollback."""

    at: int
    what: str
    agent: int


def events(written: str | None) -> tuple[Step, ...]:
    """The steps of events, in their order, from text with a space between events.

    A ValueError for other text, an agent that joins or leaves twice or is used when not there, or a rollback beyond a change.
    """
    found = []
    for one in (written or "").split():
        name, parameters = text.divided("event", one, EVENTS)
        event = text.read(f"events {one!r}", name, EVENTS[name], parameters)
        found.append(Step(event.at, name, event.agent))
        if isinstance(event, Rollback):
            if event.to >= event.at:
                raise ValueError(f"events {one!r}: to must be before at")
            found.append(Step(event.to, "keep", event.agent))
    steps = tuple(sorted(found))
    for step in steps:
        others = [other for other in steps if other.agent == step.agent and other != step]
        came = [other.at for other in others if other.what == "join"]
        went = [other.at for other in others if other.what == "leave"]
        if step.what in ("join", "leave") and step.what in [other.what for other in others]:
            raise ValueError(f"events: agent {step.agent} can {step.what} only once")
        if any(step.at <= at for at in came) or any(step.at >= at for at in went):
            what = f"a rollback goes to {step.at}" if step.what == "keep" else f"{step.what} is at {step.at}"
            raise ValueError(f"events: agent {step.agent} is not there when {what}")
        if step.what == "keep":
            back = min(other.at for other in others if other.what == "rollback" and other.at > step.at)
            if any(other.what in ("join", "leave") and step.at <= other.at <= back for other in steps):
                raise ValueError(f"events: agent {step.agent} cannot fall back beyond a join or a leave: take a later to")
    return steps


def check(steps: Collection[Step], graph: Graph, activations: int) -> None:
    """Raise a ValueError for agents that there are not, events after the end, and agents that fall apart meanwhile."""
    n = len(graph.ins)
    for step in steps:
        if step.agent >= n:
            raise ValueError(f"events: there is no agent {step.agent}, as there are {n}, from 0")
        if step.at >= activations:
            raise ValueError(f"events: {step.what} at {step.at} is not before the end, {activations} activations")
    there = set(range(n)) - {step.agent for step in steps if step.what == "join"}
    _connected(there, graph, "before the first event")
    for step in sorted(steps):
        if step.what in ("join", "leave"):
            there ^= {step.agent}
            _connected(there, graph, f"after {step.what} of agent {step.agent}")


def _connected(there: set[int], graph: Graph, when: str) -> None:
    for links in (graph.ins, graph.outs):
        reached, new = set(), set(sorted(there)[:1])
        while new:
            reached |= new
            new = {j for i in new for j in links[i] if j in there} - reached
        if len(there) < 2 or reached != there:
            raise ValueError(f"events: {when} the agents that are there are not strongly connected: take another graph or agent")
