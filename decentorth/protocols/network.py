"""The network as an algorithm sees it, counter-based randomness, and quantities of the whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

from .arrays import Array, Index

Purpose = Literal["data", "partition", "start", "batch", "blocks", "fault"]


class Streams(Protocol):
    """Counter-based randomness: a pure function of (seed, agent, purpose, k). Nothing to save, nothing that knows a rank."""

    def integers(self, purpose: Purpose, k: int, size: int, high: int | Index) -> Index:
        """``(n_local, size)`` integers in ``[0, high)``; ``high`` may differ per agent, shape ``(n_local,)``."""

    def permutation(self, purpose: Purpose, k: int, n: int) -> Index:
        """``(n,)``: the same permutation on every agent (shared key)."""


class Spectrum(NamedTuple):
    """What the mixing matrix's design tells every agent in advance, like its own row of W."""

    lambda_2: float
    """Second largest eigenvalue of W."""
    lambda_min: float
    """Smallest eigenvalue of W."""


class Network(Protocol):
    """All an algorithm may know of the other agents: no rank, no reduction, nothing that depends on who shares a process."""

    n_agents: int

    @property
    def spectrum(self) -> Spectrum: ...
    @property
    def self_weights(self) -> Array:
        """``(n_local,)``: W_ii, what each agent keeps of its own."""

    def mix(self, *xs: Array, rounds: int = 1) -> tuple[Array, ...]:
        """``W^rounds x`` for each array, in one message per neighbour and round; always a tuple of fresh C-contiguous arrays."""

    def mix_alike(self, labels: Array, *xs: Array) -> tuple[Array, ...]:
        """``(heard, W x, ...)`` for one round in which agents listen only to those with their own label.

        ``heard``, ``(n_local,)``, is the largest label among an agent and its neighbours; an edge counts only between equal
        labels, the own weight takes up the rest. ``labels`` is ``(n_local,)`` and travels in the same message.
        """


class Collective(Protocol):
    """Whole-network quantities for metrics, stopping, set-up and files; never handed to an algorithm."""

    rank: int
    size: int

    def fold(self, size: int, add: Callable[[Array], None]) -> Array:
        """``(size,)``: like `sum`, where each rank in turn adds its agents' terms in agent order to the partial sum."""

    def sum(self, *per_agent: Array) -> tuple[Array, ...]:
        """``(n_local, ...) -> (...)`` for each, added in agent order: the same bits on any number of ranks."""

    def max(self, value: float) -> float:
        """The largest over all ranks; NaN if any is NaN."""

    def largest(self, values: Array) -> Array:
        """The largest of each over all ranks; finite or infinite."""

    def decide(self, on_root: bool) -> bool:
        """Rank 0's answer, on every rank (wall clock)."""

    def everyone(self, data: bytes) -> list[bytes]:
        """Every rank's bytes, in rank order, on every rank."""

    def same(self, what: str, digest: bytes) -> None:
        """Raises on every rank, naming the ranks that differ, unless all pass the same digest."""

    def together(self) -> AbstractContextManager[None]:
        """What fails inside on one rank, fails on every rank; nothing inside may communicate."""

    def stream(self, per_agent: Array) -> Iterator[Array]:
        """On rank 0 the blocks of all ranks in agent order, on the others nothing (they send)."""
