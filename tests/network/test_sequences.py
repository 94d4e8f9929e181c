"""Time-varying networks: round k mixes with W(k), in one process and over ranks, with the same bits."""

from __future__ import annotations

import gc
import hashlib
import weakref
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest

import topologies as tp
from decentorth import DRFGT
from decentorth.api import set_up
from decentorth.network import Network
from decentorth.protocols import Array
from tests.support.problems import procrustes
from tests.support.threads import ThreadCommunicator, on_ranks

N = 8
SEQUENCES: dict[str, Callable[[], tp.WeightSequence]] = {
    "one-peer exponential": lambda: tp.sequence_from_name("one_peer_exponential", N),
    "random matching": lambda: tp.sequence_from_name("random_matching", N, seed=3),
    "random gossip": lambda: tp.sequence_from_name("random_gossip@ring:8", N, seed=3),
    "link failures": lambda: tp.sequence_from_name("link_failures:p=0.3@torus:3x3", 9, seed=3),
    "ring and star": lambda: tp.sequence_from_name("periodic@ring:8|star:8", N),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_round_k_mixes_with_the_matrix_of_k(name: str) -> None:
    sequence = SEQUENCES[name]()
    network = Network(sequence, "serial")
    x = np.random.default_rng(0).standard_normal((sequence.n, 4, 3))
    y, edges = x.copy(), 0
    for k in range(7):
        W = sequence.at(k).toarray()
        y = (W @ y.reshape(sequence.n, -1)).reshape(x.shape)
        edges += int(np.count_nonzero(W - np.diag(np.diag(W))))
    (found,) = network.mix(x, rounds=7)
    np.testing.assert_allclose(found, y, rtol=0, atol=1e-14)
    assert (network.rounds, network.messages, network.bytes) == (7, edges, edges * 8 * 12)


def test_one_peer_exponential_averages_exactly_in_log_n_rounds() -> None:
    x = np.random.default_rng(1).standard_normal((N, 5))
    (found,) = Network(SEQUENCES["one-peer exponential"](), "serial").mix(x, rounds=3)
    np.testing.assert_allclose(found, np.tile(x.mean(0), (N, 1)), rtol=0, atol=1e-15)


def history(name: str, communicator: ThreadCommunicator | str) -> tuple[str, int]:
    """The hash of ten iterations' points of these agents one after another, as bytes gathered in agent order."""
    sequence = SEQUENCES[name]()
    problem = procrustes((6,) * sequence.n).problem
    run = set_up(problem, DRFGT(step_size=1e-3, penalty=10.0), sequence, comm=communicator)
    states = run.states()
    trace = np.stack([next(states).x.copy() for _ in range(10)], axis=1)
    return run.collective.sha256(trace), run.network.messages


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("ranks", [2, 3, 7, 8])
def test_same_bits_over_ranks(name: str, ranks: int) -> None:
    alone = history(name, "serial")
    assert on_ranks(ranks, lambda communicator: history(name, communicator)) == [alone] * ranks


def test_plans_are_kept_by_matrix_and_their_number_is_bounded() -> None:
    periodic, drawn = Network(SEQUENCES["ring and star"](), "serial"), Network(SEQUENCES["random matching"](), "serial")
    x = np.ones((N, 1))
    periodic.mix(x, rounds=200)
    drawn.mix(x, rounds=200)
    assert len(periodic._plans) == 2
    assert len(drawn._plans) == 64


def test_a_plan_that_is_dropped_is_freed_at_once() -> None:
    """Its buffers and requests would otherwise wait for the garbage collector, which seldom looks at old objects."""
    drawn = Network(SEQUENCES["random matching"](), "serial")
    drawn.mix(np.ones((N, 1)))
    gc.disable()
    try:
        first = weakref.ref(next(iter(drawn._plans.values())))
        drawn.mix(np.ones((N, 1)), rounds=200)
        assert first() is None
    finally:
        gc.enable()


def test_automatic_steps_need_a_fixed_matrix() -> None:
    for order in ("auto", "combine-then-adapt"):
        with pytest.raises(ValueError, match=r"time-varying network lacks the eigenvalues .* give step_size and penalty"):
            set_up(procrustes((6,) * N).problem, DRFGT(order=order), SEQUENCES["ring and star"](), comm="serial")


def test_the_digest_tells_sequences_apart() -> None:
    digests = {Network(make(), "serial").digest() for make in SEQUENCES.values()}
    assert len(digests) == len(SEQUENCES)
    fixed = tp.metropolis_weights(nx.cycle_graph(N))
    assert Network(fixed, "serial").digest() == Network(fixed.toarray(), "serial").digest()
    nudged: Array = fixed.toarray()
    nudged[0, 0] = np.nextafter(nudged[0, 0], 1)
    assert Network(fixed, "serial").digest() != Network(nudged, "serial").digest()
    assert len(hashlib.sha256().digest()) == len(next(iter(digests)))
