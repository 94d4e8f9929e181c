"""Recorders that write the rows of a run for other tools: TensorBoard, MLflow, Parquet (the extras ``record`` and ``tables``).

    with do.recorders.Parquet("rows.parquet") as rows:
        do.solve(problem, do.DRFGT(), W, recorders=[rows])

Each is given to ``solve`` on every rank and writes on rank 0 alone; it begins at the first row and changes no bit of the run.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from .protocols import Row

_COUNTS = ("rounds", "messages", "bytes", "gradients", "seconds")


def _columns(row: Row) -> dict[str, float]:
    """The counts, the seconds and the metrics of a row, by name."""
    return {**{name: getattr(row, name) for name in _COUNTS}, **row.values}


class FileRecorder(ABC):
    """A recorder that is closed when its ``with`` ends (`protocols.Recorder`).

    Raises
    ------
    ModuleNotFoundError
        The library that writes is not installed.
    """

    library: str
    extra: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if importlib.util.find_spec(self.library) is None:
            repair = f'pip install "decentorth[{self.extra}]"'
            raise ModuleNotFoundError(f"{type(self).__name__} needs {self.library}: {repair}", name=self.library)

    @abstractmethod
    def record(self, row: Row) -> None:
        """Write a row, or keep it until the end."""

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """Write the rows that are left after a loss of ranks again."""
        for row in rows:
            self.record(row)

    @abstractmethod
    def close(self) -> None:
        """Finish the file, if there has been a row."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TensorBoard(FileRecorder):
    """Event files in the folder ``path``, a scalar for each column; ``tensorboard --logdir`` shows them."""

    library, extra = "tensorboardX", "record"
    _writer: Any = None

    def record(self, row: Row) -> None:
        from tensorboardX import SummaryWriter

        self._writer = self._writer or SummaryWriter(self.path)
        for name, value in _columns(row).items():
            self._writer.add_scalar(name, value, row.iteration)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class MLflow(FileRecorder):
    """A run in an MLflow store: a folder, or the address of a server; its experiment is ``decentorth``."""

    library, extra = "mlflow", "record"
    _run = ""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._client: Any = None

    def _begin(self) -> None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions ask for it
        from mlflow import MlflowClient

        self._client = MlflowClient(self.path if "://" in self.path else Path(self.path).resolve().as_uri())
        known = self._client.get_experiment_by_name("decentorth")
        experiment = known.experiment_id if known else self._client.create_experiment("decentorth")
        self._run = self._client.create_run(experiment).info.run_id

    def record(self, row: Row) -> None:
        from mlflow.entities import Metric

        if self._client is None:
            self._begin()
        now = int(1000 * time.time())
        self._client.log_batch(self._run, [Metric(name, value, now, row.iteration) for name, value in _columns(row).items()])

    def close(self) -> None:
        if self._client is not None:
            self._client.set_terminated(self._run)


class Parquet(FileRecorder):
    """A Parquet file with the columns of ``history.csv``, written at the end."""

    library, extra = "pyarrow", "tables"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._rows: list[Mapping[str, float]] = []

    def record(self, row: Row) -> None:
        self._rows.append({"iteration": row.iteration, **_columns(row)})

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        self._rows.clear()
        super().rewound(rows, lost)

    def close(self) -> None:
        if self._rows:
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.table({name: [row[name] for row in self._rows] for name in self._rows[0]}), self.path)


KINDS: Mapping[str, type[FileRecorder]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "parquet": Parquet}
"""The recorders by their names on the command line."""


def recorder(place: str) -> FileRecorder:
    """The recorder that ``place`` names, as "parquet:rows.parquet".

    Raises
    ------
    ValueError
        There is no such name, or nothing behind it.
    """
    name, _, path = place.partition(":")
    if name not in KINDS or not path:
        raise ValueError(f"record must be one of {', '.join(f'{kind}:PATH' for kind in KINDS)}, got {place!r}")
    return KINDS[name](path)
