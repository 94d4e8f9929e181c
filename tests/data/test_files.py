"""Files of every format give the same matrix, bit for bit, and every damaged file is refused in
words."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from decentorth.data import Columns, MatrixFile, load_labels, load_matrix
from decentorth.data.array_files import DENSE_LIMIT
from decentorth.data.files import EXTENSIONS
from decentorth.protocols import Array

M, D = 7, 5


def matrix() -> Array:
    """Entries whose decimals need all 17 digits, of many magnitudes, with zeros; the last column is
    nowhere zero."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((M, D)) * 10.0 ** rng.integers(-300, 300, (M, D))
    values[rng.random((M, D)) < 0.3] = 0.0
    values[:, -1] = rng.standard_normal(M)
    values[0, 0] = 5e-324
    values[1, 1] = -np.finfo(float).max
    return values


def text(values: Array, delimiter: str, header: str = "", end: str = "\n") -> str:
    return header + "".join(delimiter.join(repr(float(v)) for v in row) + end for row in values)


def svmlight(values: Array) -> str:
    return "".join(
        f"{i % 3} " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v) + "\n"
        for i, row in enumerate(values)
    )


def coordinate(values: Array) -> str:
    entries = [f"{i + 1} {j + 1} {float(values[i, j])!r}\n" for i, j in np.argwhere(values)]
    return f"%%MatrixMarket matrix coordinate real general\n{M} {D} {len(entries)}\n" + "".join(
        entries
    )


def dense_market(values: Array) -> str:
    return f"%%MatrixMarket matrix array real general\n{M} {D}\n" + "".join(
        f"{float(v)!r}\n" for v in values.T.ravel()
    )


Make = Callable[[Path], str]
"""Writes a file into a folder, and returns what names it."""


def by(name: str, make: Callable[[Path], Any], key: str = "") -> Make:
    def to(folder: Path) -> str:
        make(folder / name)
        return f"{folder / name}{key}"

    return to


def write(name: str, content: str | bytes) -> Make:
    return by(
        name,
        lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content),
    )


def save(values: NDArray[Any], name: str = "a.npy") -> Make:
    return by(name, lambda path: np.save(path, values))


def archive(key: str = "", **members: Any) -> Make:
    return by("a.npz", lambda path: np.savez_compressed(path, **members), key)


def idx(values: NDArray[Any], kind: int = 0x0E) -> bytes:
    dtype = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}[kind]
    return (
        struct.pack(f">HBB{values.ndim}I", 0, kind, values.ndim, *values.shape)
        + values.astype(dtype).tobytes()
    )


def save_sparse(matrix: Any) -> Make:
    return by("a.npz", lambda path: scipy.sparse.save_npz(path, matrix))


A = matrix()
FORMATS = {
    "npy": save(A),
    "npy, Fortran order": save(np.asfortranarray(A)),
    "npz": archive(only=A),
    "npz with a key": archive(":two", one=np.zeros((2, 2)), two=A),
    "csv": write("a.csv", text(A, ",")),
    "csv, header": write("a.csv", text(A, ",", "a,b,c,d,e\n")),
    "csv, quoted header": write("a.csv", text(A, ",", '"weight, kg",b,c,d,e\n')),
    "csv, comments": write("a.csv", text(A, ",", "# 7 samples\n\n# 5 features, raw\na,b,c,d,e\n")),
    "csv, byte order mark and CRLF": write(
        "a.csv", b"\xef\xbb\xbf" + text(A, ", ", end="\r\n").encode()
    ),
    "csv, no newline at the end": write("a.csv", text(A, ",")[:-1]),
    "csv, semicolons": write("a.csv", text(A, ";", "a, in m;b;c;d;e\n")),
    "CSV in capitals": write("A.CSV", text(A, ",")),
    "csv.gz": write("a.csv.gz", gzip.compress(text(A, ",", "a,b,c,d,e\n").encode())),
    "tsv.gz": write("a.tsv.gz", gzip.compress(text(A, "\t").encode())),
    "txt.gz": write("a.txt.gz", gzip.compress(text(A, " ").encode())),
    "tsv": write("a.tsv", text(A, "\t")),
    "txt, spaces": write("a.txt", text(A, "   ", "# one two\n")),
    "svm": write("a.svm", svmlight(A)),
    "svmlight": write("a.svmlight", svmlight(A)),
    "libsvm, comments": write("a.libsvm", "# made by hand\n" + svmlight(A)),
    "mtx, coordinate": write("a.mtx", coordinate(A)),
    "mtx, array": write("a.mtx", dense_market(A)),
    "mtx.gz": write("a.mtx.gz", gzip.compress(coordinate(A).encode())),
    **{
        f"npz, {kind}": save_sparse(scipy.sparse.coo_array(A).asformat(kind))
        for kind in ("csr", "csc", "coo", "bsr", "dia")
    },
    "idx": write("a.idx", idx(A)),
    "idx.gz": write("a.idx.gz", gzip.compress(idx(A))),
    "idx, compressed without saying so": write("a.idx", gzip.compress(idx(A))),
    "idx.gz, not compressed": write("a.idx.gz", idx(A)),
    "idx, three dimensions": write("a.idx", idx(A.reshape(M, D, 1))),
    "-ubyte": write("A-IDX2-UBYTE", idx(A)),
    "-ubyte.gz": write("a-idx2-ubyte.gz", gzip.compress(idx(A))),
}


