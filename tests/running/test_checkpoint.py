"""Checkpoints: what is read is what was written, on any number of ranks, or nothing at all."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies as tp
from decentorth import DRFGT, CheckpointError, Checkpoints, Result, solve
from decentorth.api import set_up
from decentorth.network import SerialCommunicator
from decentorth.network.collective import AgentCollective
from decentorth.network.halo import even_bounds
from decentorth.numerics.states import copied
from decentorth.problems import PCA, FunctionProblem
from decentorth.protocols import Array, Collective, Row
from decentorth.running.checkpoint import ENDINGS, checkpoint_files, interval, kept, newest_notes
from decentorth.running.checkpoint.state_arrays import Arrays, taken_apart
from decentorth.running.history import schedule
from decentorth.sets import Stiefel
from decentorth.stopping import GradientNorm
from tests.support.disks import small_files
from tests.support.problems import GRAPHS, UNEVEN, pca, procrustes, samples
from tests.support.threads import ThreadCommunicator, on_ranks

N = 5
RING = GRAPHS["ring"](N)


def everything(state: Any) -> dict[str, Any]:
    arrays, numbers = taken_apart(state, "state")
    return {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()
    } | numbers


def bits(result: Result) -> dict[str, Any]:
    """All that a result has but its seconds."""
    history = {
        name: column.tobytes() for name, column in result.history.items() if name != "seconds"
    }
    return everything(result.state) | history | {"status": result.status, "message": result.message}


class State(NamedTuple):
    x: Array
    inner: Any


def test_what_is_neither_array_nor_number_is_named() -> None:
    with pytest.raises(TypeError, match=r"arrays and numbers, but state\.inner\.0 is of type dict"):
        taken_apart(State(np.zeros(3), ({},)), "state")


def test_a_copy_shares_nothing_and_its_memory_is_used_again() -> None:
    whole, other = (State(np.arange(6.0) + k, (np.full(2, k), "name", k)) for k in (0, 1))
    first = copied(whole)
    assert everything(first) == everything(whole)
    assert not np.shares_memory(first.x, whole.x)
    second = copied(other, first)
    assert everything(second) == everything(other)
    assert second.x is first.x
    masked = np.ma.array([1.0, 2.0])
    assert not np.shares_memory(copied(masked), masked)


def own(communicator: ThreadCommunicator, n: int) -> tuple[slice, AgentCollective]:
    bounds = even_bounds(n, communicator.size)
    return slice(*bounds[communicator.rank : communicator.rank + 2].tolist()), AgentCollective(
        communicator, bounds
    )


def written(path: Path, ranks: int, n: int, arrays: Arrays) -> None:
    def write(communicator: ThreadCommunicator) -> None:
        rows, collective = own(communicator, n)
        parts = {
            name: checkpoint_files.Rows(array[rows], rows.start, n)
            for name, array in arrays.items()
        }
        if communicator.rank == 0:
            parts["one"] = checkpoint_files.Rows(np.arange(3.0), 0, 3)
        checkpoint_files.write(path, 2, parts, {"fact": 1}, collective)

    on_ranks(ranks, write)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    n=st.integers(1, 12),
    writers=st.integers(1, 5),
    readers=st.integers(1, 5),
    kinds=st.lists(st.sampled_from(checkpoint_files.KINDS), min_size=1, max_size=3),
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=2), min_size=3, max_size=3),
    piece=st.integers(1, 200),
    seed=st.integers(0, 99),
)
def test_any_ranks_and_numpy_read_what_any_ranks_wrote(
    n: int,
    writers: int,
    readers: int,
    kinds: list[str],
    shapes: list[list[int]],
    piece: int,
    seed: int,
    tmp_path_factory: Any,
) -> None:
    rng = np.random.default_rng(seed)
    arrays = {}
    for number, (kind, shape) in enumerate(zip(kinds, shapes, strict=False)):
        raw = rng.integers(
            0, 2 if kind == "|b1" else 256, (n, *shape, np.dtype(kind).itemsize), dtype=np.uint8
        )
        arrays[f"a{number}"] = raw.view(kind)[..., 0]
    path = tmp_path_factory.mktemp("written") / "000000005"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_files, "PIECE_BYTES", piece)
        written(path, min(writers, n), n, arrays)

    def read(communicator: ThreadCommunicator) -> Arrays:
        rows, collective = own(communicator, n)
        manifest = checkpoint_files.read_manifest(path, collective)
        checkpoint_files.check_sizes(manifest)
        assert manifest.facts == {"fact": 1}
        assert checkpoint_files.read(manifest, "one", slice(0, 3)).tolist() == [0.0, 1.0, 2.0]
        return {name: checkpoint_files.read(manifest, name, rows) for name in arrays}

    parts = on_ranks(min(readers, n), read)
    for name, array in arrays.items():
        for found in (
            np.concatenate([part[name] for part in parts]),
            np.load(path / f"{name}.npy", allow_pickle=False),
        ):
            assert (found.dtype, found.shape, found.tobytes()) == (
                array.dtype,
                array.shape,
                array.tobytes(),
            )


def test_a_reader_looks_only_at_the_rows_with_its_agents(tmp_path: Path) -> None:
    path = tmp_path / "000000005"
    written(path, 3, 9, {"x": np.arange(9.0)})
    spoil(path / "x.npy", -1)
    manifest = checkpoint_files.parsed(path, (path / checkpoint_files.MANIFEST).read_bytes())
    assert checkpoint_files.read(manifest, "x", slice(2, 6)).tolist() == [2.0, 3.0, 4.0, 5.0]
    with pytest.raises(
        ValueError,
        match=r"x\.npy is damaged: rows 6 to 8 do not have the checksum in manifest\.json",
    ):
        checkpoint_files.read(manifest, "x", slice(2, 7))


def spoil(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


drfgt = partial(DRFGT, step_size="constant")


def run(
    folder: Path | None = None,
    iterations: int = 60,
    algorithm: Any = None,
    W: Any = RING,
    **options: Any,
) -> Result:
    """A run on PCA, with checkpoints every 20 iterations unless told otherwise."""
    if folder is not None:
        options = {"checkpoints": Checkpoints(folder, every=20)} | options
    problem = options.pop("problem", None) or pca().problem
    return solve(problem, algorithm or drfgt(), W, iterations=iterations, **options)


def names(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in kept(folder))


@pytest.mark.parametrize("stop", [0, 1, 20, 33, 60])
def test_a_run_goes_on_without_a_seam(stop: int, tmp_path: Path) -> None:
    """With equally spaced rows nothing tells an extended run from one without a stop; seconds add
    up."""
    whole = run(record_every=1)
    first = run(tmp_path, stop, record_every=1)
    again = run(tmp_path, record_every=1, resume=tmp_path)
    assert bits(again) == bits(whole)
    seconds = again.history["seconds"]
    assert seconds[: stop + 1].tobytes() == first.history["seconds"].tobytes()
    assert (np.diff(seconds) >= 0).all()
    assert again.seconds["compute"] >= first.seconds["compute"]
    assert (
        sum(again.seconds[part] for part in ("compute", "wait", "metrics", "checkpoints"))
        <= again.seconds["total"]
    )


def test_a_step_that_was_cut_below_its_first_one_goes_on(tmp_path: Path) -> None:
    """The exponents of its step are negative."""
    method = DRFGT(step_size="growing:initial=100")
    whole = run(None, 400, method, record_every=20)
    assert whole.state.progress.exponent < 0
    assert whole.state.progress.good_exponent < 0
    run(tmp_path, 360, method, record_every=20)
    assert bits(run(None, 400, method, record_every=20, resume=tmp_path)) == bits(whole)


def test_a_run_that_was_cut_off_has_the_rows_of_its_schedule(tmp_path: Path) -> None:
    whole = run(tmp_path, 300, checkpoints=Checkpoints(tmp_path, every=80))
    for path in kept(tmp_path):
        assert bits(run(iterations=300, resume=path)) == bits(whole)


@pytest.mark.slow
def test_an_extended_run_keeps_its_rows_and_takes_the_new_schedule_from_there_on(
    tmp_path: Path,
) -> None:
    run(tmp_path, 100)
    again = run(iterations=900, resume=tmp_path)
    expected = [*schedule(100, None, None), *(k for k in schedule(900, None, None) if k > 100)]
    assert again.history["iteration"].tolist() == expected
    assert everything(again.state) == everything(run(iterations=900).state)


@pytest.mark.slow
def test_a_converged_run_stops_where_it_was_unless_asked_for_more(tmp_path: Path) -> None:
    first = run(tmp_path, 5000, stopping=GradientNorm(1e-3))
    assert first.status == "converged"
    assert bits(run(iterations=5000, resume=tmp_path, stopping=GradientNorm(1e-3))) == bits(first)
    further = run(iterations=5000, resume=tmp_path, stopping=GradientNorm(1e-6))
    assert bits(further) == bits(run(iterations=5000, stopping=GradientNorm(1e-6)))
    assert further.state.k > first.state.k


@pytest.mark.slow
def test_a_time_varying_network_goes_on_with_its_round(tmp_path: Path) -> None:
    def go(**options: Any) -> Result:
        algorithm = DRFGT(step_size=0.05, penalty=1.0, order="adapt-then-combine")
        return run(algorithm=algorithm, W=tp.sequence_from_name("random_matching", N, 3), **options)

    whole = go(record_every=1)
    go(folder=tmp_path, iterations=23, record_every=1)
    assert bits(go(resume=tmp_path, record_every=1)) == bits(whole)


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    run(tmp_path, 100, checkpoints=Checkpoints(tmp_path, every=10, keep=2))
    assert names(tmp_path) == [90, 100]
    run(
        tmp_path,
        130,
        checkpoints=Checkpoints(tmp_path, every=10, keep=4),
        resume=tmp_path / "000000090",
    )
    assert names(tmp_path) == [100, 110, 120, 130]
    assert not list(tmp_path.glob(".*"))


def test_later_ones_of_an_abandoned_future_go(tmp_path: Path) -> None:
    run(tmp_path, 60)
    for name in ("000000060", "000000040"):
        (tmp_path / name / checkpoint_files.MANIFEST).write_text("{")
    run(tmp_path, 25, resume=tmp_path)
    assert names(tmp_path) == [20, 25]


def test_checkpoints_of_another_run_are_not_touched(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(
        CheckpointError,
        match="has the checkpoints of another run: resume from it, choose another folder",
    ):
        run(tmp_path, seed=1)
    assert names(tmp_path) == [20, 40, 60]


@pytest.mark.slow
def test_time_between_checkpoints(tmp_path: Path) -> None:
    """A due time is seen at every look, and looks come soon."""
    run(tmp_path, 400, checkpoints=Checkpoints(tmp_path, every="0.000001s", keep=1000), rows=2)
    often = names(tmp_path)
    assert len(often) > 3
    assert often[0] == 1
    assert often[-1] == 400
    run(tmp_path / "never", 400, checkpoints=Checkpoints(tmp_path / "never", every="9h"))
    assert names(tmp_path / "never") == [400]


def test_intervals_are_iterations_or_times() -> None:
    given = (100, "30s", "1.5m", "2h")
    assert [interval("every", every) for every in given] == [
        (100, np.inf),
        (np.inf, 30),
        (np.inf, 90),
        (np.inf, 7200),
    ]
    for wrong in (0, "0s", "s", "1d", "1e-3", "", "inf s", 1.5, "9" * 400 + "s"):
        with pytest.raises(
            ValueError,
            match=r"every must be a number of iterations \(100\) or a time \(30s, 10m, 2h\), got",
        ):
            Checkpoints("a", every=wrong)  # type: ignore[arg-type]


def sends(number: int, k: int) -> Callable[[Row], None]:
    return lambda row: signal.raise_signal(number) if row.iteration == k else None


@contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_a_signal_ends_the_run_with_a_checkpoint(ending: signal.Signals, tmp_path: Path) -> None:
    with handled(ending, signal.SIG_DFL):
        handlers = [signal.getsignal(number) for number in (*ENDINGS, signal.SIGUSR1)]
        ended = run(
            tmp_path,
            10**6,
            record_every=1,
            callback=sends(ending, 30),
            checkpoints=Checkpoints(tmp_path),
        )
        assert [signal.getsignal(number) for number in (*ENDINGS, signal.SIGUSR1)] == handlers
    assert (ended.status, ended.converged) == ("terminated", False)
    assert f"ended by {ending.name} after iteration {ended.state.k}" in ended.message
    assert ended.state.k >= 30
    assert names(tmp_path) == [ended.state.k]
    more = ended.state.k + 20
    assert bits(run(iterations=more, record_every=1, resume=tmp_path)) == bits(
        run(iterations=more, record_every=1)
    )


def test_an_ending_that_comes_too_late_for_the_run_takes_effect_after_it(tmp_path: Path) -> None:
    """Nobody looks for signals after the last row: SIGINT is raised where the last checkpoint is
    written."""
    with pytest.raises(KeyboardInterrupt):
        run(
            tmp_path,
            60,
            record_every=1,
            callback=sends(signal.SIGINT, 60),
            checkpoints=Checkpoints(tmp_path),
        )
    assert names(tmp_path) == [60]


def test_what_the_process_ignores_stays_ignored(tmp_path: Path) -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN):
        result = run(
            tmp_path,
            60,
            record_every=1,
            callback=sends(signal.SIGHUP, 30),
            checkpoints=Checkpoints(tmp_path),
        )
    assert (result.status, result.state.k) == ("iterations", 60)


def test_a_signal_between_rows_is_seen_soon(tmp_path: Path) -> None:
    """Rows are seldom, looks are not: the row of iteration 0 sends the signal, the next row would
    be a million iterations later."""
    ended = run(
        tmp_path,
        10**6,
        rows=2,
        callback=sends(signal.SIGTERM, 0),
        checkpoints=Checkpoints(tmp_path),
    )
    assert ended.state.k < 1000
    assert ended.history["iteration"].tolist() == [0]


def test_a_diverging_run_leaves_its_last_finite_state(tmp_path: Path) -> None:
    """Checkpoints of iterations that are no longer finite are not written; the one left is of the
    last row, and goes on alike."""
    algorithm = DRFGT(step_size=1.0)
    problem = procrustes().problem
    arguments: Any = {"iterations": 2000, "record_every": 2}
    whole = solve(problem, algorithm, RING, **arguments)
    assert whole.status == "diverged"
    result = solve(
        problem, algorithm, RING, checkpoints=Checkpoints(tmp_path, every=1, keep=1000), **arguments
    )
    assert bits(result)["message"] == whole.message
    last = names(tmp_path)[-1]
    assert whole.row.iteration <= last < whole.state.k
    seldom = solve(
        problem, algorithm, RING, checkpoints=Checkpoints(tmp_path / "seldom"), **arguments
    )
    assert names(tmp_path / "seldom") == [whole.row.iteration]
    again = solve(problem, algorithm, RING, resume=tmp_path / "seldom", **arguments)
    assert (again.message, seldom.message) == (whole.message, whole.message)
    assert again.history["objective"].tobytes() == whole.history["objective"].tobytes()


def other_data() -> Any:
    data = samples(UNEVEN[:5], 12, 0)
    data[3][0, 0] += 1e-5
    return PCA(data, 3, weights="agents")


DIFFERENT: list[tuple[dict[str, Any], str]] = [
    ({"algorithm": drfgt(penalty=3.0)}, "algorithm: penalty is 'auto' there and 3.0 here"),
    ({"W": GRAPHS["path"](N)}, "W: directed edges is 10 there and 8 here"),
    (
        {"W": 0.5 * (RING + np.eye(N))},
        "W: least and largest self weight is [0.6, 0.6] there and [0.8, 0.8] here",
    ),
    ({"seed": 8}, "seed: seed is 0 there and 8 here"),
    ({"x0": np.eye(12, 3)}, "the starting points differ by up to"),
    ({"problem": pca(r=2).problem}, "problem: shape is [12, 3] there and [12, 2] here"),
    ({"problem": procrustes().problem}, "problem: type is PCA there and Procrustes here"),
    ({"problem": other_data()}, "the data of agent 3 differ: its objective at the start is"),
]


@pytest.mark.parametrize(("other", "difference"), DIFFERENT)
def test_another_run_is_refused_with_the_difference(
    other: dict[str, Any], difference: str, tmp_path: Path
) -> None:
    run(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        run(resume=tmp_path, **other)
    assert f"{tmp_path / '000000060'} belongs to another run: {difference}" in str(caught.value)


def test_fewer_iterations_and_other_metrics_are_refused(tmp_path: Path) -> None:
    def twice(problem: Any, state: Any, collective: Collective) -> tuple[float, ...]:
        return (2.0 * state.k,)

    twice.columns = ("twice",)  # type: ignore[attr-defined]
    run(tmp_path, 20)
    with pytest.raises(
        ValueError,
        match=r"a resumed run keeps its metrics, objective, .*; it was given objective, .*, twice",
    ):
        run(resume=tmp_path, metrics=[twice])
    with pytest.raises(
        ValueError, match="is at iteration 20, beyond the 19 iterations that are asked for"
    ):
        run(iterations=19, resume=tmp_path)


def test_numbers_that_are_not_finite_at_the_start_are_compared_as_they_are(tmp_path: Path) -> None:
    values = [np.inf, np.nan, 1.0, 0.0, -np.inf]
    problem = FunctionProblem(
        lambda agent, x: values[agent], lambda agent, x: -0.1 * np.ones_like(x), Stiefel(4, 2), N
    )
    arguments: Any = {"iterations": 9, "record_every": 3}
    algorithm = DRFGT(step_size=0.1, penalty=1.0)
    first = solve(problem, algorithm, RING, checkpoints=Checkpoints(tmp_path), **arguments)
    assert bits(solve(problem, algorithm, RING, resume=tmp_path, **arguments)) == bits(first)
    values[2] = 2.0
    with pytest.raises(
        CheckpointError,
        match="data of agent 2 differ: its objective at the start is 1 there and 2 here",
    ):
        solve(problem, algorithm, RING, resume=tmp_path, **arguments)


def test_another_rounding_is_accepted_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, 20)
    data = samples(UNEVEN[:5], 12, 0)
    near = PCA([a * (1.0 + 1e-13) for a in data], 3, weights="agents")
    with caplog.at_level(logging.WARNING):
        run(iterations=40, problem=near, resume=tmp_path)
    assert "was written where arithmetic rounds differently" in caplog.text


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    run(folder)
    return folder


@pytest.fixture
def checkpoint(good: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint of iteration 60, alone in its folder."""
    return Path(shutil.copytree(good / "000000060", tmp_path / "000000060"))


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / checkpoint_files.MANIFEST
    whole = json.loads(path.read_text())
    change(whole["checkpoint"])
    canonical = json.dumps(whole["checkpoint"], sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**whole, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}))


