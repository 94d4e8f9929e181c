"""How arrays are coded: what is kept of them exactly, by which law it is drawn, and that it belongs to an agent alone."""

from __future__ import annotations

import numpy as np
import pytest

from decentorth.network.unreliable.codings import Code
from decentorth.network.unreliable.draws import Source
from decentorth.network.unreliable.faults import Coding, Quantize, RandomK, TopK
from decentorth.protocols import Array

SOURCE = Source(5, 17, 0, slice(0, 70))


def arriving(coding: Coding, x: Array, source: Source = SOURCE) -> Array:
    """What arrives of ``x``, coded."""
    out = np.full(x.shape, np.nan)
    coding.coded(Code(x), source, 3).put(out)
    return out


@pytest.mark.parametrize("size", [257, 1000, 3000])
@pytest.mark.parametrize("share", [0.004, 0.02, 0.1, 0.25, 0.6])
def test_topk_of_long_rows_keeps_the_largest_and_of_equals_the_first(size: int, share: float) -> None:
    """Also where the largest stand in a run, repeat themselves, differ in their last digits, or are infinite."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((70, size))
    x[1] = np.arange(size)
    x[2] = -np.arange(size)[::-1]
    x[3] = 0.0
    x[4] = rng.integers(-2, 3, size)
    x[5] = 1.0 + 1e-15 * rng.integers(0, 5, size)
    x[6] *= 1e300
    x[7] *= 1e-310
    x[8, ::50] = 10.0
    x[9, 3], x[9, 11] = -np.inf, np.inf
    kept = max(1, round(share * size))
    expected = np.zeros_like(x)
    for i, row in enumerate(x):
        chosen = np.argsort(-np.abs(row), kind="stable")[:kept]
        expected[i, chosen] = row[chosen]
    np.testing.assert_array_equal(arriving(TopK(share=share), x), expected)


@pytest.mark.parametrize(("size", "share"), [(1, 0.1), (10, 0.1), (100, 0.1), (1000, 0.125), (1000, 0.97), (4000, 0.12), (37, 1.0)])
def test_randomk_sends_the_first_draws_that_are_distinct(size: int, share: float) -> None:
    """Draw by draw, of 32 bits each, until there are enough; of almost all entries those that are left out."""
    kept = max(1, round(share * size))
    fewer = min(kept, size - kept)
    some = 2 * max(12, fewer // 16)
    sent = arriving(RandomK(share=share), np.ones((70, size))) != 0.0
    for agent in range(0, 70, 3):
        drawn: list[int] = []
        stretch = 0
        while len(drawn) < fewer:
            for word in SOURCE._replace(agents=slice(agent, agent + 1)).words(3, some if stretch else fewer + some, stretch)[0]:
                place = int(word) * size >> 32
                if len(drawn) < fewer and place not in drawn:
                    drawn.append(place)
            stretch += 1
        expected = np.isin(np.arange(size), drawn)
        np.testing.assert_array_equal(sent[agent], expected if fewer == kept else ~expected)
        assert sent[agent].sum() == kept


@pytest.mark.parametrize(("size", "share"), [(2, 0.5), (10, 0.3), (10, 0.7), (1000, 0.5)])
def test_randomk_with_a_large_share_sends_those_with_the_largest_numbers(size: int, share: float) -> None:
    sent = arriving(RandomK(share=share), np.ones((70, size))) != 0.0
    largest = np.argsort(-SOURCE.words(3, size).astype(np.int64), axis=1, kind="stable")
    for agent in range(70):
        np.testing.assert_array_equal(np.flatnonzero(sent[agent]), np.sort(largest[agent, : round(share * size)]))


@pytest.mark.parametrize("coding", [TopK(), RandomK(), RandomK(share=0.6), Quantize()])
def test_what_an_agent_sends_does_not_depend_on_who_is_coded_with_it(coding: Coding) -> None:
    x = np.random.default_rng(2).standard_normal((70, 600))
    whole = arriving(coding, x)
    for rows in (slice(0, 1), slice(9, 40), slice(69, 70)):
        np.testing.assert_array_equal(arriving(coding, x[rows], SOURCE._replace(agents=rows)), whole[rows])


def test_codings_one_after_another_work_on_what_is_left() -> None:
    """Of 600 entries 60, of these the 6 largest, and these alone rounded; places are those of the array."""
    x = np.random.default_rng(2).standard_normal((70, 600))
    code = RandomK().coded(Code(x), SOURCE, 0)
    assert code.places is not None
    np.testing.assert_array_equal(code.values, x.reshape(-1)[code.places])
    fewer = TopK().coded(code, SOURCE, 1)
    assert fewer.places is not None
    assert fewer.values.shape == fewer.places.shape == (70, 6)
    np.testing.assert_array_equal(fewer.values, x.reshape(-1)[fewer.places])
    assert (np.sort(np.abs(fewer.values), axis=1) == np.sort(np.abs(code.values), axis=1)[:, -6:]).all()
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
