"""Recorders that write the rows of a run for other tools: TensorBoard, MLflow, Parquet (the extras
``record`` and ``tables``).

    with do.recorders.Parquet("rows.parquet") as rows:
        do.solve(problem, do.DRFGT(), W, recorders=[rows])

Each is given to ``solve`` on every rank and writes on rank 0 alone; it begins at the first row and
changes no bit of the run.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ..protocols import Row

__all__ = ["FileRecorder", "MLflow", "Parquet", "TensorBoard", "recorder"]
_MARK = b"decentorth"
"""The key in a Parquet file's metadata by which the recorder knows its own file."""


def _check_folder(path: Path) -> None:
    """Raise a ValueError unless the folder takes new files, or can be made."""
    whole = path.absolute()
    _check_writable(next(place for place in (whole, *whole.parents) if os.path.lexists(place)))


def _check_writable(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"cannot write into {folder}: {error.strerror}") from None


def _values(row: Row) -> list[tuple[str, float]]:
    """The columns of a row after its iteration, by name."""
    return list(row.columns().items())[1:]


class FileRecorder(ABC):
    """A recorder to a file, closed at the end of its ``with`` block (`protocols.Recorder`).

    Raises
    ------
    ModuleNotFoundError
        The library that writes is not installed.

    Examples
    --------
    >>> from decentorth.lab.recorders import FileRecorder, Parquet
    >>> issubclass(Parquet, FileRecorder)
    True
    """

    library: str
    distribution: str
    """The name of the library for pip."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        package = self.library.partition(".")[0]
        if importlib.util.find_spec(package) is None:
            name = type(self).__name__
            raise ModuleNotFoundError(
                f"{name} needs {package}: pip install {self.distribution}", name=package
            )

    @cached_property
    def _library(self) -> Any:
        """The library, which is imported when it is first used."""
        return importlib.import_module(self.library)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """A copy in another process is a recorder for the same path that has written nothing."""
        return type(self), (self.path,)

    @abstractmethod
    def check(self) -> None:
        """Raise an exception, such as an OSError or a ValueError, unless the rows can be written to
        the path."""

    @abstractmethod
    def record(self, row: Row) -> None:
        """Write a row, or keep it until the end."""

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """Write the rows that are left after a loss of ranks again."""
        for row in rows:
            self.record(row)

    @abstractmethod
    def close(self) -> None:
        """Finish the file, if any row was recorded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TensorBoard(FileRecorder):
    """Event files in the folder ``path``, a scalar for each column; ``tensorboard --logdir`` shows
    them.

    Examples
    --------
    >>> import decentorth as do
    >>> import tempfile
    >>> from decentorth.lab.recorders import TensorBoard
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> with TensorBoard(tempfile.mkdtemp()) as recorder:
    ...     result = do.solve(problem, "drfgt", "ring", recorders=[recorder])
    >>> result.status
    'iterations'
    """

    library = distribution = "tensorboardX"
    _writer: Any = None

    def check(self) -> None:
        _check_folder(Path(self.path))

    def record(self, row: Row) -> None:
        self._writer = self._writer or self._library.SummaryWriter(self.path)
        for name, value in _values(row):
            self._writer.add_scalar(name, value, row.iteration)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            if not Path(self.path).is_dir():
                raise FileNotFoundError(f"{self.path} was removed during the run")


class MLflow(FileRecorder):
    """A run in an MLflow store: a folder, or the address of a server; its experiment is
    ``decentorth``.

    MLflow's telemetry, which sends facts on its use to its makers, is turned off unless
    ``MLFLOW_DISABLE_TELEMETRY`` is set.

    Examples
    --------
    >>> import decentorth as do
    >>> import tempfile
    >>> from decentorth.lab.recorders import MLflow
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> with MLflow(tempfile.mkdtemp()) as recorder:
    ...     result = do.solve(problem, "drfgt", "ring", recorders=[recorder])
    >>> result.status
    'iterations'
    """

    library = "mlflow"
    distribution = "mlflow-skinny"
    _run = ""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._client: Any = None

    def _connect(self) -> Any:
        """A client of the store, and the experiment in it, None before it is made."""
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions ask for it
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # by default it tries a dead server for minutes
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        place = self.path
        if "://" not in place:
            place = Path(place).resolve().as_uri()
        client = self._library.MlflowClient(place)
        return client, client.get_experiment_by_name("decentorth")

    def check(self) -> None:
        if "://" in self.path:
            self._connect()
        else:
            _check_folder(Path(self.path))

    def _begin(self) -> None:
        self._client, known = self._connect()
        experiment = known and known.experiment_id
        experiment = experiment or self._client.create_experiment("decentorth")
        self._run = self._client.create_run(experiment).info.run_id

    def record(self, row: Row) -> None:
        if self._client is None:
            self._begin()
        now = int(1000 * time.time())
        metric = self._library.entities.Metric
        metrics = [metric(name, value, now, row.iteration) for name, value in _values(row)]
        self._client.log_batch(self._run, metrics)

    def close(self) -> None:
        if self._client is not None:
            self._client.set_terminated(self._run)


class Parquet(FileRecorder):
    """A Parquet file with the columns of ``history.csv``, written at the end; it replaces no file
    but an earlier one of its own.

    Examples
    --------
    >>> import decentorth as do
    >>> import tempfile
    >>> from decentorth.lab.recorders import Parquet
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> path = tempfile.mkdtemp() + "/history.parquet"
    >>> with Parquet(path) as recorder:
    ...     result = do.solve(problem, "drfgt", "ring", recorders=[recorder])
    >>> result.status
    'iterations'
    """

    library = "pyarrow.parquet"
    distribution = "pyarrow"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._rows: list[Mapping[str, float]] = []

    def check(self) -> None:
        path = Path(self.path)
        _check_writable(path.parent)
        if not os.path.lexists(path):
            return
        try:
            own = path.is_file() and _MARK in (self._library.read_schema(path).metadata or {})
        except (OSError, ValueError):
            own = False
        if not own:
            raise ValueError(
                f"{path} exists, was not written by this recorder, and would be replaced: give "
                "another name"
            )

    def record(self, row: Row) -> None:
        if not self._rows:
            self.check()
        self._rows.append(row.columns())

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        self._rows.clear()
        super().rewound(rows, lost)

    def close(self) -> None:
        if self._rows:
            columns = {name: [row[name] for row in self._rows] for name in self._rows[0]}
            pyarrow: Any = importlib.import_module("pyarrow")
            table = pyarrow.table(columns, metadata={_MARK: b"rows of a run"})
            part = f"{self.path}.{os.getpid()}.part"
            try:
                self._library.write_table(table, part)
                os.replace(part, self.path)
            finally:
                Path(part).unlink(missing_ok=True)


KINDS = {kind.__name__.lower(): kind for kind in (TensorBoard, MLflow, Parquet)}
"""The recorders by their names on the command line."""


def recorder(place: str) -> FileRecorder:
    """The recorder that ``place`` names, as "parquet:rows.parquet".

    Raises
    ------
    ValueError
        The name is unknown, or no path follows it.
    """
    name, _, path = place.partition(":")
    if name not in KINDS or not path:
        known = ", ".join(f"{kind}:PATH" for kind in KINDS)
        raise ValueError(f"record must be one of {known}, got {place!r}")
    return KINDS[name](path)
