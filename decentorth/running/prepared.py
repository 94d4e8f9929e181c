"""A run with its parts built and checked: the problem of this process's agents, the method, the network, the starting points."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import math
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from topologies import memory

from .. import given, registry
from ..display import Shown
from ..network import Network, Shrinking, connect, even_bounds, surviving
from ..network.collective import AgentCollective, ReplicaCollective
from ..network.device import DeviceCollective, DeviceNetwork
from ..numerics.devices import opened
from ..numerics.random_streams import CounterStreams
from ..numerics.threads import one_thread
from ..problems import Deferred, FunctionProblem, GradientCheck, Spread
from ..problems.common.gradient_check import check_attached, worst
from ..process.abort import RANK_TIMEOUT, patience
from ..protocols import SETUP, Array, Asynchronous, Declared, Index, Problem, SplitFeatures, StoppingRule
from ..result import Result
from ..settings import Seed, check
from ..stopping import after_resume
from . import asynchronous, loop, on_device
from .capabilities import (
    check_capabilities,
    check_met,
    check_network,
    check_start,
    check_stopping,
    fitting,
    resolved,
    running,
    suited,
)
from .checkpoint import CheckpointWriter, Identity, Losses, Resumed, identity, printed, resume
from .local_stopping import Agreement
from .rank_loss import Loss, check_graph, check_leaving, continued, divided_anew, survivors
from .rank_loss_rewind import Rewind
from .watchers import Options, Parts

if TYPE_CHECKING:
    from ..network import Channel, Placement
    from ..network.transport.communicator import Communicator

NAMED = 6
"""The most methods that a refusal names."""
POINT_ARRAYS = 3
"""The arrays of all points that any method holds at least: points, gradients and their mixtures."""
OnRankLoss = Literal["abort", "shrink", "restart"]


def check_data(problem: Any, communicator: Communicator) -> None:
    """Raise MemoryError on every rank where the data of a deferred problem, of which nothing exists, would not fit."""
    deferred = problem.problem if isinstance(problem, Spread) else problem
    if not isinstance(deferred, Deferred) or deferred.outline is None or deferred.n_agents < communicator.size:
        return
    collective = AgentCollective(communicator, even_bounds(deferred.n_agents, communicator.size))
    with collective.together():
        needed = deferred.outline().needed(collective.own)
    check_memory(collective, needed, "the data")


def check_memory(collective: AgentCollective, needed: float, what: str) -> None:
    """Raise MemoryError on every rank where what the ranks of a host take together exceeds its free memory."""
    here = socket.gethostname()
    every = collective.communicator.allgather_bytes(json.dumps([here, needed]).encode())
    on_host = sum([taken for host, taken in map(json.loads, every) if host == here])
    with collective.together():
        memory.require(needed, what, on_host=on_host)


class Run(Shown):
    """Everything a run needs, built and checked: shared by `solve`, `iterate` and the command line.

    Parameters are those of `solve`. Attributes: ``problem`` (this process's agents), ``algorithm``, with every ``auto`` that the
    network's design or the problem decides resolved, ``network``, ``collective``, ``streams``, ``start`` (the agents' common first
    point); ``losses``, and the agents' ``numbers`` at the start where some have left; ``again(comm=...)`` makes the run elsewhere.
    """

    algorithm: Any

    def __init__(
        self,
        problem: Problem[Any] | Deferred | Spread,
        algorithm: Any,
        W: Any = None,
        *,
        x0: Array | None = None,
        seed: int = 0,
        comm: Any = None,
        placement: Placement = "even",
        channel: Channel | str | None = None,
        rank_timeout: float = RANK_TIMEOUT,
        on_rank_loss: OnRankLoss = "abort",
        device: str | None = None,
    ) -> None:
        given.check_problem(problem)
        algorithm, seed = given.method(algorithm), check("seed", Seed, seed)
        settings: dict[str, Any] = {"x0": x0, "seed": seed, "placement": placement, "channel": channel, "device": device}
        settings |= {"rank_timeout": rank_timeout, "on_rank_loss": on_rank_loss}
        self.again = partial(Run, problem=problem, algorithm=algorithm, W=W, **settings)
        self._silence = patience("rank_timeout", rank_timeout)
        W, self._labels = given.network(W, problem.n_agents, seed)
        spread, shrinks = isinstance(problem, Spread), on_rank_loss == "shrink"
        self._device = None
        if device is not None:
            on_device.check_method(algorithm)
            alone, others = connect(comm).size == 1 and not spread, on_rank_loss != "abort"
            on_device.check_run(alone, placement=placement != "even", channel=channel is not None, on_rank_loss=others)
            self._device = opened(device)
        if on_rank_loss not in ("abort", "shrink", "restart"):
            raise ValueError(f"on_rank_loss must be 'abort', 'shrink' or 'restart', got {on_rank_loss!r}")
        if on_rank_loss == "restart":
            if not isinstance(algorithm, Asynchronous):
                raise ValueError("on_rank_loss restart is for asynchronous agents: give shrink, or leave it out")
            comm = surviving(comm)
        if shrinks:
            comm = survivors(comm, channel, spread)
        check_data(problem, connect(comm))
        self._channel = given.channel(channel)
        self.network = self._network(W, "serial" if spread else comm, placement, algorithm, seed)
        check_network(algorithm, self.network)
        if self.network.n_agents != problem.n_agents:
            raise ValueError(f"W is for {self.network.n_agents} agents, but the problem has {problem.n_agents}")
        if shrinks:
            check_graph(self.network)
        communicator = connect(comm) if spread else self.network.communicator
        communicator.watch(self._silence, math.inf)
        self.collective = ReplicaCollective(communicator) if spread else AgentCollective(communicator, self.network.bounds)
        self.collective.same("W", self.network.digest())
        self._same(
            "the problem, the algorithm, the seed and the channel",
            type(problem),
            problem.n_blocks if isinstance(problem, Spread) else problem.n_agents,
            algorithm,
            seed,
            channel,
            on_rank_loss,
        )
        self._given = algorithm
        self.numbers: Index = np.arange(problem.n_agents)
        self.losses: tuple[Loss, ...] = ()
        self.about: Mapping[str, Any] = {}
        self._decide()
        if isinstance(self.algorithm, Asynchronous):
            if shrinks:
                raise ValueError("on_rank_loss shrink is not for an asynchronous run: give restart, or leave it out")
            if on_rank_loss == "restart" and self.algorithm.log is not None:
                raise ValueError("a log repeats a run from its start, which is lost with on_rank_loss restart: drop one of them")
            asynchronous.prepare(self.algorithm, self.network, self._channel, self.collective)
        elif self._channel is not None:
            from ..network import check_method

            check_method(self.method, self._channel, tell=self.network.communicator.rank == 0)
        self.streams = CounterStreams(seed, self.network.agents)
        with one_thread():
            self.problem = self._prepare(problem, shrinks)
            points = POINT_ARRAYS * 8.0 * self.network.n_local * math.prod(self.problem.shape)
            check_memory(self.collective, points, "the agents' points")
            with self.collective.together():
                start = given.start(x0, self.problem, seed)
                if x0 is not None:
                    check_start(self.problem, self.algorithm, start)
        self.algorithm = suited(self.algorithm, self.problem)
        if self._device is not None:
            self._placed = self.problem.on(self._device.put)
            if isinstance(self.problem, FunctionProblem):
                self.problem = self._placed  # its functions take nothing but the device's tensors
        self.collective.same("the starting point", hashlib.sha256(start.tobytes()).digest())
        self.start: Array = start
        if not isinstance(self.problem, SplitFeatures):
            with one_thread(), self.collective.together():
                check_attached(self.problem, start)

    def _network(self, W: Any, comm: Any, placement: Placement, algorithm: Any, seed: int) -> Network:
        """The network, on the device or with faults where the run has these; asynchronous agents draw their faults themselves."""
        if self._device is not None:
            return DeviceNetwork(W, self._device)
        if self._channel is None or isinstance(algorithm, Asynchronous):
            return Network(W, comm, placement)
        from ..network import UnreliableNetwork

        unreliable = UnreliableNetwork(W, comm, placement, channel=self._channel, seed=seed)
        if unreliable.n_agents > 1 and Declared.of(algorithm).safe:
            unreliable.check_alike()
        return unreliable

    def _build(self, problem: Problem[Any] | Deferred | Spread) -> Any:
        """The problem of this process's agents; of one agent that is spread, this process's share of its samples."""
        if isinstance(problem, Spread):
            if problem.n_blocks < self.collective.size:
                raise ValueError(
                    f"{self.collective.size} ranks for {problem.n_blocks} blocks of samples: every rank must hold one at "
                    f"least; spread the samples in {self.collective.size} blocks or more (spread_samples), or start fewer ranks"
                )
            blocks = AgentCollective(self.collective.communicator, even_bounds(problem.n_blocks, self.collective.size))
            return problem.build(blocks.own, blocks)
        agents = self.network.agents
        return problem.build(agents, self.collective) if isinstance(problem, Deferred) else problem.restrict(agents)

    def _prepare(self, problem: Problem[Any] | Deferred | Spread, shrinks: bool) -> Any:
        """The problem of this process's agents, checked against the method, with what it needs of the others' data."""
        SETUP.info("the problem: data of agents %d to %d", self.network.agents.start, self.network.agents.stop - 1)
        own = self._build(problem)
        with self.collective.together():
            self._check_capabilities(own)
            if shrinks:
                check_leaving(own)
            if isinstance(self.algorithm, Asynchronous) and self.algorithm.events is not None:
                check_leaving(own, "a run with events")
        SETUP.info("the problem: what needs the data of all agents")
        own.prepare(self.collective)
        return own

    def _check_capabilities(self, problem: Any) -> None:
        """Raise the TypeError or ValueError about a method that does not fit the problem, with the names of methods that do."""
        try:
            check_capabilities(problem, self._given)
        except (TypeError, ValueError) as error:
            names = fitting(problem, self.network, self._given, registry.algorithms.defaults())[:NAMED]
            fit = f". Algorithms that fit with their default settings: {', '.join(names)}" if names else ""
            raise type(error)(f"{str(error).rstrip('.')}{fit}") from None

    def _same(self, what: str, *values: Any) -> None:
        """Check that every rank was given the same, by what it prints as (but for addresses)."""
        self.collective.same(what, hashlib.sha256(printed(values).encode()).digest())

    def _decide(self) -> None:
        """Choose, by the network's design, what the algorithm leaves to it."""
        self.algorithm = resolved(self._given, self.network)
        self.network.compiled = Declared.of(self.algorithm).kernel == "numba"

    def _facts(self) -> Mapping[str, object]:
        return {"problem": self.problem, "algorithm": self.algorithm, "network": self.network, "ranks": self.collective.size}

    @property
    def x0(self) -> Array:
        """The common start of this process's agents, ``(n_local, *shape)``; a new array each time."""
        return np.repeat(self.start[None], self.network.n_local, axis=0)

    @property
    def asynchronous(self) -> bool:
        """True if the agents do not go in common iterations."""
        return isinstance(self.algorithm, Asynchronous)

    @property
    def method(self) -> Any:
        """The method that runs: ``algorithm``, or `algorithms.Safe` around it where safe steps are asked for."""
        return running(self.algorithm)

    @property
    def stepper(self) -> Any:
        """The method as the iterations run it: on an unreliable network with the faults of agents around it."""
        if self.asynchronous or self._channel is None:
            return self.method
        from ..network import UnreliableAgents

        network: Any = self.network
        return UnreliableAgents(self.method, network, self.x0)

    @property
    def parts(self) -> Parts:
        """The parts that the loop needs."""
        if self._device is not None:
            stepper = on_device.OnDevice(self.method, self.problem, self._device)
            collective = DeviceCollective(self.network.communicator, self.network.bounds)
            return Parts(self._placed, self.method, self.network, collective, self.streams, self.start, stepper)
        return Parts(self.problem, self.method, self.network, self.collective, self.streams, self.start, self.stepper)

    @cached_property
    def identity(self) -> Identity:
        """Facts that must be the same for this run to go on from a checkpoint."""
        with one_thread():
            return identity(self.problem, self.algorithm, self.network, self._channel, self.streams.seed, self.x0, self.losses)

    def without(self, lost: Index, comm: Any = "serial", ranks: Sequence[int] = (0,)) -> Run:
        """The run of the agents that are left when those in ``lost`` have left for good (see `rank_loss`); this one stays as it is.

        Parameters
        ----------
        comm, ranks
            The processes that are left, and which of this run's each of them is.

        Raises
        ------
        ValueError
            Those that are left fall apart, or a rank has nobody left.
        """
        left = copy.copy(self)
        left.__dict__.pop("identity", None)
        own = np.arange(self.network.n_agents)[self.network.agents]
        stay = ~np.isin(own, lost)
        left.network = self.network.without(lost, comm, ranks)
        left.network.communicator.watch(self._silence, math.inf)
        left.collective = AgentCollective(left.network.communicator, left.network.bounds)
        left.streams = CounterStreams(self.streams.seed, own[stay])
        left.numbers = np.delete(self.numbers, lost)
        left._decide()
        with one_thread():
            left.problem = self.problem.without(lost)
            left.problem.prepare(left.collective)
        left.algorithm = suited(left.algorithm, left.problem)
        return left

    def after(self, losses: Losses) -> Run:
        """The run of the agents that are left after losses, on the same processes.

        Raises
        ------
        ValueError
            As `without`, and for agents that there are not.
        """
        lost = np.unique([agent for loss in losses for agent in loss[2]]).astype(np.int64)
        if lost[0] < 0 or lost[-1] >= self.network.n_agents:
            from topologies.weights.leaving import ranges

            raise ValueError(f"agents {ranges(lost)} were lost on the way, but there are only {self.network.n_agents} agents")
        left = self.without(lost, self.network.communicator, range(self.network.communicator.size))
        left.losses = tuple(Loss(*loss) for loss in losses)
        return left

    def check_gradient(self) -> GradientCheck:
        """The Taylor test of all agents' gradients near the start, on every rank; called by every rank.

        Raises
        ------
        ValueError
            A gradient does not fit its value, or is not finite; names the worst agent.
        """
        problem = self.problem
        with one_thread(), self.collective.together():
            slopes = problem.check_gradient(seed=self.streams.seed).slopes

        def add(total: Array) -> None:
            total[problem.agents] = slopes

        found = worst(self.collective.fold(problem.n_agents, add), 0, slopes)
        if not found.right:
            raise ValueError(f"{found!r}: mend the functions that give the value and the gradient")
        return found

    def agreement(self, stopping: StoppingRule | None, fresh: bool = False) -> Agreement | None:
        """The agents' decision about the end by these rules, None where they do not decide; see `local_stopping.Agreement`.

        A ValueError for rules that the problem does not allow, or that a ``fresh`` run meets at its start.
        """
        check_stopping(self.problem, stopping)
        if fresh:
            check_met(self.problem, stopping, self.start)
        return Agreement.of(stopping, self.problem, self.method, self.network)

    def resume(self, path: str | os.PathLike[str]) -> Resumed:
        """The run that a checkpoint has, to go on with in `solve`; called by every rank.

        Parameters
        ----------
        path
            A run's folder, its folder of checkpoints, or one checkpoint.

        Raises
        ------
        CheckpointError
            There is none that is whole, or it is of another run; says how.
        """
        resumed = resume(path, lambda losses: self.after(losses) if losses else self, self.collective)
        own = self.algorithm
        return asynchronous.recovered(resumed, own, self.collective) if isinstance(own, Asynchronous) else resumed

    def states(self) -> Iterator[Any]:
        """The generator of states; BLAS has one thread from the first state until the generator ends."""
        with one_thread():
            yield from loop.iterate(self.parts)

    def solve(self, **given: Any) -> Result:
        """Iterate to the end; takes the fields of `watchers.Options`, which `decentorth.solve` describes."""
        options = Options(**given)
        if isinstance(self.algorithm, Asynchronous):
            communicator = self.network.communicator
            options = asynchronous.own_options(options, self.algorithm, communicator.size, isinstance(communicator, Shrinking))
        patience("compute_timeout", options.compute_timeout)
        if self._device is not None:
            on_device.check_options(options)
        resumed = self._resumed(options)
        if resumed is not None:
            before = sum(resumed.seconds.get(name, 0.0) for name in ("compute", "wait"))
            options = dataclasses.replace(options, stopping=after_resume(options.stopping, before))
        else:
            check_met(self.problem, options.stopping, self.start)
        run: Run = self if resumed is None else resumed.run
        if not isinstance(run.network.communicator, Shrinking):
            return run._result(run._iterate(options, resumed))
        last: Run
        folder = None if options.checkpoints is None else Path(options.checkpoints.folder)
        go_on = divided_anew if self.asynchronous else continued
        last, outcome = go_on(run, lambda run, *state: run._iterate(options, *state), options.recorders, folder, resumed)
        return last._result(outcome)

    def _resumed(self, options: Options) -> Resumed | None:
        """The run that is gone on with, after a check that all ranks have the same options."""
        recording = (options.iterations, options.stopping, options.rows, options.record_every, options.safety_region)
        self._same("iterations, stopping and recording", *recording)
        checkpoints, resume = options.checkpoints, options.resume
        keeping = None if checkpoints is None else (checkpoints.folder, checkpoints.every, checkpoints.keep)
        path = resume.path if isinstance(resume, Resumed) else resume
        self._same("checkpoints and resume", keeping, None if resume is None else str(path))
        resumed = resume if resume is None or isinstance(resume, Resumed) else self.resume(resume)
        if resumed is not None and resumed.state.k > options.iterations:
            raise ValueError(
                f"{resumed.path} is at iteration {resumed.state.k}, beyond the {options.iterations} iterations that are asked for"
            )
        return resumed

    @contextlib.contextmanager
    def _watched(self, computing: float) -> Iterator[None]:
        communicator = self.collective.communicator
        communicator.watch(self._silence, computing)
        try:
            yield
        finally:
            communicator.watch(self._silence, math.inf)

    def _iterate(self, options: Options, resumed: Resumed | None, rewind: Rewind | None = None) -> loop.Outcome:
        write = None
        if options.checkpoints is not None:
            write = partial(CheckpointWriter, options.checkpoints, self.identity, self.collective, self.collective.own, resumed)
        with one_thread(), self._watched(patience("compute_timeout", options.compute_timeout)):
            return loop.run(self.parts, options, write, resumed, rewind)

    def _result(self, outcome: loop.Outcome) -> Result:
        state, stop, row, history, seconds, agreement, unwritten = outcome
        state = on_device.brought_back(state)
        labels = self._labels
        result = Result(
            x=state.x,
            status=stop.status,
            converged=stop.converged,
            message=stop.message,
            history=history,
            row=row,
            seconds=seconds,
            n_agents=self.problem.n_agents,
            labels=None if labels is None else tuple(labels[i] for i in self.numbers),
            state=state,
            algorithm=self.algorithm,
            problem=self.problem,
            network=self.network,
            collective=self.collective,
            agreement=agreement,
            losses=self.losses,
            unwritten=unwritten,
        )
        if isinstance(self.algorithm, Asynchronous):
            facts = {"seed": self.streams.seed, "iterates_sha256": result.iterates_sha256, "settings": dict(self.about)}
            if failed := asynchronous.write_log(self.algorithm, state, facts, self.collective):
                return replace(result, unwritten="; ".join(filter(None, (unwritten, failed))))
        return result
