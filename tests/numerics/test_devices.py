"""Names of devices, without PyTorch, and the power of two by which norms are scaled."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from decentorth import DRFGT, solve
from decentorth.commands.run.command import main
from decentorth.numerics.devices import numbers, on_host, opened
from decentorth.numerics.ordered_sums import power_of_two
from decentorth.problems import PCA


@pytest.mark.parametrize("name", ["gpu", "cpu", "torch", "torch:cpu:float16", "cuda:", "CUDA", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="device must be 'cuda', 'cuda:1' or 'torch:cpu'"):
        opened(name)


def test_without_pytorch_the_message_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    said = r'device \S+ needs PyTorch: pip install "decentorth\[torch\]"'
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
