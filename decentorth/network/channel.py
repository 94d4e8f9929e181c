"""Channels: combinations of message and agent faults, and their effect on mixing.

In a round of a reliable network x_i <- sum_j W_ij x_j. On an unreliable one agent j's message of round k carries m_j, a possibly
compressed, late, noisy or wrong x_j, and some messages are lost:

    x_i <- sum_j W_ij(k) m_j + c_i (x_i - m_i)                                         (1)

where W(k) is W without the weights of the lost messages, which are added to the receiver's own weight, and the second term corrects
for the agent having its own x_i, not m_i. Without ``repair`` c_i = W_ii(k): each agent's own part is exact, the rows of W(k) sum to
1, its columns only where both directions of an edge are lost together, and the mean of the x_i drifts. With ``repair`` an edge is
used where both directions arrive (each end tells the other), so W(k) is symmetric and doubly stochastic, and c_i = 1: each agent
keeps the difference x_i - m_i. Then the mean is kept to rounding, and with it the invariant of gradient tracking. A message with a
wrong checksum (four bytes) counts as lost.

=============================  ===================  ==============================================  ============================
fault                          affects              without repair                                  with repair
=============================  ===================  ==============================================  ============================
loss, bursts (bad, good < 1)   each message         rows of W(k) sum to 1, columns do not: drift    doubly stochastic, mean kept
failures, bursts               both directions      doubly stochastic, mean kept                    the same
sleep, crash                   an agent's edges     doubly stochastic, mean kept                    the same
topk, randomk, quantize,       message content      W(k) m keeps the mean of m, not that of x:      mean kept
float32, float16, noise                             drift, unbiased where the coding is
delay, stragglers, link        message time         drift                                           mean kept; stable for short
                                                                                                    delays only
corrupt                        message content      drift                                           detected, and lost
=============================  ===================  ==============================================  ============================

With repair and messages up to d iterations late, the eigenvalues w of W must satisfy ``1 - w < 2 sin(pi / (4 d + 2))``, as x <- x
- (I - W) x(k - d) must be stable; without repair, averaging is stable with any delay, but to another mean. `randomk_limit` gives
the limit for ``randomk`` with feedback.

The crash of an agent removes y_i - F_i(x_i) from the sum of trackers y_i minus fields F_i. The error remains unless, with repair,
all trackers start again from y_i = F_i(x_i) when an agent returns.

``correction`` = c pulls trackers back against this and all other drift, without communication: after iteration k

    y_i <- y_i + min(1, c / k) (F_i(x_i) - y_i)                                        (2)

It multiplies the error of the mean by 1 - c / k, and leaves in each tracker a share of about c / k of its agent's own field, so
errors vanish like c / k, not linearly, where their cause vanishes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from .codings import Coding, Float16, Float32, Noise, Quantize, RandomK, TopK, Wire
from .draws import Mask
from .faults import (
    Breaking,
    Bursts,
    Corrupt,
    Crash,
    Delay,
    Failures,
    Fate,
    Fault,
    Late,
    Link,
    Loss,
    Pairs,
    Sleep,
    Stragglers,
)
from .halo import Halo

_CHECKSUM = 4
_KINDS: tuple[type[Fault], ...] = (
    *(Loss, Failures, Bursts, Sleep, Crash),
    *(Delay, Stragglers, Link),
    *(Quantize, Float32, Float16, TopK, RandomK, Noise, Corrupt),
)
FAULTS: dict[str, type[Fault]] = {kind.name: kind for kind in _KINDS}
F = TypeVar("F", bound=Fault)


def fault(given: str | Fault) -> Fault:
    """The fault itself, or the fault that the text describes.

    Raises
    ------
    ValueError, TypeError
        ``given`` is neither a fault nor the text of one.
    """
    if isinstance(given, Fault):
        return given
    if not isinstance(given, str):
        raise TypeError(f"a channel is made of faults such as 'loss:p=0.1', got {type(given).__name__}")
    name, _, written = given.partition(":")
    if name not in FAULTS:
        raise ValueError(f"channel knows {', '.join(FAULTS)}; got {given!r}")
    return FAULTS[name].read(written)


def delay_limit(late: int) -> float:
    """The upper limit of 1 - w, for the eigenvalues w of W, for stable averaging with repair and delays of ``late`` iterations."""
    return 2.0 * math.sin(math.pi / (4 * late + 2))


def randomk_limit(share: float) -> float:
    """The upper limit of the eigenvalues l = 1 - w of I - W for ``randomk`` with feedback and repair to average in mean square.

    With e = x - m, an agent's entry goes from (x, m) to m + b e, x - l (m + b e), where b = 1 with probability s, the share, and
    agents draw independently. The noise (b - s) e, of variance s (1 - s) E e^2, makes along an eigenvector

        E e^2 = s (1 - s) h(l) E e^2,    s (1 - s) h(l) = (1 - s) ((2 + s) l + 2 s) / (s (4 - 2 s - s l))

    in the long run, by the squared H2 norm of a system of order two. The factor of E e^2 is 1 at l = 2 s / (2 - s), so it is
    sufficient that all l are below that. It is convex, so agents diverge on every graph where the mean of 1 - W_ii, which is the
    mean of all l, is above it.
    """
    return 2.0 * share / (2.0 - share)


@dataclass(frozen=True, init=False)
class Channel:
    """Faults in order: codings are applied to a message one after another; then it is delayed, then corrupted, and maybe lost.

    Parameters
    ----------
    *faults
        As objects or as text: ``Channel("loss:p=0.1", TopK(share=0.1))``.
    repair
        Keep the mean of the averaged arrays, at the cost of messages that arrive in one direction only.
    correction
        c of (2): trackers are pulled to the agent's own field, at iteration k by a share c / k; 0 is never.

    Raises
    ------
    ValueError, TypeError
        An argument is not a fault, there is none, or the correction is negative or infinite.
    """

    faults: tuple[Fault, ...]
    repair: bool
    correction: float

    def __init__(self, *faults: str | Fault, repair: bool = True, correction: float = 0.0) -> None:
        if not faults:
            raise ValueError("a channel needs a fault, such as 'loss:p=0.1'")
        if not 0.0 <= correction < math.inf:
            raise ValueError(f"correction must be at least 0 and finite, got {correction}")
        object.__setattr__(self, "faults", tuple([fault(one) for one in faults]))
        object.__setattr__(self, "repair", repair)
        object.__setattr__(self, "correction", float(correction))

    def all(self, kind: type[F]) -> list[tuple[int, F]]:
        """The faults of a kind, with their numbers."""
        return [(number, one) for number, one in enumerate(self.faults) if isinstance(one, kind)]

    @property
    def feedback(self) -> bool:
        """True if the difference to the earlier messages is coded."""
        return any(coding.feedback for _, coding in self.all(Coding))

    @property
    def remembers(self) -> bool:
        """True if a message depends on earlier ones."""
        return self.feedback or bool(self.all(Late))

    @property
    def written(self) -> list[str]:
        """The faults as text."""
        return [str(one) for one in self.faults]

    def wire(self, size: int) -> int:
        """The bytes of an array of ``size`` numbers in a message."""
        wire = Wire(size, 64)
        for _, coding in self.all(Coding):
            wire = coding.wire(wire)
        return wire.bytes

    @property
    def overhead(self) -> int:
        """The bytes of a message in addition to its arrays."""
        return _CHECKSUM if self.repair and self.all(Corrupt) else 0

    def size(self, sizes: Sequence[int]) -> int:
        """The bytes of a message of arrays with ``sizes`` numbers."""
        return self.overhead + sum(self.wire(size) for size in sizes)

    def longest(self, sizes: Sequence[int]) -> int:
        """The largest delay, in iterations, of a message of arrays with ``sizes`` numbers."""
        return self.lateness(self.size(sizes))

    def lateness(self, size: int) -> int:
        """The largest delay, in iterations, of a message of ``size`` bytes."""
        each = [late.longest(size) for _, late in self.all(Late)]
        return sum(each)

    def cautions(self, own: float, smallest: float) -> list[str]:
        """Warnings about settings that make agents diverge whatever they compute.

        Parameters
        ----------
        own, smallest
            The mean of the self-weights W_ii, and the smallest eigenvalue of W.
        """
        if not self.repair:
            return []
        found = []
        for _, coding in self.all(RandomK):
            limit, mean = randomk_limit(coding.share), 1.0 - own
            if coding.feedback and mean >= limit:
                least = 2.0 * (1.0 - smallest) / (3.0 - smallest)
                found.append(
                    f"{coding} makes agents run apart: own weights W_ii must be above {1.0 - limit:.3g} on average, got {own:.3g}; "
                    f"send a share of {least:.2g} or more, take I - c (I - W) with a c of {limit / (1.0 - smallest):.2g}, or topk"
                )
        late = self.lateness(0)
        if late and 1.0 - smallest >= delay_limit(late):
            found.append(
                f"messages up to {late} iterations late can make agents run apart: eigenvalues of W must be above "
                f"{1.0 - delay_limit(late):.3g}, got {smallest:.3g}; take I - c (I - W) with a c below "
                f"{delay_limit(late) / (1.0 - smallest):.2g}, or no repair"
            )
        return found


class Fates:
    """The lost and the used messages over the edges of one mixing matrix.

    Parameters
    ----------
    channel, seed
        The faults, and the seed of their draws.
    halo
        The exchange plan of the matrix.
    pairs
        Its edges, sorted by their upper end, then by their lower one.
    n_agents
        The number of agents over all ranks.
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
        """The mask of the ``directed`` messages of round ``t`` that do not arrive or cannot be read.

        Parameters
        ----------
        silent, deaf
            ``(n,)``: agents whose messages cannot be used, and agents that receive nothing.
        """
        lost = reduce(np.logical_or, [fate(t) for fate in self._losses], np.zeros(2 * self._edges, dtype=np.bool_))
        if silent.any() or deaf.any():
            lost = lost | silent[self.directed.lower] | deaf[self.directed.upper]
        return lost

    def used(self, lost: Mask) -> list[Mask] | None:
        """For each piece of the halo the mask of its used entries; None if all are used."""
        if not lost.any():
            return None
        if self._channel.repair:
            lost = np.tile(lost[: self._edges] | lost[self._edges :], 2)
        return self.entries(~lost, True)

    def entries(self, arrived: Mask, own: bool) -> list[Mask]:
        """For each piece of the halo the mask of its entries, from ``arrived``, ``directed``, and ``own`` for self-weights."""
        known = np.append(arrived, own)
        return [known[entries] for entries in self._entries]


