"""The seconds that a run would take on a network, from its rounds and bytes, which are the same
whatever carried them.

Agents compute, send and receive one after the other, and nothing overlaps:

    seconds = computing + latency * rounds + bytes / agents / bandwidth

``bytes / agents`` is what an agent sends on average. On a graph with a hub, the hub sends and
receives more, and takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topologies.line import text
from topologies.line.flags import InputError
from topologies.line.typed import declared

from ...protocols import Array
from ...running.history import Columns
from ...settings import NotNegative, Positive, Settings


@dataclass(frozen=True, kw_only=True)
class NetworkModel(Settings):
    """The times that messages take over a network.

    Parameters
    ----------
    latency
        Seconds that a message is under way.
    bandwidth
        Bytes that an agent sends in a second; None for no limit.
    compute
        Seconds that an agent computes in an iteration, the same for every method; None for the
        measured ones.

    Examples
    --------
    >>> from decentorth.lab.compare import NetworkModel
    >>> NetworkModel(latency=1e-3, bandwidth=1e8, compute=0.0)
    NetworkModel(latency=0.001, bandwidth=100000000.0, compute=0.0)
    """

    latency: NotNegative = 0.0
    bandwidth: Positive | None = None
    compute: NotNegative | None = None

    def __str__(self) -> str:
        """The parameters that are given."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return ", ".join(f"{name} {value:g}" for name, value in given.items())

    @classmethod
    def named(cls, name: str) -> NetworkModel:
        """One of `NETWORKS` with changed parameters: ``"wan:latency=0.1"``; or parameters alone:
        ``"latency=1e-3,bandwidth=1e8"``.

        Raises
        ------
        InputError
            An unknown name or parameter, or a value that does not fit.
        """
        try:
            first = _IDEAL
            written = name
            if "=" not in name.partition(":")[0]:
                first, written = text.divided("network", name, NETWORKS, _OWN)
            where = f"network {name!r}"
            given = text.values(where, first, declared(cls), written)
            return text.built(where, first, cls, vars(NETWORKS[first]) | given)
        except ValueError as error:
            raise InputError(str(error)) from None


_IDEAL, _OWN = "ideal", "your own as latency=1e-3,bandwidth=1e8"
NETWORKS: Mapping[str, NetworkModel] = {
    _IDEAL: NetworkModel(),
    "datacenter": NetworkModel(latency=2e-5, bandwidth=3.125e9),
    "lan": NetworkModel(latency=2e-4, bandwidth=1.25e8),
    "wan": NetworkModel(latency=4e-2, bandwidth=1.25e7),
    "wifi": NetworkModel(latency=3e-3, bandwidth=6.25e6),
    "satellite": NetworkModel(latency=0.27, bandwidth=1.25e6),
}
"""Orders of magnitude, not measurements: one way, TCP between processes; 25 Gbit/s, 1 Gbit/s, 100,
50 and 10 Mbit/s."""


def wall_time(model: NetworkModel, agents: int, history: Columns) -> Array:
    """The modelled seconds at each row of a run's history.

    Parameters
    ----------
    agents
        The number of agents.
    history
        The columns iteration, rounds, bytes and seconds.
    """
    seconds: Array = history["seconds"] / agents
    if model.compute is not None:
        seconds = model.compute * (history["iteration"] + 1.0)  # one more for the start
    seconds = seconds + model.latency * history["rounds"]
    if model.bandwidth is not None:
        seconds += history["bytes"] / agents / model.bandwidth
    return seconds
