"""A drawing of a run's graph, its agents coloured by their errors at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

import topologies
from topologies.line.flags import InputError

from ..figures.canvas import panels, style
from ..numerics.ordered_sums import norms
from ..protocols import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AgentQuantity = Literal["consensus", "feasibility"]
LABELS = {
    "consensus": r"consensus error $\|x_i - \bar x\|_F$",
    "feasibility": r"feasibility $\|x_i^\top x_i - I\|_F$",
}


def agent_quantity(x: Array, quantity: AgentQuantity) -> Array:
    """Return ||x_i - xbar||_F or ||x_i^T x_i - I||_F for each agent, ``(n,)``.

    ``quantity`` selects consensus or feasibility. Feasibility needs points ``(n, d, r)``; points
    of another shape raise InputError.
    """
    if quantity == "consensus":
        return norms(x - x.mean(axis=0))
    if x.ndim != 3:
        raise InputError(f"feasibility needs matrices; these points have shape {x.shape[1:]}")
    return norms(x.swapaxes(-1, -2) @ x - np.eye(x.shape[-1]))


def weights_graph(W: object) -> nx.Graph[int]:
    """The graph of the entries of W, ``(n, n)``, off its diagonal, without directions."""
    graph: nx.Graph[int] = nx.from_scipy_sparse_array(W, edge_attribute="entry")
    graph.remove_edges_from([*nx.selfloop_edges(graph)])
    return graph


@style()
def draw_agents(
    graph: nx.Graph[int],
    W: Any,
    x: Array,
    quantity: AgentQuantity,
    labels: Sequence[str] | None = None,
) -> Figure:
    """The graph with the weights W, ``(n, n)`` or None, and its agents coloured by ``quantity`` of
    their points ``(n, *shape)``."""
    figure, ((axes,),) = panels(1, 1, (5, 4.2))
    values = agent_quantity(x, quantity)
    topologies.draw_graph(
        graph, W, values, LABELS[quantity], axes=axes, labels=labels, logarithmic=True
    )
    return figure
