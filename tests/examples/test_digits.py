"""Every method on the digits comes as near the answer as its page claims, in one process and on ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.examples import run

EXACT = {"deepca": 1e-10, "destiny": 1e-5, "drfgt": 1e-10, "gradient_tracking": 1e-10, "rextra": 1e-10, "rfextra": 1e-10}
EXACT |= {"drgta": 1e-2, "dprgt": 1e-3, "dgd": 2.5, "dprgd": 2.5, "drsgd": 2.5}
"""The distance after the iterations of the script; the last three have steps that shrink, or a bias."""


@pytest.mark.slow
def test_every_method_on_digits(tmp_path: Path) -> None:
    said = run("examples/digits.py", str(tmp_path / "figure.png"))
    found = {name: float(distance) for name, distance in re.findall(r"^(\w+) +distance (\S+), consensus", said, re.M)}
    assert {*found} == {*EXACT}
    assert [name for name, distance in found.items() if distance >= EXACT[name]] == []
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.ranks
def test_a_method_says_the_same_on_ranks(tmp_path: Path) -> None:
    words = ("examples/digits.py", str(tmp_path / "figure.png"), "deepca")
    assert run(*words, ranks=2) == run(*words)
