"""Matrices in files: NumPy's ``.npy`` and ``.npz``, SciPy's sparse ``.npz`` and Matrix Market.

Data, labels, mixing matrices, graphs and starting points are all read here. A file's size must agree with the shapes and counts
that it states before memory is allocated, and indices are checked before use. Nothing is unpickled. Where there is no such file the
error is an OSError, for values that are not real numbers a TypeError, and for any other damage a ValueError.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from topologies.memory import require

if TYPE_CHECKING:
    from scipy import sparse

Stored: TypeAlias = "NDArray[Any] | sparse.coo_array[Any, tuple[int, int]]"

UNPACKED_LIMIT = 2**30
"""The bytes of float64 numbers to which any compressed array may unpack: 1 GiB. A larger one must be shrunk by at most 100."""
EXPANSION = 100
TEXT_LIMIT = 2**28
"""The bytes to which any compressed text may unpack: 256 MiB. A longer one must be shrunk by at most 32."""
TEXT_EXPANSION = 32
EMPTY_ROWS = 10**7
"""The number of rows that any sparse matrix may have; more rows need one stored entry for every 16."""

_ENDS = 2**16
_LONGEST_HEADER = 2**16
_MARKET_HEADER = 2**20
_LARGEST_SIDE = 2**53
_BAD_HEADER = (ValueError, TypeError, SyntaxError, tokenize.TokenError, EOFError, OverflowError, RecursionError, MemoryError)
# zipfile itself raises NotImplementedError for versions of the format that it does not know, RuntimeError for passwords
_BAD_ARCHIVE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, OSError),
    *(UnicodeDecodeError, OverflowError, IndexError, MemoryError),
)
BAD_GZIP = (EOFError, OSError, zlib.error)
"""The exceptions that reading a damaged gzip file raises."""


def _words(error: object) -> str:
    """The beginning of an error's message, in one line."""
    return " ".join(str(error)[:200].split()) or type(error).__name__


def regular_size(path: Path) -> int:
    """The size in bytes of the regular file at ``path``; ValueError for a folder, a device or a pipe, which may have no end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a regular file but a folder, a device or a pipe: write its content into a file first")
    return status.st_size


def refuse_other(path: Path, mark: bytes, what: str) -> None:
    """Raise ValueError if a file is at ``path`` that is not empty and has no ``mark`` near its beginning or its end."""
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


def require_unpacked(values: int, packed: int, what: str) -> None:
    """Raise ValueError unless ``values`` numbers are in proportion to the ``packed`` bytes that hold them."""
    if 8 * values > max(UNPACKED_LIMIT, EXPANSION * packed):
        raise ValueError(
            f"{what} would unpack from {packed} bytes to {8 * values / 2**30:.3g} GiB of numbers, more than {EXPANSION} times its "
            "size: save it uncompressed (numpy.save, numpy.savez, gunzip)"
        )


def require_real(dtype: np.dtype[Any], what: str) -> None:
    """Raise TypeError unless ``dtype`` is a type of real numbers (booleans count as 0 and 1)."""
    if dtype.hasobject:
        raise TypeError(f"{what} holds pickled Python objects (dtype {dtype}), and nothing is unpickled here: save it as numbers")
    if dtype.kind == "c":
        raise TypeError(f"{what} is complex ({dtype}), but must be real: save its real and imaginary parts as separate columns")
    if dtype.kind not in "biuf":
        raise TypeError(f"{what} is not numeric (dtype {dtype}): save it as floating-point numbers or integers")


def require_matrix(shape: tuple[int, ...], what: str) -> tuple[int, int]:
    """The shape ``(m, d)``; ValueError unless it is two-dimensional and not empty."""
    if len(shape) != 2:
        repair = "; reshape(-1, 1) makes it one column" if len(shape) == 1 else ""
        raise ValueError(f"{what} must have 2 dimensions (rows, columns), but has {len(shape)}: shape {shape}{repair}")
    if 0 in shape:
        raise ValueError(f"{what} is empty: shape {shape}")
    return shape[0], shape[1]


def require_starts(starts: NDArray[np.integer[Any]], lines: int, entries: int, what: str) -> None:
    """Raise ValueError unless ``starts`` are the places where each of ``lines`` rows or columns begins among ``entries``."""
    if starts.size != lines + 1 or starts[0] or (starts[1:] < starts[:-1]).any() or starts[-1] > entries:
        raise ValueError(f"{what} must rise from 0 to at most {entries} in {lines + 1} steps")


def _require_stored(rows: int, entries: int, what: str) -> None:
    if rows > EMPTY_ROWS + 16 * entries:
        raise ValueError(f"{what} has {rows} rows but stores only {entries} entries: leave the rows out that hold nothing")


class Header(NamedTuple):
    """The header of an array in .npy format."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int
    """The number of bytes before the array's data."""

    @property
    def order(self) -> Any:
        """The order of the numbers, in NumPy's letters."""
        return "F" if self.fortran_order else "C"