HUGE = 10**15


def stored(kind: str, *shape: int, **changes: Any) -> dict[str, Any]:
    return {"kind": kind, "shape": [*shape], "rows": [[0, shape[0], "0" * 64]]} | changes


def array(name: str, *description: Any, **changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body["arrays"].__setitem__(name, stored(*description, **changes))


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "huge agents": lambda body: [
        one.update(stored(one["kind"], HUGE, *one["shape"][1:]))
        for one in body["arrays"].values()
        if one["shape"][0] == 5
    ],
    "objects": array("state.x", "|O", 5, 12, 3),
    "other shape": array("state.x", "<f8", 5, 3, 12),
    "a path for a name": array("../../etc/passwd", "<f8", 5, 12, 3),
    "rows that overlap": array("state.x", "<f8", 5, 12, 3, rows=[[0, 5, ""], [0, 5, ""]]),
    "a future history": lambda body: body.update(iteration=3),
    "a later state": lambda body: body["numbers"].update({"state.k": 90}),
}


@contextmanager
def little_memory() -> Iterator[None]:
    """Not more than 4 MB are allocated inside; the state has 5 kB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_manifest_that_lies_with_the_right_checksum_is_refused(
    name: str, checkpoint: Path
) -> None:
    changed(checkpoint, HOSTILE[name])
    with little_memory(), pytest.raises(CheckpointError, match=str(checkpoint)):
        set_up(pca().problem, drfgt(), RING).resume(checkpoint)  # which makes no iteration


def test_what_is_in_flight_has_the_shape_that_the_channel_gave_it(tmp_path: Path) -> None:
    """The method's own start does not tell it; the network does, once it is read."""
    run(tmp_path, 20, channel="delay:rounds=1")

    def turn(body: dict[str, Any]) -> None:
        shape = body["arrays"]["network.messages"]["shape"]
        shape[1:] = [2, shape[1] // 2]
        path = tmp_path / "000000020" / "network.messages.npy"
        description = checkpoint_files.Stored(**body["arrays"]["network.messages"])._replace(
            shape=tuple(shape)
        )
        path.write_bytes(description.header + path.read_bytes()[checkpoint_files.HEADER_BYTES :])

    changed(tmp_path / "000000020", turn)
    with pytest.raises(
        CheckpointError,
        match=r"cannot resume .*000000020: the messages in flight must be 5 x \d+ numbers, got",
    ):
        run(resume=tmp_path, channel="delay:rounds=1")


def test_the_change_itself_is_not_what_is_refused(checkpoint: Path) -> None:
    changed(checkpoint, lambda body: None)
    assert run(resume=checkpoint).state.k == 60


def rewritten(old: bytes, new: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new))


