"""The programming interface: names and data become a network, a problem and a run here."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from . import given, registry
from .display import Shown
from .network import Network, Shrinking, connect, even_bounds, surviving
from .network.collective import AgentCollective, ReplicaCollective
from .network.device import DeviceCollective, DeviceNetwork
from .numerics.devices import opened
from .numerics.ordered_sums import norms
from .numerics.random_streams import CounterStreams
from .problems import Deferred, FunctionProblem, GradientCheck, Spread
from .problems.common.gradient_check import worst
from .process.abort import RANK_TIMEOUT, patience
from .protocols import SETUP, Algorithm, Array, Index, Metric, P, Problem, Recorder, Row, SplitFeatures, StoppingRule
from .result import Result
from .running import loop
from .running.checkpoint import AGENTS, Checkpoints, CheckpointWriter, Identity, Losses, Resumed, on_all, resume
from .running.local_stopping import Agreement
from .running.metrics import RUNAWAY
from .running.on_device import OnDevice, brought_back
from .running.rank_loss import Loss, check_leaving, continued, divided_anew
from .running.rank_loss_rewind import Rewind
from .running.watchers import Options, Parts
from .settings import named
from .stopping import LocalMaximum, rules_of

if TYPE_CHECKING:
    from .network import Channel, Placement
    from .numerics.torch_arrays import Device

OnRankLoss = Literal["abort", "shrink", "restart"]
__all__ = ["Result", "Run", "connect", "iterate", "solve"]


def _automatic(algorithm: Any) -> bool:
    """True if the algorithm's step size, or where its policy starts, is left to be found."""
    step = getattr(algorithm, "step_size", None)
    return bool(getattr(step, "initial", step) == "auto")


def _check_directed(algorithm: Any) -> None:
    """Raise ValueError unless the algorithm is for directed networks."""
    if SplitFeatures in getattr(algorithm, "requires", ()):
        raise ValueError(
            f"{type(algorithm).__name__}, as features split over agents, needs an undirected graph: take ring, or another"
        )
    if not getattr(algorithm, "directed", False):
        raise ValueError(
            f"{type(algorithm).__name__} needs doubly stochastic weights, and this graph is directed: take push_pull, or drgta, "
            "which retracts; or an undirected graph"
        )
    if getattr(algorithm, "chebyshev", False):
        raise ValueError("chebyshev needs the eigenvalues of a symmetric W, and this graph is directed: leave it out")
    if hasattr(algorithm, "running") and algorithm.running() is not algorithm:
        raise ValueError("growing steps are for undirected graphs: take step size auto")


def _opened(device: str, algorithm: Any, spread: bool, comm: Any, placement: Any, channel: Any, on_rank_loss: OnRankLoss) -> Device:
    """The device of a run; a ValueError for a run that cannot be on one."""
    name = type(algorithm).__name__
    if not getattr(algorithm, "on_devices", False):
        known = [registry.algorithms.get(one) for one in registry.algorithms.names()]
        able = ", ".join(sorted(one.__name__ for one in known if getattr(one, "on_devices", False)))
        raise ValueError(f"{name} does not run on a device: {able} do; or leave device out")
    if hasattr(algorithm, "running") and algorithm.running() is not algorithm:
        raise ValueError("safe and growing steps do not run on a device: take another step size, or leave device out")
    if getattr(algorithm, "kernel", "numpy") == "numba":
        raise ValueError("kernel='numba' is for arrays of NumPy, not of a device: leave kernel or device out")
    if connect(comm).size > 1 or spread:
        raise ValueError("a device is for a run in one process, of all agents: start it without mpirun and without spread samples")
    given = {"placement": placement != "even", "channel": channel is not None, "on_rank_loss": on_rank_loss != "abort"}
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ValueError(f"{wrong[0]} is not for a run on a device: leave it or device out")
    return opened(device)


