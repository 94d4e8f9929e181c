"""Matrices in MATLAB's ``.mat`` files: version 4 through SciPy, versions 5 to 7 read here.

For versions 5 to 7 SciPy's reader ends the process by a segmentation fault where the column starts of a sparse matrix are damaged,
and takes as much memory as a compressed variable says that it needs. The layout is that of MATLAB's "MAT-File Format", chapter 1.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import io, sparse
from scipy.io import matlab

from decentorth.data.labels import Labels, as_labels
from decentorth.data.sparse import StoredReader
from topologies.matrix_files import (
    EXPANSION,
    UNPACKED_LIMIT,
    Stored,
    require_matrix,
    require_real,
    require_starts,
    require_unpacked,
)
from topologies.words import suggestion

_CLASSES = dict(enumerate("sparse double single int8 uint8 int16 uint16 int32 uint32 int64 uint64".split(), 5))
_NUMBERS = frozenset(_CLASSES.values())
_SHOWN = 20
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_BYTES, _MATRIX, _COMPRESSED = 2, 14, 15
_COMPLEX, _LOGICAL = 0x800, 0x200
_START = 2**12
"""The most bytes that the flags, the dimensions and the name of a variable may take."""


class MatReader(StoredReader):
    """One matrix of a ``.mat`` file: the only one of numbers, or the one named by ``key``."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        super().__init__(path)
        self.key = key

    @cached_property
    def _file(self) -> memoryview | None:
        """The bytes of a file of version 5 to 7, mapped into memory; None for another version."""
        return np.memmap(self.path, np.uint8, "r").data if matlab.matfile_version(str(self.path))[0] == 1 else None

    @cached_property
    def _chosen(self) -> tuple[int, str, tuple[int, ...], str]:
        """The place of the matrix among the file's variables, its name, its shape and its class."""
        try:
            listed = list(io.whosmat(str(self.path)) if self._file is None else _listed(self._file))
        except NotImplementedError:  # SciPy's answer to version 7.3
            raise ValueError(
                f"{self.path} is of version 7.3, which is not read: save it in MATLAB by save('{self.path.name}', 'A', '-v7')"
            ) from None
        except Exception as error:  # SciPy's reader has many ways to fail on a damaged file
            raise self._damaged(error) from error
        names = [name for name, _, kind in listed if kind in _NUMBERS]
        words = ", ".join([*map(repr, names[:_SHOWN]), *(["..."] if len(names) > _SHOWN else [])]) or "none"
        if self.key is not None and self.key not in names:
            raise ValueError(
                f"{self.path} holds no matrix {self.key!r}{suggestion(self.key, names) or ';'} its matrices are {words}"
            )
        if self.key is None and len(names) != 1:
            choice = f": choose one, as in {self.path}:{names[0]}" if names else ""
            raise ValueError(f"{self.path} holds {len(names)} matrices of numbers, {words}{choice}")
        place, (name, shape, kind) = next((at, one) for at, one in enumerate(listed) if one[0] == (self.key or names[0]))
        if kind != "sparse":
            require_unpacked(math.prod(map(int, shape)), self.path.stat().st_size, f"{self.path}:{name}")
        return place, name, shape, kind

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(
            f"{self.path} cannot be read as a .mat file: {' '.join(str(error).split())[:200] or type(error).__name__}"
        )

    @cached_property
    def _content(self) -> Stored:
        place, name, shape, kind = self._chosen
        what = f"{self.path}:{name}"
        try:
            found: Any = (
                io.loadmat(str(self.path), variable_names=[name])[name]
                if self._file is None
                else _variable(self._file, place, shape, kind == "sparse")
            )
        except Exception as error:
            raise self._damaged(error) from error
        if isinstance(found, _Variable):
            return found.matrix(what)
        require_real(found.dtype, what)
        require_matrix(found.shape, what)
        if not isinstance(found, np.ndarray):  # sparse, of version 4, whose entries SciPy checks
            return sparse.coo_array(found)
        return np.asarray(found, dtype=np.float64)

    def labels(self) -> Labels:
        content = self._content
        if not isinstance(content, np.ndarray) or 1 not in content.shape:
            raise ValueError(f"{self.path} must hold a vector of labels, but has shape {content.shape}")
        return as_labels(content.ravel(), str(self.path))


