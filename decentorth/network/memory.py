"""The messages that agents send through a `Channel`, coded, late or wrong, and the earlier messages that they build on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..protocols import Array, Index
from .channel import Channel
from .codings import Code, Coding
from .draws import Mask
from .faults import Corrupt, Late, Source


class _Key(NamedTuple):
    """The number and size of one of the arrays that an iteration exchanges."""

    exchange: int
    part: int
    size: int


class _Said:
    """The last messages of one array, ``(depth, n_local, size)``, as a ring buffer; number 0 is the newest."""

    def __init__(self, said: Array) -> None:
        self._newest = 0
        self._said: list[Array] = list(said)

    def __len__(self) -> int:
        return len(self._said)

    def __getitem__(self, late: int) -> Array:
        return self._said[(self._newest + late) % len(self)]

    def go_on(self) -> Array:
        """The buffer of the next message, which takes the place of the oldest."""
        self._newest = (self._newest - 1) % len(self)
        return self[0]


class Messages(NamedTuple):
    """The messages of an exchange."""

    arrays: list[Array]
    """The array m that arrives for each array x, ``(n_local, size)``; x itself if it is unchanged."""
    rests: list[Array | None]
    """``(n_local, size)``, fresh: x - m; None if it is zero."""
    size: int
    """The bytes of a message."""
    whole: int
    """The bytes of an uncoded message, as sent to receivers without earlier ones."""


class Memory:
    """The messages of this process's agents, present and past, for each array that an iteration exchanges.

    Parameters
    ----------
    channel, seed
        The faults, and the seed of their draws.
    agents, n_agents
        The agents of this process, and the number of agents over all ranks.
    """

    def __init__(self, channel: Channel, seed: int, agents: slice, n_agents: int) -> None:
        self._channel, self._seed, self._agents = channel, seed, agents
        self._n_local = agents.stop - agents.start
        self._codings = channel.all(Coding)
        self._corruptions = [] if channel.repair else channel.all(Corrupt)
        self._late = [late.late(seed, number, n_agents, agents) for number, late in channel.all(Late)]
        self._cached = min([coding.cached for _, coding in self._codings], default=Coding.cached)
        self._said: dict[_Key, _Said] = {}
        self._buffers: dict[_Key, Array] = {}

    def messages(self, xs: tuple[Array, ...], t: int, exchange: int, asleep: Mask, struck: Mask, back: Mask) -> Messages:
        """The messages of a round, valid until the next call.

        Parameters
        ----------
        t, exchange
            The round, and the number of the exchange in its iteration.
        asleep
            ``(n_local,)``: agents that send nothing.
        struck
            ``(n_local,)``: agents whose messages have wrong numbers.
        back
            ``(n_local,)``: agents that have lost their earlier messages.
        """
        keys = [_Key(exchange, part, array.size // self._n_local) for part, array in enumerate(xs)]
        sizes = [key.size for key in keys]
        size, whole = self._channel.size(sizes), self._channel.overhead + 8 * sum(sizes)
        late = sum([late(t, size) for late in self._late])
        depth = 1 + self._channel.longest(sizes)
        first = self._channel.feedback and keys[0] not in self._said
        arrays: list[Array] = []
        rests: list[Array | None] = []
        for key, array in zip(keys, xs, strict=True):
            source = Source(self._seed, t, key.part, self._agents)
            x = array.reshape(self._n_local, -1)
            message, rest = x, None
            if self._codings or self._late:
                message, rest = self._say(key, x, source, asleep, back, late, depth)
            for number, corrupt in self._corruptions:
                message, rest = corrupt.corrupted(message, struck, source, number), None
            arrays.append(message)
            rests.append(x - message if rest is None and message is not x else rest)
        return Messages(arrays, rests, whole if first else size, whole)

    def _say(
        self, key: _Key, x: Array, source: Source, asleep: Mask, back: Mask, late: Index | int, depth: int
    ) -> tuple[Array, Array | None]:
        """The array that arrives for ``x``, which is coded and stored, and the rest if it is known."""
        if not self._channel.remembers:
            message = self._buffer(key)
            return message, self._code(x, source, message)
        feedback, said = self._channel.feedback, self._said.get(key)
        rest = None
        if said is None:
            said = self._said[key] = _Said(np.empty((depth, *x.shape)))
            if feedback:
                said[0][...] = np.where(asleep[:, None], 0.0, x)
            else:
                self._code(x, source, said[0])
            for late_by in range(1, depth):
                said[late_by][...] = said[0]
        else:
            before, now = said[0], said.go_on()
            rest = self._code(x, source, now, before if feedback else None, asleep)
            if feedback and back.any():
                now[back], rest[back] = x[back], 0.0
        if isinstance(late, int):
            return said[late], None if late else rest
        message = self._buffer(key)
        for rounds in range(depth):
            message[late == rounds] = said[rounds][late == rounds]
        return message, None

    def _code(self, x: Array, source: Source, out: Array, before: Array | None = None, asleep: Mask | None = None) -> Array:
        """Write into ``out`` the coded ``x`` or, if ``before`` is given, ``before`` plus the coded difference; return ``x - out``.

        A few agents are coded at a time, so that their arrays stay in the processor's cache.
        """
        each = max(1, self._cached // x.shape[1])
        rest = np.empty_like(x)
        for first in range(0, len(x), each):
            rows = slice(first, min(first + each, len(x)))
            some = source._replace(agents=slice(source.agents.start + rows.start, source.agents.start + rows.stop))
            own, said, left = x[rows], out[rows], rest[rows]
            code = Code(own if before is None else np.subtract(own, before[rows], out=left))
            for number, coding in self._codings:
                code = coding.coded(code, some, number)
            if before is None:
                code.put(said)
                np.subtract(own, said, out=left)
                continue
            if asleep is not None and asleep[rows].any():
                code.values[asleep[rows]] = 0.0
            if out is not before:
                said[...] = before[rows]
            code.add_to(said, own, left)
        return rest

    def _buffer(self, key: _Key) -> Array:
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = np.empty((self._n_local, key.size))
        return buffer

    def state(self) -> dict[str, Array]:
        """All stored messages as arrays ``(n_local, ...)``, with the same names at all times and one layout for all agents."""
        if not self._channel.remembers:
            return {}
        parts = [said[late] for said in self._said.values() for late in range(len(said))]
        layout = np.array([(*key, len(said)) for key, said in self._said.items()], dtype=np.float64).reshape(1, -1)
        return {
            "messages": np.concatenate([np.empty((self._n_local, 0)), *parts], axis=1),
            "layout": np.repeat(layout, self._n_local, axis=0),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Continue from a result of `state`.

        Raises
        ------
        ValueError
            ``state`` has other names or shapes.
        """
        if state.keys() != self.state().keys():
            raise ValueError(
                f"this channel has {', '.join(self.state()) or 'nothing'} in flight, got {', '.join(state) or 'nothing'}"
            )
        self._said = {}
        if not state:
            return
        messages, layout = state["messages"], state["layout"][0].astype(np.int64).reshape(-1, 4)
        ends = np.concatenate(([0], np.cumsum(layout[:, 2] * layout[:, 3])))
        if messages.shape != (self._n_local, ends[-1]):
            raise ValueError(f"what is in flight must be {self._n_local} x {ends[-1]} numbers, got {messages.shape}")
        for (*key, depth), first, last in zip(layout.tolist(), ends, ends[1:], strict=False):
            part = messages[:, first:last].reshape(self._n_local, depth, -1)
            self._said[_Key(*key)] = _Said(np.ascontiguousarray(part.transpose(1, 0, 2)))
