"""Points of a run that its ranks can go back to together when some of them are lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..protocols import Array, Stop
from .checkpoint import Snapshot
from .history import History


class RunState(NamedTuple):
    """A run between two iterations."""

    k: int
    x: Array
    """A copy of the points of this process's agents."""
    counts: tuple[int, int, int]
    """Rounds, messages and bytes of the network."""
    gradients: int


class Rewind:
    """A watcher that copies the points every ``every`` iterations, and keeps the last two copies.

    A rank in iteration k has messages of iteration k - 1 from its neighbours, so two ranks differ
    by at most the number of ranks. With copies at least that far apart, every rank still has the
    oldest of all ranks' last copies.

    ``every`` is the number of iterations between copies, at least that of ranks; ``start`` and
    ``history`` are those of the run.
    """

    def __init__(self, every: int, start: RunState, history: History) -> None:
        self.every = every
        self.history = history
        self.next = start.k
        self.seconds: Callable[[], Mapping[str, float]] = dict
        """The wall seconds of the run so far, by what they were spent on."""
        self._held = [start]

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Keep a copy of the points."""
        state = snapshot.state
        same = self._held[-1].k == state.k
        if same or len(self._held) == 2:
            x = self._held.pop(-same).x  # the last one, or the older of two
            x[...] = state.x
        else:
            x = state.x.copy()
        self._held.append(RunState(state.k, x, snapshot.counts, state.gradients))
        self.next = state.k - state.k % self.every + self.every
        return None

    @property
    def latest(self) -> int:
        """The iteration of the last copy."""
        return self._held[-1].k

    def at(self, k: int) -> RunState:
        """The copy of iteration ``k``; ValueError if there is none."""
        for held in self._held:
            if held.k == k:
                return held
        last = ", ".join(str(held.k) for held in self._held)
        raise ValueError(f"there is no copy of iteration {k}; the last ones are of {last}")
