"""A network whose messages go through a channel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..protocols import Array
from ..sums import accumulate
from .channel import Channel, Fates, Memory, pairs, striking
from .draws import Mask
from .faults import Delay
from .network import Network, Placement, Plan
from .traffic import Gathering, Traffic, gathering


class _Road(NamedTuple):
    """What is prepared for one matrix."""

    plan: Plan
    fates: Fates
    ways: dict[tuple[int, ...], Gathering]
    """By the widths of the arrays that are sent."""


class UnreliableNetwork(Network):
    """A `Network` with a `Channel`, from a run's first iteration on: what agents exchange before, to agree on their steps, is
    delivered.

    Bytes are those of coded messages. A message that is lost was sent, one of an agent that sleeps was not; with feedback a message
    that is lost is sent once more after the round, so that its receiver can go on adding up.

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
        self._memory = Memory(channel, seed, self.agents)
        self._asleep, self._struck = striking(channel, seed, self.n_agents)
        self._roads: dict[int, _Road] = {}
        self._iteration: int | None = None
        self._exchange = 0
        self._surely = False

    def in_flight(self) -> dict[str, Array]:
        """What messages build on."""
        return self._memory.state()

    def restore(self, rounds: int, messages: int, bytes: int, in_flight: Mapping[str, Array]) -> None:
        super().restore(rounds, messages, bytes, {})
        self._memory.restore(in_flight)

    def iterating(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step through the channel; agents that sleep keep the state that they have."""

        def faulty(problem: Any, network: Any, streams: Any, state: Any) -> Any:
            self._iteration, self._exchange = state.k, 0
            asleep = np.flatnonzero(self._asleep(state.k)[self.agents])
            kept = _rows(state, asleep) if asleep.size else None
            moved = step(problem, network, streams, state)
            self._iteration = None
            if kept is not None:
                _put_back(moved, kept, asleep)
            return moved

        return faulty

    @contextlib.contextmanager
    def surely(self) -> Iterator[None]:
        """What is exchanged inside arrives: as float64, each message sent again until it does, the late and those who sleep waited
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
        missing = fates.lost(t, self._struck(t), asleep)
        while missing.any():
            again = int(missing.sum())
            self.messages += again
            self.bytes += again * size
            missing &= fates.lost(self.rounds, self._struck(self.rounds), asleep)
            self.rounds += 1
        self.rounds += sum(delay.rounds for _, delay in self.channel.all(Delay))

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

    def _mix(self, xs: tuple[Array, ...], alike: bool = False) -> tuple[Array, ...]:
        if self._iteration is None:
            return super()._mix(xs, alike)
        if alike and self.channel.all(Delay):
            raise ValueError(
                "methods that start over together (safe) cannot tell which messages are from before when these are late"
            )
        labels, xs = (xs[:1], xs[1:]) if alike else ((), xs)
        (halo, _, _), fates, ways = self._road()
        t = self.rounds
        asleep, struck = self._asleep(self._iteration), self._struck(t)
        lost = fates.lost(t, asleep | struck if self.channel.repair else asleep, asleep)
        said, size = self._memory.messages(xs, t, self._exchange, asleep[self.agents], struck[self.agents])

        widths = tuple([x.size // self.n_local for x in (*labels, *xs)])
        way = ways.get(widths)
        if way is None:
            way = ways[widths] = gathering(halo, self.communicator, widths)
        gathered = way.gather((*labels, *said))
        used = fates.used(lost)
        out: list[Array] = []
        if alike:
            heard, blocks = halo.alike([arrays[0] for arrays in gathered], used)
            out.append(heard)
        else:
            blocks = tuple([piece.block for piece in halo.pieces]) if used is None else halo.using(used)
        for number, (x, message) in enumerate(zip(xs, said, strict=True), len(labels)):
            if message is x:
                mixed = np.zeros(x.shape)
            else:
                mixed = x - message.reshape(x.shape)
                if not self.channel.repair:
                    mixed.reshape(self.n_local, -1)[...] *= halo.own_weights(blocks)[:, None]
            for block, arrays in zip(blocks, gathered, strict=True):
                accumulate(block, widths[number], arrays[number].reshape(-1), mixed.reshape(-1))
            out.append(mixed)
        self._count(way, fates, lost, asleep, size + 8 * len(labels))
        return tuple(out)

    def _count(self, way: Gathering, fates: Fates, lost: Mask, asleep: Mask, size: int) -> None:
        sent = ~asleep[fates.directed.lower]
        messages = int(sent.sum()) + (int((sent & lost).sum()) if self.channel.feedback else 0)
        self.rounds += 1
        self._exchange += 1
        self.messages += messages
        self.bytes += messages * size
        self.transport_messages += way.messages
        self.transport_bytes += way.bytes
        self.wait_seconds += way.waited

    def _road(self) -> _Road:
        """That of the round to come; kept as long as the plan is."""
        known = self._plan()
        road = self._roads.get(id(known))
        if road is None:
            plans = {id(plan) for plan in self._plans.values()}
            self._roads = {key: kept for key, kept in self._roads.items() if key in plans}
            W = self.W if self.sequence is None else self.sequence.at(self.rounds)
            fates = Fates(self.channel, self._seed, known.halo, pairs(W), self.n_agents)
            road = self._roads[id(known)] = _Road(known, fates, {})
        return road


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
