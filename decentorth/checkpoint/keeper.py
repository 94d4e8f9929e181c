"""The writing of checkpoints: their times and their content."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from .._version import __version__
from ..history import COUNTS, History
from ..metrics import first_runaway
from ..protocols import Array, Collective, Stop
from ..settings import Count, Settings
from . import files
from .signals import ENDINGS, PendingSignals
from .states import Arrays, copied, taken_apart

LOOK_SECONDS = 0.25
"""The approximate seconds between two times at which ranks agree on signals and on the time; between, they do not communicate."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoints(Settings):
    """The folder and the times of a run's checkpoints.

    A checkpoint is written at intervals of ``every``; on SIGUSR1; on SIGTERM, SIGHUP, SIGUSR2 and the first SIGINT (Ctrl-C), which
    then end the run; and at the end of the run, or, if it diverges, of the last recorded state that was finite. A second SIGINT
    raises KeyboardInterrupt at once.

    Parameters
    ----------
    folder
        Each checkpoint is a folder in it, named by its iteration. Every rank must see it.
    every
        So many iterations (``1000``), or so much time (``"30s"``, ``"10m"``, ``"2h"``).
    keep
        The number of checkpoints that are kept.
    notes
        Called by rank 0 for each checkpoint; returns notes to store with it, as JSON can hold them.

    Attributes
    ----------
    signals
        A context that the run enters; a caller may enter it too, so that signals wait until its own files are written.

    Raises
    ------
    ValueError
        ``every`` is neither a number of iterations nor a time, or ``keep`` is below 1.
    """

    folder: str | os.PathLike[str]
    every: int | str | None = None
    keep: Count = 3
    notes: Callable[[], Mapping[str, Any]] = dict
    signals: PendingSignals = field(default_factory=PendingSignals, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        interval("every", self.every)
        super().__post_init__()


def interval(name: str, every: int | str | None) -> tuple[float, float]:
    """The iterations and the seconds between checkpoints; infinity for the unit that ``every`` does not use.

    Raises
    ------
    ValueError
        ``every`` is neither a number of iterations nor a time; the message has ``name``.
    """
    if every is None:
        return math.inf, math.inf
    match = re.fullmatch(r"(\d+)|(\d+\.?\d*|\.\d+)([smh])", str(every))
    number = float(match[1] or match[2]) if match else 0.0
    if match is None or not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be so many iterations (100) or so much time (30s, 10m, 2h), got {every!r}")
    return (number, math.inf) if match[1] else (math.inf, number * _UNITS[match[3]])


def look_ahead(iterations: int, seconds: float, within: float = LOOK_SECONDS) -> int:
    """The iterations until the next look, if the last ``iterations`` took ``seconds``: those of ``within`` seconds, but at most
    ``4 * iterations``."""
    return int(min(max(1.0, iterations * within / max(seconds, 1e-9)), 4.0 * iterations))


@dataclass(frozen=True)
class Identity:
    """The facts and arrays that must be the same for a run to continue as if it had never stopped.

    Parameters
    ----------
    facts
        The facts of the problem, the algorithm, the seed and W, by group and name, as JSON can hold them.
    start
        ``shape``: the common starting point.
    probes
        Quantities of the agents' data at the start, ``(n_local,)`` each.
    """

    facts: Mapping[str, Mapping[str, Any]]
    start: Array
    probes: Mapping[str, Array]


class Moment(NamedTuple):
    """The state of a run between two iterations."""

    state: Any
    counts: tuple[int, int, int]
    """The rounds, messages and bytes of the network."""
    in_flight: Mapping[str, Array]
    seconds: Mapping[str, float]
    agreement: Mapping[str, Any] = MappingProxyType({})
    """The agents' knowledge about stopping, as JSON can hold it."""

    def copied(self, into: Moment | None = None) -> Moment:
        """A copy that stays unchanged during the run; the arrays of ``into``, an earlier copy, are reused."""
        state = copied(self.state, None if into is None else into.state)
        return self._replace(state=state, in_flight={name: array.copy() for name, array in self.in_flight.items()})


class Keeper:
    """The writer of a run's checkpoints; every rank makes the same calls, inside the context ``signals``.

    Parameters
    ----------
    checkpoints
        The folder and the times.
    identity
        The identity of the run.
    agents
        The agents of this rank.
    n_agents
        The number of agents over all ranks.
    history
        The history of the run, which grows.
    resumed
        The checkpoint that the run continues from.
    k
        The first iteration.
    anew
        True after agents have left: the run continues in its folder, and writes every checkpoint from here on.

    Attributes
    ----------
    next
        The iteration at which to `look` again.
    last
        The newest checkpoint.
    signals
        The signals that wait for the next look.

    Raises
    ------
    files.CheckpointError
        The folder has the checkpoints of another run.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        identity: Identity,
        collective: Collective,
        agents: slice,
        n_agents: int,
        history: History,
        k: int,
        resumed: Path | None,
        anew: bool = False,
    ) -> None:
        self._root = Path(checkpoints.folder)
        self._checkpoints, self._identity, self._collective = checkpoints, identity, collective
        self._agents, self._n_agents, self._history = agents, n_agents, history
        self._iterations, self._seconds = interval("every", checkpoints.every)
        self.signals = checkpoints.signals
        continues = resumed is not None and resumed.parent.resolve() == self._root.resolve()
        self.last = resumed if continues else None
        others = files.agreed(collective, lambda: [] if continues or anew or collective.rank > 0 else files.kept(self._root))
        if collective.everyone(b"others" if others else b"")[0]:
            raise files.CheckpointError(
                f"{self._root} has the checkpoints of another run: resume from it, choose another folder, or remove them"
            )
        self._looked = k
        self._looked_at = self._written_at = time.monotonic()
        self.next = k + 1

    def look(self, moment: Moment) -> Stop | None:
        """Write a checkpoint where one is due and the points are finite; why to stop, where a signal asks for that.

        The same on every rank: a signal to any rank counts, and rank 0's clock. In the same message rank 0 says when to look again.
        """
        k = moment.state.k
        signals = self.signals.take()
        now = time.monotonic()
        root = self._collective.rank == 0
        ahead = look_ahead(k - self._looked, now - self._looked_at)
        asked = signal.SIGUSR1 in signals or (root and now - self._written_at >= self._seconds)
        wishes = [max(signals & ENDINGS, default=0), asked, ahead if root else 0]
        ends, due, ahead = self._collective.largest(np.array(wishes, dtype=np.float64))
        self.next = k + int(ahead)
        if not math.isinf(self._iterations):
            self.next = min(self.next, k - k % int(self._iterations) + int(self._iterations))
        self._looked, self._looked_at = k, now
        if ends:
            name = signal.Signals(int(ends)).name
            return Stop("terminated", False, f"ended by {name} after iteration {k}; its checkpoint is what to resume from")
        if (due or k % self._iterations == 0) and self._finite(moment):
            self.write(moment)
        return None

    def end(self, moment: Moment, good: Moment | None) -> None:
        """Write the last checkpoint: of the end where its points are finite, else of the last moment that was good, unless there is
        one of a later iteration."""
        if self._finite(moment):
            self.write(moment)
        elif good is not None and (self.last is None or int(self.last.name) < good.state.k):
            self.write(good)

    def _finite(self, moment: Moment) -> bool:
        return first_runaway(moment.state.x, self._agents.start, self._n_agents, self._collective) is None

    def write(self, moment: Moment) -> None:
        """Write a checkpoint, unless there is one of this iteration.

        Raises
        ------
        files.CheckpointError
            The disk is full, the folder cannot be written to, or a rank does not see it; raised on every rank.
        """
        k = moment.state.k
        if self.last is None or int(self.last.name) != k:
            arrays, numbers = taken_apart(moment.state, "state")
            arrays |= {f"network.{name}": array for name, array in moment.in_flight.items()}
            arrays |= {f"start.{name}": array for name, array in self._identity.probes.items()}
            common, facts = self._common(moment, numbers) if self._collective.rank == 0 else ({}, {})
            self.last = files.write(self._root, k, self._checkpoints.keep, self._agents, arrays, common, facts, self._collective)
            log.info("checkpoint %s", self.last)
        self._looked_at = self._written_at = time.monotonic()

    def _common(self, moment: Moment, numbers: Mapping[str, Any]) -> tuple[Arrays, dict[str, Any]]:
        rows = [row for row in self._history.rows if row.iteration <= moment.state.k]
        columns = list(rows[0].values)
        common: Arrays = {
            "start": self._identity.start,
            "history.counts": np.array([[getattr(row, name) for name in COUNTS] for row in rows], dtype=np.int64),
            "history.values": np.array([[row.seconds, *row.values.values()] for row in rows], dtype=np.float64),
        }
        facts = {
            "decentorth": __version__,
            "iteration": moment.state.k,
            "run": self._identity.facts,
            "numbers": numbers,
            "counts": moment.counts,
            "seconds": moment.seconds,
            "agreement": moment.agreement,
            "metrics": columns,
            "notes": self._checkpoints.notes(),
        }
        return common, facts
