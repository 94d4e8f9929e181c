"""A checkpoint on disk: a folder named by its iteration, which is complete or absent;
`docs/running.md` has the format.

Every array is a `.npy` file, into which each rank writes the rows of its agents. Rank 0 makes the
files, writes the manifest last, and renames the folder. Any number of ranks can read it. Sizes of
files are compared with the manifest before memory is taken.
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
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...protocols import Collective
from ..history import Column

FORMAT, VERSION = "decentorth checkpoint", 3
FOLDER, MANIFEST = "checkpoints", "manifest.json"
AGENTS = "agents"
"""The folder in a checkpoint with later ones of agents that do not wait for each other, each
written by its agent."""
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
_CHECKPOINT = re.compile(r"\d{9,}")


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or a run cannot continue from it; the message names it, the
    reason and an alternative.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> try:
    ...     folder = do.Checkpoints("/dev/null", 10)
    ...     do.solve(problem, "drfgt", "ring", checkpoints=folder)
    ... except do.CheckpointError as error:
    ...     print("not a folder")
    not a folder
    """


class DamagedError(CheckpointError):
    """A checkpoint cannot be read: its files are damaged, or an older version wrote it."""


T = TypeVar("T")
Json = Mapping[str, Any]
"""Facts that a JSON file holds, by name."""
ErrorKind = Callable[[str], CheckpointError]


def on_all(collective: Collective, work: Callable[[], T], kind: ErrorKind = CheckpointError) -> T:
    """The result of ``work``, which must not communicate; a failure on one rank raises the error
    ``kind(words)`` on all."""
    try:
        with collective.together():
            return work()
    except (OSError, ValueError) as error:
        raise kind(words(error)) from error


def words(error: Exception) -> str:
    """The reason of an error, for a message about a file."""
    match error:
        case OSError(strerror=str() as reason):
            return ": ".join(filter(None, (reason, error.filename)))
    return str(error)


class Stored(NamedTuple):
    """The description of an array in a file."""

    kind: str
    shape: tuple[int, ...]
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


class Rows(NamedTuple):
    """The rows of an array that this rank writes: from row ``first`` on, of ``total``."""

    array: Column
    first: int
    total: int


class Manifest(NamedTuple):
    """The content of a checkpoint's manifest."""

    path: Path
    arrays: dict[str, Stored]
    facts: dict[str, Any]
    """The facts that the writer added."""


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
    """Return the checkpoints in a run's folder or its checkpoint folder, the newest first.

    ``given`` may also be a checkpoint itself. Raises ValueError if there is none.
    """
    path = Path(given)
    if paths := kept(path / FOLDER) or kept(path):
        return paths
    if not path.is_dir():
        raise ValueError(f"cannot resume: {path} is not a folder")
    if not (path / MANIFEST).exists() and not _CHECKPOINT.fullmatch(path.name):
        raise ValueError(
            f"cannot resume: {path} holds no checkpoint: was checkpoint_every (in Python "
            "checkpoints) given?"
        )
    return [path]


def write(
    path: Path,
    keep: int,
    arrays: Mapping[str, Rows],
    facts: Mapping[str, object],
    collective: Collective,
) -> None:
    """Write a checkpoint, and remove all but the last ``keep`` and all of later iterations; a
    collective call.

    Each rank gives its rows, none of an agent that another rank writes; rank 0 gives all arrays and
    the facts. A site writes a checkpoint of its own, with its rows alone.

    Raises
    ------
    CheckpointError
        The checkpoint cannot be written; raised on every rank, and the earlier checkpoints are
        unchanged.
    """
    root = path.parent
    part = path.with_name(f".{path.name}.part")
    try:
        with collective.together():
            own = {
                name: rows._replace(array=_canonical(name, rows.array))
                for name, rows in arrays.items()
            }
            described = {
                name: Stored(array.dtype.str, (total, *array.shape[1:]), [])
                for name, (array, _, total) in own.items()
            }
            if collective.root:
                root.mkdir(parents=True, exist_ok=True)
                _sweep(root)
                _make(part, described)
        with collective.together():
            sums = _fill(part, own)
        everyone = [json.loads(text) for text in collective.ours(json.dumps(sums).encode())]
        with collective.together():
            if collective.root:
                for name, stored in described.items():
                    stored.rows.extend(piece for one in everyone for piece in one.get(name, ()))
                listed = {name: stored._asdict() for name, stored in described.items()}
                _finish(part, {**facts, "arrays": listed})
                _take_place(part, path, keep)
    except (OSError, ValueError, TypeError) as error:
        if collective.root:
            shutil.rmtree(part, ignore_errors=True)
        last = [f"the last good one is {newest}" for newest in kept(root)[:1]]
        reason = f"cannot write the checkpoint of iteration {int(path.name)}: {words(error)}"
        raise CheckpointError("; ".join([reason, *last])) from error


def _canonical(name: str, array: Column) -> Column:
    """The array in the byte order and layout of the file."""
    kind = array.dtype.newbyteorder("<")
    if kind.str not in KINDS or array.ndim > AXES:
        raise ValueError(
            f"a checkpoint cannot hold {name} of type {kind.str} with {array.ndim} axes"
        )
    return np.ascontiguousarray(array, dtype=kind)


def _make(part: Path, arrays: Mapping[str, Stored]) -> None:
    """Make the files of all arrays, each with its header and its final size."""
    part.mkdir()
    for name, stored in arrays.items():
        with _file(part, name).open("xb") as file:
            file.write(stored.header)
            file.truncate(stored.file_bytes)


