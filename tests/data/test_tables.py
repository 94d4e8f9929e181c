"""Tables with named columns, .mat files, triplets and frames: values as they are, the wanted rows
alone, every message."""

from __future__ import annotations

import importlib
import os
import signal
import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

import decentorth as do
import topologies as tp
from decentorth.data import (
    Columns,
    MatrixFile,
    load_labels,
    load_matrix,
    mat,
    partition,
    split_frame,
)
from decentorth.problems import PCASettings
from tests.support.building import built
from tests.support.marks import first_is_quick
from tests.support.mpi import run_ranks

RNG = np.random.default_rng(0)
STATIONS = np.array(["north", "west", "north", "east", "west", "east", "north", "east"])
FRAME = pd.DataFrame(
    {
        "station": STATIONS,
        "wind": RNG.standard_normal(8),
        "name": list("abcdefgh"),
        "rain": RNG.standard_normal(8),
    }
)
HOLES = FRAME.assign(rain=FRAME["rain"].where([True, True, False, True, True, True, True, True]))
NUMBERS = ("rain", "wind")
KINDS = first_is_quick(["csv", "parquet"])


def saved(frame: pd.DataFrame, kind: str, folder: Path) -> str:
    path = folder / f"table.{kind}"
    if kind == "parquet":
        frame.to_parquet(path, row_group_size=3)
    else:
        frame.to_csv(path, index=False, sep={"csv": ",", "tsv": "\t"}[kind], float_format="%.17g")
    return str(path)


@pytest.mark.parametrize("kind", ["tsv", *KINDS])
def test_columns_are_read_by_name_and_only_the_wanted_rows(kind: str, tmp_path: Path) -> None:
    file = MatrixFile(saved(FRAME, kind, tmp_path), Columns(NUMBERS, "station"))
    expected = FRAME[[*NUMBERS]].to_numpy()
    assert file.shape == (8, 2)
    assert np.array_equal(file.matrix(), expected)
    assert np.array_equal(file.rows([6, 1, 1]), expected[[6, 1, 1]])
    assert file.labels is not None
    assert file.labels.tolist() == STATIONS.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_missing_cells_are_left_out_on_request_alone(kind: str, tmp_path: Path) -> None:
    path = saved(HOLES, kind, tmp_path)
    whole = MatrixFile(path, Columns(NUMBERS, "station", drop_missing=True))
    kept = [0, 1, 3, 4, 5, 6, 7]
    assert np.array_equal(whole.matrix(), HOLES[[*NUMBERS]].to_numpy()[kept])
    assert np.array_equal(whole.rows([2]), HOLES[[*NUMBERS]].to_numpy()[[3]])
    assert whole.labels is not None
    assert whole.labels.tolist() == STATIONS[kept].tolist()
    assert np.isnan(MatrixFile(path, Columns(NUMBERS)).observed([2])[0, 0])
    place = {"csv": "line 4, column 'rain'", "parquet": r"row 2 \(counted from 0\), column 'rain'"}[
        kind
    ]
    with pytest.raises(
        ValueError,
        match=rf"not finite \(1 NaN, 0 infinite\); the first is nan at {place}\. .*drop_missing",
    ):
        MatrixFile(path, Columns(NUMBERS)).matrix()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [[7.5, 2.5], ["a", "b"]])
def test_a_missing_label_is_no_label(kind: str, whole: list[Any], tmp_path: Path) -> None:
    path = saved(
        pd.DataFrame({"label": [whole[0], np.nan, whole[1], None], "x": 1.0}), kind, tmp_path
    )
    place = {
        "csv": "line 3, column 'label'",
        "parquet": r"row 1 \(counted from 0\), column 'label'",
    }[kind]
    with pytest.raises(ValueError, match=rf"{place}: the cell is missing\. .*drop_missing"):
        _ = MatrixFile(path, Columns(("x",), "label")).labels
    labels = MatrixFile(path, Columns(("x",), "label", drop_missing=True)).labels
    assert labels is not None
    assert labels.tolist() == list(map(str, whole))
    for content in ("label,x\na,1\nNaN,2\n", "label;x\na;1\n nan ;2\n"):
        (tmp_path / "a.csv").write_text(content)
        with pytest.raises(
            ValueError, match=r"a\.csv: line 3, column 'label': the cell is missing"
        ):
            _ = MatrixFile(tmp_path / "a.csv", Columns(("x",), "label")).labels


