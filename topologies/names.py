"""Graphs by name, for command lines and configuration files: ``ring``, ``torus:4x5``,
``erdos-renyi:n=12,p=0.3``.

A specification is a name, then, after a colon, parameters separated by commas: ``key=value``, or
first of all a bare value for the function's first parameter. Sides are written ``4x5``, offsets
``1+2+5``. Case does not matter, and dashes and underscores are equal. ``file:PATH`` reads a graph
from a file, ``file:PATH,largest_component=true`` its largest connected part. Directed graphs have
names too, ``directed_ring:chords=3``, and are read by ``digraph:PATH``.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, TypeAlias

from topologies.canonical import Weights
from topologies.directed import graphs as directed_graphs
from topologies.graphs import graph_families as graphs
from topologies.graphs import random as random_graphs
from topologies.graphs import real as networks
from topologies.graphs.edges import Edges
from topologies.graphs.graph_families import Labelled
from topologies.line.later import nx
from topologies.line.text import divided, values
from topologies.line.typed import Shape
from topologies.line.words import normal_name
from topologies.weights.conductances import attribute_of
from topologies.weights.weight_checks import adjacency

_FAMILIES: tuple[Callable[..., Any], ...] = (
    *(graphs.barbell, graphs.binary_tree, graphs.chordal_cycle, graphs.circulant, graphs.complete),
    *(graphs.exponential, graphs.grid, graphs.hypercube, graphs.lollipop, graphs.margulis),
    *(graphs.path, graphs.ring, graphs.star, graphs.torus),
    *(networks.davis_women, networks.florentine_families, networks.karate_club),
    *(networks.les_miserables, random_graphs.barabasi_albert, random_graphs.erdos_renyi),
    *(random_graphs.random_geometric, random_graphs.random_regular, random_graphs.watts_strogatz),
)
GRAPHS = {build.__name__: build for build in _FAMILIES}
"""The functions that names stand for."""
_DIRECTED = (
    directed_graphs.directed_exponential,
    directed_graphs.directed_ring,
    directed_graphs.random_k_out,
)
DIGRAPHS: dict[str, Callable[..., Any]] = {build.__name__: build for build in _DIRECTED}
"""The functions that names of directed graphs stand for."""
_Graph: TypeAlias = "nx.Graph[int]"
_Digraph: TypeAlias = "nx.DiGraph[int]"
_FILE, _DIGRAPH = "file", "digraph"
_SMALLEST_SIDE = {"grid": 2, "torus": 3}
_SIDES = Shape(lambda text: tuple(map(int, text.lower().split("x"))), "integers joined by x (4x5)")
_OFFSETS = Shape(lambda text: tuple(map(int, text.split("+"))), "integers joined by + (1+2+5)")
_HINTS = {"int": int, "float": float, "tuple[int, ...]": _OFFSETS}


def available() -> tuple[str, ...]:
    """The names of graphs that `graph_from_name` knows, besides ``file:PATH``."""
    return tuple(sorted(GRAPHS))


def is_digraph_name(specification: str) -> bool:
    """True where the specification names a directed graph."""
    return normal_name(specification.partition(":")[0]) in (*DIGRAPHS, _DIGRAPH)


def digraph_from_name(
    specification: str, n_agents: int | None = None, seed: int = 0, names: Sequence[str] = ()
) -> _Digraph:
    """The directed graph that ``specification`` describes: ``"directed_ring:chords=3"``,
    ``"random_k_out:20,k=3"``, ``"directed_exponential:16"``, ``"digraph:my/edges.txt"``.

    Arguments and errors as `graph_from_name`.
    """
    if not is_digraph_name(specification):
        raise ValueError(
            f"{specification!r} is no directed graph: take {', '.join(sorted(DIGRAPHS))} or "
            f"{_DIGRAPH}:PATH"
        )
    graph: _Digraph = _call(specification, n_agents, seed, names)()
    check_size(specification, graph.number_of_nodes(), n_agents)
    return graph


def graph_from_name(
    specification: str, n_agents: int | None = None, seed: int = 0, names: Sequence[str] = ()
) -> _Graph:
    """The graph that ``specification`` describes.

    Raises ValueError if the name or a parameter is unknown, a value cannot be read or is out of
    range, the number of agents is missing, impossible, or not what the specification says.

    Parameters
    ----------
    specification : str
        For example ``"ring"``, ``"ring:10"``, ``"torus:4x5"``, ``"erdos_renyi:p=0.3"``,
        ``"file:my/graph.graphml"``.
    n_agents : int, optional
        Number of agents, needed where the specification leaves it open. A grid or torus without
        sides becomes the most square two-dimensional one.
    seed : int
        Seed of a random graph whose specification gives no seed.
    names : sequence of str
        The names of the agents, by which the nodes of a file are joined to them (`named_graph`).
    """
    _check_undirected(specification)
    graph: _Graph = _call(specification, n_agents, seed, names)()
    check_size(specification, graph.number_of_nodes(), n_agents)
    return graph


def adjacency_from_name(
    specification: str, n_agents: int | None = None, seed: int = 0, names: Sequence[str] = ()
) -> Weights:
    """The adjacency matrix, shape (n, n), of the graph that `graph_from_name` gives for the same
    arguments.

    The families are built from arrays, without a ``networkx.Graph``: a million agents in seconds.
    Every weight rule takes it.

    Raises the errors of `graph_from_name`.
    """
    _check_undirected(specification)
    call = _call(specification, n_agents, seed, names)
    built: Edges | _Graph = inspect.unwrap(call.func)(*call.args, **call.keywords)
    matrix = built.adjacency() if isinstance(built, Edges) else adjacency(built)
    check_size(specification, matrix.shape[0], n_agents)
    return matrix


def fixed_agents(specification: str, seed: int = 0) -> int | None:
    """The number of agents that ``specification`` fixes; None where it leaves it open.

    Raises the errors of `graph_from_name`.
    """
    if not _is_file(specification):
        _, _, first, values = _read(specification)
        if first not in (None, *values):
            return None
    if is_digraph_name(specification):
        return digraph_from_name(specification, None, seed).number_of_nodes()
    return adjacency_from_name(specification, None, seed).shape[0]


def unread_in_file(specification: str, edge_weight: str = "") -> list[str]:
    """Return the edge attributes in the file of a graph that are not read: all but that of
    ``edge_weight``; none for graphs that are not from files."""
    if not _is_file(specification):
        return []
    read = digraph_from_name if is_digraph_name(specification) else graph_from_name
    found = networks.edge_attributes(read(specification))
    return [name for name in found if name != attribute_of(edge_weight)]


def _call(
    specification: str, n_agents: int | None, seed: int, names: Sequence[str]
) -> partial[Any]:
    """The function that ``specification`` names, with its arguments: the leading ones, and those by
    name."""
    if _is_file(specification):
        path = specification.partition(":")[2].strip()
        path, option, kept = path.partition(",largest_component=")
        if option and kept not in ("true", "false"):
            raise ValueError(f"largest_component must be true or false, got {kept!r}")
        if not path:
            kind = _DIGRAPH if is_digraph_name(specification) else _FILE
            raise ValueError(
                f"{specification!r} names no file: write {kind}:PATH, as {kind}:my/graph.txt"
            )
        if is_digraph_name(specification):
            if option:
                raise ValueError("largest_component is for undirected graphs: leave it out")
            return partial(_of_file, partial(directed_graphs.digraph_from_file, path), names)
        return partial(_of_file, partial(networks.graph_from_file, path, kept == "true"), names)
    name, factory, first, values = _read(specification)
    if first is None:
        return partial(factory)
    if "seed" in inspect.signature(factory).parameters:
        values.setdefault("seed", seed)
    sides = first == "sides"
    if first not in values:
        if n_agents is None:
            example = f"{name}:4x5" if sides else f"{name}:10"
            raise ValueError(
                f"{specification!r} leaves the number of agents open: write {example!r}, or give "
                "n_agents in Python"
            )
        values[first] = _most_square(name, operator.index(n_agents)) if sides else n_agents
    leading = values.pop(first)
    sizes = leading if sides else (leading,)
    check_size(specification, math.prod(sizes), n_agents)  # before anything is built
    return partial(factory, *sizes, **values)


def _of_file(read: Callable[[], Labelled], names: Sequence[str]) -> Labelled:
    """The graph in a file, whose nodes are in the order of the agents' ``names``."""
    return graphs.named_graph(read(), names)[0]


