"""The effect of a channel on averages, as W(k) and formula (1) say; rates and laws of its draws;
its bytes on the wire."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.api import set_up
from decentorth.network import Channel, Network, UnreliableAgents, UnreliableNetwork
from decentorth.network.unreliable.draws import Chain, Draws
from decentorth.network.unreliable.faults import (
    FAULTS,
    Bursts,
    EdgeEnds,
    Loss,
    MessageLoss,
    fault,
)
from decentorth.network.unreliable.unreliable_network import edges_of
from decentorth.numerics.random_streams import CounterStreams
from decentorth.protocols import Array
from tests.support.threads import on_ranks

RING = tp.uniform_weights(tp.ring(10), 0.8)
DENSE = tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=3))
PROBLEM = do.problems.PCASettings(data="synthetic", dimension=8, rank=2, samples=20).problem(10, 0)
BREAKING = (
    "loss:p=0.3",
    "failures:p=0.3",
    "bursts:p=0.3,length=4",
    "bursts:p=0.3,bad=0.8,good=0.1",
    "sleep:p=0.3",
)
CODING = (
    "topk:share=0.2",
    "topk:share=0.2,feedback=false",
    "randomk:share=0.2",
    "randomk:share=0.2,feedback=false",
    "quantize:bits=4",
    "quantize:bits=4,feedback=true",
)
LATE = ("delay:rounds=2", "delay:rounds=3,random=true")


class Held(NamedTuple):
    x: Array
    k: int
    gradients: int = 0


class Averaging:
    requires = requires_set = ()
    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    def init(self, problem: Any, network: Any, streams: Any, x0: Array) -> Held:
        return Held(x0.copy(), 0)

    def step(self, problem: Any, network: Any, streams: Any, state: Held) -> Held:
        return Held(network.mix(state.x)[0], state.k + 1)


def averaging(network: UnreliableNetwork, x: Array, first: int = 0) -> Iterator[Array]:
    """The points after each round of mixing through the network's channel, from ``x`` on."""
    state = Held(x[network.agents].copy(), first)
    method = UnreliableAgents(Averaging(), network, state.x)
    while True:
        state = method.step(None, network, CounterStreams(0, network.agents), state)
        yield state.x.copy()


def rounds(
    channel: Channel, W: Any, x: Array, number: int, communicator: Any = "serial"
) -> list[Array]:
    return [
        *islice(averaging(UnreliableNetwork(W, communicator, channel=channel, seed=3), x), number)
    ]


def products(channel: Channel, number: int) -> Array:
    """W(number) of the channel: what it makes of the identity in that round."""
    network = UnreliableNetwork(DENSE, "serial", channel=channel, seed=3)
    network.rounds = number
    return next(averaging(network, np.eye(10), number))


def points(size: int = 30) -> Array:
    return np.random.default_rng(1).standard_normal((10, size)) + 5.0


@pytest.mark.parametrize("W", [RING, DENSE], ids=["ring", "dense"])
@pytest.mark.parametrize("written", [*BREAKING, *CODING, *LATE])
def test_with_repair_the_mean_stays_to_rounding(written: str, W: Any) -> None:
    x = points()
    for mixed in rounds(Channel(written), W, x, 50):
        size = max(np.abs(mixed).max(), 10.0)
        np.testing.assert_allclose(mixed.mean(0), x.mean(0), rtol=0, atol=2e-14 * size)


@pytest.mark.parametrize("written", ["loss:p=0.3", "delay:rounds=2", *CODING[::2]])
def test_without_repair_it_does_not(written: str) -> None:
    x = points()
    assert (
        np.abs(rounds(Channel(written, repair=False), DENSE, x, 20)[-1].mean(0) - x.mean(0)).max()
        > 1e-3
    )


@pytest.mark.parametrize("repair", [True, False])
@pytest.mark.parametrize("written", BREAKING)
def test_the_matrix_of_a_round(written: str, repair: bool) -> None:
    """Mixing the identity gives W(k): a used edge has W's weight, rows sum to 1, with repair
    columns too."""
    full = DENSE.toarray()
    off = ~np.eye(10, dtype=bool)
    channel = Channel(written, repair=repair)
    for number in range(12):
        matrix = products(channel, number)
        assert set(np.unique(matrix[off & (matrix != full)])) <= {0.0}
        assert (matrix.diagonal() >= full.diagonal() - 1e-15).all()
        np.testing.assert_allclose(matrix.sum(1), 1.0, rtol=0, atol=1e-15)
        if repair:
            np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize("correction", [0.0, 2.0])
