"""Drawings show the numbers they were given: places, colours, widths in proportion to weights,
eigenvalues in the disc."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import topologies
from topologies import drawing
from topologies.drawing import _segments, agent_positions

draw_graph: Any = drawing.draw_graph
draw_spectrum: Any = drawing.draw_spectrum


def test_edges_are_as_thick_as_their_weights_and_agents_coloured_by_the_quantity() -> None:
    graph = topologies.star(4)
    W = np.diag([0.7, 0.9, 0.8, 1.1])
    for leaf, weight in ((1, 0.1), (2, 0.2), (3, -0.1)):
        W[0, leaf] = W[leaf, 0] = weight
    W[0, 0] = 0.8
    places = np.array([[0, 0], [1, 0], [0, 1], [-1, 0.0]])
    nx.set_node_attributes(graph, dict(enumerate(places)), "pos")
    axes: Any = draw_graph(graph, W, quantity=[3.0, 1.0, 2.0, 5.0], label="error")
    lines, agents = axes.collections
    widths = lines.get_linewidths()
    assert widths[1] > widths[0] == widths[2]
    assert (widths[1] - 0.3) / (widths[0] - 0.3) == pytest.approx(2)
    assert [segment.tolist() for segment in lines.get_segments()] == [
        [[0, 0], place] for place in places[1:].tolist()
    ]
    np.testing.assert_array_equal(agents.get_array(), [3, 1, 2, 5])
    np.testing.assert_array_equal(agents.get_offsets(), places)
    dashed = [pattern is not None for _, pattern in lines.get_linestyles()]
    assert dashed == [False, False, True]


def test_spectrum_shows_every_eigenvalue_and_the_radius() -> None:
    values = topologies.eigenvalues(topologies.metropolis_weights(topologies.grid(3, 3)))
    axes: Any = draw_spectrum(values, 0.8)
    shown = axes.collections[0].get_offsets()
    np.testing.assert_allclose(shown, np.stack([np.arange(1, 10), np.sort(values)[::-1]], axis=1))
    assert [line.get_ydata()[0] for line in axes.lines] == [0.8, -0.8]
    complex_ones = np.array([1.0, 0.3 + 0.2j, 0.3 - 0.2j])
    disc: Any = draw_spectrum(complex_ones, 0.4)
    np.testing.assert_allclose(
        disc.collections[0].get_offsets(), np.stack([complex_ones.real, complex_ones.imag], axis=1)
    )
    assert [circle.get_radius() for circle in disc.patches] == [1, 0.4]
    low, high = draw_spectrum([2j]).get_ylim()
    assert low < -2 < 2 < high
    low, high = draw_spectrum([1.0, 0.9, 0.7]).get_ylim()
    assert 0.6 < low < 0.7
    assert 1.0 < high < 1.1


def test_positions() -> None:
    geometric = topologies.random_geometric(20, seed=1)
    np.testing.assert_array_equal(
        agent_positions(geometric), [geometric.nodes[i]["pos"] for i in range(20)]
    )
    for graph in (topologies.ring(9), topologies.complete(5), topologies.path(2)):
        np.testing.assert_allclose(np.linalg.norm(agent_positions(graph), axis=1), 1)
    assert agent_positions(topologies.barbell(12)).shape == (12, 2)


@pytest.mark.parametrize("name", ["grid:4x5", "torus:4x5", "torus:3x3", "grid:2x2"])
def test_grids_and_tori_are_lattices_whose_edges_have_length_one(name: str) -> None:
    """An edge around a torus is cut into two ends outside the lattice, one at each of its
    agents."""
    graph = topologies.graph_from_name(name)
    places = agent_positions(graph)
    sides = [int(side) for side in name.split(":")[1].split("x")]
    np.testing.assert_array_equal(
        places, [(j, -i) for i in range(sides[0]) for j in range(sides[1])]
    )
    segments = _segments(topologies.adjacency(graph), places, True).ends
    lengths = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    short = lengths < 1
    around = sum(sides) if name.startswith("torus") else 0
    assert (short.sum(), (~short).sum()) == (2 * around, graph.number_of_edges() - around)
    np.testing.assert_allclose(lengths[~short], 1.0)
    ends = segments[short, 1]
    outside = (
        (ends[:, 0] < 0)
        | (ends[:, 0] > sides[1] - 1)
        | (ends[:, 1] > 0)
        | (ends[:, 1] < 1 - sides[0])
    )
    assert outside.all()
    drawn: Any = draw_graph(graph, topologies.metropolis_weights(graph)).collections[0]
    assert len(drawn.get_linewidths()) == len(segments)


def test_a_constant_quantity_has_no_bar_and_names_are_shown() -> None:
    graph = topologies.numbered(nx.path_graph(["Bern", "Chur", "Genf"]))
    constant = draw_graph(graph, quantity=np.full(3, 0.25), label="own weight")
    assert len(constant.figure.axes) == 1
    assert constant.get_title() == "own weight 0.25 everywhere"
    assert [text.get_text() for text in constant.texts] == ["Bern", "Chur", "Genf"]
    assert len(draw_graph(graph, quantity=[1.0, 1.0, 1.001]).figure.axes) == 2


def test_a_logarithmic_scale_is_taken_where_the_quantity_is_positive() -> None:
    agents: Any = draw_graph(
        topologies.path(3), quantity=[1e-6, 1e-3, 1.0], logarithmic=True
    ).collections[1]
    np.testing.assert_allclose(agents.norm([1e-6, 1e-3, 1.0]), [0.0, 0.5, 1.0], atol=1e-12)
    agents = draw_graph(topologies.path(3), quantity=[0.0, 0.5, 1.0], logarithmic=True).collections[
        1
    ]
    np.testing.assert_allclose(agents.norm([0.0, 0.5, 1.0]), [0.0, 0.5, 1.0], atol=1e-12)


def test_shapes_are_checked() -> None:
    with pytest.raises(
        ValueError, match=r"quantity must have shape \(5,\), one row per agent, got \(4,\)"
    ):
        draw_graph(topologies.ring(5), quantity=np.ones(4))
    with pytest.raises(ValueError, match="it has 4 rows, the graph 5 agents"):
        draw_graph(topologies.ring(5), np.eye(4))
    with pytest.raises(ValueError, match=r"one axis, got shape \(2, 2\)"):
        draw_spectrum(np.eye(2))


def test_arrows_of_a_directed_graph_are_its_links_as_thick_as_their_weights() -> None:
    graph = topologies.directed_ring(6, chords=3, seed=0)
    A = topologies.directed_weights(graph).A
    texts: Any = draw_graph(graph, A).texts
    arrows = [text.arrow_patch for text in texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == graph.number_of_edges()
    weights = [A[heard_by, agent] for agent, heard_by in sorted(graph.edges)]
    widths = [arrow.get_linewidth() for arrow in arrows]
    np.testing.assert_allclose(
        (np.array(widths) - 0.3) / (max(widths) - 0.3), np.array(weights) / max(weights)
    )