@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
def test_every_format_gives_the_same_bits_of_the_whole_and_of_rows(
    make: Make, tmp_path: Path
) -> None:
    spec = make(tmp_path)
    whole = load_matrix(spec)
    assert whole.dtype == np.float64
    assert whole.flags.carray
    assert whole.flags.owndata
    assert whole.tobytes() == A.tobytes()
    assert MatrixFile(spec).shape == A.shape
    for rows in ([], [3], [0, 6], [6, 0, 6, 1], list(range(M))):
        part = MatrixFile(spec).rows(rows)
        assert part.flags.c_contiguous
        assert part.shape == (len(rows), D)
        assert part.tobytes() == A[np.array(rows, dtype=int)].tobytes()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 4)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    ),
    mark=st.sampled_from([",", ";", "\t", " "]),
    data=st.data(),
)
def test_text_round_trips_every_finite_number(
    values: Array, mark: str, data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text(values, mark))
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=8))
    assert load_matrix(path).tobytes() == values.tobytes()
    assert MatrixFile(path).rows(rows).tobytes() == values[np.array(rows, dtype=int)].tobytes()


def test_text_agrees_with_numpy_and_matrix_market_with_scipy(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "a.txt", A, header="a b\nc")
    assert np.array_equal(load_matrix(tmp_path / "a.txt"), np.loadtxt(tmp_path / "a.txt"))
    sparse = scipy.sparse.random_array((30, 20), density=0.1, rng=np.random.default_rng(1))
    scipy.io.mmwrite(tmp_path / "s.mtx", sparse, precision=17)
    assert np.array_equal(load_matrix(tmp_path / "s.mtx"), sparse.toarray())
    symmetric = "%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n1 1 4\n2 1 5\n2 1 6\n"
    (tmp_path / "t.mtx").write_text(symmetric)
    assert np.array_equal(load_matrix(tmp_path / "t.mtx"), [[4, 11, 0], [11, 0, 0], [0, 0, 0]])
    (tmp_path / "p.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n"
    )
    assert np.array_equal(load_matrix(tmp_path / "p.mtx"), [[0, 1], [0, 0]])


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "<i4", ">i8", "f2", "<f4", "g"])
def test_npy_of_any_real_type_is_converted_exactly(dtype: str, tmp_path: Path) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    np.save(tmp_path / "a.npy", values)
    assert np.array_equal(load_matrix(tmp_path / "a.npy"), values.astype(float))


def test_files_of_python_2_are_read_without_a_warning(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(4, 3)
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4L, 3L), }".ljust(117) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values.tobytes()
    (tmp_path / "old.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "old.npz", "w") as archive:
        archive.writestr("a.npy", content)
    for name in ("old.npy", "old.npz"):
        file = MatrixFile(tmp_path / name)
        assert file.extent()[:2] == (4, 3)
        np.testing.assert_array_equal(file.matrix(), values)


def test_only_the_rows_wanted_of_an_npy_are_checked_and_read(tmp_path: Path) -> None:
    """A sparse file of 80 GB: row 3 could not be had by reading the whole."""
    rows, columns = 100_000_000, 100
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}
    )
    path = tmp_path / "large.npy"
    with path.open("wb") as file:
        file.write(header.getvalue())
        file.seek(header.tell() + 3 * columns * 8)
        file.write(np.arange(columns, dtype="<f8").tobytes())
        file.truncate(header.tell() + rows * columns * 8)
    assert MatrixFile(path).shape == (rows, columns)
    assert np.array_equal(
        MatrixFile(path).rows([rows - 1, 3]), [np.zeros(columns), np.arange(columns)]
    )


