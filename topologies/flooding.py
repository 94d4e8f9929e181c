"""How long word takes to get around: rounds in which every agent tells its neighbours all that it has heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topologies.canonical import WeightsLike, canonical_weights
from topologies.measures import diameter
from topologies.sequences import WeightSequence

if TYPE_CHECKING:
    from topologies.canonical import Weights

LARGEST_EXACT = 2000
"""Above so many agents an upper bound is given, which costs one breadth-first search."""


def flooding_rounds(W: WeightsLike | WeightSequence) -> int:
    """Rounds after which what any agent knew at their beginning has reached all others, whenever they begin.

    On a graph that stays the same it is the diameter; on one that repeats itself, the most over the rounds of its period at which
    to begin. Above 2,000 agents an upper bound: twice the distance from agent 0 to the farthest one, in a graph that repeats itself
    with all the edges of a period, times the period (each edge is there once in a period).

    Raises
    ------
    TypeError, ValueError
        As `canonical_weights`; for a graph that is not connected, also by all the edges of a period together; for a sequence
        without a period, where no number of rounds is sure to be enough.
    """
    if not isinstance(W, WeightSequence):
        edges = _neighbours(canonical_weights(W))
        return diameter(edges) if edges.shape[0] <= LARGEST_EXACT else 2 * _eccentricity(edges)
    if W.period is None:
        raise ValueError(
            "where neighbours are drawn at random no number of rounds is sure to reach everybody: take a graph that stays the same "
            "or repeats itself"
        )
    patterns = [_neighbours(W.at(k)) for k in range(W.period)]
    union = _neighbours(sum(patterns[1:], start=patterns[0]))
    farthest = _eccentricity(union)
    if W.n > LARGEST_EXACT:
        return W.period * 2 * farthest
    return max(_rounds_from(start, patterns) for start in range(W.period))


def _rounds_from(start: int, patterns: list[Weights]) -> int:
    """Rounds from number ``start`` on until all have heard of all."""
    known = np.eye(patterns[0].shape[0])
    rounds = 0
    while not known.all():
        known = np.minimum(known + patterns[(start + rounds) % len(patterns)] @ known, 1.0)
        rounds += 1
    return rounds


def _neighbours(W: Weights) -> Weights:
    """1 where two different agents exchange messages."""
    edges: Weights = W.copy()
    edges.setdiag(0.0)
    edges.eliminate_zeros()
    edges.data[:] = 1.0
    return edges


def _eccentricity(edges: Weights) -> int:
    """The distance from agent 0 to the farthest one.

    Raises
    ------
    ValueError
        If one cannot be reached.
    """
    from scipy.sparse.csgraph import shortest_path

    distances = shortest_path(edges, method="D", directed=False, unweighted=True, indices=0)
    if not np.isfinite(distances).all():
        raise ValueError(f"word never gets from agent 0 to agent {int(np.argmax(distances))}: their edges connect no two of them")
    return int(distances.max())
