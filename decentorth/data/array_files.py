"""Files that a library reads as one array: the wanted rows of it, and its labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from decentorth.data.labels import Labels, as_labels
from decentorth.data.row_checks import LEAVE_OUT
from decentorth.protocols import Array, Index
from topologies.line.matrix_files import Header, Stored, checked, matrix_header, require_matrix
from topologies.line.memory import require

DENSE_LIMIT = 4 * 2**30
"""The most bytes that a sparse matrix may take in one process when made dense: 4 GiB, or 2**29
values."""
_STORED = 1.5
"""The numbers of 8 bytes that a stored entry takes: its value and its column."""


class Extent(NamedTuple):
    """The size of a matrix, as it is known before the numbers are read."""

    rows: int
    """In a long text an estimate, from the size of the file and the lengths of its first lines."""
    columns: int
    beside: float = 0.0
    """The bytes that a process takes, beside the rows that it wants, while it reads them."""
    stored: float | None = None
    """The numbers that a row takes on average where the file is sparse and stays so: entries and
    their places."""


class Reader(ABC):
    """A matrix of samples in a file, and its labels.

    The matrix is read on first use.
    """

    repair = LEAVE_OUT
    """The cure for missing values."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """``(m, d)`` of the matrix, both positive."""

    def extent(self) -> Extent:
        """Return the size in the header; a file without a header is read if that is cheap.

        The first row of a text must hold numbers: a dry run reads no more."""
        return Extent(*self.shape)

    @abstractmethod
    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        """The ``wanted`` rows (sorted, distinct, in range; None: all), float64 and C-contiguous,
        not yet checked for NaN.

        Entries that a sparse format does not store are ``unstored``.
        """

    @abstractmethod
    def labels(self) -> Labels:
        """``(m,)``: the labels in the file."""

    @property
    def has_both(self) -> bool:
        """True if the file holds labels beside the matrix."""
        return False

    def sparse(self) -> Any:
        """Return the matrix as a ``csr_array``, or None if the file holds a dense one."""
        return None

    def place(self, row: int, column: int) -> str:
        """Describe the place of an entry of the matrix, for messages."""
        return f"row {row}, column {column} (counted from 0)"


class Content(NamedTuple):
    """The content of a file."""

    array: Any
    """The matrix, dense (perhaps mapped into memory) or sparse; or labels."""
    labels: Any = None
    """The labels beside it, if there are any."""


Read: TypeAlias = Callable[[Path], Content]


class ArrayReader(Reader):
    """An array in a file, found by the function ``read``.

    ``key`` selects one of several arrays; ``name`` stands for the file in messages.
    """

    def __init__(self, path: Path, read: Read, name: str, key: str | None = None) -> None:
        super().__init__(path)
        self._read = read
        self._name = name
        self._key = key

    def extent(self) -> Extent:
        header = self._header()
        if header is None:
            matrix = self._matrix
            stored = (
                None if isinstance(matrix, np.ndarray) else _STORED * matrix.nnz / self.shape[0]
            )
            return Extent(*self.shape, stored=stored)
        shape = require_matrix(header.shape, self._name)
        stored = None if header.entries is None else _STORED * header.entries / shape[0]
        return Extent(*shape, header.beside, stored)

    def _header(self) -> Header | None:
        return matrix_header(self.path, self._key)

    @cached_property
    def _found(self) -> Content:
        return self._read(self.path)

    @cached_property
    def _matrix(self) -> Stored:
        return checked(self._found.array, self._name)

    @property
    def shape(self) -> tuple[int, int]:
        m, d = self._matrix.shape
        return m, d

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        matrix = self._matrix
        if not isinstance(matrix, np.ndarray):
            return _dense(matrix, wanted, unstored, self._name)
        chosen = matrix[slice(None) if wanted is None else wanted]
        require(8.0 * chosen.size, "the matrix")
        # what is too large becomes infinite, and is refused later
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(chosen, dtype=np.float64, order="C")

    @property
    def has_both(self) -> bool:
        return self._found.labels is not None

    @cached_property
    def _compressed(self) -> Any:
        return None if isinstance(self._matrix, np.ndarray) else self._matrix.tocsr()

    def sparse(self) -> Any:
        return self._compressed

    def labels(self) -> Labels:
        array, beside = self._found
        found = array if beside is None else beside
        if not isinstance(found, np.ndarray):
            raise ValueError(
                f"{self.path} holds a matrix, not labels: give labels as .npy, .npz, .csv, .txt "
                "or idx"
            )
        if not found.size:
            raise ValueError(f"{self.path} is empty: shape {found.shape}")
        if found.ndim == 2 and 1 in found.shape:
            found = found.ravel()
        return as_labels(np.array(found), str(self.path))


def _dense(stored: Any, wanted: Index | None, unstored: float, what: str) -> Array:
    """The ``wanted`` rows (sorted, distinct; None: all) as a dense matrix, ``unstored`` where no
    entry is stored.

    Repeated entries are summed.
    """
    m, d = stored.shape
    row = stored.row
    column = stored.col
    value = stored.data
    if wanted is not None:
        m = wanted.size
        place = np.searchsorted(wanted, row)
        kept = np.flatnonzero(np.isin(row, wanted))
        row = place[kept]
        column = column[kept]
        value = value[kept]
    if 8 * m * d > DENSE_LIMIT:
        size = 8 * m * d / 2**30
        most = DENSE_LIMIT / 2**30
        raise ValueError(
            f"{what}: {m} rows of {d} columns would take {size:.3g} GiB once dense, more than the "
            f"{most:g} GiB allowed: read fewer rows in each process (more ranks), or reduce the "
            "columns"
        )
    require(8.0 * m * d, what)
    block = np.full((m, d), unstored)
    block[row, column] = 0.0
    np.add.at(block, (row, column), value)
    return block
