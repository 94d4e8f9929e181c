"""The effect of a channel on averages, as W(k) and formula (1) say; rates and laws of its draws; its bytes on the wire."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.api import set_up
from decentorth.network import Channel, Network, UnreliableAgents, UnreliableNetwork
from decentorth.network.unreliable.codings import Code
from decentorth.network.unreliable.draws import Chain, Draws, Source
from decentorth.network.unreliable.faults import (
    FAULTS,
    Bursts,
    Coding,
    Edges,
    Loss,
    MessageLoss,
    Quantize,
    TopK,
    fault,
)
from decentorth.network.unreliable.network import edges_of
from decentorth.numerics.random_streams import CounterStreams
from decentorth.protocols import Array
from tests.support.marks import first_is_quick
from tests.support.threads import on_ranks

RING = tp.uniform_weights(tp.ring(10), 0.8)
DENSE = tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=3))
BREAKING = ("loss:p=0.3", "failures:p=0.3", "bursts:p=0.3,length=4", "bursts:p=0.3,bad=0.8,good=0.1", "sleep:p=0.3")
CODING = (
    "topk:share=0.2",
    "topk:share=0.2,feedback=false",
    "randomk:share=0.2",
    "randomk:share=0.2,feedback=false",
    "quantize:bits=4",
    "quantize:bits=4,feedback=true",
)
LATE = ("delay:rounds=2", "delay:rounds=3,random=true")
SOURCE = Source(5, 17, 0, slice(0, 400))


class Held(NamedTuple):
    """What the agents hold."""

    x: Array
    k: int
    gradients: int = 0


class Averaging:
    """A method that mixes its points once in an iteration."""

    requires = requires_set = ()
    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    def init(self, problem: Any, network: Any, streams: Any, x0: Array) -> Held:
        return Held(x0.copy(), 0)

    def step(self, problem: Any, network: Any, streams: Any, state: Held) -> Held:
        return Held(network.mix(state.x)[0], state.k + 1)


def averaged(network: UnreliableNetwork, state: Held) -> Held:
    """The state after an iteration through the network's channel."""
    following: Held = UnreliableAgents(Averaging(), network, state.x).step(None, network, CounterStreams(0, network.agents), state)
    return following


def rounds(channel: Channel, W: Any, x: Array, number: int, communicator: Any = "serial") -> list[Array]:
    """The points after each round of mixing through a channel, from ``x`` on."""
    network = UnreliableNetwork(W, communicator, channel=channel, seed=3)
    state, found = Held(x[network.agents].copy(), 0), []
    method = UnreliableAgents(Averaging(), network, state.x)
    for _ in range(number):
        state = method.step(None, network, CounterStreams(0, network.agents), state)
        found.append(state.x.copy())
    return found


def arriving(coding: Coding, x: Array, source: Source) -> Array:
    """What arrives of ``x``, coded."""
    out = np.full(x.shape, np.nan)
    coding.coded(Code(x), source, 0).put(out)
    return out


def points(size: int = 30) -> Array:
    return np.random.default_rng(1).standard_normal((10, size)) + 5.0


@pytest.mark.parametrize("W", [RING, DENSE], ids=["ring", "dense"])
@pytest.mark.parametrize("written", [*BREAKING, *CODING, *LATE])
def test_with_repair_the_mean_stays_to_rounding(written: str, W: Any) -> None:
    x = points()
    for mixed in rounds(Channel(written), W, x, 50):
        size = max(np.abs(mixed).max(), 10.0)
        np.testing.assert_allclose(mixed.mean(0), x.mean(0), rtol=0, atol=2e-14 * size)


@pytest.mark.parametrize("written", ["loss:p=0.3", "delay:rounds=2", *CODING])
def test_without_repair_it_does_not(written: str) -> None:
    x = points()
    assert np.abs(rounds(Channel(written, repair=False), DENSE, x, 20)[-1].mean(0) - x.mean(0)).max() > 1e-3


