"""Delimited text: what is recognised, and two readers that give the same bits."""

from __future__ import annotations

import gzip
import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from decentorth.data import Columns, MatrixFile, text_head, text_table
from decentorth.problems import PCA, PCASettings
from decentorth.problems.common.division import Division
from decentorth.problems.common.here import HERE

INDEX = "ignore:.*a column without a name is left out:UserWarning"
AB, ROWS = ("a", "b"), [[1.0, 2.0], [3.0, 4.0]]
NAN = np.nan
RECOGNISED: dict[str, tuple[str, tuple[str, ...], list[list[float]]]] = {
    "names": ("a,b\n1,2\n3,4\n", AB, ROWS),
    "no names": ("1,2\n3,4\n", ("1", "2"), ROWS),
    "semicolons": ("a;b\n1;2\n3;4\n", AB, ROWS),
    "tabs": ("a\tb\n1\t2\n3\t4\n", AB, ROWS),
    "white space": ("a   b\n 1 2\n3  4\n", AB, ROWS),
    "a title over white space": ("two columns of numbers\n1 2\n3 4\n", ("1", "2"), ROWS),
    "white space after commas": ("a, b\n1, 2\n3, 4\n", AB, ROWS),
    "lines of Windows, and a byte order mark": ("\ufeffa,b\r\n1,2\r\n3,4\r\n", AB, ROWS),
    "lines of old Macs": ("a,b\r1,2\r3,4\r", AB, ROWS),
    "comments and blank lines": ("# by hand\n\n#\na,b\n\n1,2\n   \n3,4\n\n", AB, ROWS),
    "Excel's line": ("sep=;\na;b\n1;2\n3;4\n", AB, ROWS),
    "a semicolon in a name": ("a;b,c\n1,2\n3,4\n", ("a;b", "c"), ROWS),
    "a comma in a name": ('"a, b";c\n1;2\n3;4\n', ("a, b", "c"), ROWS),
    "a line end in a name": ('"a\nb",c\n1,2\n3,4\n', ("a\nb", "c"), ROWS),
    "a line end in a number": ('a,b\n"1\n",2\n3,4\n', AB, ROWS),
    "years in quotes": ('"2019","2020"\n1,2\n3,4\n', ("2019", "2020"), ROWS),
    "numbers in quotes are no names": ('"1","2"\n"3","4"\n', ("1", "2"), ROWS),
    "the index of pandas": (",a,b\n0,1,2\n1,3,4\n", AB, ROWS),
    "an index of dates": (",a,b\n2020-01-01,1,2\n2020-01-02,3,4\n", AB, ROWS),
    "an index that pandas has read": ("Unnamed: 0,a,b\n0,1,2\n1,3,4\n", AB, ROWS),
    "the index of an array in pandas": (",0,1\n0,1,2\n1,3,4\n", ("0", "1"), ROWS),
    "R's write.csv": ('"","a","b"\n"1",1,2\n"2",3,4\n', AB, ROWS),
    "R's write.csv, years": ('"","2019","2020"\n"1",1,2\n"2",3,4\n', ("2019", "2020"), ROWS),
    "R's write.table": ('"a" "b"\n"1" 1 2\n"2" 3 4\n', AB, ROWS),
    "R's write.table with commas": ('"a","b"\n"x",1,2\n"y",3,4\n', AB, ROWS),
    "R's write.table without quotes": ("a b\nx 1 2\ny 3 4\n", AB, ROWS),
    "decimal commas": ("a;b\n1,0;2\n3;4,0e0\n", AB, ROWS),
    "decimal commas between tabs": ("a\tb\n1\t2,0\n3\t4,0\n", AB, ROWS),
    "marks of missing numbers": ("a,b\n1,?\n-,.\nNA,n/a\n,4\n", AB, [[1, NAN], [NAN, NAN], [NAN, NAN], [NAN, 4]]),
    "a missing first cell is no name": (",2\n3,4\n", ("1", "2"), [[NAN, 2], [3, 4]]),
    "numbers as names are a row": ("2019,2020\n1,2\n", ("1", "2"), [[2019, 2020], [1, 2]]),
}  # fmt: skip


