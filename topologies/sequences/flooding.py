"""Flooding time: the number of rounds until a value of one agent has reached all others, if all
agents pass on every value."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csgraph

from topologies.canonical import Weights, WeightsLike, canonical_weights, distances, upper
from topologies.directed.weights import DirectedWeights
from topologies.graphs.edges import Edges
from topologies.measures import diameter
from topologies.sequences.sequences import WeightSequence

LARGEST_EXACT = 2000
"""The largest number of agents with an exact answer; above, one breadth-first search gives an upper
bound."""


def flooding_rounds(W: WeightsLike | DirectedWeights | WeightSequence) -> int:
    """The number of rounds after which every agent's initial value has reached all others, from any
    first round.

    On a fixed graph it is the diameter; on a periodic sequence, the maximum over the first rounds
    in a period. Above 2,000 agents the result is an upper bound: twice the distance from agent 0 to
    the farthest one; for a periodic sequence, this distance in the union of a period's graphs
    (which has each edge once in a period), times the period. On a directed graph distances follow
    the edges, and the bound is the sum of those from agent 0 and to it.

    Errors as `canonical_weights`; ValueError if the graph, or the union of a period's graphs, is
    not connected; or if the sequence is not periodic, so that no number of rounds is certain to be
    enough.
    """
    if isinstance(W, DirectedWeights):
        if W.shape[0] <= LARGEST_EXACT:
            return int(csgraph.shortest_path(W.A, unweighted=True).max())
        from_0, to_0 = (csgraph.shortest_path(M, unweighted=True, indices=0) for M in (W.A, W.A.T))
        return int(from_0.max() + to_0.max())
    if not isinstance(W, WeightSequence):
        edges = _neighbours(canonical_weights(W))
        return diameter(edges) if edges.shape[0] <= LARGEST_EXACT else 2 * _eccentricity(edges)
    if W.period is None:
        raise ValueError(
            "where neighbours are drawn at random no number of rounds is sure to reach all "
            "agents: take a graph that is fixed or periodic"
        )
    patterns = [_neighbours(W.at(k)) for k in range(W.period)]
    union = _neighbours(sum(patterns[1:], start=patterns[0]))
    farthest = _eccentricity(union)
    if W.n > LARGEST_EXACT:
        return W.period * 2 * farthest
    return max(_rounds_from(start, patterns) for start in range(W.period))


def _rounds_from(start: int, patterns: list[Weights]) -> int:
    """The number of rounds, from round ``start`` on, until every agent has received every value."""
    known = np.eye(patterns[0].shape[0])
    rounds = 0
    while not known.all():
        known = np.minimum(known + patterns[(start + rounds) % len(patterns)] @ known, 1.0)
        rounds += 1
    return rounds


def _neighbours(W: Weights) -> Weights:
    """The adjacency matrix: 1 for two different agents that exchange messages."""
    once = upper(W)
    return Edges(W.shape[0], once.row.astype(np.int64), once.col.astype(np.int64)).adjacency()


def _eccentricity(edges: Weights) -> int:
    """The distance from agent 0 to the farthest one; ValueError if it cannot be reached."""
    depth = distances(edges, 0)
    if not np.isfinite(depth).all():
        raise ValueError(
            f"word never gets from agent 0 to agent {int(np.argmax(depth))}: their edges connect "
            "no two of them"
        )
    return int(depth.max())
