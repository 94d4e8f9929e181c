"""The watchers of a run, which look at it between two of its iterations: limits of time, and the recording of rows.

The others are copies to go back to (`rank_loss_rewind`), the agents' agreement (`local_stopping`) and checkpoints (`checkpoint`).
"""

from __future__ import annotations

import logging
import math
import signal
import time
from bisect import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from ..protocols import (
    SETUP,
    Agreed,
    Algorithm,
    Array,
    Collective,
    Ending,
    Metric,
    Problem,
    Recorder,
    Row,
    Stop,
    StoppingRule,
    Streams,
)
from ..stopping import Iterations, Time, rules_of, since
from .checkpoint import LOOK_SECONDS, CheckpointWriter, PendingSignals, SharedLooks, Snapshot
from .history import History, schedule
from .local_stopping import Agreement
from .metrics import RUNAWAY, StandardMetrics, first_runaway
from .options import Options

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Looks at a run between two of its iterations: at the first that is not before ``next``, on every rank alike."""

    @property
    def next(self) -> float:
        """The iteration at which to look again; infinity for never."""

    def look(self, snapshot: Snapshot) -> Stop | None:
        """The reason to stop, or None to go on."""


@dataclass(frozen=True)
class Parts:
    """The parts of a run that stay as they are."""

    repeats: ClassVar[bool] = True
    """True if iterations can be made again, from a copy of the points."""

    problem: Problem[Any]
    algorithm: Algorithm[Any, Any]
    network: Any
    collective: Collective
    streams: Streams
    start: Array
    stepper: Any
    """The algorithm, with the faults of agents around it on an unreliable network."""

    @property
    def x0(self) -> Array:
        """The start of this process's agents, ``(n_local, *shape)``; a new array each time, which nobody else keeps."""
        return np.repeat(self.start[None], self.network.n_local, axis=0)

    def snapshot(self, clock: Clock, agreement: Agreement | None, state: Any) -> Snapshot:
        """The run as it is now."""
        network = self.network
        counts, known = (network.rounds, network.messages, network.bytes), {} if agreement is None else agreement.saved()
        return Snapshot(state, counts, network.in_flight(), clock.seconds(), known)

    def present(self, state: Any) -> tuple[Problem[Any], Any]:
        """The problem and the state of the agents that are there; all, unless agents may leave for a time."""
        return self.problem, state

    def written_by(self, writer: CheckpointWriter, state: Any) -> None:
        """Let the parts write checkpoints of their own beside the writer's."""

    def runaway(self, values: Array, bound: float = RUNAWAY) -> int | None:
        """The first agent with values that are not finite, or beyond ``bound``, the same on every rank."""
        return first_runaway(values, self.problem.agents.start, self.problem.n_agents, self.collective, bound)


class Clock:
    """Wall seconds by what they were spent on, with those of the run that continues."""

    def __init__(self, network: Any, before: Mapping[str, float]) -> None:
        self._network = network
        self._spent = {name: before.get(name, 0.0) for name in ("compute", "wait", "metrics", "checkpoints", "total")}
        self._spent["compute"] += self._spent["wait"]
        self._spent["wait"] -= network.wait_seconds
        self._mark = time.perf_counter()
        self._spent["total"] -= self._mark

    def count(self, name: str) -> None:
        """Count the time since the last call."""
        now = time.perf_counter()
        self._spent[name] += now - self._mark
        self._mark = now

    def iterating(self) -> float:
        """The seconds of the iterations, waiting included."""
        return self._spent["compute"]

    def seconds(self) -> dict[str, float]:
        """All seconds: compute, wait (for other ranks' messages), metrics, checkpoints, total."""
        wait = self._spent["wait"] + self._network.wait_seconds
        total = self._spent["total"] + time.perf_counter()
        return {**self._spent, "compute": self._spent["compute"] - wait, "wait": wait, "total": total}


