"""Measures of a graph and of averaging on it, beyond the ends of the spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from topologies.canonical import Adjacency, WeightsLike, distances
from topologies.line.later import nx
from topologies.line.memory import dense
from topologies.spectra.eigenvalues import eigenvalues, laplacian_extremes
from topologies.weights.weight_checks import adjacency, check_weights

Matrix: TypeAlias = NDArray[np.float64]

_SOURCES = 256


@dataclass(frozen=True)
class GraphMeasures:
    """Measures of a graph that do not depend on the weights.

    Examples
    --------
    >>> import topologies as tp
    >>> tp.graph_measures(tp.torus(4, 5)).diameter
    4
    """

    n: int
    """The number of agents."""
    edges: int
    """The number of edges; a round has twice as many messages."""
    smallest_degree: int
    mean_degree: float
    largest_degree: int
    diameter: int
    """The largest distance between two agents, in edges: the rounds in which every agent's value
    can reach all others."""
    algebraic_connectivity: float
    """Second smallest eigenvalue of the Laplacian."""


def graph_measures(graph: nx.Graph[int] | Adjacency) -> GraphMeasures:
    """Return the measures of ``graph``.

    The diameter takes a breadth-first search from every agent, O(n * edges). Raises the errors
    of `check_graph`.
    """
    edges = adjacency(graph)
    degrees = np.diff(edges.indptr)
    smallest = int(degrees.min())
    largest = int(degrees.max())
    return GraphMeasures(
        edges.shape[0],
        edges.nnz // 2,
        smallest,
        float(degrees.mean()),
        largest,
        diameter(edges),
        laplacian_extremes(edges)[0],
    )


def algebraic_connectivity(graph: nx.Graph[int] | Adjacency) -> float:
    """The second smallest eigenvalue of the graph Laplacian (Fiedler); 0 for one agent. Raises the
    errors of `check_graph`."""
    return laplacian_extremes(adjacency(graph))[0]


def diameter(graph: nx.Graph[int] | Adjacency) -> int:
    """The largest distance between two agents, in edges; O(n * edges). Raises the errors of
    `check_graph`."""
    edges = adjacency(graph)
    n = edges.shape[0]
    blocks = [np.arange(first, min(first + _SOURCES, n)) for first in range(0, n, _SOURCES)]
    return int(max(distances(edges, block).max() for block in blocks))


def kemeny_constant(W: WeightsLike) -> float:
    """sum over k >= 2 of 1 / (1 - lambda_k(W)), dense: the expected rounds of the random walk W
    from any agent to a random one.

    By convention the first visit does not count (0 for one agent); Kemeny and Snell, "Finite Markov
    chains" (1960).

    Raises the errors of `check_weights`.
    """
    return float((1 / (1 - eigenvalues(check_weights(W))[1:])).sum())


def mixing_time(W: WeightsLike, distance: float = 0.25) -> int:
    """The least t with max_i ||row i of W^t - 1/n|| <= ``distance`` in total variation, dense,
    O(n^3 log t).

    Levin and Peres, "Markov Chains and Mixing Times" (2017), section 4.5.

    Errors as `check_weights`; ValueError if W has negative entries, so that it is no random walk,
    or ``distance`` is outside (0, 1).
    """
    if not 0 < distance < 1:
        raise ValueError(f"distance must be in (0, 1), for example 1/4, got {distance}")
    matrix = check_weights(W)
    if matrix.data.min() < 0:
        raise ValueError("a random walk's W must not have negative entries; use rounds_for")
    powers = [dense(matrix)]
    if _farthest(np.eye(len(powers[0]))) <= distance:
        return 0
    while _farthest(powers[-1]) > distance:
        powers.append(powers[-1] @ powers[-1])
    reached = np.eye(len(powers[0]))
    rounds = 0
    for exponent in range(len(powers) - 1, -1, -1):
        further = reached @ powers[exponent]
        if _farthest(further) > distance:
            reached = further
            rounds = rounds + 2**exponent
    return rounds + 1


def _farthest(power: Matrix) -> float:
    return float(np.abs(power - 1 / len(power)).sum(axis=1).max() / 2)