def _read_header(file: IO[bytes], size: int, what: str) -> Header:
    """Header of an array in .npy format whose file has ``size`` bytes; the file must hold exactly what its header promises."""
    magic = file.read(npy.MAGIC_LEN)
    if magic[:1] == b"\x80":
        raise TypeError(f"{what} is a pickle, and nothing is unpickled here: save its numbers with numpy.save")
    if magic[:6] != npy.MAGIC_PREFIX:
        raise ValueError(f"{what} is not in .npy format: it starts with {magic!r} instead of {npy.MAGIC_PREFIX!r}")
    version = tuple(magic[6:])
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{what} says it is in version {version} of the .npy format; plain matrices are in version 1.0 or 2.0")
    width, read = (2, npy.read_array_header_1_0) if version == (1, 0) else (4, npy.read_array_header_2_0)
    length = file.read(width)
    text = length + file.read(min(int.from_bytes(length, "little"), _LONGEST_HEADER))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old spellings
            shape, fortran_order, dtype = read(io.BytesIO(text))
    except _BAD_HEADER as error:
        raise ValueError(f"{what} has a damaged .npy header: {_words(error)}") from error
    header = Header(shape, fortran_order, dtype, npy.MAGIC_LEN + len(text))
    if dtype.hasobject:
        require_real(dtype, what)
    if min(shape, default=0) < 0 or not dtype.itemsize:
        raise ValueError(f"{what} has a damaged .npy header: shape {shape}, {dtype}")
    held, promised = size - header.offset, math.prod(shape) * dtype.itemsize
    if held != promised:
        wrong = "is truncated" if held < promised else "holds more than one array"
        raise ValueError(f"{what} {wrong}: its header promises {promised} bytes of data (shape {shape}, {dtype}), there are {held}")
    return header


def npy_header(path: Path) -> Header:
    """The header of the .npy file at ``path``, which holds as many numbers as it says."""
    size = regular_size(path)
    with path.open("rb") as file:
        return _read_header(file, size, str(path))


def npy_array(path: Path) -> NDArray[Any]:
    """The array of at least one number in the .npy file at ``path``, mapped into memory: only what is used is read."""
    header = npy_header(path)
    if 0 in header.shape:
        raise ValueError(f"{path} is empty: shape {header.shape}")
    return np.asarray(np.memmap(path, header.dtype, "r", header.offset, header.shape, header.order))


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    regular_size(path)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _BAD_ARCHIVE as error:
        raise ValueError(f"{path} is not a whole .npz archive: {_words(error)}") from error


