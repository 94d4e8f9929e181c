"""The gradient-tracking score: against the recursion itself, closed forms, and the numbers known
for the ring of ten."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies.spectra.tracking_rate import (
    Order,
    Recursion,
    iteration_pencil,
    tracking_rate,
    tracking_score,
)

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True, database=None)
ORDERS: tuple[Order, Order] = ("combine-then-adapt", "adapt-then-combine")
RING = topologies.ring(10)
CURVATURES = np.linspace(0.2, 1.8, 10)


def ring_weights(edge_weight: float) -> np.ndarray:
    return np.eye(10) - edge_weight * nx.laplacian_matrix(RING).toarray()


FASTEST = 2 / (2 - 2 * np.cos(2 * np.pi / 10) + 4)


@pytest.mark.parametrize(
    ("W", "order", "rate", "step", "largest_step"),
    [
        (ring_weights(1 / 3), "combine-then-adapt", 0.938, 0.067, 0.176),
        (ring_weights(1 / 4), "combine-then-adapt", 0.953, 0.050, 0.3646),
        (ring_weights(FASTEST), "combine-then-adapt", 0.987, 0.0125, 0.0144),
        ((np.eye(10) + ring_weights(FASTEST)) / 2, "combine-then-adapt", 0.957, 0.046, 0.422),
        (ring_weights(1 / 3), "adapt-then-combine", 0.933, 0.071, 1.427),
        (ring_weights(FASTEST), "adapt-then-combine", 0.982, 0.018, 0.0216),
    ],
    ids=["metropolis", "quarter", "fastest", "lazy fastest", "atc metropolis", "atc fastest"],
)
def test_ring_of_ten(
    W: np.ndarray, order: Order, rate: float, step: float, largest_step: float
) -> None:
    score = tracking_score(W, CURVATURES, order)
    assert score.rate == pytest.approx(rate, abs=5e-4)
    assert score.step == pytest.approx(step, abs=5e-4)
    assert score.largest_step == pytest.approx(largest_step, abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_best_and_largest_step_are_what_they_say(order: Order) -> None:
    score = tracking_score(ring_weights(1 / 3), CURVATURES, order)
    assert tracking_rate(ring_weights(1 / 3), CURVATURES, score.step, order) == score.rate
    for step in np.geomspace(score.step / 100, score.largest_step * 0.9999, 80):
        assert score.rate <= tracking_rate(ring_weights(1 / 3), CURVATURES, float(step), order) < 1
    assert tracking_rate(ring_weights(1 / 3), CURVATURES, score.largest_step * 1.0001, order) > 1


def advance(
    W: np.ndarray, H: np.ndarray, step: float, order: Order, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One iteration, agent by agent."""
    n = len(W)
    if order == "combine-then-adapt":
        new = np.array([sum(W[i, j] * x[j] for j in range(n)) - step * y[i] for i in range(n)])
        return new, np.array(
            [sum(W[i, j] * y[j] for j in range(n)) + H[i] @ (new[i] - x[i]) for i in range(n)]
        )
    new = np.array([sum(W[i, j] * (x[j] - step * y[j]) for j in range(n)) for i in range(n)])
    adapted = [y[j] + H[j] @ (new[j] - x[j]) for j in range(n)]
    return new, np.array([sum(W[i, j] * adapted[j] for j in range(n)) for i in range(n)])


def hessians(n: int, d: int, seed: int = 4) -> np.ndarray:
    roots = np.random.default_rng(seed).standard_normal((n, d, d))
    products = roots @ roots.transpose(0, 2, 1) / d
    return (products + products.transpose(0, 2, 1)) / 2