def _check_on_device(options: Options) -> None:
    """Raise a ValueError for what a run on a device cannot do."""
    for name, value in (("checkpoints", options.checkpoints), ("resume", options.resume)):
        if value is not None:
            raise ValueError(f"{name} is not for a run on a device: leave it or device out")
    if rules_of(LocalMaximum, options.stopping):
        raise ValueError("LocalMaximum (local_tolerance) is not for a run on a device: take another rule, or leave device out")


def _printed(value: Any) -> str:
    """The text that a value prints as, but for addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _settings(algorithm: Any) -> dict[str, str]:
    """The fields of an algorithm as text."""
    if not dataclasses.is_dataclass(algorithm):
        return {"settings": _printed(algorithm)}
    changing = getattr(algorithm, "resumable", ())
    fields = [field.name for field in dataclasses.fields(algorithm) if field.name not in changing]
    return {name: _printed(getattr(algorithm, name)) for name in fields}


class Run(Shown):
    """Everything a run needs, built and checked: shared by `solve`, `iterate` and the command line.

    Parameters are those of `solve`. Attributes: ``problem`` (this process's agents), ``algorithm``, with every ``auto`` that the
    network's design or the problem decides resolved, ``network``, ``collective``, ``streams``, ``x0`` (``(n_local, *shape)``);
    ``losses``, and the agents' ``numbers`` at the start where some have left; ``again(comm=...)`` makes the run anew elsewhere.
    """

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
        algorithm = given.method(algorithm)
        settings: dict[str, Any] = {"x0": x0, "seed": seed, "placement": placement, "channel": channel}
        self.again = partial(Run, problem, algorithm, W, **settings, rank_timeout=rank_timeout, on_rank_loss=on_rank_loss)
        self._silence = patience("rank_timeout", rank_timeout)
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seed must be a non-negative integer, got {seed!r}")
        W, self._labels = given.network(W, problem.n_agents, seed)
        spread = isinstance(problem, Spread)
        self._device = None if device is None else _opened(device, algorithm, spread, comm, placement, channel, on_rank_loss)
        if on_rank_loss not in ("abort", "shrink", "restart"):
            raise ValueError(f"on_rank_loss must be 'abort', 'shrink' or 'restart', got {on_rank_loss!r}")
        if on_rank_loss == "restart":
            if not hasattr(algorithm, "activations"):
                raise ValueError("on_rank_loss='restart' is for asynchronous agents: give 'shrink', or leave it out")
            comm = surviving(comm)
        if on_rank_loss == "shrink":
            if spread or channel is not None:
                what = "one agent whose samples are spread over the ranks" if spread else "a channel that is simulated"
                raise ValueError(f"on_rank_loss='shrink' is not for {what}: leave it out")
            comm = surviving(comm)
        place = "serial" if spread else comm
        if channel is not None:
            from .network import Channel, UnreliableNetwork

            faults = channel if isinstance(channel, Channel) else Channel(channel)
        if self._device is None and (channel is None or hasattr(algorithm, "activations")):
            self.network = Network(W, place, placement)
        elif self._device is not None:
            self.network = DeviceNetwork(W, self._device)
        else:
            self.network = UnreliableNetwork(W, place, placement, channel=faults, seed=seed)
            if self.network.n_agents > 1 and getattr(algorithm, "safe", False):
                self.network.check_alike()
        if self.network.directed:
            _check_directed(algorithm)
        if self.network.n_agents != problem.n_agents:
            raise ValueError(f"W is for {self.network.n_agents} agents, but the problem has {problem.n_agents}")
        if self.network.sequence is not None and on_rank_loss == "shrink":
            raise ValueError("on_rank_loss='shrink' is for a W that stays: agents cannot leave a time-varying network")
        if self.network.directed and on_rank_loss == "shrink":
            raise ValueError("on_rank_loss='shrink' is for undirected graphs: agents cannot leave a directed network")
        if self.network.directed and (_automatic(algorithm) or getattr(algorithm, "penalty", None) == "auto"):
            _ = self.network.push_pull_spectrum  # refused now, if it is
        if self.network.sequence is not None and _automatic(algorithm):
            _ = self.network.spectrum  # refused now rather than when the iterations begin
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
        if self.asynchronous:
            self._check_asynchronous(None if channel is None else faults, on_rank_loss)
        elif channel is not None:
            from .network import check_method

            check_method(self.method, faults, tell=self.network.communicator.rank == 0)
        self.streams = CounterStreams(seed, self.network.agents)
        with threadpool_limits(1):
            SETUP.info("the problem: data of agents %d to %d", self.network.agents.start, self.network.agents.stop - 1)
            self.problem = self._build(problem)
            with self.collective.together():
                loop.check_capabilities(self.problem, algorithm)
                if on_rank_loss == "shrink":
                    check_leaving(self.problem)
                if self.asynchronous and self.algorithm.events is not None:
                    check_leaving(self.problem, "a run with events")
            SETUP.info("the problem: what needs the data of all agents")
            self.problem.prepare(self.collective)
            with self.collective.together():
                start = self._start(x0, seed)
        self._suit()
        if self._device is not None:
            self._placed = self.problem.on(self._device.put)
            if isinstance(self.problem, FunctionProblem):
                self.problem = self._placed  # its functions take nothing but the device's tensors
        self.collective.same("the starting point", hashlib.sha256(start.tobytes()).digest())
        self.x0 = np.repeat(start[None], self.network.n_local, axis=0)

    @property
    def asynchronous(self) -> bool:
        """True if the agents do not go in common iterations."""
        return hasattr(self.algorithm, "activations")

    def _check_asynchronous(self, channel: Channel | None, on_rank_loss: OnRankLoss) -> None:
        """Raise a ValueError for a channel, a response to a loss or a log's place that an asynchronous run cannot use."""
        if on_rank_loss == "shrink":
            raise ValueError("on_rank_loss='shrink' is not for an asynchronous run: give 'restart', or leave it out")
        if on_rank_loss == "restart" and self.algorithm.log is not None:
            raise ValueError("a log repeats a run from its start, which on_rank_loss='restart' may leave behind: drop one of them")
        if channel is not None:
            self.algorithm.check_channel(channel)
            network: Any = self.network
            network.channel = channel  # its agents draw the losses themselves; what precedes them is reliable
        with self.collective.together():
            if self.collective.rank == 0:
                self.algorithm.check_place()

    def _asynchronous_options(self, options: Options) -> Options:
        """The options of an asynchronous run, whose rows are of activations; on ranks there are the first and the last alone."""
        if self.algorithm.events is not None and (options.checkpoints is not None or options.resume is not None):
            raise ValueError("checkpoints are not for an asynchronous run with events: leave one of them out")
        if isinstance(self.network.communicator, Shrinking) and options.checkpoints is None:
            raise ValueError("on_rank_loss='restart' needs the agents' checkpoints: give checkpoints, or leave it out")
        if rules_of(LocalMaximum, options.stopping):
            raise ValueError("LocalMaximum is not for an asynchronous run: give end_tolerance")
        if self.collective.size > 1:
            options = dataclasses.replace(options, rows=2, record_every=None)
        return dataclasses.replace(options, iterations=self.algorithm.activations)

    def _facts(self) -> Mapping[str, object]:
        return {"problem": self.problem, "algorithm": self.algorithm, "network": self.network, "ranks": self.collective.size}

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
        left.numbers, left.x0 = np.delete(self.numbers, lost), self.x0[stay]
        left._decide()
        with threadpool_limits(1):
            left.problem = self.problem.without(lost)
            left.problem.prepare(left.collective)
        left._suit()
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

    def _decide(self) -> None:
        """Choose, by the network's design, what the algorithm leaves to it."""
        self.algorithm = self._given.resolved(self.network) if hasattr(self._given, "resolved") else self._given
        self.network.compiled = getattr(self.algorithm, "kernel", "numpy") == "numba"

    @property
    def method(self) -> Any:
        """The method that runs: ``algorithm``, or `algorithms.Safe` around it where safe steps are asked for."""
        return self.algorithm.running() if hasattr(self.algorithm, "running") else self.algorithm

    @property
    def stepper(self) -> Any:
        """The method as the iterations run it: on an unreliable network with the faults of agents around it."""
        if self.asynchronous or not hasattr(self.network, "channel"):
            return self.method
        from .network import UnreliableAgents

        network: Any = self.network
        return UnreliableAgents(self.method, network, self.x0)

    def _suit(self) -> None:
        """Choose, by the problem, what the algorithm leaves to it."""
        if hasattr(self.algorithm, "suited"):
            self.algorithm = self.algorithm.suited(self.problem)

    def _build(self, problem: Problem[Any] | Deferred | Spread) -> Any:
        """The problem of this process's agents; of one agent that is spread, this process's share of its samples."""
        if isinstance(problem, Spread):
            if problem.n_blocks < self.collective.size:
                raise ValueError(
                    f"{self.collective.size} ranks for {problem.n_blocks} blocks of samples: every rank must hold one at "
                    f"least; spread the samples in {self.collective.size} blocks or more (--spread-samples), or start fewer ranks"
                )
            blocks = AgentCollective(self.collective.communicator, even_bounds(problem.n_blocks, self.collective.size))
            return problem.build(blocks.own, blocks)
        agents = self.network.agents
        return problem.build(agents, self.collective) if isinstance(problem, Deferred) else problem.restrict(agents)

    def _same(self, what: str, *values: Any) -> None:
        """Check that every rank was given the same, by what it prints as (but for addresses)."""
        self.collective.same(what, hashlib.sha256(_printed(values).encode()).digest())

    def _start(self, x0: Array | None, seed: int) -> Array:
        shape = tuple(self.problem.shape)
        if x0 is None:
            start: Array = self.problem.start(seed)
            return start
        if isinstance(self.problem, SplitFeatures):
            raise ValueError("x0 is a point that every agent has, and here each holds rows of one: leave it out (--start)")
        given = np.asarray(x0)
        if not np.can_cast(given.dtype, np.float64, "same_kind"):
            raise TypeError(f"x0 must hold real numbers, got dtype {given.dtype}")
        start = np.array(given, dtype=np.float64, order="C")
        if start.shape != shape:
            raise ValueError(f"x0 must have the shape of one agent's point, {shape}, got {start.shape}: all agents start from it")
        if not (np.abs(start) <= RUNAWAY).all():
            raise ValueError(f"x0 must be finite, with no entry beyond {RUNAWAY:g}, where a run counts as diverged: scale it down")
        return start

    def states(self) -> Iterator[Any]:
        """The generator of states; BLAS has one thread from the first state until the generator ends."""
        with threadpool_limits(1):
            yield from loop.iterate(self.parts)

    @property
    def parts(self) -> Parts:
        """The parts that the loop needs."""
        if self._device is not None:
            stepper = OnDevice(self.method, self.problem, self._device)
            collective = DeviceCollective(self.network.communicator, self.network.bounds)
            return Parts(self._placed, self.method, self.network, collective, self.streams, self.x0, stepper)
        return Parts(self.problem, self.method, self.network, self.collective, self.streams, self.x0, self.stepper)

    @contextlib.contextmanager
    def _watched(self, computing: float) -> Iterator[None]:
        communicator = self.collective.communicator
        communicator.watch(self._silence, computing)
        try:
            yield
        finally:
            communicator.watch(self._silence, math.inf)

    @cached_property
    def identity(self) -> Identity:
        """Facts that must be the same for this run to go on from a checkpoint."""
        problem, network = self.problem, self.network
        probes = {name: np.empty(network.n_local) for name in ("objective", "slope", "feasibility")}
        with threadpool_limits(1), np.errstate(all="ignore"):
            for block, part in problem.blocks():
                x = self.x0[block]
                probes["objective"][block] = part.value(x)
                probes["slope"][block] = norms(part.gradient(x))
                probes["feasibility"][block] = part.constraint.feasibility(x)
        own = network.W.diagonal()
        facts: dict[str, dict[str, Any]] = {
            "problem": {"type": type(problem).__name__, "agents": network.n_agents, "shape": list(problem.shape)},
            "W": {
                "directed edges": int(network.W.nnz) - network.n_agents,
                "least and largest self weight": [float(own.min()), float(own.max())],
                "sha256": network.digest().hex(),
            },
            "algorithm": {"type": type(self.algorithm).__name__, **_settings(self.algorithm)},
            "seed": {"seed": self.streams.seed},
            "network": {"channel": str(getattr(network, "channel", "reliable"))},
            **({"lost": {"losses": json.loads(json.dumps(self.losses))}} if self.losses else {}),
        }
        return Identity(facts, self.x0[0], probes)

    def check_gradient(self) -> GradientCheck:
        """The Taylor test of all agents' gradients near the start, on every rank; called by every rank.

        Raises
        ------
        ValueError
            A gradient does not fit its value, or is not finite; names the worst agent.
        """
        problem = self.problem
        with threadpool_limits(1), self.collective.together():
            slopes = problem.check_gradient(seed=self.streams.seed).slopes

        def add(total: Array) -> None:
            total[problem.agents] = slopes

        found = worst(self.collective.fold(problem.n_agents, add), 0, slopes)
        if not found.right:
            raise ValueError(f"{found!r}: mend the functions that give the value and the gradient")
        return found

    def agreement(self, stopping: StoppingRule | None) -> Agreement | None:
        """The agents' decision about the end by these rules, None where they do not decide; see `local_stopping.Agreement`."""
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
        if self.asynchronous and resumed.path is not None:
            own = resumed.path / AGENTS
            made = on_all(self.collective, lambda: self.algorithm.recover(resumed.state.agents, own))
            if self.collective.size == 1:
                resumed = resumed._replace(state=resumed.state._replace(k=max(resumed.state.k, made)))
        return resumed

    def solve(self, **given: Any) -> Result:
        """Iterate to the end; takes the fields of `watchers.Options`, which `decentorth.solve` describes."""
        options = Options(**given)
        if self.asynchronous:
            options = self._asynchronous_options(options)
        patience("compute_timeout", options.compute_timeout)
        checkpoints, resume = options.checkpoints, options.resume
        if self._device is not None:
            _check_on_device(options)
        recording = (options.iterations, options.stopping, options.rows, options.record_every, options.safety_region)
        self._same("iterations, stopping and recording", *recording)
        keeping = None if checkpoints is None else (checkpoints.folder, checkpoints.every, checkpoints.keep)
        self._same("checkpoints and resume", keeping, None if resume is None else str(getattr(resume, "path", resume)))
        resumed = resume if resume is None or isinstance(resume, Resumed) else self.resume(resume)
        if resumed is not None and resumed.state.k > options.iterations:
            raise ValueError(
                f"{resumed.path} is at iteration {resumed.state.k}, beyond the {options.iterations} iterations that are asked for"
            )
        run: Run = self if resumed is None else resumed.run
        if not isinstance(run.network.communicator, Shrinking):
            return run._result(run._iterate(options, resumed))
        last: Run
        folder = None if checkpoints is None else Path(checkpoints.folder)
        if self.asynchronous:
            last, outcome = divided_anew(
                run, lambda run, resumed: run._iterate(options, resumed), options.recorders, folder, resumed
            )
            return last._result(outcome)
        last, outcome = continued(
            run, lambda run, resumed, rewind: run._iterate(options, resumed, rewind), options.recorders, folder, resumed
        )
        return last._result(outcome)

    def _iterate(self, options: Options, resumed: Resumed | None, rewind: Rewind | None = None) -> loop.Outcome:
        write = None
        if options.checkpoints is not None:
            write = partial(CheckpointWriter, options.checkpoints, self.identity, self.collective, self.collective.own, resumed)
        with threadpool_limits(1), self._watched(patience("compute_timeout", options.compute_timeout)):
            return loop.run(self.parts, options, write, resumed, rewind)

    def _result(self, outcome: loop.Outcome) -> Result:
        state, stop, row, history, seconds, agreement = outcome
        state = brought_back(state)
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
        )
        if self.asynchronous and self.algorithm.log is not None:
            facts = {"seed": self.streams.seed, "iterates_sha256": result.iterates_sha256, "settings": dict(self.about)}
            self.algorithm.write_log(state.agents, facts, self.collective)
        return result