UNUSABLE = r"manifest\.json is not usable"
MANIFESTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "text": (lambda path: path.write_bytes(b"\xff\xfe\x00"), UNUSABLE),
    "another format": (rewritten(b"decentorth checkpoint", b"zip"), UNUSABLE),
    "deep": (lambda path: path.write_bytes(b"[" * 100_000), UNUSABLE),
    "deep inside": (
        rewritten(
            b'"checkpoint": {', b'"checkpoint": ' + b"[" * 900 + b"]" * 900 + b', "other": {'
        ),
        UNUSABLE,
    ),
    "a number without end": (rewritten(b'"version": 3', b'"version": ' + b"1" * 10_000), UNUSABLE),
    "no checksum of what it says": (
        rewritten(b"state.gradients", b"state.gradient_"),
        r".*manifest\.json",
    ),
    "another version": (
        rewritten(b'"version": 3', b'"version": 2'),
        "its format is 2, and this decentorth reads format 3: resume with the version of "
        "decentorth that wrote it",
    ),
    "gigabytes": (
        lambda path: os.truncate(path, 10 << 30),
        "must have at most 16777216 bytes, and has 10737418240",
    ),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_what_is_no_manifest(name: str, checkpoint: Path) -> None:
    spoil, words = MANIFESTS[name]
    path = checkpoint / checkpoint_files.MANIFEST
    before = path.stat().st_mtime_ns
    spoil(path)
    assert path.stat().st_mtime_ns != before
    with (
        little_memory(),
        pytest.raises(CheckpointError, match=f"000000060 cannot be read: .*{words}"),
    ):
        run(resume=checkpoint)


