"""A network whose messages go through a channel."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..protocols import Array, Observed
from ..sums import accumulate
from .channel import Channel, Fates, Striking, pairs
from .draws import Mask
from .faults import Crash, Late
from .memory import Memory, Messages
from .network import Network, Placement, Plan
from .traffic import Gathering, Traffic, gathering

log = logging.getLogger(__name__)
_RESTARTED = {"x", "tracker", "field"}
_SETTINGS = {"step_size", "base", "penalty"}
"""Arrays of a state that come from a run's settings and the agreement before its first iteration."""


class ChannelError(TypeError):
    """A method and a channel that do not go together; the same on every rank."""


class _Road(NamedTuple):
    """The plan of one matrix, with the fates of its messages."""

    plan: Plan
    fates: Fates
    ways: dict[tuple[int, ...], Gathering]
    """By the widths of the arrays that are sent."""


class UnreliableNetwork(Network):
    """A `Network` with a `Channel`, from a run's first iteration on: what agents exchange before, to agree on their steps, is
    delivered.

    Bytes are those of coded messages. A message that is lost was sent, one of an agent that sleeps was not; with feedback a message
    that is lost is sent once more after the round, so that its receiver can go on adding up.

    An agent that comes back from a crash knows the settings of the run, and nothing else. Before the iteration, in a round of its
    own, it hears the points of those neighbours that are awake and know theirs, which arrive, and begins at their mean, weighted by
    W; where there are none, at the common start. If it tracks, it does so from nothing on, tracker and field both being 0, so that
    the field at its first point comes in with its first step. With feedback, what it says first and what is said to it is whole.
    With repair all agents' trackers begin anew then, as the fields that they track; the word that somebody is back is not counted.

    Parameters
    ----------
    W, comm, placement
        As for `Network`.
    channel
        The faults.
    seed
        Of what they draw.

    Raises
    ------
    ValueError
        Beside those of `Network`, where neighbours change and messages build on earlier ones.
    """

    def __init__(self, W: Any, comm: Any = None, placement: Placement = "even", *, channel: Channel, seed: int = 0) -> None:
        super().__init__(W, comm, placement)
        if self.sequence is not None and channel.remembers:
            raise ValueError(
                "on a time-varying network neighbours change, but delays and feedback build on earlier messages: drop them"
            )
        self.channel = channel
        self._seed = seed
        self._memory = Memory(channel, seed, self.agents, self.n_agents)
        self._striking = Striking(channel, seed, self.n_agents)
        self._roads: dict[int, _Road] = {}
        self._iteration: int | None = None
        self._exchange = 0
        self._surely = False
        self._back = np.zeros(self.n_agents, dtype=np.bool_)
        if self.communicator.rank == 0:
            for caution in self.cautions:
                log.warning(caution)

    @property
    def cautions(self) -> list[str]:
        """Reasons why agents run apart on this network whatever they compute; known for fixed networks."""
        if self.sequence is not None:
            return []
        return self.channel.cautions(float(self.W.diagonal().mean()), self.spectrum.lambda_min)

    def check_alike(self) -> None:
        """Refuse a channel on which `mix_alike` cannot work.

        Raises
        ------
        ChannelError
            Messages may be late.
        """
        if late := [fault.name for _, fault in self.channel.all(Late)]:
            raise ChannelError(
                "methods that start over together (safe) cannot tell which messages are from before when these are late: drop safe "
                f"or {', '.join(late)}"
            )

    def in_flight(self) -> dict[str, Array]:
        """The arrays that later messages build on."""
        return self._memory.state()

    def restore(self, rounds: int, messages: int, bytes: int, in_flight: Mapping[str, Array]) -> None:
        super().restore(rounds, messages, bytes, {})
        self._memory.restore(in_flight)

    def iterating(self, step: Callable[..., Any], state: Any, x0: Array) -> Callable[..., Any]:
        """The step through the channel; agents that sleep keep the state that they have.

        Raises
        ------
        ChannelError
            For a method whose trackers cannot be corrected as there are none, or whose agents cannot begin anew.
        """
        tracks = {"tracker", "field"} <= set(state._fields)
        if self.channel.correction and not tracks:
            raise ChannelError("correction draws trackers to what they track; this method has none: drop it")
        beyond = ", ".join(sorted(_arrays(state).keys() - _RESTARTED - _SETTINGS))
        if self.channel.all(Crash) and beyond:
            raise ChannelError(
                f"after a crash agents begin anew with a point, a tracker and its field, but this method also keeps {beyond}: take "
                "sleep, whose agents keep what they have"
            )

        def faulty(problem: object, network: object, streams: object, state: Observed) -> Observed:
            self._iteration, self._exchange = state.k, 0
            self._back = self._striking.back(state.k)
            if self._back.any():
                self._begin_anew(state, x0)
            asleep = np.flatnonzero(self._striking.asleep(state.k)[self.agents])
            kept = _rows(state, asleep) if asleep.size else None
            moved: Observed = step(problem, network, streams, state)
            self._iteration = None
            if self.channel.correction:
                back = min(1.0, self.channel.correction / moved.k)
                moved.tracker[...] *= 1.0 - back
                moved.tracker[...] += back * moved.field
            if kept is not None:
                _put_back(moved, kept, asleep)
            return moved

        return faulty

    @contextlib.contextmanager
    def surely(self) -> Iterator[None]:
        """All exchanges inside arrive: as float64, each message sent again until it does, the late and those who sleep waited
        for. A round takes as many as its unluckiest message, and all that is sent is counted.
        """
        self._surely = True
        try:
            yield
        finally:
            self._surely = False

    def _count_round(self, way: Traffic, directed_edges: int, size: int) -> None:
        super()._count_round(way, directed_edges, size)
        if not self._surely:
            return
        fates, asleep = self._road().fates, np.zeros(self.n_agents, dtype=np.bool_)
        size += self.channel.overhead
        self.bytes += directed_edges * self.channel.overhead
        t = self.rounds - 1
        missing = fates.lost(t, self._striking.struck(t), asleep)
        while missing.any():
            again = int(missing.sum())
            self.messages += again
            self.bytes += again * size
            missing &= fates.lost(self.rounds, self._striking.struck(self.rounds), asleep)
            self.rounds += 1
        self.rounds += self.channel.lateness(size)

    @cached_property
    def flooding_rounds(self) -> int:
        """As on a good network, where the neighbours stay the same.

        Raises
        ------
        ValueError
            Where they do not: a message that is lost has nobody to go to when it is sent again.
        """
        if self.sequence is not None:
            raise ValueError(
                "on a time-varying network with a bad channel what is lost cannot be sent again, as the neighbours have changed: "
                "no number of rounds is sure to reach everybody"
            )
        return super().flooding_rounds

    def _begin_anew(self, state: Observed, x0: Array) -> None:
        """Give those who are back what they begin with."""
        here = self._back[self.agents]
        names = _RESTARTED & _arrays(state).keys()
        for name in names:
            getattr(state, name)[here] = 0.0
        if self.channel.repair and {"tracker", "field"} <= names:
            state.tracker[...] = state.field
        road = self._road()
        width = state.x.size // self.n_local
        way = self._gathering(road, (width,))
        told = ~(self._striking.asleep(state.k) | self._back)[road.fates.directed.lower] & self._back[road.fates.directed.upper]
        gathered = way.gather((state.x,))
        total, weights = np.zeros(state.x.shape), np.zeros(self.n_local)
        for piece, used, arrays in zip(road.plan.halo.pieces, road.fates.entries(told, False), gathered, strict=True):
            block = piece.block._replace(data=np.where(used, piece.block.data, 0.0))
            accumulate(block, width, arrays[0].reshape(-1), total.reshape(-1))
            accumulate(block, 1, np.ones(block.columns), weights)
        alone = here & (weights == 0.0)
        here &= ~alone
        state.x[here] = total[here] / weights[here].reshape(-1, *(1,) * (state.x.ndim - 1))
        state.x[alone] = x0[alone]
        self._count(way, int(told.sum()), 8 * width * int(told.sum()))

    def _mix(self, xs: tuple[Array, ...], alike: bool = False) -> tuple[Array, ...]:
        if self._iteration is None:
            return super()._mix(xs, alike)
        if alike:
            self.check_alike()
        labels, xs = (xs[:1], xs[1:]) if alike else ((), xs)
        road = self._road()
        (halo, _, _), fates, _ = road
        t = self.rounds
        asleep, struck = self._striking.asleep(self._iteration), self._striking.struck(t)
        lost = fates.lost(t, asleep | struck if self.channel.repair else asleep, asleep)
        here = self.agents
        messages = self._memory.messages(xs, t, self._exchange, asleep[here], struck[here], self._back[here])

        widths = tuple([x.size // self.n_local for x in (*labels, *xs)])
        way = self._gathering(road, widths)
        gathered = way.gather((*labels, *messages.arrays))
        used = fates.used(lost)
        out: list[Array] = []
        if alike:
            heard, blocks = halo.alike([arrays[0] for arrays in gathered], used)
            out.append(heard)
        else:
            blocks = tuple([piece.block for piece in halo.pieces]) if used is None else halo.using(used)
        for number, (x, rest) in enumerate(zip(xs, messages.rests, strict=True), len(labels)):
            mixed = np.zeros(x.shape) if rest is None else rest.reshape(x.shape)
            if rest is not None and not self.channel.repair:
                rest *= halo.own_weights(blocks)[:, None]
            for block, arrays in zip(blocks, gathered, strict=True):
                accumulate(block, widths[number], arrays[number].reshape(-1), mixed.reshape(-1))
            out.append(mixed)
        self._count(way, *self._sent(fates, lost, asleep, messages, 8 * len(labels)))
        self._exchange += 1
        return tuple(out)

    def _sent(self, fates: Fates, lost: Mask, asleep: Mask, messages: Messages, labels: int) -> tuple[int, int]:
        """How many messages a round takes, and their bytes."""
        sender, receiver = fates.directed
        sent = ~asleep[sender]
        number, anew = int(sent.sum()), 0
        if self.channel.feedback:
            number += int((sent & lost).sum())
            anew = int((sent & (self._back[sender] | self._back[receiver])).sum())
        return number, number * (messages.size + labels) + anew * (messages.whole - messages.size)

    def _count(self, way: Gathering, messages: int, size: int) -> None:
        self.rounds += 1
        self.messages += messages
        self.bytes += size
        self.transport_messages += way.messages
        self.transport_bytes += way.bytes
        self.wait_seconds += way.waited

    def _gathering(self, road: _Road, widths: tuple[int, ...]) -> Gathering:
        """The way on this road for arrays of these widths."""
        way = road.ways.get(widths)
        if way is None:
            way = road.ways[widths] = gathering(road.plan.halo, self.communicator, widths)
        return way

    def _road(self) -> _Road:
        """The plan and fates of the next round; kept as long as the plan is."""
        known = self._plan()
        road = self._roads.get(id(known))
        if road is None:
            plans = {id(plan) for plan in self._plans.values()}
            self._roads = {key: kept for key, kept in self._roads.items() if key in plans}
            W = self.W if self.sequence is None else self.sequence.at(self.rounds)
            fates = Fates(self.channel, self._seed, known.halo, pairs(W), self.n_agents)
            road = self._roads[id(known)] = _Road(known, fates, {})
        return road


def _arrays(state: Any) -> dict[str, Any]:
    """The arrays of a state, and what holds arrays, by name."""
    return {name: value for name, value in state._asdict().items() if isinstance(value, np.ndarray | tuple)}


def _rows(state: Any, chosen: Any) -> Any:
    """Copies of some agents' rows of the arrays in a state."""
    if isinstance(state, np.ndarray):
        return state[chosen]
    return [_rows(value, chosen) for value in state] if isinstance(state, tuple) else None


def _put_back(state: Any, rows: Any, chosen: Any) -> None:
    """Write what `_rows` gave."""
    if isinstance(state, np.ndarray):
        state[chosen] = rows
    elif isinstance(state, tuple):
        for value, kept in zip(state, rows, strict=True):
            _put_back(value, kept, chosen)
