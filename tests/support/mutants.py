"""Files damaged at random, and what becomes of a process that reads them.

A mutant is a file with one to four of its bytes, numbers or lines changed; which, follows from the
seed. The reader is called in a process of its own, which may take a gigabyte more than it has and
ten seconds of the processor for each mutant.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import re
import resource
import signal
import traceback
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decentorth.commands.line.shell import LONGEST, REFUSALS, one_line

MEMORY = 1 << 30  # bytes that a reader may have beside those of the process before
# for one mutant, which takes milliseconds; the second for readers that wait
PROCESSOR_SECONDS, SECONDS = 10.0, 120.0
Edit = Callable[[bytes, np.random.Generator], bytes]
Read = Callable[[Path], object]


class Seed(NamedTuple):
    name: str
    data: bytes
    edit: Edit


class Reader(NamedTuple):
    """What is called, and the files that it is called with."""

    read: Read
    seeds: tuple[Seed, ...]
    hostile: tuple[bytes, ...] = ()
    """Contents of further files with the first seed's name, which chance would not find."""
    beside: Mapping[str, bytes] = {}
    """Files as they should be, by name, beside which a mutant is read."""


class Counts(NamedTuple):
    """What became of the mutants of a reader."""

    mutants: int
    refused: int
    accepted: int
    failures: list[str]
    """The others: the mutant, and the exception or signal."""


