"""Faults of messages and agents, one frozen dataclass each; a `channel.Channel` combines them, and
says what they do to averages.

``"loss:p=0.1"``, ``"bursts:p=0.1,length=5"`` and ``"topk:share=0.1"`` are their texts in files and
flags. A fault draws its random numbers by ``seed`` and by its ``number`` among the faults of the
channel.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Annotated, NamedTuple

import numpy as np

from topologies.line import text

from ...protocols import Index
from ...settings import Count, Probability, Range, Settings, Share
from .codings import Code, Wire, largest_places, random_places
from .draws import Chain, Draws, Mask, Source, uniform

Struck = Callable[[int], Mask]
"""Of a round (or an iteration), the mask of the messages, edges or agents that are struck."""


def any_of(faults: list[Struck], size: int) -> Struck:
    """Return a function that gives the mask, ``(size,)``, of everything hit by any of the faults.

    Its argument is that of the functions in ``faults``.
    """
    return partial(_union, faults, np.zeros(size, dtype=np.bool_))


def _union(faults: list[Struck], nothing: Mask, t: int) -> Mask:
    return reduce(np.logical_or, [struck(t) for struck in faults], nothing)


class EdgeEnds(NamedTuple):
    """The edges of a network, each once, or its directed messages.

    Edges are sorted by their upper end, then by their lower end.
    """

    lower: Index
    upper: Index

    def directed(self) -> EdgeEnds:
        """Every message as (sender, receiver): first the messages to upper ends, then those to
        lower ends."""
        ends = self.lower, self.upper
        return EdgeEnds(np.concatenate(ends), np.concatenate(ends[::-1]))


@dataclass(frozen=True)
class Fault(Settings):
    """A fault of messages or agents, whose name is that of its class in lower case."""

    @property
    def working(self) -> float:
        """The expected share of the edges on which it lets both messages of a round through."""
        return 1.0

    def __str__(self) -> str:
        """As it is written in files and flags."""
        return text.shown(type(self).__name__.lower(), self, defaults=True)


class MessageLoss(Fault, ABC):
    """Some messages do not arrive."""

    @abstractmethod
    def lost(self, edges: EdgeEnds, seed: int, number: int) -> Struck:
        """Return a function that gives the mask of the `Edges.directed` messages lost in a
        round."""


@dataclass(frozen=True)
class Loss(MessageLoss):
    """Each message is lost with probability ``p``, independently."""

    p: Probability

    @property
    def working(self) -> float:
        return (1.0 - self.p) ** 2

    def lost(self, edges: EdgeEnds, seed: int, number: int) -> Struck:
        return partial(self._struck, Draws(seed, number, *edges.directed()))

    def _struck(self, draws: Draws, t: int) -> Mask:
        return draws(t) < self.p


@dataclass(frozen=True)
class Failures(MessageLoss):
    """Each edge fails with probability ``p`` in every round, in both directions."""

    p: Probability

    @property
    def working(self) -> float:
        return 1.0 - self.p

    def lost(self, edges: EdgeEnds, seed: int, number: int) -> Struck:
        return partial(self._struck, Draws(seed, number, *edges))

    def _struck(self, draws: Draws, t: int) -> Mask:
        return np.tile(draws(t) < self.p, 2)


@dataclass(frozen=True)
class _Lasting(Fault):
    """A fault that strikes a share ``p`` of the time, for ``length`` rounds or iterations in a row
    on average."""

    p: Probability
    length: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        least = 1.0 / (1.0 - self.p)
        if self.length not in Range(least=least):
            raise ValueError(
                f"length must be finite and at least 1 / (1 - p) = {least:.3g}, where rounds are "
                f"independent, got {self.length}"
            )


@dataclass(frozen=True)
class Bursts(_Lasting, MessageLoss):
    """Losses that come in bursts: each edge is good or bad for a while (Gilbert 1960, Elliott
    1963).

    A message is lost with probability ``bad`` on a bad edge and ``good`` on a good one,
    independently for each direction.
    """

    bad: Annotated[float, Range(least=0, most=1)] = 1.0
    good: Probability = 0.0

    @property
    def working(self) -> float:
        return self.p * (1.0 - self.bad) ** 2 + (1.0 - self.p) * (1.0 - self.good) ** 2

    def lost(self, edges: EdgeEnds, seed: int, number: int) -> Struck:
        chain = Chain(Draws(seed, number, *edges), self.p, self.length)
        draws = Draws(seed, number | 1 << 16, *edges.directed())
        return partial(self._struck, chain, draws)

    def _struck(self, chain: Chain, draws: Draws, t: int) -> Mask:
        return draws(t) < np.where(np.tile(chain(t), 2), self.bad, self.good)


@dataclass(frozen=True)
class Sleep(_Lasting):
    """Agents sleep, or stop and return with their state: meanwhile they neither compute, send nor
    receive."""

    @property
    def working(self) -> float:
        return (1.0 - self.p) ** 2

    def down(self, n_agents: int, seed: int, number: int) -> Struck:
        """Return a function that gives the mask ``(n,)`` of the agents asleep in an iteration."""
        everyone = np.arange(n_agents)
        return Chain(Draws(seed, number, everyone, everyone), self.p, self.length)


@dataclass(frozen=True)
class Crash(Sleep):
    """Agents crash: they are down for a while, and lose their state.

    They are down at the times of `Sleep`; `agents.UnreliableAgents` restores them.
    """


@dataclass(frozen=True)
class Delay(Fault):
    """Messages are ``rounds`` iterations late; if ``random``, 0 to ``rounds``, drawn for each
    sender and iteration.

    Until as many have been sent, the first one arrives; several delays add up.
    """

    rounds: Count
    random: bool = False

    def late(self, source: Source, number: int) -> Index | int:
        """The delays of the messages of ``source.agents``, ``(n_local,)``, or one delay for all."""
        if not self.random:
            return self.rounds
        # all arrays of a message are late together
        drawn = uniform(source._replace(part=0).words(number, 1)[:, 0])
        return np.floor(drawn * (self.rounds + 1)).astype(np.int64)


@dataclass(frozen=True)
class Coding(Fault, ABC):
    """A fault that compresses the content of a message.

    With ``feedback`` the difference to the sum of the earlier messages is coded, and every receiver
    adds the messages up: entries that a message leaves out stay in the difference and are sent
    later (Richtarik, Sokolov, Fatkhullin, "EF21", 2021; between neighbours Koloskova, Stich, Jaggi,
    "CHOCO", 2019).
    """

    feedback: bool = False

    @abstractmethod
    def coded(self, code: Code, source: Source, number: int) -> Code:
        """The code after this coding, in fresh arrays."""

    @abstractmethod
    def wire(self, wire: Wire) -> Wire:
        """The size of the array after this coding."""


@dataclass(frozen=True)
class _SparseCoding(Coding):
    """A share of an array's entries is sent, at least one."""

    share: Share = 0.1
    feedback: bool = True

    def kept(self, size: int) -> int:
        """The number of entries that are sent of ``size``."""
        return max(1, round(self.share * size))


