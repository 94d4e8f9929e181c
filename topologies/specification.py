"""Graphs by name, for command lines and configuration files: ``ring``, ``torus:4x5``, ``erdos-renyi:n=12,p=0.3``.

A specification is a name, then, after a colon, parameters separated by commas: ``key=value``, or first of all a bare value for
the function's first parameter. Sides are written ``4x5``, offsets ``1+2+5``. Case does not matter, and dashes and underscores
are equal. ``file:PATH`` reads a graph from a file.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from topologies import graphs, networks, random_graphs, text
from topologies.checks import adjacency
from topologies.edges import Edges

if TYPE_CHECKING:
    import networkx as nx

    from topologies.canonical import Weights

Factory: TypeAlias = "Callable[..., nx.Graph[int]]"
Parameters: TypeAlias = "Mapping[str, inspect.Parameter]"
Value: TypeAlias = "int | float | tuple[int, ...]"

GRAPHS: dict[str, Factory] = {
    "barabasi_albert": random_graphs.barabasi_albert,
    "barbell": graphs.barbell,
    "binary_tree": graphs.binary_tree,
    "chordal_cycle": graphs.chordal_cycle,
    "circulant": graphs.circulant,
    "complete": graphs.complete,
    "davis_women": networks.davis_women,
    "erdos_renyi": random_graphs.erdos_renyi,
    "exponential": graphs.exponential,
    "florentine_families": networks.florentine_families,
    "grid": graphs.grid,
    "hypercube": graphs.hypercube,
    "karate_club": networks.karate_club,
    "les_miserables": networks.les_miserables,
    "lollipop": graphs.lollipop,
    "margulis": graphs.margulis,
    "path": graphs.path,
    "random_geometric": random_graphs.random_geometric,
    "random_regular": random_graphs.random_regular,
    "ring": graphs.ring,
    "star": graphs.star,
    "torus": graphs.torus,
    "watts_strogatz": random_graphs.watts_strogatz,
}
_FILE = "file"
_SMALLEST_SIDE = {"grid": 2, "torus": 3}
_SIDES = text.Kind(lambda written: tuple(int(side) for side in written.lower().split("x")), "integers joined by x (4x5)")
_OFFSETS = text.Kind(lambda written: tuple(int(item) for item in written.split("+")), "integers joined by + (1+2+5)")
_HINTS = {"int": int, "int | None": int, "float": float, "float | None": float, "tuple[int, ...]": _OFFSETS}


def available() -> tuple[str, ...]:
    """The names of graphs that `graph_from_name` knows, besides ``file:PATH``."""
    return tuple(GRAPHS)


def graph_from_name(specification: str, n_agents: int | None = None, seed: int = 0) -> nx.Graph[int]:
    """The graph that ``specification`` describes.

    Parameters
    ----------
    specification : str
        For example ``"ring"``, ``"ring:10"``, ``"torus:4x5"``, ``"erdos_renyi:p=0.3"``, ``"file:my/graph.graphml"``.
    n_agents : int, optional
        Number of agents, needed where the specification leaves it open. A grid or torus without sides becomes the most square
        two-dimensional one.
    seed : int
        For random graphs whose specification gives no seed.

    Raises ValueError if the name or a parameter is unknown, a value cannot be read or is out of range, the number of agents is
    missing, impossible, or not what the specification says.
    """
    if _is_file(specification):
        return _sized(specification, networks.graph_from_file(specification.partition(":")[2].strip()), n_agents)
    factory, leading, values = _call(specification, n_agents, seed)
    return _sized(specification, factory(*leading, **values), n_agents)


def adjacency_from_name(specification: str, n_agents: int | None = None, seed: int = 0) -> Weights:
    """The adjacency matrix, shape (n, n), of the graph that `graph_from_name` gives for the same arguments.

    The families are built from arrays, without a ``networkx.Graph``: a million agents in seconds. Every weight rule takes it.

    Errors as `graph_from_name`.
    """
    if _is_file(specification):
        return adjacency(graph_from_name(specification, n_agents, seed))
    factory, leading, values = _call(specification, n_agents, seed)
    built: Edges | nx.Graph[int] = inspect.unwrap(factory)(*leading, **values)
    matrix = built.adjacency() if isinstance(built, Edges) else adjacency(built)
    _check_size(specification, matrix.shape[0], n_agents)
    return matrix


def fixed_agents(specification: str, seed: int = 0) -> int | None:
    """The number of agents that ``specification`` fixes; None where it leaves it open.

    Errors as `graph_from_name`.
    """
    if not _is_file(specification):
        name, factory, written = _factory(specification)
        known = inspect.signature(factory).parameters
        if known and next(iter(known)) not in _parameters(specification, name, known, written):
            return None
    return adjacency_from_name(specification, None, seed).shape[0]


def _call(specification: str, n_agents: int | None, seed: int) -> tuple[Factory, tuple[Value, ...], dict[str, Value]]:
    """The function that ``specification`` names and its arguments: the leading ones, and those by name."""
    name, factory, written = _factory(specification)
    known = inspect.signature(factory).parameters
    values = _parameters(specification, name, known, written)
    if not known:
        return factory, (), values
    if "seed" in known:
        values.setdefault("seed", seed)
    first = next(iter(known))
    if first not in values:
        if n_agents is None:
            example = f"{name}:4x5" if _takes_sides(known) else f"{name}:10"
            raise ValueError(f"{specification!r} leaves the number of agents open: give n_agents, or write {example!r}")
        values[first] = _most_square(name, operator.index(n_agents)) if _takes_sides(known) else n_agents
    leading = values.pop(first)
    sizes = leading if isinstance(leading, tuple) else (leading,)
    _check_size(specification, math.prod(sizes), n_agents)  # before anything is built
    return factory, sizes, values


def _sized(specification: str, graph: nx.Graph[int], n_agents: int | None) -> nx.Graph[int]:
    _check_size(specification, graph.number_of_nodes(), n_agents)
    return graph


def _check_size(specification: str, n: float, n_agents: int | None) -> None:
    if n_agents is not None and n != n_agents:
        raise ValueError(f"{specification!r} has {n} agents, but n_agents is {n_agents}; leave one of the two out")


def _is_file(specification: str) -> bool:
    return text.normal_name(specification.partition(":")[0]) == _FILE


def _factory(specification: str) -> tuple[str, Factory, str]:
    name, written = text.divided("graph", specification, GRAPHS, f"{_FILE}:PATH")
    return name, GRAPHS[name], written


def _parameters(specification: str, name: str, known: Parameters, written: str) -> dict[str, Value]:
    """The parameters written after the colon, each converted to the type in the function's signature."""
    hints = {key: _SIDES if one.kind is one.VAR_POSITIONAL else _HINTS[one.annotation] for key, one in known.items()}
    return text.values(repr(specification), name, hints, written)


def _takes_sides(known: Iterable[str]) -> bool:
    return "sides" in known


def _most_square(name: str, n: int) -> tuple[int, int]:
    """The factors (a, b) of n with a <= b nearest to each other, none below the smallest side of this kind of graph."""
    least, n = _SMALLEST_SIDE[name], graphs.count(name, n)
    best = _factors(n, least)
    if best is None:
        below = next((m for m in range(n - 1, 0, -1) if _factors(m, least)), None)
        above = next(m for m in itertools.count(n + 1) if _factors(m, least))
        nearest = " and ".join(str(m) for m in (below, above) if m is not None)
        raise ValueError(
            f"no two-dimensional {name} has {n} agents with sides of at least {least}; the nearest numbers that work: {nearest}"
        )
    return best


def _factors(n: int, least: int) -> tuple[int, int] | None:
    return next(((a, n // a) for a in range(math.isqrt(n), least - 1, -1) if n % a == 0), None)
