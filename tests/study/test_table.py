"""The file of a study: what is written is read again, and what was cut short is not believed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentorth.cli.flags import InputError
from decentorth.study.table import Table, cell, read_cell

COLUMNS = ("name", "n", "k", "value")


def table(folder: Path) -> Table:
    return Table(folder / "study.csv", COLUMNS, COLUMNS[:2], 2)


def filled(folder: Path) -> Table:
    own = table(folder)
    own.replace([])
    for name in ("a", "b"):
        own.append(own.lines([{"name": name, "n": 3, "k": k, "value": k / 7.0} for k in range(2)]))
    return own


@given(st.floats(allow_nan=False) | st.integers())
def test_numbers_keep_every_digit_and_their_kind(value: float | int) -> None:
    again = read_cell(cell(value))
    assert again == value
    assert type(again) is type(value)


def test_nothing_is_read_as_not_a_number() -> None:
    assert cell(None) == cell(math.nan) == ""
    assert math.isnan(float(read_cell("")))
    assert read_cell("torus") == "torus"


def test_rows_come_back(tmp_path: Path) -> None:
    expected = [{"name": name, "n": 3, "k": k, "value": k / 7.0} for name in ("a", "b") for k in range(2)]
    assert filled(tmp_path).read() == expected


def test_every_truncation_leaves_only_whole_trials(tmp_path: Path) -> None:
    own = filled(tmp_path)
    whole = own.path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        own.path.write_bytes(whole[:cut])
        complete = (cut >= ends[2]) + (cut >= ends[4])
        assert [key[0] for key in own.complete()] == ["a", "b"][:complete]


def test_a_file_of_another_study_is_refused(tmp_path: Path) -> None:
    own = table(tmp_path)
    own.path.write_text("something,else\n1,2\n")
    with pytest.raises(InputError, match="has other columns than this study"):
        own.complete()
    own.path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(InputError, match="cannot read"):
        own.complete()
