"""A run that continues without the agents of lost ranks; see `rank_loss`."""

from __future__ import annotations

from ...network import Network
from ...protocols import Problem
from ...running.checkpoint import Resumed
from ...running.options import Options
from ..arguments import AnySetup
from ..rank_loss import check_graph, check_leaving, continued, survivors
from ..result import Result
from .plain import Run


class Surviving(Run):
    """The communicator outlives ranks, and agents can leave the network and the problem."""

    precedence = 40

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return arguments.on_rank_loss == "shrink"

    def _network(self) -> Network:
        given = self.arguments
        self.comm = survivors(self.comm, given.channel, given.blocks is not None)
        return super()._network()

    def _check_method(self) -> None:
        check_graph(self.network)

    def _check_problem(self, problem: Problem[object]) -> None:
        check_leaving(problem)

    def _ended(self, options: Options, resumed: Resumed | None) -> Result:
        return continued(self, options, resumed)
