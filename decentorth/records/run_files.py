"""The files of a run, on whose format later tools may rely. Rank 0 writes them; nothing in them is
pickled.

========================= ==================================================================================================
``config.yaml``           every setting of the run, written before anything else; ``--config`` reads it back
``history.csv``           a row per recorded iteration, written and flushed during the run; floats read back bit for bit
``summary.json``          how the run ended, its final metrics and costs, and where it ran (null where a number is not finite)
``final.npz``             ``x`` of shape ``(n, ...)`` in agent order, and the problem's named variables
``sent.csv``              of a site that joined others: the messages and bytes that left it, by neighbour and use
``checkpoints/``          where asked for: see `decentorth.running.checkpoint.checkpoint_files`
``.lock``                 empty; locked while a run writes here
========================= ==================================================================================================

All but the history are written under a temporary name and renamed, so that a file that is there is
whole. A folder or a file that cannot be used raises `InputError`.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import logging
import math
import os
import shutil
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from topologies.line.flags import InputError

from ..display import size
from ..protocols import Array, Collective, Row
from ..running.checkpoint.checkpoint_files import FOLDER, Json, clear, kept
from ..running.history import COUNTS

if sys.platform != "win32":
    import fcntl

CONFIG, HISTORY, SUMMARY, FINAL = "config.yaml", "history.csv", "summary.json", "final.npz"
FIGURE, LOCK = "history.png", ".lock"
SENT = "sent.csv"
COMPARISON = "comparison.yaml"
"""The settings of a comparison, which mark its folder."""

Place = str | os.PathLike[str]
log = logging.getLogger(__name__)


class HistoryWriter:
    """A recorder that appends each row to ``history.csv``.

    The row is on the disk when `record` returns. ``earlier`` holds the rows of the resumed run.
    If its file ``source`` has the last of them, the lines up to that one are copied, because
    memory may hold only every second row.
    """

    def __init__(self, path: Path, earlier: Sequence[Row] = (), source: Path | None = None) -> None:
        self.path = path
        self._columns: tuple[str, ...] | None = None
        lines = []
        if earlier:
            self._columns = tuple(earlier[0].values)
            lines = [_header(self._columns), *map(_line, earlier)]
            lines = _written(source, lines) or lines
        self._file = path.open("w+b", buffering=0)
        self._unwritten = bytearray()
        self._write(lines)

    def record(self, row: Row) -> None:
        """Append a row.

        Raises
        ------
        ValueError
            The metrics differ from those of the first row.
        OSError
            The disk is full; the message names the file. The row is written with the next one, or
            by `finish`.
        """
        columns = tuple(row.values)
        lines = [_line(row)]
        if self._columns is None:
            self._columns = columns
            lines.insert(0, _header(columns))
        if columns != self._columns:
            raise ValueError(
                f"{self.path}: every row must hold the metrics {self._columns}, got {columns}"
            )
        self._write(lines)

    def _write(self, lines: Sequence[str] = ()) -> None:
        self._unwritten += "".join(f"{line}\n" for line in lines).encode()
        try:
            while self._unwritten:
                del self._unwritten[: self._file.write(self._unwritten)]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def finish(self, path: Path) -> None:
        """Ensure that every row is in the file at ``path``: this file, or a copy if it has been
        removed or moved."""
        if path.exists() and os.path.samestat(path.stat(), os.fstat(self._file.fileno())):
            self._write()
        else:
            self._file.seek(0)
            with replacing(path) as file:
                file.write(self._file.read() + self._unwritten)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _written(source: Path | None, lines: Sequence[str]) -> list[str]:
    """The lines of the file up to the last one of ``lines``; none if it begins otherwise or lacks
    that line."""
    if source is None or not source.is_file():
        return []
    found: list[str] = []
    longest = 64 * (1 + len(lines[0]))  # a damaged file may have no end of a line
    with source.open(errors="replace") as file:
        while line := file.readline(longest).removesuffix("\n"):
            found.append(line)
            if found[0] != lines[0]:
                return []
            if line == lines[-1]:
                return found
    return []


def _header(metrics: Sequence[str]) -> str:
    return ",".join((*COUNTS, "seconds", *metrics))


def _line(row: Row) -> str:
    columns = row.columns()
    counts = [str(int(columns.pop(name))) for name in COUNTS]
    return ",".join([*counts, *[repr(float(value)) for value in columns.values()]])


def refuse_unmarked(path: Place, names: Iterable[str], mark: str) -> None:
    """Raise if the folder holds files that a command writes, without the marker of its folders."""
    folder = Path(path)
    for name in names:
        if os.path.lexists(folder / name) and not (folder / mark).exists():
            raise InputError(
                f"{folder / name} was not written by this command ({path} lacks {mark}), and would "
                "be replaced: choose another --out, or move it away"
            )


def refuse_foreign(path: Place) -> None:
    """Raise if the folder holds no run but a file with the name of a run's file.

    A lock, a summary or checkpoints mark the folder of a run.
    """
    if not ((Path(path) / SUMMARY).exists() or kept(Path(path) / FOLDER)):
        refuse_unmarked(path, (CONFIG, HISTORY, FINAL, FIGURE, FOLDER), LOCK)


def refuse_existing(path: Place) -> None:
    """Raise if the folder already holds a run."""
    if (Path(path) / SUMMARY).exists():
        raise InputError(
            f"{path} already holds a run ({SUMMARY}); choose another --out or give --overwrite"
        )
    if kept(Path(path) / FOLDER):
        raise InputError(
            f"{path} holds the checkpoints of a run that did not end; continue with --resume "
            f"{path}, choose another --out or give --overwrite"
        )


def hold(path: Place, insist: bool = True) -> IO[bytes]:
    """Create the folder if it is missing, and lock other runs out of it until the returned file is
    closed.

    Any end of this process closes it. Where another run holds the lock this raises, or without
    ``insist`` warns. On a file system without locks (flock) it warns. On Windows nothing is locked.
    It also raises if a run would replace other files in the folder.
    """
    refuse_foreign(path)
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        file = open(Path(path) / LOCK, "ab")  # noqa: SIM115
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if insist and error.errno in (errno.EAGAIN, errno.EACCES):
            file.close()
            raise InputError(
                f"another run writes to {path}: wait for its end, or choose another --out"
            ) from None
        log.warning(
            "%s is not locked (%s): make sure that no other run writes to it", path, error.strerror
        )
    return file


def _unusable(path: Place, error: OSError) -> InputError:
    return InputError(f"cannot write to {path}: {error.strerror or error}; choose another --out")


class RunFolder:
    """The folder of one run, made ready before any work.

    Parameters
    ----------
    path
        The folder, created with its parents when missing.
    config
        The text of ``config.yaml``, which is written first of all.
    overwrite
        Replace the run that the folder already holds.
    continues
        Resume the run in it: its checkpoints stay, and its history until it is rewritten.
    needed
        Bytes that the final arrays will take.
    lock
        The lock from `hold`; the folder closes it.
    """

    def __init__(
        self,
        path: Place,
        config: str,
        *,
        overwrite: bool = False,
        continues: bool = False,
        needed: int = 0,
        lock: IO[bytes] | None = None,
    ) -> None:
        self.path = Path(path)
        self._lock = lock
        if not (overwrite or continues):
            refuse_existing(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            old = [self.path / name for name in (SUMMARY, FINAL, FIGURE)]
            for name in (CONFIG, HISTORY, SUMMARY, FINAL):  # of a run that was killed
                old += self.path.glob(f".{name}.*.part")
            if not continues:
                old += [self.path / HISTORY, self.path / SENT]
                clear(self.path / FOLDER)
            for one in old:
                one.unlink(missing_ok=True)
            self._write_text(CONFIG, config)
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            raise _unusable(self.path, error) from None
        if needed > free:
            raise InputError(
                f"{self.path} has {size(free)} free, and {FINAL} needs {size(needed)}; choose "
                "another --out"
            )

    @property
    def removed(self) -> bool:
        """True if the locked folder is no longer at its path."""
        if self._lock is None:
            return False
        try:
            return not os.path.samestat((self.path / LOCK).stat(), os.fstat(self._lock.fileno()))
        except OSError:
            return True

    def close(self) -> None:
        """Let other runs use the folder."""
        if self._lock is not None:
            self._lock.close()

    def history(self, earlier: Sequence[Row] = (), source: Path | None = None) -> HistoryWriter:
        """The recorder of this run's rows; as `HistoryWriter`, where ``source`` is the folder of
        the resumed run."""
        return HistoryWriter(self.path / HISTORY, earlier, source and source / HISTORY)

    def write_summary(self, summary: Mapping[str, object]) -> None:
        """Write ``summary.json``."""
        self._write_text(SUMMARY, json.dumps(_plain(summary), indent=2, allow_nan=False) + "\n")

    def _write_text(self, name: str, text: str) -> None:
        with replacing(self.path / name) as file:
            file.write(text.encode())


def write_final(
    folder: RunFolder | None, variables: Mapping[str, Array], collective: Collective
) -> None:
    """Write ``final.npz`` from the ranks' parts, one rank's block in memory at a time; called by
    every rank. A site writes its own.

    Parameters
    ----------
    folder
        The folder, on rank 0 or a site; None on the others, and if rank 0 writes nothing.
    variables
        Arrays ``(n_local, ...)`` by name, the same names in the same order on every rank.

    Raises
    ------
    OSError
        The file cannot be written: on rank 0 alone, after all blocks have been sent.
    """
    blocks = {name: collective.stream(array) for name, array in variables.items()}
    try:
        if folder is not None:
            with replacing(folder.path / FINAL) as file, zipfile.ZipFile(file, "w") as archive:
                for name, array in variables.items():
                    header = {"descr": "<f8", "fortran_order": False}
                    header["shape"] = (collective.streamed, *array.shape[1:])
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array_header_1_0(member, header)
                        for block in blocks[name]:
                            member.write(np.ascontiguousarray(block, dtype="<f8").data)
    finally:
        for stream in blocks.values():  # the other ranks send every block
            for _ in stream:
                pass


def variables(problem: Any, x: Array) -> dict[str, Array]:
    """x, and the problem's named variables that are only part of it; a part of the name x is
    x_part."""
    parts = {name: array for name, array in problem.unpack(x).items() if array.shape != x.shape}
    named = {{"x": "x_part"}.get(name, name): array for name, array in parts.items()}
    return {**named, "x": x}


def save(
    folder: Place,
    about: Mapping[str, str],
    summary: Json,
    rows: Sequence[Row],
    variables: Mapping[str, Array],
    collective: Collective,
    overwrite: bool,
) -> None:
    """Write the folder of a run that was made in Python; called by every rank.

    Parameters
    ----------
    about
        The problem and the algorithm in words, for the labels of figures; the command line cannot
        make the run again from them.

    Raises
    ------
    ValueError, OSError
        On every rank: the folder holds a run, or cannot be written to.
    """
    lines = [f"{name}: {json.dumps(one)}\n" for name, one in about.items()]
    config = "".join(["# saved from Python\n", *lines])
    made = None
    with collective.together():
        if collective.root:
            if (Path(folder) / SUMMARY).exists() and not overwrite:
                raise ValueError(
                    f"{folder} already holds a run: choose another folder, or give overwrite=True"
                )
            made = RunFolder(folder, config, overwrite=overwrite, lock=hold(folder))
    with collective.together():
        write_final(made, variables, collective)
        if made is not None:
            made.history(rows).close()
            made.write_summary(summary)
            made.close()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when it is complete, and leaves nothing behind when
    it is not.

    Raises
    ------
    OSError
        The disk is full, or the folder is gone; the message names ``path``.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def csv_text(rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as CSV, with the columns of the first row.

    Floats have all their digits. None and NaN are empty cells.
    """
    rows = list(rows)
    file = io.StringIO()
    columns = list(rows[0])
    write = csv.writer(file, lineterminator="\n")
    write.writerow(columns)
    for row in rows:
        cells = [row[name] for name in columns]
        write.writerow([cell if cell == cell else None for cell in cells])
    return file.getvalue()


def _plain(value: object) -> object:
    """The value as JSON can hold it: null where a number is not finite."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.generic():
            return _plain(value.item())
        case float() if not math.isfinite(value):
            return None
    return value
