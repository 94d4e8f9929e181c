"""What repairs agents and averages: new starts after crashes, the correction of trackers, and what
averaging can bear."""

from __future__ import annotations

import logging
import math
from typing import Any, get_type_hints

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.api import Run, set_up
from decentorth.network import Channel, ChannelError, UnreliableNetwork, check_method
from decentorth.network.unreliable.channel import delay_limit, randomk_limit
from decentorth.network.unreliable.draws import Chain, Draws
from decentorth.registry import algorithms

RING = tp.uniform_weights(tp.ring(10), 0.8)
DENSE = tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=3))
PROBLEM = do.problems.PCASettings(data="synthetic", dimension=8, rank=2, samples=20)
METHOD = do.DRFGT(step_size=0.02, penalty=1.0)


def steps(channel: Channel, W: Any = DENSE, method: Any = METHOD) -> tuple[Run, UnreliableNetwork]:
    run = set_up(PROBLEM.problem(10, 0), method, W, channel=channel, comm="serial", seed=4)
    assert isinstance(run.network, UnreliableNetwork)
    return run, run.network


def down(p: float, length: float) -> Any:
    return Chain(Draws(4, 0, np.arange(10), np.arange(10)), p, length)


@pytest.mark.parametrize("repair", [True, False])
def test_after_a_crash_agents_begin_at_the_mean_of_their_neighbours_with_nothing_tracked(
    repair: bool,
) -> None:
    """Agent by agent. Without repair what crashed takes with it what the sum of the trackers is
    from then on wrong by."""
    run, network = steps(Channel("crash:p=0.3,length=3", repair=repair))
    crashed, W = down(0.3, 3.0), DENSE.toarray()
    states = run.states()
    state = next(states)
    wrong, alone = np.zeros(state.x.shape[1:]), 0
    for k in range(60):
        x, y, field = (array.copy() for array in state[:3])
        here = ~crashed(k)
        back = here & crashed(k - 1) if k else np.zeros(10, dtype=bool)
        old, told = x.copy(), 0
        for i in np.flatnonzero(back):
            heard = [j for j in range(10) if j != i and W[i, j] > 0 and here[j] and not back[j]]
            x[i] = (
                sum(W[i, j] * old[j] for j in heard) / sum(W[i, j] for j in heard)
                if heard
                else run.x0[i]
            )
            wrong = wrong + field[i] - y[i]
            y[i] = field[i] = 0.0
            told += len(heard)
            alone += not heard
        if repair and back.any():
            y, wrong = field, np.zeros_like(wrong)
        used = W * np.outer(here, here)
        np.fill_diagonal(used, 0.0)
        np.fill_diagonal(used, 1.0 - used.sum(1))
        moved = np.tensordot(used, x, 1) - 0.02 * y
        before = network.messages, network.bytes, network.rounds
        state = next(states)
        np.testing.assert_allclose(
            state.x, np.where(here[:, None, None], moved, x), rtol=0, atol=1e-12
        )
        np.testing.assert_array_equal(state.tracker[~here], y[~here])
        np.testing.assert_allclose((state.tracker - state.field).sum(0), wrong, rtol=0, atol=1e-11)
        sent = int((W[here] > 0).sum()) - int(here.sum())
        assert network.messages - before[0] == sent + told
        assert network.bytes - before[1] == 8 * 16 * (2 * sent + told)
        assert network.rounds - before[2] == 1 + bool(back.any())
    assert alone > 0
    assert bool(np.abs(wrong).max() > 1e-3) is not repair


def test_a_correction_of_one_makes_trackers_fields() -> None:
    """With c so large that min(1, c / k) = 1 every iteration is x <- W(k) x - alpha F(x): what is
    tracked is begun anew."""
    run, _ = steps(Channel("loss:p=0.3", repair=False, correction=1e9))
    for k, state in zip(range(25), run.states(), strict=False):
        if k:
            np.testing.assert_array_equal(state.tracker, state.field)


def test_the_correction_shrinks_the_error_of_the_mean_by_its_share() -> None:
    """Next to a run without: both lose the same messages, so that the error goes by (1 - c / k)
    where nothing is lost."""
    c, k0 = 3.0, 7
    run, _ = steps(Channel("loss:p=0", correction=c))
    expected = None
    for state in run.states():
        gap = (state.tracker - state.field).mean(0)
        if state.k == k0:
            state.tracker[...] += np.linspace(0.0, 1.0, 10)[:, None, None]
            expected = (state.tracker - state.field).mean(0)
        elif expected is not None:
            expected = expected * (1.0 - c / state.k)
            np.testing.assert_allclose(gap, expected, rtol=0, atol=1e-13)
        if state.k == 40:
            break


@pytest.mark.slow
def test_the_monitor_sees_what_is_lost_in_one_direction_and_the_correction_makes_up_for_it() -> (
    None
):
    """Without repair the mean of the trackers drifts away; corrected, it comes back, and points go
    on."""
    problem, method = (
        do.problems.ProcrustesSettings().problem(10, seed=0),
        do.DRFGT(step_size=1e-2, penalty=10.0),
    )
    kept, left, corrected = (
        do.solve(
            problem,
            method,
            RING,
            iterations=1500,
            channel=Channel("loss:p=0.1", **more),
            comm="serial",
            rows=5,
        )
        for more in ({}, {"repair": False}, {"repair": False, "correction": 1.0})
    )
    assert (kept.drifted, left.drifted) == (False, True)
    assert kept.row.values["tracking_error"] < 1e-12
    assert left.row.values["tracking_error"] > 0.1
    assert 10 * corrected.row.values["tracking_error"] < left.row.values["tracking_error"]
    assert 2 * corrected.row.values["gradient_norm"] < left.row.values["gradient_norm"]


