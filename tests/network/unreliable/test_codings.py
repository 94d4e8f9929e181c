"""How arrays are coded: what is kept of them exactly, by which law it is drawn, and that it belongs
to an agent alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decentorth.network.unreliable.codings import Code
from decentorth.network.unreliable.draws import Source
from decentorth.network.unreliable.faults import Coding, Quantize, RandomK, TopK
from decentorth.protocols import Array

SOURCE = Source(5, 17, 0, slice(0, 70))


def arriving(coding: Coding, x: Array, source: Source = SOURCE) -> Array:
    out = np.full(x.shape, np.nan)
    coding.coded(Code(x), source, 3).put(out)
    return out


@pytest.mark.parametrize("size", [1, 2, 9, 257, 1000, 3000])
@pytest.mark.parametrize("share", [0.004, 0.02, 0.1, 0.25, 0.6, 1.0])
def test_topk_keeps_the_largest_and_of_equals_the_first(size: int, share: float) -> None:
    """Also where the largest stand in a run, repeat themselves, differ in their last digits, or are
    infinite."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((70, size)) * 10.0 ** rng.integers(-300, 300, (70, 1))
    x[1] = np.arange(size)
    x[2] = -np.arange(size)[::-1]
    x[3] = 0.0
    x[4:9] = rng.integers(-2, 3, (5, size))
    x[9] = 1.0 + 1e-15 * rng.integers(0, 5, size)
    x[10] *= 1e-310
    x[11, ::50] = 10.0
    x[12, 3::8], x[12, 7::8] = -np.inf, np.inf
    kept = max(1, round(share * size))
    expected = np.zeros_like(x)
    for i, row in enumerate(x):
        chosen = np.argsort(-np.abs(row), kind="stable")[:kept]
        expected[i, chosen] = row[chosen]
    np.testing.assert_array_equal(arriving(TopK(share=share), x), expected)


@pytest.mark.parametrize(
    ("size", "share"),
    [(1, 0.1), (10, 0.1), (100, 0.1), (1000, 0.125), (1000, 0.97), (4000, 0.12), (37, 1.0)],
)
def test_randomk_sends_the_first_draws_that_are_distinct(size: int, share: float) -> None:
    """Draw by draw, of 32 bits each, until there are enough; of almost all entries those that are
    left out."""
    kept = max(1, round(share * size))
    fewer = min(kept, size - kept)
    some = 2 * max(12, fewer // 16)
    sent = arriving(RandomK(share=share), np.ones((70, size))) != 0.0
    for agent in range(0, 70, 3):
        drawn: list[int] = []
        stretch = 0
        while len(drawn) < fewer:
            for word in SOURCE._replace(agents=slice(agent, agent + 1)).words(
                3, some if stretch else fewer + some, stretch
            )[0]:
                place = int(word) * size >> 32
                if len(drawn) < fewer and place not in drawn:
                    drawn.append(place)
            stretch += 1
        expected = np.isin(np.arange(size), drawn)
        np.testing.assert_array_equal(sent[agent], expected if fewer == kept else ~expected)
        assert sent[agent].sum() == kept
    unbiased = arriving(RandomK(share=share, feedback=False), np.ones((70, size)))
    np.testing.assert_array_equal(unbiased, sent * (size / kept))


@pytest.mark.parametrize(("size", "share"), [(2, 0.5), (10, 0.3), (10, 0.7), (1000, 0.5)])
def test_randomk_with_a_large_share_sends_those_with_the_largest_numbers(
    size: int, share: float
) -> None:
    sent = arriving(RandomK(share=share), np.ones((70, size))) != 0.0
    largest = np.argsort(-SOURCE.words(3, size).astype(np.int64), axis=1, kind="stable")
    for agent in range(70):
        np.testing.assert_array_equal(
            np.flatnonzero(sent[agent]), np.sort(largest[agent, : round(share * size)])
        )


@pytest.mark.parametrize("coding", [TopK(), RandomK(), RandomK(share=0.6), Quantize()])
def test_what_an_agent_sends_does_not_depend_on_who_is_coded_with_it(coding: Coding) -> None:
    x = np.random.default_rng(2).standard_normal((70, 600))
    whole = arriving(coding, x)
    for rows in (slice(0, 1), slice(9, 40), slice(69, 70)):
        np.testing.assert_array_equal(
            arriving(coding, x[rows], SOURCE._replace(agents=rows)), whole[rows]
        )


def test_codings_one_after_another_work_on_what_is_left() -> None:
    """Of 600 entries 60, of these the 6 largest, and these alone rounded; places are those of the
    array."""
    x = np.random.default_rng(2).standard_normal((70, 600))
    code = RandomK().coded(Code(x), SOURCE, 0)
    assert code.places is not None
    np.testing.assert_array_equal(code.values, x.reshape(-1)[code.places])
    fewer = TopK().coded(code, SOURCE, 1)
    assert fewer.places is not None
    assert fewer.values.shape == fewer.places.shape == (70, 6)
    np.testing.assert_array_equal(fewer.values, x.reshape(-1)[fewer.places])
    assert (
        np.sort(np.abs(fewer.values), axis=1) == np.sort(np.abs(code.values), axis=1)[:, -6:]
    ).all()
    rounded, out = Quantize(bits=8).coded(fewer, SOURCE, 2), np.empty_like(x)
    rounded.put(out)
    assert (np.count_nonzero(out, axis=1) == 6).all()
    unit = np.abs(fewer.values).max(axis=1, keepdims=True) / 127
    assert (np.abs(rounded.values - fewer.values) <= unit * (1 + 1e-12)).all()


@pytest.mark.parametrize("coding", [TopK(share=0.2), RandomK(share=0.2), Quantize()])
def test_what_is_added_and_what_is_left_make_up_the_array(coding: Coding) -> None:
    rng = np.random.default_rng(3)
    x, before = rng.standard_normal((70, 300)), rng.standard_normal((70, 300))
    rest = x - before
    code = coding.coded(Code(rest.copy()), SOURCE, 0)
    said = before.copy()
    code.add_to(said, x, rest)
    np.testing.assert_array_equal(rest, x - said)
    out = np.empty_like(x)
    code.put(out)
    np.testing.assert_array_equal(said, before + out)


def test_quantization_is_unbiased_and_to_the_nearest_multiples() -> None:
    x = np.random.default_rng(0).standard_normal((70, 40))
    x[3] = 0.0
    quantize = Quantize(bits=4)
    unit = np.abs(x).max(1, keepdims=True) / 7
    total = np.zeros_like(x)
    for t in range(500):
        quantized = arriving(quantize, x, SOURCE._replace(t=t))
        assert (np.abs(quantized - x) <= unit * (1 + 1e-12)).all()
        np.testing.assert_allclose(
            quantized, np.round(quantized / np.maximum(unit, 1e-300)) * unit, rtol=0, atol=1e-12
        )
        total += quantized - x
    spread = total / 500 / np.maximum(unit, 1e-300)
    assert np.abs(spread).max() < 6 * 0.5 / math.sqrt(500)
    assert abs(spread.mean()) < 4 * 0.5 / math.sqrt(500 * x.size)


def test_words_belong_to_agents_and_to_rounds() -> None:
    whole = Source(9, 5, 1, slice(0, 20)).words(2, 13)
    np.testing.assert_array_equal(Source(9, 5, 1, slice(7, 12)).words(2, 13), whole[7:12])
    for seed, number, t, part in ((8, 2, 5, 1), (9, 3, 5, 1), (9, 2, 6, 1), (9, 2, 5, 0)):
        assert not (Source(seed, t, part, slice(0, 20)).words(number, 13) == whole).any()
