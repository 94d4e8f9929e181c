"""Matrices and labels from files, whose extension gives the format.

=============================  =================================================================================
``.npy``                       NumPy array; only the wanted rows are read
``.npz``, ``.npz:key``         the only array of an archive, or the one named ``key``
``.csv`` ``.tsv`` ``.txt``     delimited text (`decentorth.data.text_head`), a table; also compressed, as ``.csv.gz``
``.svm`` ``.svmlight``         labels and features in SVMlight format (needs the extra ``data``)
``.libsvm``                    the same, and files of other names and ``.txt`` whose first line looks so (``w1a``)
``.mtx`` ``.mtx.gz``           Matrix Market, sparse or dense
``.parquet``                   a table with named columns (`decentorth.data.arrow`; needs the extra ``tables``)
``.mat``, ``.mat:key``         MATLAB up to version 7: the only matrix of numbers, or the one named ``key``
``.idx`` ``-ubyte``            idx, as the files of MNIST (`decentorth.data.formats`); only the wanted rows are read
``.idx.gz`` ``-ubyte.gz``      the same; compression is detected from the content
=============================  =================================================================================

Contents that contradict the file's size are rejected before memory is allocated: shapes and counts
that are too large, compressed arrays that would become more than 1 GiB and 100 times as large
(`topologies.line.matrix_files`), and everything but regular files.

A ``.npz`` may also be a sparse matrix saved by ``scipy.sparse.save_npz``. Sparse matrices are made
dense, up to `decentorth.data.array_files.DENSE_LIMIT` per process, unless they are to be kept
(`Columns.keep_sparse`). Nothing is unpickled. All values must be real and finite
(`MatrixFile.observed`: or missing); they are converted to float64, exactly where float64 holds them
(integers up to 2**53).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from decentorth.data import formats, tables
from decentorth.data.array_files import ArrayReader, Content, Extent, Reader
from decentorth.data.arrow import ParquetTable
from decentorth.data.labels import Labels, typed
from decentorth.data.mat import MatReader, read_mat
from decentorth.data.row_checks import LEAVE_OUT, require_rows
from decentorth.data.tables import ALL, Columns, Table
from decentorth.data.text_table import TextTable
from decentorth.protocols import Array, Index
from topologies.line.matrix_files import regular_size
from topologies.line.memory import require

PathLike: TypeAlias = str | os.PathLike[str]
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_ARRAYS: dict[str, Callable[[Path], Content]] = {
    ".npy": formats.npy,
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), formats.svmlight),
    **dict.fromkeys((".mtx", ".mtx.gz"), formats.stored),
    **dict.fromkeys((".idx", ".idx.gz", "-ubyte", "-ubyte.gz"), formats.idx),
}

_KEYED: dict[str, Callable[[Path, str | None], Content]] = {".npz": formats.npz, ".mat": read_mat}

EXTENSIONS: tuple[str, ...] = (*_ARRAYS, *_KEYED, *_TEXT, ".parquet")
"""The known extensions, in lower case; files may have them in upper case."""


def extension(path: Path) -> str:
    """The known extension of ``path``, or ``""``."""
    return next((known for known in EXTENSIONS if path.name.lower().endswith(known)), "")


def _reader(spec: str, columns: Columns = ALL, triplets: bool = False) -> Reader:
    """The reader of the file at ``spec``, which exists, is not empty and has a known extension."""
    path = Path(spec).expanduser()
    key = None
    known_ones = ", ".join(EXTENSIONS)
    parts = re.fullmatch(r"(?is)(.*\.(?:npz|mat)):(.*)", spec)
    if parts and not path.exists():
        path = Path(parts[1]).expanduser()
        key = parts[2]
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder; a matrix is one file, with one of the extensions "
            f"{', '.join(EXTENSIONS)}"
        )
    size = regular_size(path)
    known = extension(path)
    if known in ("", ".txt") and formats.looks_like_svmlight(path):
        known = ".svmlight"
    if not known:
        raise ValueError(
            f"{path} has the unknown extension {path.suffix!r}; known are {known_ones}"
        )
    if not size:
        raise ValueError(f"{path} is empty: it has 0 bytes")
    tabular = known in (".parquet", *_TEXT)
    if (columns.by_name or triplets) and not tabular:
        raise ValueError(
            f"{path} lacks names of columns, which text and Parquet have: leave out "
            f"{columns.given() or 'triplets'}"
        )
    if tabular:
        table = (ParquetTable if known == ".parquet" else TextTable)(path, columns)
        if not triplets:
            return table
        return ArrayReader(path, lambda _: tables.triplets(table), spec)
    if known in _KEYED:
        kind = {".mat": MatReader}.get(known, ArrayReader)
        return kind(path, lambda path: _KEYED[known](path, key), spec, key)
    return ArrayReader(path, _ARRAYS[known], spec)


class MatrixFile:
    """A matrix in a file: ``m`` samples (rows) of ``d`` features.

    The path and the extension are checked at once, the contents when they are read.

    Parameters
    ----------
    path
        The file, or ``file.npz:key``, ``file.mat:key``.
    columns
        The columns of a table (.csv, .tsv, .txt, .parquet) by their names.
    triplets
        The table has a row (user, item, value) for each observed entry of the matrix, whose rows
        are the users.
    reader
        The reader of a set that is no file.

    Raises
    ------
    FileNotFoundError
        With the nearest name in the folder.
    ValueError, TypeError
        For an unknown extension, an empty or damaged file, values that are not finite, and kinds
        that are not real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import tempfile
    >>> from decentorth.data import MatrixFile
    >>> path = tempfile.mkdtemp() + "/samples.npy"
    >>> np.save(path, np.eye(4, 3))
    >>> file = MatrixFile(path)
    >>> file.shape
    (4, 3)
    """

    def __init__(
        self,
        path: PathLike,
        columns: Columns = ALL,
        triplets: bool = False,
        reader: Reader | None = None,
    ) -> None:
        self.name = os.fspath(path)
        self._reader = reader or _reader(self.name, columns, triplets)
        self._keeps_missing = columns.keep_missing
        self._keeps_sparse = columns.keep_sparse

    @property
    def table(self) -> Table | None:
        """The table in the file; None for a file without names of columns."""
        return self._reader if isinstance(self._reader, Table) else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the matrix; empty if they are unnamed."""
        return () if self.table is None else self.table.samples

    def choosing(self, columns: Columns) -> MatrixFile:
        """The same file with other columns of its table; its beginning is not read again."""
        if self.table is None:
            return MatrixFile(self.name, columns)
        return MatrixFile(self.name, columns, reader=self.table.choosing(columns))

    @property
    def shape(self) -> tuple[int, int]:
        """``(m, d)``: the shape, from the header or, in delimited text, by counting rows."""
        return self._reader.shape

    def extent(self) -> Extent:
        """The shape from the header, estimated for a long text, and the memory that reading takes
        beside the rows."""
        return self._reader.extent()

    def rows(self, index: ArrayLike) -> Any:
        """Return the rows ``index``, in that order and with repeats.

        The result is a new float64 array, ``(len(index), d)``, C-contiguous, or the ``csr_array``
        of a sparse file whose rows are kept sparse.
        """
        if self._kept_sparse is not None:
            return self._kept_sparse[require_rows(index, self.shape[0], self.name)]
        return self._select(index, missing=False)

    def divided(self, parts: Sequence[Index]) -> list[Any]:
        """The rows of each of several parts, as `rows`; a long table is read once for all."""
        if self.table is None or self.table.short or len(parts) == 1:
            return [self.rows(part) for part in parts]
        whole = self.rows(np.concatenate(parts))
        return np.split(whole, np.cumsum([len(part) for part in parts[:-1]]))

    def part(self, rows: Index, columns: Index) -> Array:
        """``(len(rows), len(columns))``: some rows and columns, in that order; of a sparse file
        only these are made dense."""
        if self._reader.sparse() is None:
            return np.ascontiguousarray(self._select(rows, missing=False)[:, columns])
        index = require_rows(rows, self.shape[0], self.name)
        require(8.0 * len(index) * np.size(columns), self.name)
        part: Array = self.stored()[index][:, columns].toarray()
        return part

    def observed(self, index: ArrayLike) -> Array:
        """``(len(index), d)``: the rows ``index`` of a partly observed matrix, with NaN for
        unobserved entries.

        These are the entries that a sparse file does not store (a stored zero counts as observed),
        or NaN in a dense file.
        """
        return self._select(index, missing=True)

    def _select(self, index: ArrayLike, missing: bool) -> Array:
        rows = require_rows(index, self.shape[0], self.name)
        wanted, places = np.unique(rows, return_inverse=True)
        block = self._read(wanted, np.nan if missing else 0.0)
        self._require_finite(block, wanted, missing)
        return block if np.array_equal(wanted, rows) else block[places]

    def _read(self, wanted: Index | None, unstored: float = 0.0) -> Array:
        try:
            return self._reader.rows(wanted, unstored)
        except MemoryError as error:
            raise ValueError(
                f"{self.name} does not fit into memory ({error}): read fewer rows in each "
                "process (more ranks)"
            ) from error

    def _require_finite(
        self, block: Array, rows: Index | None, missing: bool = False, stored: Any = None
    ) -> None:
        """Raise unless all values are finite, or NaN where values may be ``missing``; the message
        has the place of the first wrong.

        ``rows`` are the numbers of the block's rows in the matrix (None: all of them). A block of
        one column may hold the entries of the sparse matrix ``stored``.
        """
        bad = np.isinf(block) if missing or self._keeps_missing else ~np.isfinite(block)
        count = int(np.count_nonzero(bad))
        if not count:
            return
        row, column = (int(i) for i in np.argwhere(bad)[0])
        first = block[row, column]
        if stored is not None:
            column = int(stored.indices[row])
            row = int(np.searchsorted(stored.indptr, row, side="right")) - 1
        place = self._reader.place(row if rows is None else int(rows[row]), column)
        nans = int(np.count_nonzero(np.isnan(block[bad])))
        repair = LEAVE_OUT
        if nans == count:
            repair = self._reader.repair
        raise ValueError(
            f"{self.name}: {count} of the {block.size} values read are not finite ({nans} NaN, "
            f"{count - nans} infinite); the first is {first} at {place}. {repair}"
        )

    @cached_property
    def _kept_sparse(self) -> Any:
        """All rows of a sparse file that are kept sparse; otherwise None."""
        found = self._reader.sparse() if self._keeps_sparse else None
        if found is not None:
            self._require_finite(found.data[:, None], None, stored=found)
        return found

    def matrix(self) -> Any:
        """Return all rows as `rows` does."""
        if self._kept_sparse is not None:
            return self._kept_sparse
        block = self._read(None)
        self._require_finite(block, None)
        return block

    def stored(self) -> Any:
        """Return all rows: a ``csr_array`` if the file holds a sparse matrix, else dense.

        A dense result is as from `matrix`.
        """
        found = self._reader.sparse()
        if found is None:
            return self.matrix()
        self._require_finite(found.data[:, None], None, stored=found)
        return found

    @cached_property
    def written(self) -> Labels | None:
        """``(m,)``: the labels as they are written, for `data.labels.agreed`; else None."""
        return self._reader.labels() if self._reader.has_both else None

    @cached_property
    def labels(self) -> Labels | None:
        """``(m,)``: the labels that the file holds beside the matrix (SVMlight, the named column of
        a table), integers if every one is written as an integer, else text; None without
        labels."""
        return None if self.written is None else typed(self.written)


def load_matrix(path: PathLike) -> Array:
    """``(m, d)``: the whole matrix at ``path``, see `MatrixFile.matrix`."""
    dense: Array = MatrixFile(path).matrix()
    return dense


def load_labels(path: PathLike) -> Labels:
    """``(m,)`` integers or strings: a 1-D array in ``.npy`` or ``.npz``, text with one label per
    line, or SVMlight's labels.

    Raises the errors of `MatrixFile`.
    """
    return typed(_reader(os.fspath(path)).labels())
