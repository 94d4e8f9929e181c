"""Drawings: a graph with its agents coloured by a quantity and its edges as thick as their weights;
eigenvalues.

Every function draws into given axes, or into a figure of its own, and returns the axes, which a
notebook shows; files are written by matplotlib's ``axes.figure.savefig``.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from topologies.canonical import Entries, Weights, WeightsLike, canonical_weights, upper
from topologies.directed.weights import check_digraph
from topologies.graphs.graph_families import Labelled, grid, named_graph, torus
from topologies.line.later import collections, nx, patches, patheffects
from topologies.line.memory import dense
from topologies.weights.weight_checks import adjacency

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points: TypeAlias = NDArray[np.float64]

_AGENTS = 220.0
_THICKEST = 4.0
_THINNEST = 0.3
_LABELLED = 40
_LAID_OUT = 500
_EQUAL = 1e-9
"""The relative range below which a quantity is drawn as one value."""
_STUB = 0.4
"""The length of a cut edge's ends, relative to the distance of neighbours."""


def draw_graph(
    graph: Labelled,
    W: WeightsLike | None = None,
    quantity: ArrayLike | None = None,
    label: str = "",
    axes: Axes | None = None,
    labels: Sequence[str] | None = None,
    logarithmic: bool = False,
) -> Axes:
    """Draw ``graph`` with edge widths in proportion to the size of the weights ``W``, shape (n, n),
    dashed if they are negative.

    Edges of a directed graph are arrows from the agent that is heard; its ``W`` has the weight that
    i gives to j at [i, j].

    ``quantity``, shape (n,), colours the agents, for example by each one's consensus error, on a
    ``logarithmic`` scale where it is positive; ``label`` names it at the colour bar, or beside its
    value where that is the same for all. ``labels`` are the agents' names, by default those of the
    graph's nodes, agents in the order of `numbered`. Their positions are those of
    `agent_positions`, and edges around a torus are cut at its border. ``axes`` are matplotlib's, by
    default new ones.

    Errors as `check_graph`, for W as `canonical_weights`; ValueError if an array has another shape.
    """
    graph, own = named_graph(graph)
    names = labels or own or [str(agent) for agent in graph]
    directed = graph.is_directed()
    edges = check_digraph(graph) if directed else adjacency(graph)
    n = edges.shape[0]
    places = agent_positions(graph.to_undirected())
    colours = None if quantity is None else np.asarray(quantity, dtype=np.float64)
    if colours is not None and colours.shape != (n,):
        raise ValueError(f"quantity must have shape {(n,)}, one row per agent, got {colours.shape}")
    matrix: Any = edges
    if W is not None:
        matrix = csr_array(dense(W).T) if directed else canonical_weights(W)
    if matrix.shape != edges.shape:
        raise ValueError(
            f"W must have one row per agent of the graph: it has {matrix.shape[0]} rows, the "
            f"graph {n} agents"
        )
    axes = _axes(axes)
    share = min(1.0, 60 / n)
    if directed:
        _draw_arrows(axes, edges, matrix.toarray(), places, _THICKEST * share**0.5)
    else:
        segments = _segments(edges, places, not _own_positions(graph))
        _draw_edges(axes, segments, upper(edges), matrix, _THICKEST * share**0.5)
    _draw_agents(axes, places, colours, label, logarithmic)
    if n <= _LABELLED:
        for name, (x, y) in zip(names, places, strict=True):
            text = axes.text(x, y, name, ha="center", va="center", fontsize=7, zorder=3)
            text.set_path_effects([patheffects.withStroke(linewidth=2, foreground="white")])
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.margins(0.12)
    return axes


