"""Recorders of other tools: they hold the rows of the history, and change no bit."""

from __future__ import annotations

import importlib
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth as do
from decentorth.commands.run.command import main
from decentorth.records.saved_runs import read_history, read_summary
from tests.support.problems import GRAPHS, pca

SMALL = "--problem pca --data synthetic --dimension 6 --rank 2 --samples 20 --agents 4 --iterations 12 --quiet".split()


def solved(recorder: Any = None) -> Any:
    """A short run; its bits are those without a recorder."""
    problem, W = pca().problem, GRAPHS["ring"](5)
    result = do.solve(problem, do.DRFGT(), W, iterations=30, recorders=[] if recorder is None else [recorder])
    assert recorder is None or result.iterates_sha256 == solved().iterates_sha256
    return result


@pytest.mark.slow
def test_parquet_has_every_row_bit_for_bit(tmp_path: Path) -> None:
    from pyarrow import parquet

    with do.recorders.Parquet(tmp_path / "rows.parquet") as rows:
        history = solved(rows).history
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.column_names == list(history)
    for name in history:
        assert np.array_equal(table[name].to_numpy(), history[name])


@pytest.mark.slow
def test_tensorboard_has_every_row_in_single_precision(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    with do.recorders.TensorBoard(tmp_path / "events") as events:
        history = solved(events).history
    (file,) = (tmp_path / "events").iterdir()
    data, at = file.read_bytes(), 0
    found: dict[tuple[str, int], float] = {}
    while at < len(data):  # length, its checksum, an event, its checksum
        (length,) = struct.unpack_from("<Q", data, at)
        event = Event.FromString(data[at + 12 : at + 12 + length])
        found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
        at += 16 + length
    for name in set(history) - {"iteration"}:
        for step, value in zip(history["iteration"], history[name], strict=True):
            assert found[name, step] == np.float32(value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_every_row(tmp_path: Path) -> None:
    mlflow: Any = importlib.import_module("mlflow")
    with do.recorders.MLflow(tmp_path / "store") as store:
        history = solved(store).history
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"  # nothing is sent to MLflow's makers
    client = mlflow.MlflowClient((tmp_path / "store").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("decentorth").experiment_id])
    assert run.info.status == "FINISHED"
    for name in ("gradient_norm", "bytes"):
        kept = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, name)}
        assert kept == dict(zip(history["iteration"].tolist(), history[name].tolist(), strict=True))


@pytest.mark.slow
def test_the_command_records_also_the_rows_before_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    assert main([*SMALL, "--out", "a", "--checkpoint-every", "6"]) == 0
    assert main([*SMALL, "--out", "b", "--checkpoint-every", "6", "--record", "parquet:b.parquet"]) == 0
    assert read_summary("a")["iterates_sha256"] == read_summary("b")["iterates_sha256"]
    assert main(["--resume", "a", "--iterations", "20", "--record", "parquet:a.parquet", "--quiet"]) == 0
    for folder in ("a", "b"):
        table, history = parquet.read_table(f"{folder}.parquet"), read_history(folder)
        assert table["iteration"].to_pylist() == history["iteration"].tolist()
        assert np.array_equal(table["objective"].to_numpy(), history["objective"])


@pytest.mark.parametrize("place", ["sqlite:x", "parquet", "parquet:"])
def test_a_recorder_that_there_is_not_is_refused(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--record", place]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"record must be one of tensorboard:PATH, mlflow:PATH, parquet:PATH, got '{place}'" in said.err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "tensorboard", "mlflow"])
def test_a_place_that_cannot_be_written_is_refused_before_the_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    place = f"{kind}:file/x"
    assert main([*SMALL, "--out", "run", "--record", place]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"decentorth: --record {place} cannot be used: cannot write into file: Not a directory" or kind != "parquet"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_parquet_file_replaces_only_one_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow
    from pyarrow import parquet

    mine, other = tmp_path / "precious.txt", tmp_path / "precious.parquet"
    mine.write_text("precious")
    parquet.write_table(pyarrow.table({"iteration": [7]}), other)
    for path in (mine, other):
        before = path.read_bytes()
        assert main([*SMALL, "--record", f"parquet:{path}"]) == 2
        assert f"{path} exists, was not written by this recorder" in capsys.readouterr().err
        with pytest.raises(ValueError, match="was not written by this recorder"):
            solved(do.recorders.Parquet(path))
        assert path.read_bytes() == before
    for _ in range(2):
        with do.recorders.Parquet(tmp_path / "own.parquet") as rows:
            solved(rows)
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, other.name, "own.parquet"}


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(do.recorders.Parquet, "library", "no_such_library")
    with pytest.raises(ModuleNotFoundError, match=r'Parquet needs no_such_library: pip install "decentorth\[tables\]"'):
        do.recorders.Parquet("x")
