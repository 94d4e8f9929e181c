"""The history of a run: the iterations to record, and a table with one typed column per count and
metric, bounded in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display import Shown
from ..protocols import Index, Row

Column = NDArray[Any]
"""An array of integers or of floats."""
Columns = Mapping[str, Column]
"""The columns of a history by name."""
COUNTS = ("iteration", "rounds", "messages", "bytes", "gradients")
"""The integer columns; ``seconds`` and the metrics are float64."""
LIMIT = 20_000
"""The largest number of rows that a history keeps."""


class History(Shown, dict[str, Column]):
    """The recorded rows of a run, as a dict of NumPy columns: ``history["gradient_norm"]``,
    ``pandas.DataFrame(history)``.

    Parameters
    ----------
    limit
        The largest number of rows in memory; beyond it every second row (but the first and the
        last) is dropped. A history file keeps all.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._rows: list[Row] = []
        self._room: dict[str, Column] = {}
        self._fill()

    def _facts(self) -> Mapping[str, object]:
        if not self._rows:
            return {"rows": 0}
        first = self._rows[0]
        last = self._rows[-1]
        values = first.values.items()
        spans = {name: f"{value:.3g} to {last.values[name]:.3g}" for name, value in values}
        iterations = f"{first.iteration} to {last.iteration}"
        return {"rows": len(self._rows), "iterations": iterations, **spans}

    def __repr__(self) -> str:
        facts = self._facts()
        return (
            f"History({facts['rows']} rows of iterations {facts.get('iterations', 'none')}: "
            f"{', '.join(self.columns)})"
        )

    def record(self, row: Row) -> None:
        """Append a row."""
        if len(self._rows) >= self._limit:
            self._rows = self._rows[:-1:2] + self._rows[-1:]
            self._fill()
        self._rows.append(row)
        last = len(self._rows)
        if last > len(self._room["seconds"]) or last == 1:
            self._fill()
            return
        for name, value in row.columns().items():
            self._room[name][last - 1] = value
            self[name] = self._room[name][:last]

    def _fill(self) -> None:
        """Write all rows into new columns, with room for as many more."""
        last = len(self._rows)
        columns: dict[str, Any] = dict.fromkeys((*COUNTS, "seconds"), ())
        if self._rows:
            rows = [tuple(row.columns().values()) for row in self._rows]
            columns = dict(zip(self._rows[0].columns(), zip(*rows, strict=True), strict=True))
        for name, cells in columns.items():
            room = np.empty(2 * last + 1, np.int64 if name in COUNTS else np.float64)
            room[:last] = cells
            self._room[name], self[name] = room, room[:last]

    def before(self, k: int) -> History:
        """A history of the rows of iterations before ``k``."""
        cut = History(self._limit)
        cut._rows = [row for row in self._rows if row.iteration < k]
        cut._fill()
        return cut

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in order."""
        return tuple(self._rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(self)

    def __missing__(self, name: str) -> Column:
        raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``; needs pandas."""
        import pandas

        return pandas.DataFrame(dict(self))


def schedule(iterations: int, rows: int | None, every: int | None, apart: int = 1) -> Iterator[int]:
    """The iterations to record, ascending: log-spaced, about ``rows`` of them, or every
    ``every``-th; always 0 and the last.

    By default 200 rows, but no more than one in five iterations (20 rows at least), so that
    measuring does not outweigh the work; and at least ``apart`` iterations between two of them.
    """
    if rows is None and every is None and apart > 1:
        last = 0
        for k in schedule(iterations, None, None):
            if k in (0, iterations) or k >= last + apart:
                yield k
                last = k
        return
    wanted = rows or min(200, max(20, iterations // 5))
    if every is None:
        between: Iterable[int] = _log_spaced(iterations, wanted - 2)
    else:
        between = range(every, iterations, every)
    yield 0
    yield from (k for k in between if k < iterations)
    if iterations > 0:
        yield iterations


def _log_spaced(last: int, number: int) -> list[int]:
    """About ``number`` distinct integers from 1 to ``last``, log-spaced as far as integers
    allow."""

    def spaced(points: int) -> Index:
        return np.unique(np.geomspace(1, last, points).round().astype(np.int64))

    if last <= number:
        return list(range(1, last + 1))
    # small integers coincide, so more points are needed
    more = bisect_left(range(number, 64 * number), number, key=lambda points: len(spaced(points)))
    found: list[int] = spaced(number + more).tolist()
    return found
