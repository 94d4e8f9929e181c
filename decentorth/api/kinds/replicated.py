"""A run of one agent that every rank has a copy of, with its samples spread over the ranks."""

from __future__ import annotations

from typing import Any

from ...network import Network, connect, even_bounds
from ...network.collective import AgentCollective, ReplicaCollective
from ...problems import Deferred
from ..arguments import AnySetup
from .plain import Run
from .unreliable import Unreliable


class Replicated(Run):
    """The network is that of one agent in each process, and the problem each rank's share of the
    samples."""

    precedence = 60

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return arguments.blocks is not None

    def _network(self) -> Network:
        self.comm = "serial"
        return super()._network()

    def _collective(self) -> AgentCollective:
        return ReplicaCollective(connect(self.arguments.comm))

    def _own_problem(self, problem: Any) -> Any:
        collective = self.collective
        if problem.n_blocks < collective.size:
            raise ValueError(
                f"{collective.size} ranks for {problem.n_blocks} blocks of samples: every rank "
                f"must hold one at least; spread the samples in {collective.size} blocks or more "
                "(spread_samples), or start fewer ranks"
            )
        bounds = even_bounds(problem.n_blocks, collective.size)
        holders = problem.problem.holders if isinstance(problem.problem, Deferred) else ()
        blocks = AgentCollective(collective.communicator, bounds, holders=holders)
        return problem.build(blocks.own, blocks)


class ReplicatedUnreliable(Replicated, Unreliable):
    """The same with a channel, of which one agent has the faults of agents alone."""

    precedence = 50

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return Replicated.fits(arguments) and Unreliable.fits(arguments)
