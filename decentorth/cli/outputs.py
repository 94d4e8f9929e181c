"""The files of a run: what later tools may rely on. Rank 0 writes them; nothing in them is pickled.

========================= ==================================================================================================
``config.yaml``           every setting of the run, written before anything else; ``--config`` reads it back
``history.csv``           a row per recorded iteration, written and flushed while the run goes on; floats read back bit for bit
``summary.json``          how the run ended, its final metrics and costs, and where it ran (null where a number is not finite)
``final.npz``             ``x`` of shape ``(n, ...)`` in agent order, and the problem's named variables
``checkpoints/``          where asked for: see `decentorth.checkpoint.files`
========================= ==================================================================================================

All but the history are written under a temporary name and renamed, so that a file that is there is whole.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import math
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..checkpoint import FOLDER, kept
from ..protocols import Array, Collective, Row
from .flags import InputError

CONFIG, HISTORY, SUMMARY, FINAL = "config.yaml", "history.csv", "summary.json", "final.npz"
COUNTS = ("iteration", "rounds", "messages", "bytes", "gradients")
"""The columns of the history that are whole numbers; ``seconds`` and the metrics follow them."""

log = logging.getLogger(__name__)


class HistoryWriter:
    """A recorder that appends each row to ``history.csv`` and flushes it.

    Parameters
    ----------
    path
        The file, which is written anew.
    earlier
        Rows of the run that goes on.
    source
        Its own file: where it has the last of these rows, its lines up to that one are taken, as memory may hold every second only.
    """

    def __init__(self, path: Path, earlier: Sequence[Row] = (), source: Path | None = None) -> None:
        self.path = path
        self._columns: tuple[str, ...] | None = None
        lines = []
        if earlier:
            self._columns = tuple(earlier[0].values)
            lines = [_header(self._columns), *map(_line, earlier)]
            written = source.read_text(errors="replace").split("\n") if source is not None and source.is_file() else []
            if written[:1] == lines[:1] and lines[-1] in written:
                lines = written[: written.index(lines[-1]) + 1]
        self._file = path.open("w", newline="")
        self._write(lines)

    def record(self, row: Row) -> None:
        """Append a row.

        Raises
        ------
        ValueError
            When its metrics are not those of the first row.
        OSError
            When the disk is full, naming the file.
        """
        columns = tuple(row.values)
        lines = []
        if self._columns is None:
            self._columns = columns
            lines.append(_header(columns))
        elif columns != self._columns:
            raise ValueError(f"{self.path}: every row must hold the metrics {self._columns}, got {columns}")
        self._write([*lines, _line(row)])

    def _write(self, lines: Sequence[str]) -> None:
        try:
            self._file.write("".join(f"{line}\n" for line in lines))
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def close(self) -> None:
        """Close the file; every row is in it already."""
        self._file.close()


def _header(metrics: Sequence[str]) -> str:
    return ",".join((*COUNTS, "seconds", *metrics))


def _line(row: Row) -> str:
    counts = [str(int(getattr(row, name))) for name in COUNTS]
    numbers = [repr(float(value)) for value in (row.seconds, *row.values.values())]
    return ",".join(counts + numbers)


def refuse_existing(path: str | os.PathLike[str]) -> None:
    """Raise if the folder already holds a run.

    Raises
    ------
    InputError
        Saying what to do instead.
    """
    if (Path(path) / SUMMARY).exists():
        raise InputError(f"{path} already holds a run ({SUMMARY}); choose another --out or give --overwrite")
    if kept(Path(path) / FOLDER):
        raise InputError(
            f"{path} holds the checkpoints of a run that did not end; go on with --resume {path}, choose another --out or give "
            "--overwrite"
        )


class RunFolder:
    """The folder of one run, made ready before any work.

    Parameters
    ----------
    path
        Created when missing, with its parents.
    config
        The text of ``config.yaml``, which is written first of all.
    overwrite
        Replace the run that the folder already holds.
    continues
        Go on with it: its checkpoints stay, and its history until it is written anew.
    needed
        Bytes that the final arrays will take.

    Raises
    ------
    InputError
        The folder already holds a run, cannot be made or written to, or its disk lacks the space.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: str,
        *,
        overwrite: bool = False,
        continues: bool = False,
        needed: int = 0,
    ) -> None:
        self.path = Path(path)
        if not (overwrite or continues):
            refuse_existing(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in (SUMMARY, FINAL, "history.png", *(() if continues else (HISTORY,))):
                (self.path / name).unlink(missing_ok=True)
            if (self.path / FOLDER).exists() and not continues:
                shutil.rmtree(self.path / FOLDER)
            self._write_text(CONFIG, config)
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}; choose another --out") from None
        if needed > free:
            raise InputError(
                f"{self.path} has {free / 1e6:.0f} MB free, and {FINAL} needs {needed / 1e6:.0f} MB; choose another --out"
            )

    def history(self, earlier: Sequence[Row] = (), source: Path | None = None) -> HistoryWriter:
        """The recorder of this run's rows; see `HistoryWriter`, but that ``source`` is the folder of the run that goes on."""
        return HistoryWriter(self.path / HISTORY, earlier, None if source is None else source / HISTORY)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``."""
        self._write_text(SUMMARY, json.dumps(_plain(summary), indent=2, allow_nan=False) + "\n")

    def _write_text(self, name: str, text: str) -> None:
        with replacing(self.path / name) as file:
            file.write(text.encode())


def write_final(folder: RunFolder | None, n_agents: int, variables: Mapping[str, Array], collective: Collective) -> None:
    """Write ``final.npz`` from the ranks' parts, one rank's block in memory at a time; called by every rank.

    Parameters
    ----------
    folder
        Where to, on rank 0; None on the others.
    n_agents
        Agents over all ranks.
    variables
        Arrays ``(n_local, ...)`` by name, the same names in the same order on every rank.
    collective
        The ranks.
    """
    if folder is None:
        for array in variables.values():
            for _ in collective.stream(array):
                pass
        return
    with replacing(folder.path / FINAL) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in variables.items():
            header = {"descr": "<f8", "fortran_order": False, "shape": (n_agents, *array.shape[1:])}
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                for block in collective.stream(array):
                    member.write(np.ascontiguousarray(block, dtype="<f8").data)


def read_history(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The columns of a run's history: counts as int64, seconds and metrics as float64.

    The last line of a run that was killed may be cut short; it is left out, and the log says so.

    Raises
    ------
    InputError
        The file is missing, empty or not a history.
    """
    path = Path(folder) / HISTORY
    text = _read(path)
    lines = text.split("\n")
    if lines.pop():
        log.warning("%s: the last line is incomplete and left out (the run was killed?)", path)
    rows = list(csv.reader(lines))
    if not rows or tuple(rows[0][: len(COUNTS) + 1]) != (*COUNTS, "seconds"):
        raise InputError(f"{path}: not a history; its first line must begin with {','.join(COUNTS)},seconds")
    header = rows.pop(0)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{path}, line {number}: {len(header)} values expected, got {len(row)}")
    columns: dict[str, NDArray[Any]] = {}
    for index, name in enumerate(header):
        cells = [row[index] for row in rows]
        try:
            if name in COUNTS:
                columns[name] = np.array([int(cell) for cell in cells], dtype=np.int64)
            else:
                columns[name] = np.array([float(cell) for cell in cells], dtype=np.float64)
        except ValueError as error:
            raise InputError(f"{path}, column {name}: {error}") from None
    return columns


