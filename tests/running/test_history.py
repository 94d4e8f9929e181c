"""The table of a run."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from decentorth.protocols import Row
from decentorth.running.history import COUNTS, History


def row(k: int) -> Row:
    return Row(k, 2 * k, 3 * k, 4 * k, 5 * k, 0.5 * k, {"objective": -1.0 * k, "error": 1.0 / (k + 1)})


def recorded(number: int, limit: int = 20_000) -> History:
    history = History(limit)
    for k in range(number):
        history.record(row(k))
    return history


def test_columns_are_what_was_recorded() -> None:
    history = recorded(5)
    assert list(history) == [*COUNTS, "seconds", "objective", "error"]
    assert len(history) == 8
    for factor, name in enumerate(COUNTS, start=1):
        np.testing.assert_array_equal(history[name], factor * np.arange(5), strict=True)
        assert history[name].dtype == np.int64
    for name, expected in (("seconds", 0.5 * np.arange(5)), ("objective", -np.arange(5.0)), ("error", 1 / np.arange(1.0, 6.0))):
        np.testing.assert_array_equal(history[name], expected, strict=True)
    assert history.rows == tuple(row(k) for k in range(5))
    assert ("objective" in history, "gradient_norm" in history) == (True, False)
    empty = History()
    assert list(empty) == [*COUNTS, "seconds"]
    assert (empty["iteration"].shape, empty["iteration"].dtype, empty["seconds"].dtype) == ((0,), np.int64, np.float64)


def test_an_unknown_column_is_told_with_the_known() -> None:
    with pytest.raises(KeyError, match=r"no column 'gradient'; there are iteration, rounds, .*, seconds, objective, error"):
        recorded(1)["gradient"]


@pytest.mark.parametrize("limit", [2, 3, 7, 100])
def test_memory_is_bounded(limit: int) -> None:
    """First and last stay, the rest is a subsequence that reaches over the whole run."""
    history = History(limit)
    for k in range(500):
        history.record(row(k))
        rows = history["iteration"].tolist()
        assert len(rows) <= max(limit, 3)
        assert (rows[0], rows[-1]) == (0, k)
        assert rows == (list(range(k + 1)) if k < limit else sorted(set(rows)))


def test_as_a_data_frame() -> None:
    history = recorded(9, limit=6)
    for frame in (pd.DataFrame(history), history.to_pandas(), pd.DataFrame(dict(history))):
        assert frame.shape == (len(history.rows), 8)
        for name, column in history.items():
            np.testing.assert_array_equal(frame[name], column, strict=False)
            assert frame[name].dtype == column.dtype


def test_a_copy_has_the_same_columns() -> None:
    history = recorded(5)
    for copy in (pickle.loads(pickle.dumps(history)), history.before(5), {**history}, history | {}):
        for name, column in history.items():
            np.testing.assert_array_equal(copy[name], column, strict=True)
    assert history.before(2)["iteration"].tolist() == [0, 1]
