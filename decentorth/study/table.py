"""A study's CSV file: one row per measurement, the first columns the names of its trial."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..cli.flags import InputError

Value = str | int | float | None
Trial = Mapping[str, Value]
Row = Mapping[str, Value]
Key = tuple[str, ...]


def cell(value: Value) -> str:
    """A value as it is written: floats with all their digits, nothing for None and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def read_cell(text: str) -> str | int | float:
    """What `cell` wrote; NaN for nothing."""
    if not text:
        return math.nan
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class Table:
    """The file of a study.

    Parameters
    ----------
    path
        Where it is.
    columns
        Names of all columns.
    key
        Those that name a trial; they come first.
    rows_per_trial
        How many rows a complete trial has.
    """

    def __init__(self, path: Path, columns: Sequence[str], key: Sequence[str], rows_per_trial: int) -> None:
        self.path = path
        self.columns = tuple(columns)
        self.key = tuple(key)
        self.rows_per_trial = rows_per_trial

    def name(self, trial: Trial) -> Key:
        """What a trial is called in the file."""
        return tuple(cell(trial[column]) for column in self.key)

    def complete(self) -> dict[Key, list[list[str]]]:
        """The rows of each trial that is there as a whole; a line that was cut short and trials without all rows are left out.

        Raises
        ------
        InputError
            The file cannot be read, or is not one of this study.
        """
        if not self.path.exists():
            return {}
        try:
            text = self.path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {self.path}: {error}") from None
        lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
        if not lines:
            return {}
        if tuple(lines[0]) != self.columns:
            raise InputError(f"{self.path} has other columns than this study: choose another --out, or remove it")
        found: dict[Key, list[list[str]]] = {}
        for line in lines[1:]:
            if len(line) == len(self.columns):
                found.setdefault(tuple(line[: len(self.key)]), []).append(line)
        return {key: rows for key, rows in found.items() if len(rows) == self.rows_per_trial}

    def lines(self, rows: Iterable[Row]) -> list[list[str]]:
        """Rows as they are written."""
        return [[cell(row[column]) for column in self.columns] for row in rows]

    def replace(self, lines: Iterable[Sequence[str]]) -> None:
        """Write the whole file, under a temporary name first."""
        beside = self.path.with_name(self.path.name + ".new")
        with beside.open("w", newline="") as file:
            write = csv.writer(file, lineterminator="\n")
            write.writerow(self.columns)
            write.writerows(lines)
        os.replace(beside, self.path)

    def append(self, lines: Iterable[Sequence[str]]) -> None:
        """Add rows at the end, in one write."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        with self.path.open("a", newline="") as file:
            file.write(text.getvalue())

    def read(self) -> list[dict[str, str | int | float]]:
        """All rows of complete trials, numbers as numbers."""
        return [dict(zip(self.columns, map(read_cell, line), strict=True)) for lines in self.complete().values() for line in lines]
