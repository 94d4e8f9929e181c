"""The only loop: step, stop the clock, measure when it is due, record, decide whether to go on.

Every rank does the same things in the same order, which is why it cannot deadlock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .history import History
from .metrics import StandardMetrics, first_runaway
from .protocols import Algorithm, Array, Collective, Ending, Metric, Recorder, Row, S, Stop, StoppingRule, Streams


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
        raise ValueError(
            f"{name} is a centralized method for one agent, but the problem has {problem.n_agents}: "
            "use a decentralized method such as DRFGT, or one agent (--agents 1, problem.pooled())"
        )


def iterate(problem: Any, algorithm: Algorithm[S], network: Any, streams: Streams, x0: Array) -> Iterator[S]:
    """The states of a run, from the initial one on, for ever. A state is valid until the next is asked for."""
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
    """Wall seconds on this rank: compute, wait (for other ranks' messages), metrics, total."""


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
    chosen = np.empty(0, dtype=np.int64)
    while low < high:
        middle = (low + high) // 2
        chosen = np.unique(np.geomspace(1, last, middle).round().astype(np.int64))
        low, high = (low, middle) if len(chosen) >= number else (middle + 1, high)
    return [int(k) for k in chosen]


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
) -> Outcome:
    """Iterate until a rule says stop, at most ``iterations`` times; see `decentorth.api.solve` for the parameters."""
    begun = time.perf_counter()
    history = History()
    compute = measuring = 0.0
    states = iterate(problem, algorithm, network, streams, x0)
    ending = algorithm.ending if isinstance(algorithm, Ending) else _never
    due = schedule(iterations, rows, record_every)
    row: Row | None = None
    standard: Metric | None = None
    with np.errstate(over="ignore", invalid="ignore"):
        for target in due:
            mark = time.perf_counter()
            state = next(states)
            while state.k < target and ending(problem, state) is None:
                state = next(states)
            now = time.perf_counter()
            compute += now - mark

            runaway = first_runaway(state.x, problem.agents.start, problem.n_agents, collective)
            if runaway is not None:
                stop = _diverged(runaway, state, row, algorithm)
                break
            if standard is None:
                standard = StandardMetrics(problem, state)
            values: dict[str, float] = {}
            for metric in (standard, *metrics):
                values |= zip(metric.columns, metric(problem, state, collective), strict=True)
            row = Row(state.k, network.rounds, network.messages, network.bytes, state.gradients, compute, values)
            history.record(row)
            if collective.rank == 0:
                for recorder in recorders:
                    recorder.record(row)
            measuring += time.perf_counter() - now
            found = ending(problem, state) or _decide(row, collective, stopping, iterations, safety_region)
            if found is not None:
                stop = found
                break
    if row is None:
        raise ValueError(f"the starting point is not finite at agent {runaway}: give a finite x0, and data without overflow")
    seconds = {
        "compute": compute - network.wait_seconds,
        "wait": network.wait_seconds,
        "metrics": measuring,
        "total": time.perf_counter() - begun,
    }
    return Outcome(state, stop, row, history, seconds)


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


def _diverged(agent: int, state: Any, row: Row | None, algorithm: Any) -> Stop:
    seen = "" if row is None else f" (it was finite at iteration {row.iteration})"
    step = getattr(algorithm, "step_size", None)
    step = getattr(step, "initial", step)
    advice = "try a smaller step size"
    if isinstance(step, float | int):
        advice = f"the step size {step:g} is too large: try {step / 5:g}, or 'auto'"
    return Stop("diverged", False, f"diverged: the point of agent {agent} is not finite at iteration {state.k}{seen}; {advice}")
