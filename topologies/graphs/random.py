"""Random communication graphs, redrawn until they are connected, with bounded tries; the same seed
gives the same graph."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from topologies.graphs.edges import Agents, Edges, family, simplified
from topologies.graphs.graph_families import at_least, check_edges, count
from topologies.line.later import nx, spatial

Draw = Callable[[np.random.Generator], Edges]
_TRIES = 100
_REPAIRS = 1000


@family
def erdos_renyi(n: int, p: float = 0.3, seed: int = 0) -> Edges:
    """Erdős-Rényi graph G(n, p), each edge present with probability ``p``, redrawn until it is
    connected.

    Raises ValueError if ``p`` is outside [0, 1], or none of 100 draws is connected.
    """
    n = count("erdos_renyi", n)
    p = _probability("erdos_renyi", p)
    check_edges("erdos_renyi", p * n * (n - 1) / 2)
    threshold = min(1.0, math.log(n) / n)
    what = f"erdos_renyi(n={n}, p={p}, seed={seed})"
    advice = f"likely above p = log(n)/n = {threshold:.3g}: try p={min(1.0, 2 * threshold):.3g}"
    return _until_connected(what, lambda rng: Edges(n, *_random_pairs(n, p, rng)), seed, advice)


@family
def random_regular(n: int, degree: int = 4, seed: int = 0) -> Edges:
    """Random regular graph: stubs are paired at random, then self-loops and parallel edges switched
    away.

    Asymptotically uniform over regular graphs (McKay and Wormald, "Uniform generation of random
    regular graphs of moderate degree", 1990); above half of n - 1, the complement of a sparse one.

    Raises ValueError if n * degree is odd, degree is not in 1..n - 1, or none of 100 draws is
    connected.
    """
    n = count("random_regular", n)
    degree = at_least(1, degree, "random_regular: the degree")
    if degree >= n or n * degree % 2:
        raise ValueError(
            f"random_regular: degree must be below n, and n * degree even, got n={n}, "
            f"degree={degree}"
        )
    check_edges("random_regular", n * degree / 2)
    what = f"random_regular(n={n}, degree={degree}, seed={seed})"
    advice = "degree 1 is a matching and degree 2 some cycles: try degree=3 or 4, or the ring"
    return _until_connected(what, lambda rng: _regular(n, degree, rng), seed, advice)


@family
def random_geometric(n: int, radius: float | None = None, seed: int = 0) -> Edges:
    """Random geometric graph: agents at random in the unit square (``pos``), neighbours if at most
    ``radius`` apart.

    Without ``radius``, ``sqrt(2 log n / (pi n))``: twice the area at which random geometric graphs
    become connected.

    Raises ValueError if ``radius`` is not positive, or none of 100 draws is connected.
    """
    n = count("random_geometric", n)
    usual = min(math.sqrt(2), math.sqrt(2 * math.log(max(n, 2)) / (math.pi * n)))
    reach = usual if radius is None else radius
    if not reach > 0:
        raise ValueError(f"random_geometric: radius must be positive, got {radius}")
    check_edges("random_geometric", n * (n - 1) / 2 * min(1.0, math.pi * min(reach, 1.0) ** 2 / 4))
    what = f"random_geometric(n={n}, radius={reach:.3g}, seed={seed})"
    advice = f"likely from radius = sqrt(2 log n / (pi n)): try radius={min(1.2 * usual, 1.42):.3g}"
    return _until_connected(what, lambda rng: _near(rng.random((n, 2)), reach), seed, advice)


@family
def watts_strogatz(n: int, k: int = 4, p: float = 0.1, seed: int = 0) -> Edges:
    """Small world of Watts and Strogatz: a ring with ``k`` nearest neighbours, each edge rewired
    with probability ``p``.

    Raises ValueError if ``k`` is odd or not in 2..n - 1, ``p`` is outside [0, 1], or none of 100
    draws is connected.
    """
    n = count("watts_strogatz", n)
    k = at_least(2, k, "watts_strogatz: k")
    p = _probability("watts_strogatz", p)
    if k % 2 or k >= n:
        raise ValueError(f"watts_strogatz: k must be even and below n, got k={k}, n={n}")
    check_edges("watts_strogatz", n * k / 2)
    what = f"watts_strogatz(n={n}, k={k}, p={p}, seed={seed})"
    advice = f"try k={k + 2}"
    return _until_connected(
        what, lambda rng: _edges(nx.watts_strogatz_graph(n, k, p, seed=rng)), seed, advice
    )


@family
def barabasi_albert(n: int, m: int = 2, seed: int = 0) -> Edges:
    """Scale-free graph of Barabási and Albert: each new agent joins ``m`` others, chosen in
    proportion to their degrees.

    Raises ValueError if ``m`` is not in 1..n - 1.
    """
    n = count("barabasi_albert", n)
    m = at_least(1, m, "barabasi_albert: m")
    if m >= n:
        raise ValueError(f"barabasi_albert: m must be below n, got m={m}, n={n}")
    check_edges("barabasi_albert", n * m)
    return _edges(nx.barabasi_albert_graph(n, m, seed=np.random.default_rng(seed)))


def _until_connected(what: str, draw: Draw, seed: int, advice: str) -> Edges:
    rng = np.random.default_rng(seed)
    for _ in range(_TRIES):
        edges = draw(rng)
        if edges.connected():
            return edges
    raise ValueError(f"{what}: none of {_TRIES} draws was connected; {advice}")


def _probability(name: str, p: float) -> float:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p must be a probability in [0, 1], got {p}")
    return p


def _regular(n: int, degree: int, rng: np.random.Generator) -> Edges:
    if 2 * degree > n - 1:
        missing = _regular(n, n - 1 - degree, rng)
        present = np.triu(np.ones((n, n), dtype=bool), 1)
        present[missing.tails, missing.heads] = False
        tails, heads = np.nonzero(present)
        return Edges(n, tails, heads)
    stubs = rng.permutation(np.repeat(np.arange(n), degree))
    tails = stubs[0::2]
    heads = stubs[1::2]
    for _ in range(_REPAIRS):
        keys = np.minimum(tails, heads) * n + np.maximum(tails, heads)
        _, first = np.unique(keys, return_index=True)
        good = np.zeros(len(keys), dtype=bool)
        good[first] = True
        good &= tails != heads
        if good.all():
            break
        bad = np.flatnonzero(~good)
        switched = np.union1d(bad, rng.integers(len(keys), size=len(bad)))
        heads[switched] = rng.permutation(heads[switched])
    else:
        raise ValueError(
            f"random_regular(n={n}, degree={degree}): no simple graph after {_REPAIRS} repairs; "
            "try another seed"
        )
    return simplified(n, tails, heads)


def _near(places: NDArray[np.float64], radius: float) -> Edges:
    pairs = spatial.KDTree(places).query_pairs(radius, output_type="ndarray").astype(np.int64)
    return simplified(len(places), *pairs.T)._replace(positions=places)


def _edges(graph: nx.Graph[int]) -> Edges:
    pairs = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    return simplified(graph.number_of_nodes(), *pairs.T)


def _random_pairs(n: int, p: float, rng: np.random.Generator) -> tuple[Agents, Agents]:
    """Each pair i < j with probability ``p``: a binomial number of pairs, uniform without
    replacement."""
    pairs = n * (n - 1) // 2
    chosen = np.arange(0)
    if pairs:
        drawn = rng.binomial(pairs, p)
        chosen = np.sort(rng.choice(pairs, drawn, replace=False, shuffle=False))
    rows = np.arange(n)
    first = rows * (2 * n - rows - 1) // 2  # the number of pairs with a smaller tail
    tails = np.searchsorted(first, chosen, side="right") - 1
    tails = np.minimum(tails, n - 2)  # the last two rows start together: the very last is empty
    return tails, chosen - first[tails] + tails + 1