def _read(specification: str) -> tuple[str, Any, str | None, dict[str, Any]]:
    """The name in a specification, its function, the function's first parameter if it has any, and
    the parameters written."""
    functions = {**GRAPHS, **DIGRAPHS}
    if PurePath(specification).suffix.lower() in networks.READERS:
        raise ValueError(
            f"{specification!r} is no graph's name; for a file write {_FILE}:{specification}, or "
            f"{_DIGRAPH}:{specification} if the graph is directed"
        )
    name, written = divided(
        "graph", specification, sorted(functions), f"{_FILE}:PATH", f"{_DIGRAPH}:PATH"
    )
    known = inspect.signature(functions[name]).parameters
    hints: dict[str, object] = {}
    for key, one in known.items():
        hints[key] = _HINTS[one.annotation.removesuffix(" | None")]
        if one.kind is one.VAR_POSITIONAL:
            hints[key] = _SIDES
    found = values(repr(specification), name, hints, written)
    return name, functions[name], next(iter(known), None), found


def check_size(specification: str, n: int, n_agents: int | None) -> None:
    if n_agents is not None and n != n_agents:
        raise ValueError(
            f"{specification!r} has {n} agents, but n_agents is {n_agents}; leave one of the two "
            "out"
        )


def _is_file(specification: str) -> bool:
    return normal_name(specification.partition(":")[0]) in (_FILE, _DIGRAPH)


def _check_undirected(specification: str) -> None:
    if is_digraph_name(specification):
        raise ValueError(
            f"{specification!r} is a directed graph, for which no rule gives doubly stochastic "
            "weights: take an undirected graph such as ring, or the method push_pull, which needs "
            "none"
        )


def _most_square(name: str, n: int) -> tuple[int, int]:
    """The factors (a, b) of n with a <= b nearest to each other, none below the smallest side of
    this kind of graph."""
    least = _SMALLEST_SIDE[name]
    n = graphs.count(name, n)
    best = _factors(n, least)
    if best is None:
        near = graphs.nearest(n, lambda m: _factors(m, least))
        raise ValueError(
            f"no two-dimensional {name} has {n} agents with sides of at least {least}; the "
            f"nearest numbers that work: {near}"
        )
    return best


def _factors(n: int, least: int) -> tuple[int, int] | None:
    return next(((a, n // a) for a in range(math.isqrt(n), least - 1, -1) if n % a == 0), None)
