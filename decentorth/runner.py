"""The only loop: step until a watcher looks at the run, let the watchers look in their order, stop when one says so.

The watchers keep copies to go back to (`rewind`), let the agents meet (`agreement`), look at the time, record rows and decide by
them, copy the last good state, and write checkpoints (`checkpoint`). Every rank does the same things in the same order, which is
why it cannot deadlock.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, cast

import numpy as np

from .agreement import Agreement
from .checkpoint import LOOK_SECONDS, Checkpoints, Keeper, Moment, Resumed, look_ahead
from .history import History
from .metrics import StandardMetrics, first_runaway
from .protocols import (
    SETUP,
    Agreed,
    Algorithm,
    Array,
    Collective,
    Ending,
    Index,
    LocalProducts,
    Metric,
    Nonsmooth,
    Recorder,
    Row,
    S,
    Smooth,
    Stop,
    StoppingRule,
    Streams,
)
from .rewind import Rewind
from .settings import Count, Natural, Positive, Range, Settings
from .stopping import Time, rules_of


def check_capabilities(problem: Any, algorithm: Any) -> None:
    """Refuse a pair that cannot work.

    Raises
    ------
    TypeError
        Naming the capability that the problem or its constraint set lacks.
    ValueError
        For a single-agent method with several agents.
    """
    name = type(algorithm).__name__
    for thing, needs in ((problem, algorithm.requires), (problem.constraint, algorithm.requires_set)):
        for need in needs:
            if not isinstance(thing, need):
                meaning = (need.__doc__ or "").partition("\n")[0]
                raise TypeError(
                    f"{name} needs {need.__name__} of its problem; {type(thing).__name__} has none. {need.__name__}: {meaning}"
                )
    if algorithm.network == "single-agent" and problem.n_agents > 1:
        method = "DRSM" if isinstance(problem, Nonsmooth) and problem.nonsmooth else "DRFGT"
        if isinstance(problem, LocalProducts):
            method = "CDADT, which needs no pooled constraint, or DRFGT"
        raise ValueError(
            f"{name} is a centralized method for one agent, but the problem has {problem.n_agents}: "
            f"use a decentralized method such as {method}, or one agent (--agents 1, problem.pooled())"
        )


def iterate(
    problem: Any, algorithm: Algorithm[Any, S], network: Any, streams: Streams, x0: Array, state: S | None = None
) -> Iterator[S]:
    """The states of a run, from the initial one or ``state`` on, for ever. A state is valid until the next is asked for."""
    if state is None:
        SETUP.info("the first state: automatic steps")
        state = algorithm.init(problem, network, streams, x0)
    while True:
        yield state
        state = algorithm.step(problem, network, streams, state)


class Outcome(NamedTuple):
    """How a run ended."""

    state: Any
    stop: Stop
    row: Row
    """The last recorded row."""
    history: History
    seconds: dict[str, float]
    """Wall seconds on this rank: compute, wait (for other ranks' messages), metrics, checkpoints, total."""
    agreement: Agreement | None
    """Knowledge of the agents about each other, where they decide about the end."""


def schedule(iterations: int, rows: int | None, every: int | None) -> Iterator[int]:
    """The iterations to record, ascending: log-spaced, about ``rows`` of them, or every ``every``-th; always 0 and the last.

    By default 200 rows, but no more than one in five iterations (20 rows at least), so that measuring does not outweigh the work.
    """
    if rows is None:
        rows = min(200, max(20, iterations // 5))
    if every is not None:
        yield from range(0, iterations, every)
        yield iterations
        return
    yield 0
    yield from (k for k in _log_spaced(iterations, rows - 2) if k < iterations)
    if iterations > 0:
        yield iterations


def _log_spaced(last: int, number: int) -> list[int]:
    """About ``number`` distinct integers from 1 to ``last``, log-spaced as far as integers allow."""
    if last <= number:
        return list(range(1, last + 1))
    low, high = number, 64 * number  # more points than asked for, since small ones coincide after rounding
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_spaced(last, middle)) >= number else (middle + 1, high)
    return [int(k) for k in _spaced(last, high)]


def _spaced(last: int, points: int) -> Index:
    """The distinct integers nearest to so many points from 1 to ``last``, log-spaced."""
    return np.unique(np.geomspace(1, last, points).round().astype(np.int64))


class _Clock:
    """Wall seconds by what they were spent on, those of the run that goes on included."""

    def __init__(self, network: Any, before: Mapping[str, float]) -> None:
        self._network = network
        self._spent = {what: before.get(what, 0.0) for what in ("compute", "wait", "metrics", "checkpoints", "total")}
        self._spent["compute"] += self._spent["wait"]
        self._spent["wait"] -= network.wait_seconds
        self._mark = time.perf_counter()
        self._spent["total"] -= self._mark

    def count(self, what: str) -> None:
        """The time since the last call was spent on that."""
        now = time.perf_counter()
        self._spent[what] += now - self._mark
        self._mark = now

    @property
    def iterating(self) -> float:
        """Seconds of the iterations, waiting included."""
        return self._spent["compute"]

    @property
    def seconds(self) -> dict[str, float]:
        """All of it: compute, wait (for other ranks' messages), metrics, checkpoints, total."""
        wait = self._spent["wait"] + self._network.wait_seconds
        total = self._spent["total"] + time.perf_counter()
        return {**self._spent, "compute": self._spent["compute"] - wait, "wait": wait, "total": total}


@dataclass(frozen=True)
class Options(Settings):
    """How a run is recorded, and when it ends; see `decentorth.api.solve`."""

    iterations: Natural = 1000
    stopping: StoppingRule | None = None
    rows: Annotated[int, Range(least=2)] | None = None
    record_every: Count | None = None
    recorders: Sequence[Recorder] = ()
    metrics: Sequence[Metric] = ()
    safety_region: Positive | None = None
    checkpoints: Checkpoints | None = None
    resume: str | os.PathLike[str] | Resumed | None = None
    compute_timeout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        stopping: Any = self.stopping
        if stopping is not None and (isinstance(stopping, type) or not callable(stopping)):
            tolerance = f"{stopping:g}" if isinstance(stopping, float) and stopping > 0.0 else "1e-6"
            raise TypeError(f"stopping must be a rule such as do.stopping.GradientNorm({tolerance}), got {stopping!r}")


class Parts(NamedTuple):
    """The parts of a run that stay as they are."""

    problem: Any
    algorithm: Any
    network: Any
    collective: Collective
    streams: Streams
    x0: Array
    stepper: Any
    """The algorithm, with the faults of agents around it on an unreliable network."""

    def states(self, state: Any = None) -> Iterator[Any]:
        """The states, from the initial one or ``state`` on; see `iterate`."""
        return iterate(self.problem, self.stepper, self.network, self.streams, self.x0, state)

    def moment(self, state: Any, clock: _Clock, agreement: Agreement | None) -> Moment:
        """The run as it is now."""
        network = self.network
        agreed = {} if agreement is None else agreement.saved()
        return Moment(state, (network.rounds, network.messages, network.bytes), network.in_flight(), clock.seconds, agreed)

    def runaway(self, x: Array) -> int | None:
        """The first agent whose point is not finite, the same on every rank."""
        return first_runaway(x, self.problem.agents.start, self.problem.n_agents, self.collective)


class Watcher(Protocol):
    """Looks at a run between two of its iterations: at the first that is not before ``next``, on every rank alike."""

    @property
    def next(self) -> float:
        """The iteration at which to look again; infinity for never."""

    def look(self, moment: Moment) -> Stop | None:
        """Why to stop, or None to go on."""


class _WantsRows(Protocol):
    @property
    def wanted(self) -> int:
        """The last iteration of which a row is wanted, whatever the schedule says."""


class _TimeLimits:
    """Limits of time, at each of which a row is due. One process looks at its clock after each iteration; several ranks agree from
    time to time about that of rank 0, and when to do so again.

    Parameters
    ----------
    stopping
        The rules, whose limits these are.
    k
        The iteration at which the run begins.
    """

    def __init__(self, stopping: StoppingRule | None, collective: Collective, clock: _Clock, k: int) -> None:
        self._limits = sorted(rule.seconds for rule in rules_of(Time, stopping))
        self._collective, self._clock, self._alone = collective, clock, collective.size == 1
        self._reached, self._looked, self._seconds = 0, k, clock.iterating
        self._next = math.inf if self._alone or not self._limits else k + 1
        self.wanted = -1

    @property
    def next(self) -> float:
        """The iteration at which ranks agree again; on one process any, once a limit has been reached."""
        if self._alone and bisect(self._limits, self._clock.iterating) > self._reached:
            return 0
        return self._next

    @property
    def left(self) -> float:
        """Seconds to the next limit of one process."""
        return self._left(self._reached, self._clock.iterating) if self._alone else math.inf

    def _left(self, reached: int, seconds: float) -> float:
        return self._limits[reached] - seconds if reached < len(self._limits) else math.inf

    def look(self, moment: Moment) -> Stop | None:
        """Want a row where a limit has been reached since the last time; the same on every rank."""
        k, seconds = moment.state.k, self._clock.iterating
        reached = bisect(self._limits, seconds)
        if not self._alone:
            ahead = look_ahead(k - self._looked, seconds - self._seconds, min(LOOK_SECONDS, self._left(reached, seconds)))
            answer = np.array([reached, ahead] if self._collective.rank == 0 else [0, 0], dtype=np.float64)
            reached, ahead = self._collective.largest(answer).astype(np.int64).tolist()
            self._looked, self._seconds = k, seconds
            self._next = k + ahead if reached < len(self._limits) else math.inf
        if reached > self._reached:
            self._reached, self.wanted = reached, k
        return None


class _LastGood:
    """A copy of the last state that was recorded, from which the cause is found if the run diverges.

    Attributes
    ----------
    next
        The iteration that was recorded last, until its state has been copied.
    moment
        The copy; None where the points are so large that none is made.
    """

    def __init__(self, parts: Parts, always: bool, k: int) -> None:
        self._copies = always or parts.problem.n_agents * parts.x0[0].nbytes <= _REMEMBERED
        self.next: float = k
        self.moment: Moment | None = None

    def look(self, moment: Moment) -> Stop | None:
        """Copy it."""
        self.moment, self.next = moment.copied(self.moment) if self._copies else None, math.inf
        return None


class _Recording:
    """Records a row where the schedule or another watcher wants one, and decides by it about the end.

    Attributes
    ----------
    row
        The last one.
    wanted
        The last iteration of which a row is wanted, whatever the schedule says.
    ending
        Why the method itself ends at a state, or None.
    """

    def __init__(
        self,
        parts: Parts,
        options: Options,
        clock: _Clock,
        history: History,
        state: Any,
        good: _LastGood,
        agreement: Agreement | None,
        limits: _TimeLimits,
    ) -> None:
        SETUP.info("the first row of the history")
        self._parts, self._options, self._clock, self._history = parts, options, clock, history
        self._good, self._agreement = good, agreement
        self._metrics = (StandardMetrics(parts.problem, state), *options.metrics)
        self._asking: list[_WantsRows] = [self, limits, *(() if agreement is None else (agreement,))]
        self.row: Row | None = None
        if history.rows:
            _check_columns(history, self._metrics)
            self.row = history.rows[-1]._replace(agreed=_agreed(agreement, state.k))
        first = state.k if self.row is None or self.row.iteration < state.k else state.k + 1
        self._targets = (k for k in schedule(options.iterations, options.rows, options.record_every) if k >= first)
        self._target: float = next(self._targets, math.inf)
        self.wanted = -1
        method = parts.algorithm
        self.ending = partial(method.ending, parts.problem) if isinstance(method, Ending) else _never

    @property
    def next(self) -> float:
        """The iteration of the next row."""
        last = -1 if self.row is None else self.row.iteration
        return min([self._target, *(one.wanted for one in self._asking if one.wanted > last)])

    @property
    def last(self) -> Row:
        """The last row; there is one when a run has ended."""
        return cast(Row, self.row)

    def judged(self, state: Any) -> Stop | None:
        """Why to stop at this state, whose row may be the last one."""
        if self.row is None or self.row.iteration < state.k:
            return None
        return self.ending(state) or _decide(self.row, self._parts.collective, self._options)

    def look(self, moment: Moment) -> Stop | None:
        """Record a row and decide.

        Raises
        ------
        ValueError
            The first state is not finite.
        """
        problem, collective = self._parts.problem, self._parts.collective
        state = moment.state
        runaway = self._parts.runaway(state.x)
        if runaway is not None:
            if self.row is None:
                raise ValueError(
                    f"the starting point is not finite at agent {runaway}: give a finite x0, and data without overflow"
                )
            cause = None if self._good.moment is None else _cause(self._parts, self._good.moment, state.k)
            return _diverged(runaway, state, self.row, cause or _smaller(self._parts.algorithm, problem, collective))
        values: dict[str, float] = {}
        for metric in self._metrics:
            values |= zip(metric.columns, metric(problem, state, collective), strict=True)
        counts = (*moment.counts, state.gradients)
        self.row = Row(state.k, *counts, self._clock.iterating, values, _agreed(self._agreement, state.k))
        self._history.record(self.row)
        if collective.rank == 0:
            for recorder in self._options.recorders:
                recorder.record(self.row)
        if self._target <= state.k:
            self._target = next(self._targets, math.inf)
        self._good.next = state.k
        return self.judged(state)


def run(
    parts: Parts,
    options: Options,
    keep: Callable[[History, int, Path | None], Keeper] | None = None,
    resumed: Resumed | None = None,
    rewind: Rewind | None = None,
) -> Outcome:
    """Step to the next iteration at which a watcher looks, let the watchers look in their order, and stop when one says so.

    Parameters
    ----------
    keep
        Makes the keeper of checkpoints, from the history, the iteration at which the run begins and the checkpoint it goes on from.
    resumed
        The run to go on with, whose counts the network has.
    rewind
        Keeps what the ranks can go back to.
    """
    clock = _Clock(parts.network, {} if resumed is None else resumed.seconds)
    states = parts.states(None if resumed is None else resumed.state)
    with np.errstate(over="ignore", invalid="ignore"), contextlib.ExitStack() as stack:
        state = next(states)
        agreement = Agreement.of(options.stopping, parts.problem, parts.algorithm, parts.network)
        if agreement is not None:
            agreement.restore({} if resumed is None else resumed.agreement)
            agreement.look(parts.moment(state, clock, agreement))
        clock.count("compute")
        if rewind is not None:
            rewind.seconds = lambda: clock.seconds
        history = resumed.history if resumed is not None else rewind.history if rewind is not None else History()
        limits, good = _TimeLimits(options.stopping, parts.collective, clock, state.k), _LastGood(parts, keep is not None, state.k)
        recording = _Recording(parts, options, clock, history, state, good, agreement, limits)
        keeper = None if keep is None else keep(history, state.k, None if resumed is None else resumed.path)
        stack.enter_context(contextlib.nullcontext() if keeper is None else keeper.signals)
        watchers = _present(compute=(rewind, agreement), metrics=(limits, recording, good), checkpoints=(keeper,))
        stop = recording.judged(state)
        clock.count("metrics")
        while stop is None:
            state = _step(states, state, recording, limits, min(watcher.next for watcher, _ in watchers))
            clock.count("compute")
            for watcher, what in watchers:
                if stop is None and watcher.next <= state.k:
                    stop = watcher.look(parts.moment(state, clock, agreement))
                    clock.count(what)
        if keeper is not None:
            keeper.end(parts.moment(state, clock, agreement), good.moment)
            clock.count("checkpoints")
    return Outcome(state, stop, recording.last, history, clock.seconds, agreement)


def _present(**watchers: tuple[Watcher | None, ...]) -> list[tuple[Watcher, str]]:
    """The watchers that there are, in order, each with the name under which its seconds are counted."""
    return [(watcher, what) for what, several in watchers.items() for watcher in several if watcher is not None]


def _step(states: Iterator[S], state: S, recording: _Recording, limits: _TimeLimits, goal: float) -> S:
    """The state of iteration ``goal``, or an earlier one at which the method ends or the time is over: then a row is wanted."""
    over = time.perf_counter() + limits.left
    while state.k < goal and recording.ending(state) is None:
        state = next(states)
        if time.perf_counter() >= over:
            break
    if state.k < goal:
        recording.wanted = state.k
    return state


def _agreed(agreement: Agreement | None, k: int) -> Agreed | None:
    """The knowledge of the agents, if they have gained it at iteration ``k``."""
    latest = None if agreement is None else agreement.latest
    return latest if latest is not None and latest.iteration == k else None


def _check_columns(history: History, metrics: Sequence[Metric]) -> None:
    before, now = list(history.rows[0].values), [column for metric in metrics for column in metric.columns]
    if before != now:
        raise ValueError(f"a resumed run goes on with its metrics, {', '.join(before)}; it was given {', '.join(now)}")


def _never(state: Any) -> Stop | None:
    """The ending of a method that knows of none."""
    return None


def _decide(row: Row, collective: Collective, options: Options) -> Stop | None:
    stopping, iterations, safety_region = options.stopping, options.iterations, options.safety_region
    if safety_region is not None and row.values["feasibility"] > safety_region:
        return Stop(
            "left_safe_region",
            False,
            f"left the safety region: feasibility {row.values['feasibility']:.3g} > {safety_region:g} "
            f"at iteration {row.iteration}; take a smaller step size, or a larger region",
        )
    found = stopping(row, collective) if stopping is not None else None
    if found is None and row.iteration >= iterations:
        return Stop("iterations", False, f"all {iterations} iterations are done")
    return found


_REMEMBERED = 1 << 26
"""Bytes of all agents' points up to which the last state that was recorded is kept, to find the cause if the run diverges."""
_FAR = 1e3
"""Where a point has grown so many times larger than the start, the step may be the cause of a gradient that is not finite."""


def _cause(parts: Parts, good: Moment, last: int) -> str | None:
    """The gradient or objective that is not finite where the points still are, found by making the iterations after ``good`` again.

    None where all are finite at the last such points; the same on every rank.
    """
    problem, network, collective = parts.problem, parts.network, parts.collective
    agents, n = problem.agents, problem.n_agents
    now = (network.rounds, network.messages, network.bytes)
    in_flight = {name: array.copy() for name, array in network.in_flight().items()}
    network.restore(*good.counts, good.in_flight)
    before, k = good.state.x, good.state.k
    for state in parts.states(good.copied().state):
        if state.k >= last or parts.runaway(state.x) is not None:
            break
        before, k = state.x.copy(), state.k
    network.restore(*now, in_flight)
    for name, function in (("gradient", problem.gradient), ("objective", problem.value)):
        agent = first_runaway(function(before), agents.start, n, collective, np.finfo(np.float64).max)
        if agent is not None:
            size = np.abs(before[agent - agents.start]).max() if agents.start <= agent < agents.stop else 0.0
            largest, usual = collective.largest(np.array([size, np.abs(parts.x0).max()]))
            where = f"its point of iteration {k}, whose largest entry is {largest:.3g}"
            step = "" if name == "gradient" and largest <= _FAR * usual else ", or try a smaller step size"
            return f"the {name} of agent {agent} is not finite at {where}: mend that function{step}"
    return None


def _smaller(algorithm: Any, problem: Any, collective: Collective) -> str:
    """The advice for a step size that is too large, for the objectives or for the penalty."""
    step = getattr(algorithm, "step_size", None)
    step, penalty = getattr(step, "initial", step), getattr(algorithm, "penalty", None)
    if not isinstance(step, float | int):
        return "try a smaller step size"
    steepest = collective.max(float(problem.lipschitz.max())) if isinstance(problem, Smooth) else 0.0
    curved = 1.0 / steepest if 0.0 < steepest < np.inf else np.inf
    if isinstance(penalty, float | int) and step * penalty > 0.5 and step <= 2.0 * curved:
        return (
            f"the step size {step:g} is too large for the penalty {penalty:g}: try a penalty of {0.1 / step:.2g}, "
            f"a step size of {0.1 / penalty:.2g}, or step size 'auto'"
        )
    return f"the step size {step:g} is too large: try {min(step / 5.0, curved):.2g}, or 'auto'"


def _diverged(agent: int, state: Any, row: Row, advice: str) -> Stop:
    seen = f"it was finite at iteration {row.iteration}"
    return Stop("diverged", False, f"diverged: the point of agent {agent} is not finite at iteration {state.k} ({seen}); {advice}")
