"""What happens to messages on their way: faults put together, and what they do to averages.

In a round of a good network x_i <- sum_j W_ij x_j. On a bad one agent j's message of round k says m_j, which may be less than x_j,
late, noisy or wrong, and some messages are lost:

    x_i <- sum_j W_ij(k) m_j + c_i (x_i - m_i)                                         (1)

where W(k) is W without the lost messages, each agent's own weight taking up theirs, and the second term makes up for the agent
having its own x_i, not m_i. Without ``repair`` c_i = W_ii(k): everybody's own part is exact, the rows of W(k) sum to 1, its columns
only where both directions of an edge are lost together, and the mean of the x_i drifts. With ``repair`` an edge is used where both
directions arrive (each end tells the other), so W(k) is symmetric and doubly stochastic, and c_i = 1: what an agent did not say
stays its own. Then the mean stays what it was, to rounding, and with it the invariant of gradient tracking. A message of which the
checksum (four bytes) is wrong counts as lost.

=============================  ===================  ==============================================  ============================
fault                          concerns             without repair                                  with repair
=============================  ===================  ==============================================  ============================
loss, bursts (bad, good < 1)   each message         rows of W(k) sum to 1, columns do not: drift    doubly stochastic, mean kept
failures, bursts               both directions      doubly stochastic, mean kept                    the same
sleep                          an agent's edges     doubly stochastic, mean kept                    the same
topk, randomk, quantize,       what a message says  W(k) m keeps the mean of m, not that of x:      mean kept
float32, float16, noise                             drift, without bias where coding has none
delay                          when it is said      drift                                           mean kept; stable for short
                                                                                                    delays only
corrupt                        what a message says  drift                                           found out, and lost
=============================  ===================  ==============================================  ============================

With repair and messages d iterations late, W must have its eigenvalues w within ``1 - w < 2 sin(pi / (4 d + 2))``, as x <- x - (I -
W) x(k - d) must be stable; without repair, agents average stably with any delay, but to another mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..protocols import Array
from .draws import Mask
from .faults import Breaking, Coding, Corrupt, Delay, Fault, Pairs, Sleep, Source, Wire, fault
from .halo import Halo

_CHECKSUM = 4
_CACHED = 1 << 15
"""Numbers that are coded at a time."""
F = TypeVar("F", bound=Fault)


@dataclass(frozen=True, init=False)
class Channel:
    """Faults, in order: those that code a message work one after another; then it is delayed, then corrupted, and maybe lost.

    Parameters
    ----------
    *faults
        As objects or as text: ``Channel("loss:p=0.1", TopK(share=0.1))``.
    repair
        Keep the mean of what is averaged, at the cost of what arrives in one direction only.

    Raises
    ------
    ValueError, TypeError
        For what is no fault, none at all, and more than one delay.
    """

    faults: tuple[Fault, ...]
    repair: bool

    def __init__(self, *faults: str | Fault, repair: bool = True) -> None:
        if not faults:
            raise ValueError("a channel needs a fault, such as 'loss:p=0.1'")
        object.__setattr__(self, "faults", tuple([fault(one) for one in faults]))
        object.__setattr__(self, "repair", repair)
        if len(self.all(Delay)) > 1:
            raise ValueError("a channel has one delay at most: add them up")

    def all(self, kind: type[F]) -> list[tuple[int, F]]:
        """Its faults of a kind, with their numbers."""
        return [(number, one) for number, one in enumerate(self.faults) if isinstance(one, kind)]

    @property
    def feedback(self) -> bool:
        """Whether what is coded is the difference to what was sent."""
        return any(coding.feedback for _, coding in self.all(Coding))

    @property
    def remembers(self) -> bool:
        """Whether a message depends on earlier ones."""
        return self.feedback or bool(self.all(Delay))

    @property
    def written(self) -> list[str]:
        """The faults as text."""
        return [str(one) for one in self.faults]

    def wire(self, size: int) -> int:
        """Bytes of ``size`` numbers on the wire."""
        wire = Wire(size, 64)
        for _, coding in self.all(Coding):
            wire = coding.wire(wire)
        return wire.bytes

    @property
    def overhead(self) -> int:
        """Bytes of a message beside its arrays."""
        return _CHECKSUM if self.repair and self.all(Corrupt) else 0


class Fates:
    """What becomes of the messages over the edges of one matrix.

    Parameters
    ----------
    channel, seed
        The faults, and the seed of their draws.
    halo
        Of the matrix.
    pairs
        Its edges, sorted by their upper end, then by their lower one.
    n_agents
        Over all ranks.
    """

    def __init__(self, channel: Channel, seed: int, halo: Halo, pairs: Pairs, n_agents: int) -> None:
        self._channel = channel
        self.directed = pairs.directed()
        self._edges = len(pairs.lower)
        self._losses = [breaking.lost(pairs, seed, number) for number, breaking in channel.all(Breaking)]
        ordered = pairs.upper * n_agents + pairs.lower
        self._entries = []
        for piece in halo.pieces:
            sender, receiver = piece.agents[piece.block.indices], halo.agents.start + piece.rows
            edge = np.searchsorted(ordered, np.maximum(sender, receiver) * n_agents + np.minimum(sender, receiver))
            number = np.where(sender < receiver, edge, self._edges + edge)
            self._entries.append(np.where(sender == receiver, 2 * self._edges, number))

    def lost(self, t: int, silent: Mask, deaf: Mask) -> Mask:
        """Which of the ``directed`` messages of round ``t`` do not arrive, or cannot be read.

        Parameters
        ----------
        silent, deaf
            ``(n,)``: agents whose messages are of no use, and agents that hear nothing.
        """
        lost = reduce(np.logical_or, [fate(t) for fate in self._losses], np.zeros(2 * self._edges, dtype=np.bool_))
        if silent.any() or deaf.any():
            lost = lost | silent[self.directed.lower] | deaf[self.directed.upper]
        return lost

    def used(self, lost: Mask) -> list[Mask] | None:
        """For each piece of the halo which of its entries are used; None for all of them."""
        if not lost.any():
            return None
        if self._channel.repair:
            lost = np.tile(lost[: self._edges] | lost[self._edges :], 2)
        arrived = np.append(~lost, True)
        return [arrived[entries] for entries in self._entries]


def pairs(W: Any) -> Pairs:
    """The edges of a symmetric CSR matrix, sorted by their upper end, then by their lower one."""
    rows = np.repeat(np.arange(W.shape[0], dtype=np.int64), np.diff(W.indptr))
    below = W.indices < rows
    return Pairs(W.indices[below].astype(np.int64), rows[below])


class _Key(NamedTuple):
    """Which of the arrays that an iteration exchanges."""

    exchange: int
    part: int
    size: int


class _Said:
    """What agents said of one array: ``(depth, n_local, size)``, a ring whose newest is number ``newest``."""

    def __init__(self, said: Array) -> None:
        self.said, self.newest = said, 0

    def __getitem__(self, late: int) -> Array:
        said: Array = self.said[(self.newest + late) % len(self.said)]
        return said

    def go_on(self) -> Array:
        """Where to write what is said next: the oldest."""
        self.newest = (self.newest - 1) % len(self.said)
        return self[0]


class Memory:
    """What this process's agents say, and what they said: of each array that an iteration exchanges, one after another.

    Parameters
    ----------
    channel, seed
        The faults, and the seed of their draws.
    agents
        Those of this process.
    """

    def __init__(self, channel: Channel, seed: int, agents: slice) -> None:
        self._channel, self._seed, self._agents = channel, seed, agents
        self._n_local = agents.stop - agents.start
        self._codings = channel.all(Coding)
        self._corruptions = [] if channel.repair else channel.all(Corrupt)
        self._delays = channel.all(Delay)
        self._depth = 1 + (self._delays[0][1].rounds if self._delays else 0)
        self._said: dict[_Key, _Said] = {}
        self._buffers: dict[_Key, Array] = {}

    def messages(self, xs: tuple[Array, ...], t: int, exchange: int, asleep: Mask, struck: Mask) -> tuple[list[Array], int]:
        """What arrives of each array, ``(n_local, size)``, the array itself where that is what arrives; and the bytes of a message.

        It is valid until the next time.

        Parameters
        ----------
        t, exchange
            The round, and which exchange of its iteration it is.
        asleep
            ``(n_local,)``: agents that say nothing.
        struck
            ``(n_local,)``: agents whose messages have wrong numbers.
        """
        messages, total = [], self._channel.overhead
        for part, array in enumerate(xs):
            key = _Key(exchange, part, array.size // self._n_local)
            source = Source(self._seed, t, part, self._agents)
            first = self._channel.feedback and key not in self._said
            total += 8 * key.size if first else self._channel.wire(key.size)
            message = array
            if self._codings or self._delays:
                message = self._say(key, array.reshape(self._n_local, -1), source, asleep)
            for number, corrupt in self._corruptions:
                message = corrupt.corrupted(message.reshape(self._n_local, -1), struck, source, number)
            messages.append(message)
        return messages, total

    def _say(self, key: _Key, x: Array, source: Source, asleep: Mask) -> Array:
        """Code and remember, a few agents at a time, so that what is worked on stays in the processor's cache."""
        said = self._said.get(key)
        if not self._channel.remembers:
            message = self._buffer(key)
            self._code(x, source, message)
            return message
        if said is None:
            said = self._said[key] = _Said(np.empty((self._depth, *x.shape)))
            if self._channel.feedback:
                said[0][...] = np.where(asleep[:, None], 0.0, x)
            else:
                self._code(x, source, said[0])
            said.said[1:] = said[0]
        else:
            before, now = said[0], said.go_on()
            self._code(x, source, now, before if self._channel.feedback else None, asleep)
        for number, delay in self._delays:
            late = delay.lateness(source, number)
            if isinstance(late, int):
                return said[late]
            message = self._buffer(key)
            for rounds in range(self._depth):
                message[late == rounds] = said[rounds][late == rounds]
            return message
        return said[0]

    def _code(self, x: Array, source: Source, out: Array, before: Array | None = None, asleep: Mask | None = None) -> None:
        """Into ``out`` what ``x`` is coded as or, where ``before`` is given, that plus what the difference is coded as."""
        each = max(1, _CACHED // x.shape[1])
        for first in range(0, len(x), each):
            rows = slice(first, min(first + each, len(x)))
            some = source._replace(agents=slice(source.agents.start + rows.start, source.agents.start + rows.stop))
            message = x[rows] if before is None else x[rows] - before[rows]
            for number, coding in self._codings:
                message = coding.coded(message, some, number)
            if before is None:
                out[rows] = message
            else:
                if asleep is not None and asleep[rows].any():
                    message[asleep[rows]] = 0.0
                np.add(before[rows], message, out=out[rows])

    def _buffer(self, key: _Key) -> Array:
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = np.empty((self._n_local, key.size))
        return buffer

    def state(self) -> dict[str, Array]:
        """Everything, as arrays ``(n_local, ...)`` with the same names at all times; the layout is the same for every agent."""
        if not self._channel.remembers:
            return {}
        parts = [said[late] for said in self._said.values() for late in range(self._depth)]
        layout = np.array(list(self._said), dtype=np.float64).reshape(1, -1)
        return {
            "messages": np.concatenate([np.empty((self._n_local, 0)), *parts], axis=1),
            "layout": np.repeat(layout, self._n_local, axis=0),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on with what `state` gave.

        Raises
        ------
        ValueError
            For what it did not give.
        """
        if state.keys() != self.state().keys():
            raise ValueError(
                f"this channel has {', '.join(self.state()) or 'nothing'} in flight, got {', '.join(state) or 'nothing'}"
            )
        self._said = {}
        if not state:
            return
        messages, layout = state["messages"], state["layout"]
        keys = [_Key(*map(int, three)) for three in layout[:1].reshape(-1, 3)]
        ends = np.cumsum([0] + [key.size * self._depth for key in keys])
        if messages.shape != (self._n_local, ends[-1]):
            raise ValueError(f"what is in flight must be {self._n_local} x {ends[-1]} numbers, got {messages.shape}")
        for key, first, last in zip(keys, ends, ends[1:], strict=False):
            part = messages[:, first:last].reshape(self._n_local, self._depth, key.size)
            self._said[key] = _Said(np.ascontiguousarray(part.transpose(1, 0, 2)))


def striking(channel: Channel, seed: int, n_agents: int) -> tuple[Any, Any]:
    """Who sleeps in an iteration and whose messages are wrong in a round, each ``(n,)``."""
    sleeps = [sleep.asleep(n_agents, seed, number) for number, sleep in channel.all(Sleep)]
    wrongs = [corrupt.struck(n_agents, seed, number) for number, corrupt in channel.all(Corrupt)]
    nobody = np.zeros(n_agents, dtype=np.bool_)

    def any_of(fates: Sequence[Any]) -> Any:
        return lambda t: reduce(np.logical_or, [fate(t) for fate in fates], nobody)

    return any_of(sleeps), any_of(wrongs)