def pairs(W: Any) -> Pairs:
    """The edges of a symmetric CSR matrix, sorted by their upper end, then by their lower one."""
    rows = np.repeat(np.arange(W.shape[0], dtype=np.int64), np.diff(W.indptr))
    below = W.indices < rows
    return Pairs(W.indices[below].astype(np.int64), rows[below])


class Striking:
    """The agents that sleep, crash or send wrong messages, as masks ``(n,)``.

    Parameters
    ----------
    channel, seed, n_agents
        The faults, the seed of their draws, and the number of agents over all ranks.
    """

    def __init__(self, channel: Channel, seed: int, n_agents: int) -> None:
        everyone = {number: sleep.asleep(n_agents, seed, number) for number, sleep in channel.all(Sleep)}
        self._asleep = list(everyone.values())
        self._crashed = [everyone[number] for number, _ in channel.all(Crash)]
        self._struck = [corrupt.struck(n_agents, seed, number) for number, corrupt in channel.all(Corrupt)]
        self._nobody = np.zeros(n_agents, dtype=np.bool_)

    def back(self, k: int) -> Mask:
        """The agents that return at iteration ``k`` from a crash; call it before `asleep`, which then reuses this iteration."""
        if k == 0 or not self._crashed:
            return self._nobody
        before = self._any(self._crashed, k - 1)
        return before & ~self._any(self._crashed, k)

    def asleep(self, k: int) -> Mask:
        """The agents that sleep or are down in iteration ``k``."""
        return self._any(self._asleep, k)

    def struck(self, t: int) -> Mask:
        """The agents whose messages of round ``t`` are wrong."""
        return self._any(self._struck, t)

    def _any(self, fates: Sequence[Fate], t: int) -> Mask:
        return reduce(np.logical_or, [fate(t) for fate in fates], self._nobody)
