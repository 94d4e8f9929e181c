"""Matrices and labels in NumPy's own files: ``.npy`` through a memory map, ``.npz`` through its table of contents."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
from numpy.lib import format as npy

from decentorth.data.checks import did_you_mean, require_matrix, require_real
from decentorth.data.labels import Labels, as_labels
from decentorth.protocols import Array, Index

_BAD_HEADER = (ValueError, TypeError, SyntaxError, tokenize.TokenError, EOFError, OverflowError, RecursionError, MemoryError)
# zipfile itself raises NotImplementedError for what it cannot read: other versions of the format, and other compressions
_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int
    """Bytes before the array's data."""


def _read_header(file: IO[bytes], size: int, what: str) -> _Header:
    """Header of an array in .npy format whose file has ``size`` bytes; the file must hold exactly what its header promises."""
    magic = file.read(npy.MAGIC_LEN)
    if magic[:1] == b"\x80":
        raise TypeError(f"{what} is a pickle, and nothing is unpickled here: save its numbers with numpy.save")
    if magic[:6] != npy.MAGIC_PREFIX:
        raise ValueError(f"{what} is not in .npy format: it starts with {magic!r} instead of {npy.MAGIC_PREFIX!r}")
    version = tuple(magic[6:])
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{what} says it is in version {version} of the .npy format; plain matrices are in version 1.0 or 2.0")
    try:
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran_order, dtype = read(file)
    except _BAD_HEADER as error:
        raise ValueError(f"{what} has a damaged .npy header: {error}") from error
    header = _Header(shape, fortran_order, dtype, file.tell())
    if dtype.hasobject:
        require_real(dtype, what)
    if min(shape, default=0) < 0:
        raise ValueError(f"{what} has a damaged .npy header: shape {shape}")
    held, promised = size - header.offset, math.prod(shape) * dtype.itemsize
    if held != promised:
        wrong = "is truncated" if held < promised else "holds more than one array"
        raise ValueError(f"{what} {wrong}: its header promises {promised} bytes of data (shape {shape}, {dtype}), there are {held}")
    return header


def as_float64(values: np.ndarray[Any, np.dtype[Any]]) -> Array:
    """A fresh float64 C-contiguous copy; what float64 cannot hold becomes infinite, which the finiteness check then reports."""
    with np.errstate(over="ignore"):
        return np.array(values, dtype=np.float64, order="C")


class NpyReader:
    """One array in a ``.npy`` file, mapped into memory: reading some rows touches only those rows."""

    has_labels: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _header(self) -> _Header:
        with self.path.open("rb") as file:
            return _read_header(file, self.path.stat().st_size, str(self.path))

    def _map(self) -> np.ndarray[Any, np.dtype[Any]]:
        header = self._header
        order = "F" if header.fortran_order else "C"
        return np.asarray(np.memmap(self.path, header.dtype, "r", header.offset, header.shape, order))  # type: ignore[call-overload]

    @cached_property
    def shape(self) -> tuple[int, int]:
        require_real(self._header.dtype, str(self.path))
        return require_matrix(self._header.shape, str(self.path))

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        require_matrix(self.shape, str(self.path))
        array = self._map()
        return as_float64(array if wanted is None else array[wanted])

    def labels(self) -> Labels:
        if 0 in self._header.shape:
            raise ValueError(f"{self.path} is empty: shape {self._header.shape}")
        return as_labels(np.array(self._map()), str(self.path))


class NpzReader:
    """One array of a ``.npz`` archive: the only one, or the one named by ``key``."""

    has_labels: ClassVar[bool] = False

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path = path
        self.key = key

    @contextmanager
    def _member(self) -> Iterator[tuple[IO[bytes], int, str]]:
        """The chosen array's file in the archive, its size in bytes, and its name for messages."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                key = self._choose([name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")])
                info = archive.getinfo(f"{key}.npy")
                with archive.open(info) as file:
                    yield file, info.file_size, f"{self.path}:{key}"
        except _BAD_ARCHIVE as error:
            raise ValueError(f"{self.path} is not a whole .npz archive: {error}") from error

    def _choose(self, keys: list[str]) -> str:
        listed = ", ".join(repr(key) for key in keys)
        if not keys:
            raise ValueError(f"{self.path} is empty: it holds no array")
        if self.key is None:
            if len(keys) > 1:
                raise ValueError(f"{self.path} holds {len(keys)} arrays, {listed}: choose one, as in {self.path}:{keys[0]}")
            return keys[0]
        if self.key not in keys:
            raise ValueError(f"{self.path} holds no array {self.key!r}{did_you_mean(self.key, keys)}: its keys are {listed}")
        return self.key

    @cached_property
    def shape(self) -> tuple[int, int]:
        with self._member() as (file, size, what):
            header = _read_header(file, size, what)
        require_real(header.dtype, what)
        return require_matrix(header.shape, what)

    def _array(self) -> np.ndarray[Any, np.dtype[Any]]:
        with self._member() as (file, size, what):
            _read_header(file, size, what)
        with self._member() as (file, _, _):
            return np.asarray(npy.read_array(file, allow_pickle=False))

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        require_matrix(self.shape, str(self.path))
        array = self._array()
        return as_float64(array if wanted is None else array[wanted])

    def labels(self) -> Labels:
        return as_labels(self._array(), str(self.path))