@pytest.mark.parametrize(
    ("kind", "dtype"), [(8, np.uint8), (9, np.int8), (11, np.int16), (12, np.int32)]
)
def test_idx_of_every_kind_of_number(
    kind: int, dtype: type[np.integer[Any]], tmp_path: Path
) -> None:
    """Big-endian, exactly, the largest and smallest numbers included; images are flattened row by
    row."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = np.random.default_rng(kind).integers(low, high, (5, 3, 2), endpoint=True)
    values[0, 0, 0], values[4, 2, 1] = low, high
    (tmp_path / "a.idx").write_bytes(idx(values, kind))
    assert np.array_equal(load_matrix(tmp_path / "a.idx"), values.reshape(5, 6))
    (tmp_path / "a.idx").write_bytes(idx(values, 0x0D))
    assert np.array_equal(load_matrix(tmp_path / "a.idx"), values.reshape(5, 6).astype(np.float32))


def test_only_the_rows_wanted_of_an_idx_are_read(tmp_path: Path) -> None:
    """A sparse file of 78 GB of images: image 3 could not be had by reading the whole."""
    path = tmp_path / "images-idx3-ubyte"
    with path.open("wb") as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, 100_000_000, 28, 28))
        file.seek(3 * 784, 1)
        file.write(bytes(range(256)))
        file.truncate(16 + 100_000_000 * 784)
    assert MatrixFile(path).shape == (100_000_000, 784)
    assert np.array_equal(MatrixFile(path).rows([3])[0, :256], np.arange(256))


HOLES = np.where(A == 0, np.nan, A)
PARTLY = {
    "npy": save(HOLES),
    "csv": write("a.csv", text(HOLES, ",")),
    "mtx": write("a.mtx", coordinate(A)),
    "svm": write("a.svm", svmlight(A)),
    "npz, csc": save_sparse(scipy.sparse.csc_array(A)),
}


def test_a_signalling_nan_is_named_without_a_warning(tmp_path: Path) -> None:
    content = bytearray(idx(np.ones((4, 3)), 0x0D))
    content[-4:] = bytes.fromhex("7f800001")
    (tmp_path / "a.idx").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"not finite \(1 NaN, 0 infinite\); the first is nan at row 3, column 2"
    ):
        load_matrix(tmp_path / "a.idx")


@pytest.mark.parametrize("make", PARTLY.values(), ids=PARTLY)
def test_partly_observed_matrices_have_nan_where_nothing_was_observed(
    make: Make, tmp_path: Path
) -> None:
    file = MatrixFile(make(tmp_path))
    assert file.observed(range(M)).tobytes() == HOLES.tobytes()
    assert file.observed([5, 1, 5]).tobytes() == HOLES[[5, 1, 5]].tobytes()


def test_a_stored_zero_is_observed(tmp_path: Path) -> None:
    scipy.sparse.save_npz(
        tmp_path / "a.npz", scipy.sparse.csr_array(([0.0, 2.0], [1, 0], [0, 1, 2]), shape=(2, 2))
    )
    assert np.array_equal(
        MatrixFile(tmp_path / "a.npz").observed([0, 1]),
        [[np.nan, 0.0], [2.0, np.nan]],
        equal_nan=True,
    )
    (tmp_path / "a.mtx").write_text(MARKET + "2 2 2\n1 2 0\n2 1 2\n")
    assert np.array_equal(
        MatrixFile(tmp_path / "a.mtx").observed([0, 1]),
        [[np.nan, 0.0], [2.0, np.nan]],
        equal_nan=True,
    )


def test_infinity_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("nan,2\n3,-inf\n")
    with pytest.raises(
        ValueError,
        match=r"1 of the 4 values read are not finite \(0 NaN, 1 infinite\); the first is -inf at "
        r"line 2, column '2'",
    ):
        MatrixFile(tmp_path / "a.csv").observed([0, 1])


def test_svmlight_labels_come_with_the_matrix(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("-1 1:2\n1 2:3\n-1 1:0.5 2:1\n")
    labels = MatrixFile(tmp_path / "a.svm").labels
    assert labels is not None
    assert labels.dtype == np.int64
    assert labels.tolist() == [-1, 1, -1] == load_labels(tmp_path / "a.svm").tolist()
    np.save(tmp_path / "a.npy", A)
    assert MatrixFile(tmp_path / "a.npy").labels is None


LABELS = [
    ("y.txt", "3\n1\n2\n", [3, 1, 2]),
    ("y.csv", "label\n3\n-1\n", [3, -1]),
    ("y.csv", "# the classes\n1.0\n2e0\n", [1, 2]),
    ("y.txt", "cat\ndog\ncat\n", ["cat", "dog", "cat"]),
    ("y.txt", "New York\n\u00c5rhus", ["New York", "\u00c5rhus"]),
    ("y.txt", "1\n1a\n", ["1", "1a"]),
]


@pytest.mark.parametrize(("name", "content", "expected"), LABELS)
def test_labels_in_text(name: str, content: str, expected: list[int | str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert load_labels(tmp_path / name).tolist() == expected


@pytest.mark.parametrize(
    "values",
    [
        np.array([2, 0, 1]),
        np.array(["a", "b"]),
        np.array([2.0, 1.0]),
        np.array([True, False]),
        np.array([b"x"]),
    ],
)
def test_labels_in_npy_and_npz(values: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", values)
    np.savez(tmp_path / "y.npz", X=A, y=values)
    expected = [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
    for spec in ("y.npy", "y.npz:y"):
        labels = load_labels(tmp_path / spec)
        assert labels.dtype.kind in "iU"
        assert labels.tolist() == expected


def test_labels_in_idx(tmp_path: Path) -> None:
    content = idx(np.array([3, 1, 255, 0]), 8)
    for name, written in (("a-idx1-ubyte", content), ("a-idx1-ubyte.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(written)
        assert (labels := load_labels(tmp_path / name)).dtype == np.int64
        assert labels.tolist() == [3, 1, 255, 0]


def npy_bytes(values: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def npy_header(descr: str, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def damaged_archive(path: Path) -> None:
    np.savez(path, x=A)
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)


def near_miss(path: Path) -> None:
    path.with_name("digits.csv").write_text("1\n")


def sparse_parts(form: str, shape: tuple[int, int] = (10, 10), **parts: Any) -> Make:
    """A file that says it is a sparse matrix, by default of three ones."""
    return archive(
        **{"format": np.array(form), "shape": np.array(shape), "data": np.ones(3), **parts}
    )


def many_arrays(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for number in range(100):
            file.writestr(f"{number}.npy", b"")


OBJECTS = np.array([[1, "x"]], dtype=object)
STARTS = np.array([0] + [3] * 10)
WILD = np.array([0, 10**9, -5])
MARKET = "%%MatrixMarket matrix coordinate real general\n"
REFUSED: dict[str, tuple[Make, str]] = {
    "no such file": (
        by("digit.csv", near_miss),
        r"no such file: .*digit\.csv, in .*; did you mean 'digits\.csv'\?",
    ),
    "no such folder": (lambda folder: str(folder / "none" / "a.csv"), "there is no folder .*none"),
    "a folder": (lambda folder: str(folder), "is a folder"),
    "unknown extension": (
        write("a.xlsx", "1"),
        r"unknown extension '\.xlsx'; known are \.npy, .*\.mtx\.gz",
    ),
    "empty npy": (write("a.npy", ""), "is empty: it has 0 bytes"),
    "more columns than names": (
        write("a.txt", "values\n1 2 3\n4 x 6\n"),
        r"line 3, column '2': 'x' is not a number",
    ),
    "only a header": (
        write("a.csv", "a,b\n"),
        "a.csv is empty: it holds no rows",
    ),
    "truncated npy": (write("a.npy", npy_bytes(A)[:-8]), r"is truncated"),
    "two arrays in an npy": (
        write("a.npy", npy_bytes(A) * 2),
        r"promises 280 bytes of data .*there are 688",
    ),
    "objects": (save(OBJECTS), r"holds Python objects, and nothing is unpickled"),
    "objects in an archive": (
        archive(x=OBJECTS),
        r"holds Python objects, and nothing is unpickled",
    ),
    "complex": (save(A * 1j), r"is complex \(complex128\)"),
    "one dimension": (save(A[0]), r"2 dimensions .*has 1: shape \(5,\); reshape\(-1, 1\)"),
    "two arrays in an npz": (
        archive(one=A, two=A),
        r"2 arrays, 'one', 'two': choose one, as in .*a\.npz:one",
    ),
    "text called npz": (write("a.npz", "1,2"), r"not a \.npz archive, or not a whole one"),
    "NaN": (save(HOLES), r"of the 35 values read are not finite \(\d+ NaN, 0 infinite\)"),
    "infinite": (
        write("a.csv", "1,2\n3,-inf\nnan,1\n"),
        r"2 of the 6 .*1 NaN, 1 infinite.*first is -inf at line 2, column '2'",
    ),
    "short row": (
        write("a.csv", "a,b,c\n1,2,3\n\n1,2\n"),
        "line 4 has 2 columns, but there are 3 names",
    ),
    "text in a cell": (
        write("a.csv", "a,b\n1,2\n3,x\n"),
        r"line 3, column 'b': 'x' is not .*exclude=\('b',\)",
    ),
    "names among numbers": (
        write("a.csv", "1,b\n1,2\n"),
        r"line 1, column '2': 'b' is not a number.*; a line of names holds no numbers",
    ),
    "UTF-16": (write("a.csv", "1,2\n3,4\n".encode("utf-16")), "zero bytes"),
    "svm too large": (
        write("a.svm", f"1 {DENSE_LIMIT // 8 + 1}:2\n"),
        "would take 4 GiB once dense, more than the 4 GiB",
    ),
    "truncated mtx": (
        write("a.mtx", MARKET + "2 3 3\n1 1 1.5\n"),
        r"is truncated: it promises 3 lines, and has 1",
    ),
    "mtx outside of its size": (
        write("a.mtx", MARKET + "3 3 1\n4 1 1\n"),
        r"entry 1 is in row 4, column 1",
    ),
    "oblong": (
        write("a.mtx", MARKET.replace("general", "symmetric") + "2 3 1\n1 1 1\n"),
        "must be square, but it",
    ),
    "mtx too large": (
        write("a.mtx", MARKET + "1000000 1000000 1\n1 1 1\n"),
        r"7\.45e\+03 GiB once dense, more than the 4 GiB",
    ),
    "not idx": (write("a.idx", "1,2,3,4\n"), r"is not an idx file: it starts with b'1,2,'"),
    "tall": (
        sparse_parts("coo", (3 * 10**8, 2), row=np.arange(3), col=np.zeros(3, int)),
        "rows but stores only 3 entries: leave",
    ),
    "a pipe": (
        by("a.csv", os.mkfifo),
        "is not a regular file but a folder, a device or a pipe: write its content into a file",
    ),
    "many arrays": (by("a.npz", many_arrays), r"holds 100 arrays, '0', .*'19', \.\.\.: choose one"),
}
DAMAGED: dict[str, Make] = {
    "pickle called npy": write("a.npy", b"\x80\x04]."),
    "damaged npz": by("a.npz", damaged_archive),
    "long row": write("a.txt", "1 2\n1 2 3\n"),
    "underscore": write("a.csv", "1,2\n1_0,2\n"),
    "bad svm index": write("a.svm", "1 1:2\n1 -1:2\n"),
    "svm not sorted": write("a.svm", "1 2:2 1:2\n"),
    "mtx in base 16": write("a.mtx", MARKET + "3 3 1\n1 1 0x10\n"),
    "mtx with a tail": write("a.mtx", MARKET + "3 3 1\n1 1 1.5abc\n"),
    "mtx with half a column": write("a.mtx", MARKET + "3 3 1\n1 1.5 1\n"),
    "complex mtx": write("a.mtx", MARKET.replace("real", "complex") + "1 1 1\n1 1 1 2\n"),
    "truncated idx": write("a.idx", idx(A)[:-1]),
    "NaN in idx": write("a.idx", idx(np.array([[1.0, np.nan]]))),
    "wild csr": sparse_parts("csr", indices=WILD, indptr=STARTS),
    "negative indptr": sparse_parts(
        "csr", indices=np.arange(3), indptr=np.array([0, -3] + [3] * 9)
    ),
    "indices of no integers": sparse_parts("csr", indptr=np.ones(11)),
    "tall diagonal": sparse_parts(
        "dia", (2**40, 2), offsets=np.zeros(1, int), data=np.ones((1, 3))
    ),
    "a device": by("a.csv", lambda path: path.symlink_to("/dev/zero")),
    "sparse vector": save_sparse(scipy.sparse.coo_array(A[0])),
    "complex sparse": save_sparse(scipy.sparse.csr_array(A * 1j)),
    "sparse without indices": archive(format=np.array("csr"), shape=np.array([2, 2]), data=A[0]),
    "dense mtx too large": write(
        "a.mtx", MARKET.replace("coordinate", "array") + "99999999999 9999\n1\n"
    ),
}


BAD_LABELS: dict[str, tuple[Make, str]] = {
    "fraction": (write("y.txt", "1\n2.5\n"), r"label 1 \(counted from 0\) is 2\.5"),
    "not finite": (write("y.txt", "1\nnan\n"), r"label 1 \(counted from 0\) is nan"),
    "blank line": (write("y.txt", "1\n\n2\n"), "line 2 is blank"),
    "two columns": (write("y.csv", "1\n2,3\n"), r"line 2 must hold one label, but holds 2: '2,3'"),
    "a matrix": (save(A, "y.npy"), r"must have 1 dimension.*shape \(7, 5\)"),
    "too large": (
        save(np.array([2**63], dtype=np.uint64), "y.npy"),
        "64-bit signed.*9223372036854775808",
    ),
    "matrix market": (write("y.mtx", coordinate(A)), "a matrix, not labels"),
    "sparse": (save_sparse(scipy.sparse.csr_array(A)), "holds a matrix, not labels"),
    "labels in other letters": (
        save(np.array([b"\xff"]), "y.npy"),
        "y.npy must be integers or strings in UTF-8",
    ),
}
CASES: list[tuple[Any, Make, str]] = [
    (load_matrix, *case)
    for case in (*REFUSED.values(), *((make, r"a\.") for make in DAMAGED.values()))
]
CASES += [(load_labels, *case) for case in BAD_LABELS.values()]


@pytest.mark.parametrize(("load", "make", "says"), CASES, ids=[*REFUSED, *DAMAGED, *BAD_LABELS])
def test_what_is_no_matrix_or_labels_is_refused_in_a_line_that_names_it(
    load: Any, make: Make, says: str, tmp_path: Path
) -> None:
    spec = make(tmp_path)
    with pytest.raises((OSError, ValueError, TypeError), match=says) as caught:
        load(spec)
    assert Path(spec).name.split(":")[0] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "allow_pickle" not in str(caught.value)


def test_rows_of_a_matrix_too_large_as_a_whole_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(MARKET + "10000000 1000000 2\n9999999 2 5\n4 1 1\n")
    rows = MatrixFile(tmp_path / "a.mtx").rows([9999998, 0])
    assert np.array_equal(np.argwhere(rows), [[0, 1]])
    assert rows[0, 1] == 5


def test_non_finite_values_are_placed_by_their_row_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n3,4\n5,6\n7,nan\n")
    assert np.array_equal(MatrixFile(tmp_path / "a.csv").rows([2, 0]), [[5, 6], [1, 2]])
    with pytest.raises(ValueError, match="the first is nan at line 4, column '2'"):
        MatrixFile(tmp_path / "a.csv").rows([0, 3])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([0, 7], "has rows 0 to 6, but row 7"),
        ([-1], "but row -1"),
        ([0.0], "must be integers, but are float64"),
        ([True], "must be integers, but are bool"),
        ([[0]], r"1-D list of row numbers, but have shape \(1, 1\)"),
    ],
)
def test_wrong_rows_are_refused(rows: list[Any], says: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        MatrixFile(save(A)(tmp_path)).rows(rows)


@pytest.mark.slow
def test_what_unpacks_out_of_proportion_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    """Files of a few megabytes that would become gigabytes: packed zeros, entries and white
    space."""
    zeros = gzip.compress(bytes(2**24))
    (tmp_path / "short.idx.gz").write_bytes(gzip.compress(idx(np.zeros((30, 6)), 8)) + zeros * 192)
    (tmp_path / "long.idx.gz").write_bytes(
        gzip.compress(struct.pack(">HBBII", 0, 8, 2, 3 * 2**20, 2**10)) + zeros * 192
    )
    (tmp_path / "entries.mtx.gz").write_bytes(
        gzip.compress(f"{MARKET}30 6 400000000\n".encode()) + gzip.compress(b"1 1 1\n" * 2**20)
    )
    (tmp_path / "blanks.mtx.gz").write_bytes(
        gzip.compress(f"{MARKET}3 6 2\n".encode()) + gzip.compress(b" " * 2**24) * 192
    )
    packed = tmp_path / "zeros.npz"
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("x.npy", "w") as member,
    ):
        member.write(npy_header("|u1", (20_000, 60_000)))
        for _ in range(120):
            member.write(bytes(10**7))
    code = """
