"""The trials of a study in parallel processes, and its CSV file, which always holds the rows of complete trials."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.flags import InputError
from ..cli.outputs import cell, csv_text, replacing
from ..cli.saved_runs import text_lines
from ..cli.trials import results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
Trial = Row
Rows = Sequence[Row]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """A list of independent trials, with the figure and the conclusions from their rows."""

    name: str
    summary: str
    """The line of help."""
    key: tuple[str, ...]
    """The columns that identify a trial."""
    measured: tuple[str, ...]
    """The other columns."""
    trials: Callable[[bool, int], list[Trial]]
    """The function ``trials(full, seed)`` that gives all trials, in the order of the file."""
    run: Callable[[Trial], list[Row]]
    """The function that gives the rows of a trial."""
    figure: Callable[[Rows], Figure]
    conclusions: Callable[[Rows], Iterator[str]]
    """The function that gives the lines printed at the end."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the file."""
        return (*self.key, *self.measured)

    def named(self, row: Row) -> Key:
        """The key of a trial or of one of its rows, as in the file."""
        return tuple(cell(row[column]) for column in self.key)

    def kept(self, path: Path) -> dict[Key, list[Row]]:
        """The rows of each trial that the file holds, numbers as numbers; InputError for a file that is not of this study."""
        if not path.exists():
            return {}
        try:
            lines = list(csv.reader(text_lines(path)))
        except (OSError, ValueError, csv.Error) as error:
            raise InputError(f"cannot read {path}: {error}; choose another --out, or remove it") from None
        if not lines or tuple(lines[0]) != self.columns or any(len(line) != len(self.columns) for line in lines):
            raise InputError(f"{path} has other columns than this study, or is damaged: choose another --out, or remove it")
        found: dict[Key, list[Row]] = {}
        for line in lines[1:]:
            found.setdefault(tuple(line[: len(self.key)]), []).append(dict(zip(self.columns, map(_read, line), strict=True)))
        return found


def _read(text: str) -> str | int | float:
    """The value of a cell; NaN for an empty one."""
    for kind in (int, float):
        try:
            return kind(text or "nan")
        except ValueError:
            continue
    return text


def sweep(study: Study, trials: Sequence[Trial], path: Path, *, workers: int, advance: Callable[[Trial], None]) -> Rows:
    """Run the trials that the file at ``path`` lacks, calling ``advance`` after each, in their order; return all rows.

    Raises InputError when the file holds other trials, or is not of this study; RuntimeError when a trial failed, with its name.
    """
    names = [study.named(trial) for trial in trials]
    done: dict[Key, Rows] = {**study.kept(path)}
    if others := done.keys() - set(names):
        raise InputError(
            f"{path} holds {len(others)} trials that this study would not make, as {', '.join(min(others))} (another --seed?): "
            "choose another --out, or remove it"
        )
    missing = [(name, trial) for name, trial in zip(names, trials, strict=True) if name not in done]
    made = results(study.run, [trial for _, trial in missing], workers, _words)
    for (name, trial), rows in zip(missing, made, strict=True):
        done[name] = rows
        text = csv_text((row for name in names for row in done.get(name, ())), study.columns)
        with replacing(path) as file:
            file.write(text.encode())
        advance(trial)
    return [row for rows in study.kept(path).values() for row in rows]


def where(rows: Rows, **wanted: Any) -> Rows:
    """The rows with the values ``wanted``."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def table(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[str]:
    """The lines of a table of the given columns, floats with five digits."""
    cells = [list(columns)]
    cells += [[f"{row[name]:.5g}" if isinstance(row[name], float) else str(row[name]) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))


def _words(trial: Trial) -> str:
    return ", ".join(f"{name} {value}" for name, value in trial.items())
