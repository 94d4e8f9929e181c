"""Mixing over a network of agents: the exchange plan, the transport, the `Network` class, and faults of messages and agents."""

from .halo import even_bounds
from .network import Network, Placement
from .transport.communicator import Communicator, SerialCommunicator, Shrinking, connect, surviving
from .unreliable.agents import UnreliableAgents, check_method
from .unreliable.channel import Channel, ChannelError
from .unreliable.network import UnreliableNetwork

__all__ = [
    "Channel",
    "ChannelError",
    "Communicator",
    "Network",
    "Placement",
    "SerialCommunicator",
    "Shrinking",
    "UnreliableAgents",
    "UnreliableNetwork",
    "check_method",
    "connect",
    "even_bounds",
    "surviving",
]
