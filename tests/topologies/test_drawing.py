"""Drawings show the numbers they were given: places, colours, widths in proportion to weights, eigenvalues in the disc."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest

import topologies
from topologies.drawing import agent_positions, draw_graph, draw_spectrum


def test_edges_are_as_thick_as_their_weights_and_agents_coloured_by_the_quantity() -> None:
    graph = topologies.star(4)
    W = np.diag([0.7, 0.9, 0.8, 1.1])
    for leaf, weight in ((1, 0.1), (2, 0.2), (3, -0.1)):
        W[0, leaf] = W[leaf, 0] = weight
    W[0, 0] = 0.8
    places = np.array([[0, 0], [1, 0], [0, 1], [-1, 0.0]])
    axes = draw_graph(graph, W, quantity=[3.0, 1.0, 2.0, 5.0], label="error", positions=places)
    lines, agents = axes.collections
    widths = lines.get_linewidths()
    assert widths[1] > widths[0] == widths[2]
    assert (widths[1] - 0.3) / (widths[0] - 0.3) == pytest.approx(2)
    assert [segment.tolist() for segment in lines.get_segments()] == [[[0, 0], place] for place in places[1:].tolist()]
    np.testing.assert_array_equal(agents.get_array(), [3, 1, 2, 5])
    np.testing.assert_array_equal(agents.get_offsets(), places)
    dashed = [pattern is not None for _, pattern in lines.get_linestyles()]
    assert dashed == [False, False, True]
    picture = BytesIO()
    axes.figure.savefig(picture, format="png")
    assert picture.getvalue().startswith(b"\x89PNG")


def test_spectrum_shows_every_eigenvalue_and_the_radius() -> None:
    W = topologies.metropolis_weights(topologies.grid(3, 3))
    values = topologies.eigenvalues(W)
    axes = draw_spectrum(values, topologies.spectrum(W).sigma)
    shown = axes.collections[0].get_offsets()
    np.testing.assert_allclose(shown, np.stack([values, np.zeros(9)], axis=1))
    assert [circle.get_radius() for circle in axes.patches] == [1, topologies.spectrum(W).sigma]
    low, high = draw_spectrum([2j]).get_ylim()
    assert low < -2 < 2 < high


def test_positions() -> None:
    geometric = topologies.random_geometric(20, seed=1)
    np.testing.assert_array_equal(agent_positions(geometric), [geometric.nodes[i]["pos"] for i in range(20)])
    for graph in (topologies.ring(9), topologies.complete(5), topologies.path(2)):
        np.testing.assert_allclose(np.linalg.norm(agent_positions(graph), axis=1), 1)
    for graph in (topologies.grid(4, 5), topologies.torus(23, 24)):
        places = agent_positions(graph)
        assert places.shape == (graph.number_of_nodes(), 2)
        assert np.isfinite(places).all()


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"quantity must have shape \(5,\), one row per agent, got \(4,\)"):
        draw_graph(topologies.ring(5), quantity=np.ones(4))
    with pytest.raises(ValueError, match="it has 4 rows, the graph 5 agents"):
        draw_graph(topologies.ring(5), np.eye(4))
    with pytest.raises(ValueError, match=r"one axis, got shape \(2, 2\)"):
        draw_spectrum(np.eye(2))
