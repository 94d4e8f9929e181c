"""Matrices and labels in NumPy's files: ``.npy`` through a memory map, ``.npz`` through its table of contents."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from decentorth.data.labels import Labels, as_labels
from decentorth.protocols import Array, Index
from topologies.matrix_files import Header, npy_array, npy_header, npz_array, npz_header, npz_keys, require_matrix, require_real
from topologies.words import suggestion

_SHOWN = 20


def as_float64(values: np.ndarray[Any, np.dtype[Any]]) -> Array:
    """A fresh float64 C-contiguous copy; values too large for float64 become infinite, which the finiteness check reports."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(values, dtype=np.float64, order="C")


class NpyReader:
    """One array in a ``.npy`` file, mapped into memory: reading some rows touches only those rows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _name(self) -> str:
        return str(self.path)

    def _header(self) -> Header:
        return npy_header(self.path)

    def _array(self) -> np.ndarray[Any, np.dtype[Any]]:
        return npy_array(self.path)

    @cached_property
    def shape(self) -> tuple[int, int]:
        header = self._header()
        require_real(header.dtype, self._name())
        return require_matrix(header.shape, self._name())

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        shape = self.shape  # checked before the array is read
        array = self._array().reshape(shape)
        return as_float64(array if wanted is None else array[wanted])

    def labels(self) -> Labels:
        return as_labels(np.array(self._array()), str(self.path))


class NpzReader(NpyReader):
    """One array of a ``.npz`` archive: the only one, or the one named by ``key``."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        super().__init__(path)
        self.key = key

    @cached_property
    def _chosen(self) -> str:
        keys = npz_keys(self.path)
        listed = ", ".join([*map(repr, keys[:_SHOWN]), *(["..."] if len(keys) > _SHOWN else [])])
        if not keys:
            raise ValueError(f"{self.path} is empty: it holds no array")
        if self.key is None:
            if len(keys) > 1:
                raise ValueError(f"{self.path} holds {len(keys)} arrays, {listed}: choose one, as in {self.path}:{keys[0]}")
            return keys[0]
        if self.key not in keys:
            raise ValueError(f"{self.path} holds no array {self.key!r}{suggestion(self.key, keys) or ';'} its keys are {listed}")
        return self.key

    def _name(self) -> str:
        return f"{self.path}:{self._chosen}"

    def _header(self) -> Header:
        return npz_header(self.path, self._chosen)

    def _array(self) -> np.ndarray[Any, np.dtype[Any]]:
        return npz_array(self.path, self._chosen)