def test_labels_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    path, named = tmp_path / "a.csv", Columns(("x",), "label")
    path.write_bytes("label,x,note\né,1,é\nè,2,è\n".encode("latin-1"))
    assert MatrixFile(path, Columns(("x",))).matrix().tolist() == [[1], [2]]
    with pytest.raises(
        ValueError, match=r"a\.csv: the label '\\udce9' is not in UTF-8: save the file as UTF-8"
    ):
        _ = MatrixFile(path, named).labels
    path.write_bytes("label,x\né,1\n\ufffd,2\n".encode())
    assert (labels := MatrixFile(path, named).labels) is not None
    assert labels.tolist() == ["é", "\ufffd"]
    (tmp_path / "a.txt").write_bytes("é\nè\n".encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"a\.txt: the label .* is not in UTF-8: save the file as UTF-8"
    ):
        load_labels(tmp_path / "a.txt")


@pytest.mark.slow
def test_labels_in_parquet_that_are_not_utf_8_or_no_numbers_are_refused(tmp_path: Path) -> None:
    named = Columns(("x",), "label")
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    for codec in ("utf-8", "latin-1"):
        cells = arrow.array([text.encode(codec) for text in ("é", "è")], arrow.binary())
        parquet.write_table(
            arrow.table({"label": cells, "x": [1.0, 2.0]}), tmp_path / f"{codec}.parquet"
        )
    assert (labels := MatrixFile(tmp_path / "utf-8.parquet", named).labels) is not None
    assert labels.tolist() == ["é", "è"]
    with pytest.raises(
        ValueError, match=r"latin-1\.parquet: the label .* is not in UTF-8: save the file as UTF-8"
    ):
        _ = MatrixFile(tmp_path / "latin-1.parquet", named).labels
    parquet.write_table(
        arrow.table({"label": arrow.array([1.0, np.nan]), "x": [1.0, 2.0]}), tmp_path / "a.parquet"
    )
    with pytest.raises(
        ValueError, match=r"row 1 \(counted from 0\), column 'label': the cell is missing"
    ):
        _ = MatrixFile(tmp_path / "a.parquet", named).labels