@pytest.mark.parametrize("repair", [True, False])
@pytest.mark.parametrize("written", BREAKING)
def test_the_matrix_of_a_round(written: str, repair: bool) -> None:
    """Mixing the identity gives W(k): a used edge has W's weight, rows sum to 1, with repair columns too."""
    full = DENSE.toarray()
    off = ~np.eye(10, dtype=bool)
    channel = Channel(written, repair=repair)
    for number in range(12):
        matrix = rounds(channel, DENSE, np.eye(10), 1)[0] if number == 0 else products(channel, number)
        assert set(np.unique(matrix[off & (matrix != full)])) <= {0.0}
        assert (matrix.diagonal() >= full.diagonal() - 1e-15).all()
        np.testing.assert_allclose(matrix.sum(1), 1.0, rtol=0, atol=1e-15)
        if repair:
            np.testing.assert_array_equal(matrix, matrix.T)


def products(channel: Channel, number: int) -> Array:
    """W(number) of the same channel: what it makes of the identity in that round."""
    network = UnreliableNetwork(DENSE, "serial", channel=channel, seed=3)
    network.rounds = number
    return averaged(network, Held(np.eye(10), number)).x


def test_an_agent_that_sleeps_keeps_every_bit_and_tracking_its_invariant() -> None:
    channel = Channel("sleep:p=0.4,length=3")
    problem = do.problems.PCASettings(data="synthetic", dimension=8, rank=2, samples=20).problem(10, 0)
    run = set_up(problem, do.DRFGT(step_size=0.01, penalty=1.0), RING, channel=channel, comm="serial", seed=4)
    network = run.network
    assert isinstance(network, UnreliableNetwork)
    asleep = Chain(Draws(4, 0, np.arange(10), np.arange(10)), 0.4, 3.0)
    states = run.states()
    before = [array.copy() for array in next(states)[:3]]
    for k in range(60):
        state = next(states)
        for old, new in zip(before, state[:3], strict=True):
            still = (old == new).all((1, 2))
            np.testing.assert_array_equal(still, asleep(k))
        np.testing.assert_allclose(state.tracker.mean(0), state.field.mean(0), rtol=0, atol=1e-14)
        before = [array.copy() for array in state[:3]]


def test_no_loss_gives_the_bits_of_a_good_network() -> None:
    x = points()
    clean = Network(DENSE, "serial")
    for mixed in rounds(Channel("loss:p=0", "sleep:p=0"), DENSE, x, 5):
        (x,) = clean.mix(x)
        np.testing.assert_array_equal(mixed, x)


@pytest.mark.parametrize("repair", [True, False])
def test_topk_late_and_lossy_as_agent_by_agent(repair: bool) -> None:
    """Formula (1) in loops over agents, with copies of what was said; what is lost is read off a channel that only loses."""
    x, W = points(20), DENSE.toarray()
    matrices = [products(Channel("loss:p=0.2", repair=repair), number) for number in range(15)]
    found = rounds(Channel("loss:p=0.2", "topk:share=0.2", "delay:rounds=2", repair=repair), DENSE, x, 15)
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
    edges = Edges(np.arange(2000), np.arange(2000) + 1)
    chain = Chain(Draws(11, 0, *edges), p, length)
    states = np.array([chain(t) for t in range(300)])
    spread = math.sqrt(p * (1 - p) / states.size * (2 * length))  # correlated over about that many rounds
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


def test_quantization_is_unbiased_and_to_the_nearest_multiples() -> None:
    x = np.random.default_rng(0).standard_normal((400, 7))
    x[3] = 0.0
    quantize = Quantize(bits=4)
    unit = np.abs(x).max(1, keepdims=True) / 7
    total = np.zeros_like(x)
    for t in range(500):
        quantized = arriving(quantize, x, SOURCE._replace(t=t))
        assert (np.abs(quantized - x) <= unit * (1 + 1e-12)).all()
        np.testing.assert_allclose(quantized, np.round(quantized / np.maximum(unit, 1e-300)) * unit, rtol=0, atol=1e-12)
        total += quantized - x
    spread = total / 500 / np.maximum(unit, 1e-300)
    assert np.abs(spread).max() < 6 * 0.5 / math.sqrt(500)
    assert abs(spread.mean()) < 4 * 0.5 / math.sqrt(500 * x.size)