def _draw_edges(
    axes: Axes, segments: _Segments, edges: Entries, matrix: Weights, thickest: float
) -> None:
    """Draw lines as wide as the weights of their edges in ``matrix``."""
    weights = np.array([matrix[i, j] for i, j in zip(edges.row, edges.col, strict=True)])
    largest = np.abs(weights).max(initial=np.finfo(float).tiny)
    weights = weights[segments.edge]
    widths = _THINNEST + (thickest - _THINNEST) * np.abs(weights) / largest
    styles = np.where(weights >= 0, "solid", "dashed").tolist()
    look: dict[str, Any] = {
        "linewidths": widths,
        "linestyles": styles,
        "colors": "0.55",
        "zorder": 1,
    }
    axes.add_collection(collections.LineCollection(list(segments.ends), **look))


def _draw_arrows(
    axes: Axes, edges: Weights, matrix: Points, places: Points, thickest: float
) -> None:
    """Draw an arrow for each edge, as wide as its weight, bent where there is one of the other
    direction."""
    largest = np.abs(matrix).max(initial=np.finfo(float).tiny)
    for i, j in zip(*edges.nonzero(), strict=True):
        bend = 0.15 if edges[j, i] else 0.0
        width = _THINNEST + (thickest - _THINNEST) * abs(matrix[i, j]) / largest
        form = {"arrowstyle": "-|>", "mutation_scale": 8 + 2 * width, "shrinkA": 8, "shrinkB": 8}
        form |= {"color": "0.45", "linewidth": width, "connectionstyle": f"arc3,rad={bend}"}
        axes.annotate("", places[j], places[i], arrowprops=form, zorder=1)


def _draw_agents(
    axes: Axes, places: Points, colours: Points | None, label: str, logarithmic: bool
) -> None:
    """Draw agents in the colours of a quantity, with a colour bar; in one colour where it is the
    same for all."""
    shown: dict[str, Any] = {"edgecolors": "black", "linewidths": 0.6, "zorder": 2, "color": "0.85"}
    shown["s"] = _AGENTS * min(1.0, 60 / len(places))
    bar = colours is not None and np.ptp(colours) > _EQUAL * np.abs(colours).max(initial=0.0)
    if colours is not None and bar:
        del shown["color"]
        norm = "log" if logarithmic and colours.min() > 0.0 else None
        shown |= {"c": colours, "cmap": "viridis", "norm": norm}
    agents = axes.scatter(*places.T, **shown)
    if bar:
        axes.figure.colorbar(agents, ax=axes, label=label, shrink=0.8)
    elif colours is not None:
        axes.set_title(f"{label} {colours[0]:.4g} everywhere".strip(), fontsize=9)


def draw_spectrum(
    eigenvalues: ArrayLike, sigma: float | None = None, axes: Axes | None = None
) -> Axes:
    """Draw ``eigenvalues``, shape (m,), with ``sigma``: real ones by rank, with lines at sigma and
    -sigma; complex ones in the closed unit disc, with the circle of radius sigma.

    Raises ValueError if the eigenvalues are not one-dimensional and finite.
    """
    values = np.asarray(eigenvalues, dtype=np.complex128)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"eigenvalues must be finite, with one axis, got shape {values.shape}")
    axes = _axes(axes)
    if sigma is not None:
        axes.set_title(rf"$\sigma$ = {sigma:.6g}", color="tab:red", fontsize=9)
    marks: dict[str, Any] = {"facecolors": "none", "edgecolors": "tab:blue", "linewidths": 1}
    marks["s"] = 22 * min(1.0, 60 / max(len(values), 1))
    line: dict[str, Any] = {"color": "tab:red", "linewidth": 1, "linestyle": "dashed"}
    reach = 1.08 * max(1.0, float(np.abs(values).max(initial=0.0)))
    if not values.imag.any():
        for level in () if sigma is None else (sigma, -sigma):
            axes.axhline(level, **line)
        axes.scatter(np.arange(1, len(values) + 1), np.sort(values.real)[::-1], **marks)
        axes.set_xlabel("rank")
        axes.set_ylabel("eigenvalue")
        low = float(values.real.min(initial=0.9))
        high = float(values.real.max(initial=1.0))
        axes.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
        return axes
    axes.add_patch(patches.Circle((0, 0), 1, fill=False, color="black", linewidth=1))
    if sigma is not None:
        axes.add_patch(patches.Circle((0, 0), sigma, fill=False, **line))
    axes.axhline(0, color="0.85", linewidth=0.6, zorder=0)
    axes.axvline(0, color="0.85", linewidth=0.6, zorder=0)
    axes.scatter(values.real, values.imag, **marks)
    axes.set_aspect("equal")
    axes.set_xlabel("real part")
    axes.set_ylabel("imaginary part")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach))
    return axes


