"""Faults of agents, as a wrapper of a method: agents that sleep, that crash and return, and that
correct their trackers.

An agent that sleeps keeps its state. An agent that returns from a crash knows the settings of the
run, and nothing else. Before the iteration, in a round of its own, it receives the points of those
neighbours that are awake and know theirs, and begins at their mean, weighted by W; if there are
none, at the common start. If it tracks, its tracker and field begin at 0, so that the field at its
first point is added with its first step. With feedback its first message and those to it are whole.
With repair all agents' trackers begin again then, as the fields that they track, because the crash
removes y_i - F_i(x_i) from the sum of the trackers minus the fields; the message that an agent is
back is not counted.
"""

from __future__ import annotations

import logging
from typing import Any, get_type_hints

import numpy as np

from ...numerics.states import arrays
from ...protocols import Algorithm, Array, Declared, Streams
from .channel import Channel, ChannelError
from .draws import Mask
from .faults import Crash, Delay, MessageLoss, Sleep, any_of
from .unreliable_network import UnreliableNetwork

log = logging.getLogger(__name__)
_RESTORED = {"x", "tracker", "field"}
_SETTINGS = {"step_size", "base", "penalty", "momenta"}
"""Entries of a state that do not change on an unreliable network: settings, and those of
accelerated mixing, which is for other networks."""


def check_method(method: Any, channel: Channel, warns: bool = False) -> None:
    """Raise ChannelError for a method whose state, as its ``init`` declares it, the faults of
    agents cannot change.

    There may be no trackers to correct. Agents that return from a crash may need more than their
    neighbours can send. Growing steps need every message. With ``warns`` a warning names momentum
    with lost messages, and methods that diverge on late ones.
    """
    declared = Declared.of(method)
    momentum = declared.momentum
    if warns and isinstance(momentum, float) and momentum > 0.0 and channel.all(MessageLoss):
        diverge = "can make agents diverge, above all on sparse graphs: momentum 0 is safer"
        log.warning("with lost messages, momentum (%g) %s", momentum, diverge)
    if warns and declared.on_time and channel.all(Delay):
        cure = "unless few agents are late: take drgta, dprgt or drfgt"
        name = type(method).__name__
        log.warning("with late messages %s does not converge at any step, %s", name, cure)
    if not (channel.correction or channel.all(Crash)):
        return
    state = get_type_hints(method.init).get("return")
    if not isinstance(state, type):
        raise ChannelError(
            "crash and correction need to know a state's arrays: declare the class that "
            f"{type(method).__name__}.init returns"
        )
    kept = {name for name, hint in get_type_hints(state).items() if hint is not int}
    if channel.correction and not {"tracker", "field"} <= kept:
        raise ChannelError("correction is for trackers, and this method has none: drop it")
    beyond = ", ".join(sorted(kept - _RESTORED - _SETTINGS))
    if channel.all(Crash) and beyond:
        raise ChannelError(
            "after a crash agents restart with a point, a tracker and its field, but this method "
            f"also keeps {beyond}: take sleep, in which agents keep all arrays"
        )


class UnreliableAgents:
    """A method on an unreliable network, whose agents sleep, crash and correct their trackers as
    the network's channel says.

    Parameters
    ----------
    method
        The method, as `check_method` accepts it.
    network
        The network, through whose channel the messages of an iteration go.
    x0
        The common starting point of the run, ``(n_local, *shape)``.
    """

    def __init__(self, method: Algorithm[Any, Any], network: UnreliableNetwork, x0: Array) -> None:
        self.method = method
        self._network = network
        self._x0 = x0
        channel = network.channel
        n = network.n_agents
        down = {}
        for number, sleep in channel.all(Sleep):
            down[number] = sleep.down(n, network.seed, number)
        self._asleep = any_of(list(down.values()), n)
        self._crashed = any_of([down[number] for number, _ in channel.all(Crash)], n)

    def init(self, problem: Any, network: Any, streams: Streams, x0: Array) -> Any:
        return self.method.init(problem, network, streams, x0)

    def step(self, problem: Any, network: Any, streams: Streams, state: Any) -> Any:
        """The method's step through the channel; agents that sleep keep their state."""
        k = state.k
        correction = self._network.channel.correction
        # the earlier iteration first: chains search backwards for one before the last
        back = self._crashed(max(k - 1, 0)) & ~self._crashed(k)
        asleep = self._asleep(k)
        if back.any():
            self._restart(state, asleep, back)
        sleeping = np.flatnonzero(asleep[self._network.agents])
        kept = [array[sleeping] for array in arrays(state)]
        with self._network.iteration(asleep, back):
            moved = self.method.step(problem, network, streams, state)
        if correction:
            share = min(1.0, correction / moved.k)
            moved.tracker[...] *= 1.0 - share  # (2)
            moved.tracker[...] += share * moved.field
        for array, rows in zip(arrays(moved), kept, strict=True):
            array[sleeping] = rows
        return moved

    def _restart(self, state: Any, asleep: Mask, back: Mask) -> None:
        """Give the agents that are back their first states."""
        here = back[self._network.agents]
        for name in _RESTORED:
            if hasattr(state, name):
                getattr(state, name)[here] = 0.0
        if self._network.channel.repair and hasattr(state, "tracker") and hasattr(state, "field"):
            state.tracker[...] = state.field
        total, weights = self._network.sums_from(state.x, ~(asleep | back), back)
        alone = here & (weights == 0.0)
        here &= ~alone
        state.x[here] = total[here] / weights[here].reshape(-1, *(1,) * (state.x.ndim - 1))
        state.x[alone] = self._x0[alone]
