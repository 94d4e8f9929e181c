"""A checkpoint on disk: a folder named by its iteration, which is either complete or absent; `docs/running.md` has the format.

Every rank writes its own agents to a file of its own, in a folder with a temporary name; rank 0 writes the manifest last, and
renames the folder. Any number of ranks can read it: each reads the pieces that hold its agents. Sizes are compared with those of
the files before anything is allocated; nothing is unpickled; no file name is read from a file.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...protocols import Collective
from .states import Arrays

FORMAT, VERSION = "decentorth checkpoint", 1
FOLDER, MANIFEST, COMMON = "checkpoints", "manifest.json", "common.bin"
AGENTS = "agents"
"""The folder in a checkpoint with later ones of agents that do not wait for each other, each written by its agent."""
AGENTS_STATE = "state.agents"
"""The array with the state of agents that keep their own; its size changes with the messages that are under way."""
PIECE_BYTES = 1 << 22
"""The approximate bytes of a block under one checksum: the most that a reader reads beyond its own agents."""
MANIFEST_BYTES = 1 << 24
"""The largest size of a manifest, which has 70 bytes for each piece."""
KINDS = ("<f8", "<f4", "<f2", "<i8", "<i4", "<u8", "<u4", "|u1", "|b1")
"""The types of arrays that a checkpoint can hold."""
_NAME = re.compile(r"\d{9,}")


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or a run cannot continue from it; the message names it, the reason and an alternative."""


class DamagedError(CheckpointError):
    """The files of a checkpoint differ from the ones that were written."""


T = TypeVar("T")


def on_all(collective: Collective, work: Callable[[], T], kind: Callable[[str], CheckpointError] = CheckpointError) -> T:
    """The result of ``work``, which must not communicate; a failure on one rank raises the error ``kind(words)`` on all."""
    try:
        with collective.together():
            return work()
    except (OSError, ValueError) as error:
        raise kind(words(error)) from error


class Layout(NamedTuple):
    """An array in a file."""

    name: str
    kind: str
    shape: tuple[int, ...]
    """The shape for one agent, or of the whole array if it is common to all agents."""

    @property
    def nbytes(self) -> int:
        """The bytes of one agent, or of the whole array if it is common to all agents."""
        return np.dtype(self.kind).itemsize * math.prod(self.shape)


def _arrays(layouts: Sequence[Layout], data: bytes, count: int | None = None) -> Arrays:
    """The arrays that follow one another in ``data``, as views: whole, or those of ``count`` agents."""
    arrays: Arrays = {}
    offset = 0
    for layout in layouts:
        shape = layout.shape if count is None else (count, *layout.shape)
        arrays[layout.name] = np.frombuffer(data, layout.kind, math.prod(shape), offset).reshape(shape)
        offset += arrays[layout.name].nbytes
    return arrays


class Block(NamedTuple):
    """The description of a file of consecutive agents."""

    start: int
    stop: int
    piece: int
    """The number of agents in each piece but the last."""
    sha256: list[str]
    """The SHA-256 of every piece."""

    @property
    def pieces(self) -> Iterator[tuple[int, int]]:
        """The first agent and the end of every piece."""
        return ((a, min(a + self.piece, self.stop)) for a in range(self.start, self.stop, self.piece))


class Manifest(NamedTuple):
    """The content of a checkpoint's manifest."""

    path: Path
    arrays: list[Layout]
    common: list[Layout]
    common_sha256: str
    blocks: list[Block]
    facts: dict[str, Any]
    """The facts that the writer added."""

    @property
    def n_agents(self) -> int:
        """The number of agents in the blocks."""
        return self.blocks[-1].stop if self.blocks else 0


