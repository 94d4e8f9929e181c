"""Asynchronous DRFGT: agents that do not wait, over links that lose and delay messages, with an
exact limit.

The activation of an agent is in `agent`, with its equations and its two exact invariants. In one
process a schedule is drawn from the seed: every agent has its own clock, messages are late or lost.
On MPI ranks agents run as fast as they can and nothing is drawn but losses. Every agent logs the
versions that it used, and the log repeats the run in one process, bit for bit.

    alpha    step_size, min(0.8, 2 u) / L for auto; agent i takes alpha_i = alpha (fastest / own rate)^(1/2), at most sqrt(10) alpha
    lambda   penalty, min(0.1, u / 2) / alpha for auto
    L        the agents' common measure of curvature, by counted rounds before the start (`curvature.curvature`)
    u        of a directed graph the largest stable product of step and curvature (`topologies.PushPullSpectrum.limit`), else 2

There is no proof of convergence. An agent moves by the part 1 / (out-degree + 1) of its mass that
it keeps, so without delays the linearised iteration is stable for alpha h < (out-degree + 1) u, h
the largest derivative of the field: about L / 2, at most L. The largest stable step does not fall
with the delays, since mass on its way is in no tracker. Only the graph of W is used, and of a
directed graph u, which is that of W's own weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np

from decentorth.algorithms.common import (
    Auto,
    Method,
    curvature,
    given_or,
    landing,
    landing_scale,
    start,
)
from decentorth.protocols import Array, Collective, Landing, Problem, Stop
from decentorth.settings import Condition, Count, Natural, NotNegative, Positive

from .agent import COUNT, AsynchronousAgent, LandingSet, quantum
from .live import Live
from .log import check_place, read_agent, versions, write
from .schedule import Clocks, Graph, drawn, repeated
from .simulation import Simulation

Agents = Simulation | Live


class AsynchronousState(NamedTuple):
    """The points x and the penalties ``(n_local,)``, the number k of activations of all agents, the
    gradients of each agent, on average, and those spent before the start, and the agents
    themselves."""

    x: Array
    penalty: Array
    k: int
    gradients: int
    spent: int
    agents: Agents


P = Problem[LandingSet]
State = AsynchronousState


@dataclass(frozen=True, kw_only=True)
class AsynchronousDRFGT(Method):
    """Asynchronous retraction-free gradient tracking with exact mass counters.

    Parameters
    ----------
    step_size
        alpha > 0, or auto: min(0.8, 2 u) / L, and at most min(0.1, u / 2) / penalty where that is
        given.
    penalty
        lambda > 0 of the landing field, or auto: min(0.1, u / 2) / step_size.
    activations
        The largest number of activations, over all agents.
    delay
        In one process: the largest delay of a message, in periods of a fast agent; delays are
        uniform.
    slow_agents
        The number of slow agents: the first ones.
    slowness
        The factor by which they are slower.
    end_tolerance
        The run ends when all agents know by flooding that every agent's tracker, infeasibility and
        disagreement are at most this.
    log
        The file to which the versions that each agent used are written; decentorth replay repeats
        the run from it.
    schedule
        A log whose run is repeated, in one process, in place of a drawn schedule.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.AsynchronousDRFGT(activations=10_000, delay=2.0)
    >>> result = do.solve(problem, method, "ring")
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-3 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    directed: ClassVar[bool] = True
    counts: ClassVar[str] = "activations"
    without: ClassVar[Mapping[str, str]] = {
        "iterations": "give activations",
        "local_tolerance": "give end_tolerance",
        "spread_samples": "it is for several agents",
        "weights": "its agents use the graph alone, leave it out",
        "self_weight": "its agents use the graph alone, leave it out",
    }
    """Settings of runs that do not apply, and what to do instead."""
    resumable: ClassVar[tuple[str, ...]] = ("activations", "end_tolerance", "log")
    """Settings that may change when a run is resumed."""

    step_size: Positive | Auto = "auto"
    penalty: Positive | Auto = "auto"
    activations: Count = 80_000
    delay: NotNegative = 0.0
    slow_agents: Natural = 0
    slowness: Condition = 10.0
    end_tolerance: Positive | None = None
    log: str | None = None
    schedule: Annotated[str | None, ""] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slow_agents == 0 and self.slowness != type(self).slowness:
            raise ValueError("slowness needs slow agents: give slow_agents, or leave it out")

    def check_channel(self, channel: Any) -> None:
        """Raise a ValueError for faults other than losses; repair and corrections are not
        needed."""
        for fault in channel.written:
            if not fault.startswith("loss:"):
                raise ValueError(
                    "an asynchronous run takes loss alone of a channel, as loss:p=0.3, got "
                    f"{fault!r}; delays are its setting delay"
                )
        if channel.correction:
            raise ValueError("an asynchronous run needs no correction of trackers: leave it out")

    def for_network(self, network: Any) -> Self:
        """This method, checked against the network; with a log's schedule it has as many
        activations as that.

        Raises
        ------
        ValueError
            A single agent, a time-varying network, too many slow agents, a log that cannot be used,
            or one on several ranks.
        """
        if network.sequence is not None:
            raise ValueError(
                "an asynchronous run needs a graph that stays: give one graph, and losses as the "
                "channel loss:p=0.3"
            )
        if network.n_agents < 2:
            raise ValueError("an asynchronous run needs at least two agents; for one take landing")
        if self.slow_agents > network.n_agents:
            raise ValueError(
                f"slow_agents must be at most the number of agents, {network.n_agents}, got "
                f"{self.slow_agents}"
            )
        if self.schedule is None:
            return self
        if network.communicator.size > 1:
            raise ValueError("a log is replayed in one process: leave mpirun out")
        used = versions(self.schedule, Graph.of(network.rows.indptr, network.rows.indices))
        return replace(self, activations=max(1, sum(map(len, used))))

    def init(self, problem: P, network: Any, streams: Any, x0: Array) -> State:
        step, penalty, spent = self._steps(problem, network, streams, x0)
        gradient = problem.gradient(x0)
        field = landing(problem, x0, penalty)
        largest = np.maximum(np.abs(gradient), np.abs(field)).reshape(len(x0), -1).max(axis=1)
        unit = quantum(float(network.max(largest[:, None], network.flooding_rounds)[0, 0]))
        graph = Graph.of(network.rows.indptr, network.rows.indices)
        x = x0.copy()
        own = []
        n = network.n_agents
        for i, number in enumerate(range(problem.agents.start, problem.agents.stop)):
            alone = problem.restrict(slice(number, number + 1))
            own.append(
                AsynchronousAgent(
                    number,
                    alone,
                    x[i : i + 1],
                    unit,
                    float(step[i]),
                    float(penalty[i]),
                    graph.ins[number],
                    graph.outs[number],
                    n,
                    self.end_tolerance,
                )
            )
        fast = n - self.slow_agents
        periods = (self.slowness,) * self.slow_agents + (1.0,) * fast
        kept = 1.0
        if network.channel is not None:
            for fault in network.channel.faults:
                kept *= 1.0 - fault.p
        clocks = Clocks(periods, self.delay, 1.0 - kept)
        if network.communicator.size > 1:
            agents: Agents = Live(own, graph, clocks, streams.seed, network)
        elif self.schedule is None:
            agents = Simulation(own, lambda: drawn(graph, clocks, streams.seed))
        else:
            used = versions(self.schedule, graph)
            agents = Simulation(own, lambda: repeated(graph, used), [len(one) for one in used])
        return State(x, penalty, 0, spent + 2, spent + 2, agents)

    def step(self, problem: P, network: Any, streams: Any, state: State) -> State:
        x, penalty, k, _, spent, agents = state
        if (whole := agents.agents[0].x.base) is not None:
            x = whole  # all agents' points, of which each has a view
        k = agents.step(network, k, self.activations)
        return State(x, penalty, k, spent + k // network.n_agents, spent, agents)

    def ending(self, problem: P, state: State) -> Stop | None:
        """The agents' agreement on the end; a log is replayed to its own end."""
        if self.schedule is not None or not state.agents.agreed:
            return None
        return Stop(
            "converged",
            True,
            f"the agents agree that their local quantities are at most {self.end_tolerance:g}",
        )

    def recover(self, agents: Agents, folder: Path) -> int:
        """Let agents continue from their own checkpoints in the folder, if any; return the
        activations of these agents.

        Raises
        ------
        ValueError, OSError
            One is damaged or of another run, or a log is wanted that would not repeat the run.
        """
        rows = [read_agent(folder, agent) for agent in agents.agents]
        if any(row is not None for row in rows):
            agents.recover(rows)
        if self.log is not None and not agents.whole:
            raise ValueError(
                "a log repeats a run from its start, but these agents continue from checkpoints "
                "of different times: give log none"
            )
        return sum(agent.version & COUNT for agent in agents.agents)

    def check_place(self) -> None:
        """Raise an OSError or a ValueError if the log cannot be written."""
        if self.log is not None:
            check_place(self.log)

    def write_log(self, agents: Agents, facts: Mapping[str, Any], collective: Collective) -> None:
        """Write the logs of all agents to ``log``, with the facts; called by every rank."""
        sizes = [len(one) for one in agents.logs]
        counts = [agent.version & COUNT for agent in agents.agents]
        own = json.dumps({"bytes": sizes, "activations": counts}).encode()
        every = [json.loads(one) for one in collective.everyone(own)]
        logs = collective.everyone(b"".join(agents.logs))
        if collective.rank == 0 and self.log is not None:
            whole = {name: [k for one in every for k in one[name]] for name in every[0]}
            write(self.log, b"".join(logs), {**whole, **facts})

    def _steps(self, problem: P, network: Any, streams: Any, x0: Array) -> tuple[Array, Array, int]:
        """alpha and lambda ``(n_local,)``, and the gradients spent."""
        scale = landing_scale(problem.constraint)
        automatic = "auto" in (self.step_size, self.penalty)
        limit = 2.0
        if automatic and network.directed:
            limit = network.push_pull_spectrum.limit
        part = min(0.1, limit / 2.0)

        def found() -> tuple[Array, int]:
            mean, spent = curvature(problem, network, streams, x0)
            step = min(0.8, 2.0 * limit) / (scale * mean)
            if self.penalty != "auto":
                step = np.minimum(step, part / (scale * self.penalty))
            return step, spent

        step, _, spent = start(self.step_size, len(x0), found)
        return step, given_or(self.penalty, part / (scale * step)), spent
