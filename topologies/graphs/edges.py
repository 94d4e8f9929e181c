"""Edges as arrays: the result of every graph family, from which a graph or an adjacency matrix is
made.

Arrays hold a million agents in the memory that ``networkx.Graph`` needs for some thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from topologies.canonical import Weights
from topologies.line.later import nx
from topologies.line.memory import require

P = ParamSpec("P")
LINK_BYTES = 190
"""The bytes of an edge of a networkx graph, at least, directed or not."""
Agents = NDArray[np.int64]


class Edges(NamedTuple):
    """Agents 0..n-1, joined by ``tails[e] - heads[e]``: each edge once, no self-loops."""

    n: int
    tails: Agents
    heads: Agents
    positions: NDArray[np.float64] | None = None
    """The agents' positions, shape (n, 2), if the graph has a geometry."""

    def graph(self) -> nx.Graph[int]:
        """The graph with nodes 0..n-1 in order; positions become the node attribute ``pos``."""
        require(LINK_BYTES * len(self.tails), f"a networkx graph of {len(self.tails)} edges")
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(self.n))
        graph.add_edges_from(zip(self.tails.tolist(), self.heads.tolist(), strict=True))
        if self.positions is not None:
            places = map(tuple, self.positions.tolist())
            nx.set_node_attributes(graph, dict(enumerate(places)), "pos")
        return graph

    def adjacency(self) -> Weights:
        """The adjacency matrix, shape (n, n), in sorted CSR: ones for neighbours."""
        count = 2 * len(self.tails)
        small = np.min_scalar_type(-max(self.n, count, 2**16))  # 32 bits where they are enough
        rows = np.concatenate([self.tails, self.heads]).astype(small)
        columns = np.concatenate([self.heads, self.tails]).astype(small)
        shape = self.n, self.n
        matrix: Weights = sparse.csr_array((np.ones(count), (rows, columns)), shape=shape)
        matrix.sort_indices()
        return matrix

    def connected(self) -> bool:
        """True if there is a path between any two agents."""
        components, _ = connected_components(self.adjacency(), directed=False)
        return bool(components == 1)


def simplified(n: int, tails: Agents, heads: Agents) -> Edges:
    """The simple graph of a multigraph: self-loops dropped, parallel edges merged, each edge from
    its smaller agent."""
    smaller = np.minimum(tails, heads)
    larger = np.maximum(tails, heads)
    keys = np.unique((smaller * n + larger)[smaller != larger])
    return Edges(n, keys // n, keys % n)


def family(build: Callable[P, Edges]) -> Callable[P, nx.Graph[int]]:
    """A graph family from the function that computes its edges, which stays reachable by
    ``inspect.unwrap``."""

    @wraps(build)
    def graph(*args: P.args, **kwargs: P.kwargs) -> nx.Graph[int]:
        return build(*args, **kwargs).graph()

    graph.__annotations__ = {**build.__annotations__, "return": "nx.Graph[int]"}
    return graph
