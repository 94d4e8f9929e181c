"""The history of a run: a table with one typed column per count and metric, bounded in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .protocols import Row

COUNTS = ("iteration", "rounds", "messages", "bytes", "gradients")
"""The integer columns; ``seconds`` and the metrics are float64."""
LIMIT = 20_000
"""The largest number of rows that a history keeps."""


class History(Mapping[str, NDArray[Any]]):
    """The recorded rows of a run, as a mapping from names to NumPy columns: ``history["gradient_norm"]``.

    Parameters
    ----------
    limit
        The largest number of rows in memory; beyond it every second row (but the first and the last) is dropped. A history file
        keeps all.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._rows: list[Row] = []

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
        if name in COUNTS:
            return np.array([getattr(row, name) for row in self._rows], dtype=np.int64)
        if name == "seconds":
            return np.array([row.seconds for row in self._rows], dtype=np.float64)
        if not self._rows or name not in self._rows[0].values:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return np.array([row.values[name] for row in self._rows], dtype=np.float64)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """The number of columns, as of any mapping; ``len(history.rows)`` is the number of rows."""
        return len(self.columns)

    def to_pandas(self) -> Any:
        """A pandas DataFrame.

        Raises
        ------
        ModuleNotFoundError
            pandas is not installed.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "to_pandas needs pandas: pip install pandas. dict(history) gives the columns without it"
            ) from error
        return pd.DataFrame(dict(self))
