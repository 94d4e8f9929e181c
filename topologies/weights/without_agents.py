"""Mixing matrices after some agents have left for good."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from topologies.canonical import Weights, WeightsLike, canonical_weights, with_diagonal
from topologies.line.words import ranges

_SHOWN = 6


def without_agents(W: WeightsLike, lost: Sequence[int] | NDArray[np.int64]) -> Weights:
    """The mixing matrix of the remaining agents, in their order: each keeps the weight that it gave
    to agents that leave.

    With ``L`` the agents that leave, ``W'_ij = W_ij`` for i != j and ``W'_ii = W_ii + sum_{l in L}
    W_il``, added in ascending order of l. W' is symmetric, its rows sum to 1, its edges are the
    edges of W between remaining agents. I - W' is I - W restricted to these edges (a graph
    Laplacian), so no eigenvalue of W' is smaller than the smallest of W where weights are not
    negative.

    ``W`` is a mixing matrix, ``(n, n)``, see `canonical_weights`; numbers in ``lost`` that repeat
    count once. Raises ValueError if a number is not an agent's, no agent remains, or the remaining
    agents are disconnected.
    """
    matrix = canonical_weights(W)
    n = matrix.shape[0]
    leaving = np.unique(np.asarray(lost, dtype=np.int64))
    if leaving.size and not 0 <= leaving[0] <= leaving[-1] < n:
        raise ValueError(f"agents that leave must be among 0 to {n - 1}, got {ranges(leaving)}")
    left = np.setdiff1d(np.arange(n), leaving)
    if not left.size:
        raise ValueError(f"all {n} agents leave, so there is nothing to mix")
    own = matrix.diagonal()[left]
    rows: Weights = sparse.csr_array(matrix[left])
    given = sparse.csr_array(rows[:, leaving])
    given.sort_indices()
    np.add.at(own, np.repeat(np.arange(len(left)), np.diff(given.indptr)), given.data)
    repaired = with_diagonal(sparse.csr_array(rows[:, left]), own)
    count, labels = csgraph.connected_components(repaired, directed=False)
    if count > 1:
        parts = [ranges(left[labels == label]) for label in range(min(count, _SHOWN))]
        listed = "; ".join([*parts, *["..."] * (count > _SHOWN)])
        raise ValueError(
            f"without agents {ranges(leaving)} the others are not connected ({count} components), "
            f"and cannot agree any more: {listed}"
        )
    return repaired
