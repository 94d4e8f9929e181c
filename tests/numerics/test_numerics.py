"""Names of devices, without PyTorch, the power of two by which norms are scaled, and random numbers
from a counter."""

from __future__ import annotations

import sys
from typing import get_args

import numpy as np
import pytest

from decentorth import DRFGT, solve
from decentorth.commands.run.command import main
from decentorth.numerics.devices import numbers, on_host, open_device
from decentorth.numerics.ordered_sums import power_of_two
from decentorth.numerics.random_streams import CounterStreams, philox
from decentorth.problems import PCA
from decentorth.protocols import Index, Purpose


@pytest.mark.parametrize("name", ["gpu", "cpu", "torch", "torch:cpu:float16", "cuda:", "CUDA", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="device must be 'cuda', 'cuda:1' or 'torch:cpu'"):
        open_device(name)


def test_without_pytorch_the_message_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    said = r"device \S+ needs PyTorch: pip install torch"
    with pytest.raises(ValueError, match=said):
        solve(PCA(np.eye(6).reshape(2, 3, 6), 1), DRFGT(), "complete", device="cuda")
    assert main("--agents 3 --iterations 1 --quiet --device torch:cpu".split()) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_numbers_of_the_host_stay_as_they_are() -> None:
    x = np.arange(3.0)
    assert on_host(x) is x
    assert numbers((1, np.float64(0.1), np.array(2.0))) == (1.0, 0.1, 2.0)


def test_the_power_of_two_is_the_largest_that_a_size_reaches() -> None:
    """Exactly, for numbers of every order of magnitude; 1 for 0 and sizes that are not finite."""
    exponents = np.arange(-1074, 1024)
    powers = np.ldexp(1.0, exponents)
    assert power_of_two(powers).tobytes() == powers.tobytes()
    between = 1.75 * powers[60:]
    assert power_of_two(between).tobytes() == powers[60:].tobytes()
    assert power_of_two(np.array([0.0, np.inf, np.nan, -1.0])).tolist() == [1.0] * 4
    assert float(power_of_two(6.0)) == 4.0


ONES = 0xFFFFFFFF
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    """Of the Random123 library, for Philox4x32-10; in an array of equal counters as for one."""
    for size in (1, 3):
        c0, c1, c2, c3 = (np.full(size, word, dtype=np.uint64) for word in counter)
        for word, answer in zip(philox((c0, c1, c2, c3), key), expected, strict=True):
            np.testing.assert_array_equal(word, [answer] * size)


def test_integers_are_the_words_of_philox() -> None:
    """Word j of agent i in iteration k: counter (j // 4, k, i, number of the purpose), key of the
    seed's two halves."""
    seed, k, agent, size = 0xA4093822 + (0x299F31D0 << 32), 77, 5, 10
    found = CounterStreams(seed, slice(4, 7)).integers("batch", k, size, 1000)[agent - 4]
    words = []
    for position in range(3):
        counter = (position, k, agent, PURPOSES.index("batch"))
        c0, c1, c2, c3 = (np.array([word], dtype=np.uint64) for word in counter)
        words += [int(word[0]) for word in philox((c0, c1, c2, c3), (0xA4093822, 0x299F31D0))]
    assert found.tolist() == [word * 1000 >> 32 for word in words[:size]]


def test_draws_do_not_depend_on_who_shares_a_process() -> None:
    whole = CounterStreams(5, slice(0, 12))
    high = np.arange(1, 13) * 100
    together, shared = whole.integers("batch", 3, 9, high), whole.permutation("blocks", 3, 20)
    for first, end in ((0, 1), (3, 8), (11, 12)):
        part = CounterStreams(5, slice(first, end))
        np.testing.assert_array_equal(
            part.integers("batch", 3, 9, high[first:end]), together[first:end]
        )
        np.testing.assert_array_equal(part.permutation("blocks", 3, 20), shared)


def test_the_first_draws_do_not_depend_on_how_many_there_are() -> None:
    streams = CounterStreams(5, slice(0, 4))
    np.testing.assert_array_equal(
        streams.integers("batch", 1, 3, 50), streams.integers("batch", 1, 17, 50)[:, :3]
    )


def test_bounds_of_each_agent() -> None:
    high: Index = np.array([1, 2, 1000, (1 << 32) - 1])
    drawn = CounterStreams(8, slice(0, 4)).integers("batch", 0, 5000, high)
    assert np.all(drawn >= 0)
    assert np.all(drawn < high[:, None])
    assert not drawn[0].any()
    np.testing.assert_allclose(drawn.mean(axis=1), (high - 1) / 2, rtol=0.03)


def test_permutations_are_permutations() -> None:
    streams = CounterStreams(1, slice(0, 2))
    for n in (1, 2, 5, 1000):
        np.testing.assert_array_equal(np.sort(streams.permutation("blocks", 4, n)), np.arange(n))