TOKENS = [
    *b"0 -1 1 2 3 0x10 017 1e5 1e400 -1e308 nan NaN inf -inf 1.5abc 190:20:30 1_000 None null "
    b"true {} [] () ; : , \t".split(b" "),
    *b"&a *a !!int !!python/tuple << %YAML --- ... = == [[ ]] {{ ' \" ''' # % \\ \\x00 "
    b"\\U99999999 / ../ ~ @ | > ?".split(b" "),
    *b"\0 \xff\xfe \xef\xbb\xbf \n \n\n \r\n \xc2\xb2".split(b" "),
    *(
        str(number).encode()
        for number in (
            2**31 - 1,
            2**31,
            2**32,
            2**53,
            2**63 - 1,
            2**63,
            2**64,
            10**12,
            10**30,
            -(2**63),
        )
    ),
    b"9" * 5000,
    b"[" * 2000,
    b"{a: " * 500,
    b"(" * 300,
]
_NUMBER = re.compile(rb"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def edited(data: bytes, rng: np.random.Generator, most: int | None = None) -> bytes:
    """The bytes with one to four changes, of those before ``most``."""
    for _ in range(int(rng.integers(1, 5))):
        end = len(data) if most is None else min(most, len(data))
        data = _change(data, rng, end)
    return data


def header(data: bytes, rng: np.random.Generator) -> bytes:
    return edited(data, rng, 128 if rng.random() < 0.5 else None)


def lines(data: bytes, rng: np.random.Generator) -> bytes:
    if rng.random() < 0.5:
        return edited(data, rng)
    rows = data.split(b"\n")
    a, b = (int(place) for place in rng.integers(0, len(rows), 2))
    match int(rng.integers(0, 4)):
        case 0:
            rows[a], rows[b] = rows[b], rows[a]
        case 1:
            del rows[a]
        case 2:
            rows.insert(b, rows[a])
        case _:
            rows[a] = edited(rows[a], rng)
    return b"\n".join(rows)


def _change(data: bytes, rng: np.random.Generator, end: int) -> bytes:
    a, b = sorted(int(place) for place in rng.integers(0, end + 1, 2))
    token = TOKENS[int(rng.integers(0, len(TOKENS)))]
    match int(rng.integers(0, 8)):
        case 0 if end:
            a = min(a, end - 1)
            return data[:a] + bytes([data[a] ^ (1 << int(rng.integers(0, 8)))]) + data[a + 1 :]
        case 1 if end:
            return data[:a] + rng.bytes(min(8, end - a)) + data[min(a + 8, end) :]
        case 2:
            return data[:a] + data[min(b, a + 16) :]
        case 3:
            return data[:b] + data[a:b] + data[b:]
        case 4:
            return data[:b]
        case 5:
            return data[:a] + token + data[a:]
    numbers = list(_NUMBER.finditer(data, 0, end))
    if not numbers:
        return data[:a] + token + data[a:]
    found = numbers[int(rng.integers(0, len(numbers)))]
    return data[: found.start()] + token + data[found.end() :]


def zipped(edit: Edit) -> Edit:
    """Every second time by ``edit`` of a file in a zip archive, which is then as whole as
    before."""

    def edit_member(data: bytes, rng: np.random.Generator) -> bytes:
        if rng.random() < 0.5:
            return edited(data, rng)
        target = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as changed:
            names = source.namelist()
            chosen = names[int(rng.integers(0, len(names)))]
            for name in names:
                changed.writestr(
                    name, edit(source.read(name), rng) if name == chosen else source.read(name)
                )
        return target.getvalue()

    return edit_member


def compressed(edit: Edit) -> Edit:
    def edit_content(data: bytes, rng: np.random.Generator) -> bytes:
        if rng.random() < 0.5:
            return edited(data, rng)
        return gzip.compress(edit(gzip.decompress(data), rng), 1, mtime=0)

    return edit_content


def tried(reader: Reader, count: int, seed: Sequence[int], folder: Path) -> Counts:
    """What becomes of ``count`` mutants of the seeds in turn, each read in ``folder``.

    The process that reads them is begun again only where one of them ends it. AssertionError: a
    file as it should be is refused.
    """
    cases = [(reader.seeds[0].name, content) for content in reader.hostile]
    for number in range(count):
        name, data, edit = reader.seeds[number % len(reader.seeds)]
        cases.append((name, edit(data, np.random.default_rng([*seed, number]))))
    outcomes: list[str] = []
    while len(outcomes) < len(cases):
        outcomes += _forked(reader, cases, len(outcomes), folder)
    told = [
        f"{number} ({name}): {outcome}"
        for number, ((name, _), outcome) in enumerate(zip(cases, outcomes, strict=True))
    ]
    failures = [line for line in told if not line.endswith((": refused", ": accepted"))]
    return Counts(len(cases), outcomes.count("refused"), outcomes.count("accepted"), failures)


def _forked(
    reader: Reader, cases: Sequence[tuple[str, bytes]], first: int, folder: Path
) -> list[str]:
    """The outcomes of the cases from ``first`` on, up to the one that ended the process that read
    them."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        with open(sink, "w", buffering=1) as told:
            _child(reader, cases, first, folder, told)
        os._exit(0)
    os.close(sink)
    with open(source) as heard:
        outcomes = [json.loads(line) for line in heard]
    _, status = os.waitpid(child, 0)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if first == 0 and outcomes[:1] != ["ready"]:
        raise AssertionError(
            f"a file as it should be was refused: {outcomes[:1] or signal.Signals(number).name}"
        )
    if number:
        outcomes.append(
            "hang" if number in (signal.SIGPROF, signal.SIGALRM) else signal.Signals(number).name
        )
    return outcomes[1:]


def _child(
    reader: Reader, cases: Sequence[tuple[str, bytes]], first: int, folder: Path, told: Any
) -> None:
    """Read the cases, and tell of each what became of it."""

    def tell(outcome: str) -> None:
        told.write(json.dumps(outcome) + "\n")

    warnings.simplefilter("error")  # a command would print a warning on a line of its own
    warnings.simplefilter("ignore", ResourceWarning)
    warnings.filterwarnings("ignore", ".*a column without a name is left out", UserWarning)
    logging.disable()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for seed in reader.seeds:
        outcome = _outcome(reader, folder, seed.name, seed.data)
        if outcome != "accepted":
            return tell(f"{seed.name}: {outcome}")
    tell("ready")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, data in cases[first:]:
        tell(_outcome(reader, folder, name, data))
    return None


def _outcome(reader: Reader, folder: Path, name: str, data: bytes) -> str:
    for place, content in {**reader.beside, name: data}.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        reader.read(folder / name)
    except REFUSALS as error:
        meant = isinstance(error, ValueError | OSError) or _raised(error)
        return "refused" if meant and len(one_line(error)) <= LONGEST else _words(error)
    except Exception as error:
        return _words(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return "accepted"


def _raised(error: BaseException) -> bool:
    return str(traceback.extract_tb(error.__traceback__)[-1].line).startswith("raise ")


def _words(error: BaseException) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}: {str(error)[:120]} ({Path(place.filename).name}:{place.lineno})"
    )
