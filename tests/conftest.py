"""What every test may count on, and what keeps the collection of ten thousand tests short."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# read by NumPy; threads of as many processes as cores would wait busily
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# a shell starts background jobs deaf to it, and so would be our children
signal.signal(signal.SIGINT, signal.default_int_handler)
# the same examples everywhere, however busy the machine is
settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")
# until the tests are collected, which leaves no garbage, only objects for the garbage collector to
# look through
gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files that do not contain the marker unread where only tests with ranks are asked
    for."""
    only_ranks = str(config.getoption("markexpr")) in ("ranks and not slow", "slow and ranks")
    return (
        True
        if only_ranks
        and collection_path.suffix == ".py"
        and "mark.ranks" not in collection_path.read_text()
        else None
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that ``slow_cases`` names as slow, and refuse a test with ranks in a file that
    does not contain the marker."""
    for item in items:
        cases = item.get_closest_marker("slow_cases")
        if cases is not None and item.name.partition("[")[2].removesuffix("]") in cases.args:
            item.add_marker(pytest.mark.slow)
    for path in {item.path for item in items if item.get_closest_marker("ranks")}:
        assert "mark.ranks" in path.read_text(), (
            f"{path} must mark its tests by pytest.mark.ranks itself"
        )


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later garbage collection."""
    gc.freeze()
    gc.enable()
