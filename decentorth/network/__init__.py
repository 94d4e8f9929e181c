"""Mixing over a network of agents: the plan, the transport and the one `Network` class."""

from .communicator import Communicator, SerialCommunicator, connect
from .halo import even_bounds
from .network import Network, Placement

__all__ = ["Communicator", "Network", "Placement", "SerialCommunicator", "connect", "even_bounds"]
