"""Weights optimised for gradient tracking: the derivative, and that they beat every other rule at its own best step."""

from __future__ import annotations

import numpy as np
import pytest

import topologies
from topologies import Order, curvature_scenarios, tracking_rate, tracking_score, tracking_weights
from topologies.weights.tracking_optimal import _Objective

ORDERS: tuple[Order, Order] = ("combine-then-adapt", "adapt-then-combine")
RULES = "metropolis lazy-metropolis lazy-local-degree best-constant lazy-best-constant fmmc lazy-fmmc fdla lazy-fdla".split()


@pytest.mark.parametrize("order", ORDERS)
def test_gradient_is_the_derivative_of_the_exact_rate(order: Order) -> None:
    graph = topologies.grid(3, 3)
    scenarios = curvature_scenarios(0.3, 1.5, 9, 3)
    objective = _Objective(topologies.adjacency(graph), scenarios, order)
    rng = np.random.default_rng(0)
    point = objective.variables(topologies.metropolis_weights(graph), 0.12) + 0.02 * rng.standard_normal(13)
    value, gradient = objective(point)
    W, step = objective.matrix(point), float(np.exp(point[-1]))
    assert value == pytest.approx(max(tracking_rate(W, scenario, step, order) for scenario in scenarios), abs=1e-12)
    for direction in np.eye(13):
        numeric = (objective(point + 1e-6 * direction)[0] - objective(point - 1e-6 * direction)[0]) / 2e-6
        assert gradient @ direction == pytest.approx(numeric, abs=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_optimised_weights_beat_every_rule(order: Order) -> None:
    graph, n = topologies.random_geometric(10), 10
    curvatures = np.random.default_rng(1).permutation(np.linspace(0.2, 1.8, n))
    found = tracking_weights(graph, curvatures, order, iterations=120)
    topologies.check_weights(found.W, graph)
    assert found.score == tracking_score(found.W, curvatures, order)
    best_rule = min(tracking_score(topologies.weights_from_name(graph, rule), curvatures, order).rate for rule in RULES)
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
    """Two agents of curvature 1, adapt then combine: W = 11'/2 and step 1 solve the problem at once."""
    assert tracking_weights(topologies.path(2), 1.0, "adapt-then-combine").score.rate == pytest.approx(0, abs=1e-4)
    assert tracking_weights(topologies.ring(1), 2.0).W.toarray().tolist() == [[1.0]]


def test_scenarios_are_permutations_and_have_the_size_of_the_graph() -> None:
    scenarios = curvature_scenarios(0.5, 2, 5, 3, seed=1)
    np.testing.assert_allclose(np.sort(scenarios, axis=1), np.tile(np.linspace(0.5, 2, 5), (3, 1)))
    with pytest.raises(ValueError, match="got 2 and 1"):
        curvature_scenarios(2, 1, 5)
    with pytest.raises(ValueError, match=r"one number, 5 numbers or k rows of 5 numbers, got shape \(4,\)"):
        tracking_weights(topologies.ring(5), np.ones(4))
