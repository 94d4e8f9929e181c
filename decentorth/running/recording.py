"""The watchers that record rows: by the schedule, and once more at Ctrl-C."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from ..protocols import (
    SETUP,
    Collective,
    Declared,
    Ending,
    Follower,
    Observed,
    Recorder,
    Row,
    Stop,
)
from ..stopping import Iterations, Rule
from . import divergence
from .checkpoint import PendingSignals, SharedLooks, Snapshot
from .history import History, schedule
from .local_stopping import Agreement
from .metrics import SUMS_OF_A_ROW, StandardMetrics, splits_features
from .options import Options
from .parts import Parts
from .watchers import Clock

_SHARE = 8
"""The least iterations between two rows of samples of sites, for each round that a row takes: rows
take at most a ninth of all rounds. More rows would find the end earlier, but cost more than that
saves."""


class Asking(Protocol):
    """A watcher that may want a row, of the iteration ``wanted``."""

    wanted: int


class Recording:
    """Records a row where the schedule or another watcher wants one, and decides by it about the
    end.

    With ``keeps`` the last recorded state is kept in ``good``, to find the cause if an agent
    diverges. ``wanted`` is an iteration of which a row is wanted beside the schedule,
    ``ending(state)`` the method's own reason to end.
    """

    def __init__(
        self,
        parts: Parts,
        options: Options,
        *,
        clock: Clock,
        history: History,
        state: Observed,
        limits: Asking,
        agreement: Agreement | None,
        keeps: bool,
    ) -> None:
        SETUP.info("the first row of the history")
        self._parts = parts
        self._options = options
        self._clock = clock
        self._history = history
        self._agreement = agreement
        self._keeps = keeps
        self._asking: list[Asking] = [self, limits]
        if agreement is not None:
            self._asking.append(agreement)
        own = getattr(parts.problem, "metrics", None) or StandardMetrics(
            parts.problem, state, parts.counted is not None
        )
        self._metrics = (own, *options.metrics)
        self._recorders = options.recorders if parts.collective.root else ()
        self.row: Row | None = None
        self._first: Row | None = None
        self._size = parts.size
        self.good: Snapshot | None = None
        self.wanted = self.recorded = -1
        self.iteration = state.k
        for one in self._recorders:
            if isinstance(one, Follower):
                one.follow(self)
        if history.rows:
            self._continue(history.rows, state.k)
        self._targets = self._scheduled(max(state.k, self.recorded + 1))
        self._target: float = next(self._targets, math.inf)
        self.ending: Callable[[Observed], Stop | None] = _never
        if isinstance(parts.algorithm, Ending):
            self.ending = partial(parts.algorithm.ending, parts.problem)

    def _scheduled(self, first: int) -> Iterator[int]:
        """The iterations of the rows from ``first`` on; rows that take messages are so far apart
        that these are few."""
        options = self._options
        apart = 1
        if self._parts.counted is not None:
            apart = _SHARE * SUMS_OF_A_ROW * self._parts.network.rounds_of_sum
        targets = schedule(options.iterations, options.rows, options.record_every, apart)
        return (k for k in targets if k >= first)

    def _continue(self, rows: Sequence[Row], k: int) -> None:
        """Continue from these rows; a ValueError for rows of other metrics."""
        before = list(rows[0].values)
        now = [column for metric in self._metrics for column in metric.columns]
        if before != now:
            raise ValueError(
                f"a resumed run keeps its metrics, {', '.join(before)}; it was given "
                f"{', '.join(now)}"
            )
        self._first = rows[0]
        self.row = rows[-1]
        self.recorded = self.row.iteration
        if self._agreement is not None:
            self.row = self.row._replace(agreed=self._agreement.at(k))

    @property
    def next(self) -> float:
        """The iteration of the next row."""
        recorded = self.recorded
        return min([self._target, *[one.wanted for one in self._asking if one.wanted > recorded]])

    @property
    def rule(self) -> Rule | None:
        """The rule of stopping, compared with the first row; None before that, or without a
        rule."""
        rule = self._options.rule
        first = self._first
        problem = self._parts.problem
        if rule is None or first is None:
            return None
        rule = rule.since(first)
        if problem.n_agents == 1 or splits_features(problem):
            return rule  # no agent has a point of its own beside another
        return rule.agreed(first, self._size)

    def judge(self, snapshot: Snapshot) -> Stop | None:
        """The reason to stop at this state, if its row is the last one; without a reason the state
        is kept."""
        stop = None
        if self.row is None:
            return None
        if self.recorded == snapshot.state.k:
            stop = self.ending(snapshot.state) or self._decide(self.row)
        if stop is None and self._keeps:
            self.good = snapshot.copied(self.good)
        return stop

    def _decide(self, row: Row) -> Stop | None:
        """The reason to stop at a row."""
        options = self._options
        collective = self._parts.collective
        rule = self.rule
        region = options.safety_region
        if region is not None and (far := row.values["feasibility"]) > region:
            words = (
                f"left the safety region: feasibility {far:.3g} > {region:g} at iteration "
                f"{row.iteration}; take a smaller step size, or a larger region"
            )
            return Stop("left_safe_region", False, words)
        found = None if rule is None else rule(row, collective)
        counts = Declared.of(self._parts.algorithm).counts
        if found is None and (found := Iterations(options.iterations)(row, collective)) is not None:
            return found._replace(message=found.message.replace("iterations", counts))
        rows = self._history.rows[-2:]
        if found is None or not found.converged or self._agreement is not None or len(rows) < 2:
            return found
        before = rows[0].iteration
        if row.iteration > before + 1:
            found = found._replace(message=f"{found.message}, not yet after {before} {counts}")
        return found

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Record a row and decide; a ValueError if the first state is not finite."""
        parts = self._parts
        state = snapshot.state
        runaway = parts.runaway(state.x)
        if runaway is not None and self.row is None:
            raise ValueError(
                f"the starting point is not finite at agent {runaway}: give a finite x0, and "
                "data without overflow"
            )
        if runaway is not None and self.row is not None:
            return divergence.diverged(parts, runaway, state, self.row, self.good)
        values: dict[str, float] = {}
        for metric in self._metrics:
            found = metric(parts.problem, state, parts.counted or parts.collective)
            values |= zip(metric.columns, found, strict=True)
        divergence.warn_of_objective(parts, state, values, self.row)
        agreed = None if self._agreement is None else self._agreement.at(state.k)
        network = parts.network  # its counts have the sums for this row too
        self.row = Row(
            state.k,
            network.rounds,
            network.messages,
            network.bytes,
            state.gradients,
            self._clock.iterating(),
            values,
            agreed,
        )
        self.recorded = state.k
        self._first = self._first or self.row
        self._history.record(self.row)
        # every recorder gets the row, with values of its own, also if one of them ends the run
        rows = [self.row._replace(values=dict(values)) for _ in self._recorders]
        endings = [_ends(one, row) for one, row in zip(self._recorders, rows, strict=True)]
        ended = parts.collective.decide(any(endings))
        if self._target <= state.k:
            self._target = next(self._targets, math.inf)
        stop = self.judge(snapshot)
        if stop is None and ended:
            stop = Stop("stopped", False, f"the callback ended the run at iteration {state.k}")
        return stop


def _never(state: object) -> None:
    """No reason to end: for methods that cannot detect one."""


def _ends(recorder: Recorder, row: Row) -> bool:
    """Record a row; True if the recorder ends the run with it."""
    try:
        answer = recorder.record(row)
    except StopIteration:
        return True
    return isinstance(answer, bool | np.bool_) and bool(answer)


class Interrupts:
    """Ends a run at the first SIGINT (Ctrl-C) to any rank, within the context ``signals``, after a
    last row."""

    def __init__(self, collective: Collective, k: int, recording: Recording) -> None:
        self._looks = SharedLooks(collective, k, time.monotonic)
        self._recording = recording
        own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self.signals = PendingSignals({signal.SIGINT} if own else ())

    @property
    def next(self) -> float:
        """The iteration at which ranks agree again."""
        return self._looks.next

    def look(self, snapshot: Snapshot) -> Stop | None:
        """The reason to stop, on every rank, if there was a signal."""
        k = snapshot.state.k
        stop = None
        if not self._looks.largest(k, [bool(self.signals.take())])[0]:
            return None
        if self._recording.recorded != k:
            stop = self._recording.look(snapshot)
        return stop or Stop("interrupted", False, f"interrupted after iteration {k}")
