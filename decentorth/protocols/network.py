"""The network as an algorithm sees it, counter-based randomness, and quantities of the whole
network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

from .arrays import Array, Index

Purpose = Literal["data", "partition", "start", "batch", "blocks", "fault"]


class Streams(Protocol):
    """Counter-based randomness: a pure function of (seed, agent, purpose, k), without a state and
    independent of ranks."""

    def integers(self, purpose: Purpose, k: int, size: int, high: int | Index) -> Index:
        """Random integers ``(n_local, size)`` in ``[0, high)``; ``high`` may differ per agent,
        shape ``(n_local,)``."""

    def permutation(self, purpose: Purpose, k: int, n: int) -> Index:
        """A random permutation ``(n,)``, the same on every agent (shared key)."""


class Spectrum(NamedTuple):
    """The eigenvalues of the mixing matrix W that every agent knows in advance, like its own row of
    W."""

    lambda_2: float
    """The second largest eigenvalue of W."""
    lambda_min: float
    """The smallest eigenvalue of W."""


class PushPullSpectrum(NamedTuple):
    """Facts on the weights A and B of a directed network that every agent knows in advance
    (`topologies.PushPullSpectrum`); of a symmetric W, A = B = W."""

    sigma: float
    """The largest modulus of an eigenvalue of A or B, the eigenvalue 1 left out."""
    gain: float
    """``n pi^T v``, pi^T A = pi^T and B v = v of sum 1: by this factor the agents' common step is
    longer than their own."""
    limit: float
    """The product of common step and curvature up to which x <- A (x - a y) is stable."""
    late_limit: float
    """The same for x <- A x - a y."""


class JointSpectrum(NamedTuple):
    """Facts on a network that changes or loses messages, known to every agent in advance
    (`topologies.JointSpectrum`)."""

    gap: float
    """The share of a disagreement that a round removes on average."""
    lambda_min: float
    """The smallest eigenvalue of a round's matrix."""
    independent: bool
    """True if the rounds' matrices are drawn independently."""


class Network(Protocol):
    """The agents' network, without ranks, reductions or anything that depends on the placement of
    agents in processes."""

    n_agents: int

    @property
    def directed(self) -> bool:
        """True if the matrix A for points differs from the matrix B for what is pushed."""

    @property
    def spectrum(self) -> Spectrum: ...
    @property
    def push_pull_spectrum(self) -> PushPullSpectrum: ...
    @property
    def joint_spectrum(self) -> JointSpectrum: ...
    @property
    def changes(self) -> bool:
        """True if the graph, or its weights, change over time."""

    @property
    def varies(self) -> bool:
        """True if the graph changes over time, or messages may be lost."""

    @property
    def self_weights(self) -> Array:
        """The diagonal entries W_ii, ``(n_local,)``, the weights of the agents' own values."""

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        """Mix each array to ``W^rounds x``, in one message per neighbour and round; always a tuple
        of fresh C-contiguous arrays.

        The arrays in ``push``, whose sums over the agents stay, come last; on a directed network B
        mixes them, and A the others.
        """

    def total(self, *xs: Array) -> tuple[Array, ...]:
        """The sum over all agents of each array, in place of every agent's own: the same bits for
        all of them."""

    @property
    def sums_exactly(self) -> bool:
        """True if `total` can be used in iterations: the network's edges stay, and every message
        arrives."""

    @property
    def sums(self) -> bool:
        """True if `total` can be used in iterations, exactly or as the sum of coded values."""

    def mix_alike(self, labels: Array, *xs: Array) -> tuple[Array, ...]:
        """Mix for one round among agents of equal label and return ``(heard, W x, ...)``.

        ``heard``, ``(n_local,)``, is the largest label among an agent and its neighbours; an edge
        counts only between equal labels, the own weight takes up the rest. ``labels`` is
        ``(n_local,)`` and travels in the same message.
        """

    def mix_and_max(self, x: Array, *xs: Array) -> tuple[Array, ...]:
        """Mix each of ``xs`` for one round and return ``(largest, W x, ...)``.

        ``largest`` is the elementwise maximum of ``x`` over an agent and its neighbours; ``x``
        travels in the same message.
        """

    @property
    def steady(self) -> bool:
        """True if every message arrives, and the graph, which is undirected, and its weights
        stay."""

    @property
    def flooding_rounds(self) -> int:
        """The rounds after which a value has reached all agents, known in advance like the
        spectrum."""


class Collective(Protocol):
    """Quantities of the whole network for metrics, stopping, set-up and files; never passed to an
    algorithm."""

    rank: int
    size: int
    root: bool
    """True if this rank prints and writes files: rank 0, or a site for itself."""

    @property
    def streamed(self) -> int:
        """The number of agents in the blocks of `stream`: all, or those of this site."""

    def fold(self, size: int, add: Callable[[Array], None]) -> Array:
        """The sum ``(size,)`` to which each rank in turn adds its agents' terms in agent order."""

    def sum(self, *per_agent: Array) -> tuple[Array, ...]:
        """The sums over agents, ``(n_local, ...) -> (...)`` each, added in agent order: the same
        bits on any number of ranks."""

    def each(self, size: int, terms: Iterable[Array]) -> Array:
        """The sum ``(size,)`` of the terms of all agents, of which those of this process come in
        agent order, each made when it is asked for."""

    def column_sums(self, per_agent: Array) -> Array:
        """Return the sums over agents, ``(n_local, k) -> (k,)``.

        Messages are counted, and follow the edges of the graph if there is one.
        """

    def max(self, value: float) -> float:
        """The largest over all ranks; NaN if any is NaN."""

    def largest(self, values: Array) -> Array:
        """The largest of each of the values over all ranks; finite or infinite."""

    def decide(self, on_root: bool) -> bool:
        """Return the decision of rank 0 on every rank, for decisions by its wall clock; True if any
        site decides so."""

    def everyone(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks in rank order, on every rank."""

    def ours(self, data: bytes) -> list[bytes]:
        """The bytes of the ranks that share this rank's files and screen, in rank order: of all
        ranks, or of this site alone."""

    def same(self, what: str, digest: bytes) -> None:
        """Raise ValueError on every rank, naming the ranks that differ from rank 0, unless all pass
        the same digest."""

    def together(self) -> AbstractContextManager[None]:
        """A context in which all ranks raise the error of one, the others as a ValueError; its body
        must not communicate."""

    def stream(self, per_agent: Array) -> Iterator[Array]:
        """The blocks of all ranks in agent order on rank 0, nothing on the other ranks (they send);
        at a site its own block."""