@pytest.mark.filterwarnings(INDEX)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", RECOGNISED.values(), ids=RECOGNISED)
def test_what_is_recognised(
    case: tuple[str, tuple[str, ...], list[list[float]]], packed: bool, tmp_path: Path
) -> None:
    content, names, rows = case
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    file = MatrixFile(path, Columns(keep_missing=True))
    assert file.names == names
    assert np.array_equal(file.matrix(), rows, equal_nan=True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("1,x,2\n3,y,4\n", r"line 1, column '2': 'x' is not a number.*; a line of names holds"),
        ("a,b\n1,2\n3\n", "line 3 has 1 columns, but there are 2 names"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2 has 3 columns, but the line of names, line 1, has 2"),
        ("a,b\nann,1,\nbo,2,\n", "line 2 has 3 columns, but the line of names, line 1, has 2"),
        ("a;b\n1,5;2\n3.25;4\n", "line 2, column 'a': '1,5' has a comma, and numbers here have a"),
        ("a;b\n1.234,5;2\n", r"'1\.234,5' has a comma.*none between thousands"),
        ('a,b\n"1,5",2\n', "'1,5' has a decimal comma, which is read between semicolons or tabs"),
        ("a,b\n1,2\nTrue,3\n", r"line 3, column 'a': 'True' is not a number.*exclude=\('a',\)"),
        ("a,b\n0x10,1_0\n", r"'0x10' is not a number.*exclude=\('a', 'b'\)"),
        ("a,b\n", "is empty: it holds no rows"),
        ("# nothing\n\n", "is empty: it holds no rows"),
        ('a,b\n1,"2\n3,4\n', "line 3: unexpected end of data"),
        ("größe,b\n1,2\n", "line 1 is not in UTF-8: save the file as UTF-8"),
    ],
)
def test_what_is_refused_in_one_line(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=says) as caught:
        MatrixFile(tmp_path / "a.csv").matrix()
    assert "a.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_index_is_left_out_with_a_warning(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 3.0], "b": [2.0, 4.0]}, index=["x", "y"])
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.warns(UserWarning, match=f"{name}: a column without a name is left out") as one:
            assert np.array_equal(MatrixFile(tmp_path / name).matrix(), ROWS)
        assert len(one) == 1
    frame.reset_index(drop=True).to_parquet(tmp_path / "a.parquet")
    assert np.array_equal(MatrixFile(tmp_path / "a.parquet").matrix(), ROWS)


def test_marks_of_missing_numbers_are_text_as_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,x\n-,1\n?,2\n.,3\n")
    assert (labels := MatrixFile(tmp_path / "a.csv", Columns(label="label")).labels) is not None
    assert labels.tolist() == ["-", "?", "."]


HARD = """5e-324 2.4703282292062327e-324 2.4703282292062328e-324 1.7976931348623157e308
2.2250738585072011e-308 9007199254740993 9007199254740993.0 8.5e22 1e23 6.02214076e23 -0.0 1e400
0.1000000000000000055511151231257827021181583404541015625 123456789012345678901234567890 -1e-400
0.500000000000000166533453693773481063544750213623046875 1e+5 1E5 .5 5. +7 -.5e-3""".split()


def quick(monkeypatch: pytest.MonkeyPatch, piece: int = 64) -> None:
    """Let pyarrow read short texts too, in short pieces."""
    monkeypatch.setattr(text_head, "SHORT", 0)
    monkeypatch.setattr(text_table, "PIECE", piece)


@pytest.mark.parametrize("decimal", [".", ","])
def test_every_number_has_the_bits_of_pythons_float(
    decimal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**64, 3000, dtype=np.uint64, endpoint=False).view(np.float64)
    values = values[np.isfinite(values)]
    words = [*HARD, *(repr(value) for value in values.tolist())]
    words += [f"{value:.25e}" for value in values[:999].tolist()]
    words += [f"{value:.15g}" for value in rng.standard_normal(999).tolist()]
    expected = np.array([*map(float, words)])
    rows = "".join(f"{word.replace('.', decimal)};1\n" for word in words)
    (tmp_path / "a.csv").write_text(f"x;one\n{rows}")
    for read_quickly in (False, True):
        if read_quickly:
            quick(monkeypatch, 4096)
        found = MatrixFile(tmp_path / "a.csv", Columns(("x",))).table
        assert found is not None
        assert found.rows(None)[:, 0].tobytes() == expected.tobytes()


