"""The writing of checkpoints: their times and their content."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from topologies.line.words import seconds, whole

from ..._version import __version__
from ...numerics.states import copied
from ...protocols import Array, Collective, Observed, Stop
from ...settings import Count, Settings
from ..history import COUNTS, History
from ..metrics import first_runaway
from . import checkpoint_files
from .identity import Identity
from .resuming import Resumed
from .signals import ENDINGS, REQUESTS, PendingSignals
from .state_arrays import Arrays, taken_apart

LOOK_SECONDS = 0.25
"""The approximate seconds between two times at which ranks agree on signals and on the time;
between, they do not communicate."""
_UNITS = ("s", "m", "h")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoints(Settings):
    """The folder and the times of a run's checkpoints.

    A checkpoint is written at intervals of ``every`` and on SIGUSR1. SIGTERM, SIGHUP, SIGUSR2
    and the first SIGINT (Ctrl-C) write a checkpoint and end the run. A second SIGINT raises
    KeyboardInterrupt at once. The last checkpoint is that of the end of the run or, if the run
    diverges, of the last recorded state that was finite.

    Parameters
    ----------
    folder
        Each checkpoint is a folder in it, named by its iteration. Every rank must see it.
    every
        A number of iterations (``1000``) or a time (``"30s"``, ``"10m"``, ``"2h"``).
    keep
        The number of checkpoints that are kept.
    notes
        Called by rank 0 for each checkpoint; returns notes to store with it, as JSON can hold them.

    Examples
    --------
    >>> import decentorth as do
    >>> import tempfile
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> folder = tempfile.mkdtemp()
    >>> kept = do.Checkpoints(folder, every=50)
    >>> first = do.solve(problem, "drfgt", "ring", iterations=100, checkpoints=kept)
    >>> longer = do.solve(problem, "drfgt", "ring", iterations=200, resume=folder)
    >>> longer.row.iteration
    200
    """

    folder: str | os.PathLike[str]
    every: int | str | None = None
    keep: Count = 3
    notes: Callable[[], checkpoint_files.Json] = dict
    signals: PendingSignals = field(
        default_factory=PendingSignals, init=False, repr=False, compare=False
    )
    """A context that the run enters; a caller may enter it too, so that signals wait until its own
    files are written."""

    def __post_init__(self) -> None:
        interval("every", self.every)
        super().__post_init__()


def interval(name: str, every: int | str | None) -> tuple[float, float]:
    """Return the iterations and the seconds between checkpoints.

    The unit that ``every`` does not use is infinity. Raises ValueError if ``every`` is neither a
    number of iterations nor a time; the message calls it ``name``.
    """
    if every is None:
        return math.inf, math.inf
    text = str(every).strip()
    timed = text[-1:].lower() in _UNITS
    read = seconds if timed else whole
    number = 0.0
    with contextlib.suppress(ValueError):
        number = float(read(text))
    if not 0.0 < number < math.inf:
        raise ValueError(
            f"{name} must be a number of iterations (100) or a time (30s, 10m, 2h), got {every!r}"
        )
    if timed:
        return math.inf, number
    return number, math.inf


class SharedLooks:
    """The iterations at which ranks agree on signals and clocks.

    ``next`` is the next of them; ranks do not communicate in between. The seconds to the next
    one count from ``looked_at``, by ``clock``.
    """

    def __init__(self, collective: Collective, k: int, clock: Callable[[], float]) -> None:
        self._collective = collective
        self._clock = clock
        self._k = k
        self.looked_at = clock()
        self.next = k + 1

    def largest(
        self, k: int, values: Sequence[float], seconds: float = LOOK_SECONDS
    ) -> list[float]:
        """Return the largest of each value over the ranks.

        In the same message, rank 0 sets the next iteration, at most 4 times as far.
        """
        made = k - self._k
        now = self._clock()
        ahead = int(min(max(1.0, made * seconds / max(now - self.looked_at, 1e-9)), 4.0 * made))
        proposed = ahead * (self._collective.root)
        own = np.array([*values, proposed], dtype=np.float64)
        found: list[float] = self._collective.largest(own).tolist()
        self._k = k
        self.looked_at = now
        self.next = k + int(found.pop())
        return found


class Snapshot(NamedTuple):
    """A run between two iterations."""

    state: Observed
    counts: tuple[int, int, int]
    """The rounds, messages and bytes of the network."""
    in_flight: Mapping[str, Array]
    seconds: Mapping[str, float]
    agreement: checkpoint_files.Json = MappingProxyType({})
    """The agents' knowledge about stopping, as JSON can hold it."""

    def copied(self, into: Snapshot | None = None) -> Snapshot:
        """A copy that stays unchanged during the run; the arrays of ``into``, an earlier copy, are
        reused."""
        state = copied(self.state, into and into.state)
        in_flight = {name: array.copy() for name, array in self.in_flight.items()}
        return self._replace(state=state, in_flight=in_flight)


class AgentRows(Collective, Protocol):
    """The collective of agents each of whom has a row of every array."""

    @property
    def own(self) -> slice:
        """The agents whose rows this rank has."""

    @property
    def n_agents(self) -> int:
        """The number of agents over all ranks."""


