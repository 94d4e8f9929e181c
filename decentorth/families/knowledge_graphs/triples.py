"""Knowledge graphs from files: one triple (head, relation, tail) of names per line, separated by
tabs, as in FB15k and WN18RR.

A single file has all triples. A folder has one file for each of ``train``, ``valid`` and ``test``,
whose name is that word, or ends with it after ``-``, ``_`` or ``.``, before the extension ``.txt``
or ``.tsv`` (``train.txt``, ``freebase_mtr100_mte100-train.txt``); only ``train`` is required. Blank
lines are ignored; names may hold anything but tabs and line ends.

Files of OpenKE are recognised by their first line, the number of the triples; they may be called
``train2id.txt`` and so on, and must begin with that number then. In them a triple is head, *tail*,
relation: three whole numbers, separated by blanks or tabs.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from decentorth.protocols import Index
from topologies.line.matrix_files import regular_size, require_existing

Names: TypeAlias = tuple[str, ...]
Numbers: TypeAlias = dict[str, int]
PARTS = ("train", "valid", "test")
_SHOWN = 60
_DIGITS = 18
"""The most digits of a number in OpenKE's files."""


class Triples(NamedTuple):
    """A knowledge graph: each part ``(N, 3)`` numbers of head, relation and tail, in the order of
    the lines.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from decentorth.data import load_triples
    >>> path = Path(tempfile.mkdtemp(), "train.tsv")
    >>> length = path.write_text("ada\\tknows\\tbob")
    >>> triples = load_triples(path)
    >>> triples.entities, triples.relations, triples.train.shape
    (('ada', 'bob'), ('knows',), (1, 3))
    """

    train: Index
    valid: Index
    test: Index
    entities: tuple[str, ...]
    """The names of the entities, in the order of their first occurrence; OpenKE's numbers."""
    relations: tuple[str, ...]
    """The names of the relations, in the order of their first occurrence."""


def load_triples(path: str | os.PathLike[str]) -> Triples:
    """The knowledge graph at ``path``, a file (all of it ``train``) or a folder.

    A FileNotFoundError says that ``path`` does not exist, or the folder lacks ``train``; a
    ValueError has the number of a line that is not a triple, or says that there are two files for
    one part, a part without triples, or parts of different layouts.
    """
    place = Path(path).expanduser()
    require_existing(place, "file or folder")
    files = _parts(place) if place.is_dir() else {"train": place}
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    numbered = {name: _is_numbered(file) for name, file in files.items()}
    if len(set(numbered.values())) > 1:
        names = {kind: files[name].name for name, kind in numbered.items()}
        raise ValueError(
            f"{place} mixes two layouts: {names[True]} is in OpenKE's, which begins with the "
            f"number of triples, and {names[False]} is not: give all parts in one"
        )
    found = dict.fromkeys(PARTS, np.empty((0, 3), dtype=np.int64))
    for part, file in files.items():
        lines = _numbered(file) if numbered[part] else _named(file)
        found[part] = _read(file, lines, entities, relations)
    train, valid, test = found.values()
    return Triples(train, valid, test, tuple(entities), tuple(relations))


def _parts(folder: Path) -> dict[str, Path]:
    """The file of each part in the folder."""
    names = sorted(other.name for other in folder.iterdir() if other.is_file())
    files: dict[str, Path] = {}
    for part in PARTS:
        form = re.compile(rf"(.*[-_.])?{part}(2id)?\.(txt|tsv)")
        fitting = list(filter(form.fullmatch, names))
        if len(fitting) > 1:
            several = " and ".join(fitting)
            raise ValueError(
                f"{folder} has more than one file of {part} triples, {several}: leave one"
            )
        if fitting:
            files[part] = folder / fitting[0]
    if "train" not in files:
        found = ", ".join(names) or "no file"
        raise FileNotFoundError(f"{folder} lacks train.txt or train.tsv, and holds {found}")
    return files


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The numbers and texts of the lines that are not blank."""
    regular_size(file)
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\r\n")
            if text.strip():
                yield number, text


def _shown(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _is_numbered(file: Path) -> bool:
    """True for OpenKE's layout: the first line is one whole number, or must be by the name of the
    file."""
    first = next(_lines(file), (1, ""))[1]
    return file.stem.endswith("2id") or _whole(first.strip())


def _whole(text: str) -> bool:
    return re.fullmatch(rf"[0-9]{{1,{_DIGITS}}}", text) is not None


def _read(file: Path, lines: Iterator[Names], entities: Numbers, relations: Numbers) -> Index:
    """``(N, 3)``: the triples in the lines of a file; new names get the next numbers."""
    numbers = array("q")
    for head, relation, tail in lines:
        numbers.append(entities.setdefault(head, len(entities)))
        numbers.append(relations.setdefault(relation, len(relations)))
        numbers.append(entities.setdefault(tail, len(entities)))
    if not numbers:
        raise ValueError(f"{file} is empty: it holds no triples")
    return np.array(numbers, dtype=np.int64).reshape(-1, 3)


def _named(file: Path) -> Iterator[Names]:
    """The names of head, relation and tail in each line."""
    for number, text in _lines(file):
        fields = text.split("\t")
        if len(fields) != 3 or not all(field.strip() for field in fields):
            raise ValueError(
                f"{file}: line {number} must hold a head, a relation and a tail, separated by "
                f"two tabs, but is {_shown(text)}"
            )
        yield tuple(fields)


def _numbered(file: Path) -> Iterator[Names]:
    """The numbers of head, relation and tail in each line of a file in OpenKE's layout."""
    for number, text in _counted(file):
        fields = text.split()
        if len(fields) != 3 or not all(map(_whole, fields)):
            raise ValueError(
                f"{file}: line {number} must hold the numbers of a head, a tail and a relation, in "
                f"the order of OpenKE, but is {_shown(text)}"
            )
        head, tail, relation = (str(int(field)) for field in fields)
        yield head, relation, tail


def _counted(file: Path) -> Iterator[tuple[int, str]]:
    """The lines after the first, whose number is the first line."""
    lines = _lines(file)
    _, first = next(lines, (1, ""))
    if not _whole(first.strip()):
        raise ValueError(
            f"{file}: line 1 must be the number of the lines below it, but is {_shown(first)}"
        )
    read = 0
    for line in lines:
        read += 1
        yield line
    if read != int(first):
        raise ValueError(
            f"{file} says that {int(first)} lines follow its first line, but {read} do: is it cut "
            "off?"
        )
