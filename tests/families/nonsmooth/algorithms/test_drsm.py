"""DRSM: its steps, its iteration on nonsmooth problems, and what it finds over networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import DRSGD, DRSM, RSM, solve
from decentorth.algorithms.common.mixing import effective
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import ODLSettings, RSRSettings
from tests.reference import nonsmooth, rivals
from tests.support.building import built, prepared
from tests.support.problems import pca, stack

RING = tp.uniform_weights(tp.ring(10), 0.8)
SMALL: dict[str, Any] = {"dimension": 20, "rank": 3, "inliers": 400, "outliers": 600}


def test_ten_steps_are_those_of_the_formula() -> None:
    """With automatic steps: 0.9 / (sqrt(2) log(2)) times the ratio's powers."""
    n, W = 6, tp.metropolis_weights(tp.path(6))
    problem = prepared(
        built(
            RSRSettings(
                dimension=8, rank=3, inliers=40, outliers=50, partition="dirichlet"
            ).problem(n, 1)
        )
    )
    data = [a for _, (rows,) in problem._rows for a in rows]
    x0, network, streams = problem.start(0), Network(W), CounterStreams(0, slice(0, n))
    method = DRSM().for_network(network)
    state = method.init(problem, network, streams, stack(x0, n))
    for _ in range(10):
        state = method.step(problem, network, streams, state)
    ratio = max(0.97, round(1 - (1 - float(np.linalg.eigvalsh(W.toarray())[-2])) / 4, 6))
    steps = [0.9 / (np.sqrt(2) * np.log(2)) * ratio**k for k in range(10)]
    x = rivals.drsgd(
        lambda i, k, x: nonsmooth.row_norms_subgradient(data[i], x), W.toarray(), x0, steps, 10
    ).x[-1]
    np.testing.assert_allclose(state.x, x, atol=1e-12)
    assert np.abs(state.x - x0).max() > 0.1


@pytest.mark.parametrize(("rounds", "chebyshev"), [(1, False), (3, False), (4, True)])
def test_the_ratio_of_automatic_steps_follows_the_network(rounds: int, chebyshev: bool) -> None:
    """1 - gap / 4 of what an iteration mixes by, at least 0.97; with one agent 0.97."""
    for W in (
        tp.metropolis_weights(tp.ring(40)),
        tp.metropolis_weights(tp.path(12)),
        tp.metropolis_weights(tp.complete(7)),
    ):
        network = Network(W)
        method = DRSM(rounds=rounds, chebyshev=chebyshev).for_network(network)
        expected = 1 - (1 - effective(network.spectrum, rounds, chebyshev).lambda_2) / 4
        assert method.step_size.ratio == pytest.approx(max(expected, 0.97), abs=1e-6)  # type: ignore[union-attr]
        assert method.for_network(network) is method
    assert DRSM().for_network(Network(np.ones((1, 1)))).step_size.ratio == 0.97  # type: ignore[union-attr]


def test_the_ratio_of_automatic_steps_is_below_one_on_the_longest_rings() -> None:
    """lambda_2 of a ring is 0.8 + 0.2 cos(2 pi / n), so that a quarter of the gap is below 1e-6 for
    n = 1500."""
    for n in (500, 1500):
        method = DRSM().for_network(Network(tp.uniform_weights(tp.ring(n), 0.8)))
        quarter = 0.05 * (1 - np.cos(2 * np.pi / n))
        expected = min(1 - quarter, 1 - 1e-6)
        assert method.step_size.ratio == pytest.approx(expected, abs=6e-7)  # type: ignore[union-attr]
        assert method.step_size.ratio < 1  # type: ignore[union-attr]


def test_automatic_steps_are_the_same_on_unlike_agents() -> None:
    """As agents with different steps would minimise another mean; the mean of their constants where
    nothing is recommended."""
    odl = prepared(built(ODLSettings(dimension=5, samples=23).problem(4, 0)))
    W = tp.metropolis_weights(tp.ring(4))
    network, streams = Network(W), CounterStreams(0, slice(0, 4))
    state = DRSM().init(odl, network, streams, stack(odl.start(0), 4))
    np.testing.assert_array_equal(state.base, np.full(4, state.base[0]))
    assert state.base[0] == pytest.approx(4.648 / (23 / 4) / (np.sqrt(2) * np.log(2)), rel=1e-14)
    assert state.gradients == 0

    smooth = pca().problem
    network, streams = Network(tp.metropolis_weights(tp.ring(5))), CounterStreams(0, slice(0, 5))
    x0 = stack(smooth.start(0), 5)
    state = DRSM().init(smooth, network, streams, x0)
    np.testing.assert_allclose(
        state.base, 1 / np.linalg.norm(smooth.gradient(x0), axis=(-2, -1)).mean(), rtol=1e-12
    )
    assert state.gradients == 1


def test_one_agent_is_rsm_and_smooth_steps_are_drsgds() -> None:
    problem = prepared(built(RSRSettings(**SMALL).problem(1, 0)))
    steps = "geometric:initial=1.0,ratio=0.97"
    alone, central = (
        solve(problem, method(step_size=steps), iterations=50, rows=2) for method in (DRSM, RSM)
    )
    np.testing.assert_allclose(alone.x, central.x, atol=1e-9)
    smooth, W, x0 = pca().problem, tp.metropolis_weights(tp.star(5)), pca().problem.start(1)
    given: dict[str, Any] = {
        "step_size": "diminishing:initial=0.1",
        "rounds": 2,
        "retraction": "qr",
        "batch_size": 2,
    }
    ours, theirs = (
        solve(smooth, method(**given), W, x0=x0, iterations=50, rows=2) for method in (DRSM, DRSGD)
    )
    assert ours.x.tobytes() == theirs.x.tobytes()


GRAPHS = {
    "ring": RING,
    "path": tp.metropolis_weights(tp.path(10)),
    "random": tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=1)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "partition"), [("ring", "by-label"), ("path", "even"), ("random", "by-label")]
)
def test_every_agent_finds_the_subspace(graph: str, partition: Any) -> None:
    """By label, agents with inliers alone and agents with outliers alone. Errors of each agent, not
    of the mean, nothing tuned."""
    problem = RSRSettings(**SMALL, partition=partition).problem(10, 0)
    result = solve(problem, DRSM(), GRAPHS[graph], iterations=1500, rows=2)
    errors = [result.problem.error(x) for x in result.x]
    assert max(errors) < (4e-6 if partition == "even" else 1e-5)
    assert result.row.values["feasibility"] < 1e-12
    assert result.history["error"][0] > 0.05