@pytest.mark.parametrize("order", ORDERS)
def test_measured_rate_is_the_predicted_one(order: Order) -> None:
    """From x0 with y0 = H x0, the error over many iterations shrinks by the predicted factor, until
    rounding ends it."""
    W, H = (
        topologies.metropolis_weights(topologies.grid(3, 3)).toarray(),
        hessians(9, 2) + 0.2 * np.eye(2),
    )
    step = 0.5 * tracking_score(W, H, order).step
    x = np.random.default_rng(2).standard_normal((9, 2))
    y = (H @ x[:, :, None])[:, :, 0]
    norms = [np.linalg.norm(x)]
    while norms[-1] > 1e-10:
        x, y = advance(W, H, step, order, x, y)
        norms.append(np.linalg.norm(x))
    late = np.log(norms[len(norms) // 2 :])
    measured = np.exp(np.polyfit(np.arange(len(late)), late, 1)[0])
    assert measured == pytest.approx(tracking_rate(W, H, step, order), abs=5e-4)


@EXAMPLES
@given(st.integers(2, 8), st.integers(0, 10**6), st.sampled_from(ORDERS), st.sampled_from([1, 2]))
def test_only_the_conserved_sum_is_left_out(n: int, seed: int, order: Order, d: int) -> None:
    """The characteristic polynomial of M is that of the restriction times (z - 1)^d, checked at
    random points."""
    W, H = topologies.metropolis_weights(topologies.erdos_renyi(n, 0.6, seed)), hessians(n, d, seed)
    recursion = Recursion(W, H, order)
    base, slope = iteration_pencil(W.toarray(), H, order)
    M, restricted = base - 0.1 * slope, recursion._base - 0.1 * recursion._slope
    assert len(restricted) == len(M) - d
    for z in 2 * np.exp(2j * np.pi * np.array([0.1, 0.4, 0.8])):
        whole = np.linalg.det(z * np.eye(len(M)) - M)
        assert np.linalg.det(z * np.eye(len(restricted)) - restricted) * (
            z - 1
        ) ** d == pytest.approx(whole, rel=1e-8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "graph", [topologies.ring(7), topologies.star(6), topologies.grid(3, 4), topologies.complete(5)]
)
def test_equal_curvatures_by_blocks_agree_with_the_full_matrix(
    graph: nx.Graph[int], order: Order
) -> None:
    W = topologies.metropolis_weights(graph)
    n = graph.number_of_nodes()
    for step in (0.01, 0.3, 1.1):
        blocks = tracking_rate(W, 0.7, step, order)
        full = tracking_rate(W, np.tile(0.7 * np.eye(2), (n, 1, 1)), step, order)
        assert blocks == tracking_rate(W, np.full(n, 0.7), step, order)
        assert blocks == pytest.approx(full, abs=1e-7)


def test_closed_form_for_exact_averaging_and_for_one_agent() -> None:
    """W = 11'/n and adapt-then-combine is gradient descent on the mean: |1 - a c|, best 0 at 1/c,
    stable to 2/c."""
    W = topologies.metropolis_weights(topologies.complete(4))
    assert tracking_rate(W, 0.5, 0.6, "adapt-then-combine") == pytest.approx(0.7, abs=1e-7)
    curvatures = [0.1, 0.2, 0.3, 1.4]
    assert tracking_rate(W, curvatures, 0.6, "adapt-then-combine") == pytest.approx(0.7, abs=1e-7)
    alone = tracking_score([[1.0]], 0.5)
    assert alone.rate == pytest.approx(0, abs=1e-9)
    assert alone.step == pytest.approx(2, rel=1e-9)
    assert alone.largest_step == pytest.approx(4, rel=1e-9)


def test_the_best_gap_needs_five_times_the_iterations() -> None:
    score, fastest = (
        tracking_score(ring_weights(1 / 3), CURVATURES),
        tracking_score(ring_weights(FASTEST), CURVATURES),
    )
    assert (
        topologies.spectrum(ring_weights(FASTEST)).sigma
        < topologies.spectrum(ring_weights(1 / 3)).sigma
    )
    assert fastest.iterations_for(1e-6) / score.iterations_for(1e-6) == pytest.approx(5.1, abs=0.05)
    assert score.rate ** score.iterations_for(1e-6) == pytest.approx(1e-6, rel=1e-9)
    assert score.iterations_for(1) == 0
    with pytest.raises(ValueError, match=r"reduction must be in \(0, 1\]"):
        score.iterations_for(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (np.eye(3), [1.0, 2.0], 0.1),
            r"one number, 3 numbers or 3 square Hessians, got shape \(2,\)",
        ),
        ((np.eye(2), [1.0, np.inf], 0.1), "curvatures must be finite"),
        ((np.eye(2), 1.0, -0.1), r"step must be positive, got -0\.1"),
        ((np.eye(2), np.array([[[0, 1.0], [0, 0]]] * 2), 0.1), "Hessians must be symmetric"),
        ((np.eye(2), 0.0, 0.1), "some curvature must not be zero"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tracking_rate(*arguments)


@pytest.mark.parametrize(
    ("W", "curvatures"),
    [(ring_weights(1 / 3), np.linspace(-1.0, 0.5, 10)), (ring_weights(0.55), 1.0)],
)
def test_no_step_converges(W: np.ndarray, curvatures: Any) -> None:
    with pytest.raises(ValueError, match=r"no step in .* converges"):
        tracking_score(W, curvatures)
