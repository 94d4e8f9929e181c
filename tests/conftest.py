"""What every test may count on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RANKS = ("mpi", "doctor", "launch", "test_readme.py", "test_examples.py")
"""Files and folders that start ranks all the time."""

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to it, and so would be our children


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Jobs of ranks come last and, where tests run on several cores, take turns: ranks that wait keep every core busy."""

    def ranked(item: pytest.Item) -> bool:
        return item.path.relative_to(TESTS).parts[0] in RANKS

    items.sort(key=ranked)
    for item in items:
        item.add_marker(pytest.mark.xdist_group("ranks" if ranked(item) else str(item.path)))