def read_summary(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The summary of a run.

    Raises
    ------
    InputError
        The file is missing (the run has not ended) or not a summary.
    """
    path = Path(folder) / SUMMARY
    try:
        summary = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not well-formed JSON: {error}") from None
    if not isinstance(summary, dict):
        raise InputError(f"{path}: must hold a mapping, got {type(summary).__name__}")
    return summary


def read_start(place: str | os.PathLike[str]) -> Array:
    """The point at which a run is to start.

    Parameters
    ----------
    place
        A run's folder, where it is the final point of the first agent, or a ``.npy`` file that holds a point.

    Raises
    ------
    InputError
        There is no such file, or it is not a point.
    """
    path = Path(place)
    final = path / FINAL if path.is_dir() else path
    try:
        with open(final, "rb") as file:
            content = np.load(file, allow_pickle=False)
            point = content["x"][0] if path.is_dir() else content
    except FileNotFoundError:
        raise InputError(f"cannot start from {place}: {final} does not exist; has that run ended?") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot start from {place}: {final} is damaged, or holds no point ({error})") from None
    if not isinstance(point, np.ndarray) or point.dtype.kind not in "fiu":
        raise InputError(f"cannot start from {place}: it must be a run's folder or a .npy file of real numbers")
    start: Array = np.ascontiguousarray(point, dtype=np.float64)
    return start


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; is {path.parent} the folder of a run?") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file ({error.reason} at byte {error.start})") from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when it is complete, and leaves nothing behind when it is not."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def cell(value: Any) -> str:
    """A value of a CSV file: a float with all its digits, nothing for None and NaN."""
    return "" if value is None or value != value else str(value)


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV; the columns are by default those of the first row."""
    rows = list(rows)
    file = io.StringIO()
    write = csv.writer(file, lineterminator="\n")
    write.writerow(columns or rows[0])
    write.writerows([cell(row[name]) for name in columns or row] for row in rows)
    return file.getvalue()


def _plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
