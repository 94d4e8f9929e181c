"""Directed communication graphs as plain ``networkx.DiGraph`` with nodes 0..n-1 in that order.

An edge j -> i says that agent i hears agent j. The number of agents always comes first. All graphs
here are strongly connected: there is a path from every agent to every other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from topologies.directed.weights import check_digraph
from topologies.graphs.edges import LINK_BYTES, Agents
from topologies.graphs.graph_families import at_least, at_most, numbered
from topologies.graphs.real import integer_labels, read_graph
from topologies.line.later import nx
from topologies.line.memory import require

AGENTS_LIMIT = 10**6
"""The maximum number of agents of a directed graph built by name: each edge is an object of
networkx."""
EDGES_LIMIT = 10**7
"""The maximum number of edges of a directed graph built by name."""
_TRIES = 100


def directed_ring(n: int, chords: int = 0, seed: int = 0) -> nx.DiGraph[int]:
    """The one-way cycle 0 -> 1 -> ... -> n-1 -> 0 with ``chords`` further edges, drawn at random
    from the pairs that are not on it.

    Raises ValueError if there are fewer such pairs than chords.
    """
    n = _count("directed_ring", n, 1)
    chords = at_least(0, chords, "directed_ring: the number of chords")
    others = max(n - 2, 0)
    if chords > n * others:
        raise ValueError(
            f"directed_ring(n={n}) has room for {n * others} chords besides its cycle, got {chords}"
        )
    agents = np.arange(n if n > 1 else 0)
    _check_edges("directed_ring", n + chords)
    drawn = np.zeros(0, dtype=np.int64)
    if chords:
        drawn = np.random.default_rng(seed).choice(n * others, chords, replace=False)
    tails = drawn // max(others, 1)
    heads = (tails + 2 + drawn % max(others, 1)) % n
    return _digraph(n, np.concatenate([agents, tails]), np.concatenate([(agents + 1) % n, heads]))


def directed_exponential(n: int) -> nx.DiGraph[int]:
    """The directed exponential graph: agent i + 2^j modulo n hears agent i, for every 2^j < n.

    Assran, Loizou, Ballas and Rabbat, "Stochastic gradient push for distributed deep learning"
    (2019).
    """
    n = _count("directed_exponential", n, 1)
    steps = 1 << np.arange((n - 1).bit_length())
    _check_edges("directed_exponential", n * len(steps))
    tails = np.tile(np.arange(n), len(steps))
    return _digraph(n, tails, (tails + np.repeat(steps, n)) % n)


def random_k_out(n: int, k: int = 2, seed: int = 0) -> nx.DiGraph[int]:
    """Every agent is heard by ``k`` others, drawn at random; redrawn until the graph is strongly
    connected.

    Raises ValueError if ``k`` is not in 1..n - 1, or none of 100 draws is strongly connected.
    """
    n = _count("random_k_out", n, 2)
    k = at_least(1, k, "random_k_out: k")
    if k >= n:
        raise ValueError(f"random_k_out: k must be below the number of agents, got n={n}, k={k}")
    _check_edges("random_k_out", n * k)
    rng = np.random.default_rng(seed)
    tails = np.repeat(np.arange(n), k)
    for _ in range(_TRIES):
        others = np.concatenate([rng.choice(n - 1, k, replace=False) for _ in range(n)])
        graph = _digraph(n, tails, others + (others >= tails))
        try:
            check_digraph(graph)
        except ValueError:
            continue
        return graph
    raise ValueError(
        f"random_k_out(n={n}, k={k}, seed={seed}): none of {_TRIES} draws is strongly connected "
        f"(an agent lacks in-neighbours); try k={min(n - 1, 2 * k)}, or directed_ring with chords"
    )


def digraph_from_file(path: str | os.PathLike[str]) -> nx.DiGraph[int]:
    """The directed graph in a file, as `topologies.graph_from_file`: each line of an edge list is
    an edge from its first agent to its second, each non-zero (i, j) of an adjacency matrix one from
    i to j; a graph declared undirected has both directions.

    Raises ValueError if the suffix is unknown, the file cannot be read, or the graph is not
    strongly connected; OSError if the file cannot be opened.
    """
    path = Path(path)
    graph: Any = numbered(integer_labels(nx.DiGraph(read_graph(path, directed=True))))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    try:
        check_digraph(graph)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return graph  # type: ignore[no-any-return]  # a DiGraph of integers


def _digraph(n: int, tails: Agents, heads: Agents) -> nx.DiGraph[int]:
    """The graph with an edge from each of ``tails`` to the head beside it; equal edges are
    merged."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(tails.tolist(), heads.tolist(), strict=True))
    return graph


def _count(name: str, n: int, least: int) -> int:
    return at_most(
        AGENTS_LIMIT,
        at_least(least, n, f"{name}: the number of agents"),
        f"{name}: the number of agents",
    )


def _check_edges(name: str, edges: int) -> None:
    at_most(EDGES_LIMIT, edges, f"{name}: the number of edges")
    require(LINK_BYTES * edges, f"{name}: a graph of {edges} edges")
