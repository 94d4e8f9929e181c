"""The history of a run: the iterations to record, and a table with one typed column per count and metric, bounded in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display import Shown
from ..protocols import Index, Row

COUNTS = ("iteration", "rounds", "messages", "bytes", "gradients")
"""The integer columns; ``seconds`` and the metrics are float64."""
LIMIT = 20_000
"""The largest number of rows that a history keeps."""


class History(Shown, Mapping[str, NDArray[Any]]):
    """The recorded rows of a run, as a mapping from names to NumPy columns: ``history["gradient_norm"]``; ``dict(history)`` is what
    `pandas.DataFrame` takes, and `Result.to_pandas` makes.

    Parameters
    ----------
    limit
        The largest number of rows in memory; beyond it every second row (but the first and the last) is dropped. A history file
        keeps all.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._rows: list[Row] = []

    def _facts(self) -> Mapping[str, object]:
        ends = [self._rows[0], self._rows[-1]] if self._rows else []
        spans = {name: " to ".join(f"{row.values[name]:.3g}" for row in ends) for name in (ends[0].values if ends else ())}
        iterations = " to ".join(str(row.iteration) for row in ends)
        return {"rows": len(self._rows), **({"iterations": iterations} if ends else {}), **spans}

    def __repr__(self) -> str:
        facts = self._facts()
        return f"History({facts['rows']} rows of iterations {facts.get('iterations', 'none')}: {', '.join(self.columns)})"

    def record(self, row: Row) -> None:
        """Append a row."""
        if len(self._rows) >= self._limit:
            self._rows = self._rows[:-1:2] + self._rows[-1:]
        self._rows.append(row)

    def before(self, k: int) -> History:
        """A history of the rows of iterations before ``k``."""
        cut = History(self._limit)
        cut._rows = [row for row in self._rows if row.iteration < k]
        return cut

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in order."""
        return tuple(self._rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*COUNTS, "seconds", *(self._rows[0].values if self._rows else ()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        if name in COUNTS:
            return np.array([getattr(row, name) for row in self._rows], dtype=np.int64)
        return np.array([row.seconds if name == "seconds" else row.values[name] for row in self._rows], dtype=np.float64)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """The number of columns, as of any mapping; ``len(history.rows)`` is the number of rows."""
        return len(self.columns)


def schedule(iterations: int, rows: int | None, every: int | None) -> Iterator[int]:
    """The iterations to record, ascending: log-spaced, about ``rows`` of them, or every ``every``-th; always 0 and the last.

    By default 200 rows, but no more than one in five iterations (20 rows at least), so that measuring does not outweigh the work.
    """
    if every is not None:
        between: Iterable[int] = range(every, iterations, every)
    else:
        between = _log_spaced(iterations, (min(200, max(20, iterations // 5)) if rows is None else rows) - 2)
    yield 0
    yield from (k for k in between if k < iterations)
    if iterations > 0:
        yield iterations


def _log_spaced(last: int, number: int) -> list[int]:
    """About ``number`` distinct integers from 1 to ``last``, log-spaced as far as integers allow."""

    def spaced(points: int) -> Index:
        return np.unique(np.geomspace(1, last, points).round().astype(np.int64))

    if last <= number:
        return list(range(1, last + 1))
    more = bisect_left(range(number, 64 * number), number, key=lambda points: len(spaced(points)))  # small ones coincide
    found: list[int] = spaced(number + more).tolist()
    return found
