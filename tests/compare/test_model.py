"""The model of a network: closed forms, a naive loop over agents, the max-plus cycle mean, and the same luck for everybody."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decentorth as do
import topologies as tp
from decentorth.cli.flags import InputError
from decentorth.compare.model import NETWORKS, NetworkModel, elapsed, wall_time
from decentorth.numerics.random_streams import CounterStreams
from decentorth.protocols import Array
from tests.support import problems

PAYLOAD = 8e3
K = np.array([0, 1, 2, 17, 1000, 123_456])


def ring(n: int) -> Any:
    return tp.metropolis_weights(tp.ring(n))


def random_links(n: int, seed: int) -> tuple[Any, NetworkModel]:
    """A random graph with a latency and a bandwidth of its own for each direction of each link."""
    rng = np.random.default_rng(seed)
    W = tp.metropolis_weights(tp.erdos_renyi(n, 0.5, seed=seed))
    return W, NetworkModel(latency=rng.uniform(0.1, 1.0, (n, n)), bandwidth=PAYLOAD / rng.uniform(0.1, 1.0, (n, n)))


def naive(model: NetworkModel, W: Any, rounds: int, compute: float, seed: int) -> list[float]:
    """Agent by agent, link by link, as the module's docstring says."""
    dense = W.toarray()
    n = len(dense)
    neighbours = [[j for j in range(n) if j != i and dense[i, j]] for i in range(n)]
    order = [(i, j) for i in range(n) for j in sorted([*neighbours[i], i])]
    drawn = CounterStreams(seed, slice(0, n + len(order))).integers("fault", 0, rounds, 1 << 30)
    latency, bandwidth = np.broadcast_to(model.latency, (n, n)), np.broadcast_to(model.bandwidth, (n, n))
    t, ends = [0.0] * n, [0.0]
    for k in range(rounds):
        slow = [model.slowdown if word < model.straggler * (1 << 30) else 1.0 for word in drawn[:, k]]
        ready = [t[i] + slow[i] * compute for i in range(n)]
        transfer = {}
        for (i, j), factor in zip(order, slow[n:], strict=True):
            if i != j:
                share = max(len(neighbours[i]), len(neighbours[j])) if model.shared else 1
                transfer[i, j] = (factor * latency[i, j], factor * share * PAYLOAD / bandwidth[i, j])
        t = [
            max(
                max((ready[j] + sum(transfer[i, j]) for j in neighbours[i]), default=ready[i]),
                ready[i] + max((transfer[j, i][1] for j in neighbours[i]), default=0.0),
            )
            for i in range(n)
        ]
        ends.append(max(t))
    return ends


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("W", "degree"),
    [(ring(9), 2), (tp.metropolis_weights(tp.complete(6)), 5), (tp.metropolis_weights(tp.torus(4, 5)), 4), (ring(2), 1)],
)
def test_without_stragglers_a_regular_network_takes_rounds_times_a_round(W: Any, degree: int, shared: bool) -> None:
    model = NetworkModel(latency=0.03, bandwidth=1e6, shared=shared)
    found = elapsed(model, W, K, payload=PAYLOAD, compute=0.2)
    a_round = 0.2 + 0.03 + PAYLOAD * (degree if shared else 1) / 1e6
    np.testing.assert_allclose(found.seconds, K * a_round, rtol=1e-13)
    assert found.exact
    assert found.simulated <= 2


def test_a_star_waits_for_its_hub() -> None:
    """The hub receives n - 1 messages through one card, and each leaf waits for the hub's next message."""
    model = NetworkModel(latency=0.5, bandwidth=PAYLOAD)
    found = elapsed(model, tp.metropolis_weights(tp.star(7)), K, payload=PAYLOAD, compute=1.0)
    np.testing.assert_allclose(found.seconds, K * (1.0 + 0.5 + 6.0), rtol=1e-13)


