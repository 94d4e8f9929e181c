"""The trials of a study in parallel processes, and its CSV file, which always holds the rows of complete trials."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.flags import InputError

from ...compare.workers import results
from ...records.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Row = Mapping[str, Any]
Trial = Row
Key = tuple[str, ...]
_REPAIR = "choose another --out, or remove it"


@dataclass(frozen=True)
class Study:
    """A list of independent trials, with the figure and the conclusions from their rows."""

    name: str
    summary: str
    """The line of help."""
    key: Key
    """The columns that identify a trial."""
    measured: Key
    """The other columns."""
    trials: Callable[[bool, int], list[Trial]]
    """The function ``trials(full, seed)`` that gives all trials, in the order of the file."""
    run: Callable[[Trial], list[Row]]
    """The function that gives the rows of a trial."""
    figure: Callable[[DataFrame], Figure]
    conclusions: Callable[[DataFrame], Iterator[str]]
    """The function that gives the lines printed at the end."""

    @property
    def columns(self) -> Key:
        """All columns of the file."""
        return (*self.key, *self.measured)

    def named(self, trial: Trial) -> Key:
        """The key of a trial, as text."""
        return tuple(str(trial[column]) for column in self.key)

    def kept(self, path: Path) -> dict[Key, DataFrame]:
        """The rows of each trial that the file holds, as text; InputError for a file that is not of this study."""
        import pandas as pd

        if not path.exists():
            return {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # pandas warns of lines that are longer than the names
                rows = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False, on_bad_lines="error")
        except (OSError, ValueError, Warning) as error:
            raise InputError(f"cannot read {path}: {error}; {_REPAIR}") from None
        if tuple(rows.columns) != self.columns or (rows[list(self.key)] == "").any(axis=None):
            raise InputError(f"{path} has other columns than this study, or is damaged: {_REPAIR}")
        return dict(list(rows.groupby(list(self.key), sort=False)))


def sweep(study: Study, trials: Sequence[Trial], path: Path, *, workers: int, advance: Callable[[Trial], None]) -> DataFrame:
    """Run the trials that the file at ``path`` lacks, calling ``advance`` after each, in their order; return all rows.

    Raises InputError when the file holds other trials, or is not of this study; RuntimeError when a trial failed, with its name.
    """
    import pandas as pd

    names = [study.named(trial) for trial in trials]
    done = study.kept(path)
    if others := done.keys() - set(names):
        example = f"as {', '.join(min(others))} (another --seed?)"
        raise InputError(f"{path} holds {len(others)} trials that this study would not make, {example}: {_REPAIR}")
    missing = [trial for name, trial in zip(names, trials, strict=True) if name not in done]
    for trial, rows in zip(missing, results(study.run, missing, workers, describe), strict=True):
        done[study.named(trial)] = pd.DataFrame(rows, columns=study.columns, dtype=object)
        table = pd.concat([done[name] for name in names if name in done])
        with replacing(path) as file:
            table.to_csv(file, index=False, lineterminator="\n")
        advance(trial)
    return numbers(pd.concat(study.kept(path).values(), ignore_index=True))


def numbers(text: DataFrame) -> DataFrame:
    """The table whose columns of numbers are numbers, with every digit; an empty cell is NaN."""
    columns = {name: column.replace("", "nan") for name, column in text.items()}
    for name, column in columns.items():
        for kind in (int, float):
            with contextlib.suppress(ValueError):  # words stay words
                columns[name] = column.astype(kind)
                break
    return text.assign(**columns)


def describe(trial: Trial) -> str:
    """The names and values of a trial."""
    return ", ".join(f"{name} {value}" for name, value in trial.items())


def table(rows: DataFrame, columns: Sequence[str]) -> str:
    """A table of the given columns, floats with five digits."""
    text: str = rows[list(columns)].to_string(index=False, float_format="{:.5g}".format)
    return text
