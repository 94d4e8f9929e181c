"""The agents of a network as one agent, for methods of one agent that all of them run equally."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..protocols import Array, PushPullSpectrum, Spectrum
from .collective import AgentCollective
from .ledger import Ledger
from .network import InFlight, Network


class JointAgent:
    """The network of agents that hold the same point, as that of one agent without neighbours.

    Everything else, counts and messages among them, is the network's own.

    Parameters
    ----------
    network
        The network of all agents.
    memory
        Sums that the agents know and that a checkpoint keeps (`problems.SpreadProblem`); None where
        they keep none.
    """

    n_agents = n_local = 1
    agents: ClassVar[slice] = slice(0, 1)
    spectrum = Spectrum(0.0, 0.0)
    push_pull_spectrum = PushPullSpectrum(0.0, 1.0, np.inf, np.inf)
    flooding_rounds = 0
    period = 1

    def __init__(self, network: Network, memory: Any = None) -> None:
        self._network = network
        self._memory = memory
        self.self_weights = np.ones(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    @property
    def final_ledger(self) -> Ledger | None:
        """The ledger of a run that has ended, see `Network.final_ledger`."""
        return self._network.final_ledger

    @final_ledger.setter
    def final_ledger(self, ledger: Ledger | None) -> None:
        self._network.final_ledger = ledger

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        """The arrays, in new ones: the mean of one agent."""
        return tuple([x.copy() for x in (*xs, *push)])

    def max(self, x: Array, rounds: int = 1) -> Array:
        """The largest of one agent."""
        return x

    def total(self, *xs: Array) -> tuple[Array, ...]:
        """The sum over one agent."""
        return self.mix(*xs)

    def in_flight(self) -> dict[str, Array]:
        """The sums that the agents know, in the place of messages on their way."""
        known = self._network.in_flight()
        return known if self._memory is None else known | self._memory.remembered()

    def restore(self, rounds: int, messages: int, bytes: int, in_flight: InFlight) -> None:
        """Continue from the counts of a checkpoint, and with the sums that the agents knew."""
        held = self._network.in_flight().keys()
        if self._memory is not None:
            self._memory.remember({name: in_flight[name] for name in in_flight.keys() - held})
        own = {name: in_flight[name] for name in in_flight.keys() & held}
        self._network.restore(rounds, messages, bytes, own)


class TreeCollective(AgentCollective):
    """Sums over all agents along the edges of their network, where they are counted.

    Parameters
    ----------
    network
        The network of all agents.
    add
        From arrays of the agents' numbers, ``(n_local, k)`` each, to their sums, side by side:
        by default `Network.total`; `Network.column_sums` before a run, on networks of every kind.
    holders
        All agents in words, as for `AgentCollective`.
    """

    def __init__(
        self,
        network: Network,
        add: Callable[..., Array] | None = None,
        holders: Sequence[str] = (),
    ) -> None:
        super().__init__(network.communicator, network.bounds, network.column_sums, holders=holders)
        self._add = add or (lambda *xs: np.concatenate([total[0] for total in network.total(*xs)]))
        self._masked = network.masks is not None

    def fold(self, size: int, add: Callable[[Array], None]) -> Array:
        if self._masked:
            raise ValueError(
                "secure sums cannot make what this needs, a factor of all samples, which passes "
                "from rank to rank as it is: leave secure out; or give a ridge, where columns are "
                "dependent, and leave answer out"
            )
        return super().fold(size, add)

    def sum(self, *per_agent: Array) -> tuple[Array, ...]:
        flat = [x.reshape(len(x), -1) for x in per_agent]
        ends = np.cumsum([x.shape[1] for x in flat])
        sums = np.split(self._add(*flat), ends[:-1])
        return tuple(part.reshape(x.shape[1:]) for x, part in zip(per_agent, sums, strict=True))

    def each(self, size: int, terms: Iterable[Array]) -> Array:
        return self._add(np.stack([term.reshape(size) for term in terms]))
