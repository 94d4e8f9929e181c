"""A run whose agents do not go in common iterations: what it refuses, and its rows, checkpoints and log."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from ..protocols import Asynchronous, Collective
from ..stopping import LocalMaximum, rules_of
from .checkpoint import AGENTS, Resumed, on_all
from .watchers import Options

log = logging.getLogger(__name__)


def prepare(algorithm: Asynchronous, network: Any, channel: Any, collective: Collective) -> None:
    """Give the network its channel, whose losses the agents draw themselves: messages before their first activation are reliable.

    A ValueError or OSError, the same on every rank, for faults that the agents cannot bear, or a log that cannot be written.
    """
    if channel is not None:
        algorithm.check_channel(channel)
        network.channel = channel
    with collective.together():
        if collective.rank == 0:
            algorithm.check_place()


def own_options(options: Options, algorithm: Asynchronous, ranks: int, shrinking: bool) -> Options:
    """The options of the run, whose iterations are activations; on several ranks its rows are the first and the last alone.

    Raises
    ------
    ValueError
        Checkpoints beside events, or none where agents of a lost rank are to restart from them; or a stopping rule that agents in
        common iterations decide.
    """
    if shrinking and options.checkpoints is None:
        raise ValueError("on_rank_loss restart needs the agents' checkpoints: give checkpoints, or leave it out")
    if algorithm.events is not None and (options.checkpoints is not None or options.resume is not None):
        raise ValueError("checkpoints are not for an asynchronous run with events: leave one of them out")
    if rules_of(LocalMaximum, options.stopping):
        raise ValueError("LocalMaximum is not for an asynchronous run: give end_tolerance")
    if ranks > 1:
        options = dataclasses.replace(options, rows=2, record_every=None)
    return dataclasses.replace(options, iterations=algorithm.activations)


def recovered(resumed: Resumed, algorithm: Asynchronous, collective: Collective) -> Resumed:
    """A run that goes on from the agents' own checkpoints, where they have written any beside the common one."""
    if resumed.path is None:
        return resumed
    own, state = resumed.path / AGENTS, resumed.state
    made = on_all(collective, lambda: algorithm.recover(state.agents, own))
    return resumed if collective.size > 1 else resumed._replace(state=state._replace(k=max(state.k, made)))


def write_log(algorithm: Asynchronous, state: Any, facts: Mapping[str, Any], collective: Collective) -> str:
    """Write the log with these facts, if one is asked for, and return why that failed, or ""; called by every rank."""
    trouble = ""
    if algorithm.log is not None:
        try:
            algorithm.write_log(state.agents, facts, collective)
        except OSError as error:
            trouble = f"the log {algorithm.log} is not written: {error.strerror or error}"
            log.warning(trouble)
    return collective.everyone(trouble.encode())[0].decode()