class TimeLimits:
    """Limits of time, at each of which a row is ``wanted``: one process looks at its clock after each iteration, ranks agree
    from time to time about that of rank 0."""

    def __init__(self, stopping: StoppingRule | None, collective: Collective, clock: Clock, k: int) -> None:
        self._limits = sorted(rule.end for rule in rules_of(Time, stopping))
        self._clock, self._root, self._alone = clock, collective.rank == 0, collective.size == 1
        self._looks = SharedLooks(collective, k, clock.iterating)
        self._reached, self.wanted = 0, -1

    def _left(self) -> float:
        """The seconds to the next limit."""
        return self._limits[self._reached] - self._clock.iterating() if self._reached < len(self._limits) else math.inf

    @property
    def next(self) -> float:
        """The iteration at which ranks agree again; on one process any, once a limit has been reached."""
        if self._alone:
            return 0 if self._left() <= 0.0 else math.inf
        return self._looks.next if self._reached < len(self._limits) else math.inf

    @property
    def deadline(self) -> float:
        """The time at which one process has reached the next limit, on `time.perf_counter`."""
        return time.perf_counter() + self._left() if self._alone else math.inf

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Want a row where a limit has been reached since the last time; the same on every rank."""
        k, reached = snapshot.state.k, bisect(self._limits, self._clock.iterating())
        if not self._alone:
            known = reached if self._root else 0
            reached = int(self._looks.largest(k, [known], min(LOOK_SECONDS, self._left()))[0])
        if reached > self._reached:
            self._reached, self.wanted = reached, k
        return None


class Recording:
    """Records a row where the schedule or another watcher wants one, and decides by it about the end.

    With ``keeps`` the last recorded state is kept in ``good``, for ``diagnose(agent, state, row, good)`` where an agent diverges.
    ``ending(state)`` is the method's own reason to end, and ``wanted`` an iteration of which a row is wanted beside the schedule.
    """

    def __init__(
        self,
        parts: Parts,
        options: Options,
        clock: Clock,
        history: History,
        state: Any,
        limits: TimeLimits,
        agreement: Agreement | None,
        keeps: bool,
        diagnose: Callable[[int, Any, Row, Snapshot | None], Stop],
    ) -> None:
        SETUP.info("the first row of the history")
        self._parts, self._options, self._clock, self._history = parts, options, clock, history
        self._agreement, self._keeps, self._diagnose = agreement, keeps, diagnose
        self._asking: list[Recording | TimeLimits | Agreement] = [self, limits, *([] if agreement is None else [agreement])]
        own: Metric | None = getattr(parts.problem, "metrics", None)
        self._metrics = (StandardMetrics(parts.problem, state) if own is None else own, *options.metrics)
        self._problem = parts.problem
        self._recorders = options.recorders if parts.collective.rank == 0 else ()
        self.row: Row | None = None
        self._first: Row | None = None
        self.good: Snapshot | None = None
        if history.rows:
            before, now = list(history.rows[0].values), [column for metric in self._metrics for column in metric.columns]
            if before != now:
                raise ValueError(f"a resumed run goes on with its metrics, {', '.join(before)}; it was given {', '.join(now)}")
            self.row, self._first = history.rows[-1]._replace(agreed=self._agreed(state.k)), history.rows[0]
        first = max(state.k, self._recorded + 1)  # a generator that named the state would keep its arrays
        self._targets = (k for k in schedule(options.iterations, options.rows, options.record_every) if k >= first)
        self._target: float = next(self._targets, math.inf)
        self.wanted = -1
        method = parts.algorithm
        self.ending: Callable[[Any], Stop | None] = lambda state: None
        if isinstance(method, Ending):
            self.ending = partial(method.ending, parts.problem)

    @property
    def _recorded(self) -> int:
        """The iteration of the last row."""
        return -1 if self.row is None else self.row.iteration

    def _agreed(self, k: int) -> Agreed | None:
        return None if self._agreement is None else self._agreement.at(k)

    @property
    def next(self) -> float:
        """The iteration of the next row."""
        return min([self._target, *(watcher.wanted for watcher in self._asking if watcher.wanted > self._recorded)])

    def judge(self, snapshot: Snapshot) -> Stop | None:
        """The reason to stop at this state, if its row is the last one; without a reason the state is kept."""
        stop = None
        if self.row is not None and self.row.iteration == snapshot.state.k:
            first = self._first or self.row
            stop = self.ending(snapshot.state) or self._decide(self.row, first)
        if stop is None and self._keeps:
            self.good = snapshot.copied(self.good)
        return stop

    def _present(self, state: Any) -> tuple[Problem[Any], Any]:
        """The problem and the state of the agents that are there, and metrics of these."""
        problem, seen = self._parts.present(state)
        if problem is not self._problem:
            self._problem = problem
            if isinstance(self._metrics[0], StandardMetrics):
                self._metrics = (StandardMetrics(problem, state), *self._metrics[1:])
        return problem, seen

    def _decide(self, row: Row, first: Row) -> Stop | None:
        """The reason to stop at a row of a run with this first row."""
        options, collective = self._options, self._parts.collective
        if options.safety_region is not None and row.values["feasibility"] > options.safety_region:
            return Stop(
                "left_safe_region",
                False,
                f"left the safety region: feasibility {row.values['feasibility']:.3g} > {options.safety_region:g} "
                f"at iteration {row.iteration}; take a smaller step size, or a larger region",
            )
        rule = since(options.rule, first)
        found = None if rule is None else rule(row, collective)
        return found or Iterations(options.iterations)(row, collective)

    def _look_at_objective(self, state: Any, objective: float) -> None:
        """Warn where the objective is no longer finite: it may be undefined there, or its function be wrong."""
        before = 0.0 if self.row is None else self.row.values["objective"]
        if math.isfinite(objective) or not math.isfinite(before):
            return
        agent = self._parts.runaway(self._parts.problem.value(state.x), np.finfo(np.float64).max)
        if self._parts.collective.rank == 0:
            whose = "" if agent is None else f" of agent {agent}"
            log.warning(
                "the objective%s is not finite at iteration %d (the mean is %s), and the run goes on", whose, state.k, objective
            )

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Record a row and decide; a ValueError if the first state is not finite."""
        parts, state = self._parts, snapshot.state
        runaway = parts.runaway(state.x)
        if runaway is not None:
            if self.row is None:
                raise ValueError(
                    f"the starting point is not finite at agent {runaway}: give a finite x0, and data without overflow"
                )
            return self._diagnose(runaway, state, self.row, self.good)
        values: dict[str, float] = {}
        problem, seen = self._present(state)
        for metric in self._metrics:
            values |= zip(metric.columns, metric(problem, seen, parts.collective), strict=True)
        self._look_at_objective(state, values.get("objective", 0.0))
        self.row = Row(state.k, *snapshot.counts, state.gradients, self._clock.iterating(), values, self._agreed(state.k))
        self._first = self._first or self.row
        self._history.record(self.row)
        endings = [_ends(recorder, self.row) for recorder in self._recorders]  # every recorder gets the row
        ended = parts.collective.decide(any(endings))
        if self._target <= state.k:
            self._target = next(self._targets, math.inf)
        stop = self.judge(snapshot)
        if stop is None and ended:
            stop = Stop("stopped", False, f"the callback ended the run at iteration {state.k}")
        return stop


def _ends(recorder: Recorder, row: Row) -> bool:
    """Record a row; True if the recorder ends the run with it."""
    try:
        answer = recorder.record(row)
    except StopIteration:
        return True
    return isinstance(answer, bool | np.bool_) and bool(answer)


class Interrupts:
    """Ends a run at the first SIGINT (Ctrl-C) to any rank, within the context ``signals``, after a last row."""

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
        k, recording = snapshot.state.k, self._recording
        if not self._looks.largest(k, [bool(self.signals.take())])[0]:
            return None
        recorded = recording.row is not None and recording.row.iteration == k
        stop = None if recorded else recording.look(snapshot)
        return stop or Stop("interrupted", False, f"interrupted after iteration {k}")
