"""Knowledge graphs from files: one triple (head, relation, tail) of names per line, separated by tabs, as in FB15k and WN18RR.

A single file has all triples. A folder has one file for each of ``train``, ``valid`` and ``test``, whose name is that word,
or ends with it after ``-``, ``_`` or ``.``, before the extension ``.txt`` or ``.tsv`` (``train.txt``,
``freebase_mtr100_mte100-train.txt``); only ``train`` is required. Blank lines are ignored; names may hold anything but tabs
and line ends.

Files of OpenKE are recognised by their first line, the number of the triples; they may be called ``train2id.txt`` and so on, and
must begin with that number then. In them a triple is head, *tail*, relation: three whole numbers, separated by blanks or tabs.
``entity2id.txt`` and ``relation2id.txt`` beside them hold the number of their lines, then lines of a name and its number.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decentorth.protocols import Index
from topologies.matrix_files import regular_size, require_existing

PARTS = ("train", "valid", "test")
_SHOWN = 60
_DIGITS = 18
"""The most digits of a number in OpenKE's files."""


class Triples(NamedTuple):
    """A knowledge graph: each part ``(N, 3)`` numbers of head, relation and tail, in the order of the lines.

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
    """The names of the entities, in the order of their first occurrence; OpenKE's numbers where it gives no names."""
    relations: tuple[str, ...]
    """The names of the relations, in the order of their first occurrence."""


def load_triples(path: str | os.PathLike[str]) -> Triples:
    """The knowledge graph at ``path``, a file (all of it ``train``) or a folder.

    A FileNotFoundError says that ``path`` does not exist, or the folder lacks ``train``; a ValueError has the number of a line
    that is not a triple, or says that there are two files for one part, a part without triples, or parts of different layouts.
    """
    place = Path(path).expanduser()
    require_existing(place, "file or folder")
    files = _parts(place) if place.is_dir() else {"train": place}
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    numbered = {name: _is_numbered(file) for name, file in files.items()}
    if len(set(numbered.values())) > 1:
        first, second = (next(files[name].name for name in files if numbered[name] is kind) for kind in (True, False))
        raise ValueError(
            f"{place} mixes two layouts: {first} is in OpenKE's, which begins with the number of triples, and {second} is not: "
            "give all parts in one"
        )
    train, valid, test = (
        _read(files[part], numbered[part], entities, relations) if part in files else np.empty((0, 3), dtype=np.int64)
        for part in PARTS
    )
    return Triples(train, valid, test, tuple(entities), tuple(relations))


def _parts(folder: Path) -> dict[str, Path]:
    """The file of each part in the folder."""
    names = sorted(other.name for other in folder.iterdir() if other.is_file())
    files: dict[str, Path] = {}
    for part in PARTS:
        fitting = [name for name in names if re.fullmatch(rf"(.*[-_.])?{part}(2id)?\.(txt|tsv)", name)]
        if len(fitting) > 1:
            raise ValueError(f"{folder} has more than one file of {part} triples, {' and '.join(fitting)}: leave one")
        if fitting:
            files[part] = folder / fitting[0]
    if "train" not in files:
        raise FileNotFoundError(f"{folder} lacks train.txt or train.tsv, and holds {', '.join(names) or 'no file'}")
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
    """True for OpenKE's layout: the first line is one whole number, or must be by the name of the file."""
    return file.stem.endswith("2id") or next((_whole(text.strip()) for _, text in _lines(file)), False)


def _whole(text: str) -> bool:
    return len(text) <= _DIGITS and text.isascii() and text.isdecimal()


def _read(file: Path, is_numbered: bool, entities: dict[str, int], relations: dict[str, int]) -> Index:
    """``(N, 3)``: the triples of a file; new names get the next numbers."""
    numbers = array("q")
    for head, relation, tail in _numbered(file) if is_numbered else _named(file):
        numbers.append(entities.setdefault(head, len(entities)))
        numbers.append(relations.setdefault(relation, len(relations)))
        numbers.append(entities.setdefault(tail, len(entities)))
    if not numbers:
        raise ValueError(f"{file} is empty: it holds no triples")
    return np.array(numbers, dtype=np.int64).reshape(-1, 3)


def _named(file: Path) -> Iterator[tuple[str, ...]]:
    """The names of head, relation and tail in each line."""
    for number, text in _lines(file):
        fields = text.split("\t")
        if len(fields) != 3 or not all(field.strip() for field in fields):
            raise ValueError(
                f"{file}: line {number} must hold a head, a relation and a tail, separated by two tabs, but is {_shown(text)}"
            )
        yield tuple(fields)


def _numbered(file: Path) -> Iterator[tuple[str, ...]]:
    """The names of head, relation and tail in each line of a file in OpenKE's layout."""
    entities, relations = (_names(file.with_name(f"{kind}2id.txt")) for kind in ("entity", "relation"))
    for number, text in _counted(file):
        fields = text.split()
        if len(fields) != 3 or not all(_whole(field) for field in fields):
            raise ValueError(
                f"{file}: line {number} must hold the numbers of a head, a tail and a relation, in the order of OpenKE, but is "
                f"{_shown(text)}"
            )
        head, tail, relation = (str(int(field)) for field in fields)
        for kind, one, names in (("entity", head, entities), ("entity", tail, entities), ("relation", relation, relations)):
            if names and one not in names:
                raise ValueError(
                    f"{file}: line {number} has {kind} {one}, which {kind}2id.txt does not have: check the order of columns"
                )
        yield entities.get(head, head), relations.get(relation, relation), entities.get(tail, tail)


def _names(file: Path) -> Mapping[str, str]:
    """The names by number in a file of OpenKE; none without the file."""
    found: dict[str, str] = {}
    if not file.exists():
        return found
    for number, text in _counted(file):
        name, *last = text.rsplit(maxsplit=1)
        if not last or not _whole(last[0]) or str(int(last[0])) in found:
            raise ValueError(f"{file}: line {number} must hold a name and a number of its own, but is {_shown(text)}")
        found[str(int(last[0]))] = name
    if len(set(found.values())) < len(found):
        raise ValueError(f"{file} has a name twice: give each number a name of its own")
    return found


def _counted(file: Path) -> Iterator[tuple[int, str]]:
    """The lines after the first, whose number is the first line."""
    lines = _lines(file)
    _, first = next(lines, (1, ""))
    if not _whole(first.strip()):
        raise ValueError(f"{file}: line 1 must be the number of the lines below it, but is {_shown(first)}")
    read = 0
    for line in lines:
        read += 1
        yield line
    if read != int(first):
        raise ValueError(f"{file} says that {int(first)} lines follow its first line, but {read} do: is it cut off?")
