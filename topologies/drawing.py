"""Drawings: a graph with its agents coloured by a quantity and its edges as thick as their weights; eigenvalues in the disc.

Every function draws into given axes, or into a figure of its own, and returns the axes, which a notebook shows; files are written
by matplotlib's ``axes.figure.savefig``. matplotlib comes with ``pip install decentorth[plot]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topologies.canonical import WeightsLike, canonical_weights, upper
from topologies.graphs.families import named_graph
from topologies.weights.checks import adjacency

if TYPE_CHECKING:
    import networkx as nx

Points: TypeAlias = NDArray[np.float64]

_AGENTS = 220.0
_THICKEST = 4.0
_THINNEST = 0.3
_LABELLED = 40
_LAID_OUT = 500


def draw_graph(
    graph: nx.Graph[Any],
    W: WeightsLike | None = None,
    quantity: ArrayLike | None = None,
    label: str = "",
    positions: ArrayLike | None = None,
    axes: Any = None,
    labels: Sequence[str] | None = None,
) -> Any:
    """Draw ``graph`` with edge widths in proportion to the size of the weights ``W``, shape (n, n), dashed if they are negative.

    ``quantity``, shape (n,), colours the agents, for example by each one's consensus error; ``label`` names it at the colour bar.
    ``labels`` are the agents' names, by default those of the graph's nodes, agents in the order of `numbered`.
    ``positions``, shape (n, 2), are by default those of `agent_positions`; ``axes`` are matplotlib's, by default new ones.

    Errors as `check_graph`, for W as `canonical_weights`; ValueError if an array has another shape.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import withStroke

    graph, own = named_graph(graph)
    names = labels or own or [str(agent) for agent in graph]
    edges = adjacency(graph)
    n = edges.shape[0]
    places = agent_positions(graph) if positions is None else _shaped("positions", positions, (n, 2))
    colours = None if quantity is None else _shaped("quantity", quantity, (n,))
    matrix = edges if W is None else canonical_weights(W)
    if matrix.shape != edges.shape:
        raise ValueError(f"W must have one row per agent of the graph: it has {matrix.shape[0]} rows, the graph {n} agents")
    axes = _axes(axes)
    once = upper(edges)
    tails, heads = once.row, once.col
    weights = np.array([matrix[i, j] for i, j in zip(tails, heads, strict=True)])
    largest = np.abs(weights).max(initial=np.finfo(float).tiny)
    lines = LineCollection(
        list(np.stack([places[tails], places[heads]], axis=1)),
        linewidths=_THINNEST + (_THICKEST - _THINNEST) * np.abs(weights) / largest,
        linestyles=["solid" if weight >= 0 else "dashed" for weight in weights],
        colors="0.55",
        zorder=1,
    )
    axes.add_collection(lines)
    shown = {"color": "0.85"} if colours is None else {"c": colours, "cmap": "viridis"}
    size = _AGENTS * min(1.0, 60 / n)
    agents = axes.scatter(places[:, 0], places[:, 1], s=size, edgecolors="black", linewidths=0.6, zorder=2, **shown)
    if n <= _LABELLED:
        for name, (x, y) in zip(names, places, strict=True):
            text = axes.text(x, y, name, ha="center", va="center", fontsize=7, zorder=3)
            text.set_path_effects([withStroke(linewidth=2, foreground="white")])
    if colours is not None:
        axes.figure.colorbar(agents, ax=axes, label=label, shrink=0.8)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.margins(0.12)
    return axes


def draw_spectrum(eigenvalues: ArrayLike, sigma: float | None = None, axes: Any = None) -> Any:
    """Draw real or complex ``eigenvalues``, shape (m,), in the closed unit disc, with the circle of radius ``sigma``.

    Raises ValueError if the eigenvalues are not one-dimensional and finite.
    """
    from matplotlib.patches import Circle

    values = np.asarray(eigenvalues, dtype=np.complex128)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"eigenvalues must be a finite array with one axis, got shape {values.shape}")
    axes = _axes(axes)
    axes.add_patch(Circle((0, 0), 1, fill=False, color="black", linewidth=1))
    if sigma is not None:
        axes.add_patch(Circle((0, 0), sigma, fill=False, color="tab:red", linewidth=1, linestyle="dashed"))
        axes.set_title(f"radius {sigma:.6g}", color="tab:red", fontsize=9)
    axes.axhline(0, color="0.85", linewidth=0.6, zorder=0)
    axes.axvline(0, color="0.85", linewidth=0.6, zorder=0)
    axes.scatter(values.real, values.imag, s=22, facecolors="none", edgecolors="tab:blue", linewidths=1)
    axes.set_aspect("equal")
    axes.set_xlabel("real part")
    axes.set_ylabel("imaginary part")
    reach = 1.08 * max(1.0, float(np.abs(values).max(initial=0.0)))
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    return axes


def agent_positions(graph: nx.Graph[int]) -> Points:
    """Positions of the agents, shape (n, 2): the graph's own (attribute ``pos``), else a circle for cycles and complete
    graphs, else networkx's Kamada-Kawai layout, or a spectral one above 500 agents. Errors as `check_graph`."""
    import networkx as nx

    edges = adjacency(graph)
    n = edges.shape[0]
    given = nx.get_node_attributes(graph, "pos")
    if len(given) == n:
        return np.array([given[i] for i in range(n)], dtype=np.float64)
    degrees = np.diff(edges.indptr)
    if n < 3 or bool(np.all(degrees == 2)) or edges.nnz == n * (n - 1):
        angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    layout = nx.kamada_kawai_layout(graph, weight=None) if n <= _LAID_OUT else nx.spectral_layout(graph, weight="")
    return np.array([layout[i] for i in range(n)])


def _shaped(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Points:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, one row per agent, got {array.shape}")
    return array


def _axes(axes: Any) -> Any:
    """The given axes, or the axes of a new figure without a window."""
    if axes is not None:
        return axes
    from topologies.pictures import Picture, PictureAxes

    return Picture(figsize=(5, 5), layout="constrained").add_subplot(axes_class=PictureAxes)
