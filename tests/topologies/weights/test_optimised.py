"""Optimised weights: the fastest in closed form and with certificates; those for gradient tracking
against every rule."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import topologies
from tests.support import closed_forms as known
from topologies import (
    Order,
    curvature_scenarios,
    fastest_weights,
    tracking_rate,
    tracking_score,
    tracking_weights,
)
from topologies.weights import fastest
from topologies.weights.tracking_optimal import _Objective

ORDERS: tuple[Order, Order] = ("combine-then-adapt", "adapt-then-combine")
RULES = (
    "metropolis lazy-metropolis lazy-local-degree best-constant lazy-best-constant fmmc "
    "lazy-fmmc fdla lazy-fdla"
).split()


@pytest.mark.parametrize(
    ("graph", "laplacian"),
    [
        (topologies.path(2), known.path(2)),
        (topologies.ring(9), known.ring(9)),
        (topologies.ring(32), known.ring(32)),
        (topologies.complete(7), known.complete(7)),
        (topologies.star(3), known.star(3)),
        (topologies.star(8), known.star(8)),
        (topologies.numbered(nx.complete_bipartite_graph(3, 5)), known.complete_bipartite(3, 5)),
        (topologies.hypercube(16), known.hypercube(16)),
        (topologies.torus(5, 5), known.torus(5, 5)),
    ],
)
@pytest.mark.parametrize("nonnegative", [True, False])
def test_edge_transitive_graphs_in_closed_form(
    graph: nx.Graph[int], laplacian: np.ndarray, nonnegative: bool
) -> None:
    """One weight a for all edges: 2 / (lambda_2 + lambda_n), with W >= 0 at most 1 / (largest
    degree)."""
    second, largest = laplacian[[1, -1]]
    best = 2 / (second + largest)
    weight = min(best, 1 / max(d for _, d in graph.degree)) if nonnegative else best
    found = fastest_weights(graph, nonnegative)
    expected = np.eye(graph.number_of_nodes()) - weight * nx.laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(found.W.toarray(), expected, rtol=0, atol=1e-13)
    assert found.sigma == pytest.approx(max(1 - weight * second, weight * largest - 1), abs=1e-13)
    assert found.certified_gap <= 1e-12


def test_one_agent_and_too_many() -> None:
    assert fastest_weights(topologies.ring(1)).sigma == 0
    with pytest.raises(ValueError, match="up to 1500 agents, got 1600; use best-constant"):
        fastest_weights(topologies.adjacency_from_name("ring:1600"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["torus:3x5", "path:9", "watts_strogatz:14", "barbell:8", "ring:33", "grid:5x6"]
)
@pytest.mark.parametrize("nonnegative", [True, False])
def test_certificates_close(name: str, nonnegative: bool) -> None:
    graph = topologies.graph_from_name(name)
    found = fastest_weights(graph, nonnegative)
    assert found.sigma - 1e-6 <= found.lower_bound <= found.sigma + 1e-12
    assert found.sigma == pytest.approx(topologies.spectrum(found.W).sigma, abs=1e-13)
    assert not nonnegative or found.W.data.min() >= 0
    topologies.check_weights(found.W, graph)


@pytest.mark.slow
@pytest.mark.parametrize("nonnegative", [True, False])
def test_any_dual_matrix_gives_a_valid_bound(nonnegative: bool) -> None:
    """Also one that is no solution of anything: the certificate does not rest on the solver."""
    graph = topologies.grid(3, 3)
    tails, heads = np.array(sorted(graph.edges)).T
    problem = fastest._Problem(9, tails, heads, nonnegative)
    optimum = fastest_weights(graph, nonnegative).sigma
    _, vectors = np.linalg.eigh(nx.laplacian_matrix(graph).toarray())
    fiedler = np.outer(vectors[:, 1], vectors[:, 1])
    rng = np.random.default_rng(0)
    bounds = [
        fastest._lower_bound(problem, fiedler + 0.3 * rng.standard_normal((9, 9)))
        for _ in range(50)
    ]
    assert max(bounds) <= optimum + 1e-9
    assert nonnegative is False or fastest._lower_bound(problem, fiedler) > 0.2


@pytest.mark.parametrize("order", ORDERS)
def test_gradient_is_the_derivative_of_the_exact_rate(order: Order) -> None:
    graph = topologies.grid(3, 3)
    scenarios = curvature_scenarios(0.3, 1.5, 9, 3)
    objective = _Objective(topologies.adjacency(graph), scenarios, order)
    rng = np.random.default_rng(0)
    point = objective.variables(
        topologies.metropolis_weights(graph), 0.12
    ) + 0.02 * rng.standard_normal(13)
    value, gradient = objective(point)
    W, step = objective.matrix(point), float(np.exp(point[-1]))
    assert value == pytest.approx(
        max(tracking_rate(W, scenario, step, order) for scenario in scenarios), abs=1e-12
    )
    for direction in np.eye(13):
        numeric = (
            objective(point + 1e-6 * direction)[0] - objective(point - 1e-6 * direction)[0]
        ) / 2e-6
        assert gradient @ direction == pytest.approx(numeric, abs=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_optimised_weights_beat_every_rule(order: Order) -> None:
    graph, n = topologies.random_geometric(10), 10
    curvatures = np.random.default_rng(1).permutation(np.linspace(0.2, 1.8, n))
    found = tracking_weights(graph, curvatures, order, iterations=120)
    topologies.check_weights(found.W, graph)
    assert found.score == tracking_score(found.W, curvatures, order)
    best_rule = min(
        tracking_score(topologies.weights_from_name(graph, rule), curvatures, order).rate
        for rule in RULES
    )
    assert np.log(found.score.rate) < 1.05 * np.log(best_rule)


@pytest.mark.slow
def test_optimised_for_several_scenarios_beats_the_rules_on_the_worst_of_them() -> None:
    graph = topologies.ring(8)
    scenarios = curvature_scenarios(0.2, 1.8, 8, 4)
    found = tracking_weights(graph, scenarios, iterations=100)
    rates = [tracking_rate(found.W, scenario, found.score.step) for scenario in scenarios]
    assert max(rates) == found.score.rate
    for rule in ("metropolis", "lazy-best-constant"):
        W = topologies.weights_from_name(graph, rule)
        assert found.score.rate < max(tracking_score(W, scenario).rate for scenario in scenarios)


@pytest.mark.slow
def test_two_agents_and_one() -> None:
    """Two agents of curvature 1, adapt then combine: W = 11'/2 and step 1 solve the problem at
    once."""
    assert tracking_weights(
        topologies.path(2), 1.0, "adapt-then-combine"
    ).score.rate == pytest.approx(0, abs=1e-4)
    assert tracking_weights(topologies.ring(1), 2.0).W.toarray().tolist() == [[1.0]]


def test_scenarios_are_permutations_and_have_the_size_of_the_graph() -> None:
    scenarios = curvature_scenarios(0.5, 2, 5, 3, seed=1)
    np.testing.assert_allclose(np.sort(scenarios, axis=1), np.tile(np.linspace(0.5, 2, 5), (3, 1)))
    with pytest.raises(ValueError, match="got 2 and 1"):
        curvature_scenarios(2, 1, 5)
    with pytest.raises(
        ValueError, match=r"one number, 5 numbers or k rows of 5 numbers, got shape \(4,\)"
    ):
        tracking_weights(topologies.ring(5), np.ones(4))
