"""Communication graphs as plain ``networkx.Graph`` with nodes 0..n-1 in that order."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import networkx as nx

_TRIES = 100


def ring(n: int) -> nx.Graph[int]:
    """Cycle 0 - 1 - ... - n-1 - 0; one node for n = 1, one edge for n = 2."""
    n = _count("ring", n)
    agents = np.arange(n if n > 2 else n - 1)
    return _graph(n, agents, (agents + 1) % n)


def path(n: int) -> nx.Graph[int]:
    """Path 0 - 1 - ... - n-1."""
    n = _count("path", n)
    agents = np.arange(n - 1)
    return _graph(n, agents, agents + 1)


def complete(n: int) -> nx.Graph[int]:
    """Every agent is a neighbour of every other."""
    n = _count("complete", n)
    return _graph(n, *np.triu_indices(n, 1))


def star(n: int) -> nx.Graph[int]:
    """Agent 0 in the centre, joined to the n - 1 others."""
    n = _count("star", n)
    leaves = np.arange(1, n)
    return _graph(n, np.zeros_like(leaves), leaves)


def grid(*sides: int) -> nx.Graph[int]:
    """k-dimensional grid, numbered in row-major order: in ``grid(4, 5)`` agent ``5 i + j`` stands at (i, j)."""
    numbers = np.arange(math.prod(_sides("grid", sides, 1))).reshape(sides)
    tails = [np.delete(numbers, -1, axis).ravel() for axis in range(numbers.ndim)]
    heads = [np.delete(numbers, 0, axis).ravel() for axis in range(numbers.ndim)]
    return _graph(numbers.size, np.concatenate(tails), np.concatenate(heads))


def torus(*sides: int) -> nx.Graph[int]:
    """k-dimensional torus, numbered in row-major order; every side is at least 3.

    Raises
    ------
    ValueError
        If a side is below 3: a side of 2 would need double edges, a side of 1 self-loops.
    """
    numbers = np.arange(math.prod(_sides("torus", sides, 3, "; use grid instead"))).reshape(sides)
    heads = [np.roll(numbers, -1, axis).ravel() for axis in range(numbers.ndim)]
    return _graph(numbers.size, np.tile(numbers.ravel(), numbers.ndim), np.concatenate(heads))


def erdos_renyi(n: int, p: float = 0.3, seed: int = 0) -> nx.Graph[int]:
    """Erdős-Rényi graph G(n, p), each edge present with probability ``p``, redrawn until it is connected.

    Raises
    ------
    ValueError
        If ``p`` is outside [0, 1], or none of 100 draws is connected.
    """
    n = _count("erdos_renyi", n)
    if not 0 <= p <= 1:
        raise ValueError(f"erdos_renyi: p must be a probability in [0, 1], got {p}")
    rng = np.random.default_rng(seed)
    for _ in range(_TRIES):
        tails, heads = _random_pairs(n, p, rng)
        if _connects(n, tails, heads):
            return _graph(n, tails, heads)
    threshold = min(1.0, math.log(n) / n)
    raise ValueError(
        f"erdos_renyi(n={n}, p={p}, seed={seed}): none of {_TRIES} draws was connected; connected graphs become likely "
        f"above p = log(n)/n = {threshold:.3g}: try p={min(1.0, 2 * threshold):.3g}"
    )


def numbered(graph: nx.Graph[Any]) -> nx.Graph[int]:
    """The same graph with nodes 0..n-1, in the sorted order of the old labels, or the graph's order where they do not sort.

    The old labels are kept in the node attribute ``label``; other attributes are copied.
    """
    import networkx as nx

    labels = list(graph)
    try:
        labels.sort()
    except TypeError:
        labels = list(graph)
    agent = {label: i for i, label in enumerate(labels)}
    result: nx.Graph[int] = nx.Graph()
    result.add_nodes_from((i, {**graph.nodes[label], "label": label}) for label, i in agent.items())
    result.add_edges_from((agent[u], agent[v], data) for u, v, data in graph.edges(data=True))
    return result


def _graph(n: int, tails: NDArray[np.int64], heads: NDArray[np.int64]) -> nx.Graph[int]:
    """Nodes 0..n-1 in order, joined by ``tails[e] - heads[e]``."""
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(tails.tolist(), heads.tolist(), strict=True))
    return graph


def _random_pairs(n: int, p: float, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each pair i < j with probability ``p``: a binomial number of pairs, uniform without replacement."""
    pairs = n * (n - 1) // 2
    chosen = np.sort(rng.choice(pairs, rng.binomial(pairs, p), replace=False, shuffle=False)) if pairs else np.arange(0)
    rows = np.arange(n)
    first = rows * (2 * n - rows - 1) // 2  # how many pairs have a smaller tail
    tails = np.searchsorted(first, chosen, side="right") - 1
    tails = np.minimum(tails, n - 2)  # the last two rows start together: the very last is empty
    return tails, chosen - first[tails] + tails + 1


def _connects(n: int, tails: NDArray[np.int64], heads: NDArray[np.int64]) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(tails)), (tails, heads)), shape=(n, n))
    components, _ = connected_components(edges, directed=False)
    return components == 1


def _count(name: str, n: int) -> int:
    return _at_least(1, n, f"{name}: the number of agents")


def _sides(name: str, sides: tuple[int, ...], least: int, hint: str = "") -> tuple[int, ...]:
    if not sides:
        raise ValueError(f"{name} needs its sides, for example {name}(4, 5)")
    what = f"{name}: every side of {'x'.join(map(str, sides))}"
    return tuple(_at_least(least, side, what, hint) for side in sides)


def _at_least(least: int, value: int, what: str, hint: str = "") -> int:
    """``value`` as a Python int that is not below ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {value!r}") from None
    if number < least:
        raise ValueError(f"{what} must be at least {least}, got {number}{hint}")
    return number
