"""The only loop: step until a watcher is due, call the due watchers in order, stop when one returns
a reason.

Every rank does the same things in the same order, which is why it cannot deadlock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ..protocols import Observed, Row, Stop
from ..stopping import Rule
from . import advice
from .checkpoint import CheckpointWriter, PendingSignals, Resumed, Snapshot
from .history import History
from .local_stopping import Agreement
from .options import Options
from .parts import Parts
from .rank_loss_rewind import Rewind
from .recording import Interrupts, Recording
from .watchers import Clock, TimeLimits, Watcher

Write = Callable[[History, int], CheckpointWriter]
"""A function that makes the writer of checkpoints, from the history and the first iteration."""


class Outcome(NamedTuple):
    """How a run ended."""

    state: Any
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
    write: Write | None = None,
    resumed: Resumed | None = None,
    rewind: Rewind | None = None,
) -> Outcome:
    """Step to the next iteration at which a watcher is due, call the due watchers in order, and
    stop when one returns a reason.

    The network has the counts of ``resumed`` already.
    """
    history = rewind.history if rewind else History()
    before = resumed or Resumed(None, None, (0, 0, 0), {}, history, {}, {})
    with np.errstate(over="ignore", invalid="ignore"), contextlib.ExitStack() as stack:
        clock = Clock(parts.network, before.seconds)
        states = parts.steps(before.state)
        state = next(states)
        watch = _watch(parts, options, clock, state, write, before, rewind)
        for signals in watch.signals:
            stack.enter_context(signals)
        stop = watch.recording.judge(watch.snapshot(state))
        clock.count("metrics")
        while stop is None:
            state = parts.completed(_step(states, state, watch))
            clock.count("compute")
            stop = watch.look(state)
        unwritten = watch.end(state)
        row = last = cast(Row, watch.recording.row)
        if watch.agreement is not None:
            last = row._replace(agreed=watch.agreement.latest)
        stop = advice.concluded(parts, watch.recording.rule, stop, state, last, before.history)
    return Outcome(state, stop, row, before.history, clock.seconds(), watch.agreement, unwritten)


def _step(states: Iterator[Observed], state: Observed, watch: Watchers) -> Observed:
    """The state at which a watcher is due, or an earlier one at which the method ends or the time
    is over: then a row is wanted."""
    recording = watch.recording
    goal = watch.next
    deadline = watch.limits.deadline
    while state.k < goal and recording.ending(state) is None:
        state = next(states)
        recording.iteration = state.k
        if time.perf_counter() >= deadline:
            break
    if state.k < goal:
        recording.wanted = state.k
    return state


@dataclass(kw_only=True)
class Watchers:
    """The watchers of a run."""

    network: Any
    clock: Clock
    rewind: Rewind | None
    agreement: Agreement | None
    limits: TimeLimits
    recording: Recording
    interrupts: Interrupts | None
    writer: CheckpointWriter | None

    def __post_init__(self) -> None:
        every: list[tuple[Watcher | None, str]] = [
            (self.rewind, "compute"),
            (self.agreement, "compute"),
            (self.limits, "metrics"),
            (self.recording, "metrics"),
            (self.interrupts, "metrics"),
            (self.writer, "checkpoints"),
        ]
        self._watchers = [(watcher, spent) for watcher, spent in every if watcher is not None]

    @property
    def signals(self) -> list[PendingSignals]:
        """The signals that wait for the loop."""
        return [one.signals for one in (self.writer, self.interrupts) if one is not None]

    @property
    def next(self) -> float:
        """The next iteration at which a watcher is due."""
        return min([watcher.next for watcher, _ in self._watchers])

    def snapshot(self, state: Observed) -> Snapshot:
        """The run as it is now."""
        return _snapshot(state, self.network, self.clock, self.agreement)

    def look(self, state: Observed) -> Stop | None:
        """The first reason to stop among the watchers that are due at this iteration."""
        for watcher, spent in self._watchers:
            if watcher.next <= state.k:
                stop = watcher.look(self.snapshot(state))
                self.clock.count(spent)
                if stop is not None:
                    return stop
        return None

    def end(self, state: Observed) -> str:
        """Write the last checkpoint; the reason why that failed, else empty."""
        if self.interrupts is not None:
            self.interrupts.signals.take()  # the run has ended by itself, and keeps its result
        if self.writer is None:
            return ""
        failed = self.writer.end(self.snapshot(state), self.recording.good)
        self.clock.count("checkpoints")
        return failed


def _snapshot(state: Observed, network: Any, clock: Clock, agreement: Agreement | None) -> Snapshot:
    """A run as it is now."""
    agreed = {} if agreement is None else agreement.saved()
    counts = (network.rounds, network.messages, network.bytes)
    return Snapshot(state, counts, network.in_flight(), clock.seconds(), agreed)


def _agreement(
    parts: Parts, rule: Rule | None, clock: Clock, state: Observed, before: Resumed
) -> Agreement | None:
    """The agents' own decision about the end, where the rule asks for one."""
    agreement = Agreement.of(rule, parts.problem, parts.algorithm, parts.network)
    if agreement is not None:
        agreement.restore(before.agreement)
        agreement.look(_snapshot(state, parts.network, clock, agreement))
    return agreement


def _watch(
    parts: Parts,
    options: Options,
    clock: Clock,
    state: Observed,
    write: Write | None,
    before: Resumed,
    rewind: Rewind | None,
) -> Watchers:
    """The watchers of a run that begins at ``state``."""
    collective = parts.collective
    agreement = _agreement(parts, options.rule, clock, state, before)
    clock.count("compute")
    if rewind is not None:
        rewind.seconds = clock.seconds
    limits = TimeLimits(options.rule, collective, clock, state.k)
    small = parts.problem.n_agents * parts.start.nbytes <= _REMEMBERED
    recording = Recording(
        parts,
        options,
        clock=clock,
        history=before.history,
        state=state,
        agreement=agreement,
        limits=limits,
        keeps=parts.repeats and (write is not None or small),
    )
    writer = None
    interrupts = None
    if write is not None:
        writer = write(before.history, state.k)
        parts.written_by(writer, state)
    elif options.interruptible and (parts.repeats or collective.size == 1):
        interrupts = Interrupts(collective, state.k, recording)
    return Watchers(
        network=parts.network,
        clock=clock,
        rewind=rewind,
        agreement=agreement,
        limits=limits,
        recording=recording,
        interrupts=interrupts,
        writer=writer,
    )


_REMEMBERED = 1 << 26
"""Bytes of all agents' points up to which the last state that was recorded is kept, to find the
cause if the run diverges."""
