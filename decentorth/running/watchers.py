"""The interface of watchers, the clock of a run, and the watcher of its limits of time.

A watcher checks a run between two iterations. The others record rows and wait for Ctrl-C
(`recording`), keep copies to go back to (`rank_loss_rewind`), let the agents decide
(`local_stopping`) and write checkpoints (`checkpoint`).
"""

from __future__ import annotations

import math
import time
from bisect import bisect
from collections.abc import Mapping
from typing import Any, Protocol

from ..protocols import Collective, Stop
from ..stopping import Rule, Time, rules_of
from .checkpoint import LOOK_SECONDS, SharedLooks, Snapshot


class Watcher(Protocol):
    """A check of a run between two iterations, on every rank.

    It runs at the first iteration that is not before ``next``.
    """

    @property
    def next(self) -> float:
        """The iteration of the next check; infinity for never."""

    def look(self, snapshot: Snapshot) -> Stop | None:
        """The reason to stop, or None to continue."""


class Clock:
    """The wall seconds of each activity, including those of the run that is continued."""

    def __init__(self, network: Any, before: Mapping[str, float]) -> None:
        self._network = network
        names = ("compute", "wait", "metrics", "checkpoints", "total")
        self._spent = {name: before.get(name, 0.0) for name in names}
        self._spent["compute"] += self._spent["wait"]
        self._spent["wait"] -= network.wait_seconds
        self._mark = time.perf_counter()
        self._spent["total"] -= self._mark

    def count(self, name: str) -> None:
        """Add the time since the last call to the activity ``name``."""
        now = time.perf_counter()
        self._spent[name] += now - self._mark
        self._mark = now

    def iterating(self) -> float:
        """Return the seconds of the iterations, including the time spent waiting for other
        ranks."""
        return self._spent["compute"]

    def seconds(self) -> dict[str, float]:
        """All seconds: compute, wait (for other ranks' messages), metrics, checkpoints, total."""
        wait = self._spent["wait"] + self._network.wait_seconds
        total = self._spent["total"] + time.perf_counter()
        return {
            **self._spent,
            "compute": self._spent["compute"] - wait,
            "wait": wait,
            "total": total,
        }


class TimeLimits:
    """Limits of time, at each of which a row is ``wanted``.

    One process checks its clock after each iteration. Ranks agree from time to time about the clock
    of rank 0.
    """

    def __init__(self, stopping: Rule | None, collective: Collective, clock: Clock, k: int) -> None:
        self._limits = [*sorted(rule.end for rule in rules_of(Time, stopping)), math.inf]
        self._clock = clock
        self._root = collective.root
        self._alone = collective.size == 1
        self._looks = SharedLooks(collective, k, clock.iterating)
        self._reached = 0
        self.wanted = -1

    def _left(self) -> float:
        """The seconds to the next limit."""
        limit = self._limits[self._reached]
        return limit if limit == math.inf else limit - self._clock.iterating()

    @property
    def next(self) -> float:
        """The iteration at which ranks agree again; on one process any, once a limit has been
        reached."""
        left = self._left()
        if self._alone and left <= 0.0:
            return 0
        if self._alone or left == math.inf:
            return math.inf
        return self._looks.next

    @property
    def deadline(self) -> float:
        """The time at which one process has reached the next limit, on `time.perf_counter`."""
        if not self._alone:
            return math.inf
        return time.perf_counter() + self._left()

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Request a row if a limit has been reached since the last check.

        The same on every rank.
        """
        k = snapshot.state.k
        reached = bisect(self._limits, self._clock.iterating())
        if not self._alone:
            known = reached * self._root
            reached = int(self._looks.largest(k, [known], min(LOOK_SECONDS, self._left()))[0])
        if reached > self._reached:
            self._reached = reached
            self.wanted = k
        return None
