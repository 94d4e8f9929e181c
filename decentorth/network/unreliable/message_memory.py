"""The messages that agents send through a `Channel`, coded or late, and the earlier messages that
they build on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from ...protocols import Array, Index
from .channel import Channel
from .codings import Code
from .draws import Mask, Source
from .faults import Coding, Delay

Arrays: TypeAlias = tuple[Array, ...]
_CACHED = 1 << 16
"""The number of numbers to code at a time, so that they stay in the processor's cache."""


class _Key(NamedTuple):
    """The number and size of one of the arrays that an iteration exchanges."""

    exchange: int
    part: int
    size: int


class Messages(NamedTuple):
    """The messages of an exchange."""

    arrays: list[Array]
    """The array m that arrives for each array x, ``(n_local, size)``; x itself if it is
    unchanged."""
    rests: list[Array | None]
    """``(n_local, size)``, fresh: x - m; None if it is zero."""
    size: int
    """The bytes of a message."""
    whole: int
    """The bytes of an uncoded message, as sent to receivers without earlier ones."""


class Memory:
    """The messages of this process's agents, present and past, for each array that an iteration
    exchanges."""

    def __init__(self, channel: Channel, seed: int, agents: slice) -> None:
        self._channel = channel
        self._seed = seed
        self._agents = agents
        self._n_local = agents.stop - agents.start
        self._codings = channel.all(Coding)
        self._late = channel.all(Delay)
        self._sent: dict[_Key, deque[Array]] = {}
        """The last messages of each array, ``(n_local, size)``, the newest first."""
        self._buffers: dict[_Key, Array] = {}

    def messages(self, xs: Arrays, t: int, exchange: int, asleep: Mask, back: Mask) -> Messages:
        """The messages of round ``t``, exchange ``exchange`` of its iteration; valid until the next
        call.

        ``asleep`` agents send nothing, and agents that are ``back`` have lost their earlier
        messages.
        """
        sizes = [array.size // self._n_local for array in xs]
        size = self._channel.size(sizes)
        whole = 8 * sum(sizes)
        source = Source(self._seed, t, 0, self._agents)
        late = sum([delay.late(source, number) for number, delay in self._late])
        first = self._channel.feedback and _Key(exchange, 0, sizes[0]) not in self._sent
        found = Messages([], [], whole if first else size, whole)
        for part, array in enumerate(xs):
            source = source._replace(part=part)
            canonical = array.astype(np.float64, order="C", casting="same_kind", copy=False)
            x = canonical.reshape(self._n_local, -1)
            message = x
            rest = None
            key = _Key(exchange, part, sizes[part])
            if self._codings or self._late:
                message, rest = self._send(key, x, source, asleep, back, late)
            found.arrays.append(message)
            if rest is None and message is not x:
                rest = x - message
            found.rests.append(rest)
        return found

    def _send(
        self, key: _Key, x: Array, source: Source, asleep: Mask, back: Mask, late: Index | int
    ) -> tuple[Array, Array | None]:
        """The array that arrives for ``x``, which is coded and stored, and the rest if it is
        known."""
        feedback = self._channel.feedback
        depth = 1 + self._channel.lateness
        sent = self._sent.get(key)
        first = sent is None
        if sent is None:
            sent = self._sent[key] = deque(np.empty((depth, *x.shape)))
        rest = None
        if first and feedback:
            sent[0][...] = np.where(asleep[:, None], 0.0, x)
        else:
            before = sent[0] if feedback else None
            sent.rotate()  # the oldest message makes room for the newest
            now = sent[0]
            rest = self._code(x, source, now, before, asleep)
            if feedback and back.any():
                now[back], rest[back] = x[back], 0.0
        if first:
            for earlier in range(1, depth):
                sent[earlier][...] = sent[0]
        if isinstance(late, int):
            if late > 0:
                rest = None
            return sent[late], rest
        # a buffer that is used again is not allocated again
        message = self._buffers.setdefault(key, np.empty_like(x))
        for rounds in range(depth):
            message[late == rounds] = sent[rounds][late == rounds]
        return message, None

    def _code(
        self, x: Array, source: Source, out: Array, before: Array | None, asleep: Mask
    ) -> Array:
        """Write into ``out`` the coded ``x`` or, if ``before`` is given, ``before`` plus the coded
        difference; return ``x - out``.

        A few agents are coded at a time, so that their arrays stay in the processor's cache.
        """
        each = max(1, _CACHED // x.shape[1])
        rest = np.empty_like(x)
        begin = source.agents.start
        for first in range(0, len(x), each):
            rows = slice(first, min(first + each, len(x)))
            some = source._replace(agents=slice(begin + first, begin + rows.stop))
            own = x[rows]
            message = out[rows]
            left = rest[rows]
            code = Code(own if before is None else np.subtract(own, before[rows], out=left))
            for number, coding in self._codings:
                code = coding.coded(code, some, number)
            if before is None:
                code.put(message)
                np.subtract(own, message, out=left)
                continue
            if asleep[rows].any():
                code.values[asleep[rows]] = 0.0
            if out is not before:
                message[...] = before[rows]
            code.add_to(message, own, left)
        return rest

    def state(self) -> dict[str, Array]:
        """All stored messages as arrays ``(n_local, ...)``, with the same names at all times and
        one layout for all agents."""
        if not self._channel.remembers:
            return {}
        parts = [message for sent in self._sent.values() for message in sent]
        depths = [(*key, len(sent)) for key, sent in self._sent.items()]
        layout = np.array(depths, dtype=np.float64).reshape(1, -1)
        messages = np.concatenate([np.empty((self._n_local, 0)), *parts], axis=1)
        return {"messages": messages, "layout": np.repeat(layout, self._n_local, axis=0)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Continue from a result of `state`; ValueError for other names or shapes."""
        if state.keys() != self.state().keys():
            here, there = (", ".join(names) or "nothing" for names in (self.state(), state))
            raise ValueError(f"this channel has {here} in flight, got {there}")
        self._sent = {}
        if not state:
            return
        messages = state["messages"]
        layout = state["layout"][0].astype(np.int64).reshape(-1, 4)
        ends = np.concatenate(([0], np.cumsum(layout[:, 2] * layout[:, 3])))
        if messages.shape != (self._n_local, ends[-1]):
            raise ValueError(
                f"the messages in flight must be {self._n_local} x {ends[-1]} numbers, got "
                f"{messages.shape}"
            )
        for (*key, depth), first, last in zip(layout.tolist(), ends, ends[1:], strict=False):
            part = messages[:, first:last].reshape(self._n_local, depth, -1)
            self._sent[_Key(*key)] = deque(np.ascontiguousarray(part.transpose(1, 0, 2)))