@contextmanager
def _member(path: Path, key: str) -> Iterator[tuple[IO[bytes], Header]]:
    """The array ``key`` of an archive: its file, at its first number, and its header."""
    what = f"{path}:{key}"
    with _archive(path) as archive:
        try:
            info = archive.getinfo(f"{key}.npy")
        except KeyError:
            raise ValueError(f"{path} holds no array {key!r}") from None
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{what} is not compressed as NumPy does it: save it with numpy.savez_compressed")
        with archive.open(info) as file:
            header = _read_header(file, info.file_size, what)
            if info.compress_type == zipfile.ZIP_DEFLATED or info.compress_size != info.file_size:
                values = math.prod(header.shape) * max(1, -(-header.dtype.itemsize // 8))
                require_unpacked(values, min(info.compress_size, path.stat().st_size), what)
            yield file, header


def npz_keys(path: Path) -> list[str]:
    """The names of the arrays in the archive at ``path``."""
    with _archive(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def npz_header(path: Path, key: str) -> Header:
    """The header of the array ``key`` in the archive at ``path``, which is not too large for its packed size."""
    with _member(path, key) as (_, header):
        return header


def npz_array(path: Path, key: str) -> NDArray[Any]:
    """The array ``key`` in the archive at ``path``."""
    stated = npz_header(path, key)
    require(float(stated.dtype.itemsize * math.prod(stated.shape)), f"{path}:{key}")
    with _member(path, key) as (file, header):
        flat = np.empty(math.prod(header.shape), header.dtype)
        raw = memoryview(flat.view(np.uint8).data)
        while raw:
            count = file.readinto(raw[: 2**20])  # type: ignore[attr-defined]
            if not count:
                raise ValueError(f"{path}:{key} is truncated: {len(raw)} bytes are missing")
            raw = raw[count:]
        return flat.reshape(header.shape, order=header.order)


def is_sparse(keys: list[str]) -> bool:
    """True if an archive with these arrays was written by ``scipy.sparse.save_npz``."""
    return {"format", "shape", "data"} <= set(keys)


def sparse_npz(path: Path) -> sparse.coo_array[Any, tuple[int, int]]:
    """The matrix that ``scipy.sparse.save_npz`` wrote to ``path``, in any of SciPy's formats; entries in the order of the file."""
    from scipy import sparse

    what = f"{path} is not a whole sparse matrix of SciPy"

    def integers(key: str) -> NDArray[np.int64]:
        header = npz_header(path, key)
        if header.dtype.kind not in "iu" or len(header.shape) != 1:
            raise ValueError(f"{what}: {key!r} must be a list of integers, but is {header.dtype} of shape {header.shape}")
        return npz_array(path, key).astype(np.int64)

    def within(key: str, least: int, bound: int) -> NDArray[np.int64]:
        indices = integers(key)
        wrong = (indices < least) | (indices >= bound)
        if wrong.any():
            raise ValueError(f"{what}: {key!r} holds {indices[wrong][0]}, but must be from {least} to {bound - 1}")
        return indices

    shape = require_matrix(tuple(integers("shape").tolist()), str(path))
    kind, header = npz_header(path, "format"), npz_header(path, "data")
    name = npz_array(path, "format").tolist() if kind.shape == () and kind.dtype.kind in "SU" else None
    form = name.decode("ascii", "replace") if isinstance(name, bytes) else name
    dimensions = {"csr": 1, "csc": 1, "coo": 1, "dia": 2, "bsr": 3}
    if form not in dimensions or min(shape) < 0 or len(header.shape) != dimensions[form]:
        raise ValueError(f"{what}: values of shape {header.shape} in the format {str(form)[:20]!r}, for a matrix of shape {shape}")
    require_real(header.dtype, str(path))
    _require_stored(shape[0], math.prod(header.shape), str(path))
    places: Any
    if form == "coo":
        places = ((within("row", 0, shape[0]), within("col", 0, shape[1])),)
    elif form == "dia":
        places = (within("offsets", 1 - shape[0], shape[1]),)
    else:
        height, width = header.shape[1:] or (1, 1)
        if not height or not width or shape[0] % height or shape[1] % width:
            raise ValueError(f"{what}: blocks of shape {(height, width)} do not divide a matrix of shape {shape}")
        rows, columns = shape[0] // height, shape[1] // width
        major, minor = (columns, rows) if form == "csc" else (rows, columns)
        starts, indices = integers("indptr"), within("indices", 0, minor)
        require_starts(starts, major, indices.size, f"{what}: 'indptr'")
        places = (indices, starts)
    data = npz_array(path, "data").astype(np.float64)
    try:
        matrix: Any = getattr(sparse, f"{form}_array")((data, *places), shape=shape)
    except (ValueError, OverflowError) as error:  # their numbers do not fit each other
        raise ValueError(f"{what}: {_words(error)}") from error
    return sparse.coo_array(matrix)


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
            return self.entries, 2 if self.pattern else 3
        n = self.shape[0]
        below = {"general": math.prod(self.shape), "skew-symmetric": n * (n - 1) // 2}
        return below.get(self.symmetry, n * (n + 1) // 2), 1


def _market(path: Path, why: object) -> ValueError:
    return ValueError(f"{path} cannot be read as a Matrix Market file: {_words(why)}")


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def market_header(path: Path) -> Market:
    """The header of the Matrix Market file at ``path``, which is not too short for it; a name that ends in .gz is compressed."""
    size = regular_size(path)
    try:
        with gzip.open(path) if _is_packed(path) else path.open("rb") as file:
            text = file.read(_MARKET_HEADER).decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    except BAD_GZIP as error:
        raise _market(path, error) from error
    start = text.split("\n")
    if len(text) == _MARKET_HEADER:
        start.pop()  # the line may be longer
    banner = start[0].lower() if start else ""
    kind, form, field, symmetry = (*banner.split(), "", "", "", "")[1:5]
    if not banner.startswith("%%matrixmarket") or kind != "matrix" or form not in ("coordinate", "array"):
        raise _market(path, "its first line, the banner, must be like '%%MatrixMarket matrix coordinate real general'")
    if field == "complex":
        raise TypeError(f"{path} is complex, but must be real: save its real and imaginary parts as separate columns")
    if field not in ("real", "double", "integer", "unsigned-integer", *(["pattern"] if form == "coordinate" else [])):
        raise _market(path, f"it has the unknown kind of number {field[:20]!r}")
    if symmetry not in ("general", "symmetric", "skew-symmetric", "hermitian"):
        raise _market(path, f"it has the unknown symmetry {symmetry[:20]!r}")
    at = next((at for at, line in enumerate(start[1:], 1) if line.strip() and not line.startswith("%")), 0)
    sizes = [int(size) for size in start[at].split() if re.fullmatch("[0-9]{1,18}", size)] if at else []
    if len(sizes) != len(start[at].split()) or len(sizes) != (3 if form == "coordinate" else 2) or max(sizes) > _LARGEST_SIDE:
        what = "rows, columns and entries" if form == "coordinate" else "rows and columns"
        raise _market(path, f"line {at + 1} must hold the numbers of {what}, each at most 2^53")
    m, d = require_matrix((sizes[0], sizes[1]), str(path))
    header = Market((m, d), sizes[2] if form == "coordinate" else None, field == "pattern", symmetry, at + 1)
    if symmetry != "general" and m != d:
        raise _market(path, f"a {symmetry} matrix must be square, but it has {m} rows and {d} columns")
    if 2 * math.prod(header.stored) - 1 > (_text_limit(size) if _is_packed(path) else size):
        raise _market(path, f"it is truncated: line {at + 1} promises {math.prod(header.stored)} numbers, too many for its size")
    if header.entries is not None:
        _require_stored(m, header.entries, str(path))
    return header


def market_matrix(path: Path) -> Stored:
    """The matrix in the Matrix Market file at ``path``: float64, dense or sparse as the file is.

    NumPy reads the numbers: SciPy's reader takes 1.5abc for 1.5, column 1.5 for column 1, and crashes on a zero byte.
    """
    from scipy import sparse

    header = market_header(path)
    lines, numbers = header.stored
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        source = _unpacked_lines(path) if _is_packed(path) else os.path.abspath(path)
        try:
            table: NDArray[np.float64] = np.loadtxt(
                source, comments=None, skiprows=header.lines, ndmin=2, encoding="latin-1"
            )  # in C, and exactly rounded
        except (ValueError, MemoryError, *BAD_GZIP) as error:
            raise _market(path, str(error).partition("; use `usecols`")[0]) from error
    if len(table) != lines or (lines and table.shape[1] != numbers):
        got = f"{len(table)} lines" if len(table) != lines else f"{table.shape[1]} numbers in each line"
        wrong = "is truncated" if len(table) < lines else "does not fit its size"
        raise _market(path, f"it {wrong}: it promises {lines} lines of {numbers} numbers, and has {got}")
    if header.entries is None:
        return _dense(header, table[:, 0])
    if not lines:
        return sparse.coo_array(header.shape)
    places = table[:, :2]
    wrong_places = ~((places >= 1) & (places <= header.shape) & (places == np.floor(places))).all(axis=1)
    if wrong_places.any():
        entry = int(np.argmax(wrong_places))
        row, column = places[entry]
        raise _market(path, f"entry {entry + 1} stands in row {row:.17g}, column {column:.17g} of a matrix of shape {header.shape}")
    i, j = places.astype(np.int64).T - 1
    data = np.ones(lines) if header.pattern else table[:, 2].copy()
    if header.symmetry != "general":
        off = i != j
        mirrored = -data[off] if header.symmetry == "skew-symmetric" else data[off]
        i, j, data = np.concatenate([i, j[off]]), np.concatenate([j, i[off]]), np.concatenate([data, mirrored])
    return sparse.coo_array((data, (i, j)), shape=header.shape)


def _dense(header: Market, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A dense matrix from its columns in turn; if it is symmetric, from their parts below the diagonal."""
    m, d = header.shape
    if header.symmetry == "general":
        return values.reshape(d, m).T
    skew = int(header.symmetry == "skew-symmetric")
    upper = np.zeros((m, m))
    upper[np.triu_indices(m, skew)] = values
    return upper.T - upper if skew else upper + np.triu(upper, 1).T


def _text_limit(packed: int) -> int:
    return max(TEXT_LIMIT, TEXT_EXPANSION * packed)


def _unpacked_lines(path: Path) -> Iterator[str]:
    """The lines of a compressed file; raise when they are out of proportion to its size."""
    left = _text_limit(path.stat().st_size)
    with gzip.open(path, "rt", encoding="latin-1") as file:
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise ValueError("it unpacks to more than 256 MiB and 32 times its size: gunzip it first")
            yield line


def read_matrix(path: str | os.PathLike[str]) -> Stored:
    """The matrix in a .npy, .npz (one array, or SciPy's sparse format), .mtx or .mtx.gz file, dense or sparse as the file is."""
    path = Path(path)
    name = path.name.lower()
    if name.endswith((".mtx", ".mtx.gz")):
        return market_matrix(path)
    if name.endswith(".npy"):
        array = npy_array(path)
    elif name.endswith(".npz"):
        keys = npz_keys(path)
        if is_sparse(keys):
            return sparse_npz(path)
        if len(keys) != 1:
            raise ValueError(f"{path} must hold one array, and holds {', '.join(keys[:5]) or 'none'}")
        array = npz_array(path, keys[0])
    else:
        raise ValueError(f"{path} must end in .npy, .npz, .mtx or .mtx.gz")
    require_real(array.dtype, str(path))
    require_matrix(array.shape, str(path))
    return array


def read_square(path: str | os.PathLike[str]) -> Stored:
    """The matrix (n, n) of a network of n agents, which stores enough entries to connect them; see `read_matrix`."""
    matrix = read_matrix(path)
    n, columns = matrix.shape
    if n != columns:
        raise ValueError(f"{path} must be square, one row and one column for each agent, but has shape {matrix.shape}")
    if not isinstance(matrix, np.ndarray) and matrix.nnz < n - 1:
        raise ValueError(f"{path} must connect its {n} agents, but stores only {matrix.nnz} entries")
    return matrix