@named
def solve(
    problem: P | Deferred | Spread,
    algorithm: Algorithm[P, Any] | type[Algorithm[P, Any]] | str,
    W: Any = None,
    *,
    x0: Array | None = None,
    iterations: int = 1000,
    stopping: StoppingRule | float | None = None,
    seed: int = 0,
    comm: Any = None,
    placement: Placement = "even",
    channel: Channel | str | None = None,
    rows: int | None = None,
    record_every: int | None = None,
    recorders: Sequence[Recorder] = (),
    callback: Callable[[Row], object] | None = None,
    progress: bool = False,
    metrics: Sequence[Metric] = (),
    safety_region: float | None = None,
    checkpoints: Checkpoints | None = None,
    resume: str | os.PathLike[str] | None = None,
    rank_timeout: float = RANK_TIMEOUT,
    compute_timeout: float = 0.0,
    on_rank_loss: OnRankLoss = "abort",
    device: str | None = None,
    check: bool = False,
) -> Result:
    """Minimise the mean of the agents' objectives under their constraint.

    Called with the same arguments on every rank when started under ``mpirun``; the same bits for any number of ranks.

    Parameters
    ----------
    problem
        Given whole (each rank keeps its own agents), or a `Deferred` that each rank builds for its agents
        (``Procrustes.from_loader``). `problems.Spread` of either is one agent whose samples are spread over the ranks.
    algorithm
        E.g. ``DRFGT(step_size=1e-2, penalty=10.0)``, a class, or a name as on the command line: ``"drfgt:penalty=10"``.
    W
        ``(n, n)`` mixing matrix, symmetric and doubly stochastic, or a `topologies.WeightSequence` that gives one for every round.
        Or a networkx graph, with Metropolis weights, whose nodes are the agents in the order of `topologies.numbered`; edge
        attributes are ignored. Or the name of a graph or a sequence, with the weights of the command line: ``"ring"``,
        ``"torus:2x5"``. For `PushPull` also a ``networkx.DiGraph``, `topologies.DirectedWeights`, or the name of a directed graph:
        ``"directed_ring:chords=3"``. May be left out for a single agent.
    x0
        Common start of all agents, one point; by default random and feasible from the seed.
    iterations
        The most iterations.
    stopping
        A rule such as ``GradientNorm(1e-6, relative=True) & Consensus(1e-6) | Time(60)``, looked at in each recorded row (there
        is one when a time is over); or ``LocalMaximum(1e-6)``, by which the agents decide themselves. A number is the tolerance of
        ``GradientNorm``.
    seed
        Of everything random.
    comm
        None: this process alone, or all ranks when started under ``mpirun`` with more than one; ``"serial"``; or an mpi4py
        communicator.
    placement
        How agents are divided over ranks: ``"even"`` or ``"fewer-cuts"``.
    channel
        What goes wrong with messages, simulated: ``"loss:p=0.1"``, or ``Channel("loss:p=0.1", "topk:share=0.1", repair=False)``.
    rows
        About how many log-spaced rows of metrics to record; by default 200, but no more than one in five iterations.
    record_every
        Record every so many iterations instead.
    recorders
        Objects whose ``record(row)`` rank 0 calls.
    callback
        A function that rank 0 calls with each recorded row.
    progress
        Rank 0 shows how far the run is: in a notebook, on a terminal, or in about ten lines elsewhere.
    metrics
        Further metrics, beside the standard ones.
    safety_region
        Stop when ``feasibility`` exceeds this.
    checkpoints
        Where and when to write checkpoints: ``Checkpoints("folder", every=1000)`` or ``every="10m"``.
    resume
        Where a run like this one left checkpoints: goes on from the newest that is whole, with the bits of a run that never
        stopped, on any number of ranks.
    on_rank_loss
        What becomes of a run when one of its ranks is lost (killed, or its host): ``"abort"`` ends it; ``"shrink"`` goes on without
        the agents of that rank, and ``"restart"``, for asynchronous agents, with them, from their own checkpoints on the ranks that
        are left; both with Open MPI and its ``--with-ft ulfm`` (``docs/running.md``). On one process nothing can be lost.
    rank_timeout
        On MPI ranks: the job ends when a rank has given no sign of life for so many seconds (stopped, its host frozen or gone); 0:
        never. A gradient may take longer; a single call that holds Python's lock may not.
    compute_timeout
        On MPI ranks: the job ends when a rank has computed for so many seconds without meeting the others; 0: never.
    device
        Where the iterations are made: ``"cuda"`` or ``"cuda:1"``, a GPU by PyTorch; ``"torch:cpu"``; with ``":float32"`` behind it
        in single precision; by default NumPy's arrays (``docs/devices.md``).
    check
        Test the gradients before the first iteration (`Run.check_gradient`); a ValueError names the agent whose gradient is wrong.

    Raises
    ------
    ValueError, TypeError
        Before work starts, the same on every rank, for input that cannot work.
    CheckpointError
        On every rank: a checkpoint cannot be written, or not be resumed from.
    LostError
        On every rank that is left: the others fall apart.
    """
    run = Run(
        problem,
        algorithm,
        W,
        x0=x0,
        seed=seed,
        comm=comm,
        placement=placement,
        channel=channel,
        rank_timeout=rank_timeout,
        on_rank_loss=on_rank_loss,
        device=device,
    )
    if check:
        run.check_gradient()
    recorders = [*recorders, *([] if callback is None else [SimpleNamespace(record=callback)])]
    with contextlib.ExitStack() as stack:
        if progress and run.collective.rank == 0:
            from .cli.progress import row_progress

            recorders.append(stack.enter_context(row_progress(iterations)))
        return run.solve(
            iterations=iterations,
            stopping=stopping,
            rows=rows,
            record_every=record_every,
            recorders=recorders,
            metrics=metrics,
            safety_region=safety_region,
            checkpoints=checkpoints,
            resume=resume,
            compute_timeout=compute_timeout,
        )


@named
def iterate(
    problem: P | Deferred | Spread,
    algorithm: Algorithm[P, Any] | type[Algorithm[P, Any]] | str,
    W: Any = None,
    *,
    x0: Array | None = None,
    seed: int = 0,
    comm: Any = None,
    placement: Placement = "even",
    channel: Channel | str | None = None,
    rank_timeout: float = RANK_TIMEOUT,
    device: str | None = None,
) -> Iterator[Any]:
    """The generator under `solve`: the states, from the initial one on, for ever.

    A state is valid until the next one is asked for; copy what you keep.
    """
    run = Run(
        problem,
        algorithm,
        W,
        x0=x0,
        seed=seed,
        comm=comm,
        placement=placement,
        channel=channel,
        rank_timeout=rank_timeout,
        device=device,
    )
    return run.states()
