"""Mixing over a network of agents: the plan, the transport and the one `Network` class."""

from .communicator import Communicator, SerialCommunicator, connect
from .network import Network, Placement

__all__ = ["Communicator", "Network", "Placement", "SerialCommunicator", "connect"]
