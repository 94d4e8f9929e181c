"""Communication graphs as plain ``networkx.Graph`` with nodes 0..n-1 in that order: deterministic
families.

The number of agents (or the sides) always comes first.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from topologies.graphs.edges import Agents, Edges, family, simplified
from topologies.line.later import nx
from topologies.line.memory import require
from topologies.line.words import partners

Labelled: TypeAlias = "nx.Graph[Any]"
"""A graph whose nodes have labels of any kind."""
AGENTS_LIMIT = 10**8
"""The maximum number of agents of a graph built by name: one process lacks the memory and time for
more."""
EDGES_LIMIT = 10**9
"""The maximum number of edges of a graph built by name."""
EDGE_BYTES = 80
"""The bytes of an edge, at least, while the adjacency matrix is made: both ends twice, and an entry
for each direction."""
AGENT_BYTES = 290
"""The bytes of an agent with two neighbours while its weights are made, as measured for a ring."""


@family
def ring(n: int) -> Edges:
    """Cycle 0 - 1 - ... - n-1 - 0; one node for n = 1, one edge for n = 2."""
    n = count("ring", n)
    agents = np.arange(n if n > 2 else n - 1)
    return Edges(n, agents, (agents + 1) % n)


@family
def path(n: int) -> Edges:
    """Path 0 - 1 - ... - n-1."""
    n = count("path", n)
    agents = np.arange(n - 1)
    return Edges(n, agents, agents + 1)


@family
def complete(n: int) -> Edges:
    """Complete graph: every agent is a neighbour of every other."""
    n = count("complete", n)
    return Edges(n, *_pairs("complete", n))


@family
def star(n: int) -> Edges:
    """Star: agent 0 in the centre, joined to the n - 1 others."""
    n = count("star", n)
    leaves = np.arange(1, n)
    return Edges(n, np.zeros_like(leaves), leaves)


@family
def grid(*sides: int) -> Edges:
    """k-dimensional grid, numbered in row-major order: in ``grid(4, 5)`` agent ``5 i + j`` stands
    at (i, j)."""
    numbers = np.arange(_sized("grid", sides, 1)).reshape(sides)
    tails = [np.delete(numbers, -1, axis).ravel() for axis in range(numbers.ndim)]
    heads = [np.delete(numbers, 0, axis).ravel() for axis in range(numbers.ndim)]
    return Edges(numbers.size, np.concatenate(tails), np.concatenate(heads))


@family
def torus(*sides: int) -> Edges:
    """k-dimensional torus, numbered in row-major order; every side is at least 3.

    Raises ValueError if a side is below 3: a side of 2 would need double edges, a side of 1
    self-loops.
    """
    numbers = np.arange(_sized("torus", sides, 3, "; use grid instead")).reshape(sides)
    heads = [np.roll(numbers, -1, axis).ravel() for axis in range(numbers.ndim)]
    return Edges(numbers.size, np.tile(numbers.ravel(), numbers.ndim), np.concatenate(heads))


@family
def hypercube(n: int) -> Edges:
    """Hypercube of n = 2^d agents; two are neighbours if their binary numbers differ in one digit.

    Raises ValueError if n is not a power of 2.
    """
    n = count("hypercube", n)
    d = n.bit_length() - 1
    if n != 2**d:
        raise ValueError(
            f"hypercube: the number of agents must be a power of 2, got {n}; the nearest: {2**d} "
            f"and {2 ** (d + 1)}"
        )
    agents = np.arange(n)
    bits = 1 << np.arange(d)
    tails, digits = np.nonzero((agents[:, None] & bits) == 0)
    return Edges(n, tails, tails | bits[digits])


@family
def circulant(n: int, offsets: tuple[int, ...] = (1, 2)) -> Edges:
    """Circulant graph: agent i is a neighbour of i + s and i - s modulo n, for every s in
    ``offsets``.

    Raises ValueError if n and the offsets have a common divisor, so that the graph is disconnected.
    """
    n = count("circulant", n)
    divisor = math.gcd(n, *(at_least(1, offset, "circulant: every offset") for offset in offsets))
    if divisor > 1:
        raise ValueError(
            f"circulant(n={n}, offsets={offsets}) is disconnected: n and all offsets are "
            f"multiples of {divisor}; add offset 1"
        )
    return _by_offsets("circulant", n, [offset % n for offset in offsets])


@family
def exponential(n: int) -> Edges:
    """The static exponential graph, undirected: agent i is a neighbour of i + 2^j and i - 2^j
    modulo n, for 2^j < n."""
    n = count("exponential", n)
    return _by_offsets("exponential", n, [1 << j for j in range((n - 1).bit_length())])


def _by_offsets(name: str, n: int, offsets: list[int]) -> Edges:
    check_edges(name, n * len(offsets))
    agents = np.arange(n)
    steps = np.array(offsets, dtype=np.int64)
    return simplified(n, np.tile(agents, len(steps)), ((agents + steps[:, None]) % n).ravel())


@family
def binary_tree(n: int) -> Edges:
    """Complete binary tree: agent i hangs from agent (i - 1) // 2, agent 0 is the root; the last
    level may be part full."""
    n = count("binary_tree", n)
    children = np.arange(1, n)
    return Edges(n, (children - 1) // 2, children)


@family
def barbell(n: int, bridge: int = 0) -> Edges:
    """Two complete graphs of (n - bridge) / 2 agents, joined by a path through ``bridge`` further
    agents.

    Raises ValueError if n - bridge is odd or below 2.
    """
    n = count("barbell", n)
    bridge = at_least(0, bridge, "barbell: the number of agents on the bridge")
    clique, odd = divmod(n - bridge, 2)
    if odd or clique < 1:
        raise ValueError(
            f"barbell: n - bridge must be even and at least 2, got n={n}, bridge={bridge}; try "
            f"bridge={n % 2}"
        )
    tails, heads = _pairs("barbell", clique)
    way = np.arange(clique - 1, clique + bridge)
    far = clique + bridge
    tails = np.concatenate([tails, way, tails + far])
    return Edges(n, tails, np.concatenate([heads, way + 1, heads + far]))


@family
def lollipop(n: int, tail: int | None = None) -> Edges:
    """A complete graph of n - tail agents with a path of ``tail`` further agents; without ``tail``,
    half of n each.

    Raises ValueError if tail is not in 0..n - 1.
    """
    n = count("lollipop", n)
    tail = at_least(0, n // 2 if tail is None else tail, "lollipop: the tail")
    if tail >= n:
        raise ValueError(f"lollipop: the tail must be below n, got n={n}, tail={tail}")
    tails, heads = _pairs("lollipop", n - tail)
    way = np.arange(n - tail - 1, n - 1)
    return Edges(n, np.concatenate([tails, way]), np.concatenate([heads, way + 1]))


@family
def margulis(n: int) -> Edges:
    """The Margulis-Gabber-Galil expander on n = m^2 agents, made a simple graph.

    Agent (x, y), number m x + y, is joined to (x + 2y, y), (x + 2y + 1, y), (x, y + 2x) and (x, y +
    2x + 1) modulo m. The published graph is an 8-regular multigraph: here self-loops are dropped
    and parallel edges merged, so degrees are 8 or less.

    Raises ValueError if n is not a square.
    """
    n = count("margulis", n)
    m = math.isqrt(n)
    if m * m != n:
        raise ValueError(
            f"margulis: the number of agents must be a square, got {n}; the nearest: {m * m} and "
            f"{(m + 1) ** 2}"
        )
    agents = np.arange(n)
    x = agents // m
    y = agents % m
    right = [(x + 2 * y + c) % m * m + y for c in (0, 1)]
    up = [x * m + (y + 2 * x + c) % m for c in (0, 1)]
    return simplified(n, np.tile(agents, 4), np.concatenate([*right, *up]))


@family
def chordal_cycle(n: int) -> Edges:
    """The cycle on a prime number n of agents with chords from x to its inverse modulo n: an
    expander, made a simple graph.

    The published graph is a 3-regular multigraph: here the self-loops at 0, 1 and n - 1 are dropped
    and parallel edges merged.

    Raises ValueError if n is not a prime.
    """
    n = count("chordal_cycle", n)
    if not _is_prime(n):
        near = nearest(n, _is_prime)
        raise ValueError(
            f"chordal_cycle: the number of agents must be a prime, got {n}; the nearest: {near}"
        )
    agents = np.arange(n)
    inverses = np.array([0, *(pow(x, -1, n) for x in range(1, n))])
    return simplified(n, np.tile(agents, 2), np.concatenate([(agents + 1) % n, inverses]))


def numbered(graph: Labelled) -> nx.Graph[int]:
    """The same graph with nodes 0..n-1, in the sorted order of the old labels, or the graph's order
    where they do not sort.

    The old labels are kept in the node attribute ``label``; other attributes are copied.
    """
    labels = list(graph)
    try:
        labels.sort()
    except TypeError:
        labels = list(graph)
    result = _in_order(graph, labels)
    nx.set_node_attributes(result, dict(enumerate(labels)), "label")
    return result


def _in_order(graph: Labelled, nodes: Sequence[Any]) -> nx.Graph[int]:
    """The same graph, with node ``nodes[i]`` as agent i."""
    agent = {node: i for i, node in enumerate(nodes)}
    result: nx.Graph[int] = nx.DiGraph() if graph.is_directed() else nx.Graph()
    result.add_nodes_from((i, graph.nodes[node]) for node, i in agent.items())
    result.add_edges_from((agent[u], agent[v], data) for u, v, data in graph.edges(data=True))
    return result


def named_graph(
    graph: Labelled, names: Sequence[str] = ()
) -> tuple[nx.Graph[int], tuple[str, ...] | None]:
    """Return the graph with nodes 0..n-1, and the names of its nodes as text.

    The names are the old labels if `numbered` had to number the nodes, now or before; otherwise
    None. With ``names`` of the agents, agent i is the node of its name, see `partners`. Raises
    TypeError if the graph is a multigraph.
    """
    if graph.is_multigraph():
        kind = "DiGraph" if graph.is_directed() else "Graph"
        raise TypeError(f"the graph must be without double edges; use networkx.{kind}(graph)")
    if any(node != agent for agent, node in enumerate(graph)):
        graph = numbered(graph)
    labels = [agent if label is None else label for agent, label in graph.nodes(data="label")]
    if labels == list(graph):
        return graph, None
    nodes = partners(labels, names)
    return _in_order(graph, nodes), tuple(str(labels[node]) for node in nodes)


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))


def nearest(n: int, works: Callable[[int], object]) -> str:
    """The nearest numbers below and above ``n`` that work, in words."""
    below = next(filter(works, range(n - 1, 0, -1)), None)
    above = next(filter(works, itertools.count(n + 1)))
    return " and ".join(str(m) for m in (below, above) if m is not None)


def count(name: str, n: int) -> int:
    """``n`` as a number of agents of the graph ``name``, from 1 to `AGENTS_LIMIT`."""
    what = f"{name}: the number of agents"
    n = at_most(AGENTS_LIMIT, at_least(1, n, what), what)
    require(AGENT_BYTES * n, f"{name}: the mixing matrix of {n} agents")
    return n


def check_edges(name: str, edges: float) -> None:
    """Raise ValueError unless the graph ``name`` has at most `EDGES_LIMIT` edges, MemoryError
    unless they fit into memory.

    Called before the graph is built.
    """
    most = at_most(EDGES_LIMIT, math.ceil(edges), f"{name}: the number of edges")
    require(EDGE_BYTES * most, f"{name}: a matrix of {most} edges")


def at_most(limit: int, value: int, what: str) -> int:
    if value > limit:
        found = value if value < 10**18 else "more than 10^18"
        raise ValueError(f"{what} must be at most 10^{len(str(limit)) - 1}, got {found}")
    return value


def _pairs(name: str, n: int) -> tuple[Agents, Agents]:
    """All pairs of the agents 0..n-1."""
    check_edges(name, n * (n - 1) // 2)
    tails, heads = np.triu_indices(n, 1)
    return tails, heads


def _sized(name: str, sides: tuple[int, ...], least: int, hint: str = "") -> int:
    """The number of agents of the grid or torus ``name`` with these ``sides``."""
    if not sides:
        raise ValueError(f"{name} needs its sides, for example {name}(4, 5)")
    what = f"{name}: every side of {'x'.join(map(str, sides))}"
    return count(name, math.prod(at_least(least, side, what, hint) for side in sides))


def at_least(least: int, value: int, what: str, hint: str = "") -> int:
    """``value`` as a Python int that is not below ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {value!r}") from None
    if number < least:
        raise ValueError(f"{what} must be at least {least}, got {number}{hint}")
    return number