def test_what_cannot_be_corrected_or_begun_anew_is_refused() -> None:
    for channel, method, words in (
        (
            Channel("loss:p=0.1", correction=1.0),
            do.DGD(step_size=0.01, penalty=1.0),
            "this method has none",
        ),
        (Channel("crash:p=0.1"), do.REXTRA(), "also keeps dual"),
    ):
        with pytest.raises(ChannelError, match=words):
            steps(channel, method=method)
    run, _ = steps(Channel("crash:p=0.1"), method=do.DGD(step_size=0.01, penalty=1.0))
    next(run.states())


def test_a_method_that_does_not_declare_its_state_is_refused() -> None:
    for name in {*algorithms.names()} - {"auto"}:  # auto is replaced by a method before it runs
        assert hasattr(get_type_hints(algorithms.get(name).init)["return"], "_fields")

    class Bare:
        requires = requires_set = ()
        network = "decentralized"

        def init(self, problem, network, streams, x0):  # type: ignore[no-untyped-def]
            raise AssertionError("begun")

        step = init

    with pytest.raises(ChannelError, match=r"declare the class that Bare\.init returns"):
        steps(Channel("crash:p=0.1"), method=Bare())


def test_who_shares_its_draws_meets_the_limit_exactly() -> None:
    """Two agents' difference, were they to draw together, is one eigenvector with l: E e^2 comes
    back as it was at the limit."""
    for share in (0.1, 0.5, 0.9):
        for factor, stable in ((0.99, True), (1.01, False)):
            eigenvalue = factor * randomk_limit(share)
            total = np.zeros((4, 4))
            for sent, probability in ((1.0, share), (0.0, 1.0 - share)):
                once = np.array(
                    [[1.0 - eigenvalue * sent, -eigenvalue * (1.0 - sent)], [sent, 1.0 - sent]]
                )
                total += probability * np.kron(once, once)
            assert bool(np.abs(np.linalg.eigvals(total)).max() < 1.0) is stable


def test_what_runs_apart_is_said_before(caplog: pytest.LogCaptureFixture) -> None:
    data = np.random.default_rng(0).standard_normal((10, 9, 4)) * [3, 2, 1, 1]
    channel = "randomk:share=0.1"

    def run(method: Any, iterations: int) -> do.Result:
        return do.solve(
            do.problems.PCA(data, 2), method, RING, iterations=iterations, channel=channel
        )

    with caplog.at_level(logging.WARNING):
        server = run(do.EFLanding(server=True, step_size=0.01), 1000)
    assert caplog.text == ""
    assert server.row.values["consensus_error"] < 1e-12
    with caplog.at_level(logging.WARNING):
        run(do.EFLanding(step_size=0.01), 1)
    assert (
        "own weights W_ii must be above 0.895 on average, got 0.8; send a share of 0.33 or more"
        in caplog.text
    )
    for written, W, number in (
        ("randomk:share=0.1", tp.uniform_weights(tp.ring(10), 0.9), 0),
        ("randomk:share=0.1,feedback=false", RING, 0),
        ("randomk:share=0.2", RING, 0),
        ("topk:share=0.1", RING, 0),
        ("delay:rounds=2", tp.uniform_weights(tp.ring(10), 0.68), 1),
        ("delay:rounds=2", tp.uniform_weights(tp.ring(10), 0.7), 0),
        ("delay:rounds=9", RING, 1),
    ):
        assert len(UnreliableNetwork(W, "serial", channel=Channel(written)).cautions) == number
    assert (
        UnreliableNetwork(RING, "serial", channel=Channel("delay:rounds=9", repair=False)).cautions
        == []
    )
    assert math.isclose(delay_limit(1), 1.0)


@pytest.mark.parametrize(
    ("method", "channel", "said"),
    [
        (do.CDADT(), "loss:p=0.3", True),
        (do.CDADT(momentum=0.0), "loss:p=0.3", False),
        (do.CDADT(), "quantize:bits=8", False),
        (do.DRFGT(), "loss:p=0.3", False),
    ],
)
def test_momentum_beside_lost_messages_is_said_before(
    method: Any, channel: str, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        check_method(method, Channel(channel), warns=True)
    assert ("with lost messages, momentum (0.9) can make agents diverge" in caplog.text) is said


@pytest.mark.parametrize(
    ("name", "fault", "warned"),
    [
        ("rextra", "delay:rounds=1", True),
        ("rfextra", "delay:rounds=2", True),
        ("deepca", "delay:rounds=1,random=true", True),
        ("rextra", "loss:p=0.1", False),
        ("drgta", "delay:rounds=1", False),
    ],
)
def test_methods_that_late_messages_drive_apart(
    name: str, fault: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents disagree after 600 iterations, or the run diverges, exactly where a warning before the
    first one says so."""
    data = np.random.default_rng(0).standard_normal((8, 20, 5)) * [3, 2, 1, 1, 1]
    W = tp.lazy(tp.metropolis_weights(tp.ring(8)))
    with caplog.at_level(logging.WARNING):
        result = do.solve(
            do.problems.PCA(data, 2), name, W, iterations=600, rows=2, channel=fault, comm="serial"
        )
    assert ("does not converge at any step" in caplog.text) is warned
    assert (
        result.status == "diverged" or bool(result.row.values["consensus_error"] > 1e-2)
    ) is warned