@pytest.mark.parametrize("size", [1, 2, 9, 1000])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 1.0])
def test_topk_keeps_the_largest(size: int, share: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, size)) * 10.0 ** rng.integers(-300, 300, (40, 1))
    x[:10] = np.round(rng.standard_normal((10, size)))  # with ties and zeros
    x[10:20] = 1.0 + 1e-12 * rng.standard_normal((10, size))  # told apart by the last digits alone
    kept = max(1, round(share * size))
    expected = np.zeros_like(x)
    for i, row in enumerate(x):
        chosen = np.argsort(-np.abs(row), kind="stable")[:kept]
        expected[i, chosen] = row[chosen]
    np.testing.assert_array_equal(arriving(TopK(share=share), x, SOURCE), expected)


def test_words_belong_to_agents_and_to_rounds() -> None:
    whole = Source(9, 5, 1, slice(0, 20)).words(2, 13)
    np.testing.assert_array_equal(Source(9, 5, 1, slice(7, 12)).words(2, 13), whole[7:12])
    for seed, number, t, part in ((8, 2, 5, 1), (9, 3, 5, 1), (9, 2, 6, 1), (9, 2, 5, 0)):
        assert not (Source(seed, t, part, slice(0, 20)).words(number, 13) == whole).any()


@pytest.mark.parametrize(("late", "own", "stable"), [(1, 0.52, True), (1, 0.48, False), (2, 0.7, True), (2, 0.68, False)])
def test_how_much_delay_repair_can_bear(late: int, own: float, stable: bool) -> None:
    """x <- x - (I - W) x(k - d): stable where 1 - w < 2 sin(pi / (4 d + 2)); on this ring 1 - w is at most 2 (1 - own)."""
    assert (2 * (1 - own) < 2 * math.sin(math.pi / (4 * late + 2))) is stable
    x = points()
    spread = [
        np.abs(mixed - x.mean(0)).max()
        for mixed in rounds(Channel(f"delay:rounds={late}"), tp.uniform_weights(tp.ring(10), own), x, 900)
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
    """The first message with feedback is whole, one that is lost is sent once more; who sleeps sends nothing."""
    x = points(1000)

    def counts(channel: Channel, number: int) -> tuple[int, int]:
        network = UnreliableNetwork(RING, "serial", channel=channel, seed=3)
        state = Held(x.copy(), 0)
        for _ in range(number):
            state = averaged(network, state)
        assert network.rounds == number
        return network.messages, network.bytes

    assert counts(Channel("loss:p=0.5"), 4) == (80, 80 * 8000)
    assert counts(Channel("topk:share=0.1"), 4) == (80, 20 * 8000 + 60 * 925)
    edges = edges_of(RING)
    lost = int(sum(Loss(0.5).lost(edges, 3, 0)(t).sum() for t in range(4)))
    assert counts(Channel("loss:p=0.5", "quantize:feedback=true"), 4)[0] == 80 + lost
    asleep = Chain(Draws(3, 0, np.arange(10), np.arange(10)), 0.5, 2.0)
    assert counts(Channel("sleep:p=0.5,length=2"), 4)[0] == sum(2 * int((~asleep(t)).sum()) for t in range(4))


@pytest.mark.parametrize("repair", first_is_quick([True, False]))
@pytest.mark.parametrize("written", [*BREAKING, *CODING, *LATE, "crash:p=0.3,length=2"])
def test_the_same_bits_over_ranks(written: str, repair: bool) -> None:
    x, channel = points(), Channel(written, "loss:p=0.1", repair=repair)
    whole = rounds(channel, DENSE, x, 12)[-1]
    for ranks in (3, 10):
        parts = on_ranks(ranks, lambda communicator: rounds(channel, DENSE, x, 12, communicator)[-1])
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.slow_cases("combine-then-adapt-faults2", "combine-then-adapt-faults3")
@pytest.mark.parametrize(
    "faults",
    [
        ("topk:share=0.2", "loss:p=0.1"),
        ("delay:rounds=3,random=true",),
        ("bursts:p=0.2", "sleep:p=0.2"),
        ("crash:p=0.1,length=2", "delay:rounds=1", "delay:rounds=2,random=true", "randomk:share=0.5"),
    ],
)
@pytest.mark.parametrize("order", first_is_quick(["combine-then-adapt", "adapt-then-combine"]))
def test_a_run_goes_on_with_what_is_in_flight(faults: tuple[str, ...], order: Any, tmp_path: Path) -> None:
    problem = do.problems.PCASettings(data="synthetic", dimension=8, rank=2, samples=20).problem(10, 0)
    method = do.DRFGT(step_size=0.02, penalty=1.0, order=order)

    def go(communicator: Any, iterations: int, folder: Path | None = None, resume: Path | None = None) -> tuple[str, bytes, int]:
        checkpoints = None if folder is None else do.Checkpoints(folder)
        result = do.solve(
            problem,
            method,
            RING,
            iterations=iterations,
            record_every=5,
            comm=communicator,
            channel=Channel(*faults),
            checkpoints=checkpoints,
            resume=resume,
        )
        return result.collective.sha256(result.x), result.history["objective"].tobytes(), result.row.bytes

    whole = go("serial", 40)
    for number, first in enumerate((0, 15)):
        folder = tmp_path / str(number)
        on_ranks(2, lambda communicator, first=first, folder=folder: go(communicator, first, folder))  # type: ignore[misc]
        assert go("serial", 40, resume=folder) == whole
    with pytest.raises(do.CheckpointError, match="network: channel is"):
        do.solve(problem, method, RING, iterations=40, record_every=5, comm="serial", resume=folder)


def published(channel: Channel | None, iterations: int, **given: Any) -> do.Result:
    problem = do.problems.ProcrustesSettings().problem(10, seed=0)
    return do.solve(
        problem, do.DRFGT(step_size=1e-2, penalty=10.0), RING, iterations=iterations, channel=channel, comm="serial", **given
    )


@pytest.mark.slow
def test_what_the_monitor_says_of_the_published_experiment() -> None:
    kept, left = (published(Channel("loss:p=0.1", repair=repair), 300, rows=5) for repair in (True, False))
    assert kept.drifted is False
    assert kept.row.values["tracking_error"] < 1e-12
    assert left.drifted is True
    assert left.row.values["tracking_error"] > 0.1


@pytest.mark.slow
def test_the_published_experiment_converges_through_bad_networks() -> None:
    stopping = do.stopping.GradientNorm(1e-4)
    clean, lossy, sparse = (
        published(channel, 9000, stopping=stopping, record_every=100)
        for channel in (None, Channel("loss:p=0.1"), Channel("topk:share=0.1"))
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
        UnreliableNetwork(tp.sequence_from_name("one_peer_exponential", 8), "serial", channel=Channel("topk"))


def test_on_a_time_varying_network_losses_keep_the_mean() -> None:
    x = np.random.default_rng(1).standard_normal((8, 6))
    for mixed in rounds(Channel("loss:p=0.3", "quantize:bits=4"), tp.sequence_from_name("one_peer_exponential", 8), x, 20):
        np.testing.assert_allclose(mixed.mean(0), x.mean(0), rtol=0, atol=1e-14)


def test_faults_are_written_as_they_are_read() -> None:
    given = {"delay": "rounds=1"}
    for name in FAULTS:
        written = given.get(name, "p=0.1" if "p" in FAULTS[name].__match_args__ else "")
        one = fault(f"{name}:{written}")
        assert fault(str(one)) == one
    assert fault("Loss:0.5") == Loss(0.5)
    assert isinstance(fault("loss:p=0.5"), MessageLoss)
