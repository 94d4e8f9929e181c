"""Points of a run that its ranks can go back to together when some of them are lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .checkpoint import Snapshot
from .history import History
from .protocols import Array, Stop


class Held(NamedTuple):
    """A run between two iterations."""

    k: int
    x: Array
    """A copy of the points of this process's agents."""
    counts: tuple[int, int, int]
    """Rounds, messages and bytes of the network."""
    gradients: int


class Rewind:
    """Copies of the points at every so many iterations, of which the last two are kept.

    A rank that has made k iterations has heard from its neighbours that they have made k - 1, so no two ranks are further apart
    than there are ranks. Where copies are made no more often, the oldest of all ranks' last copies is one that every rank still
    has, and the first of those that were not measured later anywhere.

    Parameters
    ----------
    every
        At least the number of ranks.
    start
        The run as it begins.
    history
        Of the run, which goes on.

    Attributes
    ----------
    next
        The iteration at which to `look` again.
    seconds
        What the run took so far, by what it was spent on.
    """

    def __init__(self, every: int, start: Held, history: History) -> None:
        self.every, self.history = every, history
        self.next = start.k
        self.seconds: Callable[[], Mapping[str, float]] = dict
        self._held = [start]

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Keep a copy of the points."""
        state = snapshot.state
        if self._held[-1].k == state.k or len(self._held) == 2:
            x = self._held.pop(-1 if self._held[-1].k == state.k else 0).x
            x[...] = state.x
        else:
            x = state.x.copy()
        self._held.append(Held(state.k, x, snapshot.counts, state.gradients))
        self.next = state.k - state.k % self.every + self.every
        return None

    @property
    def latest(self) -> int:
        """The iteration of the last copy."""
        return self._held[-1].k

    def at(self, k: int) -> Held:
        """The copy of iteration ``k``.

        Raises
        ------
        ValueError
            There is none (any more).
        """
        for held in self._held:
            if held.k == k:
                return held
        raise ValueError(f"there is no copy of iteration {k}; the last ones are of {', '.join(str(one.k) for one in self._held)}")
