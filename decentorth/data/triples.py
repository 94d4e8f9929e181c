"""Knowledge graphs from files: one triple (head, relation, tail) of names per line, separated by tabs, as in FB15k and WN18RR.

A single file has all triples. A folder has one file for each of ``train``, ``valid`` and ``test``, whose name is that word,
or ends with it after ``-``, ``_`` or ``.``, before the extension ``.txt`` or ``.tsv`` (``train.txt``,
``freebase_mtr100_mte100-train.txt``); only ``train`` is required. Blank lines are ignored; names may hold anything but tabs
and line ends.
"""

from __future__ import annotations

import os
import re
from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decentorth.data.checks import did_you_mean
from decentorth.protocols import Index
from topologies.matrix_files import regular_size

PARTS = ("train", "valid", "test")
_SHOWN = 60


class Triples(NamedTuple):
    """A knowledge graph: each part ``(N, 3)`` numbers of head, relation and tail, in the order of the lines."""

    train: Index
    valid: Index
    test: Index
    entities: tuple[str, ...]
    """The names of the entities, in the order of their first occurrence."""
    relations: tuple[str, ...]
    """The names of the relations, in the order of their first occurrence."""


def load_triples(path: str | os.PathLike[str]) -> Triples:
    """The knowledge graph at ``path``, a file (all of it ``train``) or a folder.

    A FileNotFoundError says that ``path`` does not exist, or the folder has no ``train``; a ValueError has the number of a line
    that is not a triple, or says that there are two files for one part, or a part without triples.
    """
    place = Path(path).expanduser()
    if not place.exists():
        near = did_you_mean(place.name, (other.name for other in place.parent.iterdir())) if place.parent.is_dir() else ""
        raise FileNotFoundError(f"no such file or folder: {place}{near}, seen from {Path.cwd()}")
    files = _parts(place) if place.is_dir() else {"train": place}
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    train, valid, test = (
        _read(files[part], entities, relations) if part in files else np.empty((0, 3), dtype=np.int64) for part in PARTS
    )
    return Triples(train, valid, test, tuple(entities), tuple(relations))


def _parts(folder: Path) -> dict[str, Path]:
    """The file of each part in the folder."""
    names = sorted(other.name for other in folder.iterdir() if other.is_file())
    files: dict[str, Path] = {}
    for part in PARTS:
        fitting = [name for name in names if re.fullmatch(rf"(.*[-_.])?{part}\.(txt|tsv)", name)]
        if len(fitting) > 1:
            raise ValueError(f"{folder} has more than one file of {part} triples, {' and '.join(fitting)}: leave one")
        if fitting:
            files[part] = folder / fitting[0]
    if "train" not in files:
        raise FileNotFoundError(f"{folder} has no train.txt or train.tsv, but {', '.join(names) or 'no file'}")
    return files


def _read(file: Path, entities: dict[str, int], relations: dict[str, int]) -> Index:
    """``(N, 3)``: the triples of a file; new names get the next numbers."""
    regular_size(file)
    numbers = array("q")
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\r\n")
            if not text.strip():
                continue
            fields = text.split("\t")
            if len(fields) != 3 or not all(field.strip() for field in fields):
                shown = ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
                raise ValueError(
                    f"{file}: line {number} must hold a head, a relation and a tail, separated by two tabs, but is {shown}"
                )
            head, relation, tail = fields
            numbers.append(entities.setdefault(head, len(entities)))
            numbers.append(relations.setdefault(relation, len(relations)))
            numbers.append(entities.setdefault(tail, len(entities)))
    if not numbers:
        raise ValueError(f"{file} has no triple")
    return np.array(numbers, dtype=np.int64).reshape(-1, 3)
