"""Mixing over a network of agents: the plan, the transport, the one `Network` class, and what may go wrong on the way."""

from .channel import Channel
from .communicator import Communicator, SerialCommunicator, Shrinking, connect, surviving
from .halo import even_bounds
from .network import Network, Placement
from .unreliable import UnreliableNetwork

__all__ = [
    "Channel",
    "Communicator",
    "Network",
    "Placement",
    "SerialCommunicator",
    "Shrinking",
    "UnreliableNetwork",
    "connect",
    "even_bounds",
    "surviving",
]
