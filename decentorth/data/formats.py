"""The readers of NumPy's, SciPy's and SVMlight's files, and of idx, the format of MNIST and similar
sets.

An idx file has two zero bytes, the type of the numbers, the number of dimensions, the dimensions as
32-bit integers, then the numbers, the last dimension fastest; everything is big-endian, and perhaps
compressed by gzip. A sample is the flattened array at one index of the first dimension; labels have
one dimension. Bytes are returned unchanged, from 0 to 255.
"""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from decentorth.data.array_files import Content
from decentorth.data.optional import needing
from topologies.line.matrix_files import (
    is_sparse,
    npy_array,
    npz_array,
    npz_keys,
    read_matrix,
    reading,
    require_unpacked,
)
from topologies.line.words import suggestion

_SHOWN = 20
_LINE = 1 << 22
"""The most bytes of a first line."""
_GZIP = b"\x1f\x8b"
_IDX = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def chosen(path: Path, key: str | None, names: Sequence[str]) -> str:
    """The name of the only array of a file, or ``key``; ValueError if there are several, or none of
    that name."""
    listed = ", ".join([*map(repr, names[:_SHOWN]), *["..."] * (len(names) > _SHOWN)])
    if not names:
        raise ValueError(f"{path} is empty: it holds no array")
    if key is None and len(names) > 1:
        raise ValueError(
            f"{path} holds {len(names)} arrays, {listed}: choose one, as in {path}:{names[0]}"
        )
    if key is not None and key not in names:
        near = suggestion(key, names) or ";"
        raise ValueError(f"{path} holds no array {key!r}{near} it holds {listed}")
    return key or names[0]


def npy(path: Path) -> Content:
    """The array of a .npy file, mapped into memory."""
    return Content(npy_array(path))


def npz(path: Path, key: str | None) -> Content:
    """The only array of an archive, or that named by ``key``; a sparse matrix without a key."""
    keys = npz_keys(path)
    if key is None and is_sparse(keys):
        return stored(path)
    return Content(npz_array(path, chosen(path, key, keys)))


def stored(path: Path) -> Content:
    """A matrix in Matrix Market format, or in SciPy's sparse format."""
    return Content(read_matrix(path))


def looks_like_svmlight(path: Path) -> bool:
    """True if the first line of a file is a label and features, ``index:value ...``."""
    with path.open("rb") as file:
        line = file.readline(_LINE)
    return re.match(rb"[-+.,\w]+( \d+:[-+.\w]+)+\s*(#|$)", line) is not None


def svmlight(path: Path) -> Content:
    """Features and labels in SVMlight format, ``label index:value ...``, through scikit-learn.

    Indices count from 1, or from 0 if one of them is 0; the largest one in this file is the number
    of columns.
    """
    with needing("scikit-learn", f"reading {path} (SVMlight format)"):
        from sklearn.datasets import load_svmlight_file
    with reading(path, " in SVMlight format (label index:value ...)"):
        matrix, labels = load_svmlight_file(str(path), dtype=np.float64)
        if not matrix.nnz:
            raise ValueError(f"it is empty: it has {matrix.shape[0]} rows and no feature")
    return Content(matrix, labels)


def idx(path: Path) -> Content:
    """The array of an idx file, mapped into memory unless it is compressed."""
    with reading(path), path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _IDX or not start[3]:
            raise ValueError(f"it is not an idx file: it starts with {start!r}")
        kind = np.dtype(_IDX[start[2]])
        offset = 4 + 4 * start[3]
        shape = tuple(np.frombuffer(file.read(offset - 4), ">u4").tolist())
        promised = math.prod(shape) * kind.itemsize
        if packed:
            require_unpacked(promised, path.stat().st_size)
            content = np.frombuffer(file.read(promised + 1), np.uint8)
        else:
            content = np.asarray(np.memmap(path, np.uint8, "r"))[offset:]
        if len(shape) != start[3] or len(content) != promised:
            raise ValueError(
                f"it is truncated or too long: its header promises {promised} bytes, shape "
                f"{shape} of {kind}"
            )
    array = content.view(kind).reshape(shape)
    if array.ndim > 2:
        array = array.reshape(shape[0], math.prod(shape[1:]))
    return Content(array)
