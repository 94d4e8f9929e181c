"""Mixing over a network of agents: the exchange plan, the transport, the `Network` class, and
faults of messages and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .halo import even_bounds as even_bounds
    from .network import Network as Network
    from .network import Placement as Placement
    from .transport.along_edges import AlongEdges as AlongEdges
    from .transport.along_edges import Carrier as Carrier
    from .transport.communicator import Communicator as Communicator
    from .transport.communicator import SerialCommunicator as SerialCommunicator
    from .transport.communicator import Shrinking as Shrinking
    from .transport.communicator import connect as connect
    from .transport.communicator import surviving as surviving
    from .unreliable.agent_faults import UnreliableAgents as UnreliableAgents
    from .unreliable.agent_faults import check_method as check_method
    from .unreliable.channel import Channel as Channel
    from .unreliable.channel import ChannelError as ChannelError
    from .unreliable.unreliable_network import UnreliableNetwork as UnreliableNetwork

__getattr__, __dir__ = lazily(__name__)
