"""What is measured, against loops over agents, and what a run leaves of it: rows, recorders, and
what left each site."""

from __future__ import annotations

import importlib
import os
import pickle
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import decentorth as do
import topologies
from decentorth.commands.run.command import main
from decentorth.network.collective import AgentCollective
from decentorth.numerics.ordered_sums import norms
from decentorth.problems import PCA, FunctionProblem, Procrustes, subspace_distance
from decentorth.protocols import Array, Row
from decentorth.records.saved_runs import read_history, read_summary
from decentorth.running.history import COUNTS, History
from decentorth.running.metrics import StandardMetrics, first_runaway
from decentorth.sets import Euclidean, JOrthogonal
from tests.reference import naive
from tests.support.building import collective
from tests.support.problems import CASES, GRAPHS, UNEVEN, Case, pca, point, samples
from tests.support.threads import on_ranks

N = len(UNEVEN)


class Tracking(NamedTuple):
    x: Array
    tracker: Array
    field: Array
    penalty: Array


class Plain(NamedTuple):
    x: Array


def measured(problem: Any, state: Any) -> dict[str, float]:
    metric = StandardMetrics(problem, state)
    with np.errstate(over="ignore"):
        values = metric(problem, state, collective(problem.n_agents))
    return dict(zip(metric.columns, values, strict=True))


def spread(problem: Any, size: float) -> Array:
    rng = np.random.default_rng(3)
    return point(problem) + size * rng.standard_normal((problem.n_agents, *problem.shape))


