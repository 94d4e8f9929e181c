"""Matrices in sparse formats, SVMlight, Matrix Market and SciPy's own, made dense for the rows that are wanted."""

from __future__ import annotations

import zipfile
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from decentorth.data.checks import require_matrix, require_real
from decentorth.data.labels import Labels, as_labels
from decentorth.data.optional import sklearn_datasets
from decentorth.data.text import is_number, shown
from decentorth.protocols import Array, Index

DENSE_LIMIT = 4 * 2**30
"""Bytes that one process may fill with zeros by making a sparse matrix dense: 4 GiB, or 2**29 values."""


class _Entries(NamedTuple):
    """The stored entries of a sparse matrix; what is stored twice counts as the sum."""

    row: Index
    column: Index
    value: Array


def _require_dense(m: int, d: int, what: str) -> None:
    if 8 * m * d > DENSE_LIMIT:
        raise ValueError(
            f"{what}: {m} rows of {d} columns would take {8 * m * d / 2**30:.3g} GiB once dense, more than the "
            f"{DENSE_LIMIT / 2**30:g} GiB allowed in one process: read fewer rows in each (more ranks), or reduce the columns"
        )


def _dense(entries: _Entries, m: int, d: int, wanted: Index | None, unstored: float, what: str) -> Array:
    """The ``wanted`` rows (sorted, distinct; None: all ``m``) as a dense matrix, ``unstored`` where no entry is stored."""
    row, column, value = entries
    if wanted is not None:
        m = wanted.size
        place = np.searchsorted(wanted, row)
        kept = np.flatnonzero(np.isin(row, wanted))
        row, column, value = place[kept], column[kept], value[kept]
    _require_dense(m, d, what)
    block = np.full((m, d), unstored)
    block[row, column] = 0.0
    np.add.at(block, (row, column), value)
    return block


class SvmlightReader:
    """Labels and features in SVMlight format, ``label index:value ...``, through scikit-learn.

    Indices count from 1, or from 0 if one of them is 0; the largest one in this file is the number of columns.
    """

    has_labels: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _content(self) -> tuple[_Entries, tuple[int, int], Array]:
        load = sklearn_datasets(f"reading {self.path} (SVMlight format)").load_svmlight_file
        try:
            matrix, targets = load(str(self.path), dtype=np.float64)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{self.path}: {self._wrong() or 'not in SVMlight format'}: {error}") from error
        m, d = matrix.shape
        if not m or not matrix.nnz:
            raise ValueError(f"{self.path} is empty: it has {m} rows and no feature")
        coo = matrix.tocoo()
        return _Entries(coo.row, coo.col, coo.data), (m, d), targets

    def _wrong(self) -> str:
        """The first line and column, counted from 1, that are not ``label index:value ...``."""
        with self.path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                for column, field in enumerate(line.partition("#")[0].split(), 1):
                    index, colon, value = field.partition(":")
                    if column == 1 and not is_number(field):
                        return f"line {number}, column 1: the label {shown(field)} is not a number"
                    if column > 1 and not (colon and (index.isdecimal() or index == "qid") and is_number(value)):
                        return f"line {number}, column {column}: {shown(field)} is not of the form index:number"
        return ""

    @property
    def shape(self) -> tuple[int, int]:
        return self._content[1]

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        entries, (m, d), _ = self._content
        return _dense(entries, m, d, wanted, unstored, str(self.path))

    def labels(self) -> Labels:
        return as_labels(self._content[2], f"the labels of {self.path}")


def _csr(entries: _Entries, shape: tuple[int, int]) -> Any:
    from scipy.sparse import coo_array

    row, column, value = entries
    return coo_array((value, (row, column)), shape=shape).tocsr()


class MtxReader:
    """A matrix in Matrix Market format, plain or compressed by gzip, coordinate or array, through SciPy."""

    has_labels: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def _scipy(self, function: str) -> Any:
        import scipy.io

        try:
            return getattr(scipy.io, function)(str(self.path))
        except (ValueError, OverflowError, EOFError, OSError, MemoryError, zlib.error) as error:
            raise ValueError(f"{self.path} cannot be read as a Matrix Market file: {error}") from error

    @cached_property
    def shape(self) -> tuple[int, int]:
        m, d, _, _, field, _ = self._scipy("mminfo")
        if field == "complex":
            raise TypeError(f"{self.path} is complex, but must be real: save its real and imaginary parts as separate columns")
        if not m or not d:
            raise ValueError(f"{self.path} is empty: shape {(m, d)}")
        return m, d

    @cached_property
    def _content(self) -> Array | _Entries:
        read = self._scipy("mmread")
        if isinstance(read, np.ndarray):
            return np.asarray(read, dtype=np.float64)
        return _Entries(read.row, read.col, np.asarray(read.data, dtype=np.float64))

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        m, d = self.shape
        content = self._content
        if isinstance(content, _Entries):
            return _dense(content, m, d, wanted, unstored, str(self.path))
        return np.array(content if wanted is None else content[wanted], order="C")

    def sparse(self) -> Any:
        """The matrix as a ``csr_array``, or None where the file holds a dense one."""
        content = self._content
        return _csr(content, self.shape) if isinstance(content, _Entries) else None

    def labels(self) -> Labels:
        raise ValueError(f"{self.path} holds a matrix, not labels: give labels as .npy, .npz, .csv, .txt or idx")


class SparseNpzReader:
    """A matrix that ``scipy.sparse.save_npz`` wrote, in any of SciPy's formats."""

    has_labels: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def reads(path: Path) -> bool:
        """Whether the archive at ``path`` says that it holds a sparse matrix."""
        try:
            with zipfile.ZipFile(path) as archive:
                return {"format.npy", "shape.npy", "data.npy"} <= set(archive.namelist())
        except zipfile.BadZipFile:
            return False

    @cached_property
    def _content(self) -> tuple[_Entries, tuple[int, int]]:
        import scipy.sparse

        try:
            matrix: Any = scipy.sparse.load_npz(str(self.path))
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)  # indices out of range would be followed blindly
        except (ValueError, TypeError, KeyError, IndexError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{self.path} is not a whole sparse matrix of SciPy: {error}") from error
        require_real(matrix.dtype, str(self.path))
        shape = require_matrix(matrix.shape, str(self.path))
        coo = matrix.tocoo()
        return _Entries(coo.row, coo.col, np.asarray(coo.data, dtype=np.float64)), shape

    @property
    def shape(self) -> tuple[int, int]:
        return self._content[1]

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        entries, (m, d) = self._content
        return _dense(entries, m, d, wanted, unstored, str(self.path))

    def sparse(self) -> Any:
        """The matrix as a ``csr_array``."""
        return _csr(*self._content)

    def labels(self) -> Labels:
        raise ValueError(f"{self.path} holds a sparse matrix, not labels: give labels as .npy, .npz, .csv, .txt or idx")
