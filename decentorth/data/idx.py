"""Matrices and labels in idx files, the format of MNIST and its kin, plain or compressed by gzip.

Two zero bytes, the kind of number, how many dimensions, the dimensions as 32-bit integers, then the numbers, the last dimension
fastest; everything is big-endian. A sample is what stands under one index of the first dimension, flattened; labels have one
dimension. Bytes are handed on as they are, from 0 to 255.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from decentorth.data.arrays import as_float64
from decentorth.data.checks import require_matrix
from decentorth.data.labels import Labels, as_labels
from decentorth.protocols import Array, Index

_KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


class _Header(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    """Bytes before the numbers."""


class IdxReader:
    """One array in an idx file; a plain one is mapped into memory, so that reading some rows touches only those."""

    has_labels: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _unpacked(self) -> bytes | None:
        """The content of a compressed file, None for a plain one."""
        with self.path.open("rb") as file:
            if file.read(2) != _GZIP:
                return None
        try:
            return gzip.decompress(self.path.read_bytes())
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{self.path} is not a whole gzip file: {error}") from error

    @cached_property
    def _header(self) -> _Header:
        if self._unpacked is not None:
            size, start = len(self._unpacked), self._unpacked[: 4 + 4 * 255]
        else:
            size = self.path.stat().st_size
            with self.path.open("rb") as file:
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
        dtype, shape = np.dtype(_KINDS[start[2]]), struct.unpack(f">{start[3]}I", start[4:offset])
        held, promised = size - offset, math.prod(shape) * dtype.itemsize
        if held != promised:
            wrong = "is truncated" if held < promised else "is too long"
            raise ValueError(
                f"{self.path} {wrong}: its header promises {promised} bytes of data (shape {shape}, {dtype}), there are {held}"
            )
        return _Header(dtype, shape, offset)

    def _array(self) -> np.ndarray[Any, np.dtype[Any]]:
        dtype, shape, offset = self._header
        if self._unpacked is not None:
            return np.frombuffer(self._unpacked, dtype, offset=offset).reshape(shape)
        return np.asarray(np.memmap(self.path, dtype, "r", offset, shape))

    @cached_property
    def shape(self) -> tuple[int, int]:
        shape = self._header.shape
        return require_matrix(shape if len(shape) == 1 else (shape[0], math.prod(shape[1:])), str(self.path))

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        samples = self._array().reshape(self.shape)
        return as_float64(samples if wanted is None else samples[wanted])

    def labels(self) -> Labels:
        if 0 in self._header.shape:
            raise ValueError(f"{self.path} is empty: shape {self._header.shape}")
        return as_labels(np.array(self._array()), str(self.path))
