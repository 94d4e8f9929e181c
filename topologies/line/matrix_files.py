"""Matrices in files: NumPy's ``.npy`` and ``.npz``, SciPy's sparse ``.npz`` and Matrix Market.

Data, labels, mixing matrices, graphs and starting points are all read here, by NumPy and SciPy.
Sizes are compared with the file before memory is taken. Shapes, types and indices are checked
before they are used. Nothing is unpickled. Where there is no such file the error is an OSError, for
values that are not real numbers a TypeError, and for any other damage a ValueError.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import stat
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from topologies.line.later import sparse
from topologies.line.memory import require
from topologies.line.words import suggestion

Stored: TypeAlias = "NDArray[Any] | sparse.coo_array[Any, tuple[int, int]]"

UNPACKED_LIMIT = 2**30
"""The bytes to which any compressed array may unpack: 1 GiB. A larger one must be shrunk by at
most 100."""
EXPANSION = 100
TEXT_LIMIT = 2**28
"""The bytes to which any compressed text may unpack: 256 MiB. A longer one must be shrunk by at
most 32."""
TEXT_EXPANSION = 32
_SPARSE_BYTES = 36.0
"""The bytes of an entry in the two copies, by places and by rows, in which a file is read."""
EMPTY_ROWS = 10**7
"""The number of rows that any sparse matrix may have; more rows need one stored entry for every
16."""

_ENDS = 2**16
_MARKET_HEADER = 2**20
_PARTS = "save its real and imaginary parts as separate columns"
_OBJECTS = "it holds Python objects"
_PLAIN = {
    **dict.fromkeys(
        ("allow_pickle", _OBJECTS), f"{_OBJECTS}, and nothing is unpickled here: save it as numbers"
    ),
    "Cannot allocate memory": "the address space is too small to map it: raise ulimit -v",
    "not a zip file": "it is not a .npz archive, or not a whole one: save it with numpy.savez",
}
"""Plain words for some messages of libraries, by a part of each."""


def plain_words(error: object) -> str:
    """The beginning of a library's message, in one line and in words for users."""
    text = " ".join(str(error)[:200].split())
    known = [words for part, words in _PLAIN.items() if part in text]
    return known[0] if known else text or type(error).__name__


def require_existing(path: Path, kind: str = "file") -> None:
    """Raise FileNotFoundError, with the nearest name in its folder, for a path that does not
    exist."""
    folder = path.parent
    wrong = f"no such {kind}: {path}"
    if not folder.is_dir():
        raise FileNotFoundError(f"{wrong}, there is no folder {folder} seen from {Path.cwd()}")
    if not path.exists():
        near = suggestion(path.name, (other.name for other in folder.iterdir()))
        raise FileNotFoundError(f"{wrong}, in the folder {folder.resolve()}{near}")


def regular_size(path: Path) -> int:
    """The size in bytes of the regular file at ``path``; ValueError for a folder, a device or a
    pipe, which may have no end.

    FileNotFoundError, with the nearest name in the folder, if there is no such file.
    """
    require_existing(path)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(
            f"{path} is not a regular file but a folder, a device or a pipe: write its content "
            "into a file first"
        )
    return status.st_size


@contextmanager
def reading(path: Path, kind: str = "") -> Iterator[None]:
    """Turn the error of a library that reads the regular file at ``path`` into a ValueError of one
    line."""
    regular_size(path)
    try:
        with warnings.catch_warnings():
            # NumPy's advice about files that Python 2 has written
            warnings.filterwarnings("ignore", "Reading `.npy`", UserWarning)
            yield
    except (ModuleNotFoundError, PermissionError):
        raise
    except MemoryError as error:
        raise ValueError(f"{path} does not fit into memory ({plain_words(error)})") from error
    except Exception as error:  # each library has many ways to fail on a damaged file
        raise ValueError(f"{path} cannot be read{kind}: {plain_words(error)}") from error


def refuse_other(path: Path, mark: bytes, what: str) -> None:
    """Raise ValueError if the file at ``path`` is not empty and lacks ``mark`` near its beginning
    and its end."""
    if not os.path.lexists(path):
        return
    try:
        size = regular_size(path)
        with path.open("rb") as file:
            ends = file.read(_ENDS)
            file.seek(max(0, size - _ENDS))
            ends += file.read(_ENDS)
    except (OSError, ValueError):
        size, ends = 1, b""
    if size and mark not in ends:
        raise ValueError(f"{path} exists, is no {what}, and would be replaced: give another name")


def require_unpacked(unpacked: int, packed: int) -> None:
    """Raise an error unless ``unpacked`` bytes fit into memory and are in proportion to the
    ``packed`` bytes that hold them."""
    if unpacked > max(UNPACKED_LIMIT, EXPANSION * packed):
        raise ValueError(
            f"it would unpack from {packed} bytes to {unpacked / 2**30:.3g} GiB, more than "
            f"{EXPANSION} times its size: save it uncompressed (numpy.save, numpy.savez, gunzip)"
        )
    require(float(unpacked), "its content")


