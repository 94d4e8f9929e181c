"""A checkpoint on disk: a folder named by its iteration, which is complete or absent; `docs/running.md` has the format.

Every array is a `.npy` file, into which each rank writes the rows of its agents. Rank 0 makes the files, writes the manifest last,
and renames the folder. Any number of ranks can read it. Sizes of files are compared with the manifest before memory is taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...protocols import Collective
from .states import Arrays

FORMAT, VERSION = "decentorth checkpoint", 2
FOLDER, MANIFEST = "checkpoints", "manifest.json"
AGENTS = "agents"
"""The folder in a checkpoint with later ones of agents that do not wait for each other, each written by its agent."""
PIECE_BYTES = 1 << 22
"""The approximate bytes under one checksum: the most that a reader reads beyond its own agents."""
MANIFEST_BYTES = 1 << 24
"""The largest size of a manifest, which has about 90 bytes for each checksum."""
HEADER_BYTES = 256
"""The size of the header of each `.npy` file."""
KINDS = ("<f8", "<f4", "<f2", "<i8", "<i4", "<u8", "<u4", "|u1", "|b1")
"""The types of arrays that a checkpoint can hold."""
AXES = 8
"""The largest number of axes of an array, whose shape then fits the header."""
_CHECKPOINT, _ARRAY = re.compile(r"\d{9,}"), re.compile(r"\w+(\.\w+)*")


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or a run cannot continue from it; the message names it, the reason and an alternative."""


class DamagedError(CheckpointError):
    """A checkpoint cannot be read: its files differ from those that were written, or an older version wrote it."""


T = TypeVar("T")
ErrorKind = Callable[[str], CheckpointError]


def on_all(collective: Collective, work: Callable[[], T], kind: ErrorKind = CheckpointError) -> T:
    """The result of ``work``, which must not communicate; a failure on one rank raises the error ``kind(words)`` on all."""
    try:
        with collective.together():
            return work()
    except (OSError, ValueError) as error:
        raise kind(words(error)) from error


def words(error: Exception) -> str:
    """The reason of an error, for a message about a file."""
    if isinstance(error, OSError) and error.strerror:
        return ": ".join([error.strerror, *filter(None, [error.filename])])
    return str(error)


class Stored(NamedTuple):
    """The description of an array in a file."""

    kind: str
    shape: tuple[int, ...]
    by_agent: bool
    """True if the array has a row for each agent."""
    rows: list[tuple[int, int, str]]
    """The first row, the end and the SHA-256 of consecutive pieces."""

    @property
    def row_bytes(self) -> int:
        """The bytes of one row."""
        return np.dtype(self.kind).itemsize * math.prod(self.shape[1:])

    @property
    def file_bytes(self) -> int:
        """The bytes of the file."""
        return HEADER_BYTES + self.shape[0] * self.row_bytes

    @property
    def header(self) -> bytes:
        """The header of the file: format 1.0 of `.npy`, with spaces up to a fixed size."""
        text = repr({"descr": self.kind, "fortran_order": False, "shape": self.shape})
        line = f"{text:<{HEADER_BYTES - 11}}\n".encode()
        return np.lib.format.magic(1, 0) + len(line).to_bytes(2, "little") + line

    def checked(self, name: str) -> Self:
        """This description; a ValueError unless a checkpoint can hold such an array."""
        if (
            not _ARRAY.fullmatch(name)
            or self.kind not in KINDS
            or not 1 <= len(self.shape) <= AXES
            or not all(map(counted, self.shape))
        ):
            described = f"type {self.kind!s:.20} and shape {self.shape!s:.100}"
            raise ValueError(f"a checkpoint cannot hold {name!s:.100} of {described}")
        return self


class _Rows(NamedTuple):
    """The rows of an array that this rank writes, from row ``first`` of the file on."""

    array: NDArray[Any]
    first: int
    stored: Stored


class Manifest(NamedTuple):
    """The content of a checkpoint's manifest."""

    path: Path
    arrays: dict[str, Stored]
    facts: dict[str, Any]
    """The facts that the writer added."""

    @property
    def n_agents(self) -> int:
        """The number of agents; a ValueError unless all arrays by agent have that many rows."""
        numbers = {stored.shape[0] for stored in self.arrays.values() if stored.by_agent}
        if len(numbers) != 1:
            raise ValueError(f"{MANIFEST} has arrays of {sorted(numbers)} agents")
        return numbers.pop()