@dataclass(frozen=True)
class TopK(_SparseCoding):
    """The largest entries of an array in absolute value, with their positions; among equal ones the
    first."""

    def coded(self, code: Code, source: Source, number: int) -> Code:
        return code.only(largest_places(code.values, self.kept(code.values.shape[1])))

    def wire(self, wire: Wire) -> Wire:
        kept = self.kept(wire.values)
        positions = 0
        if kept < wire.values:
            # or a bit for each
            positions = min(kept * math.ceil(math.log2(wire.values)), wire.values)
        return Wire(kept, wire.bits, wire.beside + -(-positions // 8))


@dataclass(frozen=True)
class RandomK(_SparseCoding):
    """Entries that both ends draw, so that positions are not sent; without feedback they are
    divided by the share, without bias."""

    def coded(self, code: Code, source: Source, number: int) -> Code:
        size = code.values.shape[1]
        kept = self.kept(size)
        sent = code.only(random_places(source, number, size, kept))
        if not self.feedback:
            np.multiply(sent.values, size / kept, out=sent.values)
        return sent

    def wire(self, wire: Wire) -> Wire:
        return wire._replace(values=self.kept(wire.values))


@dataclass(frozen=True)
class Quantize(Coding):
    """Stochastic uniform quantization: whole multiples of the largest entry / (2^(bits - 1) - 1),
    rounded up or down at random so that it is unbiased (QSGD, Alistarh et al. 2017) up to 2^-17 of
    such a unit, as 16 random bits decide."""

    bits: Annotated[int, Range(least=2, most=32)] = 8

    def coded(self, code: Code, source: Source, number: int) -> Code:
        x = code.values
        unit = np.abs(x).max(axis=1, keepdims=True) / (2.0 ** (self.bits - 1) - 1.0)
        multiples = x / np.where(unit > 0.0, unit, 1.0)
        multiples += uniform(source.words(number, x.shape[1], bits=16))
        np.floor(multiples, out=multiples)
        multiples *= unit
        return code._replace(values=multiples)

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, self.bits, wire.beside + 8)


_KINDS: list[type[Fault]] = [Loss, Failures, Bursts, Sleep, Crash, Delay, Quantize, TopK, RandomK]
FAULTS = {kind.__name__.lower(): kind for kind in _KINDS}


def fault(given: object) -> Fault:
    """The fault itself, or the fault that the text describes; a ValueError or TypeError for
    anything else."""
    match given:
        case Fault():
            return given
        case str():
            name, written = text.divided("fault", given, FAULTS)
            return text.read(f"channel {given!r}", name, FAULTS[name], written)
    kind = type(given).__name__
    raise TypeError(f"a channel is made of faults such as 'loss:p=0.1', got {kind}")
