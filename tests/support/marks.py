"""Which values of a parameter are tried in the quick part of the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_is_quick(values: Iterable[Any]) -> list[Any]:
    """The values of one parameter, all but the first marked as slow."""
    return first_row_is_quick((value,) for value in values)


def first_row_is_quick(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The values of several parameters, all rows but the first marked as slow."""
    return [
        pytest.param(*row, marks=[pytest.mark.slow] if number else [])
        for number, row in enumerate(rows)
    ]
