"""A run over a simulated channel: messages are lost, late or changed, and agents fail."""

from __future__ import annotations

import logging
from typing import Any

from ... import network as networks
from ...algorithms.decentralized.wrappers import Wrapper
from ...network import ChannelError, Network
from ...protocols import Declared
from ...running.parts import Method
from .. import steps
from ..arguments import AnySetup
from .plain import Run

log = logging.getLogger(__name__)


class Unreliable(Run):
    """The network has the faults of messages, and the method, as it is run, those of agents around
    it."""

    precedence = 70

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return arguments.channel is not None

    @property
    def _channel(self) -> Any:
        return self.arguments.faults

    def _network(self) -> Network:
        given = self.arguments
        faults = self._channel
        network = networks.UnreliableNetwork(
            given.mixing[0], self.comm, given.placement, channel=faults, seed=given.seed
        )
        if network.n_agents > 1 and Declared.of(self.algorithm).safe:
            network.check_alike()
        return network

    def _check_method(self) -> None:
        network: Any = self.network
        warns = network.communicator.root
        if steps.grows(self.algorithm):
            raise ChannelError(
                "growing steps need every message as it was sent: take step size auto"
            )
        inside: Any = self.algorithm
        if isinstance(inside, Wrapper):
            inside = inside.method
        networks.check_method(inside, self._channel, warns)
        if warns and Declared.of(self.algorithm).mixes:
            for caution in network.cautions:
                log.warning(caution)

    def _stepper(self, method: Method) -> object:
        network: Any = self.network
        return networks.UnreliableAgents(method, network, self.x0)
