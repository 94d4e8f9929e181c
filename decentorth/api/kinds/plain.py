"""The plain run: built and checked, iterated, resumed. Each other kind is a class that overrides
what differs."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from topologies.line.words import ranges

from ...algorithms import AutoMethod
from ...display import Shown
from ...network import Network, connect
from ...network.collective import AgentCollective
from ...network.joint import TreeCollective
from ...numerics.random_streams import CounterStreams
from ...numerics.threads import one_thread
from ...problems import AgentProblem, Deferred, GradientCheck
from ...problems.common.checks import class_cautions
from ...problems.common.gradient_check import check_attached, checked
from ...process.abort import patience
from ...protocols import (
    SETUP,
    Answered,
    Array,
    Collective,
    Declared,
    Index,
    Problem,
    StoppingRule,
)
from ...running import loop
from ...running.checkpoint import (
    CheckpointWriter,
    Identity,
    Losses,
    Resumed,
    identity,
    resume,
)
from ...running.local_stopping import Agreement
from ...running.metrics import measures, splits_features
from ...running.options import Options
from ...running.parts import Method, Parts
from ...running.rank_loss_rewind import Rewind
from ...stopping import as_rule
from .. import automatic, capabilities, conversions, steps
from ..arguments import AnySetup
from ..losses import Loss
from ..rank_agreement import check_arguments, check_facts
from ..result import Result
from ..sizes import check_data, check_points


class Run(Shown):
    """A problem, a method and a network, built and checked: what `solve`, `iterate` and the command
    line run.

    Attributes: ``arguments``; ``problem`` (this process's agents); ``algorithm``, with every
    ``auto`` resolved that the network's design or the problem decides; ``network``, ``collective``,
    ``streams``; ``start`` (the agents' common first point); ``losses``, and the agents' ``numbers``
    at the start where some have left; ``choice``, the row of the table that
    ``auto`` took, None for a method that was named; ``secure``, True for masked sums; ``about``,
    further facts for a log.
    """

    precedence = 100
    repairs: ClassVar[bool] = True
    """True if the network repairs what a channel loses."""
    algorithm: Method
    problem: Problem[Any]
    losses: tuple[Loss, ...] = ()
    about: Mapping[str, object] = MappingProxyType({})
    choice: automatic.Choice | None = None

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        """True if these arguments ask for this kind of run."""
        return True

    def __init__(self, arguments: AnySetup) -> None:
        self.arguments = arguments
        self.comm = arguments.comm
        self.algorithm = arguments.method
        communicator = connect(arguments.comm, self._silence)
        check_data(arguments.problem, communicator)
        self._sites = bool(communicator.sites)
        self.secure = arguments.secure or (self._sites and not arguments.clear_sums)
        self._check_secure()
        self.network = self._network()
        self._check_network()
        self.numbers: Index = np.arange(self.network.n_agents)
        self.collective = self._collective()
        self._watch(math.inf)
        self.collective.same("W", self.network.digest())
        if not isinstance(self.algorithm, AutoMethod):
            self._admit()
        self.streams = CounterStreams(arguments.seed, self.network.agents)
        with one_thread():
            self.problem = self._prepared()
            self.start: Array = self._start()
            self.algorithm = Declared.of(self.algorithm).for_problem(self.seen)
            self._place()
            self._check_start()

    def _network(self) -> Network:
        """The network of the agents; a ValueError for arguments that do not go together."""
        return Network(self.arguments.mixing[0], self.comm, self.arguments.placement)

    def _check_network(self) -> None:
        """Hide the terms of sums where this is asked for; a ValueError unless the network is that
        of the problem's agents."""
        if self.secure:
            self.network.mask_sums()
        capabilities.check_agents(self.network, self.arguments.problem.n_agents)
        capabilities.check_sites(self.network)

    def _collective(self) -> AgentCollective:
        """The sums over all agents, for metrics and files."""
        network = self.network
        if self._sites:
            return self._along_edges(network.column_sums)
        return AgentCollective(
            network.communicator, network.bounds, network.column_sums, holders=self._holders
        )

    @property
    def _holders(self) -> Sequence[str]:
        """The agents in words, for the errors of others about their samples."""
        problem: object = self.arguments.problem
        return problem.holders if isinstance(problem, Deferred) else ()

    def _check_secure(self) -> None:
        """Raise a ValueError for secure sums with a method or a run that sends more."""
        if self.secure:
            given = self.arguments
            hides = given.device is None and given.channel is None
            agents = given.problem.n_agents
            capabilities.check_secure(self.algorithm, agents, hides)

    def _admit(self) -> None:
        """Check the method on the network, and choose what it leaves to the network's design."""
        capabilities.check_network(self.algorithm, self.network)
        self.decide()
        self._check_method()

    def _choose(self, own: Any) -> None:
        """Take the first method of the table that this run admits; a TypeError without one."""
        for row, method in automatic.candidates(own, self.network, self.single):
            self.arguments = replace(self.arguments, algorithm=method)
            self.algorithm = method
            with contextlib.suppress(TypeError, ValueError):
                self._admit()
                self.choice = row
                break
        self._check_secure()
        self.collective.same("the method", type(self.algorithm).__name__.encode())
        if self.choice is None:
            steps = ""
            if self.network.changes:
                steps = ", and give step_size and penalty"
            raise TypeError(
                f"auto lacks a method for {type(own).__name__} in this run: name one, as "
                f"algorithm='drfgt'{steps}"
            )

    @property
    def single(self) -> bool:
        """True if the method is one for a single agent."""
        return self.network.n_agents == 1

    @property
    def leaves(self) -> str:
        """The numbers that an agent sends to others, in words."""
        if self.network.n_agents == 1:
            return "there is one agent, and nothing leaves it"
        numbers = math.prod(self.problem.shape)
        return (
            f"points or trackers of each {self._who}, {numbers} numbers each, go to all its "
            "neighbours in every iteration"
        )

    @property
    def _who(self) -> str:
        """An agent in words."""
        return "site" if getattr(self.problem, "sites", ()) else "agent"

    def decide(self) -> None:
        """Choose, by the network's design, what the algorithm leaves to it."""
        self.algorithm = steps.for_network(self.arguments.method, self.network)
        self.network.compiled = Declared.of(self.algorithm).kernel == "numba"

    def _check_method(self) -> None:
        """Check the method on the network, before any data are read."""

    def _prepared(self) -> Problem[Any]:
        """The problem of this process's agents, checked against the method, with what it needs of
        the others' data."""
        agents = self.network.agents
        SETUP.info("the problem: data of agents %d to %d", agents.start, agents.stop - 1)
        own = self._own_problem(self.arguments.problem)
        if isinstance(self.algorithm, AutoMethod):
            self._choose(own)
        self.seen = self._seen(own)
        with self.collective.together():
            capabilities.check_fits(self.seen, self.arguments.method, self.network)
            self._check_problem(own)
        SETUP.info("the problem: what needs the data of all agents")
        self._complete(own)
        return own

    def _start(self) -> Array:
        """The agents' common first point, for which there is memory on every host."""
        given = self.arguments
        measured = {"the problem's measures": measures(self.problem)}
        check_facts(self.collective.communicator, measured)
        check_points(self.problem, self.collective, self.network.n_local)
        with self.collective.together():
            start = conversions.start(given.x0, self.problem, given.seed)
            if given.x0 is not None:
                capabilities.check_start(self.problem, self.algorithm, start)
            return start

    def _check_start(self) -> None:
        """Raise a ValueError unless all ranks have the same start, at which the gradient of the
        problem depends on the point."""
        digest = hashlib.sha256(self.start.tobytes()).digest()
        self.collective.same("the starting point", digest)
        with self.collective.together():
            if not splits_features(self.problem):
                check_attached(self.problem, self.start)

    def _seen(self, own: Any) -> Problem[Any]:
        """The problem as the method sees it."""
        return own  # type: ignore[no-any-return]  # see `_own_problem`

    def _own_problem(self, problem: Any) -> Problem[Any]:
        """The part of the problem that this process has."""
        own: Any
        if isinstance(problem, Deferred):
            own = problem.build(self.network.agents, self._pool())
            if problem.sites:
                own.sites = problem.sites
        else:
            own = problem.restrict(self.network.agents)
        return own  # type: ignore[no-any-return]  # problems have one of two kinds

    def _complete(self, own: Problem[Any]) -> None:
        """Compute what needs the data of all agents, and the answer where it is wanted."""
        if self.arguments.answer and self._private and splits_features(own):
            raise ValueError(
                "answer would show every site the features of all: leave it out; certify gives "
                "bounds on the error of a result"
            )
        pool = self._pool()
        own.prepare(pool)
        if self._answered and isinstance(own, Answered):
            own.find_answer(pool)

    @property
    def _answered(self) -> bool:
        """True if the answer is computed: of samples of sites where it is asked for."""
        given = self.arguments
        return given.answer or (given.sizes is None and not self._private)

    @property
    def _private(self) -> bool:
        """True for samples of sites, and for ranks that are sites."""
        problem: object = self.arguments.problem
        return self._sites or (isinstance(problem, Deferred) and problem.private)

    def _pool(self) -> AgentCollective:
        """The sums over all agents with which the problem is built: of the samples of sites along
        the edges of the network, counted."""
        if self._private:
            return self._along_edges(self.network.column_sums)
        return self.collective

    def _check_problem(self, problem: Problem[object]) -> None:
        """Raise a TypeError for a problem that this kind of run cannot have."""

    def _place(self) -> None:
        """Bring the problem to where the iterations are made."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """Notes on classes that may be one class, on what secure sums do not hide in this run, and
        on what its file has beside the graph."""
        found = []
        W = self.arguments.W
        mixes = not self.single and Declared.of(self.algorithm).mixes
        if isinstance(W, str) and mixes:
            from topologies.names import unread_in_file  # loads SciPy, which ranks do without

            for name in unread_in_file(W):
                found.append(
                    f"{name} of the edges of {W} is not read: all edges count the same; "
                    "topologies.conductance_weights makes a W of it"
                )
        if isinstance(self.problem, AgentProblem):
            found += class_cautions(self.problem.classes)
        ranks = self.network.communicator.size
        agents = self.network.n_agents
        if self.secure and ranks == 1:
            found.append("secure protects nothing here: all agents are in one process")
        elif self.secure and ranks < agents:
            found.append("secure does not protect agents of the same rank from each other")
        if self.secure and agents == 2:
            found.append(capabilities.TWO_AGENTS)
        return tuple(found)

    def _watch(self, computing: float) -> None:
        self.collective.communicator.watch(self._silence, computing)

    @cached_property
    def _silence(self) -> float:
        """The seconds without a sign of life after which a rank counts as lost."""
        return patience("rank_timeout", self.arguments.rank_timeout)

    def _facts(self) -> Mapping[str, object]:
        parts = {"problem": self.problem, "algorithm": self.algorithm, "network": self.network}
        return {**parts, "ranks": self.collective.size}

    @property
    def x0(self) -> Array:
        """The common start of this process's agents, ``(n_local, *shape)``; a new array each
        time."""
        return np.repeat(self.start[None], self.network.n_local, axis=0)

    @property
    def method(self) -> Method:
        """The method that runs: ``algorithm``, or another one around it that changes its steps."""
        return steps.wrapped(self.algorithm)

    @property
    def parts(self) -> Parts:
        """The parts that the loop needs."""
        method = self.method
        return Parts(
            self.problem,
            method,
            self.network,
            self.collective,
            self.streams,
            self.start,
            self._stepper(method),
            self._rows,
        )

    @property
    def _rows(self) -> Collective | None:
        """The sums with which rows of samples of sites are made, counted."""
        if not self._private:
            return None
        return self._along_edges(self.network.row_sums)

    def _along_edges(self, add: Callable[..., Array]) -> TreeCollective:
        """Sums along the edges of the network, counted."""
        return TreeCollective(self.network, add, self._holders)

    def _stepper(self, method: Method) -> object:
        """The method as the iterations run it."""
        return method

    def states(self) -> Iterator[Any]:
        """The generator of states; BLAS has one thread from the first state until the generator
        ends."""
        with one_thread():
            yield from self.parts.states()

    def solve(self, options: Options) -> Result:
        """Iterate to the end."""
        options = self._options(options)
        check_arguments(self.collective.communicator, options, Options)
        resumed = self.resume(options.resume)
        if resumed is None:
            capabilities.check_met(self.problem, options.rule, self.start)
            return self._ended(options, None)
        if resumed.state.k > options.iterations:
            raise ValueError(
                f"{resumed.path} is at iteration {resumed.state.k}, beyond the "
                f"{options.iterations} iterations that are asked for"
            )
        before = sum(resumed.seconds.get(name, 0.0) for name in ("compute", "wait"))
        run: Run = resumed.run
        rule = options.rule
        if rule is not None:
            rule = rule.resumed(before)
        return run._ended(replace(options, stopping=rule), resumed)

    def _options(self, options: Options) -> Options:
        """The options of the run; a ValueError for options that this kind cannot have."""
        return options

    def _ended(self, options: Options, resumed: Resumed | None) -> Result:
        """The result of a run that continues from here."""
        return self.result(self.iterate(options, resumed))

    def iterate(
        self, options: Options, resumed: Resumed | None, rewind: Rewind | None = None
    ) -> loop.Outcome:
        """Iterate to the end, or to the loss of a rank."""
        kept = options.checkpoints
        write = None
        if kept is not None:
            collective: Any = self.parts.collective
            write = partial(CheckpointWriter, kept, self.identity, collective, resumed)
        with one_thread(), contextlib.ExitStack() as stack:
            self._watch(patience("compute_timeout", options.compute_timeout))
            stack.callback(self._watch, math.inf)
            return loop.run(self.parts, options, write, resumed, rewind)

    def result(self, outcome: loop.Outcome) -> Result:
        """The result of a run that has ended so."""
        return Result.of(self, outcome)

    def resume(self, path: str | os.PathLike[str] | Resumed | None) -> Any:
        """The run that a checkpoint has, to continue in `solve`, as `Resumed`; called by every
        rank. None for None.

        Parameters
        ----------
        path
            A run's folder, its folder of checkpoints, or one checkpoint.

        Raises
        ------
        CheckpointError
            No checkpoint is whole, or it belongs to another run; the message says how.
        """
        match path:
            case None | Resumed():
                return path
        return self._recovered(resume(path, self.after, self.parts.collective))

    def _recovered(self, resumed: Resumed) -> Resumed:
        """The checkpoint, with what this kind of run keeps beside it."""
        return resumed

    @cached_property
    def identity(self) -> Identity:
        """Facts that must be the same to continue from a checkpoint."""
        given = self.arguments
        parts = self.parts
        with one_thread():
            return identity(
                parts.problem,
                self.algorithm,
                self.network,
                given.channel,
                given.seed,
                parts.x0,
                self.losses,
            )

    def again(self, **changed: Any) -> Run:
        """The same run with some arguments changed, such as ``comm``."""
        return type(self)(replace(self.arguments, **changed))

    def without(self, lost: Index, comm: object = "serial", ranks: Sequence[int] = (0,)) -> Run:
        """The run of the agents that are left when those in ``lost`` have left for good; this one
        stays as it is.

        Parameters
        ----------
        comm, ranks
            The processes that are left, and which of the run's each of them is.

        Raises
        ------
        ValueError
            The remaining agents are not connected, or a rank has none of them.
        """
        left = copy.copy(self)
        left.__dict__.pop("identity", None)
        own = np.arange(self.network.n_agents)[self.network.agents]
        left.network = self.network.without(lost, comm, ranks)
        left.collective = AgentCollective(left.network.communicator, left.network.bounds)
        left._watch(math.inf)
        left.streams = CounterStreams(self.arguments.seed, own[~np.isin(own, lost)])
        left.numbers = np.delete(self.numbers, lost)
        left.decide()
        with one_thread():
            whole: Any = self.problem
            left.problem = left.seen = whole.without(lost)
            left._complete(left.problem)
        left.algorithm = Declared.of(left.algorithm).for_problem(left.problem)
        return left

    def after(self, losses: Losses) -> Run:
        """The run of the agents that are left after losses, on the same processes; this one without
        any.

        Raises ValueError for unknown agent numbers, and as `without` does.
        """
        if not losses:
            return self
        lost = np.unique([agent for loss in losses for agent in loss[2]]).astype(np.int64)
        if lost[0] < 0 or lost[-1] >= self.network.n_agents:
            raise ValueError(
                f"agents {ranges(lost)} were lost on the way, but there are only "
                f"{self.network.n_agents} agents"
            )
        communicator = self.network.communicator
        left = self.without(lost, communicator, range(communicator.size))
        left.losses = tuple(Loss(*loss) for loss in losses)
        return left

    def agreement(self, stopping: StoppingRule | None, fresh: bool = False) -> Agreement | None:
        """The agents' decision about the end by these rules, None where they do not decide; see
        `local_stopping.Agreement`.

        A ValueError for rules that the problem does not allow, or that a ``fresh`` run meets at its
        start.
        """
        rule = as_rule(stopping)
        capabilities.check_stopping(self.problem, rule)
        if fresh:
            capabilities.check_met(self.problem, rule, self.start)
        parts = self.parts
        return Agreement.of(rule, parts.problem, parts.algorithm, parts.network)

    def check_gradient(self) -> GradientCheck:
        """The Taylor test of all agents' gradients near the start, on every rank; called by every
        rank.

        A ValueError names the worst agent, if a gradient does not fit its value, or is not finite.
        """
        with one_thread():
            return checked(self.problem, self.arguments.seed, self._pool())
