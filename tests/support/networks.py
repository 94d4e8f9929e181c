"""Networks that remember what every mix gave, and that give it again to one agent alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from decentorth.protocols import Array, Network, Spectrum


class Exchange(NamedTuple):
    """One call of ``mix``: copies of what went in and what came out, and the rounds asked for."""

    given: tuple[Array, ...]
    taken: tuple[Array, ...]
    rounds: int


class Recording:
    """A network with every ``mix`` written down."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.n_agents = network.n_agents
        self.exchanges: list[Exchange] = []

    @property
    def spectrum(self) -> Spectrum:
        return self._network.spectrum

    @property
    def self_weights(self) -> Array:
        return self._network.self_weights

    def mix(self, *xs: Array, rounds: int = 1) -> tuple[Array, ...]:
        given = tuple(x.copy() for x in xs)
        mixed = self._network.mix(*xs, rounds=rounds)
        self.exchanges.append(Exchange(given, tuple(x.copy() for x in mixed), rounds))
        return mixed


class Replaying:
    """What the agent ``agent`` sees of a recorded run: its rows of every mix, provided that it gives what it gave then."""

    def __init__(self, recording: Recording, agent: int) -> None:
        self._exchanges: Iterator[Exchange] = iter(recording.exchanges)
        self._agent = slice(agent, agent + 1)
        self.n_agents = recording.n_agents
        self.spectrum = recording.spectrum
        self.self_weights = recording.self_weights[self._agent]

    def mix(self, *xs: Array, rounds: int = 1) -> tuple[Array, ...]:
        then = next(self._exchanges)
        assert (len(xs), rounds) == (len(then.given), then.rounds)
        for now, given in zip(xs, then.given, strict=True):
            assert now.shape == (1, *given.shape[1:])
            assert now.tobytes() == np.ascontiguousarray(given[self._agent]).tobytes()
        return tuple(taken[self._agent].copy() for taken in then.taken)

    def exhausted(self) -> bool:
        """Whether every recorded exchange was asked for."""
        return next(self._exchanges, None) is None
