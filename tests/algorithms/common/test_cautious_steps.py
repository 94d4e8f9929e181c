"""Automatic steps of DRFGT where the network changes or loses messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from benchmarks.changing_steps import outcome, parts
from decentorth.algorithms.common.automatic_steps import cautious_step
from decentorth.algorithms.common.mixing import average
from decentorth.api import set_up
from decentorth.network import Network, UnreliableNetwork
from decentorth.network.unreliable.channel import Channel
from decentorth.protocols import JointSpectrum
from tests.support.marks import first_is_quick
from tests.support.problems import GRAPHS, pca

Array = np.ndarray[Any, Any]


def radius(matrices: list[Array], t: float, h: Array) -> float:
    """The largest modulus, but for one eigenvalue 1, of a period of gradient tracking.

    Agent i has f_i(x) = h_i x^2 / 2, and a = t; u = a y. The sum of u - t h x, which stays, has the
    eigenvalue 1.
    """
    n = len(h)
    one = np.eye(n)
    bend = t * np.diag(h)
    period = np.eye(2 * n)
    for W in matrices:
        period = np.block([[W, -one], [bend @ (W - one), W - bend]]) @ period
    values = np.linalg.eigvals(period)
    return float(np.abs(np.delete(values, np.argmin(np.abs(values - 1.0)))).max())


def halves(n: int) -> list[Array]:
    """The odd and the even edges of a path, in turn."""
    matrices = np.stack([np.eye(n), np.eye(n)])
    for i in range(n - 1):
        matrices[i % 2, i : i + 2, i : i + 2] = 0.5
    return list(matrices)


@pytest.mark.parametrize("n", [10, 20, 40])
def test_matrices_in_turn_drive_each_other_beyond_the_gap(n: int) -> None:
    """Each matrix alone is stable up to 1/2, which is 10 to 150 times as much."""
    matrices = halves(n)
    values = np.linalg.eigvals(matrices[1] @ matrices[0])
    gap = 0.5 * (1.0 - np.sort(np.abs(values))[-2])
    assert radius(matrices, 0.9 * gap, np.ones(n)) < 1.0
    assert radius(matrices, 1.1 * gap, np.ones(n)) > 1.0
    assert (
        cautious_step(JointSpectrum(*tp.joint_spectrum(tp.PeriodicSequence(matrices)))) < 0.5 * gap
    )


@pytest.mark.parametrize("count", first_is_quick([50, 500]))
def test_no_random_period_has_a_growing_mode(count: int) -> None:
    for seed in range(count):
        rng = np.random.default_rng((seed, 5))
        n = int(rng.integers(3, 13))
        graph = (tp.ring, tp.path, tp.star, tp.complete)[rng.integers(4)](n)
        W = tp.metropolis_weights(graph)
        sequence = parts(W, int(rng.integers(1, (W.nnz - n) // 2 + 1)), rng)
        t = cautious_step(JointSpectrum(*tp.joint_spectrum(sequence)))
        matrices = [sequence.at(k).toarray() for k in range(sequence.period or 1)]
        one = (np.arange(n) == rng.integers(n)) * 1.0
        h = (np.ones(n), one, rng.random(n), 10.0 ** rng.uniform(-2, 2, n))[rng.integers(4)]
        # automatic steps are measured by the fourth-power mean of the curvatures
        assert radius(matrices, t, h / (h**4).mean() ** 0.25) < 1.0 + 1e-9, seed


def test_the_step_is_half_of_what_a_matrix_or_the_slowest_mode_allows() -> None:
    assert cautious_step(JointSpectrum(1.0, -0.6, True)) == pytest.approx(0.04)
    assert cautious_step(JointSpectrum(0.01, 0.0, True)) == pytest.approx(0.05)
    assert cautious_step(JointSpectrum(0.01, 0.0, False)) == pytest.approx(0.005)


def test_edges_that_fail_slow_the_mixing_by_their_share() -> None:
    W = GRAPHS["ring"](8)
    whole = Network(W, "serial").joint_spectrum
    for fault, share in (
        ("loss:p=0.2", 0.64),
        ("failures:p=0.2", 0.8),
        ("bursts:p=0.2,bad=0.5,good=0.1", 0.2 * 0.25 + 0.8 * 0.81),
        ("sleep:p=0.1", 0.81),
        ("quantize:bits=8", 1.0),
    ):
        channel = Channel(fault)
        lossy = UnreliableNetwork(W, "serial", channel=channel)
        assert lossy.joint_spectrum.gap == pytest.approx(share * whole.gap)
        assert lossy.joint_spectrum.lambda_min == whole.lambda_min
    both = UnreliableNetwork(W, "serial", channel=Channel("loss:p=0.2", "sleep:p=0.1"))
    assert both.joint_spectrum.gap == pytest.approx(0.64 * 0.81 * whole.gap)


def test_the_shares_are_those_of_the_drawn_faults() -> None:
    """Each end of an edge learns what is lost, so an edge works where both messages arrive."""
    W = GRAPHS["ring"](8)
    nobody = np.zeros(8, dtype=np.bool_)
    for fault in ("loss:p=0.2", "failures:p=0.3", "bursts:p=0.3,length=4,bad=0.8,good=0.1"):
        channel = Channel(fault)
        network: Any = UnreliableNetwork(W, "serial", channel=channel)
        lost = np.array([network._plan().lost(k, nobody) for k in range(3000)])
        works = ~(lost[:, :8] | lost[:, 8:])
        assert works.mean() == pytest.approx(channel.working, abs=0.02)


def test_averages_before_the_start_reach_their_accuracy() -> None:
    values = np.random.default_rng(0).standard_normal((8, 3)) + 5.0
    for sequence in (
        tp.OnePeerExponential(8),
        tp.RandomMatching(8, seed=1),
        tp.LinkFailures(tp.metropolis_weights(tp.ring(8)), 0.5, seed=1),
    ):
        found = average(Network(sequence, "serial"), values, 1e-3)
        spread = np.sqrt(((values - values.mean(0)) ** 2).mean())
        np.testing.assert_allclose(found, values.mean(0)[None].repeat(8, 0), atol=2e-3 * spread)


@pytest.mark.parametrize("W", first_is_quick(["one_peer_exponential", "random_matching"]))
def test_drfgt_converges_without_settings(W: str) -> None:
    problem = pca(rows=(30,) * 8).problem
    result = do.solve(problem, W=W, iterations=2000, rows=2)
    assert isinstance(result.algorithm, do.DRFGT)
    norm = result.history["gradient_norm"]
    assert norm[-1] < 1e-6 * norm[0]
    assert result.history["consensus_error"][-1] < 1e-6


def test_a_given_step_has_a_penalty_that_the_sequence_allows() -> None:
    sequence = tp.PeriodicSequence(halves(8))
    run = set_up(pca(rows=(9,) * 8).problem, do.DRFGT(step_size=1e-3), sequence, comm="serial")
    first = next(run.states())
    limit = 2.0 * cautious_step(JointSpectrum(*tp.joint_spectrum(sequence)))
    np.testing.assert_allclose(first.penalty * 1e-3, limit / 4.0)


@pytest.mark.slow
def test_no_run_on_a_random_network_diverges() -> None:
    """`benchmarks/changing_steps.py` has 500 of them."""
    assert not [seed for seed in range(60) if outcome((seed, 300, 1.0))[1]]