@pytest.mark.parametrize("n", [3, 4, 9])
def test_a_ring_with_one_slow_link(n: int) -> None:
    """There and back takes two rounds, in which the slow link is used once: the mean of that cycle; all others are shorter."""
    latency = np.full((n, n), 0.1)
    latency[1, 0] = 2.0
    found = elapsed(NetworkModel(latency=latency, bandwidth=PAYLOAD), ring(n), K, payload=PAYLOAD, compute=0.3)
    assert found.exact
    cycle = 0.3 + 2.0 + (2.0 + 0.1) / 2
    assert abs(found.seconds[-1] - K[-1] * cycle) <= 2.0
    after = elapsed(NetworkModel(latency=latency, bandwidth=PAYLOAD), ring(n), K + 2, payload=PAYLOAD, compute=0.3)
    np.testing.assert_allclose((after.seconds - found.seconds)[3:], 2 * cycle, rtol=1e-9)


def test_a_slow_card_holds_its_own_agent_up() -> None:
    """A message that takes long to leave lets its sender go on no earlier, though a cycle there and back would have time."""
    bandwidth = np.full((3, 3), PAYLOAD)
    bandwidth[1, 0] = PAYLOAD / 5.0
    model = NetworkModel(bandwidth=bandwidth, shared=False)
    found = elapsed(model, tp.metropolis_weights(tp.path(3)), np.array([10, 11]), payload=PAYLOAD)
    assert found.seconds[1] - found.seconds[0] == pytest.approx(5.0, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_rate_is_the_largest_cycle_mean(seed: int) -> None:
    n, compute = 5, 0.25
    W, model = random_links(n, seed)
    graph: nx.DiGraph[int] = nx.DiGraph()
    dense, latency = W.toarray(), np.asarray(model.latency)
    degree = (dense > 0).sum(1) - 1
    wire = {
        (j, i): PAYLOAD * max(degree[i], degree[j]) / np.asarray(model.bandwidth)[i, j]
        for i in range(n)
        for j in range(n)
        if i != j and dense[i, j]
    }
    for (j, i), seconds in wire.items():
        graph.add_edge(j, i, delay=compute + latency[i, j] + seconds)
    for i in range(n):
        graph.add_edge(i, i, delay=compute + max(seconds for (j, _), seconds in wire.items() if j == i))
    means = [
        sum(graph[a][b]["delay"] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True)) / len(cycle)
        for cycle in nx.simple_cycles(graph)
    ]
    rounds = np.array([60_000, 120_000])
    found = elapsed(model, W, rounds, payload=PAYLOAD, compute=compute)
    assert found.exact
    assert (found.seconds[1] - found.seconds[0]) / 60_000 == pytest.approx(max(means), rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shared", [True, False])
def test_every_round_is_that_of_a_naive_loop(seed: int, shared: bool) -> None:
    W, random = random_links(7, seed)
    model = NetworkModel(latency=random.latency, bandwidth=random.bandwidth, straggler=0.3, slowdown=4.0, shared=shared)
    rounds = np.arange(41)
    found = elapsed(model, W, rounds, payload=PAYLOAD, compute=0.4, seed=seed)
    np.testing.assert_allclose(found.seconds, naive(model, W, 40, 0.4, seed), rtol=1e-13)
    steady = NetworkModel(latency=random.latency, bandwidth=random.bandwidth, shared=shared)
    found = elapsed(steady, W, rounds, payload=PAYLOAD, compute=0.4)
    np.testing.assert_allclose(found.seconds, naive(steady, W, 40, 0.4, 0), rtol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_what_repeats_is_what_would_have_been_simulated(seed: int) -> None:
    W, model = random_links(6, seed)
    rounds = np.arange(3000)
    found = elapsed(model, W, rounds, payload=PAYLOAD, compute=0.1)
    assert found.exact
    assert found.simulated < 3000
    whole = naive(model, W, 2999, 0.1, 0)
    np.testing.assert_allclose(found.seconds, whole, rtol=1e-11)


def test_always_slow_and_never_slow_are_factors_of_each_other() -> None:
    W, model = random_links(6, 1)
    always = NetworkModel(latency=model.latency, bandwidth=model.bandwidth, straggler=1.0, slowdown=7.0)
    rounds = np.arange(200)
    fast = elapsed(model, W, rounds, payload=PAYLOAD, compute=0.2).seconds
    np.testing.assert_allclose(elapsed(always, W, rounds, payload=PAYLOAD, compute=0.2).seconds, 7.0 * fast, rtol=1e-12)


def test_stragglers_of_a_complete_graph_cost_what_they_must_on_average() -> None:
    """Links that take no time: everybody waits for the slowest, slow with probability 1 - (1 - p)^n in each round."""
    n, p, factor, rounds = 8, 0.05, 6.0, 4000
    model = NetworkModel(straggler=p, slowdown=factor)
    found = elapsed(model, tp.metropolis_weights(tp.complete(n)), np.array([rounds]), payload=PAYLOAD, compute=1.0, seed=2)
    any_slow = 1.0 - (1.0 - p) ** n
    spread = (factor - 1.0) * math.sqrt(any_slow * (1.0 - any_slow) * rounds)
    assert abs(found.seconds[0] - rounds * (1.0 + (factor - 1.0) * any_slow)) < 3.0 * spread


def test_far_rounds_follow_at_the_rate_of_near_ones() -> None:
    model = NetworkModel(latency=0.1, bandwidth=1e6, straggler=0.1, slowdown=3.0)
    rounds = np.array([2048, 3000, 4096, 3000 + 2048, 4096 + 500 * 2048])
    found = elapsed(model, ring(10), rounds, payload=PAYLOAD)
    assert (found.simulated, found.exact) == (4096, False)
    half, middle, whole, later, far = found.seconds
    assert later == pytest.approx(middle + (whole - half), rel=1e-12)
    assert far == pytest.approx(whole + 500 * (whole - half), rel=1e-12)
    others = elapsed(model, ring(10), np.array([4096]), payload=PAYLOAD, first=4096)
    assert elapsed(model, ring(10), np.array([8192]), payload=PAYLOAD).seconds[0] == pytest.approx(
        whole + others.seconds[0], rel=0.02
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 50), st.integers(0, 4), st.floats(0.0, 3.0))
def test_no_link_that_gets_slower_makes_anybody_earlier(seed: int, link: int, more: float) -> None:
    W, model = random_links(5, seed)
    latency = np.array(model.latency)
    receivers, senders = np.nonzero(np.triu(W.toarray(), 1))
    place = receivers[link % len(receivers)], senders[link % len(receivers)]
    latency[place] += more
    slower = NetworkModel(latency=latency, bandwidth=model.bandwidth)
    rounds = np.arange(30)
    before = elapsed(model, W, rounds, payload=PAYLOAD).seconds
    assert (elapsed(slower, W, rounds, payload=PAYLOAD).seconds >= before - 1e-12).all()


def test_a_sequence_uses_the_matrix_of_each_round() -> None:
    """One neighbour at a time: a round takes one message, whatever the graph of all of them; the rounds are numbered from first."""
    sequence = tp.sequence_from_name("one_peer_exponential", 8)
    latency = np.zeros((8, 8))
    for i in range(8):
        latency[i, i ^ 4] = 1.0
    model = NetworkModel(latency=latency, bandwidth=PAYLOAD)
    for first in range(3):
        found = elapsed(model, sequence, np.arange(50), payload=PAYLOAD, first=first)
        expected = np.concatenate([[0.0], np.cumsum([2.0 if (first + k) % 3 == 2 else 1.0 for k in range(49)])])
        np.testing.assert_allclose(found.seconds, expected, rtol=1e-13)
        assert found.exact
        assert found.simulated < 49
    drawn = elapsed(NetworkModel(latency=1.0), tp.sequence_from_name("random_gossip@ring", 8), np.array([40]), payload=PAYLOAD)
    assert 0.0 < drawn.seconds[0] <= 40.0


def test_the_wall_time_of_a_run_is_the_sum_of_its_parts() -> None:
    """Set-up rounds of five numbers, then iterations of two rounds each, computing divided over agents and rounds."""
    case = problems.procrustes()
    W = ring(5)
    result = do.solve(case.problem, do.DRFGT(order="adapt-then-combine"), W, iterations=30, record_every=1)
    history, model = result.history, NetworkModel(latency=0.01, bandwidth=1e5, straggler=0.0)
    found = wall_time(model, W, history)
    before, k = int(history["rounds"][0]), history["iteration"]
    assert before > 0
    assert (history["rounds"] == before + 2 * k).all()
    seconds = history["seconds"] / 5
    setup = seconds[0] + before * (0.01 + 2 * 8 * 5 / 1e5)
    an_iteration = (seconds[-1] - seconds[0]) / 30 + 2 * (0.01 + 2 * 8 * 36 / 1e5)
    np.testing.assert_allclose(found.seconds, setup + k * an_iteration, rtol=1e-10)
    given_compute = wall_time(NetworkModel(latency=0.01, bandwidth=1e5, compute=0.7), W, history)
    np.testing.assert_allclose(
        given_compute.seconds, 0.7 + before * (0.01 + 2 * 8 * 5 / 1e5) + k * (0.7 + 2 * (0.01 + 576 / 1e5)), rtol=1e-10
    )


def test_a_run_of_one_agent_computes_alone() -> None:
    case = problems.procrustes(rows=(12,))
    result = do.solve(case.problem, do.Landing(), iterations=20)
    model = NetworkModel(latency=1.0, compute=0.5)
    found = wall_time(model, np.ones((1, 1)), result.history)
    np.testing.assert_allclose(found.seconds, 0.5 * (1 + result.history["iteration"]), rtol=1e-12)


def test_names_and_parameters() -> None:
    assert NetworkModel.named("wan") == NETWORKS["wan"]
    changed = NetworkModel.named("wan:straggler=0.1,compute=1e-3")
    assert (changed.straggler, changed.compute, changed.latency) == (0.1, 1e-3, NETWORKS["wan"].latency)
    own = NetworkModel.named("latency=1e-3,bandwidth=1e8,straggler=0.1,slowdown=3,shared=false")
    assert own == NetworkModel(latency=1e-3, bandwidth=1e8, straggler=0.1, slowdown=3.0, shared=False)
    assert str(NETWORKS["wan"]) == "latency 0.04, bandwidth 1.25e+07, straggler 0.01, slowdown 5"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wam", "known networks: ideal, datacenter, lan, wan, wifi, satellite, your own as latency=1e-3"),
        ("wam", "unknown network 'wam'; did you mean 'wan'?"),
        ("wan:latncy=1", "network 'wan:latncy=1': wan has no parameter 'latncy'"),
        ("wan:latncy=1", "did you mean 'latency'?"),
        ("latency=slow", "network 'latency=slow': latency must be a number, got 'slow'"),
        ("latency=inf", "latency must be a number, got 'inf'"),
        ("lan:latency=1,latency=2", "network 'lan:latency=1,latency=2': latency is given twice; leave one"),
        ("bandwidth=0", "network 'bandwidth=0': bandwidth must be positive"),
        ("lan:straggler=2", "straggler must be from 0 to 1, got 2"),
        ("lan:slowdown=0.5", "slowdown must be at least 1, got 0.5"),
        ("lan:compute=-1", "compute must be finite and not negative"),
    ],
)
def test_what_is_no_network(name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        NetworkModel.named(name)
    assert words in str(caught.value)


def test_links_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"latency must be a number or of shape \(5, 5\), got \(4, 4\)"):
        elapsed(NetworkModel(latency=np.ones((4, 4))), ring(5), K, payload=1.0)


def test_the_words_of_a_network_have_the_range_of_its_links() -> None:
    spread: Array = np.linspace(0.001, 0.002, 9).reshape(3, 3)
    assert str(NetworkModel(latency=spread)) == "latency 0.001 to 0.002"
