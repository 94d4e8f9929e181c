"""A drawing of the graph of a saved run, its agents coloured by their errors at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import topologies
from topologies.line.flags import InputError

from ...commands.line import wiring
from ...commands.line.config_files import read_value
from ...commands.line.run_settings import NETWORK, CaseSettings
from ...data.sites import site_files, site_names
from ...figures.canvas import style
from ...records.agent_graphs import AgentQuantity, draw_agents, weights_graph
from ...records.saved_runs import final_points
from ...settings import settings

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure


Given = Mapping[str, object]
"""The settings of a run by name."""


def run_graph(folder: str, configuration: Given) -> tuple[nx.Graph[int], object]:
    """The graph of a run's settings, and its mixing matrix; None and the graph without directions
    for a directed one.

    InputError for a network that changes over time.
    """
    known = settings(CaseSettings)
    given = {}
    for name in (*NETWORK, "seed"):
        if configuration.get(name) is not None:
            given[name] = read_value(name, known[name].hint, configuration[name])
    case = CaseSettings(**given)
    data = configuration.get("data")
    sites = site_names(site_files(str(data))) if data else ()
    W = wiring.make(case, sites).W
    match W:
        case topologies.DirectedWeights():
            return weights_graph(W.A), None
        case topologies.WeightSequence():
            raise InputError(
                f"the network of {folder} changes over time, so there is no single graph to draw"
            )
    if case.weights_file is None:
        return topologies.graph_from_name(case.topology, case.agents, case.seed, sites), W
    return weights_graph(W), W


@style()
def plot_agents(folder: str, configuration: Given, quantity: AgentQuantity) -> Figure:
    """The graph of the run in ``folder`` with its weights, its agents coloured by ``quantity`` of
    their final points."""
    graph, W = run_graph(folder, configuration)
    try:
        x = final_points(folder)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read the final points of {folder}: {error}") from None
    return draw_agents(graph, W, x, quantity)