@pytest.mark.parametrize(("blocks", "size"), [(1 << 19, 1e-6), (1, 0.5)])
@pytest.mark.parametrize("name", CASES)
def test_metrics_are_the_formulas(
    name: str, size: float, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trackers, fields and penalties of arbitrary values, so that none can be mistaken for
    another."""
    monkeypatch.setattr("decentorth.problems.base.BLOCK_BYTES", blocks)
    case: Case = CASES[name](rows=UNEVEN)
    x = spread(case.problem, size)
    rng = np.random.default_rng(4)
    state = Tracking(
        x, rng.standard_normal(x.shape), rng.standard_normal(x.shape), rng.uniform(1, 20, N)
    )
    found = measured(case.problem, state)
    expected = naive.metrics(
        case.values, case.gradients, x, state.tracker, state.field, state.penalty
    )
    assert found.keys() == expected.keys()
    for metric, value in expected.items():
        absolute = 1e-15 * N if metric == "distance_to_manifold" else 0.0
        assert found[metric] == pytest.approx(value, rel=1e-12, abs=absolute), metric
    fewer = measured(case.problem, Plain(x))  # of a method that does not track
    assert fewer.keys() == naive.metrics(case.values, case.gradients, x).keys()
    assert fewer == {name: found[name] for name in fewer}


def test_all_vanish_at_a_common_critical_point() -> None:
    case = pca(rows=UNEVEN)
    case.problem.find_answer(collective(N))
    apart = spread(case.problem, 0.1)
    error = subspace_distance(naive.polar(naive.mean(apart)), case.problem.optimum)
    assert measured(case.problem, Plain(apart))["error"] == pytest.approx(error, rel=1e-12)
    x = np.repeat(case.problem.optimum[None], N, axis=0)
    found = measured(case.problem, Tracking(x, x, x, np.ones(N)))
    assert found.pop("local_gradient_sum") > 0.1
    assert found.pop("objective") < -0.1
    assert max(found.values()) < 1e-13


def test_a_set_without_tangents_is_refused() -> None:
    problem: Any = FunctionProblem(
        lambda agent, x: 0.0, lambda agent, x: x, SimpleNamespace(shape=(12, 3)), N
    )
    with pytest.raises(
        TypeError,
        match=r"need a constraint set with Riemannian; namespace\(shape=\(12, 3\)\) has none",
    ):
        measured(problem, Plain(np.zeros((N, 12, 3))))


@pytest.mark.parametrize("n", [1, 3])
def test_without_a_projection_or_a_landing_field(n: int) -> None:
    rng = np.random.default_rng(5)
    constraint = JOrthogonal(2, 2)
    j = np.diag(constraint.signs)
    forms, tracker = rng.standard_normal((2, n, 4, 4))
    x = constraint.random(rng) + 1e-3 * rng.standard_normal((n, 4, 4))

    def value(agent: int, point: Array) -> float:
        return float((point * (forms[agent] @ point)).sum())

    def gradient(agent: int, point: Array) -> Array:
        both: Array = (forms[agent] + forms[agent].T) @ point
        return both

    def riemannian(point: Array, g: Array) -> float:
        w = g @ point.T @ j
        return naive.norm(0.5 * (w - w.T) @ j @ point)

    mean = naive.mean(x)
    expected = {
        "objective": sum(value(i, mean) for i in range(n)) / n,
        "gradient_norm": riemannian(
            mean, naive.mean(np.stack([gradient(i, mean) for i in range(n)]))
        ),
        "local_gradient_sum": sum(riemannian(x[i], gradient(i, x[i])) for i in range(n)),
        "consensus_error": sum(naive.norm(x[i] - mean) for i in range(n)),
        "consensus_rms": np.sqrt(sum(naive.norm(x[i] - mean) ** 2 for i in range(n)) / n),
        "feasibility": max(np.abs(x[i].T @ j @ x[i] - j).sum() / 16 for i in range(n)),
        "tracking_error": naive.norm(naive.mean(tracker) - mean),
    }
    found = measured(
        FunctionProblem(value, gradient, constraint, n), Tracking(x, tracker, x, np.ones(n))
    )
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-18)


@pytest.mark.parametrize("spoil", [np.nan, -np.inf, 1e51])
def test_the_first_runaway_is_found_on_every_rank(spoil: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 4, 2))
    bounds = np.array([0, 4, 7, 10])

    def found() -> list[int | None]:
        def on_rank(communicator: Any) -> int | None:
            first, end = int(bounds[communicator.rank]), int(bounds[communicator.rank + 1])
            return first_runaway(x[first:end], first, N, AgentCollective(communicator, bounds))

        return [first_runaway(x, 0, N, collective(N)), *on_ranks(3, on_rank)]

    x[2, 1, 1] = 1e49
    assert found() == [None] * 4
    for agent in (9, 5, 6, 3):
        x[agent, 3, 0] = spoil
        assert found() == [min(agent, 5)] * 4 if agent != 9 else [9] * 4


@pytest.mark.parametrize("power", [-1020, -600, -465, -200, 465, 600, 1020])
def test_norms_scale_by_powers_of_two_without_rounding(power: int) -> None:
    """Where squares underflow or overflow too; agents that share a stack may differ in size, be
    zero, infinite or NaN."""
    x = np.random.default_rng(0).standard_normal((6, 4, 2))
    assert np.linalg.norm(x[0]) == pytest.approx(norms(x)[0], rel=1e-15)
    mixed = np.ldexp(x, power)
    mixed[1], mixed[2, 0, 0], mixed[3, 1, 1], mixed[4] = 0.0, np.inf, np.nan, x[4]
    with np.errstate(over="ignore"):
        found = norms(mixed)
    expected = np.array(
        [
            np.ldexp(norms(x)[0], power),
            0.0,
            np.inf,
            np.nan,
            norms(x)[4],
            np.ldexp(norms(x)[5], power),
        ]
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
def test_distances_are_measured_whatever_their_size(power: int) -> None:
    x = np.random.default_rng(2).standard_normal((N, 4, 2))
    problem = FunctionProblem(lambda agent, p: 0.0, lambda agent, p: p, Euclidean(4, 2), N)
    usual, found = (measured(problem, Plain(np.ldexp(x, exponent))) for exponent in (0, power))
    for name in ("gradient_norm", "local_gradient_sum", "consensus_error", "consensus_rms"):
        assert found[name] == np.ldexp(usual[name], power), name


@pytest.mark.parametrize("size", [1e-59, 1e59])
def test_gradients_are_measured_whatever_the_size_of_the_data(size: float) -> None:
    """Data times s: gradients times s^2, to the bit where s is a power of two."""
    power = 2.0 ** round(np.log2(size))
    data = samples(UNEVEN, 12, 0)
    targets = [np.random.default_rng(1).standard_normal((3, len(a))) for a in data]
    x = spread(PCA(data, 3), 0.1)
    for s in (power, size):
        for plain, scaled in (
            (PCA(data, 3), PCA([s * a for a in data], 3)),
            (
                Procrustes(data, targets),
                Procrustes([s * a for a in data], [s * b for b in targets]),
            ),
        ):
            usual, found = measured(plain, Plain(x)), measured(scaled, Plain(x))
            for name in ("gradient_norm", "local_gradient_sum", "objective"):
                exactly = s * s * usual[name]
                assert found[name] == (
                    exactly if s == power else pytest.approx(exactly, rel=1e-12)
                ), name


def row(k: int) -> Row:
    return Row(
        k, 2 * k, 3 * k, 4 * k, 5 * k, 0.5 * k, {"objective": -1.0 * k, "error": 1.0 / (k + 1)}
    )


def recorded(number: int, limit: int = 20_000) -> History:
    history = History(limit)
    for k in range(number):
        history.record(row(k))
    return history


def test_columns_are_what_was_recorded() -> None:
    history = recorded(5)
    assert list(history) == [*COUNTS, "seconds", "objective", "error"]
    assert len(history) == 8
    for factor, name in enumerate(COUNTS, start=1):
        np.testing.assert_array_equal(history[name], factor * np.arange(5), strict=True)
        assert history[name].dtype == np.int64
    for name, expected in (
        ("seconds", 0.5 * np.arange(5)),
        ("objective", -np.arange(5.0)),
        ("error", 1 / np.arange(1.0, 6.0)),
    ):
        np.testing.assert_array_equal(history[name], expected, strict=True)
    assert history.rows == tuple(row(k) for k in range(5))
    assert ("objective" in history, "gradient_norm" in history) == (True, False)
    with pytest.raises(
        KeyError,
        match=r"no column 'gradient'; there are iteration, rounds, .*, seconds, objective, error",
    ):
        history["gradient"]
    empty = History()
    assert list(empty) == [*COUNTS, "seconds"]
    np.testing.assert_array_equal(empty["iteration"], np.zeros(0, np.int64), strict=True)


@pytest.mark.parametrize("limit", [2, 3, 7, 100])
def test_memory_is_bounded(limit: int) -> None:
    history = History(limit)
    for k in range(500):
        history.record(row(k))
        rows = history["iteration"].tolist()
        assert len(rows) <= max(limit, 3)
        assert (rows[0], rows[-1]) == (0, k)
        assert rows == (list(range(k + 1)) if k < limit else sorted(set(rows)))


def test_a_copy_or_a_data_frame_has_the_same_columns() -> None:
    history = recorded(9, limit=6)
    copies = (
        pickle.loads(pickle.dumps(history)),
        history.before(9),
        {**history},
        pd.DataFrame(history),
        history.to_pandas(),
    )
    for copy in copies:
        assert list(copy) == list(history)
        for name, column in history.items():
            np.testing.assert_array_equal(np.asarray(copy[name]), column, strict=True)
    assert recorded(5).before(2)["iteration"].tolist() == [0, 1]


SMALL = (
    "--problem pca --data synthetic --dimension 6 --rank 2 --samples 20 --agents 4 --iterations "
    "12 --quiet"
).split()


def solved(recorder: Any = None) -> Any:
    problem, W = pca().problem, GRAPHS["ring"](5)
    result = do.solve(
        problem, do.DRFGT(), W, iterations=30, recorders=[] if recorder is None else [recorder]
    )
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
        kept = {
            metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, name)
        }
        assert kept == dict(zip(history["iteration"].tolist(), history[name].tolist(), strict=True))


@pytest.mark.slow
def test_the_command_records_also_the_rows_before_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    assert main([*SMALL, "--out", "a", "--checkpoint-every", "6"]) == 0
    assert (
        main([*SMALL, "--out", "b", "--checkpoint-every", "6", "--record", "parquet:b.parquet"])
        == 0
    )
    assert read_summary("a")["iterates_sha256"] == read_summary("b")["iterates_sha256"]
    assert (
        main(["--resume", "a", "--iterations", "20", "--record", "parquet:a.parquet", "--quiet"])
        == 0
    )
    for folder in ("a", "b"):
        table, history = parquet.read_table(f"{folder}.parquet"), read_history(folder)
        assert table["iteration"].to_pylist() == history["iteration"].tolist()
        assert np.array_equal(table["objective"].to_numpy(), history["objective"])


@pytest.mark.parametrize("place", ["sqlite:x", "parquet", "parquet:"])
def test_a_recorder_that_there_is_not_is_refused(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, "--record", place]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        f"record must be one of tensorboard:PATH, mlflow:PATH, parquet:PATH, got '{place}'"
        in said.err
    )


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
    assert (
        line
        == f"decentorth: --record {place} cannot be used: cannot write into file: Not a directory"
        or kind != "parquet"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_parquet_file_replaces_only_one_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    with pytest.raises(
        ModuleNotFoundError,
        match=r"Parquet needs no_such_library: pip install pyarrow",
    ):
        do.recorders.Parquet("x")


SITES = 5
FAULTS = ("loss:p=0.3", "topk:share=0.5", "delay:rounds=1", "quantize")


def problem() -> Any:
    sites = np.random.default_rng(0).normal(size=(SITES, 40, 6))
    return do.problems.PCA(list(sites), 2)


def bytes_of(result: Any) -> int:
    return sum(row.bytes for row in result.sent())


FIXED: Any = {"step_size": 0.01, "penalty": 1.0}


@pytest.mark.parametrize(
    ("method", "mixing", "quantities", "more"),
    [
        (
            do.DRFGT(order="combine-then-adapt"),
            "ring",
            {"x", "tracker", "averages"},
            {},
        ),
        ("deepca", "ring", {"tracker"}, {}),
        (
            "drfgt",
            "ring",
            {"x", "x or tracker", "tracker", "averages", "maxima"},
            {"stopping": do.stopping.LocalMaximum(1e-9, every=5)},
        ),
        (do.PushPull(**FIXED), "directed_ring", {"x", "tracker"}, {}),
        (do.PushPull(**FIXED), topologies.RandomMatching(SITES, seed=1), {"x", "tracker"}, {}),
        *(
            (
                do.DRFGT(**FIXED),
                "ring",
                {"x", "tracker", "x + tracker (coded)"},
                {"channel": faults},
            )
            for faults in FAULTS
        ),
    ],
)
def test_the_bytes_add_up_to_those_of_the_history(
    method: Any, mixing: Any, quantities: set[str], more: Any
) -> None:
    result = do.solve(problem(), method, mixing, iterations=20, **more)
    assert bytes_of(result) == result.row.bytes > 0
    assert {row.quantity for row in result.sent()} <= quantities
    assert "all sites" not in {row.site for row in result.sent()}
    assert "channel" in more or all(row.bytes == 8 * row.numbers for row in result.sent())


@pytest.mark.parametrize(
    ("method", "mixing", "edges"),
    [
        (do.DRFGT, "path", {(i, j) for i in range(SITES) for j in range(SITES) if abs(i - j) == 1}),
        (do.PushPull, "directed_ring", {(i, (i + 1) % SITES) for i in range(SITES)}),
    ],
)
def test_each_number_goes_to_the_neighbours_only(
    method: Any, mixing: str, edges: set[tuple[int, int]]
) -> None:
    """Known by hand: 12 iterations send x and the tracker, 6 x 2 numbers each, over every edge."""
    result = do.solve(problem(), method(**FIXED), mixing, iterations=12)
    expected = {
        (f"agent {i}", f"agent {j}", name): 144 for i, j in edges for name in ("x", "tracker")
    }
    assert {row[:3]: row.numbers for row in result.sent()} == expected


def test_the_rest_of_a_resumed_run_is_said(tmp_path: Path) -> None:
    do.solve(
        problem(),
        do.DRFGT(**FIXED),
        "ring",
        iterations=10,
        checkpoints=do.Checkpoints(tmp_path, every=10),
    )
    result = do.solve(problem(), do.DRFGT(**FIXED), "ring", iterations=20, resume=tmp_path)
    rest = result.sent()[-1]
    assert bytes_of(result) == result.row.bytes == 2 * rest.bytes
    assert rest.site == "all sites"


def test_exact_sums_go_along_a_tree_that_has_two_messages_for_each_edge() -> None:
    parts = np.random.default_rng(0).normal(size=(SITES, 40, 2))
    split = do.problems.SplitPCA(list(parts), 2)
    result = do.solve(split, "lobpcg", "complete", iterations=5)
    assert bytes_of(result) == result.row.bytes > 0
    assert {row.quantity for row in result.sent()} == {"sums over the tree"}
    assert len(result.sent()) == 2 * (SITES - 1)


def test_the_table_is_the_same_on_any_number_of_ranks() -> None:
    def table(communicator: Any) -> Any:
        return do.solve(problem(), "drfgt", "ring", iterations=8, comm=communicator).sent()

    assert on_ranks(3, table) == [table("serial")] * 3


@pytest.mark.filterwarnings("ignore:diverged")
def test_iterations_made_again_to_explain_a_divergence_do_not_count() -> None:
    method = do.DRFGT(step_size=1e3, penalty=1e3)
    result = do.solve(problem(), method, "ring", iterations=200)
    assert result.status == "diverged"
    assert bytes_of(result) == result.network.bytes
    assert "all sites" not in {row.site for row in result.sent()}