def agent_positions(graph: nx.Graph[int]) -> Points:
    """Positions of the agents, shape (n, 2): the graph's own (attribute ``pos``), else the lattice
    for grids and tori with two sides numbered by rows, a circle for cycles and complete graphs,
    else networkx's Kamada-Kawai layout, or a spectral one above 500 agents. Raises the errors of
    `check_graph`."""
    edges = adjacency(graph)
    n = edges.shape[0]
    if _own_positions(graph):
        return np.array([graph.nodes[i]["pos"] for i in range(n)], dtype=np.float64)
    lattice = _lattice(edges)
    if lattice is not None:
        rows, columns = np.divmod(np.arange(n), lattice.columns)
        return np.stack([columns, -rows], axis=1).astype(np.float64)
    degrees = np.diff(edges.indptr)
    if n < 3 or bool(np.all(degrees == 2)) or edges.nnz == n * (n - 1):
        angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    lay_out = nx.kamada_kawai_layout if n <= _LAID_OUT else nx.spectral_layout
    layout = lay_out(graph, weight=None)
    return np.array([layout[i] for i in range(n)])


def _own_positions(graph: nx.Graph[int]) -> bool:
    return len(nx.get_node_attributes(graph, "pos")) == len(graph)


class _Lattice(NamedTuple):
    """A grid or a torus, numbered by rows."""

    columns: int
    periodic: bool


class _Segments(NamedTuple):
    """The straight lines of a drawing's edges, ``(k, 2, 2)``, and the edge that each belongs to."""

    ends: Points
    edge: NDArray[np.int64]


def _lattice(edges: Weights) -> _Lattice | None:
    """The grid or torus with two sides, numbered by rows, that a graph is; None for other
    graphs."""
    n = edges.shape[0]
    for columns in (columns for columns in range(2, n // 2 + 1) if n % columns == 0):
        for family, least in ((grid, 2), (torus, 3)):
            if min(columns, n // columns) >= least:
                built = inspect.unwrap(family)(n // columns, columns).adjacency()
                if built.nnz == edges.nnz and (built != edges).nnz == 0:
                    return _Lattice(columns, family is torus)
    return None


def _segments(edges: Weights, places: Points, torus: bool) -> _Segments:
    """The lines of all edges; an edge around a torus is cut, and a short line leaves the lattice at
    either end."""
    once = upper(edges)
    tails = once.row.astype(np.int64)
    heads = once.col.astype(np.int64)
    ends = np.stack([places[tails], places[heads]], axis=1)
    lattice = _lattice(edges) if torus else None
    if lattice is None or not lattice.periodic:
        return _Segments(ends, np.arange(len(ends)))
    rows = heads // lattice.columns - tails // lattice.columns
    apart = np.where(rows == 0, heads - tails, rows)
    around = np.flatnonzero(apart > 1)
    stub = _STUB * (ends[around, 1] - ends[around, 0]) / apart[around, None]
    before = np.stack([ends[around, 0], ends[around, 0] - stub], axis=1)
    after = np.stack([ends[around, 1], ends[around, 1] + stub], axis=1)
    straight = np.flatnonzero(apart == 1)
    edge = np.concatenate([straight, around, around])
    return _Segments(np.concatenate([ends[straight], before, after]), edge)


def _axes(axes: Axes | None) -> Axes:
    """The given axes, or the axes of a new figure without a window."""
    if axes is not None:
        return axes
    from topologies.pictures import Picture, PictureAxes

    return Picture(figsize=(5, 5), layout="constrained").add_subplot(axes_class=PictureAxes)
