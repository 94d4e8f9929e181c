"""The trials of a study, in parallel processes, each row written as soon as all rows before it are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.flags import InputError
from ..cli.trials import results
from .table import Key, Row, Table, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Study:
    """What a study does."""

    name: str
    summary: str
    """One line of help."""
    key: tuple[str, ...]
    """The columns that name a trial."""
    columns: tuple[str, ...]
    """All columns, those of the key first."""
    trials: Callable[[bool, int], list[Trial]]
    """``trials(full, seed)``: all trials, in the order of the file."""
    run: Callable[[Trial], list[Row]]
    """The rows of a trial."""
    figure: Callable[[Rows], Figure]
    conclusions: Callable[[Rows], Iterator[str]]
    """The lines that are printed at the end."""
    rows_per_trial: int = 1
    workers: int | None = None
    """How many processes by default; None: one per processor."""

    def table(self, path: Path) -> Table:
        """Its file."""
        return Table(path, self.columns, self.key, self.rows_per_trial)


def sweep(study: Study, trials: Sequence[Trial], path: Path, *, workers: int, advance: Callable[[Trial], None]) -> Rows:
    """Make the trials that the file at ``path`` lacks, and return the rows of all.

    Parameters
    ----------
    workers
        Processes; 1 works in this one.
    advance
        Called after each trial, in their order.

    Raises
    ------
    InputError
        The file holds other trials, or is none of this study's.
    RuntimeError
        A trial failed; it is named.
    """
    table = study.table(path)
    names = [table.name(trial) for trial in trials]
    done = table.complete()
    if others := done.keys() - set(names):
        raise InputError(
            f"{path} holds {len(others)} trials that this study would not make, as {', '.join(min(others))} (another --seed?): "
            "choose another --out, or remove it"
        )
    table.replace(line for name in names for line in done.get(name, ()))
    missing = [(name, trial) for name, trial in zip(names, trials, strict=True) if name not in done]
    in_order = not done or names[: len(done)] == [name for name in names if name in done]
    made = results(study.run, [trial for _, trial in missing], workers, _words)
    for (name, trial), rows in zip(missing, made, strict=True):
        done[name] = _checked(table, name, rows)
        table.append(done[name])
        advance(trial)
    if not in_order:
        table.replace(line for name in names for line in done[name])
    return table.read()


def _checked(table: Table, name: Key, rows: Sequence[Row]) -> list[list[str]]:
    lines = table.lines(rows)
    if len(lines) != table.rows_per_trial or any(tuple(line[: len(name)]) != name for line in lines):
        raise RuntimeError(f"trial {', '.join(name)} gave {len(lines)} rows of its own, and should give {table.rows_per_trial}")
    return lines


def _words(trial: Trial) -> str:
    return ", ".join(f"{name} {value}" for name, value in trial.items())
