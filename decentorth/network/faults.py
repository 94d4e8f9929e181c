"""What can go wrong between agents, one frozen dataclass each; written alike in Python, in files and as flags.

``"loss:p=0.1"``, ``"bursts:p=0.1,length=5"``, ``"topk:share=0.1"``; in Python the objects below say the same. See `channel` for
what they do to averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array, Index
from .draws import Chain, Draws, Mask, ShortWords, Words, normal, short_words, uniform, words

Fate = Callable[[int], Mask]
"""Who is struck in a round."""


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

    def words(self, number: int, size: int) -> Words:
        """``(n_local, size)``, for the fault of that number."""
        return words(self.seed, number, self.t, self.part, self.agents, size)

    def short_words(self, number: int, size: int) -> ShortWords:
        """``(n_local, size)``, of 16 bits."""
        return short_words(self.seed, number, self.t, self.part, self.agents, size)


class Wire(NamedTuple):
    """How an agent's array is written on the wire."""

    values: int
    """How many numbers."""
    bits: int
    """Of each."""
    beside: int = 0
    """Bytes beside them: positions, scales, checksums."""

    @property
    def bytes(self) -> int:
        """All together."""
        return -(-self.values * self.bits // 8) + self.beside


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong."""

    name: ClassVar[str] = ""

    def __str__(self) -> str:
        """As it is written in files and flags."""
        given = ",".join(f"{field.name}={str(getattr(self, field.name)).lower()}" for field in fields(self))
        return f"{self.name}:{given}" if given else self.name

    @classmethod
    def read(cls, written: str) -> Self:
        """The fault with these parameters, as ``p=0.1,length=5``.

        Raises
        ------
        ValueError
            For a parameter that is unknown, missing, given twice or not what it should be.
        """
        kinds = {name: hint for name, hint in get_type_hints(cls).items() if name in cls.__match_args__}
        given: dict[str, Any] = {}
        for part in filter(None, written.split(",")):
            key, equals, text = part.partition("=")
            if key not in kinds or not equals:
                takes = ", ".join(f"{name}=..." for name in kinds) or "no parameters"
                raise ValueError(f"channel {cls.name}: it takes {takes}, got {part!r}")
            if key in given:
                raise ValueError(f"channel {cls.name}: {key} is given twice")
            given[key] = _value(cls.name, key, kinds[key], text)
        missing = [field.name for field in fields(cls) if field.name not in given and field.default is MISSING]
        if missing:
            raise ValueError(f"channel {cls.name}: {' and '.join(missing)} must be given, as {cls.name}:{missing[0]}=...")
        return cls(**given)

    def _check(self, what: str, holds: bool, value: object) -> None:
        if not holds:
            raise ValueError(f"channel {self.name}: {what}, got {value}")

    def _check_share(self, name: str, value: float) -> None:
        self._check(f"{name} must be a share, at least 0 and below 1", 0.0 <= value < 1.0, value)


def _value(fault: str, key: str, kind: type[Any], text: str) -> bool | int | float:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return int(text) if kind is int else float(text)
    except (ValueError, KeyError):
        words = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise ValueError(f"channel {fault}: {key} must be {words}, got {text!r}") from None


class Breaking(Fault):
    """Some messages do not arrive."""

    def lost(self, pairs: Pairs, seed: int, number: int) -> Fate:
        """Which of the `Pairs.directed` messages of a round are lost."""
        raise NotImplementedError


@dataclass(frozen=True)
class Loss(Breaking):
    """Each message is lost with probability p, independently.

    Parameters
    ----------
    p
        In [0, 1).
    """

    name: ClassVar[str] = "loss"

    p: float

    def __post_init__(self) -> None:
        self._check_share("p", self.p)

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

    p: float

    def __post_init__(self) -> None:
        self._check_share("p", self.p)

    def lost(self, pairs: Pairs, seed: int, number: int) -> Fate:
        draws = Draws(seed, number, *pairs)
        return lambda t: np.tile(draws(t) < self.p, 2)


@dataclass(frozen=True)
class _Lasting(Fault):
    p: float
    length: float = 5.0

    def __post_init__(self) -> None:
        self._check_share("p", self.p)
        least = 1.0 / (1.0 - self.p)
        holds = least <= self.length < math.inf
        self._check(
            f"length must be finite and at least 1 / (1 - p) = {least:.3g}, where rounds are independent", holds, self.length
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

    bad: float = 1.0
    good: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("bad must be a probability", 0.0 <= self.bad <= 1.0, self.bad)
        self._check_share("good", self.good)

    def lost(self, pairs: Pairs, seed: int, number: int) -> Fate:
        chain = Chain(Draws(seed, number, *pairs), self.p, self.length)
        draws = Draws(seed, number | 1 << 16, *pairs.directed())
        return lambda t: draws(t) < np.where(np.tile(chain(t), 2), self.bad, self.good)


@dataclass(frozen=True)
class Sleep(_Lasting):
    """Agents sleep, or crash and come back with what they had: meanwhile they neither compute nor send nor hear.

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
class Coding(Fault):
    """A message says less than the array that its sender has.

    With ``feedback`` what is coded is the difference to what was sent so far, which every receiver adds up: what a message leaves
    out stays in the difference and is sent later.
    """

    feedback: bool = False

    def coded(self, x: Array, source: Source, number: int) -> Array:
        """``(n_local, size)``, fresh: what arrives of ``x``."""
        raise NotImplementedError

    def wire(self, wire: Wire) -> Wire:
        """How that is written."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Sparse(Coding):
    share: float = 0.1
    feedback: bool = True

    def __post_init__(self) -> None:
        self._check("share must be above 0 and at most 1", 0.0 < self.share <= 1.0, self.share)

    def kept(self, size: int) -> int:
        """How many of ``size`` numbers are sent."""
        return max(1, round(self.share * size))


@dataclass(frozen=True)
class TopK(_Sparse):
    """The share of an array's entries that is largest in absolute value, with their positions.

    Parameters
    ----------
    share
        In (0, 1].
    feedback
        What is left out comes later (Richtarik, Sokolov, Fatkhullin, "EF21", 2021; between neighbours Koloskova, Stich, Jaggi,
        "CHOCO", 2019).
    """

    name: ClassVar[str] = "topk"

    def coded(self, x: Array, source: Source, number: int) -> Array:
        kept = self.kept(x.shape[1])
        bits = x.view(np.uint64) << np.uint64(1)  # without the sign, absolute values are ordered as their bits are
        flat = bits.reshape(-1)
        return np.where(_largest((bits >> np.uint64(48)).astype(np.uint16), kept, lambda tied: flat[tied]), x, 0.0)

    def wire(self, wire: Wire) -> Wire:
        kept = self.kept(wire.values)
        positions = 0 if kept == wire.values else min(kept * math.ceil(math.log2(wire.values)), wire.values)  # or a bit for each
        return Wire(kept, wire.bits, wire.beside + -(-positions // 8))


@dataclass(frozen=True)
class RandomK(_Sparse):
    """A share of an array's entries that both ends draw, so that positions are not sent.

    Parameters
    ----------
    share
        In (0, 1].
    feedback
        As for topk; without it entries are divided by the share that is sent, so that their mean is right.
    """

    name: ClassVar[str] = "randomk"

    def coded(self, x: Array, source: Source, number: int) -> Array:
        size = x.shape[1]
        kept = self.kept(size)
        drawn = source.short_words(number, size + 1)
        turn = drawn[:, size].astype(np.int64)  # of equals not the first, but the first from somewhere on: all entries alike
        sent = _largest(drawn[:, :size], kept, lambda tied: -(tied + turn[tied // size]) % size)
        return np.where(sent, x if self.feedback else x * (size / kept), 0.0)

    def wire(self, wire: Wire) -> Wire:
        return Wire(self.kept(wire.values), wire.bits, wire.beside)


@dataclass(frozen=True)
class Quantize(Coding):
    """Stochastic uniform quantization: whole multiples of the largest entry / (2^(bits - 1) - 1), rounded up or down at random so
    that the mean is right (QSGD, Alistarh et al. 2017).

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    bits
        Of a number, 2 to 32.
    """

    name: ClassVar[str] = "quantize"

    bits: int = 8

    def __post_init__(self) -> None:
        self._check("bits must be from 2 to 32", 2 <= self.bits <= 32, self.bits)

    def coded(self, x: Array, source: Source, number: int) -> Array:
        unit = np.abs(x).max(axis=1, keepdims=True) / (2.0 ** (self.bits - 1) - 1.0)
        multiples = x / np.where(unit > 0.0, unit, 1.0)
        multiples += uniform(source.words(number, x.shape[1]))
        np.floor(multiples, out=multiples)
        multiples *= unit
        return multiples

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, self.bits, wire.beside + 8)


@dataclass(frozen=True)
class Float32(Coding):
    """Numbers rounded to single precision.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    """

    name: ClassVar[str] = "float32"

    def coded(self, x: Array, source: Source, number: int) -> Array:
        return x.astype(np.float32).astype(np.float64)

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, 32, wire.beside)


@dataclass(frozen=True)
class Float16(Coding):
    """Numbers rounded to half precision; those above 65,504 become infinite.

    Parameters
    ----------
    feedback
        Code the difference to what was sent so far.
    """

    name: ClassVar[str] = "float16"

    def coded(self, x: Array, source: Source, number: int) -> Array:
        return x.astype(np.float16).astype(np.float64)

    def wire(self, wire: Wire) -> Wire:
        return Wire(wire.values, 16, wire.beside)


@dataclass(frozen=True)
class Noise(Coding):
    """Gaussian noise that the sender adds to every entry, as for privacy; it has 65,536 values, the quantiles, and mean 0.

    Parameters
    ----------
    feedback
        Add it to the difference to what was sent so far.
    std
        Its standard deviation, at least 0.
    """

    name: ClassVar[str] = "noise"

    std: float = 1e-3

    def __post_init__(self) -> None:
        self._check("std must be at least 0 and finite", 0.0 <= self.std < math.inf, self.std)

    def coded(self, x: Array, source: Source, number: int) -> Array:
        noise = normal(source.short_words(number, x.shape[1]))
        noise *= self.std
        noise += x
        return noise

    def wire(self, wire: Wire) -> Wire:
        return wire


@dataclass(frozen=True)
class Delay(Fault):
    """Messages arrive late; before as many have been sent, the first counts.

    Parameters
    ----------
    rounds
        How many iterations late, at least 1.
    random
        A sender's messages are 0 to ``rounds`` iterations late, drawn for each iteration, the same for all its neighbours.
    """

    name: ClassVar[str] = "delay"

    rounds: int
    random: bool = False

    def __post_init__(self) -> None:
        self._check("rounds must be at least 1", self.rounds >= 1, self.rounds)

    def lateness(self, source: Source, number: int) -> Index | int:
        """How late the messages of a round are: ``(n_local,)``, or a number."""
        if not self.random:
            return self.rounds
        source = source._replace(part=0)  # all arrays of a message are late together
        return np.floor(uniform(source.words(number, 1)[:, 0]) * (self.rounds + 1)).astype(np.int64)


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

    p: float
    size: float = 10.0

    def __post_init__(self) -> None:
        self._check_share("p", self.p)
        self._check("size must be positive and finite", 0.0 < self.size < math.inf, self.size)

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


FAULTS: dict[str, type[Fault]] = {
    fault.name: fault for fault in (Loss, Failures, Bursts, Sleep, Delay, Quantize, Float32, Float16, TopK, RandomK, Noise, Corrupt)
}


def fault(given: str | Fault) -> Fault:
    """A fault, or the one that is written as text.

    Raises
    ------
    ValueError, TypeError
        For what is none.
    """
    if isinstance(given, Fault):
        return given
    if not isinstance(given, str):
        raise TypeError(f"a channel is made of faults such as 'loss:p=0.1', got {type(given).__name__}")
    name, _, written = given.partition(":")
    if name not in FAULTS:
        raise ValueError(f"channel knows {', '.join(FAULTS)}; got {given!r}")
    return FAULTS[name].read(written)


def _largest(coarse: NDArray[np.uint16], kept: int, fine: Callable[[Index], NDArray[Any]]) -> Mask:
    """``(n, size)``: the ``kept`` largest of each row; the few that share the last one's 16 bits are told apart by ``fine``.

    Short words are several times faster to part than whole numbers are.

    Parameters
    ----------
    fine
        Integers for places in the flat array, to be compared within a row; of equals the first.
    """
    size = coarse.shape[1]
    least = np.partition(coarse, size - kept, axis=1)[:, size - kept, None]
    chosen = coarse > least
    left = kept - np.count_nonzero(chosen, axis=1)
    tied = np.flatnonzero(coarse == least)
    row = tied // size
    order = tied[np.lexsort((~fine(tied), row))]
    rank = np.arange(len(tied)) - np.searchsorted(row, np.arange(len(coarse)))[row]
    chosen.reshape(-1)[order[rank < left[row]]] = True
    return chosen
