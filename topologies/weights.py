"""Mixing matrices from graphs: symmetric, doubly stochastic, supported on the edges and the diagonal.

Sources. Uniform: Sun, Chen, Garcia and Shahrampour, "Global convergence of decentralized retraction-free optimization on the
Stiefel manifold", section V (ring of 10, own weight 0.8, neighbours 0.1). Maximum degree: Boyd, Diaconis and Xiao, "Fastest
mixing Markov chain on a graph" (2004). Metropolis: Xiao, Boyd and Lall, "A scheme for robust distributed sensor fusion based on
average consensus" (2005), whose ``1 + max`` keeps every own weight positive. Local degree and best constant: Xiao and Boyd, "Fast
linear iterations for distributed averaging" (2004).
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from topologies.canonical import Weights, WeightsLike, canonical_weights, row_sums, with_diagonal
from topologies.checks import adjacency, check_weights
from topologies.fastest import fdla_weights, fmmc_weights
from topologies.spectra import laplacian_extremes

if TYPE_CHECKING:
    import networkx as nx

    from topologies.canonical import Adjacency

_RULES = ("auto", "uniform", "metropolis", "max-degree", "local-degree", "best-constant", "fmmc", "fdla")
_LAZY = "lazy-"


def uniform_weights(graph: nx.Graph[int] | Adjacency, self_weight: float = 0.8) -> Weights:
    """``W_ii = self_weight``, ``W_ij = (1 - self_weight) / degree``, shape (n, n), where all agents have the same degree.

    A single agent gets ``[[1]]``.

    Raises
    ------
    ValueError
        If ``self_weight`` is outside [0, 1), two degrees differ, or W has the eigenvalue -1; for the graph as `check_graph`.
    """
    return check_weights(_uniform(adjacency(graph), self_weight))


def metropolis_weights(graph: nx.Graph[int] | Adjacency) -> Weights:
    """``W_ij = 1 / (1 + max(degree_i, degree_j))``, shape (n, n), the rest on the diagonal.

    Raises
    ------
    ValueError
        For the graph as `check_graph`.
    """
    return check_weights(_metropolis(adjacency(graph)))


def max_degree_weights(graph: nx.Graph[int] | Adjacency) -> Weights:
    """``W_ij = 1 / d`` with d the largest degree, ``W_ii = (d - degree_i) / d``, shape (n, n).

    Raises
    ------
    ValueError
        If the graph is regular and bipartite, so that W has the eigenvalue -1; for the graph as `check_graph`.
    """
    return check_weights(_max_degree(adjacency(graph)))


def local_degree_weights(graph: nx.Graph[int] | Adjacency) -> Weights:
    """``W_ij = 1 / max(degree_i, degree_j)``, shape (n, n), the rest on the diagonal.

    Raises
    ------
    ValueError
        If the graph is regular and bipartite, so that W has the eigenvalue -1; for the graph as `check_graph`.
    """
    return check_weights(_local_degree(adjacency(graph)))


def best_constant_weights(graph: nx.Graph[int] | Adjacency) -> Weights:
    """``W = I - a L`` with the Laplacian L and the a of least sigma, 2 / (lambda_2(L) + lambda_n(L)); shape (n, n).

    Own weights may be negative.

    Raises
    ------
    ValueError
        For the graph as `check_graph`.
    """
    return check_weights(_best_constant(adjacency(graph)))


def lazy(W: WeightsLike) -> Weights:
    """``(I + W) / 2``, shape (n, n), whose eigenvalues are not negative where W's lie in [-1, 1].

    Raises
    ------
    TypeError, ValueError
        If the result fails `check_weights`; W itself may have the eigenvalue -1.
    """
    return check_weights(_lazy(canonical_weights(W)))


def weights_from_name(graph: nx.Graph[int] | Adjacency, name: str = "auto", self_weight: float = 0.8) -> Weights:
    """The mixing matrix, shape (n, n), of a named rule: see `available_weights` and `resolve_weights_name`.

    Parameters
    ----------
    graph : networkx.Graph or sparse adjacency matrix
    name : str
        A rule's name; ``auto`` is ``uniform`` on a regular graph and ``metropolis`` on any other.
    self_weight : float
        The own weight, used by ``uniform`` only.

    Raises
    ------
    ValueError
        If the name is unknown, or as the rule itself.
    """
    edges = adjacency(graph)
    resolved = _resolve(edges, name)
    rule = resolved.removeprefix(_LAZY)
    W = _uniform(edges, self_weight) if rule == "uniform" else _BUILD[rule](edges)
    return check_weights(W if rule == resolved else _lazy(W))


def resolve_weights_name(graph: nx.Graph[int] | Adjacency, name: str = "auto") -> str:
    """The rule that `weights_from_name` follows on this graph: the name with ``auto`` replaced by its choice.

    Raises
    ------
    ValueError
        If the name is unknown; for the graph as `check_graph`.
    """
    return _resolve(adjacency(graph), name)


def available_weights() -> tuple[str, ...]:
    """The names that `weights_from_name` knows."""
    return (*_RULES, *(_LAZY + rule for rule in _RULES))


def _resolve(edges: Weights, name: str) -> str:
    asked = name.strip().lower().replace("_", "-")
    known = available_weights()
    if asked not in known:
        near = get_close_matches(asked, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown weights {name!r}; {hint}known weights: {', '.join(known)}")
    degrees = np.diff(edges.indptr)
    return asked.replace("auto", "uniform" if degrees.min() == degrees.max() else "metropolis")


def _uniform(edges: Weights, self_weight: float) -> Weights:
    if not 0 <= self_weight < 1:
        raise ValueError(f"self_weight must be in [0, 1), so that neighbours get some weight, got {self_weight}")
    n = edges.shape[0]
    if n == 1:
        return with_diagonal(edges, np.ones(1))
    degrees = np.diff(edges.indptr)
    other = int(np.argmax(degrees != degrees[0]))
    if other:
        raise ValueError(
            f"uniform weights need a graph whose agents have equally many neighbours, but agent 0 has {degrees[0]} and agent "
            f"{other} has {degrees[other]}; use metropolis weights"
        )
    return with_diagonal(edges * ((1 - self_weight) / float(degrees[0])), np.full(n, float(self_weight)))


def _metropolis(edges: Weights) -> Weights:
    degrees = np.diff(edges.indptr)
    result = edges.copy()
    result.data = 1 / (1.0 + np.maximum(np.repeat(degrees, degrees), degrees[edges.indices]))
    return with_diagonal(result, 1 - row_sums(result))


def _max_degree(edges: Weights) -> Weights:
    degrees = np.diff(edges.indptr)
    largest = max(1, int(degrees.max()))
    return with_diagonal(edges * (1 / largest), (largest - degrees) / largest)


def _local_degree(edges: Weights) -> Weights:
    degrees = np.diff(edges.indptr)
    result = edges.copy()
    result.data = 1 / np.maximum(np.repeat(degrees, degrees), degrees[edges.indices]).astype(np.float64)
    return with_diagonal(result, 1 - row_sums(result))


def _best_constant(edges: Weights) -> Weights:
    if edges.shape[0] == 1:
        return with_diagonal(edges, np.ones(1))
    second, largest = laplacian_extremes(edges)
    result = edges * (2 / (second + largest))
    return with_diagonal(result, 1 - row_sums(result))


def _lazy(W: Weights) -> Weights:
    return with_diagonal(W * 0.5, (1 + W.diagonal()) / 2)


_BUILD: dict[str, Callable[[Weights], Weights]] = {
    "metropolis": _metropolis,
    "max-degree": _max_degree,
    "local-degree": _local_degree,
    "best-constant": _best_constant,
    "fmmc": fmmc_weights,
    "fdla": fdla_weights,
}