@pytest.mark.parametrize("name", [checkpoint_files.MANIFEST, "state.x.npy"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["FIFO", "device"]
)
def test_what_is_no_regular_file_is_not_read(
    make: Callable[[Path], None], name: str, checkpoint: Path
) -> None:
    """A FIFO would be waited for; a device has no end."""
    (checkpoint / name).unlink()
    make(checkpoint / name)
    for reading in (lambda: run(resume=checkpoint), lambda: newest_notes(checkpoint.parent)):
        with (
            little_memory(),
            pytest.raises(
                (CheckpointError, ValueError),
                match=f"000000060 cannot be read: {name} is not a regular file",
            ),
        ):
            reading()


def test_the_notes_are_those_of_files_of_the_right_sizes(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path, dirs_exist_ok=True)
    assert newest_notes(tmp_path) == ({}, N)
    changed(tmp_path / "000000060", HOSTILE["huge agents"])
    os.truncate(tmp_path / "000000040" / "state.x.npy", 17)
    assert newest_notes(tmp_path) == ({}, N)
    shutil.rmtree(tmp_path / "000000020")
    with pytest.raises(
        ValueError,
        match=r"000000040 cannot be read: state\.x\.npy is damaged: it has 17 bytes instead of",
    ):
        newest_notes(tmp_path)


SPOILT: dict[str, Callable[[Path], Any]] = {
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "a bit of the header": lambda path: spoil(path, 70),
    "last bit": lambda path: spoil(path, -1),
    "missing": Path.unlink,
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_taken(
    how: str, good: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each file, in turn; `tests/test_mutants.py` damages them in many more ways."""
    whole = bits(run())
    for number, name in enumerate(sorted(path.name for path in (good / "000000060").iterdir())):
        folder = tmp_path / str(number)
        shutil.copytree(good / "000000060", folder / "000000060")
        if name == checkpoint_files.MANIFEST and how in ("last bit", "cut short"):
            continue  # white space at the end
        SPOILT[how](folder / "000000060" / name)
        with little_memory(), pytest.raises(CheckpointError) as caught:
            run(resume=folder / "000000060")
        said = str(caught.value)
        assert f"{folder / '000000060'} cannot be read: " in said
        assert (name in said, said.count("\n")) == (True, 0)
    shutil.copytree(good / "000000040", folder / "000000040")
    with pytest.raises(CheckpointError, match=f"there is also {folder / '000000040'}"):
        run(resume=folder / "000000060")
    caplog.clear()
    assert bits(run(resume=folder)) == whole
    assert "000000060 cannot be read" in caplog.text


@pytest.mark.parametrize("size", [0, 3000])
def test_a_full_disk_leaves_the_last_good_one(size: int, good: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(good, root)
    sizes = sorted(path.stat().st_size for path in (good / "000000060").iterdir())
    assert sizes[0] < 3000 < sizes[-1]
    message = (
        "cannot write the checkpoint of iteration 80: .*File too large.*; the last good one is "
        rf"{root}/000000060$"
    )
    with small_files(size), pytest.raises(CheckpointError, match=message):
        run(root, 90, resume=root)
    assert names(root) == [20, 40, 60]
    assert not list(root.glob(".*"))
    assert everything(run(root, 90, resume=root).state) == everything(run(iterations=90).state)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        CheckpointError, match="cannot write the checkpoint of iteration 20: Not a directory"
    ):
        run(tmp_path / "file" / "folder")


def test_what_was_interrupted_in_writing_is_not_seen_and_goes(good: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(good, root)
    shutil.copytree(good / "000000060", root / ".000000080.part")
    assert checkpoint_files.found(root)[0].name == "000000060"
    run(root, 70, resume=root)
    assert names(root) == [40, 60, 70]
    assert not list(root.glob(".*"))


@pytest.mark.slow
def test_looks_are_seldom(tmp_path: Path) -> None:
    """In a quarter of a second, however short the iterations: at 1, 5, 21, 85, 341 and 1365, where
    spans have grown fourfold."""

    class Counting(SerialCommunicator):
        asked = 0

        def max(self, values: Array) -> Array:
            self.asked += 1
            return values

    alone, watched = Counting(), Counting()
    run(iterations=1500, rows=2, comm=alone)
    result = run(tmp_path, 1500, rows=2, comm=watched, checkpoints=Checkpoints(tmp_path))
    assert alone.asked < watched.asked <= alone.asked + 7 + result.seconds["total"] / 0.25
