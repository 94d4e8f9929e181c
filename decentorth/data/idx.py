"""Matrices and labels in idx files, the format of MNIST and similar sets, plain or compressed by gzip.

A file has two zero bytes, the type of the numbers, the number of dimensions, the dimensions as 32-bit integers, then the numbers,
the last dimension fastest; everything is big-endian. A sample is the flattened array at one index of the first dimension; labels
have one dimension. Bytes are returned unchanged, from 0 to 255.
"""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

from decentorth.data.arrays import NpyReader
from decentorth.data.labels import Labels
from topologies.matrix_files import BAD_GZIP, require_matrix, require_unpacked
from topologies.memory import require

_KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


class _Header(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    """The number of bytes before the numbers."""


class IdxReader(NpyReader):
    """One array in an idx file; a plain file is mapped into memory, so that reading some rows touches only those."""

    @cached_property
    def _packed(self) -> bool:
        with self.path.open("rb") as file:
            return file.read(2) == _GZIP

    @contextmanager
    def _opened(self) -> Iterator[BufferedIOBase]:
        try:
            with gzip.open(self.path) if self._packed else self.path.open("rb") as file:
                yield file
        except BAD_GZIP as error:
            raise ValueError(f"{self.path} is not a whole gzip file: {error}") from error

    @cached_property
    def _start(self) -> _Header:
        with self._opened() as file:
            start = file.read(4 + 4 * 255)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _KINDS or not start[3]:
            raise ValueError(
                f"{self.path} is not an idx file: it starts with {start[:4]!r} instead of two zero bytes, a kind of number "
                f"({', '.join(f'{kind:#04x}' for kind in _KINDS)}) and how many dimensions there are"
            )
        offset = 4 + 4 * start[3]
        if len(start) < offset:
            raise ValueError(
                f"{self.path} is truncated: its header of {offset} bytes, for {start[3]} dimensions, ends after {len(start)}"
            )
        header = _Header(np.dtype(_KINDS[start[2]]), struct.unpack(f">{start[3]}I", start[4:offset]), offset)
        if self._packed:
            require_unpacked(math.prod(header.shape), self.path.stat().st_size, str(self.path))
        else:
            self._check_size(header, self.path.stat().st_size - offset)
        return header

    def _check_size(self, header: _Header, held: int) -> None:
        promised = math.prod(header.shape) * header.dtype.itemsize
        if held != promised:
            wrong, more = ("is truncated", "") if held < promised else ("is too long", " or more" if self._packed else "")
            raise ValueError(
                f"{self.path} {wrong}: its header promises {promised} bytes of data (shape {header.shape}, {header.dtype}), "
                f"there are {held}{more}"
            )

    @cached_property
    def _unpacked(self) -> bytes:
        """The numbers of a compressed file; bytes after them are not unpacked."""
        header = self._start
        require(float(math.prod(header.shape) * header.dtype.itemsize), str(self.path))
        with self._opened() as file:
            content = file.read(header.offset + math.prod(header.shape) * header.dtype.itemsize + 1)
        self._check_size(header, len(content) - header.offset)
        return content

    def _array(self) -> np.ndarray[Any, np.dtype[Any]]:
        dtype, shape, offset = self._start
        if self._packed:
            return np.frombuffer(self._unpacked, dtype, offset=offset).reshape(shape)
        return np.asarray(np.memmap(self.path, dtype, "r", offset, shape))

    @cached_property
    def shape(self) -> tuple[int, int]:
        shape = self._start.shape
        return require_matrix(shape if len(shape) == 1 else (shape[0], math.prod(shape[1:])), str(self.path))

    def labels(self) -> Labels:
        if 0 in self._start.shape:
            raise ValueError(f"{self.path} is empty: shape {self._start.shape}")
        return super().labels()