import resource, sys
from decentorth.data import load_matrix
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        load_matrix(path)
    except ValueError as error:
        print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    paths = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=True
    )
    *said, kilobytes = done.stdout.splitlines()
    expected = [
        "unpacks to more than 256 MiB",
        "too many for its size",
        "to 3 GiB",
        "truncated or too long",
        "to 1.12 GiB",
    ]
    assert [
        (path.name in line, words in line)
        for path, line, words in zip(paths, said, expected, strict=True)
    ] == [(True, True)] * 5
    assert int(kilobytes) < 2**20


@pytest.mark.slow
def test_what_does_not_fit_into_memory_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(npy_header("<f8", (2**28, 1)))
    os.truncate(path, path.stat().st_size + 2**31)
    code = """
import resource, sys
from decentorth.data import load_matrix
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 3 * 2**30,) * 2)
try:
    load_matrix(sys.argv[1])
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert "a.npy does not fit into memory (the matrix would take 2.15 GB" in done.stdout


def test_without_scikit_learn_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.svm").write_text("1 1:2\n")
    for module in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"a\.svm.*needs scikit-learn .*pip install scikit-learn"
    ):
        load_matrix(tmp_path / "a.svm")


def test_every_extension_is_tested() -> None:
    named = {
        known
        for name in FORMATS
        for known in EXTENSIONS
        if re.match(rf"{known.removeprefix('.')}\b(?!\.)", name.lower())
    }
    assert named | {".parquet", ".mat"} == set(EXTENSIONS)  # these two in test_tables.py


def test_sizes_are_known_before_the_numbers_are_read(tmp_path: Path) -> None:
    """Rows and columns of every format, and the bytes that reading takes beside the rows where the
    header says them."""
    A = matrix()
    np.save(tmp_path / "a.npy", A)
    np.savez(tmp_path / "a.npz", A)
    np.savez(tmp_path / "two.npz", a=A, b=A[:3])
    scipy.io.savemat(tmp_path / "a.mat", {"A": A})
    scipy.io.mmwrite(tmp_path / "a.mtx", A)
    (tmp_path / "a.csv").write_text(text(A, ","))
    (tmp_path / "named.csv").write_text(text(A, ",", "a,b,c,d,e\n"))
    beside = {"a.npz": 8.0 * A.size, "two.npz:b": 8.0 * A[:3].size, "a.mtx": 8.0 * A.size}
    for name in ("a.npy", "a.npz", "two.npz:b", "a.mat", "a.mtx", "a.csv", "named.csv"):
        file = MatrixFile(f"{tmp_path}/{name}")
        assert file.extent() == (*file.shape, beside.get(name, 0.0), None)
    assert MatrixFile(f"{tmp_path}/named.csv", Columns(("b", "e"))).extent() == (M, 2, 0.0, None)


def test_of_a_header_no_number_is_read(tmp_path: Path) -> None:
    """Sizes of 10^15 bytes, or what the file system permits, of which nothing is there."""
    for name, columns in (("a.npy", 10**6), ("a.npy", 10**3)):
        path = tmp_path / name
        path.write_bytes(npy_header("<f8", (10**8, columns)))
        with contextlib.suppress(OSError):
            os.truncate(path, path.stat().st_size + 8 * 10**8 * columns)
            break
    assert MatrixFile(path).extent() == (10**8, columns, 0.0, None)
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix array real general\n100000 1000\n")
    os.truncate(path, 2**28)
    assert MatrixFile(path).extent() == (10**5, 1000, 8e8, None)


@pytest.mark.slow
@pytest.mark.parametrize("header", ["", "a,b\n"])
def test_the_rows_of_a_long_text_are_estimated(header: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(header + "0.25,-1.5\n" * 2_000_000)
    for columns in (Columns(), Columns(("2" if not header else "b",))):
        file = MatrixFile(path, columns)
        assert file.extent().rows == pytest.approx(file.shape[0], rel=1e-4)
        assert file.extent().columns == file.shape[1]


@pytest.mark.slow
def test_the_size_of_a_large_matrix_of_matlab_is_in_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"A": np.zeros((2**12, 2**12), np.float32), "text": "x"})
    assert MatrixFile(path).extent() == (2**12, 2**12, 4.0 * 2**24, None)