def _fill(part: Path, arrays: Mapping[str, Rows]) -> dict[str, list[tuple[int, int, str]]]:
    """Write the rows into the files, and flush them to the disk; their checksums."""
    sums: dict[str, list[tuple[int, int, str]]] = {name: [] for name in arrays}
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(_file(part, name).open("r+b")) for name in arrays}
        for name, (array, first, total) in arrays.items():
            row_bytes = array[:1].nbytes
            files[name].seek((first - total) * row_bytes, os.SEEK_END)
            step = max(1, PIECE_BYTES // max(1, row_bytes))
            for start in range(0, len(array), step):
                end = min(start + step, len(array))
                data = array[start:end].reshape(-1).view(np.uint8).data
                files[name].write(data)
                sums[name].append((first + start, first + end, hashlib.sha256(data).hexdigest()))
        for file in files.values():  # after all are written: the disk then waits once
            file.flush()
            os.fsync(file.fileno())
    return sums


def _finish(part: Path, facts: Mapping[str, object]) -> None:
    """Write the manifest."""
    body = json.loads(json.dumps(facts))  # as it is read: keys are text
    whole = {"format": FORMAT, "version": VERSION, "sha256": _digest(body), "checkpoint": body}
    with (part / MANIFEST).open("xb") as file:
        file.write(f"{json.dumps(whole, indent=1)}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    _sync(part)


def _take_place(part: Path, path: Path, keep: int) -> None:
    """Rename a finished checkpoint, remove later ones before, and all but the last ``keep``
    after."""
    for other in kept(path.parent):
        if int(other.name) >= int(path.name):
            _remove(other)
    part.rename(path)
    for other in kept(path.parent)[keep:]:
        _remove(other)
    _sync(path.parent)


def _remove(path: Path) -> None:
    """Rename a checkpoint, then delete it, so that it is never seen in part; the next write deletes
    any remains."""
    aside = path.with_name(f".{path.name}.removed.part")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Flush the names in a folder to the disk; Windows lacks such a call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _digest(body: object) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def limited(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Raises ValueError if it is larger. No more than ``most`` bytes are read.
    """
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
    """Return the manifest of a checkpoint from its bytes.

    Raises ValueError if they are damaged, or of another version.
    """
    with usable():
        whole = json.loads(raw)
        if whole["format"] != FORMAT:
            raise ValueError(f"it is not that of a {FORMAT}")
        if whole["version"] != VERSION:
            raise ValueError(
                f"its format is {whole['version']!s:.20}, and this decentorth reads format "
                f"{VERSION}: resume with the version of decentorth that wrote it, or start the "
                "run again"
            )
        body = whole["checkpoint"]
        if whole["sha256"] != _digest(body):
            raise ValueError("its checksum is wrong")
        arrays = {name: _stored(**entry) for name, entry in body.pop("arrays").items()}
        return Manifest(path, arrays, body)


def _stored(kind: Any, shape: Any, rows: Any) -> Stored:
    """The description of an array in a manifest; any error of `usable` if it is none."""
    if not all(map(counted, shape)):
        raise ValueError(f"no array has the shape {shape!s:.100}")
    pieces = [(int(start), int(end), str(digest)) for start, end, digest in rows]
    return Stored(str(kind), tuple(shape), pieces)


def counted(value: object) -> bool:
    """True if ``value`` is a possible count: a non-negative integer below 2^63."""
    return type(value) is int and 0 <= value < 2**63


def read_manifest(path: Path, collective: Collective) -> Manifest:
    """The manifest of a checkpoint, read by rank 0 for every rank and by a site for itself; a
    `DamagedError` on every rank if that cannot be done."""

    def first() -> bytes:
        if not collective.root:
            return b""
        return limited(path / MANIFEST, MANIFEST_BYTES)

    whole = collective.ours(on_all(collective, first, DamagedError))[0]
    return on_all(collective, lambda: parsed(path, whole), DamagedError)


def check_sizes(manifest: Manifest) -> None:
    """Raise ValueError or OSError unless all files have the sizes in the manifest.

    The files are not read.
    """
    for name, stored in manifest.arrays.items():
        path = _file(manifest.path, name)
        with usable():
            expected = stored.file_bytes
        if (size := _size(path)) != expected:
            raise ValueError(f"{path.name} is damaged: it has {size} bytes instead of {expected}")


def read(manifest: Manifest, name: str, rows: slice) -> Column:
    """Return rows of an array, after checking the pieces that hold them by their checksums.

    Other pieces are not read. Raises ValueError or OSError if the file is damaged.
    """
    path = _file(manifest.path, name)
    stored = manifest.arrays[name]
    array = np.empty((rows.stop - rows.start, *stored.shape[1:]), stored.kind)
    found = 0
    with path.open("rb") as file:
        if file.read(HEADER_BYTES) != stored.header:
            raise ValueError(
                f"{path.name} is damaged: its header is another than that in {MANIFEST}"
            )
        for start, end, digest in stored.rows:
            low = max(start, rows.start)
            high = min(end, rows.stop)
            if low >= high:
                continue
            file.seek(HEADER_BYTES + start * stored.row_bytes)
            data = file.read((end - start) * stored.row_bytes)
            if hashlib.sha256(data).hexdigest() != digest:
                raise ValueError(
                    f"{path.name} is damaged: rows {start} to {end - 1} do not have the checksum "
                    f"in {MANIFEST}"
                )
            piece = np.frombuffer(data, stored.kind).reshape(end - start, *stored.shape[1:])
            array[low - rows.start : high - rows.start] = piece[low - start : high - start]
            found += high - low
    if found != len(array):
        raise ValueError(f"{MANIFEST} has checksums of {found} of {len(array)} rows of {name}")
    return array
