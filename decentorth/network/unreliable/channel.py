"""Channels: combinations of message and agent faults, and their effect on mixing.

In a round of a reliable network x_i <- sum_j W_ij x_j. On an unreliable one agent j's message of
round k carries m_j, a possibly compressed or late x_j, and some messages are lost:

    x_i <- sum_j W_ij(k) m_j + c_i (x_i - m_i)                                         (1)

where W(k) is W without the weights of the lost messages, which are added to the receiver's own
weight, and the second term corrects for the agent having its own x_i, not m_i. Without ``repair``
c_i = W_ii(k): each agent's own part is exact, the rows of W(k) sum to 1, its columns only where
both directions of an edge are lost together, and the mean of the x_i drifts. With ``repair`` an
edge is used where both directions arrive (each end informs the other), so W(k) is symmetric and
doubly stochastic, and c_i = 1: each agent keeps the difference x_i - m_i. Then the mean is kept to
rounding, and with it the invariant of gradient tracking. `docs/bad_networks.md` has the effect of
each fault.

With repair and messages up to d iterations late, the eigenvalues w of W must satisfy ``1 - w < 2
sin(pi / (4 d + 2))``, as x <- x
- (I - W) x(k - d) must be stable; without repair, averaging is stable with any delay, but to
  another mean. `randomk_limit` gives
the limit for ``randomk`` with feedback.

``correction`` = c pulls trackers back against drift, without communication: after iteration k

    y_i <- y_i + min(1, c / k) (F_i(x_i) - y_i)                                        (2)

It multiplies the error of the mean by 1 - c / k, and leaves in each tracker a share of about c / k
of its agent's own field, so errors vanish like c / k, not linearly, where their cause vanishes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from .codings import Wire
from .faults import Coding, Delay, Fault, RandomK, fault

F = TypeVar("F", bound=Fault)


class ChannelError(TypeError):
    """A method and a channel that do not go together; the same on every rank."""


def delay_limit(late: int) -> float:
    """The upper limit of 1 - w, for the eigenvalues w of W, for stable averaging with repair and
    delays of ``late`` iterations."""
    return 2.0 * math.sin(math.pi / (4 * late + 2))


def randomk_limit(share: float) -> float:
    """The upper limit of the eigenvalues l = 1 - w of I - W for ``randomk`` with feedback and
    repair to average in mean square.

    With e = x - m, an agent's entry goes from (x, m) to m + b e, x - l (m + b e), where b = 1 with
    probability s, the share, and agents draw independently. The noise (b - s) e, of variance s (1 -
    s) E e^2, makes along an eigenvector

        E e^2 = s (1 - s) h(l) E e^2,    s (1 - s) h(l) = (1 - s) ((2 + s) l + 2 s) / (s (4 - 2 s - s l))

    in the long run, by the squared H2 norm of a system of order two. The factor of E e^2 is 1 at
    l = 2 s / (2 - s), so it is sufficient that all l are below that. It is convex, so agents
    diverge on every graph where the mean of 1 - W_ii, which is the mean of all l, is above it.
    """
    return 2.0 * share / (2.0 - share)


@dataclass(frozen=True, init=False)
class Channel:
    """Faults in order: codings are applied to a message one after another; then it is delayed, and
    maybe lost.

    Parameters
    ----------
    *faults
        As objects or as text: ``Channel("loss:p=0.1", TopK(share=0.1))``.
    repair
        Keep the mean of the averaged arrays, at the cost of messages that arrive in one direction
        only.
    correction
        c of (2): trackers are pulled to the agent's own field, at iteration k by a share c / k; 0
        is never.

    Raises
    ------
    ValueError, TypeError
        An argument is not a fault, there is none, or the correction is negative or infinite.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> channel = do.Channel("loss:p=0.1")
    >>> result = do.solve(problem, "drfgt", "ring", iterations=200, channel=channel)
    >>> result.status
    'iterations'
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
        """True if messages code the difference to earlier messages."""
        return any(coding.feedback for _, coding in self.all(Coding))

    @property
    def remembers(self) -> bool:
        """True if a message depends on earlier ones."""
        return self.feedback or bool(self.all(Delay))

    @property
    def written(self) -> list[str]:
        """The faults as text, one entry for each."""
        return [str(one) for one in self.faults]

    def size(self, sizes: Sequence[int]) -> int:
        """The bytes of a message of arrays with ``sizes`` numbers."""
        total = 0
        for size in sizes:
            wire = Wire(size, 64)
            for _, coding in self.all(Coding):
                wire = coding.wire(wire)
            total += wire.bytes
        return total

    @property
    def working(self) -> float:
        """The expected share of the edges on which both messages of a round arrive."""
        return math.prod([one.working for one in self.faults])

    @property
    def lateness(self) -> int:
        """The largest delay of a message, in iterations."""
        return sum([delay.rounds for _, delay in self.all(Delay)])

    def cautions(self, own: float, smallest: float) -> list[str]:
        """Return warnings about settings that make agents diverge.

        ``own`` is the mean self-weight W_ii, and ``smallest`` the smallest eigenvalue of W.
        """
        if not self.repair:
            return []
        found = []
        for _, coding in self.all(RandomK):
            limit = randomk_limit(coding.share)
            mean = 1.0 - own
            if coding.feedback and mean >= limit:
                least = 2.0 * (1.0 - smallest) / (3.0 - smallest)
                found.append(
                    f"{coding} makes agents run apart: own weights W_ii must be above "
                    f"{1.0 - limit:.3g} on average, got {own:.3g}; send a share of {least:.2g} or "
                    f"more, take I - c (I - W) with a c of {limit / (1.0 - smallest):.2g}, or topk"
                )
        late = self.lateness
        if late and 1.0 - smallest >= delay_limit(late):
            found.append(
                f"messages up to {late} iterations late can make agents run apart: eigenvalues of "
                f"W must be above {1.0 - delay_limit(late):.3g}, got {smallest:.3g}; take I - c (I "
                f"- W) with a c below {delay_limit(late) / (1.0 - smallest):.2g}, or no repair"
            )
        return found
