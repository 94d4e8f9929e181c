"""Conductances of the edges of a graph, from an attribute of its edges."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from topologies.canonical import Weights
from topologies.graphs.graph_families import Labelled
from topologies.line.later import nx
from topologies.line.words import is_number
from topologies.weights.weight_checks import agent_names, check_graph

_RECIPROCAL = "1/"


def attribute_of(edge_weight: str) -> str:
    """Return the name of the attribute in ``km`` or ``1/km``."""
    return edge_weight.removeprefix(_RECIPROCAL).strip()


def conductances(graph: Labelled, edge_weight: str) -> Weights:
    """Return the conductances of a graph's edges, ``(n, n)``, divided by the largest.

    ``edge_weight`` is the name of an attribute, or ``1/`` and the name. Raises ValueError unless
    every edge has a positive number; for the graph the errors of `check_graph`.
    """
    check_graph(graph)
    if not isinstance(graph, nx.Graph):
        raise TypeError(
            f"edge weights {edge_weight!r} need a networkx graph whose edges have that attribute, "
            f"got {type(graph).__name__}"
        )
    n = len(graph)
    edges = np.array(list(graph.edges()), dtype=np.int64).reshape(-1, 2)
    values = np.array([_conductance(graph, u, v, edge_weight) for u, v in graph.edges()])
    values /= values.max(initial=0.0) or 1.0
    places = np.concatenate([edges, edges[:, ::-1]])
    result: Weights = sparse.csr_array((np.tile(values, 2), places.T), shape=(n, n))
    result.sort_indices()
    return result


def _conductance(graph: Labelled, u: int, v: int, edge_weight: str) -> float:
    """Return the conductance of the edge between agents ``u`` and ``v``."""
    attribute = attribute_of(edge_weight)
    attributes = graph.edges[u, v]
    names = agent_names(graph)
    edge = f"{names.get(u, u)} - {names.get(v, v)}"
    if attribute not in attributes:
        known = {str(name) for *_, data in graph.edges(data=True) for name in data}
        raise ValueError(
            f"every edge needs the attribute {attribute!r}, and {edge} lacks it; the edges have "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    given = attributes[attribute]
    if " and " in str(given):  # from parallel edges, or the two directions
        raise ValueError(f"the edge {edge} has several values of {attribute}, {given}: give it one")
    value = float(given) if is_number(str(given)) else 0.0
    if value and edge_weight.startswith(_RECIPROCAL):
        value = 1 / value
    if not 0 < value < math.inf:
        raise ValueError(
            f"{attribute} of the edge {edge} must be a positive number, got {given!r}; "
            "correct it, or leave the edge out"
        )
    return value
