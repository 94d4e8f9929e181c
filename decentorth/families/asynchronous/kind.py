"""A run whose agents do not go in common iterations: what it refuses, and its rows, checkpoints and
log."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from decentorth.api.arguments import AnySetup
from decentorth.api.kinds.plain import Run
from decentorth.api.rank_loss import divided_anew
from decentorth.api.result import Result
from decentorth.network import Network, surviving
from decentorth.protocols import Asynchronous
from decentorth.running.checkpoint import CheckpointWriter, Resumed
from decentorth.running.checkpoint.checkpoint_files import AGENTS, on_all
from decentorth.running.loop import Outcome
from decentorth.running.options import Options
from decentorth.running.parts import Parts
from decentorth.stopping import LocalMaximum, rules_of

log = logging.getLogger(__name__)


class AsynchronousRun(Run):
    """A run whose iterations are activations of single agents.

    The agents draw the losses of messages themselves.
    """

    precedence = 30
    repairs = False
    algorithm: Asynchronous

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return isinstance(arguments.algorithm, Asynchronous)

    def _network(self) -> Network:
        if self.arguments.on_rank_loss == "shrink":
            raise ValueError(
                "on_rank_loss shrink is not for an asynchronous run: give restart, or leave it out"
            )
        return super()._network()

    def _check_method(self) -> None:
        """Give the network its channel: messages before the agents' first activation are
        reliable."""
        network: Any = self.network
        communicator = network.communicator
        if communicator.size > 1 and not communicator.posts:
            raise ValueError(
                "agents that do not wait for each other need ranks of MPI, or one process, and "
                f"this is {communicator.describe()['kind']}: take drfgt"
            )
        if self.arguments.faults is not None:
            self.algorithm.check_channel(self.arguments.faults)
            network.channel = self.arguments.faults
        with self.collective.together():
            if self.collective.rank == 0:
                self.algorithm.check_place()

    def _options(self, options: Options) -> Options:
        """On several ranks the rows are the first and the last alone."""
        if rules_of(LocalMaximum, options.rule):
            raise ValueError("LocalMaximum is not for an asynchronous run: give end_tolerance")
        if self.network.communicator.size > 1:
            options = replace(options, rows=2, record_every=None)
        return replace(options, iterations=self.algorithm.activations)

    @property
    def parts(self) -> AgentParts:
        method = self.method
        return AgentParts(
            self.problem, method, self.network, self.collective, self.streams, self.start, method
        )

    def result(self, outcome: Outcome) -> Result:
        """Return the result, after writing the log if there is one."""
        result = super().result(outcome)
        failed = self.collective.everyone(self._logged(result).encode())[0].decode()
        return replace(result, unwritten="; ".join(filter(None, (result.unwritten, failed))))

    def _logged(self, result: Result) -> str:
        """Write the log and return why that failed, or ""."""
        if self.algorithm.log is None:
            return ""
        facts: dict[str, object] = {"seed": self.arguments.seed, "settings": dict(self.about)}
        facts["iterates_sha256"] = result.iterates_sha256
        try:
            self.algorithm.write_log(result.state.agents, facts, self.collective)
        except OSError as error:
            trouble = f"the log {self.algorithm.log} is not written: {error.strerror or error}"
            log.warning(trouble)
            return trouble
        return ""

    def _recovered(self, resumed: Resumed) -> Resumed:
        """Agents continue from their own checkpoints, if any beside the common one."""
        if resumed.path is None:
            return resumed
        own = resumed.path / AGENTS
        state = resumed.state
        made = on_all(self.collective, lambda: self.algorithm.recover(state.agents, own))
        if self.collective.size > 1:
            return resumed
        return resumed._replace(state=state._replace(k=max(state.k, made)))


class Restarting(AsynchronousRun):
    """The agents of a rank that is lost begin again from their own checkpoints, on the ranks that
    are left."""

    precedence = 20

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return arguments.on_rank_loss == "restart"

    def _network(self) -> Network:
        if not AsynchronousRun.fits(self.arguments):
            raise ValueError(
                "on_rank_loss restart is for asynchronous agents: give shrink, or leave it out"
            )
        if self.algorithm.log is not None:
            raise ValueError(
                "a log repeats a run from its start, which is lost with on_rank_loss restart: "
                "drop one of them"
            )
        self.comm = surviving(self.comm)
        return super()._network()

    def _options(self, options: Options) -> Options:
        if self.network.communicator.size > 1 and options.checkpoints is None:
            raise ValueError(
                "on_rank_loss restart needs the agents' checkpoints: give checkpoints, or leave "
                "it out"
            )
        return super()._options(options)

    def _ended(self, options: Options, resumed: Resumed | None) -> Result:
        return divided_anew(self, options, resumed)


class AgentParts(Parts):
    """The parts of a run whose agents cannot be reset to an earlier copy of their points."""

    repeats = False

    def written_by(self, writer: CheckpointWriter, state: Any) -> None:
        if self.collective.size > 1:
            writer.beside(state.agents, state.k)
