"""Mixing over a network of agents: the plan, the transport, the one `Network` class, and what may go wrong on the way."""

from .channel import Channel
from .communicator import Communicator, SerialCommunicator, connect
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
    "UnreliableNetwork",
    "connect",
    "even_bounds",
]
