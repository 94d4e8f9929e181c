"""Mixing over a network of agents: the exchange plan, the transport, the `Network` class, and faults of messages and agents."""

from .channel import Channel
from .communicator import Communicator, SerialCommunicator, Shrinking, connect, surviving
from .halo import even_bounds
from .network import Network, Placement
from .unreliable import ChannelError, UnreliableNetwork

__all__ = [
    "Channel",
    "ChannelError",
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
