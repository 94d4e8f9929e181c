"""Mixing matrices from graphs: symmetric, doubly stochastic, supported on the edges and the
diagonal.

Sources. Uniform: Sun, Chen, Garcia and Shahrampour, "Global convergence of decentralized
retraction-free optimization on the Stiefel manifold", section V (ring of 10, own weight 0.8,
neighbours 0.1). Maximum degree: Boyd, Diaconis and Xiao, "Fastest mixing Markov chain on a graph"
(2004). Metropolis: Xiao, Boyd and Lall, "A scheme for robust distributed sensor fusion based on
average consensus" (2005), whose ``1 + max`` keeps every own weight positive. Local degree and best
constant: Xiao and Boyd, "Fast linear iterations for distributed averaging" (2004).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeAlias

import numpy as np

from topologies.canonical import (
    Adjacency,
    Weights,
    WeightsLike,
    canonical_weights,
    row_sums,
    with_diagonal,
)
from topologies.graphs.graph_families import Labelled
from topologies.line.later import nx
from topologies.line.words import suggestion
from topologies.spectra.eigenvalues import laplacian_extremes
from topologies.weights.conductances import conductances
from topologies.weights.fastest import fdla_weights, fmmc_weights
from topologies.weights.weight_checks import adjacency, check_weights

P = ParamSpec("P")
Graph: TypeAlias = "nx.Graph[int] | Adjacency"

_LAZY = "lazy-"


def _rule(
    build: Callable[Concatenate[Weights, P], Weights],
) -> Callable[Concatenate[Graph, P], Weights]:
    """A weight rule from the function that computes W from an adjacency matrix: the graph and W are
    checked."""

    @wraps(build)
    def rule(graph: Graph, /, *args: P.args, **kwargs: P.kwargs) -> Weights:
        return check_weights(build(adjacency(graph), *args, **kwargs))

    return rule


@_rule
def uniform_weights(graph: Weights, self_weight: float = 0.8) -> Weights:
    """``W_ii = self_weight``, ``W_ij = (1 - self_weight) / degree``, shape (n, n), where all agents
    have the same degree.

    A single agent gets ``[[1]]``.

    Raises ValueError if ``self_weight`` is outside [0, 1), two degrees differ, or W has the
    eigenvalue -1; for the graph as `check_graph`.
    """
    if not 0 <= self_weight < 1:
        raise ValueError(
            f"self_weight must be in [0, 1), as neighbours need weight, got {self_weight}"
        )
    n = graph.shape[0]
    degrees = np.diff(graph.indptr)
    if n == 1:
        return with_diagonal(graph, np.ones(1))
    other = int(np.argmax(degrees != degrees[0]))
    if other:
        raise ValueError(
            "uniform weights need agents with equally many neighbours, but agent 0 has "
            f"{degrees[0]} and agent {other} has {degrees[other]}; use metropolis weights"
        )
    edges = graph * ((1 - self_weight) / float(degrees[0]))
    return with_diagonal(edges, np.full(n, float(self_weight)))


@_rule
def metropolis_weights(graph: Weights) -> Weights:
    """``W_ij = 1 / (1 + max(degree_i, degree_j))``, shape (n, n), the rest on the diagonal. Raises
    the errors of `check_graph`."""
    return _by_degrees(graph, 1.0)


def conductance_weights(graph: Labelled, edge_weight: str) -> Weights:
    """Return Metropolis weights for edges with conductances, ``(n, n)``.

    Edges of a large conductance get a large weight. With the conductances c_ij, their sum d_i and
    their maximum m_i over the neighbours of agent i,

        W_ij = c_ij / (max(d_i, d_j) + max(m_i, m_j)),

    and the rest is on the diagonal. W is symmetric as c is. Each row sums to 1, and
    ``W_ii >= m_i / (d_i + m_i) > 0``, since its other entries add up to at most
    ``d_i / (d_i + m_i)``. Equal conductances give `metropolis_weights`.

    Parameters
    ----------
    graph : networkx.Graph
        A graph with an attribute on every edge, as `graph_from_file` reads it.
    edge_weight : str
        The attribute whose values are the conductances, or ``1/`` and the attribute whose
        reciprocals are: ``"1/km"`` for lengths.

    Raises
    ------
    ValueError
        An edge lacks the attribute or its value is no positive number.
    """
    matrix = conductances(graph, edge_weight)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    columns = matrix.indices
    total = row_sums(matrix)
    largest = matrix.max(axis=1).toarray().ravel()
    matrix.data /= np.maximum(total[rows], total[columns]) + np.maximum(
        largest[rows], largest[columns]
    )
    return check_weights(with_diagonal(matrix, 1 - row_sums(matrix)))


@_rule
def max_degree_weights(graph: Weights) -> Weights:
    """``W_ij = 1 / d`` with d the largest degree, ``W_ii = (d - degree_i) / d``, shape (n, n).

    Raises the errors of `check_graph`, and ValueError if the graph is regular and bipartite, so
    that W has the eigenvalue -1.
    """
    degrees = np.diff(graph.indptr)
    largest = max(1, int(degrees.max()))
    return with_diagonal(graph * (1 / largest), (largest - degrees) / largest)


@_rule
def local_degree_weights(graph: Weights) -> Weights:
    """``W_ij = 1 / max(degree_i, degree_j)``, shape (n, n), the rest on the diagonal.

    Raises the errors of `check_graph`, and ValueError if the graph is regular and bipartite, so
    that W has the eigenvalue -1.
    """
    return _by_degrees(graph, 0.0)


@_rule
def best_constant_weights(graph: Weights) -> Weights:
    """``W = I - a L`` with the Laplacian L and the a of least sigma, 2 / (lambda_2(L) +
    lambda_n(L)); shape (n, n).

    Own weights may be negative. Raises the errors of `check_graph`.
    """
    if graph.shape[0] == 1:
        return with_diagonal(graph, np.ones(1))
    second, largest = laplacian_extremes(graph)
    result = graph * (2 / (second + largest))
    return with_diagonal(result, 1 - row_sums(result))


def _by_degrees(graph: Weights, more: float) -> Weights:
    """``W_ij = 1 / (more + max(degree_i, degree_j))``, the rest on the diagonal."""
    degrees = np.diff(graph.indptr)
    result = graph.copy()
    result.data = 1 / (more + np.maximum(np.repeat(degrees, degrees), degrees[graph.indices]))
    return with_diagonal(result, 1 - row_sums(result))


def lazy(W: WeightsLike) -> Weights:
    """``(I + W) / 2``, shape (n, n), whose eigenvalues are not negative where W's lie in [-1, 1].

    Raises the errors of `check_weights` for the result; W itself may have the eigenvalue -1.
    """
    matrix = canonical_weights(W)
    return check_weights(with_diagonal(matrix * 0.5, (1 + matrix.diagonal()) / 2))


def weights_from_name(graph: Graph, name: str = "auto", self_weight: float = 0.8) -> Weights:
    """The mixing matrix, shape (n, n), of a named rule: see `available_weights` and
    `resolve_weights_name`.

    Raises ValueError if the name is unknown, or as the rule itself.

    Parameters
    ----------
    graph : networkx.Graph or sparse adjacency matrix
    name : str
        A rule's name; ``auto`` is ``metropolis``.
    self_weight : float
        The own weight, used by ``uniform`` only.
    """
    edges = adjacency(graph)
    resolved = resolve_weights_name(name)
    rule = resolved.removeprefix(_LAZY)
    build = inspect.unwrap(RULES[rule])
    W = build(edges, self_weight) if rule == "uniform" else build(edges)
    return check_weights(W) if rule == resolved else lazy(W)


def resolve_weights_name(name: str = "auto") -> str:
    """The rule that `weights_from_name` follows: the name, with ``metropolis`` for ``auto``.

    Raises ValueError if the name is unknown.
    """
    asked = name.strip().lower().replace("_", "-")
    known = available_weights()
    if asked not in known:
        hint = suggestion(asked, known) or ";"
        raise ValueError(f"unknown weights {name!r}{hint} known weights: {', '.join(known)}")
    return asked.replace("auto", "metropolis")


def available_weights() -> tuple[str, ...]:
    """The names that `weights_from_name` knows."""
    rules = ("auto", *RULES)
    return (*rules, *(_LAZY + rule for rule in rules))


_RULES: tuple[Callable[..., Weights], ...] = (
    *(uniform_weights, metropolis_weights, max_degree_weights, local_degree_weights),
    *(best_constant_weights, fmmc_weights, fdla_weights),
)
RULES = {rule.__name__.removesuffix("_weights").replace("_", "-"): rule for rule in _RULES}
"""The functions that names of rules stand for."""
