"""Graphs by name, for command lines and configuration files: ``ring``, ``torus:4x5``, ``erdos-renyi:n=12,p=0.3``.

A specification is a name, then, after a colon, parameters separated by commas: ``key=value``, or first of all a bare value for
the function's first parameter. Sides are written ``4x5``. Case does not matter, and dashes and underscores are equal.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from topologies import graphs

if TYPE_CHECKING:
    import networkx as nx

Factory: TypeAlias = "Callable[..., nx.Graph[int]]"
Parameters: TypeAlias = "Mapping[str, inspect.Parameter]"
Value: TypeAlias = "int | float | tuple[int, ...]"

GRAPHS: dict[str, Factory] = {
    "complete": graphs.complete,
    "erdos_renyi": graphs.erdos_renyi,
    "grid": graphs.grid,
    "path": graphs.path,
    "ring": graphs.ring,
    "star": graphs.star,
    "torus": graphs.torus,
}
_SMALLEST_SIDE = {"grid": 2, "torus": 3}
_CONVERTERS: dict[str, tuple[Callable[[str], int | float], str]] = {"int": (int, "an integer"), "float": (float, "a number")}


def available() -> tuple[str, ...]:
    """The names of graphs that `graph_from_name` knows."""
    return tuple(GRAPHS)


def graph_from_name(specification: str, n_agents: int | None = None, seed: int = 0) -> nx.Graph[int]:
    """The graph that ``specification`` describes.

    Parameters
    ----------
    specification : str
        For example ``"ring"``, ``"ring:10"``, ``"torus:4x5"``, ``"erdos_renyi:p=0.3"``.
    n_agents : int, optional
        Number of agents, needed where the specification leaves it open. A grid or torus without sides becomes the most square
        two-dimensional one.
    seed : int
        For random graphs whose specification gives no seed.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, a value cannot be read or is out of range, the number of agents is missing,
        impossible, or not what the specification says.
    """
    name, factory, text = _factory(specification)
    known = inspect.signature(factory).parameters
    values = _parameters(specification, name, known, text)
    if "seed" in known:
        values.setdefault("seed", seed)
    first = next(iter(known))
    if first not in values:
        if n_agents is None:
            example = f"{name}:4x5" if _takes_sides(known) else f"{name}:10"
            raise ValueError(f"{specification!r} leaves the number of agents open: give n_agents, or write {example!r}")
        values[first] = _most_square(name, operator.index(n_agents)) if _takes_sides(known) else n_agents
    leading = values.pop(first)
    graph = factory(*leading, **values) if isinstance(leading, tuple) else factory(leading, **values)
    if n_agents is not None and graph.number_of_nodes() != n_agents:
        raise ValueError(
            f"{specification!r} has {graph.number_of_nodes()} agents, but n_agents is {n_agents}; leave one of the two out"
        )
    return graph


def _factory(specification: str) -> tuple[str, Factory, str]:
    written, _, text = specification.partition(":")
    name = _normal(written)
    if name not in GRAPHS:
        raise ValueError(f"unknown graph {written.strip()!r}; {_suggest(name, GRAPHS)}known graphs: {', '.join(GRAPHS)}")
    return name, GRAPHS[name], text


def _parameters(specification: str, name: str, known: Parameters, text: str) -> dict[str, Value]:
    """The parameters written after the colon, each converted to the type in the function's signature."""
    values: dict[str, Value] = {}
    for position, item in enumerate(text.split(",") if text.strip() else ()):
        key, equals, value = item.partition("=")
        if not equals:
            if position:
                raise ValueError(f"{specification!r}: only the first value may lack its name; write key={item.strip()}")
            key, value = next(iter(known)), item
        key = _normal(key)
        if key not in known:
            hint = _suggest(key, known)
            raise ValueError(f"{specification!r}: {name} has no parameter {key!r}; {hint}its parameters: {', '.join(known)}")
        if key in values:
            raise ValueError(f"{specification!r} gives {key} twice")
        values[key] = _convert(specification, known[key], value.strip())
    return values


def _convert(specification: str, parameter: inspect.Parameter, text: str) -> Value:
    convert, kind = _CONVERTERS[parameter.annotation]
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        try:
            return tuple(int(side) for side in text.lower().split("x"))
        except ValueError:
            raise ValueError(f"{specification!r}: {parameter.name} must be integers joined by x (4x5), got {text!r}") from None
    try:
        return convert(text)
    except ValueError:
        raise ValueError(f"{specification!r}: {parameter.name} must be {kind}, got {text!r}") from None


def _takes_sides(known: Iterable[str]) -> bool:
    return "sides" in known


def _most_square(name: str, n: int) -> tuple[int, int]:
    """The factors (a, b) of n with a <= b nearest to each other, none below the smallest side of this kind of graph."""
    least = _SMALLEST_SIDE[name]
    best = _factors(n, least)
    if best is None:
        below = next((m for m in range(n - 1, 0, -1) if _factors(m, least)), None)
        above = next(m for m in itertools.count(max(n, 0) + 1) if _factors(m, least))
        nearest = " and ".join(str(m) for m in (below, above) if m is not None)
        raise ValueError(
            f"no two-dimensional {name} has {n} agents with sides of at least {least}; the nearest numbers that work: {nearest}"
        )
    return best


def _factors(n: int, least: int) -> tuple[int, int] | None:
    return next(((a, n // a) for a in range(math.isqrt(max(n, 0)), least - 1, -1) if n % a == 0), None)


def _suggest(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def _normal(word: str) -> str:
    return word.strip().lower().replace("-", "_")