def test_an_agent_that_sleeps_keeps_every_bit_and_tracking_its_invariant(correction: float) -> None:
    """Who sleeps is not corrected."""
    channel = Channel("sleep:p=0.4,length=3", correction=correction)
    run = set_up(
        PROBLEM, do.DRFGT(step_size=0.01, penalty=1.0), RING, channel=channel, comm="serial", seed=4
    )
    asleep = Chain(Draws(4, 0, np.arange(10), np.arange(10)), 0.4, 3.0)
    states = run.states()
    before = [array.copy() for array in next(states)[:3]]
    for k in range(60):
        state = next(states)
        for old, new in zip(before, state[:3], strict=True):
            np.testing.assert_array_equal((old == new).all((1, 2)), asleep(k))
        if not correction:
            np.testing.assert_allclose(
                state.tracker.mean(0), state.field.mean(0), rtol=0, atol=1e-14
            )
        before = [array.copy() for array in state[:3]]


def test_no_loss_gives_the_bits_of_a_good_network() -> None:
    x = points()
    clean = Network(DENSE, "serial")
    for mixed in rounds(Channel("loss:p=0", "sleep:p=0"), DENSE, x, 5):
        (x,) = clean.mix(x)
        np.testing.assert_array_equal(mixed, x)


@pytest.mark.parametrize("repair", [True, False])
def test_topk_late_and_lossy_as_agent_by_agent(repair: bool) -> None:
    """Formula (1) in loops over agents, with copies of what was said; what is lost is read off a
    channel that only loses."""
    x, W = points(20), DENSE.toarray()
    matrices = [products(Channel("loss:p=0.2", repair=repair), number) for number in range(15)]
    found = rounds(
        Channel("loss:p=0.2", "topk:share=0.2", "delay:rounds=2", repair=repair), DENSE, x, 15
    )
    copies: list[list[Array]] = []
    for k, matrix in enumerate(matrices):
        now = []
        for j in range(10):
            if k == 0:
                now.append(x[j].copy())
                continue
            difference = x[j] - copies[-1][j]
            sent = np.zeros(20)
            for entry in sorted(range(20), key=lambda entry: -abs(difference[entry]))[:4]:
                sent[entry] = difference[entry]
            now.append(copies[-1][j] + sent)
        copies.append(now)
        said = copies[max(0, k - 2)]
        following = np.zeros_like(x)
        for i in range(10):
            for j in range(10):
                if j != i and W[i, j] > 0 and matrix[i, j] > 0:
                    following[i] += matrix[i, j] * (said[j] - (said[i] if repair else x[i]))
        x = x + following
        np.testing.assert_allclose(found[k], x, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_bursts_have_the_stationary_law_of_gilbert_and_elliott() -> None:
    p, length, bad, good = 0.2, 6.0, 0.7, 0.05
    edges = EdgeEnds(np.arange(2000), np.arange(2000) + 1)
    chain = Chain(Draws(11, 0, *edges), p, length)
    states = np.array([chain(t) for t in range(300)])
    # correlated over about that many rounds
    spread = math.sqrt(p * (1 - p) / states.size * (2 * length))
    assert abs(states.mean() - p) < 4 * spread
    assert abs(states[0].mean() - p) < 4 * math.sqrt(p * (1 - p) / 2000)
    leaves = (states[:-1] & ~states[1:]).sum() / states[:-1].sum()
    enters = (~states[:-1] & states[1:]).sum() / (~states[:-1]).sum()
    assert abs(leaves - 1 / length) < 4 * math.sqrt(1 / length / states[:-1].sum())
    assert abs(enters - p / ((1 - p) * length)) < 4 * math.sqrt(p / length / states[:-1].size)
    lost = np.array([Bursts(p, length, bad, good).lost(edges, 11, 0)(t) for t in range(300)])
    expected = p * bad + (1 - p) * good
    assert abs(lost.mean() - expected) < 4 * math.sqrt(expected / lost.size * 2 * length)


def test_a_chain_is_a_function_of_the_round() -> None:
    pair = (np.arange(300), np.arange(300))
    in_turn = Chain(Draws(3, 1, *pair), 0.3, 8.0)
    states = [in_turn(t).copy() for t in range(60)]
    for t in (59, 0, 31, 32, 7):
        np.testing.assert_array_equal(Chain(Draws(3, 1, *pair), 0.3, 8.0)(t), states[t])


@pytest.mark.parametrize(
    ("late", "own", "stable"), [(1, 0.52, True), (1, 0.48, False), (2, 0.7, True), (2, 0.68, False)]
)
def test_how_much_delay_repair_can_bear(late: int, own: float, stable: bool) -> None:
    """x <- x - (I - W) x(k - d): stable where 1 - w < 2 sin(pi / (4 d + 2)); on this ring 1 - w is
    at most 2 (1 - own)."""
    assert (2 * (1 - own) < 2 * math.sin(math.pi / (4 * late + 2))) is stable
    x = points()
    spread = [
        np.abs(mixed - x.mean(0)).max()
        for mixed in rounds(
            Channel(f"delay:rounds={late}"), tp.uniform_weights(tp.ring(10), own), x, 900
        )
    ]
    assert bool(spread[-1] < 1e-2 * spread[0]) is stable
    assert stable or spread[-1] > 1e2 * spread[0]


def test_bytes_on_the_wire() -> None:
    expected = {
        "loss:p=0.1": 8000,
        "quantize:bits=5": 625 + 8,
        "topk:share=0.1": 800 + 125,  # ten bits of position each
        "topk:share=0.5": 4000 + 125,  # a bit for each entry is shorter
        "randomk:share=0.1": 800,
    }
    assert {written: Channel(written).size([1000]) for written in expected} == expected
    assert Channel("topk:share=0.1", "quantize:bits=8").size([1000]) == 100 + 125 + 8


def test_what_is_counted() -> None:
    """The first message with feedback is whole, one that is lost is sent once more; who sleeps
    sends nothing."""
    x = points(1000)

    def counts(channel: Channel, number: int) -> tuple[int, int]:
        network = UnreliableNetwork(RING, "serial", channel=channel, seed=3)
        next(islice(averaging(network, x), number - 1, None))
        assert network.rounds == number
        return network.messages, network.bytes

    assert counts(Channel("loss:p=0.5"), 4) == (80, 80 * 8000)
    assert counts(Channel("topk:share=0.1"), 4) == (80, 20 * 8000 + 60 * 925)
    edges = edges_of(RING)
    lost = int(sum(Loss(0.5).lost(edges, 3, 0)(t).sum() for t in range(4)))
    assert counts(Channel("loss:p=0.5", "quantize:feedback=true"), 4)[0] == 80 + lost
    asleep = Chain(Draws(3, 0, np.arange(10), np.arange(10)), 0.5, 2.0)
    assert counts(Channel("sleep:p=0.5,length=2"), 4)[0] == sum(
        2 * int((~asleep(t)).sum()) for t in range(4)
    )


@pytest.mark.parametrize("written", [*BREAKING, *CODING, *LATE, "crash:p=0.3,length=2"])
def test_the_same_bits_over_ranks(written: str) -> None:
    x = points()
    for repair, ranks in ((True, 3), (True, 10), (False, 7)):
        channel = Channel(written, "loss:p=0.1", repair=repair)
        parts = on_ranks(
            ranks,
            lambda communicator, c=channel: rounds(c, DENSE, x, 12, communicator)[-1],  # type: ignore[misc]
        )
        np.testing.assert_array_equal(np.concatenate(parts), rounds(channel, DENSE, x, 12)[-1])


@pytest.mark.parametrize(
    ("order", "faults"),
    [
        ("combine-then-adapt", ("topk:share=0.2", "loss:p=0.1")),
        ("adapt-then-combine", ("delay:rounds=3,random=true",)),
        ("adapt-then-combine", ("bursts:p=0.2", "sleep:p=0.2")),
        (
            "combine-then-adapt",
            (
                "crash:p=0.1,length=2",
                "delay:rounds=1",
                "delay:rounds=2,random=true",
                "randomk:share=0.5",
            ),
        ),
    ],
)
def test_a_run_goes_on_with_what_is_in_flight(
    faults: tuple[str, ...], order: Any, tmp_path: Path
) -> None:
    method = do.DRFGT(step_size=0.02, penalty=1.0, order=order)

    def go(
        communicator: Any, iterations: int, folder: Path | None = None, resume: Path | None = None
    ) -> tuple[str, bytes, int]:
        more: dict[str, Any] = {
            "checkpoints": folder and do.Checkpoints(folder),
            "resume": resume,
            "channel": Channel(*faults),
        }
        result = do.solve(
            PROBLEM, method, RING, iterations=iterations, record_every=5, comm=communicator, **more
        )
        return (
            result.collective.sha256(result.x),
            result.history["objective"].tobytes(),
            result.row.bytes,
        )

    whole = go("serial", 40)
    for number, first in enumerate((0, 15)):
        folder = tmp_path / str(number)
        on_ranks(
            2,
            lambda communicator, first=first, folder=folder: go(communicator, first, folder),  # type: ignore[misc]
        )
        assert go("serial", 40, resume=folder) == whole
    with pytest.raises(do.CheckpointError, match="network: channel is"):
        do.solve(PROBLEM, method, RING, iterations=40, record_every=5, comm="serial", resume=folder)


@pytest.mark.slow
def test_the_published_experiment_converges_through_bad_networks() -> None:
    problem, method = (
        do.problems.ProcrustesSettings().problem(10, seed=0),
        do.DRFGT(step_size=1e-2, penalty=10.0),
    )
    more: dict[str, Any] = {
        "stopping": do.stopping.GradientNorm(1e-4),
        "record_every": 100,
        "comm": "serial",
    }
    clean, lossy, sparse = (
        do.solve(problem, method, RING, iterations=9000, channel=channel, **more)
        for channel in (None, "loss:p=0.1", "topk:share=0.1")
    )
    assert clean.converged
    assert lossy.converged
    assert sparse.converged
    assert 8 * sparse.row.bytes < clean.row.bytes


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("los:p=0.1", "unknown fault 'los'; did you mean 'loss'. known faults: loss, failures"),
        ("loss", "p must be given, as loss:p="),
        ("loss:p=1", "p must be at least 0 and below 1, got 1.0"),
        ("loss:q=0.1", "^channel 'loss:q=0.1': loss has no parameter 'q'; its parameters: p$"),
        ("loss:p=0.1,p=0.2", "p is given twice"),
        ("loss:p=often", "p must be a number, got 'often'"),
        ("bursts:p=0.5,length=1", "length must be finite and at least 1 / .1 - p. = 2"),
        ("delay:rounds=0.5", "rounds must be a whole number"),
        ("delay:rounds=0", "rounds must be at least 1"),
        ("quantize:bits=1", "bits must be from 2 to 32"),
        ("topk:share=0", "share must be above 0"),
        ("topk:share=0.1,feedback=perhaps", "feedback must be true or false"),
    ],
)
def test_what_cannot_be_meant_is_refused(written: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fault(written)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="correction must be at least 0"):
        Channel("loss:p=0.1", correction=-1.0)
    with pytest.raises(ValueError, match="needs a fault"):
        Channel()
    with pytest.raises(TypeError, match="made of faults"):
        Channel(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on a time-varying network"):
        UnreliableNetwork(
            tp.sequence_from_name("one_peer_exponential", 8), "serial", channel=Channel("topk")
        )


def test_on_a_time_varying_network_losses_keep_the_mean() -> None:
    x = np.random.default_rng(1).standard_normal((8, 6))
    for mixed in rounds(
        Channel("loss:p=0.3", "quantize:bits=4"),
        tp.sequence_from_name("one_peer_exponential", 8),
        x,
        20,
    ):
        np.testing.assert_allclose(mixed.mean(0), x.mean(0), rtol=0, atol=1e-14)


def test_faults_are_written_as_they_are_read() -> None:
    given = {"delay": "rounds=1"}
    for name in FAULTS:
        written = given.get(name, "p=0.1" if "p" in FAULTS[name].__match_args__ else "")
        one = fault(f"{name}:{written}")
        assert fault(str(one)) == one
    assert fault("Loss:0.5") == Loss(0.5)
    assert isinstance(fault("loss:p=0.5"), MessageLoss)