def kept(root: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        paths = [path for path in root.iterdir() if _CHECKPOINT.fullmatch(path.name)]
        return sorted(paths, key=lambda path: -int(path.name))
    return []


def clear(root: Path) -> None:
    """Remove the checkpoints in a folder, and the folder unless something else is in it."""
    _sweep(root)
    for path in kept(root):
        shutil.rmtree(path)
    with contextlib.suppress(OSError):
        root.rmdir()


def _sweep(root: Path) -> None:
    """Remove the remains of checkpoints that were not finished, or not removed completely."""
    for stale in root.glob(".[0-9]*.part"):
        shutil.rmtree(stale, ignore_errors=True)


def found(given: str | os.PathLike[str]) -> list[Path]:
    """The checkpoints in a run's folder or in its folder of checkpoints, or a checkpoint itself; the newest first.

    A ValueError if there is none.
    """
    path = Path(given)
    if paths := kept(path / FOLDER) or kept(path):
        return paths
    if not path.is_dir():
        raise ValueError(f"cannot resume: {path} is not a folder")
    if not (path / MANIFEST).exists() and not _CHECKPOINT.fullmatch(path.name):
        missing = "holds no checkpoint: was the run given checkpoint_every (in Python checkpoints)?"
        raise ValueError(f"cannot resume: {path} {missing}")
    return [path]


def write(
    root: Path,
    iteration: int,
    keep: int,
    agents: slice,
    arrays: Arrays,
    common: Arrays,
    facts: Mapping[str, Any],
    collective: Collective,
) -> Path:
    """Write a checkpoint, and remove all but the last ``keep`` and all of later iterations; a collective call.

    ``agents`` are those that this rank writes (none if another rank does), ``arrays`` are ``(n_local, ...)`` of the same names on
    every rank, and ``common`` and ``facts`` are those of rank 0.

    Raises
    ------
    CheckpointError
        The checkpoint cannot be written; raised on every rank, and the earlier checkpoints are unchanged.
    """
    part, path = root / f".{iteration:09d}.part", root / f"{iteration:09d}"
    try:
        n_agents = int(collective.largest(np.array([float(agents.stop)]))[0])
        with collective.together():
            rows = {name: _rows(name, array, agents.start, n_agents) for name, array in arrays.items()}
            rows |= {name: _rows(name, array) for name, array in common.items()}
            if collective.rank == 0:
                root.mkdir(parents=True, exist_ok=True)
                _sweep(root)
                _make(part, rows)
        with collective.together():
            _fill(part, rows)
        sums = json.dumps({name: own.stored.rows for name, own in rows.items()})
        everyone = [json.loads(text) for text in collective.everyone(sums.encode())]
        with collective.together():
            if collective.rank == 0:
                for name, own in rows.items():
                    own.stored.rows[:] = [piece for one in everyone for piece in one.get(name, ())]
                described = {name: own.stored._asdict() for name, own in rows.items()}
                _finish(part, {**facts, "arrays": described})
                _take_place(part, path, keep)
    except (OSError, ValueError, TypeError) as error:
        if collective.rank == 0:
            shutil.rmtree(part, ignore_errors=True)
        last = [f"the last good one is {newest}" for newest in kept(root)[:1]]
        reason = f"cannot write the checkpoint of iteration {iteration}: {words(error)}"
        raise CheckpointError("; ".join([reason, *last])) from error
    return path


def _rows(name: str, array: NDArray[Any], first: int = 0, n_agents: int | None = None) -> _Rows:
    """The rows of an array in the byte order and layout of the file."""
    data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    shape = (n_agents or len(array), *array.shape[1:])
    return _Rows(data, first, Stored(data.dtype.str, shape, n_agents is not None, []).checked(name))


def _make(part: Path, rows: Mapping[str, _Rows]) -> None:
    """Make the files of all arrays, each with its header and its final size."""
    part.mkdir()
    for name, (_, _, stored) in rows.items():
        with _file(part, name).open("xb") as file:
            file.write(stored.header)
            file.truncate(stored.file_bytes)


def _fill(part: Path, rows: Mapping[str, _Rows]) -> None:
    """Write the rows into the files, and flush them to the disk; note their checksums."""
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(_file(part, name).open("r+b")) for name in rows}
        for name, (array, first, stored) in rows.items():
            files[name].seek(HEADER_BYTES + first * stored.row_bytes)
            step = max(1, PIECE_BYTES // max(1, stored.row_bytes))
            for start in range(0, len(array), step):
                end = min(start + step, len(array))
                data = array[start:end].reshape(-1).view(np.uint8).data
                files[name].write(data)
                digest = hashlib.sha256(data).hexdigest()
                stored.rows.append((first + start, first + end, digest))
        for file in files.values():  # after all are written: the disk then waits once
            file.flush()
            os.fsync(file.fileno())


def _finish(part: Path, facts: Mapping[str, Any]) -> None:
    """Write the manifest."""
    body = json.loads(json.dumps(facts))  # as it is read: keys are text
    whole = {"format": FORMAT, "version": VERSION, "sha256": _digest(body), "checkpoint": body}
    with (part / MANIFEST).open("xb") as file:
        file.write(f"{json.dumps(whole, indent=1)}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    _sync(part)


def _take_place(part: Path, path: Path, keep: int) -> None:
    """Rename a finished checkpoint, remove later ones before, and all but the last ``keep`` after."""
    for other in kept(path.parent):
        if int(other.name) >= int(path.name):
            _remove(other)
    part.rename(path)
    for other in kept(path.parent)[keep:]:
        _remove(other)
    _sync(path.parent)


def _remove(path: Path) -> None:
    """Rename a checkpoint, then delete it, so that it is never seen in part; the next write deletes any remains."""
    aside = path.with_name(f".{path.name}.removed.part")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Flush the names in a folder to the disk; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _digest(body: Any) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def limited(path: Path, most: int) -> bytes:
    """The content of a regular file of at most ``most`` bytes, else a ValueError; no more than that is read."""
    if (size := _size(path)) > most:
        raise ValueError(f"{path.name} must have at most {most} bytes, and has {size}")
    with path.open("rb") as file:
        return file.read(size)


def _size(path: Path) -> int:
    """The bytes of a regular file; a FIFO would block its reader, and a device might never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name} is not a regular file")
    return status.st_size


_WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors of code that reads JSON of another structure than it expects."""


@contextlib.contextmanager
def usable() -> Iterator[None]:
    """Turn any error about a manifest's content into a ValueError that names the manifest."""
    try:
        yield
    except _WRONG as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__} "
        raise ValueError(f"{MANIFEST} is not usable: {kind}{str(error)[:300]}") from None


def parsed(path: Path, raw: bytes) -> Manifest:
    """The manifest of a checkpoint from its bytes; a ValueError if they are damaged, or of another version."""
    with usable():
        whole = json.loads(raw)
        if whole["format"] != FORMAT:
            raise ValueError(f"it is not that of a {FORMAT}")
        if whole["version"] != VERSION:
            raise ValueError(
                f"its format is {whole['version']!s:.20}, and this decentorth reads format {VERSION}: "
                "resume with the version of decentorth that wrote it, or start the run again"
            )
        body = whole["checkpoint"]
        if whole["sha256"] != _digest(body):
            raise ValueError("it does not have the checksum it names")
        arrays = {name: _stored(name, **entry) for name, entry in body.pop("arrays").items()}
        return Manifest(path, arrays, body)


def _stored(name: str, kind: Any, shape: Any, by_agent: Any, rows: Any) -> Stored:
    """The description of an array in a manifest; a ValueError unless it can be one."""
    pieces = [(start, end, str(digest)) for start, end, digest in rows]
    stored = Stored(kind, tuple(shape), bool(by_agent), pieces).checked(name)
    starts, ends = [start for start, _, _ in pieces], [0, *(end for _, end, _ in pieces)]
    if [*starts, shape[0]] != ends or any(start >= end for start, end, _ in pieces):
        raise ValueError(f"it does not have checksums of all {shape[0]} rows of {name} in order")
    return stored


def counted(value: Any) -> bool:
    """True if ``value`` is a possible count: a non-negative integer below 2^63."""
    return type(value) is int and 0 <= value < 2**63


def read_manifest(path: Path, collective: Collective) -> Manifest:
    """The manifest of a checkpoint, read by rank 0 for every rank; a `DamagedError` on every rank if that cannot be done."""

    def first() -> bytes:
        if collective.rank > 0:
            return b""
        return limited(path / MANIFEST, MANIFEST_BYTES)

    whole = collective.everyone(on_all(collective, first, DamagedError))[0]
    return on_all(collective, lambda: parsed(path, whole), DamagedError)


def check_sizes(manifest: Manifest) -> None:
    """Raise a ValueError or OSError unless all files, which are not read, have the sizes in the manifest."""
    for name, stored in manifest.arrays.items():
        path = _file(manifest.path, name)
        if (size := _size(path)) != stored.file_bytes:
            sizes = f"{size} bytes instead of {stored.file_bytes}"
            raise ValueError(f"{path.name} is damaged: it has {sizes}")


def read(manifest: Manifest, agents: slice) -> Arrays:
    """The arrays of a checkpoint, of those by agent the rows of ``agents``; a ValueError or OSError if they are damaged.

    Pieces with none of these agents are not read.
    """
    arrays: Arrays = {}
    for name, stored in manifest.arrays.items():
        rows = slice(0, stored.shape[0])
        if stored.by_agent:
            rows = agents
        arrays[name] = _read(_file(manifest.path, name), stored, rows)
    return arrays


def _read(path: Path, stored: Stored, rows: slice) -> NDArray[Any]:
    """Rows of an array; the checksums of the pieces with these rows are compared."""
    array = np.empty((rows.stop - rows.start, *stored.shape[1:]), stored.kind)
    with path.open("rb") as file:
        if file.read(HEADER_BYTES) != stored.header:
            raise ValueError(f"{path.name} is damaged: its header is another than that in {MANIFEST}")
        for start, end, digest in stored.rows:
            low, high = max(start, rows.start), min(end, rows.stop)
            if low >= high:
                continue
            file.seek(HEADER_BYTES + start * stored.row_bytes)
            data = file.read((end - start) * stored.row_bytes)
            if hashlib.sha256(data).hexdigest() != digest:
                place = f"rows {start} to {end - 1}"
                raise ValueError(f"{path.name} is damaged: {place} do not have the checksum in {MANIFEST}")
            piece = np.frombuffer(data, stored.kind).reshape(end - start, *stored.shape[1:])
            array[low - rows.start : high - rows.start] = piece[low - start : high - start]
    return array