SEEDS = (
    'a,b,c\n1,x,2\n3,"y, z",4\n,x,5\n6,y,7.5\n' * 2,
    'a;b;c\n1,5;x;2\n3;"y; z";4,5\n6;7;8\n9;10;11,25\n',
    "a\tb\tc\r\n1\tx\t2\r\n3\ty\t4\r\n5\tx\t6\r\n7\ty\t8\r\n",
    '"","a","b","c"\n"1",1,"x",2\n"2",3,"y ""z""\n",4\n"3",5,"",6\n',
    "1,x,2\n3,y,4\n5,z,6\n7,x,8\n9,y,10\n",
)
TOKENS = (
    '" , \n \r ; 1 . - x NA ? é _ e \t nan inf # "" \n\n 0x1 + True \u00a0 nan(1) -nan " "" \ufeff '
    "1e400 \r\n \x0b \x1c NULL na Na"
).split(" ")


def outcome(path: Path, columns: Columns) -> Any:
    """The bits of all numbers, of some, and the labels; or the error."""
    try:
        file = MatrixFile(path, columns)
        rows, width = file.shape
        some = file.observed(np.arange(0, rows, 2))
        table = file.choosing(columns._replace(keep_missing=True)).table
        assert table is not None
        whole = table.rows(None)
        assert whole.shape == (rows, width)
        labels = None if file.written is None else file.written.tolist()
        return whole.tobytes(), some.tobytes(), labels
    except (ValueError, TypeError) as error:
        return str(error)


