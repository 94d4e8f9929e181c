"""Logs of the versions that agents used, and their file; agents' checkpoints.

An activation's entry is the version of each in-edge in order, an int64 word. The file is one line
of JSON, the header, and then the logs of all agents in their order. An agent's checkpoint is a
header and int64 words.

Nothing in a file is executed, and sizes, the SHA-256 and the versions are checked before anything
is computed from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decentorth.protocols import Index

from .agent import AsynchronousAgent
from .schedule import Graph, repeated

_HEADER_BYTES = 1 << 20
_FORMATS = {"log": 2, "agent": 1}
"""The number of the present format of each kind of file."""
_BEGINNING = b'{"decentorth log": '


PathLike = str | os.PathLike[str]
Header = Mapping[str, Any]


class Recorded(NamedTuple):
    """A log that was read."""

    header: Header
    logs: tuple[bytes, ...]


def decoded(log: bytes, activations: int, degree: int, last: Sequence[int]) -> Index:
    """The versions ``(activations, degree)`` of an agent's log.

    A ValueError for another number of entries, or versions that fall, or are beyond ``last``, which
    each in-neighbour sent last.
    """
    if len(log) != 8 * activations * degree:
        raise ValueError(f"{len(log)} bytes cannot be {activations} rows of {degree} versions")
    versions = np.frombuffer(log, "<i8").astype(np.int64).reshape(activations, degree)
    if (np.diff(versions, axis=0, prepend=0) < 0).any() or (versions > np.array(last)).any():
        raise ValueError("a version is used that was never sent")
    return versions


def check_place(path: str) -> None:
    """Raise an OSError unless a log can be written to ``path``, or a ValueError where something is
    there that is no log."""
    if Path(path).is_dir():
        raise ValueError(f"log must be a file, and {path} is a folder")
    if os.path.lexists(path) and not _is_log(path):
        raise ValueError(
            f"{path} exists and is no log, and would be replaced: give another name for the log"
        )
    _part(path).write_bytes(b"")
    _part(path).unlink()


def _is_log(path: str) -> bool:
    """True if the file begins as a log does."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


def write(path: str, body: bytes, header: Header, kind: str = "log") -> None:
    """Write all agents' logs, or another kind of file, under a temporary name that is then
    changed."""
    digest = hashlib.sha256(body).hexdigest()
    facts = {f"decentorth {kind}": _FORMATS[kind], **header, "sha256": digest}
    part = _part(path)
    try:
        with part.open("wb") as file:
            file.write(json.dumps(facts).encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _part(path: str) -> Path:
    """The temporary name of a file, which no file of the user has."""
    return Path(path).with_name(f".{Path(path).name}.{os.getpid()}.part")


def _read(
    path: PathLike, kind: str, what: str, sizes: Callable[[Header], int]
) -> tuple[Header, bytes]:
    """The header and the body of a file, whose size is the sum of ``sizes(header)``; raises as
    `read` does."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is not a regular file")
    with open(path, "rb") as file:
        line = file.readline(_HEADER_BYTES)
        try:
            header = json.loads(line)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or header.get(f"decentorth {kind}") != _FORMATS[kind]:
            raise ValueError(f"{path} is no {what}")
        body = os.fstat(file.fileno()).st_size - len(line)
        if sizes(header) != body:
            raise ValueError(
                f"{path} is damaged: it has {body} bytes after its header, which does not fit "
                "the header"
            )
        content = file.read(body)
    if hashlib.sha256(content).hexdigest() != header.get("sha256"):
        raise ValueError(f"{path} is damaged: its SHA-256 is not that of its header")
    return header, content


def read(path: PathLike) -> Recorded:
    """The header and the agents' logs of a file; a ValueError if it is no log, or damaged."""

    def size(header: Header) -> int:
        counts = header.get("activations")
        sizes = header.get("bytes")
        for numbers in (counts, sizes):
            if not isinstance(numbers, list) or not all(type(k) is int and k >= 0 for k in numbers):
                return -1
        return sum(header["bytes"]) if len(header["activations"]) == len(header["bytes"]) else -1

    what = "log of an asynchronous run: give a file that the setting log has written"
    header, content = _read(path, "log", what, size)
    ends = [0, *accumulate(header["bytes"])]
    return Recorded(header, tuple(content[a:b] for a, b in pairwise(ends)))


def write_agent(folder: Path, agent: AsynchronousAgent) -> None:
    """Write an agent's checkpoint into the folder, in place of its last one; an OSError if that
    cannot be done."""
    folder.mkdir(exist_ok=True)
    body = agent.checkpoint().astype("<i8").tobytes()
    write(str(folder / f"agent-{agent.number:05d}"), body, _agent(agent), "agent")


def read_agent(folder: Path, agent: AsynchronousAgent) -> Index | None:
    """The checkpoint of an agent in the folder, None without one; a ValueError if it is damaged, or
    of another agent or run."""
    path = folder / f"agent-{agent.number:05d}"
    size = 8 * len(agent.checkpoint())
    if not path.exists():
        return None
    try:
        header, content = _read(path, "agent", "checkpoint of an agent", lambda header: size)
        if {name: header.get(name) for name in _agent(agent)} != _agent(agent):
            raise ValueError(f"{path} belongs to another agent or run")
    except ValueError as error:
        raise ValueError(
            f"{error}: remove it, and this agent starts again from the beginning of the run"
        ) from None
    return np.frombuffer(content, "<i8").astype(np.int64)


def _agent(agent: AsynchronousAgent) -> dict[str, Any]:
    return {"agent": agent.number, "quantum": agent.unit, "neighbours": [agent.ins, agent.outs]}


@lru_cache(maxsize=1)
def versions(path: str, graph: Graph) -> list[Index]:
    """The versions ``(activations, in-degree)`` that each agent used by the log at ``path``.

    A ValueError if it is no log, damaged, or does not fit the graph, so that no order of
    activations can use its versions.
    """
    recorded = read(path)
    counts = recorded.header["activations"]
    if len(counts) != len(graph.ins):
        raise ValueError(f"{path} is a log of {len(counts)} agents, but there are {len(graph.ins)}")
    found = []
    for agent, (log, count, ins) in enumerate(zip(recorded.logs, counts, graph.ins, strict=True)):
        try:
            found.append(decoded(log, count, len(ins), [counts[j] for j in ins]))
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged, or of another graph: in the log of agent {agent}, {error}"
            ) from None
    try:
        for _ in repeated(graph, found):
            pass
    except ValueError as error:
        raise ValueError(f"{path} is damaged, or of another graph: {error}") from None
    return found
