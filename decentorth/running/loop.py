"""The only loop: step until a watcher looks at the run, let the watchers look in their order, stop when one says so.

The watchers keep copies to go back to (`rank_loss_rewind`), let the agents decide (`local_stopping`), look at the time, record
rows and decide by them (`watchers`), and write checkpoints (`checkpoint`). Every rank does the same things in the same order,
which is why it cannot deadlock.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from ..protocols import SETUP, Asynchronous, Completing, Declared, Projection, Row, S, Smooth, SplitFeatures, Stop
from .checkpoint import CheckpointWriter, Resumed, Snapshot
from .history import History
from .local_stopping import Agreement
from .rank_loss_rewind import Rewind
from .watchers import Clock, Options, Parts, Recording, TimeLimits, Watcher


def completed(parts: Parts, state: S) -> S:
    """The state with its point x, which some methods compute only where somebody looks at it."""
    method = parts.stepper
    found: S = method.completed(parts.problem, state) if isinstance(method, Completing) else state
    return found


def iterate(parts: Parts, state: Any = None) -> Iterator[Any]:
    """The states of a run, from the initial one or ``state`` on, for ever. A state is valid until the next is asked for."""
    states = steps(parts, state)
    return map(partial(completed, parts), states) if isinstance(parts.stepper, Completing) else states


def steps(parts: Parts, state: Any = None) -> Iterator[Any]:
    """The same states as the method's steps leave them: `completed` gives their points."""
    problem, network, streams = parts.problem, parts.network, parts.streams
    np.empty(min(8 * network.n_local * parts.start.nbytes, _KEPT), np.uint8)  # freed at once, see _KEPT
    if state is None:
        SETUP.info("the first state: automatic steps")
        state = parts.stepper.init(problem, network, streams, parts.x0)
    while True:
        yield state
        state = parts.stepper.step(problem, network, streams, state)


class Outcome(NamedTuple):
    """How a run ended."""

    state: Any
    stop: Stop
    row: Row
    """The last recorded row."""
    history: History
    seconds: dict[str, float]
    agreement: Agreement | None


def run(
    parts: Parts,
    options: Options,
    write: Callable[[History, int], CheckpointWriter] | None = None,
    resumed: Resumed | None = None,
    rewind: Rewind | None = None,
) -> Outcome:
    """Step to the next iteration at which a watcher looks, let the watchers look in their order, and stop when one says so.

    ``write`` makes the writer of checkpoints, from the history and the first iteration; the network has the counts of ``resumed``.
    """
    clock = Clock(parts.network, {} if resumed is None else resumed.seconds)
    states = steps(parts, None if resumed is None else resumed.state)
    with np.errstate(over="ignore", invalid="ignore"), contextlib.ExitStack() as stack:
        state = next(states)
        agreement = Agreement.of(options.stopping, parts.problem, parts.algorithm, parts.network)
        snapshot = partial(parts.snapshot, clock, agreement)
        if agreement is not None:
            agreement.restore({} if resumed is None else resumed.agreement)
            agreement.look(snapshot(state))
        clock.count("compute")
        if rewind is not None:
            rewind.seconds = clock.seconds
        history = resumed.history if resumed is not None else rewind.history if rewind is not None else History()
        limits = TimeLimits(options.stopping, parts.collective, clock, state.k)
        keeps = write is not None or parts.problem.n_agents * parts.start.nbytes <= _REMEMBERED
        asynchronous = isinstance(parts.algorithm, Asynchronous)
        keeps &= not asynchronous  # such agents cannot go back to a copy of their points
        recording = Recording(parts, options, clock, history, state, limits, agreement, keeps, partial(_diverged, parts))
        writer = None if write is None else write(history, state.k)
        if writer is not None and asynchronous and parts.collective.size > 1:
            writer.beside(state.agents, state.k)
        stack.enter_context(contextlib.nullcontext() if writer is None else writer.signals)
        every = (rewind, "compute"), (agreement, "compute"), (limits, "metrics"), (recording, "metrics"), (writer, "checkpoints")
        watchers: list[tuple[Watcher, str]] = [(watcher, name) for watcher, name in every if watcher is not None]
        stop = recording.judge(snapshot(state))
        clock.count("metrics")
        while stop is None:
            state = _step(states, state, recording, min(watcher.next for watcher, _ in watchers), limits.deadline)
            state = completed(parts, state)
            clock.count("compute")
            for watcher, name in watchers:
                if stop is None and watcher.next <= state.k:
                    stop = watcher.look(snapshot(state))
                    clock.count(name)
        if writer is not None:
            writer.end(snapshot(state), recording.good)
            clock.count("checkpoints")
    return Outcome(state, stop, cast(Row, recording.row), history, clock.seconds(), agreement)