def require_real(dtype: np.dtype[Any], what: str) -> None:
    """Raise TypeError unless ``dtype`` is a type of real numbers (booleans count as 0 and 1)."""
    if dtype.kind == "c":
        raise TypeError(f"{what} is complex ({dtype}), but must be real: {_PARTS}")
    if dtype.kind not in "biuf":
        raise TypeError(f"{what} is not numeric (dtype {dtype}): save it as numbers")


def require_matrix(shape: tuple[int, ...], what: str) -> tuple[int, int]:
    """The shape ``(m, d)``; ValueError unless it is two-dimensional and not empty."""
    if len(shape) != 2:
        repair = "; reshape(-1, 1) makes it one column" * (len(shape) == 1)
        raise ValueError(
            f"{what} must have 2 dimensions (rows, columns), but has {len(shape)}: shape "
            f"{shape}{repair}"
        )
    if 0 in shape:
        raise ValueError(f"{what} is empty: shape {shape}")
    return shape[0], shape[1]


def checked(found: Any, what: str) -> Stored:
    """The matrix ``found``, with real numbers and not empty; a sparse one in COO format, float64,
    entries in their order."""
    require_real(found.dtype, what)
    rows, _ = require_matrix(found.shape, what)
    if isinstance(found, np.ndarray):
        return found
    if rows > EMPTY_ROWS + 16 * found.nnz:
        raise ValueError(
            f"{what} has {rows} rows but stores only {found.nnz} entries: leave the rows out "
            "that hold nothing"
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused later
        matrix: Stored = sparse.coo_array(found).astype(np.float64)
    return matrix


def npy_array(path: Path) -> NDArray[Any]:
    """The array of at least one number in the .npy file at ``path``, mapped into memory: only what
    is used is read."""
    npy_shape(path)
    with reading(path):
        return np.asarray(npy.open_memmap(path, "r"))


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """The shape, the type and the bytes of an array in NumPy's format, from its header at the
    beginning of an open file."""
    read = npy.read_array_header_2_0
    if npy.read_magic(file) == (1, 0):
        read = npy.read_array_header_1_0
    shape, _, dtype = read(file)
    return shape, dtype, math.prod(shape) * dtype.itemsize


def npy_shape(path: Path) -> tuple[int, ...]:
    """The shape in the header of the .npy file at ``path``, which holds at least one number and as
    many as the header says."""
    with reading(path), path.open("rb") as file:
        shape, dtype, promised = _header(file)
        if dtype.hasobject:
            raise ValueError(_OBJECTS)
        held = path.stat().st_size - file.tell()
        if promised != held or not dtype.itemsize:
            wrong = "it is truncated: " * (promised > held)
            wrong += (
                f"its header promises {promised} bytes of data (shape {shape}), there are {held}"
            )
            raise ValueError(wrong)
    if not promised:
        raise ValueError(f"{path} is empty: shape {shape}")
    return shape


def npz_keys(path: Path) -> list[str]:
    """The names of the arrays in the archive at ``path``."""
    with reading(path), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def npz_array(path: Path, key: str) -> NDArray[Any]:
    """The array ``key`` in the archive at ``path``."""
    with reading(path), zipfile.ZipFile(path) as archive:
        if f"{key}.npy" not in archive.namelist():
            raise ValueError(f"it holds no array {key!r}")
        info = archive.getinfo(f"{key}.npy")
        require_unpacked(info.file_size, info.compress_size)
        with archive.open(info) as file:
            array = npy.read_array(file, allow_pickle=False)
            if file.read(1) or not array.dtype.itemsize:
                raise ValueError(
                    f"{key} does not hold what its header promises, shape {array.shape} of "
                    f"{array.dtype}"
                )
    return array


def is_sparse(keys: list[str]) -> bool:
    """True if an archive with these arrays was written by ``scipy.sparse.save_npz``."""
    return {"format", "shape", "data"} <= set(keys)


def load_sparse(path: Path | IO[bytes]) -> Any:
    """The matrix that ``scipy.sparse.save_npz`` wrote to ``path``, in any of SciPy's formats, with
    its indices checked."""
    found: Any = sparse.load_npz(path)
    if found.format in ("csr", "csc", "bsr"):
        found.check_format(full_check=True)
        if (np.diff(found.indptr) < 0).any():  # SciPy overlooks it, and writes there
            raise ValueError("its indptr must not fall")
    return found


def sparse_npz(path: Path) -> Stored:
    """A sparse matrix in an archive of SciPy."""
    with reading(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            require_unpacked(info.file_size, info.compress_size)
        found = load_sparse(path)
    return checked(found, str(path))


class Market(NamedTuple):
    """The header of a Matrix Market file."""

    shape: tuple[int, int]
    entries: int | None
    """The number of stored entries, None for a dense matrix."""
    pattern: bool
    """True if entries have no value: each is 1."""
    symmetry: str
    lines: int
    """The number of lines before the entries."""

    @property
    def stored(self) -> tuple[int, int]:
        """The number of lines of entries, and of numbers in each."""
        if self.entries is not None:
            return self.entries, 3 - self.pattern
        n = self.shape[0]
        below = {"general": math.prod(self.shape), "skew-symmetric": n * (n - 1) // 2}
        return below.get(self.symmetry, n * (n + 1) // 2), 1


_NUMBERS = "real|double|integer|unsigned-integer"
_BANNER = re.compile(
    rf"%%matrixmarket matrix (?:(coordinate) (?:{_NUMBERS}|(pattern))|array (?:{_NUMBERS})) "
    r"(general|symmetric|skew-symmetric|hermitian)\b"
)


def _unpacked(path: Path) -> BytesIO:
    """The content of a compressed file; ValueError if it is out of proportion to its size."""
    most = max(TEXT_LIMIT, TEXT_EXPANSION * path.stat().st_size)
    with gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError("it unpacks to more than 256 MiB and 32 times its size: gunzip it first")
    return BytesIO(content)


def _market_header(start: bytes, size: int) -> Market:
    """The header in the ``start`` of a Matrix Market file of ``size`` bytes, which is not too short
    for it."""
    lines = re.split("\r\n?|\n", start.decode("latin-1"))
    banner = " ".join(lines[0].lower().split())
    if " complex " in banner:
        raise ValueError(f"it is complex, but must be real: {_PARTS}")
    known = _BANNER.match(banner)
    if known is None:
        raise ValueError(
            "its first line, the banner, must be like '%%MatrixMarket matrix coordinate real "
            "general'"
        )
    coordinate, pattern, symmetry = known.groups()
    filled = (at for at, line in enumerate(lines) if line.strip() and not line.startswith("%"))
    at = next(filled, 0)
    words = ["rows", "columns"] + ["entries"] * bool(coordinate)
    if not re.fullmatch(
        r"\s*[0-9]{1,16}" + r"\s+[0-9]{1,16}" * (len(words) - 1) + r"\s*", lines[at]
    ):
        raise ValueError(
            f"line {at + 1} must hold the numbers of {', '.join(words)}, each below 10^16"
        )
    sizes = [int(size) for size in lines[at].split()]
    m, d = require_matrix((sizes[0], sizes[1]), "its matrix")
    if symmetry != "general" and m != d:
        raise ValueError(f"a {symmetry} matrix must be square, but it has {m} rows and {d} columns")
    entries = sizes[2] if coordinate else None
    header = Market((m, d), entries, bool(pattern), symmetry, at + 1)
    promised = math.prod(header.stored)
    if 2 * promised - 1 > size:
        raise ValueError(
            f"it is truncated: line {at + 1} promises {promised} numbers, too many for its size"
        )
    return header


def market_matrix(path: Path) -> Stored:
    """The matrix in the Matrix Market file at ``path``: float64, dense or sparse as the file is.

    NumPy reads the numbers: SciPy's reader takes 1.5abc for 1.5, column 1.5 for column 1, and
    crashes on a zero byte.
    """
    source: object = os.path.abspath(path)
    with reading(path, " as a Matrix Market file"):
        if path.name.lower().endswith(".gz"):
            source = _unpacked(path)
            header = _market_header(source.getvalue()[:_MARKET_HEADER], len(source.getvalue()))
        else:
            header = _market_start(path)
        table = _market_numbers(source, header)
        if header.entries is None:
            return _dense(header, table[:, 0])
        matrix = _coordinates(header, table)
    return checked(matrix, str(path))


def _market_start(path: Path) -> Market:
    with path.open("rb") as file:
        return _market_header(file.read(_MARKET_HEADER), path.stat().st_size)


def _market_numbers(source: Any, header: Market) -> NDArray[np.float64]:
    """The numbers in the lines below the header, as many as it promises; ``source`` is a path or a
    file in memory."""
    form: Any = {"comments": None, "skiprows": header.lines, "encoding": "latin-1"}
    with warnings.catch_warnings(action="ignore"):  # where there are no numbers
        # in C, and exactly rounded
        table: NDArray[np.float64] = np.loadtxt(source, ndmin=2, **form)
    lines, numbers = header.stored
    if len(table) < lines:
        raise ValueError(f"it is truncated: it promises {lines} lines, and has {len(table)}")
    if table.size != lines * numbers:
        raise ValueError(
            f"it promises {lines} lines of {numbers} numbers, and has {len(table)} of "
            f"{table.shape[1]}"
        )
    return table.reshape(lines, numbers)


def _coordinates(header: Market, table: NDArray[np.float64]) -> Stored:
    """A sparse matrix from its lines of row, column and value."""
    places = table[:, :2]
    wrong = ~((places >= 1) & (places <= header.shape) & (places == np.floor(places))).all(axis=1)
    if wrong.any():
        entry = int(wrong.argmax())
        where = "row {:.17g}, column {:.17g}".format(*places[entry])
        raise ValueError(f"entry {entry + 1} is in {where} of a matrix of shape {header.shape}")
    i, j = places.astype(np.int64).T - 1
    data = np.ones(len(table)) if header.pattern else table[:, 2].copy()
    if header.symmetry != "general":
        off = i != j
        sign = -1.0 if header.symmetry == "skew-symmetric" else 1.0
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        data = np.concatenate([data, sign * data[off]])
    return sparse.coo_array((data, (i, j)), shape=header.shape)


def _dense(header: Market, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A dense matrix from its columns in turn; if it is symmetric, from their parts below the
    diagonal."""
    m, d = header.shape
    if header.symmetry == "general":
        return values.reshape(d, m).T
    skew = int(header.symmetry == "skew-symmetric")
    upper = np.zeros((m, m))
    upper[np.triu_indices(m, skew)] = values
    return upper.T - upper if skew else upper + np.triu(upper, 1).T


class Header(NamedTuple):
    """The size of a matrix, from the header of its file."""

    shape: tuple[int, ...]
    beside: float
    """The bytes that a process takes beside the rows it reads."""
    entries: int | None = None
    """The number of stored entries of a sparse matrix."""


def matrix_header(path: Path, key: str | None = None) -> Header | None:
    """The header of the file of a matrix.

    None for other files than .npy, .npz (of one array, with its ``key``, or of a sparse matrix) and
    .mtx.
    """
    name = path.name.lower()
    if name.endswith(".npy"):
        return Header(npy_shape(path), 0.0)
    if name.endswith(".mtx"):
        with reading(path, " as a Matrix Market file"):
            market = _market_start(path)
        return Header(market.shape, 8.0 * math.prod(market.stored), market.entries)
    keys = npz_keys(path) if name.endswith(".npz") else []
    if key is None and is_sparse(keys):
        return _sparse_header(path)
    if key is None and len(keys) == 1:
        key = keys[0]
    if key is None or key not in keys:
        return None
    with reading(path), zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as file:
        shape, _, size = _header(file)
    return Header(shape, float(size))


def _sparse_header(path: Path) -> Header:
    """The header of an archive of ``scipy.sparse.save_npz``."""
    with reading(path), zipfile.ZipFile(path) as archive:
        with archive.open("shape.npy") as file:
            sizes, _, _ = _header(file)
        with archive.open("data.npy") as file:
            stored, _, _ = _header(file)
        if sizes != (2,):
            raise ValueError(f"its shape must be two numbers, rows and columns, got {sizes}")
    rows, columns = npz_array(path, "shape").tolist()
    entries = math.prod(stored)
    return Header((int(rows), int(columns)), _SPARSE_BYTES * entries, entries)


def read_matrix(path: str | os.PathLike[str]) -> Stored:
    """The matrix in a .npy, .npz (one array, or SciPy's sparse format), .mtx or .mtx.gz file, dense
    or sparse as the file is."""
    path = Path(path)
    name = path.name.lower()
    if name.endswith((".mtx", ".mtx.gz")):
        return market_matrix(path)
    if name.endswith(".npy"):
        return checked(npy_array(path), str(path))
    if not name.endswith(".npz"):
        raise ValueError(f"{path} must end in .npy, .npz, .mtx or .mtx.gz")
    keys = npz_keys(path)
    if is_sparse(keys):
        return sparse_npz(path)
    if len(keys) != 1:
        raise ValueError(f"{path} must hold one array, and holds {', '.join(keys[:5]) or 'none'}")
    return checked(npz_array(path, keys[0]), str(path))


def read_square(path: str | os.PathLike[str]) -> Stored:
    """The matrix (n, n) of a network of n agents, which stores enough entries to connect them; see
    `read_matrix`."""
    matrix = read_matrix(path)
    n, columns = matrix.shape
    if n != columns:
        raise ValueError(
            f"{path} must be square, one row and one column for each agent, but has shape "
            f"{matrix.shape}"
        )
    if not isinstance(matrix, np.ndarray) and matrix.nnz < n - 1:
        raise ValueError(
            f"{path} must connect its {n} agents, but stores only {matrix.nnz} entries"
        )
    return matrix