@pytest.mark.filterwarnings(INDEX)
@pytest.mark.parametrize("piece", [16, 64])
def test_both_readers_give_the_same_of_damaged_files(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers, labels and messages: the whole is the plain reader's, or pyarrow's in pieces."""
    pytest.importorskip("pyarrow")
    quick(monkeypatch, piece)
    rng, path, read = random.Random(piece), tmp_path / "a.csv", 0
    for number in range(400):
        content = SEEDS[number % len(SEEDS)]
        for _ in range(rng.randint(0, 3)):
            at = rng.randint(0, len(content))
            content = content[:at] + rng.choice(TOKENS) + content[at + rng.randint(0, 1) :]
        path.write_bytes(content.encode("latin-1" if number % 7 == 0 else "utf-8", "replace"))
        for columns in (
            Columns(exclude=("b",)),
            Columns(("a", "c"), "b"),
            Columns(("3", "1"), "2", drop_missing=True),
            Columns(("a", "c"), "b", drop_missing=True),
        ):
            found = {}
            for name in ("plain", "pyarrow"):
                monkeypatch.setattr(text_table, "has_arrow", lambda name=name: name == "pyarrow")
                found[name] = outcome(path, columns)
            assert found["plain"] == found["pyarrow"], (content, columns)
            read += not isinstance(found["plain"], str)
    assert read > 200


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_rows_of_a_long_text_are_the_same_with_both_readers(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a mebibyte, with a label, holes, and a cell that pyarrow refuses in the middle."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    values = rng.standard_normal((30_000, 4))
    values[rng.random(values.shape) < 1e-3] = np.nan
    frame = pd.DataFrame(values, columns=list("abcd")).assign(label=rng.integers(0, 3, 30_000))
    lines = frame.to_csv(index=False, float_format="%.17g").splitlines()
    values[20_000, 0] = np.nan
    lines[20_001] = " NA " + lines[20_001][lines[20_001].index(",") :]
    content = "\n".join(lines)
    packed = gzip.compress(content.encode(), 1) if ending == "csv.gz" else content.encode()
    path = tmp_path / f"a.{ending}"
    path.write_bytes(packed)
    columns = Columns(("d", "a"), "label", drop_missing=True)
    expected = values[:, [3, 0]][~np.isnan(values[:, [3, 0]]).any(-1)]
    wanted = [29_000, 5, 20_500]
    for arrow in (True, False):
        monkeypatch.setattr(text_table, "has_arrow", lambda arrow=arrow: arrow)
        file = MatrixFile(path, columns)
        assert abs(file.extent().rows / 30_000 - 1) < (0.02 if ending == "csv" else 0.2)
        assert np.array_equal(file.rows(wanted), expected[wanted])
        assert np.array_equal(file.matrix(), expected)
        assert file.labels is not None
        assert len(file.labels) == len(expected)


def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The number of times that files are opened from now on."""
    opened = []
    plain = Path.open

    def open_(self: Path, *args: Any, **kwargs: Any) -> Any:
        opened.append(self)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", open_)
    return lambda: len(opened)


@pytest.mark.parametrize(("rows", "opens"), [(50, 1), (60_000, 2)])
def test_a_site_opens_its_file_once_or_twice(
    rows: int, opens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        frame = pd.DataFrame(rng.standard_normal((rows, 2)), columns=["x", "y"])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    count = counted(monkeypatch)
    built = PCA.from_sites([tmp_path / "north.csv", tmp_path / "south.csv"], 1)
    assert built.open is not None
    built.open(slice(0, 2), HERE)
    built.build(slice(0, 2), HERE)
    assert count() == 2 * opens


def test_agents_of_one_long_table_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names, the number of rows, and the rows of all agents of a process: three opens."""
    values = np.random.default_rng(0).standard_normal((40_000, 3))
    np.savetxt(tmp_path / "a.csv", values, fmt="%.17g", delimiter=",", header="a,b,c", comments="")
    count = counted(monkeypatch)
    data = str(tmp_path / "a.csv")
    source = Division([data], PCASettings(data=data), 8, 0)
    (parts,) = source.read(slice(0, 8))
    assert count() == 3
    for part, rows in zip(parts, source.parts, strict=True):
        assert np.array_equal(part, values[rows])


def test_a_text_that_unpacks_out_of_proportion_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_head, "TEXT_LIMIT", 1 << 22)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * (1 << 21)))
    with pytest.raises(ValueError, match=r"a\.csv\.gz cannot be read as text compressed by gzip: it unpacks to more than 4 MiB"):  # fmt: skip
        MatrixFile(path).matrix()
    path.write_bytes(gzip.compress(b"a,b\n1,2\n")[:-9])
    with pytest.raises(ValueError, match=r"a\.csv\.gz cannot be read as text compressed by gzip: "):
        MatrixFile(path).matrix()


def test_rows_without_a_line_end_for_long_are_refused_in_little_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quote that is never closed, a line without an end, and stray quotes."""
    for content in (
        'a,b\n1,"2\n' + "3,4\n" * 500_000,
        "a,b\n1,2\n" + "3," * 10**6,
        "a,b\n1,2\n" + '3"",4"\n' * 200_000,
    ):
        (tmp_path / "a.csv").write_text(content)
        with suppress(ValueError), warnings.catch_warnings():
            MatrixFile(tmp_path / "a.csv").matrix()
            pytest.fail("it was read")


def test_lines_longer_than_a_mebibyte_are_read(tmp_path: Path) -> None:
    values = np.arange(600_000.0).reshape(2, -1)
    names = ",".join(f"gene{number}" for number in range(values.shape[1]))
    rows = "\n".join(",".join(map(str, row)) for row in values.tolist())
    (tmp_path / "a.csv").write_text(f"{names}\n{rows}\n")
    assert np.array_equal(MatrixFile(tmp_path / "a.csv").matrix(), values)


def test_sizes_of_a_long_text_need_numbers_in_its_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_head, "SHORT", 0)
    (tmp_path / "a.csv").write_text('a,b\n1,"x\n"\n' + "1,2\n" * 9)
    assert MatrixFile(tmp_path / "a.csv", Columns(("a",))).extent().columns == 1
    with pytest.raises(ValueError, match=r"line 3, column 'b': 'x' is not a number"):
        MatrixFile(tmp_path / "a.csv").extent()