def _step(states: Iterator[S], state: S, recording: Recording, goal: float, deadline: float) -> S:
    """The state of iteration ``goal``, or an earlier one at which the method ends or the time is over: then a row is wanted."""
    while state.k < goal and recording.ending(state) is None:
        state = next(states)
        if time.perf_counter() >= deadline:
            break
    if state.k < goal:
        recording.wanted = state.k
    return state


_KEPT = 30 << 20
"""The most bytes that are requested and freed before the first step. The C library (glibc) then keeps up to twice as much memory
that steps free, and does not return it to the system to take it back page by page in each iteration (mallopt(3))."""
_REMEMBERED = 1 << 26
"""Bytes of all agents' points up to which the last state that was recorded is kept, to find the cause if the run diverges."""
_OFF = 1.0
"""The feasibility of a start above which it may be the cause of a divergence."""
_FAR = 1e3
"""Where a point has grown so many times larger than the start, the step may be the cause of a gradient that is not finite."""


def _diverged(parts: Parts, agent: int, state: Any, row: Row, good: Snapshot | None) -> Stop:
    """The end of a run whose point is not finite: its cause, or a smaller step size."""
    advice = (None if good is None else _cause(parts, good, state.k)) or _off_set(parts) or _smaller(parts, state)
    seen = f"it was finite at iteration {row.iteration}"
    return Stop("diverged", False, f"diverged: the point of agent {agent} is not finite at iteration {state.k} ({seen}); {advice}")


def _cause(parts: Parts, good: Snapshot, last: int) -> str | None:
    """The gradient or objective that is not finite where the points still are, found by making the iterations after ``good`` again.

    None where all are finite at the last such points; the same on every rank.
    """
    problem, network, collective = parts.problem, parts.network, parts.collective
    now = (network.rounds, network.messages, network.bytes)
    in_flight = {name: array.copy() for name, array in network.in_flight().items()}
    network.restore(*good.counts, good.in_flight)
    before, k = good.state.x, good.state.k
    for state in iterate(parts, good.copied().state):
        if state.k >= last or parts.runaway(state.x) is not None:
            break
        before, k = state.x.copy(), state.k
    network.restore(*now, in_flight)
    for name, function in (("gradient", problem.gradient), ("objective", problem.value)):
        agent = parts.runaway(function(before), np.finfo(np.float64).max)
        if agent is not None:
            local = agent - problem.agents.start
            size = np.abs(before[local]).max() if 0 <= local < len(before) else 0.0
            largest, usual = collective.largest(np.array([size, np.abs(parts.start).max()]))
            where = f"its point of iteration {k}, whose largest entry is {largest:.3g}"
            step = "" if name == "gradient" and largest <= _FAR * usual else ", or try a smaller step size"
            return f"the {name} of agent {agent} is not finite at {where}: mend that function{step}"
    return None


def _off_set(parts: Parts) -> str | None:
    """The advice for a start from which steps of any usual size leave the set for good; None for other starts."""
    if isinstance(parts.problem, SplitFeatures) or not isinstance(parts.problem.constraint, Projection):
        return None
    constraint: Any = parts.problem.constraint
    off = float(constraint.feasibility(parts.start[None])[0])
    on = "give problem.constraint.project(x0[None])[0], or leave x0 out"
    return f"it started off {constraint!r}, with feasibility {off:.3g}: {on}" if off > _OFF else None


def _smaller(parts: Parts, state: Any) -> str:
    """The advice for a step size that is too large, for the objectives or for the penalty."""
    declared = Declared.of(parts.algorithm)
    step, penalty = declared.first_step, declared.penalty
    if not isinstance(step, float | int):
        own = getattr(state, "step_size", None)
        most = parts.collective.max(float(own.max())) if isinstance(own, np.ndarray) else math.inf
        than = f" than {step}, as {most / 5.0:.2g}" if 0.0 < most < math.inf else ""
        return f"try a smaller step size{than}{', or momentum 0' if declared.momentum else ''}"
    problem: object = parts.problem
    steepest = parts.collective.max(float(problem.lipschitz.max())) if isinstance(problem, Smooth) else 0.0
    curved = 1.0 / steepest if 0.0 < steepest < np.inf else np.inf
    if isinstance(penalty, float | int) and step * penalty > 0.5 and step <= 2.0 * curved:
        return (
            f"the step size {step:g} is too large for the penalty {penalty:g}: try a penalty of {0.1 / step:.2g}, "
            f"a step size of {0.1 / penalty:.2g}, or step size 'auto'"
        )
    return f"the step size {step:g} is too large: try {min(step / 5.0, curved):.2g}, or 'auto'"
