"""The list of slow tests names tests that there are."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_the_list_of_slow_tests_names_tests_that_there_are() -> None:
    for line in (line for line in (TESTS / "slow.txt").read_text().splitlines() if not line.startswith("#")):
        path, *_, name = line.partition("[")[0].split("::")
        assert f"def {name}(" in (TESTS.parent / path).read_text(), line
