"""The only loop: step until a watcher looks at the run, let the watchers look in their order, stop when one says so.

The watchers keep copies to go back to (`rank_loss_rewind`), let the agents decide (`local_stopping`), look at the time, record
rows and decide by them (`watchers`), and write checkpoints (`checkpoint`). Every rank does the same things in the same order,
which is why it cannot deadlock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from ..protocols import SETUP, Completing, Row, S, State, Stop
from . import advice
from .checkpoint import CheckpointWriter, Resumed, Snapshot
from .history import History
from .local_stopping import Agreement
from .options import Options
from .rank_loss_rewind import Rewind
from .watchers import Clock, Interrupts, Parts, Recording, TimeLimits, Watcher


def completed(parts: Parts, state: S) -> S:
    """The state with its point x, which some methods compute only where somebody looks at it."""
    method = parts.stepper
    found: S = method.completed(parts.problem, state) if isinstance(method, Completing) else state
    return found


def iterate(parts: Parts, state: State | None = None) -> Iterator[State]:
    """The states of a run, from the initial one or ``state`` on, for ever. A state is valid until the next is asked for."""
    states = steps(parts, state)
    return map(partial(completed, parts), states) if isinstance(parts.stepper, Completing) else states


def steps(parts: Parts, state: State | None = None) -> Iterator[State]:
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

    state: State
    stop: Stop
    row: Row
    """The last recorded row."""
    history: History
    seconds: dict[str, float]
    agreement: Agreement | None
    unwritten: str
    """Why the last checkpoint could not be written; else empty."""


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
        agreement = Agreement.of(options.rule, parts.problem, parts.algorithm, parts.network)
        snapshot = partial(parts.snapshot, clock, agreement)
        if agreement is not None:
            agreement.restore({} if resumed is None else resumed.agreement)
            agreement.look(snapshot(state))
        clock.count("compute")
        if rewind is not None:
            rewind.seconds = clock.seconds
        earlier = resumed or rewind
        history = History() if earlier is None else earlier.history
        limits = TimeLimits(options.rule, parts.collective, clock, state.k)
        keeps = parts.repeats and (write is not None or parts.problem.n_agents * parts.start.nbytes <= _REMEMBERED)
        diagnose = partial(advice.diverged, parts, iterate)
        recording = Recording(parts, options, clock, history, state, limits, agreement, keeps, diagnose)
        writer = None if write is None else write(history, state.k)
        if writer is not None:
            parts.written_by(writer, state)
        waits = options.interruptible and writer is None and (parts.repeats or parts.collective.size == 1)
        interrupts = Interrupts(parts.collective, state.k, recording) if waits else None
        for listening in (writer, interrupts):
            if listening is not None:
                stack.enter_context(listening.signals)
        deciding = (rewind, "compute"), (agreement, "compute"), (limits, "metrics"), (recording, "metrics")
        every = *deciding, (interrupts, "metrics"), (writer, "checkpoints")
        watchers: list[tuple[Watcher, str]] = [(watcher, name) for watcher, name in every if watcher is not None]
        stop = recording.judge(snapshot(state))
        clock.count("metrics")
        while stop is None:
            goal = min(watcher.next for watcher, _ in watchers)
            state = completed(parts, _step(states, state, recording, goal, limits.deadline))
            clock.count("compute")
            stop = _looked(watchers, state, snapshot, clock)
        if interrupts is not None:
            interrupts.signals.take()  # the run has ended by itself, and keeps its result
        unwritten = ""
        if writer is not None:
            unwritten = writer.end(snapshot(state), recording.good)
            clock.count("checkpoints")
        row = cast(Row, recording.row)
        agreed = row if agreement is None else row._replace(agreed=agreement.latest)
        stop = advice.concluded(parts, options.rule, stop, state, agreed, history)
    return Outcome(state, stop, row, history, clock.seconds(), agreement, unwritten)


def _looked(
    watchers: Sequence[tuple[Watcher, str]], state: State, snapshot: Callable[[State], Snapshot], clock: Clock
) -> Stop | None:
    """The first reason to stop among the watchers that look at this iteration."""
    for watcher, name in watchers:
        if watcher.next <= state.k:
            stop = watcher.look(snapshot(state))
            clock.count(name)
            if stop is not None:
                return stop
    return None


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
