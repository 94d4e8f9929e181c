"""A run of one agent's method by all agents of a network, who add exactly whatever needs the data
of all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...network import Network
from ...network.collective import AgentCollective, ReplicaCollective
from ...network.joint import JointAgent, TreeCollective
from ...numerics.random_streams import CounterStreams
from ...problems.common.pooled_rows import HERE
from ...problems.spread import SpreadProblem, mean_of
from ...protocols import Answered, Declared, Moments, Problem, Solvable
from ...running.loop import Outcome
from ...running.parts import Parts
from .. import capabilities
from ..arguments import AnySetup
from ..automatic import by_sums, few
from ..result import Result
from .plain import Run


class Summed(Run):
    """All agents hold the same point and make the same steps; every value, gradient and product of
    the mean objective is an exact sum over them.

    To the loop, the metrics and the checkpoints they are one agent.
    """

    precedence = 0

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return by_sums(arguments)

    single = True

    @property
    def leaves(self) -> str:
        own: Any = self.problem
        tree = "go to its neighbour in the tree"
        if self.secure:
            tree += " under masks"
        if isinstance(self.seen, SpreadProblem):
            numbers = math.prod(own.shape)
            return (
                f"about {numbers} numbers of each {self._who} {tree} for every gradient or product"
            )
        numbers = f", {own.n_moments} numbers," if own.n_moments else ""
        return f"second moments of each {self._who}{numbers} {tree}"

    def _network(self) -> Network:
        given = self.arguments
        name = type(self.arguments.method).__name__
        if given.device is not None:
            raise ValueError(
                f"{name} on several agents adds along a tree of the host's network: leave device "
                "out, or take one agent"
            )
        if given.on_rank_loss != "abort":
            raise ValueError(
                f"{name} on several agents adds over all of them: leave on_rank_loss out"
            )
        network = super()._network()
        capabilities.check_sums(name, network, arrives=given.channel is None)
        return network

    def _pool(self) -> AgentCollective:
        """The sums of the set-up are counted, too."""
        return TreeCollective(self.network, self.network.column_sums, self._holders)

    def _seen(self, own: Any) -> Problem[Any]:
        """The mean of all agents' objectives: from its moments, at home, or by sums at every
        point."""
        if not isinstance(own, Moments) or not self._by_moments(own):
            seen = mean_of(own, TreeCollective(self.network), by_messages=True)
            self.joint = JointAgent(self.network, seen)
            return seen
        numbers = own.agent_moments()
        if numbers.size:
            numbers = self.network.total(numbers)[0]
        self.joint = JointAgent(self.network)
        pooled: Problem[Any] = own.from_moments(numbers[0])
        return pooled

    def _by_moments(self, own: Any) -> bool:
        """True if the method needs nothing else, or if the moments have no closed answer and are
        few."""
        if Declared.of(self.arguments.method).by_moments:
            return True
        return few(own) and not isinstance(own, Solvable)

    def _complete(self, own: Any) -> None:
        """Find the answer from the moments where these are known; otherwise by sums that are
        counted only for samples of sites."""
        if not isinstance(self.seen, SpreadProblem):
            pooled: Any = self.seen
            pooled.prepare(HERE)
            if self._answered and isinstance(pooled, Answered):
                pooled.find_answer(HERE)
            own.error_name = pooled.error_name
            return
        own.prepare(self._pool())
        if self._answered and isinstance(own, Answered):
            own.find_answer(super()._pool())

    @property
    def parts(self) -> Parts:
        method = self.method
        collective = ReplicaCollective(self.network.communicator)
        streams = CounterStreams(self.arguments.seed, JointAgent.agents)
        return SummedParts(self.seen, method, self.joint, collective, streams, self.start, method)

    def result(self, outcome: Outcome) -> Result:
        """The result, with the common point in the place of every agent."""
        state = outcome.state
        points = np.repeat(state.x, self.network.n_local, axis=0)
        return super().result(outcome._replace(state=state._replace(x=points)))


class SummedParts(Parts):
    """The parts of a run whose rows take gradients from the states that carry them along."""

    @property
    def by_messages(self) -> bool:
        return True

    def completed(self, state: Any) -> Any:
        state = super().completed(state)
        if hasattr(state, "point") and isinstance(self.problem, SpreadProblem):
            self.problem.learn(state.x, state.point.gradient)
        return state
