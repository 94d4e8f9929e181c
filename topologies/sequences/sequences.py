"""Time-varying communication: one symmetric, doubly stochastic matrix per iteration, a pure
function of (seed, k).

``sequence.at(10**9)`` costs as much as ``sequence.at(0)``. Iterations that use the same matrix have
the same ``sequence.distinct(k)``, so that a plan for a matrix can be kept.

Sources. One-peer exponential graph, here in its undirected form, the dimensions of a hypercube in
turn: Ying, Yuan, Chen, Hu, Pan and Yin, "Exponential graph is provably efficient for decentralized
deep training" (2021). Random gossip pairs: Boyd, Ghosh, Prabhakar and Shah, "Randomized gossip
algorithms" (2006).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from topologies.canonical import Adjacency, Weights, WeightsLike, canonical_weights, on_edges, upper
from topologies.graphs.graph_families import at_least, count
from topologies.line.later import nx
from topologies.weights.weight_checks import adjacency


class WeightSequence(ABC):
    """Mixing matrices W(0), W(1), ..., each symmetric and doubly stochastic, shape (n, n); single
    ones may be disconnected.

    Examples
    --------
    >>> import topologies as tp
    >>> sequence = tp.sequence_from_name("link_failures:p=0.2@ring", 8)
    >>> isinstance(sequence, tp.WeightSequence), sequence.at(0).shape
    (True, (8, 8))
    """

    n: int
    """Number of agents."""
    period: int | None = None
    """The period, W(k + period) = W(k) for all k; None for a sequence without one."""
    independent: bool = False
    """True if the matrices are drawn independently of each other."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, period={self.period})"

    @abstractmethod
    def at(self, k: int) -> Weights:
        """W(k), in canonical form. Raises ValueError if ``k`` is negative."""

    @abstractmethod
    def distinct(self, k: int) -> Hashable:
        """A key that two iterations share exactly if they use the same matrix for a known reason:
        the same turn or draw."""


class PeriodicSequence(WeightSequence):
    """A sequence that repeats the given matrices, each of shape (n, n), in turn.

    Raises TypeError or ValueError if there is none, their sizes differ, or one is not a mixing
    matrix (see `canonical_weights`).

    Examples
    --------
    >>> import topologies as tp
    >>> ring = tp.metropolis_weights(tp.ring(6))
    >>> star = tp.metropolis_weights(tp.star(6))
    >>> sequence = tp.PeriodicSequence([ring, star])
    >>> bool((sequence.at(2) != sequence.at(0)).nnz == 0)
    True
    """

    def __init__(self, matrices: Sequence[WeightsLike]) -> None:
        self._matrices = [canonical_weights(W) for W in matrices]
        sizes = sorted({W.shape[0] for W in self._matrices})
        if len(sizes) != 1:
            raise ValueError(
                f"a periodic sequence needs matrices of one size, got {len(self._matrices)} of "
                f"sizes {sizes}"
            )
        self.n = sizes[0]
        self.period = len(self._matrices)

    def at(self, k: int) -> Weights:
        return self._matrices[self.distinct(k)].copy()

    def distinct(self, k: int) -> int:
        return _iteration(k) % len(self._matrices)


class OnePeerExponential(PeriodicSequence):
    """At iteration k, agent i averages with agent i XOR 2^(k mod log2 n) alone: after log2 n
    iterations, the exact mean.

    Raises ValueError if n is not a power of 2, or below 2.

    Examples
    --------
    >>> import numpy as np
    >>> import topologies as tp
    >>> sequence = tp.OnePeerExponential(8)
    >>> product = sequence.at(2) @ sequence.at(1) @ sequence.at(0)
    >>> np.allclose(product.toarray(), 1 / 8)
    True
    """

    def __init__(self, n: int) -> None:
        size = count("one_peer_exponential", n)
        dimensions = size.bit_length() - 1
        if size < 2 or size != 2**dimensions:
            raise ValueError(
                "one_peer_exponential: the number of agents must be a power of 2, at least 2, "
                f"got {n}; use random_matching"
            )
        agents = np.arange(size)
        matchings = [agents[agents & (1 << j) == 0] for j in range(dimensions)]
        super().__init__([_paired(size, half, half | (1 << j)) for j, half in enumerate(matchings)])


class _Drawn(WeightSequence):
    """Independent draws: the generator of iteration k depends on (seed, k) only."""

    independent = True

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self._seed = operator.index(seed)

    def _generator(self, k: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(_iteration(k),)))

    def at(self, k: int) -> Weights:
        return _paired(self.n, *self._pairs(k).T)

    def distinct(self, k: int) -> Hashable:
        return self._pairs(k).tobytes()

    @abstractmethod
    def _pairs(self, k: int) -> NDArray[np.int64]:
        """The edges used at iteration k, shape (edges, 2), in a fixed order."""


