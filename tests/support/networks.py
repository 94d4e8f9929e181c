"""Networks that remember what every mix gave, and that give it again to one agent alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from decentorth.protocols import Array, Network


class Exchange(NamedTuple):
    """One call of ``mix`` or ``mix_alike``: copies of what went in and what came out, and the
    rounds asked for; 0: by labels."""

    given: tuple[Array, ...]
    taken: tuple[Array, ...]
    rounds: int


class Recording:
    """A network with every exchange written down."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.n_agents, self.directed, self.steady = (
            network.n_agents,
            network.directed,
            network.steady,
        )
        self.changes, self.varies = network.changes, network.varies
        self.exchanges: list[Exchange] = []

    def __getattr__(self, name: str) -> Any:
        if name not in (
            "changes",
            "varies",
            "spectrum",
            "joint_spectrum",
            "push_pull_spectrum",
            "self_weights",
            "sums",
            "sums_exactly",
            "flooding_rounds",
        ):
            raise AttributeError(name)
        return getattr(self._network, name)

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        def call(*both: Array) -> tuple[Array, ...]:
            return self._network.mix(*both[: len(xs)], rounds=rounds, push=both[len(xs) :])

        return self._recorded(call, (*xs, *push), rounds)

    def mix_alike(self, labels: Array, *xs: Array) -> tuple[Array, ...]:
        return self._recorded(self._network.mix_alike, (labels, *xs), 0)

    def total(self, *xs: Array) -> tuple[Array, ...]:
        return self._recorded(self._network.total, xs, 0)

    def mix_and_max(self, x: Array, *xs: Array) -> tuple[Array, ...]:
        return self._recorded(self._network.mix_and_max, (x, *xs), 0)

    def max(self, x: Array, rounds: int = 1) -> Array:
        """Of agents that meet, as no algorithm can."""
        network: Any = self._network
        return self._recorded(lambda x: (network.max(x, rounds),), (x,), rounds)[0]

    def _recorded(
        self, call: Callable[..., tuple[Array, ...]], xs: tuple[Array, ...], rounds: int
    ) -> tuple[Array, ...]:
        given = tuple(x.copy() for x in xs)
        taken = call(*xs)
        self.exchanges.append(Exchange(given, tuple(x.copy() for x in taken), rounds))
        return taken


class Replaying:
    """What the agent ``agent`` sees of a recorded run: its rows of every exchange, provided that it
    gives what it gave then."""

    def __init__(self, recording: Recording, agent: int) -> None:
        self._exchanges: Iterator[Exchange] = iter(recording.exchanges)
        self._agent = slice(agent, agent + 1)
        self.n_agents, self.directed = recording.n_agents, recording.directed
        self.changes = recording.changes
        self.varies = recording.varies
        self.push_pull_spectrum = recording.push_pull_spectrum
        if self.varies:
            self.joint_spectrum = recording.joint_spectrum
        if not self.directed:
            self.spectrum = recording.spectrum
        self.self_weights = recording.self_weights[self._agent]
        self.flooding_rounds = recording.flooding_rounds
        self.changes, self.varies = recording.changes, recording.varies

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        return self._replayed((*xs, *push), rounds)

    def mix_alike(self, labels: Array, *xs: Array) -> tuple[Array, ...]:
        return self._replayed((labels, *xs), 0)

    def mix_and_max(self, x: Array, *xs: Array) -> tuple[Array, ...]:
        return self._replayed((x, *xs), 0)

    def total(self, *xs: Array) -> tuple[Array, ...]:
        return self._replayed(xs, 0)

    def max(self, x: Array, rounds: int = 1) -> Array:
        return self._replayed((x,), rounds)[0]

    def _replayed(self, xs: tuple[Array, ...], rounds: int) -> tuple[Array, ...]:
        then = next(self._exchanges)
        assert (len(xs), rounds) == (len(then.given), then.rounds)
        for now, given in zip(xs, then.given, strict=True):
            assert now.shape == (1, *given.shape[1:])
            assert now.tobytes() == np.ascontiguousarray(given[self._agent]).tobytes()
        return tuple(taken[self._agent].copy() for taken in then.taken)

    def exhausted(self) -> bool:
        return next(self._exchanges, None) is None
