"""Frames of pandas and polars as the agents' samples; neither library is imported here."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Sized
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from decentorth.data.row_checks import DROP, LEAVE_OUT
from decentorth.data.tables import Columns
from decentorth.protocols import Array


@runtime_checkable
class Frame(Sized, Protocol):
    """A frame of pandas or polars, from which a name takes a column."""

    columns: Any

    def __getitem__(self, name: Any, /) -> Any: ...


def split_frame(
    frame: Frame,
    by: str,
    columns: Sequence[str] = (),
    *,
    drop_missing: bool = False,
) -> dict[Hashable, Array]:
    """The samples of each agent in a frame of pandas or polars: an agent for each value of the
    column ``by``.

    Parameters
    ----------
    frame
        A ``pandas.DataFrame`` or ``polars.DataFrame``, a row for each sample.
    by
        The column that says to which agent a row belongs.
    columns
        The columns of the samples; by default all but ``by``.
    drop_missing
        Leave out the rows in which a value is missing.

    Returns
    -------
    dict
        For each value of ``by``, in sorted order, a float64 array ``(m_i, len(columns))``;
        ``list(parts.values())`` are the data of a problem.

    Raises
    ------
    ValueError, TypeError
        There is no such column, one does not hold real numbers, a value is missing or infinite, or
        no row is left.
    """
    known = list(frame.columns)
    chosen = [name for name in known if name != by] if not columns else list(columns)
    for name in (by, *chosen):
        if name not in known:
            listed = ", ".join(map(str, known))
            raise ValueError(f"the frame lacks the column {name!r}: its columns are {listed}")
    values = _numbers(frame, chosen)
    agents = frame[by].to_numpy()
    missing = np.isnan(values).any(-1) | _missing(agents)
    infinite = np.isinf(values).any(-1) & ~missing
    for rows, what, cure in (
        (missing & (not drop_missing), "a missing", ": drop_missing=True"),
        (infinite, "an infinite", f". {LEAVE_OUT}"),
    ):
        if rows.any():
            raise ValueError(
                f"{int(rows.sum())} rows have {what} value, the first is row {rows.argmax()} "
                f"(counted from 0){cure}"
            )
    if missing.all():
        raise ValueError("the frame holds no rows without missing values")
    agents = agents[~missing]
    values = values[~missing]
    names, owner = np.unique(agents, return_inverse=True)
    parts = [np.ascontiguousarray(values[owner == number]) for number in range(len(names))]
    return dict(zip(names.tolist(), parts, strict=True))


def frame_rows(site: str, frame: Frame, columns: Columns) -> Array:
    """``(m_i, d)``: the samples of a site in the columns of a frame; a ValueError or TypeError
    names site, row label and column."""
    names = {str(name): name for name in frame.columns}
    try:
        chosen = [names[name] for name in columns.samples]
        values = _numbers(frame, chosen, "leave it out, exclude=({!r},)")
    except TypeError as error:
        raise TypeError(f"{site}: {error}") from None
    labels = np.array(getattr(frame, "index", range(len(values))), dtype=object)
    missing = np.array(np.isnan(values).any(-1))
    if columns.label is not None:
        missing |= _missing(frame[names[columns.label]].to_numpy())
    if columns.drop_missing:
        values = values[~missing]
        labels = labels[~missing]
    bad = np.argwhere(np.isinf(values) if columns.keep_missing else ~np.isfinite(values))
    if bad.size:
        row, column = bad[0].tolist()
        raise ValueError(
            f"{site}: row {labels[row]}, column {columns.samples[column]!r} is "
            f"{values[row, column]}. {DROP}"
        )
    if not len(values):
        raise ValueError(f"{site} holds no rows{' without a missing value' * columns.drop_missing}")
    return values


def _numbers(frame: Frame, names: Sequence[Any], cure: str = "choose those of numbers") -> Array:
    """``(m, len(names))``: columns as numbers, NaN where a value is missing; a TypeError names one
    of another kind and its cure."""
    values = np.empty((len(frame), len(names)))
    for place, name in enumerate(names):
        column = frame[name].to_numpy()
        wrong = f"column {name!r} must hold real numbers"
        if column.dtype.kind not in "fiubO":
            raise TypeError(f"{wrong}, got dtype {column.dtype}: {cure.format(name)}")
        if column.dtype.kind == "O":
            column = np.where(_missing(column), np.nan, column)
            if any(isinstance(cell, str) for cell in column):  # NumPy reads the numbers in texts
                raise TypeError(f"{wrong}: {cure.format(name)}")
        try:
            values[:, place] = column
        except (TypeError, ValueError):
            raise TypeError(f"{wrong}: {cure.format(name)}") from None
    return values


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """True for each missing cell of a frame's column: None, and NaN, NaT and pandas.NA, which do
    not equal themselves."""
    same = [cell is not None and cell == cell for cell in column]
    return np.array(
        [type(known) not in (bool, np.bool_) or not known for known in same], dtype=bool
    )