@pytest.mark.slow
def test_a_long_label_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,x\n" + "a,1\n" * 10**4 + f"{'x' * 10**5},1\n")
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=r"a\.csv cannot be read: it would unpack from 140011 bytes to 3\.73 GiB"
    ):
        _ = MatrixFile(tmp_path / "a.csv", Columns(("x",), "label")).labels
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_dropping_is_proposed_only_where_it_helps(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", [[1.0, np.nan]])
    (tmp_path / "a.csv").write_text("x,y\n1,inf\n2,\n")
    for path, columns in (
        (tmp_path / "a.npy", Columns()),
        (tmp_path / "a.csv", Columns(("x", "y"))),
    ):
        with pytest.raises(
            ValueError, match=r"not finite.*Remove such rows or fill in the values$"
        ):
            MatrixFile(path, columns).matrix()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            Columns(("rian",)),
            r"lacks the column 'rian'; did you mean 'rain'\? its columns are station, wind, name, rain",
        ),
        (
            Columns(("rain", "wind", "rain")),
            "column 'rain' is named more than once in columns: leave one",
        ),
        (Columns((), "station"), r"column 'name'.*leave such columns out, exclude=\('name',\)"),
        (
            Columns(drop_missing=True),
            r"leave such columns out, exclude=\('station', 'name'\), or take this one.* "
            r"label='station'",
        ),
        (Columns(("rain",), "wnd"), r"lacks the column 'wnd'; did you mean 'wind'\?"),
    ],
)
def test_a_wrong_column_is_refused(
    kind: str, columns: Columns, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        MatrixFile(saved(FRAME, kind, tmp_path), columns).matrix()


def test_text_without_names_has_numbers_for_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2,3\n4,,6\n7,8,9\n")
    file = MatrixFile(tmp_path / "a.csv", Columns(("3", "1"), drop_missing=True))
    assert np.array_equal(file.matrix(), [[3, 1], [6, 4], [9, 7]])
    for wrong, message in (
        ("2\n", "line 3 has 1 columns, but there are 2 names"),
        ('2,"y\n', "line 3: unexpected end of data"),
    ):
        (tmp_path / "b.csv").write_text('"a, b",c\n1,x\n' + wrong)
        with pytest.raises(ValueError, match=rf"b\.csv: {message}"):
            MatrixFile(tmp_path / "b.csv", Columns(("a, b",), "c")).matrix()
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(
        ValueError,
        match=r"lacks names of columns, which text and Parquet have: leave out samples=\('a',\)",
    ):
        MatrixFile(tmp_path / "a.npy", Columns(("a",)))


def test_every_station_is_an_agent(tmp_path: Path) -> None:
    path = saved(HOLES, "csv", tmp_path)
    words = {
        "columns": NUMBERS,
        "label_column": "station",
        "drop_missing": True,
        "partition": "by-column",
        "rank": 1,
    }
    problem = built(PCASettings(data=path, **words).problem(3, 0))  # type: ignore[arg-type]
    own = HOLES.dropna()
    parts = [group[[*NUMBERS]].to_numpy() for _, group in own.groupby("station")]
    x = np.repeat(np.eye(2)[:, :1][None], 3, axis=0)
    np.testing.assert_allclose(
        problem.gradient(x), do.problems.PCA(parts, 1).gradient(x), rtol=1e-12
    )
    assert [part.tolist() for part in partition("by-column", 8, 3, labels=STATIONS)] == [
        [3, 5, 7],
        [0, 2, 6],
        [1, 4],
    ]
    with pytest.raises(
        ValueError, match=r"3 different labels \(east, north, west\).*n_agents must be 3, not 10"
    ):
        partition("by-column", 8, 10, labels=STATIONS)


@pytest.mark.parametrize("library", first_is_quick(["pandas", "polars"]))
def test_a_frame_becomes_the_data_of_its_agents(library: str) -> None:
    frame: Any = (
        HOLES
        if library == "pandas"
        else importlib.import_module("polars").DataFrame(HOLES.to_dict("list"))
    )
    parts = split_frame(frame, "station", NUMBERS, drop_missing=True)
    assert list(parts) == ["east", "north", "west"]
    own = HOLES.dropna()
    for station, part in parts.items():
        assert np.array_equal(part, own.loc[own["station"] == station, [*NUMBERS]].to_numpy())
    assert do.problems.PCA(list(parts.values()), 1).n_agents == 3
    with pytest.raises(ValueError, match="1 rows have a missing value, the first is row 2"):
        split_frame(frame, "station", NUMBERS)
    with pytest.raises(TypeError, match="column 'name' must hold real numbers"):
        split_frame(frame, "station")
    with pytest.raises(ValueError, match="lacks the column 'stations'"):
        split_frame(frame, "stations")


@pytest.mark.parametrize("absent", [None, np.nan, pd.NaT, pd.NA])
def test_a_missing_cell_of_a_frame_is_one_line(absent: Any) -> None:
    for by, x in ((["a", absent, "b"], [1.0, 2.0, 3.0]), (["a", "b", "b"], [1, absent, 3])):
        frame = pd.DataFrame({"by": pd.Series(by, dtype=object), "x": pd.Series(x, dtype=object)})
        with pytest.raises(
            ValueError,
            match=r"1 rows have a missing value, the first is row 1 \(counted from 0\): "
            r"drop_missing",
        ):
            split_frame(frame, "by")
        parts = split_frame(frame, "by", drop_missing=True)
        assert {agent: part.tolist() for agent, part in parts.items()} == {"a": [[1]], "b": [[3]]}


def test_an_infinite_value_of_a_frame_is_not_dropped() -> None:
    frame = pd.DataFrame({"by": ["a", "a", "b"], "x": [1.0, np.nan, np.inf]})
    with pytest.raises(
        ValueError, match=r"1 rows have an infinite value, the first is row 2 .*\. Remove such rows"
    ):
        split_frame(frame, "by", drop_missing=True)


def test_mat_files_hold_dense_and_sparse_matrices_and_labels(tmp_path: Path) -> None:
    A, path = RNG.standard_normal((5, 3)), tmp_path / "a.mat"
    scipy.io.savemat(
        path,
        {"A": A, "note": "a text", "s": scipy.sparse.csc_array(np.diag([1.0, 0.0, 3.0]))},
        do_compression=True,
    )
    assert np.array_equal(load_matrix(f"{path}:A"), A)
    assert np.array_equal(MatrixFile(f"{path}:A").rows([3, 0]), A[[3, 0]])
    assert np.array_equal(load_matrix(f"{path}:s"), np.diag([1.0, 0.0, 3.0]))
    assert np.isnan(MatrixFile(f"{path}:s").observed([0])[0]).tolist() == [False, True, True]
    with pytest.raises(ValueError, match=r"holds 2 arrays, 'A', 's': choose one, as in .*a\.mat:A"):
        load_matrix(path)
    with pytest.raises(ValueError, match="holds no array 'note'"):
        load_matrix(f"{path}:note")
    scipy.io.savemat(path, {"y": [1, 2, 2]})
    assert load_labels(path).tolist() == [1, 2, 2]


@pytest.mark.parametrize(
    ("dtype", "options"),
    [(float, {}), (bool, {}), (np.float32, {"do_compression": True}), (float, {"format": "4"})],
)
def test_sparse_mat_files_of_every_form_are_read(
    dtype: type, options: dict[str, Any], tmp_path: Path
) -> None:
    whole = scipy.sparse.csc_array((RNG.random((7, 5)) * (RNG.random((7, 5)) < 0.4)).astype(dtype))
    scipy.io.savemat(
        tmp_path / "a.mat", {"before": "a text", "a_long_name": whole, "y": [1, 2]}, **options
    )
    assert np.array_equal(load_matrix(f"{tmp_path / 'a.mat'}:a_long_name"), whole.toarray())


@pytest.mark.parametrize(
    ("starts", "rows"),
    [([0, 9, 2], [0, 1]), ([0, -5, 2], [0, 1]), ([0, 1, 2], [0, 3]), ([0, 1, 2], [-1, 1])],
)
def test_sparse_mat_files_whose_places_are_damaged_are_refused(
    starts: list[int], rows: list[int], tmp_path: Path
) -> None:
    scipy.io.savemat(
        tmp_path / "a.mat",
        {"A": scipy.sparse.csc_array(np.array([[7.0, 0.0], [0.0, 8.0], [0.0, 0.0]]))},
    )
    content = (tmp_path / "a.mat").read_bytes()
    # an element: type 5 (int32), bytes, numbers
    for size, found, changed in ((8, [0, 1], rows), (12, [0, 1, 2], starts)):
        old, new = (np.array([5, size, *numbers], "<i4").tobytes() for numbers in (found, changed))
        assert content.count(old) == 1
        content = content.replace(old, new)
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.mat cannot be read as a \.mat file: "):
        load_matrix(tmp_path / "a.mat")


@pytest.mark.slow
def test_sparse_logical_mat_files_are_sparse(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    entries = (np.ones(3, dtype=bool), ([0, 1, 2], [0, 5, 29999]))
    scipy.io.savemat(path, {"A": scipy.sparse.csc_array(entries, shape=(30000, 30000))})
    assert np.flatnonzero(MatrixFile(path).rows([2])[0]).tolist() == [29999]
    scipy.io.savemat(
        path, {"A": scipy.sparse.csc_array(np.array([[True, False, True], [False, True, False]]))}
    )
    whole = path.read_bytes()
    starts, spoilt = (
        np.array(numbers, "<i4").tobytes()
        for numbers in ([0, 1, 2, 3], [0, 50_000_000, 100_000_000, 3])
    )
    assert whole.count(starts) == 1
    path.write_bytes(whole.replace(starts, spoilt))
    end = "import sys\nfrom decentorth.data import load_matrix\nload_matrix(sys.argv[1])"
    ended = subprocess.run([sys.executable, "-c", end, path], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "a.mat cannot be read as a .mat file: indptr must be" in ended.stderr
    # a byte for each value, the type of doubles
    values, as_matlab = (struct.pack("<2H3B", kind, 3, 1, 1, 1) for kind in (2, 9))
    assert whole.count(values) == 1
    path.write_bytes(whole.replace(values, as_matlab))
    assert np.array_equal(load_matrix(path), [[1, 0, 1], [0, 1, 0]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "most", "says"), [("SECONDS", 0.01, "was not read in 0.01 s"), ("MEMORY", 2**28, "")]
)
def test_a_mat_file_beyond_the_limits_of_its_child_is_refused(
    limit: str, most: float, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time, and memory: 200 MB of zeros in a file of 200 kB."""
    monkeypatch.setattr(mat, limit, most)
    scipy.io.savemat(tmp_path / "a.mat", {"A": np.zeros((5000, 5000))}, do_compression=True)
    with pytest.raises(ValueError, match=rf"a\.mat cannot be read as a \.mat file: .*{says}"):
        load_matrix(tmp_path / "a.mat")


@pytest.mark.ranks
@pytest.mark.slow
def test_ranks_read_a_mat_file_each_and_refuse_a_damaged_one_together(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"A": RNG.standard_normal((40, 6))})
    (tmp_path / "cut.mat").write_bytes((tmp_path / "a.mat").read_bytes()[:300])
    words = [
        "-m",
        "decentorth.run",
        "--problem",
        "pca",
        "--rank",
        "2",
        "--agents",
        "3",
        "--iterations",
        "3",
        "--quiet",
    ]
    job = run_ranks(3, [*words, "--data", str(tmp_path / "a.mat")])
    assert job.returncode == 0, job.report()
    job = run_ranks(3, [*words, "--data", str(tmp_path / "cut.mat")])
    assert job.returncode == 2, job.report()
    assert job.stderr.count("cut.mat cannot be read as a .mat file: ") == 1, job.report()
    assert "Traceback" not in job.stderr


def test_mat_files_of_version_7_3_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.mat"
    path.write_bytes(
        b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + bytes(512)
    )
    with pytest.raises(ValueError, match=r"new\.mat .*version 7\.3 is not read: .*'-v7'"):
        load_matrix(path)


RATINGS = "userId,movieId,rating,timestamp\n7,30,4.0,1\n7,10,5.0,2\n2,10,1.5,3\n11,20,2.0,4\n11,30,3.0,5\n2,20,0.0,6\n"
DENSE = np.array([[1.5, 0.0, np.nan], [5.0, np.nan, 4.0], [np.nan, 2.0, 3.0]])


@pytest.mark.parametrize("kind", KINDS)
def test_ratings_with_a_header_are_a_matrix_of_users_and_items(kind: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(RATINGS)
    path = saved(pd.read_csv(tmp_path / "table.csv"), kind, tmp_path)
    file = MatrixFile(path, triplets=True)
    assert file.shape == (3, 3)
    assert np.array_equal(file.observed([0, 1, 2]), DENSE, equal_nan=True)
    turned = MatrixFile(path, Columns(("movieId", "userId", "rating")), triplets=True)
    assert np.array_equal(turned.observed([0, 1, 2]), DENSE.T, equal_nan=True)


def test_triplets_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    for text, message in (
        (
            RATINGS + "2,10,4,9\n",
            r"row 6 \(counted from 0\) has a user and an item that an earlier row has",
        ),
        ("a,b\n1,2\n", "must have three columns, of users, items and values, but has a, b"),
        (
            RATINGS + ",10,4,9\n",
            r"line 8, column 'userId': the cell is missing\. Remove such rows or fill in the "
            r"values$",
        ),
        (RATINGS + "3,10,,9\n", r"line 8, column 'rating': the value is nan\. Remove such rows"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            MatrixFile(path, triplets=True).observed([0])


def test_the_largest_component_of_a_graph_is_taken_on_request(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text("a,b\nb,c\nc,a\nx,y\nd,a\nz,x\np,q\n")
    with pytest.raises(ValueError, match=r"or take file:.*net\.csv,largest_component=true"):
        tp.graph_from_name(f"file:{path}")
    graph = tp.graph_from_name(f"file:{path},largest_component=true")
    assert [graph.nodes[agent]["label"] for agent in graph] == ["a", "b", "c", "d"]
    assert sorted(map(sorted, graph.edges)) == [[0, 1], [0, 2], [0, 3], [1, 2]]
    with pytest.raises(ValueError, match="largest_component must be true or false, got 'yes'"):
        tp.graph_from_name(f"file:{path},largest_component=yes")
    path.write_text("x,y\na,b\n")
    graph = tp.graph_from_name(f"file:{path},largest_component=true")
    assert [graph.nodes[agent]["label"] for agent in graph] == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_mat_file_whose_reading_is_ended(
    ending: signal.Signals, tmp_path: Path
) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"A": np.zeros((4000, 4000))}, do_compression=True)
    folder = tmp_path / "temporary"
    folder.mkdir()
    code = (
        "import sys, decentorth.data as data; print(1, flush=True); data.load_matrix(sys.argv[1])"
    )
    reading = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "a.mat")],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert reading.stdout is not None
    assert reading.stdout.readline()
    for _ in range(20):
        time.sleep(0.05)
        assert list(folder.iterdir()) == []
    reading.send_signal(ending)
    reading.communicate(timeout=60)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", [None, "nullable"])
def test_nullable_numbers_of_frames_are_samples(kind: str | None) -> None:
    """Those of pandas' ``convert_dtypes``, at agents and at sites; a missing one is NaN."""
    frame = FRAME[["wind", "rain"]].assign(count=range(8), good=FRAME["wind"] > 0)
    given = frame.convert_dtypes() if kind else frame
    parts = [frame[:5].to_numpy(dtype=float), frame[5:].to_numpy(dtype=float)]
    x = np.repeat(np.eye(4)[:, :2][None], 2, axis=0)
    expected = do.problems.PCA(parts, 2).gradient(x)
    for problem in (
        do.problems.PCA([given[:5], given[5:]], 2),
        built(do.problems.PCA.from_sites({"a": given[:5], "b": given[5:]}, 2)),
    ):
        assert np.array_equal(problem.gradient(x), expected)
    holes = given.copy()
    holes.loc[3, "count"] = pd.NA if kind else np.nan
    with pytest.raises(ValueError, match=r"column count in row 3 is nan.*frame\.dropna\(\)"):
        do.problems.PCA([holes[:5], holes[5:]], 2)
    with pytest.raises(TypeError, match="text or other values in name: leave them out"):
        do.problems.PCA([given.assign(name="1"), given.assign(name="2")], 2)
    with pytest.raises(TypeError, match="column 'name' must hold real numbers"):
        split_frame(given.assign(name="1", by=FRAME["station"]), "by")
