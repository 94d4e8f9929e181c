"""Faults between agents, one frozen dataclass each; written alike in Python, in files and as flags.

``"loss:p=0.1"``, ``"bursts:p=0.1,length=5"``, ``"topk:share=0.1"``; in Python the objects below and in `codings` say the same. See
`channel` for what they do to averages.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np

from topologies import text

from ..protocols import Array, Index
from ..settings import Count, NotNegative, Positive, Probability, Range, Settings, Share
from .draws import Chain, Draws, Mask, ShortWords, Words, short_words, uniform, words

Fate = Callable[[int], Mask]
"""Of a round: a mask of the messages, edges or agents that are struck."""
Lateness = Callable[[int, int], Index | int]
"""Of a round and a number of bytes: how many iterations late such messages are, ``(n_local,)``, or a number for all."""


class Pairs(NamedTuple):
    """The edges of a network, each once."""

    lower: Index
    upper: Index

    def directed(self) -> Pairs:
        """Every message as (sender, receiver): first those to the upper end, then those to the lower one."""
        return Pairs(np.concatenate((self.lower, self.upper)), np.concatenate((self.upper, self.lower)))


class Source(NamedTuple):
    """Where the random numbers of one array in one exchange come from."""

    seed: int
    t: int
    """The round."""
    part: int
    """Which of the round's arrays."""
    agents: slice

    def words(self, number: int, size: int, stretch: int = 0) -> Words:
        """``(n_local, size)``, for the fault of that number."""
        return words(self.seed, number, self.t, self.part, self.agents, size, stretch)

    def short_words(self, number: int, size: int) -> ShortWords:
        """``(n_local, size)``, of 16 bits."""
        return short_words(self.seed, number, self.t, self.part, self.agents, size)


@dataclass(frozen=True)
class Fault(Settings):
    """A fault between agents; its subclasses say which."""

    name: ClassVar[str] = ""

    def __str__(self) -> str:
        """As it is written in files and flags."""
        return text.shown(self.name, self, defaults=True)

    @classmethod
    def read(cls, written: str) -> Self:
        """The fault with these parameters, as ``p=0.1,length=5``.

        Raises
        ------
        ValueError
            For a parameter that is unknown, missing, given twice or not what it should be.
        """
        return text.read(f"channel {':'.join(filter(None, (cls.name, written)))!r}", cls.name, cls, written)


class Breaking(Fault, ABC):
    """Some messages do not arrive."""

    @abstractmethod
    def lost(self, pairs: Pairs, seed: int, number: int) -> Fate:
        """Which of the `Pairs.directed` messages of a round are lost."""


@dataclass(frozen=True)
class Loss(Breaking):
    """Each message is lost with probability p, independently.

    Parameters
    ----------
    p
        In [0, 1).
    """

    name: ClassVar[str] = "loss"

    p: Probability

    def lost(self, pairs: Pairs, seed: int, number: int) -> Fate:
        draws = Draws(seed, number, *pairs.directed())
        return lambda t: draws(t) < self.p


@dataclass(frozen=True)
class Failures(Breaking):
    """Each edge fails with probability p in every round, for both directions.

    Parameters
    ----------
    p
        In [0, 1).
    """

    name: ClassVar[str] = "failures"

    p: Probability

    def lost(self, pairs: Pairs, seed: int, number: int) -> Fate:
        draws = Draws(seed, number, *pairs)
        return lambda t: np.tile(draws(t) < self.p, 2)


@dataclass(frozen=True)
class _Lasting(Fault):
    p: Probability
    length: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        least = 1.0 / (1.0 - self.p)
        if self.length not in Range(least=least):
            raise ValueError(
                f"length must be finite and at least 1 / (1 - p) = {least:.3g}, where rounds are independent, got {self.length}"
            )


@dataclass(frozen=True)
class Bursts(_Lasting, Breaking):
    """Losses that come in bursts: each edge is good or bad for a while (Gilbert 1960, Elliott 1963).

    Parameters
    ----------
    p
        The share of the time that an edge is bad, in [0, 1).
    length
        How many rounds it stays bad on average.
    bad, good
        The probabilities that a message is lost on a bad and on a good edge; for each direction by itself.
    """

    name: ClassVar[str] = "bursts"

    bad: Annotated[float, Range(least=0, most=1)] = 1.0
    good: Probability = 0.0

    def lost(self, pairs: Pairs, seed: int, number: int) -> Fate:
        chain = Chain(Draws(seed, number, *pairs), self.p, self.length)
        draws = Draws(seed, number | 1 << 16, *pairs.directed())
        return lambda t: draws(t) < np.where(np.tile(chain(t), 2), self.bad, self.good)