def kept(root: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted((path for path in root.iterdir() if _NAME.fullmatch(path.name)), key=lambda path: -int(path.name))
    return []


def clear(root: Path) -> None:
    """Remove the checkpoints in a folder, and the folder unless something else is in it."""
    _sweep(root)
    for path in kept(root):
        shutil.rmtree(path)
    with contextlib.suppress(OSError):
        root.rmdir()


def _sweep(root: Path) -> None:
    """Remove what checkpoints that were not finished, or not removed whole, have left in a folder."""
    for stale in root.glob(".[0-9]*.part"):
        shutil.rmtree(stale, ignore_errors=True)


def found(given: str | os.PathLike[str]) -> list[Path]:
    """The checkpoints of a run's folder, of its folder of checkpoints, or a checkpoint itself, the newest first; a ValueError if
    there is none."""
    path = Path(given)
    paths = kept(path / FOLDER) or kept(path)
    if not paths and path.is_dir() and ((path / MANIFEST).exists() or _NAME.fullmatch(path.name)):
        paths = [path]
    if not paths:
        what = (
            "holds no checkpoint: was the run given checkpoint_every (in Python checkpoints)?"
            if path.is_dir()
            else "is not a folder"
        )
        raise ValueError(f"cannot resume: {path} {what}")
    return paths


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
    digests: list[str] = []
    piece = max(1, PIECE_BYTES // max(1, sum(array[:1].nbytes for array in arrays.values())))
    try:
        with collective.together():
            canonical = {name: _canonical(name, array) for name, array in arrays.items()}
            if collective.rank == 0:
                root.mkdir(parents=True, exist_ok=True)
                _sweep(root)
                part.mkdir()
        block = Block(agents.start, agents.stop, piece, digests)
        with collective.together(), _new(part / _block_name(collective.rank)) as file:
            for a, b in block.pieces:
                digests.append(_append(file, [array[a - agents.start : b - agents.start] for array in canonical.values()]))
        blocks = [json.loads(text) for text in collective.everyone(json.dumps(block).encode())]
        with collective.together():
            if collective.rank == 0:
                layouts = [Layout(name, array.dtype.str, array.shape[1:]) for name, array in canonical.items()]
                _finish(part, layouts, common, {**facts, "blocks": [block for block in blocks if block[0] < block[1]]})
                for other in kept(root):
                    if int(other.name) >= iteration:
                        _remove(other)
                part.rename(path)
                for other in kept(root)[keep:]:
                    _remove(other)
                _sync(root)
    except (OSError, ValueError, TypeError) as error:
        if collective.rank == 0:
            shutil.rmtree(part, ignore_errors=True)
        last = "; ".join(f"the last good one is {path}" for path in kept(root)[:1])
        raise CheckpointError(
            f"cannot write the checkpoint of iteration {iteration}: {words(error)}{last and '; '}{last}"
        ) from error
    return path


def _finish(part: Path, layouts: list[Layout], common: Arrays, facts: Mapping[str, Any]) -> None:
    """Write the files of rank 0, the manifest last."""
    canonical = {name: _canonical(name, array) for name, array in common.items()}
    commons = [Layout(name, array.dtype.str, array.shape) for name, array in canonical.items()]
    with _new(part / COMMON) as file:
        digest = _append(file, canonical.values())
    body = {**facts, "arrays": layouts, "common": commons, "common_sha256": digest}
    body = json.loads(json.dumps(body))  # as it is read: keys are text
    whole = {"format": FORMAT, "version": VERSION, "sha256": _digest(body), "checkpoint": body}
    with _new(part / MANIFEST) as file:
        file.write(f"{json.dumps(whole, indent=1)}\n".encode())
    _sync(part)


def _remove(path: Path) -> None:
    """Rename a checkpoint, then delete it, so that it is never seen in part; the next write deletes any remains."""
    aside = path.with_name(f".{path.name}.removed.part")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _append(file: IO[bytes], arrays: Iterable[NDArray[Any]]) -> str:
    """Write arrays one after the other; the SHA-256 of them all."""
    hashed = hashlib.sha256()
    for array in arrays:
        data = array.reshape(-1).view(np.uint8).data
        hashed.update(data)
        file.write(data)
    return hashed.hexdigest()


def _canonical(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in the byte order and layout of the file."""
    kind = array.dtype.newbyteorder("<")
    if kind.str not in KINDS:
        raise ValueError(f"a checkpoint cannot hold {name} of type {array.dtype}; it holds {', '.join(KINDS)}")
    return np.ascontiguousarray(array, dtype=kind)


@contextlib.contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file, and flush it to the disk before it is closed."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Flush the names in a folder to the disk; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _block_name(number: int) -> str:
    return f"block-{number:05d}.bin"


def _digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def words(error: Exception) -> str:
    """The reason of an error, for a message about a file."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return str(error)


def limited(path: Path, most: int) -> bytes:
    """The content of a regular file of at most ``most`` bytes, else a ValueError; no more than that is read."""
    if (size := _size(path)) > most:
        raise ValueError(f"{path.name} has {size} bytes, more than the {most} that it may have")
    with path.open("rb") as file:
        return file.read(size)


def _size(path: Path) -> int:
    """The bytes of a regular file; a FIFO would block its reader, and a device might never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name} is not a regular file")
    return status.st_size


def parsed(path: Path, raw: bytes) -> Manifest:
    """The manifest of a checkpoint from its bytes; a ValueError if they are damaged, or of another version."""
    try:
        try:
            whole = json.loads(raw)
        except ValueError as error:
            raise ValueError(f"{MANIFEST} is not well-formed JSON: {str(error)[:200]}") from None
        if not isinstance(whole, dict) or whole.get("format") != FORMAT:
            raise ValueError(f"{MANIFEST} is not that of a {FORMAT}")
        if whole.get("version") != VERSION:
            raise ValueError(f"its format version is {whole.get('version')!s:.20}, and this decentorth reads version {VERSION}")
        body: Any = whole.get("checkpoint")
        if whole.get("sha256") != _digest(body):
            raise ValueError(f"{MANIFEST} does not have the checksum it names")
        layouts, common = ([_layout(entry) for entry in body.pop(key)] for key in ("arrays", "common"))
        blocks = [_block(entry) for entry in body.pop("blocks")]
        if [block.start for block in blocks] != [0, *(block.stop for block in blocks)][: len(blocks)]:
            raise ValueError("its blocks do not hold agents in order")
        return Manifest(path, layouts, common, str(body.pop("common_sha256")), blocks, body)
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} does not describe a checkpoint: {type(error).__name__} {str(error)[:200]}") from None


def _layout(entry: Any) -> Layout:
    name, kind, shape = entry
    if kind not in KINDS or not all(counted(length) for length in shape):
        raise ValueError(f"no array is {str(entry)[:100]}")
    return Layout(str(name), kind, tuple(shape))


def counted(value: Any) -> bool:
    """True if ``value`` is a possible count: a non-negative integer below 2^63."""
    return type(value) is int and 0 <= value < 2**63


def _block(entry: Any) -> Block:
    start, stop, piece, digests = entry
    if not all(counted(number) for number in (start, stop, piece)) or not start < stop or piece < 1:
        raise ValueError(f"no block is {str(entry)[:100]}")
    if len(digests) != -(-(stop - start) // piece):
        raise ValueError(f"agents {start} to {stop - 1} in pieces of {piece} do not make {len(digests)} checksums")
    return Block(start, stop, piece, [str(digest) for digest in digests])


def read_manifest(path: Path, collective: Collective) -> Manifest:
    """The manifest of a checkpoint, read by rank 0 for every rank; a `DamagedError` on every rank if that cannot be done."""
    raw = on_all(collective, lambda: limited(path / MANIFEST, MANIFEST_BYTES) if collective.rank == 0 else b"", DamagedError)
    whole = collective.everyone(raw)[0]
    return on_all(collective, lambda: parsed(path, whole), DamagedError)


def read_common(manifest: Manifest, collective: Collective) -> Arrays:
    """The arrays common to all agents, read by rank 0 for every rank; a `DamagedError` on every rank if that cannot be done."""

    def read() -> bytes:
        if collective.rank > 0:
            return b""
        size = _sized(manifest.path / COMMON, manifest.common, 1)
        with (manifest.path / COMMON).open("rb") as file:
            return _read(file, 0, size, manifest.common_sha256)

    return _arrays(manifest.common, collective.everyone(on_all(collective, read, DamagedError))[0])


def read_agents(manifest: Manifest, n_agents: int, agents: slice) -> Arrays:
    """The arrays ``(n_local, ...)`` of ``agents``; pieces without any of them are not read. A ValueError or OSError if files with
    these agents are damaged, or differ from the manifest's description."""
    if manifest.n_agents != n_agents:
        raise ValueError(f"its blocks hold {manifest.n_agents} agents instead of {n_agents}")
    mine = [
        (block, manifest.path / _block_name(number))
        for number, block in enumerate(manifest.blocks)
        if block.start < agents.stop and agents.start < block.stop
    ]
    for block, path in mine:
        _sized(path, manifest.arrays, block.stop - block.start)
    arrays = {layout.name: np.empty((agents.stop - agents.start, *layout.shape), layout.kind) for layout in manifest.arrays}
    agent_bytes = sum(layout.nbytes for layout in manifest.arrays)
    for block, path in mine:
        with path.open("rb") as file:
            for (a, b), digest in zip(block.pieces, block.sha256, strict=True):
                low, high = max(a, agents.start), min(b, agents.stop)
                if low < high:
                    data = _read(file, (a - block.start) * agent_bytes, (b - a) * agent_bytes, digest)
                    for name, piece in _arrays(manifest.arrays, data, b - a).items():
                        arrays[name][low - agents.start : high - agents.start] = piece[low - a : high - a]
    return arrays


def held(manifest: Manifest) -> int:
    """The number of agents of a checkpoint; a ValueError or OSError if its files, which are not read, have other sizes."""
    for number, block in enumerate(manifest.blocks):
        if not _sized(manifest.path / _block_name(number), manifest.arrays, block.stop - block.start):
            raise ValueError(f"{MANIFEST} names no array of an agent's own")
    _sized(manifest.path / COMMON, manifest.common, 1)
    return manifest.n_agents


def _sized(path: Path, layouts: Sequence[Layout], count: int) -> int:
    """The bytes of ``count`` times these arrays; raise unless the file has that size."""
    expected, size = count * sum(layout.nbytes for layout in layouts), _size(path)
    if size != expected:
        raise ValueError(f"{path.name} has {size} bytes instead of {expected}")
    return expected


def _read(file: IO[bytes], offset: int, size: int, sha256: str) -> bytes:
    """``size`` bytes from ``offset`` on; raise unless they have that checksum."""
    file.seek(offset)
    data = file.read(size)
    if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
        place = f"bytes {offset} to {offset + size}"
        raise ValueError(f"{Path(file.name).name} is damaged: {place} do not have the checksum in {MANIFEST}")
    return data