def _elements(data: memoryview, order: str, padded: bool) -> Iterator[tuple[int, memoryview]]:
    """The types and the bytes of the elements of level 5 that follow each other in ``data``."""
    place = 0
    while place < len(data):
        kind, size = (int(number) for number in np.frombuffer(data, f"{order}u4", 2, place))
        start = place + 8
        if kind >> 16:  # a small element: type and size share four bytes, and its own are the next four
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
        if start + size > len(data):
            raise ValueError("it ends in the middle of a variable")
        yield kind, data[start : start + size]
        place = max(start + size + (-(start + size) % 8 if padded else 0), place + 8)


class _Variable(NamedTuple):
    """A matrix as stored in a file of version 5 to 7."""

    flags: int
    shape: NDArray[Any]
    parts: list[NDArray[Any]]
    """The values, column after column; of a sparse matrix the rows, the starts of the columns and the values."""

    def matrix(self, what: str) -> Stored:
        """The matrix; TypeError if it is complex, ValueError if its parts do not fit each other."""
        if self.flags & _COMPLEX:
            require_real(np.dtype(complex), what)
        m, n = require_matrix(tuple(self.shape.tolist()), what)
        *places, values = self.parts
        if not places:
            if min(m, n) < 0 or values.size != m * n:
                raise ValueError(f"{what} is damaged: it holds {values.size} numbers for a matrix of shape {(m, n)}")
            return np.asarray(values, dtype=np.float64).reshape((m, n), order="F")
        rows, starts = places
        require_starts(starts, n, min(rows.size, values.size), f"{what} is damaged: the starts of its columns")
        entries = int(starts[-1])
        rows, values = rows[:entries].astype(np.int64), values[:entries].astype(np.float64)
        if m < 0 or (entries and not 0 <= rows.min() <= rows.max() < m):
            raise ValueError(f"{what} is damaged: it stores an entry outside of its shape {(m, n)}")
        return sparse.coo_array((values, (rows, np.repeat(np.arange(n), np.diff(starts)))), shape=(m, n))


def _variables(file: memoryview) -> Iterator[tuple[int, memoryview, str]]:
    """The type and the bytes of each variable of a file of version 5 to 7, and the order of bytes."""
    order = "<" if bytes(file[126:128]) == b"IM" else ">"
    for kind, content in _elements(file[128:], order, False):
        if kind not in (_MATRIX, _COMPRESSED):
            raise ValueError(f"it holds an element of type {kind} where a variable must be")
        yield kind, content, order


def _unpacked(kind: int, content: memoryview, most: int, whole: bool = True) -> memoryview:
    """The elements of a variable; if it is compressed, ``most`` bytes of them, which must be all if it must be ``whole``."""
    if kind != _COMPRESSED:
        return content
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(content[: 2 * most], most)
    if whole and not unpacker.eof:
        raise ValueError("a compressed variable is cut off, or unpacks to more than its matrix may take")
    return memoryview(unpacked)[8:]


def _numbers(element: tuple[int, memoryview], order: str) -> NDArray[Any]:
    kind, content = element
    if kind not in _TYPES:
        raise ValueError(f"it holds an element of type {kind} where numbers must be")
    return np.frombuffer(content, order + _TYPES[kind])


def _listed(file: memoryview) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """The name, the shape and the class of each variable of a file of version 5 to 7; no class for what is no matrix of numbers."""
    for kind, content, order in _variables(file):
        flags, shape, name = islice(_elements(_unpacked(kind, content, _START, whole=False), order, True), 3)
        number = int(_numbers(flags, order)[0]) & 0xFF
        if number in _CLASSES and bytes(name[1]):  # the workspace of functions has no name
            yield bytes(name[1]).decode("latin-1"), tuple(_numbers(shape, order).tolist()), _CLASSES[number]
        else:
            yield "", (), ""


def _variable(file: memoryview, place: int, shape: tuple[int, ...], is_sparse: bool) -> _Variable:
    """The matrix of this shape that is the variable number ``place`` of a file of version 5 to 7."""
    kind, content, order = next(islice(_variables(file), place, None))
    most = max(UNPACKED_LIMIT, EXPANSION * len(content)) if is_sparse else _START + 16 * math.prod(shape)
    count = 3 if is_sparse else 1
    flags, dimensions, _, *parts = islice(_elements(_unpacked(kind, content, most), order, True), 3 + count)
    if len(parts) < count:
        raise ValueError("it ends in the middle of a variable")
    found = int(_numbers(flags, order)[0])
    if is_sparse and found & _LOGICAL and len(parts[-1][1]) <= _numbers(parts[0], order).size:
        parts[-1] = _BYTES, parts[-1][1]  # MATLAB writes a byte for each value, and the type of doubles
    return _Variable(found, _numbers(dimensions, order), [_numbers(part, order) for part in parts])