class RandomMatching(_Drawn):
    """At each iteration a uniform random matching of all agents (one sits out where n is odd); the
    paired average.

    Examples
    --------
    >>> import topologies as tp
    >>> W = tp.RandomMatching(4, seed=0).at(0)
    >>> W.toarray()
    array([[0.5, 0.5, 0. , 0. ],
           [0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5],
           [0. , 0. , 0.5, 0.5]])
    """

    def __init__(self, n: int, seed: int = 0) -> None:
        n = at_least(2, count("random_matching", n), "random_matching: the number of agents")
        super().__init__(n, seed)

    def _pairs(self, k: int) -> NDArray[np.int64]:
        pairs = self._generator(k).permutation(self.n)[: self.n // 2 * 2].reshape(-1, 2)
        ordered = np.sort(pairs, axis=1)
        return ordered[np.argsort(ordered[:, 0])]


class RandomGossip(_Drawn):
    """At each iteration one edge of the graph, drawn uniformly; its two agents average, all others
    keep their values.

    Raises the errors of `check_graph`, and ValueError for a graph without edges.

    Examples
    --------
    >>> import topologies as tp
    >>> sequence = tp.RandomGossip(tp.ring(6), seed=0)
    >>> sequence.at(0).toarray().max(axis=0)
    array([1. , 1. , 1. , 0.5, 0.5, 1. ])
    """

    def __init__(self, graph: nx.Graph[int] | Adjacency, seed: int = 0) -> None:
        self._edges = _edge_pairs(adjacency(graph))
        if not len(self._edges):
            raise ValueError("random_gossip needs an edge, got a single agent")
        super().__init__(int(self._edges.max()) + 1, seed)

    def _pairs(self, k: int) -> NDArray[np.int64]:
        return self._edges[[int(self._generator(k).integers(len(self._edges)))]]


class LinkFailures(_Drawn):
    """A mixing matrix whose edges fail independently with probability ``p`` per iteration, their
    weight kept by both agents.

    Raises TypeError or ValueError if ``W`` is not a mixing matrix (see `canonical_weights`) or
    ``p`` is outside [0, 1).

    Examples
    --------
    >>> import topologies as tp
    >>> changing = tp.LinkFailures(tp.metropolis_weights(tp.ring(6)), p=0.2, seed=0)
    >>> changing.at(0).nnz, changing.at(1).nnz
    (16, 18)
    """

    def __init__(self, W: WeightsLike, p: float = 0.1, seed: int = 0) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"link_failures: p must be a probability in [0, 1), got {p}")
        self._W = canonical_weights(W)
        self._p = p
        self._edges = _edge_pairs(self._W)
        self._weights = upper(self._W).data
        super().__init__(self._W.shape[0], seed)

    def _working(self, k: int) -> NDArray[np.bool_]:
        return self._generator(k).random(len(self._edges)) >= self._p

    def _pairs(self, k: int) -> NDArray[np.int64]:
        return self._edges[self._working(k)]

    def distinct(self, k: int) -> Hashable:
        return np.packbits(self._working(k)).tobytes()

    def at(self, k: int) -> Weights:
        working = self._working(k)
        tails, heads = self._edges[working].T
        return on_edges(self.n, tails, heads, self._weights[working])


def joint_contraction(sequence: WeightSequence, start: int = 0, window: int | None = None) -> float:
    """The contraction of the consensus error over a window of iterations, ||W(start + window - 1)
    ... W(start) - 11'/n||, dense.

    Without ``window``, one period.

    Raises ValueError if ``window`` is not positive, or left out for a sequence without a period.
    """
    length = sequence.period if window is None else window
    if length is None:
        raise ValueError("the sequence is not periodic: give a window, for example n iterations")
    if length < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    product = np.eye(sequence.n)
    for k in range(start, start + length):
        product = np.asarray(sequence.at(k) @ product)
    return float(np.linalg.norm(product - 1 / sequence.n, 2))


def _paired(n: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> Weights:
    return on_edges(n, first, second, np.full(len(first), 0.5))


def _edge_pairs(matrix: Weights) -> NDArray[np.int64]:
    once = upper(matrix)
    return np.stack([once.row, once.col], axis=1).astype(np.int64)


def _iteration(k: int) -> int:
    if operator.index(k) < 0:
        raise ValueError(f"iterations count from 0, got {k}")
    return operator.index(k)
