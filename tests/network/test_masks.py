"""Secure sums: exact, the same bits on any number of ranks, and messages that say nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth.network import Network
from decentorth.protocols import Array
from tests.support.threads import on_ranks


def secure(n: int = 6, communicator: Any = "serial") -> Network:
    network = Network(tp.metropolis_weights(tp.complete(n)), communicator)
    network.mask_sums()
    return network


def values(n: int, width: int, spread: int = 8) -> Array:
    """Numbers of very different sizes."""
    rng = np.random.default_rng(width)
    return rng.standard_normal((n, width)) * 10.0 ** rng.integers(-spread, spread, (n, width))


def exact(x: Array) -> Array:
    """The sums over the agents, right to the last digit."""
    return np.array([math.fsum(column) for column in x.T.tolist()])


def sent(network: Network, work: Callable[[], object]) -> list[Array]:
    """What all agents have to send in each sum of ``work``, ``(n, k)``, before it is added."""
    messages: list[Array] = []
    add = network._add_up

    def listening(values: Array, use: str) -> Array:
        messages.append(values.copy())
        return add(values, use)

    network._add_up = listening  # type: ignore[method-assign]
    work()
    network._add_up = add  # type: ignore[method-assign]
    return messages


@pytest.mark.parametrize("n", [2, 3, 10, 64])
def test_sums_of_numbers_of_very_different_sizes_are_right(n: int) -> None:
    """In a sum that is made once to the last digit; other sums to 2^-58 of the largest number."""
    x = values(n, 30, 6)
    network = secure(n)
    once = exact(x)
    assert (np.abs(network.column_sums(x) - once) <= np.spacing(np.abs(once))).all()
    (total,) = network.total(x)
    assert (total == total[0]).all()
    assert np.abs(total[0] - once).max() <= n * 2.0**-58 * np.abs(x).max()


def test_the_largest_terms_of_64_agents_do_not_overflow() -> None:
    """All digits as large as they get: 2^39 in each of the masked numbers, or half of their last
    place, with either sign."""
    network = secure(64)
    for sign in (1.0, -1.0):
        for digits in ((1.0,), (1.0, 2.0**-40, 2.0**-41), (1.5, -(2.0**-52))):
            x = np.full((64, 1), sign * sum(digits))
            for _ in range(2):
                assert network.total(x)[0][0] == 64 * x[0]
                assert network.column_sums(x) == 64 * x[0]


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_same_bits_and_counts_on_any_number_of_ranks(ranks: int) -> None:
    x, y = values(6, 20), values(6, 5)

    def sums(communicator: Any) -> tuple[list[bytes], tuple[int, int, int]]:
        network = secure(6, communicator)
        own = network.agents
        found = [network.total(x[own], y[own])[0][0], network.column_sums(y[own])]
        found.append(network.total(1e9 * x[own])[0][0])
        counts = network.rounds, network.messages, network.bytes
        return [one.tobytes() for one in found], counts

    (alone,) = on_ranks(1, sums)
    for one in on_ranks(ranks, sums):
        assert one == alone


def test_terms_that_outgrow_their_size_are_added_again_with_a_new_one() -> None:
    """A first sum takes one on sizes and one on numbers; a sum that is too large both again."""
    network, x = secure(), values(6, 7, 1)
    assert len(sent(network, lambda: network.total(x))) == 2
    for growth, sums in ((1.0, 1), (2.0**6, 1), (2.0**60, 3), (2.0**61, 1), (1e-9, 1)):
        messages = sent(network, lambda g=growth: network.total(g * x))  # type: ignore[misc]
        assert len(messages) == sums
    one = x.copy()
    one[3] *= 1e200
    assert network.total(one)[0][0] == pytest.approx(exact(one), rel=1e-15)
    zeros = secure()
    assert (zeros.total(0.0 * x)[0] == 0.0).all()
    assert zeros.total(1e-300 * x)[0][0] == pytest.approx(exact(1e-300 * x), rel=1e-15)


def test_a_sum_that_is_repeated_does_not_show_the_term_that_was_too_large() -> None:
    """The total without this term, which zeros in its place would give, is not known either."""
    x, totals = values(6, 7, 1), list[Array]()
    for _ in range(2):
        network = secure()
        network.total(x)
        add = network._add_up

        def listening(values: Array, use: str, add: Any = add) -> Array:
            totals.append(add(values, use))
            return totals[-1]

        network._add_up = listening  # type: ignore[method-assign]
        larger = x.copy()
        larger[2] *= 1e9
        network.total(larger)
    assert len(totals) == 6
    assert (totals[0] % 2.0**47 != totals[3] % 2.0**47).all()
    assert (totals[2] % 2.0**47 == totals[5] % 2.0**47).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_makes_the_sum_nan_at_once(bad: float) -> None:
    network, x = secure(), values(6, 4)
    for spoilt in (0, 3):
        y = x.copy()
        y[spoilt, 2] = bad
        assert np.isnan(network.total(y)[0]).all()
        assert np.isnan(network.column_sums(y)).all()
        assert np.isfinite(network.total(x)[0]).all()


def test_messages_are_uniformly_random_and_never_the_same() -> None:
    """Every agent's message, and every sum of the messages of all but one: 47 bits, each one in
    half of the numbers, and no correlation with the terms or with the messages of another sum.

    The bounds are of five standard deviations and more.
    """
    n, width = 5, 4000
    network = secure(n)
    x = np.random.default_rng(0).standard_normal((n, width))
    messages = sent(network, lambda: [network.total(x) for _ in range(3)])[1:]
    hidden = [one[:, : 2 * width] for one in messages]
    numbers = [row for one in hidden for row in one]
    numbers += [(one.sum(0) - one[agent]) % 2.0**47 for one in hidden for agent in range(n)]
    for row in numbers:
        assert ((row >= 0.0) & (row < 2.0**47) & (row == np.rint(row))).all()
        bits = row.astype(np.int64)[:, None] >> np.arange(47) & 1
        assert np.abs(bits.mean() - 0.5) < 5 * 0.5 / math.sqrt(bits.size)
        assert np.abs(bits.mean(0) - 0.5).max() < 6 * 0.5 / math.sqrt(len(row))
    for agent in range(n):
        first, second = (one[agent, :width] for one in hidden[:2])
        for other in (x[agent], second):
            assert abs(np.corrcoef(first, other)[0, 1]) < 6 / math.sqrt(width)


def test_all_that_is_said_of_sizes_is_the_largest_of_all() -> None:
    """The totals say that some agent's numbers reach a size, not how many agents', nor whose."""
    sizes = [0, 5, 5, 5, 70, 0]
    x = np.array([[0.0 if size == 0 else 2.0 ** (16 * size - 1074 - 1)] for size in sizes])
    network = secure()
    add = network._add_up
    totals: list[Array] = []

    def listening(values: Array, use: str) -> Array:
        totals.append(add(values, use))
        return totals[-1]

    network._add_up = listening  # type: ignore[method-assign]
    network.total(x)
    said = totals[0] % 2.0**47
    assert (said[:70] != 0.0).all()
    assert (said[70:] == 0.0).all()
    assert len(np.unique(said[:70])) == 70
    assert network.masks is not None
    assert network.masks.sizes == {(1,): [70]}
