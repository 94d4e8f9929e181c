"""The only loop: step, stop the clock, measure when it is due, record, decide whether to go on.

Every rank does the same things in the same order, which is why it cannot deadlock.
"""

from __future__ import annotations

import contextlib
import math
import signal
import time
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from .agreement import Agreement
from .checkpoint import LOOK_SECONDS, Keeper, Moment, Resumed, look_ahead
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
    step = network.iterating(algorithm.step, state, x0)
    while True:
        yield state
        state = step(problem, network, streams, state)


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
    """What the agents know of each other, where they decide about the end."""


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


class _TimeLimits:
    """Limits of time, at each of which a row is due. One process looks at its clock after each iteration; several ranks agree from
    time to time about that of rank 0, and when to do so again.

    Parameters
    ----------
    stopping
        The rules, whose limits these are.
    k
        The iteration at which the run begins.
    seconds
        Of the iterations so far.

    Attributes
    ----------
    next
        The iteration at which ranks agree again.
    """

    def __init__(self, stopping: StoppingRule | None, collective: Collective, k: int, seconds: float) -> None:
        self._limits = sorted(rule.seconds for rule in rules_of(Time, stopping))
        self._collective, self._alone = collective, collective.size == 1
        self._reached, self._looked, self._seconds = 0, k, seconds
        self.next = math.inf if self._alone or not self._limits else k + 1

    def left(self, seconds: float) -> float:
        """Seconds to the next limit of one process."""
        return self._left(bisect(self._limits, seconds), seconds) if self._alone else math.inf

    def _left(self, reached: int, seconds: float) -> float:
        return self._limits[reached] - seconds if reached < len(self._limits) else math.inf

    def look(self, k: int, seconds: float) -> bool:
        """Whether a limit has been reached since the last time; the same on every rank."""
        reached = bisect(self._limits, seconds)
        if not self._alone:
            if k < self.next:
                return False
            ahead = look_ahead(k - self._looked, seconds - self._seconds, min(LOOK_SECONDS, self._left(reached, seconds)))
            answer = np.array([reached, ahead] if self._collective.rank == 0 else [0, 0], dtype=np.float64)
            reached, ahead = self._collective.largest(answer).astype(np.int64).tolist()
            self._looked, self._seconds = k, seconds
            self.next = k + ahead if reached < len(self._limits) else math.inf
        new = reached > self._reached
        self._reached = reached
        return new


def run(
    problem: Any,
    algorithm: Any,
    network: Any,
    collective: Collective,
    streams: Streams,
    x0: Array,
    *,
    iterations: int,
    stopping: StoppingRule | None = None,
    rows: int | None = None,
    record_every: int | None = None,
    recorders: Sequence[Recorder] = (),
    metrics: Sequence[Metric] = (),
    safety_region: float | None = None,
    keep: Callable[[History, int, Path | None], Keeper] | None = None,
    resumed: Resumed | None = None,
    rewind: Rewind | None = None,
) -> Outcome:
    """Iterate until a rule says stop, at most ``iterations`` times; see `decentorth.api.solve` for the parameters.

    Parameters
    ----------
    keep
        Makes who writes checkpoints, from the history, the iteration at which the run begins and the checkpoint it goes on from.
    resumed
        What to go on from, whose counts the network has.
    rewind
        Keeps what the ranks can go back to.
    """
    clock = _Clock(network, {} if resumed is None else resumed.seconds)
    history = resumed.history if resumed is not None else rewind.history if rewind is not None else History()
    states = iterate(problem, algorithm, network, streams, x0, None if resumed is None else resumed.state)
    row: Row | None = None
    stop: Stop | None = None
    keeper: Keeper | None = None
    ending = algorithm.ending if isinstance(algorithm, Ending) else _never

    def decide(row: Row) -> Stop | None:
        return ending(problem, state) or _decide(row, collective, stopping, iterations, safety_region)

    def reached() -> int:
        return int(state.k)

    def exchanged() -> tuple[int, int, int]:
        return network.rounds, network.messages, network.bytes

    def moment() -> Moment:
        agreed = {} if agreement is None else agreement.saved()
        return Moment(state, exchanged(), network.in_flight(), clock.seconds, agreed)

    with np.errstate(over="ignore", invalid="ignore"), contextlib.ExitStack() as stack:
        state = next(states)
        agreement = Agreement.of(stopping, problem, algorithm, network)
        if agreement is not None:
            agreement.restore({} if resumed is None else resumed.agreement)
            agreement.look(problem, network, state)
        clock.count("compute")
        SETUP.info("the first row of the history")
        every = (StandardMetrics(problem, state), *metrics)
        first = state.k
        if rewind is not None:
            rewind.seconds = lambda: clock.seconds
            rewind.hold(state, exchanged())
        if resumed is not None and history.rows:
            row = history.rows[-1]._replace(agreed=_agreed(agreement, state.k))
            _check_columns(history, every)
            if row.iteration == state.k:
                stop, first = decide(row), state.k + 1
        if keep is not None:
            keeper = keep(history, state.k, None if resumed is None else resumed.path)
            stack.enter_context(keeper.signals)
        remembers = keep is not None or problem.n_agents * x0[0].nbytes <= _REMEMBERED
        good = moment().copied() if remembers else None
        limits = _TimeLimits(stopping, collective, state.k, clock.iterating)
        for target in _until_reached(schedule(iterations, rows, record_every), reached):
            if target < first:
                continue
            while stop is None and state.k < target:
                goal = min([target, *(watch.next for watch in (keeper, agreement, rewind, limits) if watch is not None)])
                over = time.perf_counter() + limits.left(clock.iterating)
                while state.k < goal and ending(problem, state) is None:
                    state = next(states)
                    if time.perf_counter() >= over:
                        break
                if rewind is not None and rewind.next <= state.k:
                    rewind.hold(state, exchanged())
                met = agreement is not None and state.k == agreement.next and agreement.look(problem, network, state)
                clock.count("compute")
                if limits.look(state.k, clock.iterating) or state.k < goal or met:
                    break
                if keeper is not None and keeper.next <= state.k < target:
                    stop = _keep(keeper, moment(), problem, collective)
                    clock.count("checkpoints")
            if stop is not None:
                break
            runaway = first_runaway(state.x, problem.agents.start, problem.n_agents, collective)
            if runaway is not None:
                if row is not None:
                    cause = None if good is None else _cause(problem, algorithm, network, collective, streams, x0, good, state.k)
                    stop = _diverged(runaway, state, row, cause or _smaller(algorithm, problem, collective))
                clock.count("metrics")
                break
            values: dict[str, float] = {}
            for metric in every:
                values |= zip(metric.columns, metric(problem, state, collective), strict=True)
            counts = (*exchanged(), state.gradients)
            row = Row(state.k, *counts, clock.iterating, values, _agreed(agreement, state.k))
            history.record(row)
            if collective.rank == 0:
                for recorder in recorders:
                    recorder.record(row)
            stop = decide(row)
            if stop is None and remembers:
                good = moment().copied(good)
            clock.count("metrics")
            if keeper is not None and stop is None and keeper.next <= state.k:
                stop = _keep(keeper, moment(), problem, collective)
                clock.count("checkpoints")
        if row is None or stop is None:
            raise ValueError(f"the starting point is not finite at agent {runaway}: give a finite x0, and data without overflow")
        if keeper is not None:
            if first_runaway(state.x, problem.agents.start, problem.n_agents, collective) is None:
                keeper.write(moment())
            else:
                keeper.write_earlier(cast(Moment, good))
            clock.count("checkpoints")
    return Outcome(state, stop, row, history, clock.seconds, agreement)