class CheckpointWriter:
    """The writer of a run's checkpoints, a watcher; every rank makes the same calls, inside the
    context ``signals``.

    This rank writes its own agents. A run that agents have left continues in its folder, without an
    earlier checkpoint.

    Raises
    ------
    files.CheckpointError
        The folder has the checkpoints of another run.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        identity: Identity,
        collective: AgentRows,
        resumed: Resumed | None,
        history: History,
        k: int,
    ) -> None:
        self._root = Path(checkpoints.folder)
        self._checkpoints = checkpoints
        self._identity = identity
        self._collective = collective
        self._agents = collective.own
        self._history = history
        self._iterations, self._seconds = interval("every", checkpoints.every)
        self.signals = checkpoints.signals
        start = resumed and resumed.path
        self._last = None
        if start is not None and start.parent.resolve() == self._root.resolve():
            self._last = start
        fresh = resumed is None or (start is not None and self._last is None)
        fresh &= collective.root
        others = checkpoint_files.on_all(
            collective, lambda: fresh and checkpoint_files.kept(self._root)
        )
        if collective.decide(bool(others)):
            raise checkpoint_files.CheckpointError(
                f"{self._root} has the checkpoints of another run: resume from it, choose "
                "another folder, or remove them"
            )
        self._written_at = time.monotonic()
        self._looks = SharedLooks(collective, k, time.monotonic)
        self.next: float = self._looks.next
        self._first: int | None = None

    def beside(self, agents: Any, k: int) -> None:
        """Write a checkpoint at the first iteration ``k``, and let agents that do not wait write
        their own in it."""
        folder = self._root / f"{k:09d}" / checkpoint_files.AGENTS
        self._first = k
        agents.keep(
            folder, self._iterations, self._seconds, lambda: bool(self.signals.seen & ENDINGS)
        )
        self.next = k

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Write a checkpoint where one is due and the points are finite; the reason to stop, where
        a signal asks for that.

        The same on every rank: a signal to any rank counts, and rank 0's clock.
        """
        k = snapshot.state.k
        signals = self.signals.take()
        late = self._collective.root and time.monotonic() - self._written_at >= self._seconds
        ending = max(signals & ENDINGS, default=0)
        ends, due = self._looks.largest(k, [ending, bool(signals & REQUESTS) or late])
        self.next = min(max(self._looks.next, k + 1), k - k % self._iterations + self._iterations)
        if ends:
            name = signal.Signals(int(ends)).name
            words = f"ended by {name} after iteration {k}, with a checkpoint"
            return Stop("terminated", False, words)
        if (due or k == self._first or k % self._iterations == 0) and self._finite(snapshot):
            self._write(snapshot)
        return None

    def end(self, snapshot: Snapshot, good: Snapshot | None) -> str:
        """Write the last checkpoint; return the reason for a failure, or "" without one.

        It holds the end of the run if its points are finite, else ``good``. Nothing is written
        if there is a later checkpoint. A failure is not raised, because the run has ended and
        keeps its results.
        """
        try:
            if self._finite(snapshot):
                self._write(snapshot)
            elif good is not None and (self._last is None or int(self._last.name) < good.state.k):
                self._write(good)
        except checkpoint_files.CheckpointError as error:
            if self._collective.root:
                log.warning("%s", error)
            return str(error)
        return ""

    def _finite(self, snapshot: Snapshot) -> bool:
        start = self._agents.start
        collective = self._collective
        return first_runaway(snapshot.state.x, start, collective.n_agents, collective) is None

    def _write(self, snapshot: Snapshot) -> None:
        """Write a checkpoint, unless there is one of this iteration."""
        k = snapshot.state.k
        if self._last is None or int(self._last.name) != k:
            arrays, numbers = taken_apart(snapshot.state, "state")
            arrays |= {f"network.{name}": array for name, array in snapshot.in_flight.items()}
            arrays |= {f"start.{name}": array for name, array in self._identity.probes.items()}
            first = self._agents.start
            number = self._agents.stop - self._agents.start
            total = self._collective.n_agents
            rows = {
                name: checkpoint_files.Rows(array[:number], first, total)
                for name, array in arrays.items()
            }
            facts: dict[str, object] = {}
            if self._collective.root:
                common, facts = self._common(snapshot, numbers)
                rows |= {
                    name: checkpoint_files.Rows(array, 0, len(array))
                    for name, array in common.items()
                }
            path = self._root / f"{k:09d}"
            checkpoint_files.write(path, self._checkpoints.keep, rows, facts, self._collective)
            self._last = path
            log.info("checkpoint %s", path)
        self._looks.looked_at = self._written_at = time.monotonic()

    def _common(
        self, snapshot: Snapshot, numbers: Mapping[str, object]
    ) -> tuple[Arrays, dict[str, object]]:
        """The arrays and facts that rank 0 writes."""
        history = self._history.before(snapshot.state.k + 1)
        measured = history.columns[len(COUNTS) :]
        common: Arrays = {
            "start": self._identity.start,
            "history.counts": np.stack([history[name] for name in COUNTS], axis=1),
            "history.values": np.stack([history[name] for name in measured], axis=1),
        }
        facts = {
            "decentorth": __version__,
            "iteration": snapshot.state.k,
            "run": self._identity.facts,
            "numbers": numbers,
            "counts": snapshot.counts,
            "seconds": snapshot.seconds,
            "agreement": snapshot.agreement,
            "metrics": measured[1:],
            "notes": self._checkpoints.notes(),
        }
        return common, facts
