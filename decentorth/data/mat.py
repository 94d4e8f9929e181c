"""Matrices in MATLAB's ``.mat`` files up to version 7: dense ones through SciPy, sparse ones read here.

SciPy's reader ends the process by a segmentation fault where the column starts of a sparse matrix are damaged.
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
from topologies.text import suggestion

_NUMBERS = frozenset("double single int8 uint8 int16 uint16 int32 uint32 int64 uint64 logical sparse".split())
_SHOWN = 20
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_COMPRESSED, _COMPLEX = 15, 0x800


class MatReader(StoredReader):
    """One matrix of a ``.mat`` file: the only one of numbers, or the one named by ``key``."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        super().__init__(path)
        self.key = key

    @cached_property
    def _chosen(self) -> tuple[int, str, str]:
        """The place of the matrix among the file's variables, its name and its class."""
        try:
            listed = list(io.whosmat(str(self.path)))
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
        return place, name, kind

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(
            f"{self.path} cannot be read as a .mat file: {' '.join(str(error).split())[:200] or type(error).__name__}"
        )

    @cached_property
    def _content(self) -> Stored:
        place, name, kind = self._chosen
        what = f"{self.path}:{name}"
        try:
            if kind == "sparse" and matlab.matfile_version(str(self.path))[0] == 1:
                found: Any = _columns(self.path.read_bytes(), place)
            else:
                found = io.loadmat(str(self.path), variable_names=[name])[name]
        except Exception as error:
            raise self._damaged(error) from error
        if isinstance(found, _Columns):
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


class _Columns(NamedTuple):
    """A sparse matrix as stored: column after column."""

    flags: NDArray[Any]
    shape: NDArray[Any]
    rows: NDArray[Any]
    starts: NDArray[Any]
    values: NDArray[Any]

    def matrix(self, what: str) -> sparse.coo_array[Any, tuple[int, int]]:
        """The matrix; TypeError if it is complex, ValueError if its parts do not fit each other."""
        if self.flags[0] & _COMPLEX:
            require_real(np.dtype(complex), what)
        m, n = require_matrix(tuple(self.shape.tolist()), what)
        require_starts(self.starts, n, min(self.rows.size, self.values.size), f"{what} is damaged: the starts of its columns")
        entries = int(self.starts[-1])
        rows, values = self.rows[:entries].astype(np.int64), self.values[:entries].astype(np.float64)
        if m < 0 or (entries and not 0 <= rows.min() <= rows.max() < m):
            raise ValueError(f"{what} is damaged: it stores an entry outside of its shape {(m, n)}")
        return sparse.coo_array((values, (rows, np.repeat(np.arange(n), np.diff(self.starts)))), shape=(m, n))


def _columns(file: bytes, place: int) -> _Columns:
    """The sparse matrix that is the variable number ``place`` of a file of version 5 to 7.

    The layout is that of MATLAB's "MAT-File Format", chapter 1.
    """
    order = "<" if file[126:128] == b"IM" else ">"
    kind, content = next(islice(_elements(memoryview(file)[128:], order, False), place, None))
    if kind == _COMPRESSED:
        most = max(UNPACKED_LIMIT, EXPANSION * len(content))
        _, content = next(_elements(memoryview(zlib.decompressobj().decompress(content, most)), order, False))
    flags, shape, _, rows, starts, values, *_ = _elements(content, order, True)
    return _Columns(*(np.frombuffer(data, order + _TYPES[kind]) for kind, data in (flags, shape, rows, starts, values)))