def _until_reached(targets: Iterable[int], reached: Callable[[], int]) -> Iterator[int]:
    """Each target, again and again until it is reached: the agents may want a row in between."""
    for target in targets:
        yield target
        while reached() < target:
            yield target


def _agreed(agreement: Agreement | None, k: int) -> Agreed | None:
    """What the agents know, if they have found it out at iteration ``k``."""
    latest = None if agreement is None else agreement.latest
    return latest if latest is not None and latest.iteration == k else None


def _keep(keeper: Keeper, moment: Moment, problem: Any, collective: Collective) -> Stop | None:
    """Look whether a checkpoint is due, and write it; why to end, where a signal asks for that."""
    state = moment.state
    due, ends = keeper.look(state.k)
    if ends:
        name = signal.Signals(ends).name
        return Stop("terminated", False, f"ended by {name} after iteration {state.k}; its checkpoint is what to resume from")
    if due and first_runaway(state.x, problem.agents.start, problem.n_agents, collective) is None:
        keeper.write(moment)
    return None


def _check_columns(history: History, metrics: Sequence[Metric]) -> None:
    before, now = list(history.rows[0].values), [column for metric in metrics for column in metric.columns]
    if before != now:
        raise ValueError(f"a resumed run goes on with its metrics, {', '.join(before)}; it was given {', '.join(now)}")


def _never(problem: Any, state: Any) -> Stop | None:
    """The ending of a method that knows of none."""
    return None


def _decide(
    row: Row, collective: Collective, stopping: StoppingRule | None, iterations: int, safety_region: float | None
) -> Stop | None:
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


def _cause(
    problem: Any, algorithm: Any, network: Any, collective: Collective, streams: Streams, x0: Array, good: Moment, last: int
) -> str | None:
    """The gradient or objective that is not finite where the points still are, found by making the iterations after ``good`` again.

    None where all are finite at the last such points; the same on every rank.
    """
    agents, n = problem.agents, problem.n_agents
    now = (network.rounds, network.messages, network.bytes)
    in_flight = {name: array.copy() for name, array in network.in_flight().items()}
    network.restore(*good.counts, good.in_flight)
    before, k = good.state.x, good.state.k
    for state in iterate(problem, algorithm, network, streams, x0, good.copied().state):
        if state.k >= last or first_runaway(state.x, agents.start, n, collective) is not None:
            break
        before, k = state.x.copy(), state.k
    network.restore(*now, in_flight)
    for name, function in (("gradient", problem.gradient), ("objective", problem.value)):
        agent = first_runaway(function(before), agents.start, n, collective, np.finfo(np.float64).max)
        if agent is not None:
            size = np.abs(before[agent - agents.start]).max() if agents.start <= agent < agents.stop else 0.0
            largest, usual = collective.largest(np.array([size, np.abs(x0).max()]))
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
