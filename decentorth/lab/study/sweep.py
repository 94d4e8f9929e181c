"""The trials of a study in parallel processes, and its CSV file, which always holds the rows of
complete trials."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.line.flags import InputError
from topologies.line.later import pandas as pd

from ...records.run_files import replacing
from ..compare.workers import results

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Row = Mapping[str, Any]
Trial = Row
Key = tuple[str, ...]
_REPAIR = "choose another --out, or remove it"
_OTHER = f"other columns than this study, or is damaged: {_REPAIR}"


@dataclass(frozen=True)
class Study:
    """A list of independent trials, with the figure and the conclusions from their rows."""

    name: str
    summary: str
    """The line of help."""
    trials: Callable[[bool, int], list[Trial]]
    """The function ``trials(full, seed)`` that gives all trials, in the order of the file."""
    run: Callable[[Trial], list[Row]]
    """The function that gives the rows of a trial."""
    figure: Callable[[DataFrame], Figure]
    conclusions: Callable[[DataFrame], Iterator[str]]
    """The function that gives the lines printed at the end."""


def named(trial: Trial) -> Key:
    """The key of a trial, as text."""
    return tuple(map(str, trial.values()))


def grid(**axes: Iterable[object]) -> list[Trial]:
    """The trials of all combinations of the values of each name; the last name changes first."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def kept(path: Path, key: list[str]) -> dict[Key, DataFrame]:
    """The rows of each trial in a file, as text; InputError for a file without the columns ``key``
    of trials."""
    if not path.exists():
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas warns of lines that are longer than the names
            rows = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
    except (OSError, ValueError, Warning) as error:
        raise InputError(f"cannot read {path}: {error}; {_REPAIR}") from None
    if [*rows][: len(key)] != key or (rows[key] == "").any(axis=None):
        raise InputError(f"{path} has {_OTHER}")
    return dict(list(rows.groupby(key, sort=False)))


Advance = Callable[[Trial], None]


def sweep(
    study: Study, trials: Sequence[Trial], path: Path, workers: int, advance: Advance
) -> DataFrame:
    """Run the trials that the file at ``path`` lacks, calling ``advance`` after each, in their
    order; return all rows.

    Raises InputError when the file holds other trials, or is not of this study; RuntimeError when a
    trial failed, with its name.
    """
    names = [named(trial) for trial in trials]
    done = kept(path, list(trials[0]))
    if others := done.keys() - set(names):
        raise InputError(
            f"{path} holds {len(others)} trials that this study would not make, as "
            f"{', '.join(min(others))} (another --seed?): {_REPAIR}"
        )
    missing = [trial for name, trial in zip(names, trials, strict=True) if name not in done]
    for trial, rows in zip(missing, results(study.run, missing, workers, describe), strict=True):
        done[named(trial)] = pd.DataFrame(rows, dtype=object)
        if len({tuple(one) for one in done.values()}) > 1:
            raise InputError(f"{path} has {_OTHER}")
        table = pd.concat([done[name] for name in names if name in done])
        with replacing(path) as file:
            table.to_csv(file, index=False, lineterminator="\n")
        advance(trial)
    found: DataFrame = pd.read_csv(path, engine="python")
    return found


def describe(trial: Trial) -> str:
    """The names and values of a trial."""
    return ", ".join(f"{name} {value}" for name, value in trial.items())


def table(rows: DataFrame, columns: Sequence[str]) -> str:
    """A table of the given columns, floats with five digits."""
    text: str = rows[list(columns)].to_string(index=False, float_format="{:.5g}".format)
    return text
