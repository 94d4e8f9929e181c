"""The notebooks of the gallery reach what their text says."""

from __future__ import annotations

import re

import pytest

from tests.support.examples import run

pytestmark = pytest.mark.slow


def numbers(expression: str, text: str) -> list[float]:
    return [float(one) for one in re.findall(expression, text)]


def test_four_sites_find_the_pooled_components_and_a_site_alone_does_not() -> None:
    for library in ("sklearn", "pandas", "matplotlib"):
        pytest.importorskip(library)
    said = run("examples/notebooks/components_of_sites.py")
    alone, together = numbers(r"alone: +(\S+) degrees", said), numbers(r"others: +(\S+) degrees", said)
    assert len(alone) == len(together) == 4
    assert min(alone) > 45.0
    assert max(together) < 1e-4


def test_independent_sources_are_found_by_all_rooms() -> None:
    for library in ("jax", "matplotlib"):
        pytest.importorskip(library)
    said = run("examples/notebooks/objective_in_jax.py")
    (part,), (whole,) = numbers(r"one room: +(\S+)", said), numbers(r"together: +(\S+)", said)
    assert part < 0.95 < 0.99 < whole


def test_the_comparison_has_the_order_that_its_text_explains() -> None:
    pytest.importorskip("matplotlib")
    said = run("examples/notebooks/fair_comparison.py")
    iterations, sent = {}, {}
    for name in ("drfgt", "rfextra", "deepca"):
        (iterations[name],) = numbers(rf"{name} +1e-06 .*? (\S+) iterations", said)
        (sent[name],) = numbers(rf"{name} +1e-06 .*? (\S+) MB", said)
    assert iterations["deepca"] < iterations["rfextra"]
    assert sent["deepca"] < sent["rfextra"] < sent["drfgt"]
