"""The canonical form of a mixing matrix, and the conditions on it: square, finite, symmetric, rows
that sum to 1."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

Agents: TypeAlias = NDArray[np.integer]
Weights: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"
Entries: TypeAlias = "sparse.coo_array[np.float64, tuple[int, int]]"
Adjacency: TypeAlias = "NDArray[Any] | sparse.sparray | sparse.spmatrix"
WeightsLike: TypeAlias = "ArrayLike | sparse.sparray | sparse.spmatrix"

SYMMETRY_TOLERANCE = 1e-12
ROW_SUM_TOLERANCE = 1e-10


def canonical_weights(W: WeightsLike) -> Weights:
    """``W``, shape (n, n), as a fresh float64 CSR array whose row i lists i and its neighbours in
    ascending order.

    Asymmetries up to 1e-12 are averaged away, so that ``W[i, j] == W[j, i]`` exactly; zeros off the
    diagonal are dropped, the diagonal is always stored. Connectivity is not required: see
    `check_weights`.

    Raises TypeError if ``W`` does not hold real numbers; ValueError if it is not square, not
    finite, not symmetric, or has a row that does not sum to 1 within 1e-10.
    """
    matrix = finite_square(W)
    transposed = matrix.T.tocsr()
    difference = (matrix - transposed).tocoo()
    bad = np.flatnonzero(np.abs(difference.data) > SYMMETRY_TOLERANCE)
    if bad.size:
        i, j, entry = entry_at(difference, bad)
        raise ValueError(
            f"W must be symmetric, but W[{i}, {j}] - W[{j}, {i}] = {entry:.3g} ({bad.size} entries "
            "differ); use (W + W.T) / 2 if the columns sum to 1 too, else metropolis_weights of the "
            "graph"
        )
    if difference.nnz:
        matrix = (matrix + transposed) * 0.5
    excess = row_sums(matrix) - 1
    bad = np.flatnonzero(np.abs(excess) > ROW_SUM_TOLERANCE)
    if bad.size:
        i = bad[0]
        repair = f"subtract the excess from the diagonal, here from W[{i}, {i}]"
        if not matrix.diagonal().any():
            repair = "an adjacency matrix A? metropolis_weights(A) makes W of its non-zeros, "
            repair += "and file:PATH reads it as a graph"
        raise ValueError(
            f"every row of W must sum to 1, but row {i} sums to {1 + excess[i]:.12g} "
            f"({excess[i]:+.3g}; {bad.size} of {len(excess)} rows are off); {repair}"
        )
    return with_diagonal(matrix, matrix.diagonal())


def row_sums(matrix: Weights) -> NDArray[np.float64]:
    """The sum of each row, shape (n,)."""
    sums: NDArray[np.float64] = np.asarray(matrix.sum(axis=1), dtype=np.float64)
    return sums


def with_diagonal(matrix: Weights, diagonal: NDArray[np.float64]) -> Weights:
    """``matrix`` with its diagonal replaced, sorted, without zeros off the diagonal and with all of
    the diagonal stored."""
    n = matrix.shape[0]
    coo = matrix.tocoo()
    kept = (coo.row != coo.col) & (coo.data != 0)
    agents = np.arange(n, dtype=coo.row.dtype)
    data = np.concatenate([coo.data[kept], diagonal])
    rows = np.concatenate([coo.row[kept], agents])
    columns = np.concatenate([coo.col[kept], agents])
    result: Weights = sparse.csr_array((data, (rows, columns)), shape=(n, n))
    result.sort_indices()
    return result


def on_edges(n: int, tails: Agents, heads: Agents, weights: NDArray[np.float64]) -> Weights:
    """The symmetric matrix, shape (n, n), with ``weights`` on the edges and the rest of each row on
    the diagonal."""
    places = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    off_diagonal: Weights = sparse.csr_array((np.tile(weights, 2), places), shape=(n, n))
    return with_diagonal(off_diagonal, 1 - row_sums(off_diagonal))


def upper(matrix: Weights) -> Entries:
    """The entries above the diagonal: each edge once."""
    coo = matrix.tocoo()
    once = coo.row < coo.col
    return sparse.coo_array((coo.data[once], (coo.row[once], coo.col[once])), shape=matrix.shape)


def distances(matrix: Weights, sources: int | Agents) -> NDArray[np.float64]:
    """The distances in edges from each of ``sources`` to each agent, inf if there is no path."""
    found = csgraph.shortest_path(
        abs(matrix), "D", directed=False, unweighted=True, indices=sources
    )
    return np.asarray(found)


def finite_square(W: WeightsLike, what: str = "W") -> Weights:
    """``W``, which messages call ``what``, as a fresh float64 CSR array if it is a square matrix of
    finite real numbers."""
    refuse_other_graphs(W)
    source = W if sparse.issparse(W) else np.asarray(W)
    if source.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold real numbers, got dtype {source.dtype}")
    if source.ndim != 2 or source.shape[0] != source.shape[1] or source.shape[0] == 0:
        raise ValueError(
            f"{what} must be square, a row and a column per agent, got shape {source.shape}"
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused below
        matrix: Weights = sparse.csr_array(source, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        i, j, entry = entry_at(matrix.tocoo(), bad)
        raise ValueError(f"{what} must be finite, got {what}[{i}, {j}] = {entry}")
    return matrix


def refuse_other_graphs(graph: object) -> None:
    """Raise TypeError for a graph of a library that converts its graphs to networkx, as igraph."""
    if hasattr(graph, "to_networkx"):
        library = type(graph).__module__.partition(".")[0]
        raise TypeError(
            f"graphs must be of networkx, got one of {library}: give graph.to_networkx(), or in "
            "igraph graph.to_networkx(vertex_attr_hashable='name') where agents have names"
        )


def entry_at(coo: Entries, places: NDArray[np.int64]) -> tuple[int, int, float]:
    """The row, the column and the value of the first of some entries."""
    return coo.row[places[0]], coo.col[places[0]], coo.data[places[0]]
