"""A drawing of a run's graph, its agents coloured by their errors at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..numerics.ordered_sums import norms
from ..protocols import Array
from ..settings import settings
from . import wiring
from .figures import panels
from .flags import InputError, read_value
from .outputs import final_points
from .settings import NETWORK, CaseSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AgentQuantity = Literal["consensus", "feasibility"]
LABELS = {"consensus": r"consensus error $\|x_i - \bar x\|_F$", "feasibility": r"feasibility $\|x_i^\top x_i - I\|_F$"}


def agent_quantity(x: Array, quantity: AgentQuantity) -> Array:
    """``(n,)``: ||x_i - xbar||_F, or ||x_i^T x_i - I||_F, of the points ``(n, d, r)``."""
    if quantity == "consensus":
        return norms(x - x.mean(axis=0))
    if x.ndim != 3:
        raise InputError(f"feasibility is of matrices; these points have shape {x.shape[1:]}")
    return norms(x.swapaxes(-1, -2) @ x - np.eye(x.shape[-1]))


def plot_agents(folder: str, configuration: Mapping[str, Any], quantity: AgentQuantity) -> Figure:
    """The graph of a run with its weights, and its agents coloured by ``quantity`` of their final points.

    Parameters
    ----------
    folder
        The folder that --out of a run has filled.
    configuration
        The run's settings.
    """
    from scipy.sparse import csr_array

    names = (*NETWORK, "seed")
    known = {name: setting.hint for name, setting in settings(CaseSettings).items() if name in names}
    held = {name: value for name, value in configuration.items() if name in known and value is not None}
    given = {name: read_value(name, known[name], value) for name, value in held.items()}
    W = wiring.make(CaseSettings(**given)).W
    if not isinstance(W, csr_array):
        raise InputError(f"the network of {folder} changes over time: there is no one graph to draw")
    try:
        x = final_points(folder)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read the final points of {folder}: {error}") from None
    return draw_agents(W, x, quantity)


def draw_agents(W: Any, x: Array, quantity: AgentQuantity, labels: Sequence[str] | None = None) -> Figure:
    """The graph of W, ``(n, n)``, with its weights, and its agents coloured by ``quantity`` of their points x, ``(n, *shape)``."""
    import networkx as nx

    from topologies import draw_graph

    edges = W.tocoo()
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(W.shape[0]))
    graph.add_edges_from((int(i), int(j)) for i, j in zip(edges.row, edges.col, strict=True) if i < j)
    figure, ((axes,),) = panels(1, 1, (5, 4.2))
    draw_graph(graph, W, agent_quantity(x, quantity), LABELS[quantity], axes=axes, labels=labels)
    return figure
