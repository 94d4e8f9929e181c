"""Matrices in sparse formats (SVMlight, Matrix Market, SciPy's), made dense for the wanted rows."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from decentorth.data.labels import Labels, as_labels
from decentorth.data.optional import sklearn_datasets
from decentorth.data.text import is_number, shown
from decentorth.protocols import Array, Index
from topologies.matrix_files import Stored, market_header, read_matrix
from topologies.memory import require

DENSE_LIMIT = 4 * 2**30
"""The most bytes that a sparse matrix may take in one process when made dense: 4 GiB, or 2**29 values."""


def _dense(stored: sparse.coo_array[Any, tuple[int, int]], wanted: Index | None, unstored: float, what: str) -> Array:
    """The ``wanted`` rows (sorted, distinct; None: all) as a dense matrix, ``unstored`` where no entry is stored.

    Repeated entries are summed.
    """
    m, d = stored.shape
    row: NDArray[np.integer[Any]] = stored.row
    column: NDArray[np.integer[Any]] = stored.col
    value = np.asarray(stored.data, dtype=np.float64)
    if wanted is not None:
        m = wanted.size
        place = np.searchsorted(wanted, row)
        kept = np.flatnonzero(np.isin(row, wanted))
        row, column, value = place[kept], column[kept], value[kept]
    if 8 * m * d > DENSE_LIMIT:
        raise ValueError(
            f"{what}: {m} rows of {d} columns would take {8 * m * d / 2**30:.3g} GiB once dense, more than the "
            f"{DENSE_LIMIT / 2**30:g} GiB allowed in one process: read fewer rows in each (more ranks), or reduce the columns"
        )
    require(8.0 * m * d, what)
    block = np.full((m, d), unstored)
    block[row, column] = 0.0
    np.add.at(block, (row, column), value)
    return block


class SvmlightReader:
    """Labels and features in SVMlight format, ``label index:value ...``, through scikit-learn.

    Indices count from 1, or from 0 if one of them is 0; the largest one in this file is the number of columns.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _content(self) -> tuple[sparse.coo_array[Any, tuple[int, int]], Array]:
        load = sklearn_datasets(f"reading {self.path} (SVMlight format)").load_svmlight_file
        try:
            matrix, targets = load(str(self.path), dtype=np.float64)
        except (ValueError, TypeError, ArithmeticError, LookupError, MemoryError) as error:
            raise ValueError(f"{self.path}: {self._wrong() or 'not in SVMlight format'}: {error}") from error
        with self.path.open("rb") as file:
            wrong = self._wrong() if any(b"_" in line for line in file) else ""  # Python's float reads 1_0 as 10
        if wrong:
            raise ValueError(f"{self.path}: {wrong}")
        if not matrix.nnz:
            raise ValueError(f"{self.path} is empty: it has {matrix.shape[0]} rows and no feature")
        return sparse.coo_array(matrix), targets

    def _wrong(self) -> str:
        """The first line and column, counted from 1, that do not match ``label index:value ...``."""
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
        m, d = self._content[0].shape
        return m, d

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        return _dense(self._content[0], wanted, unstored, str(self.path))

    def labels(self) -> Labels:
        return as_labels(self._content[1], f"the labels of {self.path}")


class StoredReader:
    """A matrix in a format that `topologies.matrix_files` reads as it is stored, sparse or dense."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _content(self) -> Stored:
        return read_matrix(self.path)

    @property
    def shape(self) -> tuple[int, int]:
        m, d = self._content.shape
        return m, d

    def rows(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        content = self._content
        if isinstance(content, np.ndarray):
            return np.array(content if wanted is None else content[wanted], order="C")
        return _dense(content, wanted, unstored, str(self.path))

    def sparse(self) -> Any:
        """The matrix as a ``csr_array``, or None where the file holds a dense one."""
        content = self._content
        return None if isinstance(content, np.ndarray) else content.astype(np.float64).tocsr()

    def labels(self) -> Labels:
        raise ValueError(f"{self.path} holds a matrix, not labels: give labels as .npy, .npz, .csv, .txt or idx")


class MtxReader(StoredReader):
    """A matrix in Matrix Market format, plain or compressed by gzip, coordinate or array."""

    @cached_property
    def shape(self) -> tuple[int, int]:
        return market_header(self.path).shape