@dataclass(frozen=True)
class Sleep(_Lasting):
    """Agents sleep, or stop and come back with what they had: meanwhile they neither compute nor send nor hear.

    Parameters
    ----------
    p
        The share of the time that an agent sleeps, in [0, 1).
    length
        How many iterations it sleeps on average.
    """

    name: ClassVar[str] = "sleep"

    def asleep(self, n_agents: int, seed: int, number: int) -> Fate:
        """``(n,)``: who sleeps in an iteration."""
        everyone = np.arange(n_agents)
        return Chain(Draws(seed, number, everyone, everyone), self.p, self.length)


@dataclass(frozen=True)
class Crash(Sleep):
    """Agents crash and come back without what they had, as `UnreliableNetwork` says; meanwhile they are as those that sleep.

    Parameters
    ----------
    p
        The share of the time that an agent is down, in [0, 1).
    length
        For how many iterations it is down on average.
    """

    name: ClassVar[str] = "crash"


class Late(Fault, ABC):
    """Messages arrive late; before as many have been sent, the first counts. What several faults add up."""

    @abstractmethod
    def longest(self, size: int) -> int:
        """How late messages of so many bytes are at most."""

    @abstractmethod
    def late(self, seed: int, number: int, n_agents: int, agents: slice) -> Lateness:
        """How late those of some agents are."""


@dataclass(frozen=True)
class Delay(Late):
    """Messages are late by a number of iterations.

    Parameters
    ----------
    rounds
        How many iterations, at least 1.
    random
        A sender's messages are 0 to ``rounds`` iterations late, drawn for each iteration, the same for all its neighbours.
    """

    name: ClassVar[str] = "delay"

    rounds: Count
    random: bool = False

    def longest(self, size: int) -> int:
        return self.rounds

    def late(self, seed: int, number: int, n_agents: int, agents: slice) -> Lateness:
        if not self.random:
            return lambda t, size: self.rounds

        def drawn(t: int, size: int) -> Index:  # all arrays of a message are late together
            late: Index = np.floor(uniform(words(seed, number, t, 0, agents, 1)[:, 0]) * (self.rounds + 1)).astype(np.int64)
            return late

        return drawn


@dataclass(frozen=True)
class Stragglers(Late):
    """Some agents are slow, always the same: their messages come late.

    Parameters
    ----------
    share
        Of the agents, in (0, 1]; one at least.
    rounds
        How many iterations late, at least 1.
    """

    name: ClassVar[str] = "stragglers"

    share: Share
    rounds: Count = 1

    def longest(self, size: int) -> int:
        return self.rounds

    def late(self, seed: int, number: int, n_agents: int, agents: slice) -> Lateness:
        everyone = np.arange(n_agents)
        order = np.argsort(Draws(seed, number, everyone, everyone)(0), kind="stable")
        slow = np.zeros(n_agents, dtype=np.int64)
        slow[order[: max(1, round(self.share * n_agents))]] = self.rounds
        return lambda t, size: slow[agents]


@dataclass(frozen=True)
class Link(Late):
    """Long messages are late: one takes latency + bytes / bandwidth iterations, and is late by the whole ones among them.

    Messages do not wait for one another: a link carries as many at a time as are sent.

    Parameters
    ----------
    bandwidth
        Bytes in the time of an iteration, above 0.
    latency
        In iterations, at least 0.
    """

    name: ClassVar[str] = "link"

    bandwidth: Annotated[float, Range(above=0, most=math.inf)]
    latency: NotNegative = 0.0

    def longest(self, size: int) -> int:
        return math.floor(self.latency + size / self.bandwidth)

    def late(self, seed: int, number: int, n_agents: int, agents: slice) -> Lateness:
        return lambda t, size: self.longest(size)


@dataclass(frozen=True)
class Corrupt(Fault):
    """A sender's message of a round has, with probability p, a wrong number in each of its arrays.

    Parameters
    ----------
    p
        In [0, 1).
    size
        Wrong numbers are uniform in [-size, size].
    """

    name: ClassVar[str] = "corrupt"

    p: Probability
    size: Positive = 10.0

    def struck(self, n_agents: int, seed: int, number: int) -> Fate:
        """``(n,)``: whose messages."""
        everyone = np.arange(n_agents)
        draws = Draws(seed, number, everyone, everyone)
        return lambda t: draws(t) < self.p

    def corrupted(self, x: Array, struck: Mask, source: Source, number: int) -> Array:
        """``(n_local, size)``: what arrives of ``x`` where an agent is struck."""
        if not struck.any():
            return x
        drawn = uniform(source.words(number, 2))[struck]
        wrong = x.copy()
        where = np.floor(drawn[:, 0] * x.shape[1]).astype(np.int64)
        wrong[np.flatnonzero(struck), where] = self.size * (2.0 * drawn[:, 1] - 1.0)
        return wrong
