"""Checkpoints: what is read is what was written, on any number of ranks, or nothing at all."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decentorth import DRFGT, CheckpointError, Checkpoints, Result, solve
from decentorth.api import Options, set_up
from decentorth.network import Network, SerialCommunicator
from decentorth.network.collective import AgentCollective
from decentorth.network.halo import even_bounds
from decentorth.problems import PCA, FunctionProblem
from decentorth.protocols import Array, Collective
from decentorth.running.checkpoint import ENDINGS, PendingSignals, files, interval, kept, newest_notes
from decentorth.running.checkpoint.states import Arrays, copied, put_together, taken_apart
from decentorth.running.history import schedule
from decentorth.sets import Stiefel
from decentorth.stopping import GradientNorm
from tests.support.disks import small_files
from tests.support.problems import GRAPHS, UNEVEN, pca, procrustes, samples
from tests.support.threads import ThreadCommunicator, on_ranks

N = 5
RING = GRAPHS["ring"](N)


class Inner(NamedTuple):
    """A part of a state."""

    y: NDArray[Any]
    flag: bool
    pair: tuple[NDArray[Any], int]


class Outer(NamedTuple):
    """A state with another in it."""

    x: NDArray[Any]
    inner: Inner
    k: int
    name: str
    nothing: None


def state(n: int, seed: int = 0) -> Outer:
    """Arrays of every type, one of them empty, one with an agent's number alone."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3, 2))
    x[0, 0, 0], x[-1, 0, 0] = np.nan, -0.0
    return Outer(x, Inner(rng.integers(0, 9, n), True, (np.zeros((n, 0, 4)), 10**30)), 7, "name", None)


def everything(state: Any) -> dict[str, Any]:
    """A state by its leaves, arrays as bytes."""
    arrays, numbers = taken_apart(state, "state")
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()} | numbers


def bits(result: Result) -> dict[str, Any]:
    """All that a result has but its seconds."""
    history = {name: column.tobytes() for name, column in result.history.items() if name != "seconds"}
    return everything(result.state) | history | {"status": result.status, "message": result.message}


def test_a_state_is_its_leaves() -> None:
    whole = state(4)
    arrays, numbers = taken_apart(whole, "state")
    assert list(arrays) == ["state.x", "state.inner.y", "state.inner.pair.0"]
    assert numbers == {
        "state.inner.flag": True,
        "state.inner.pair.1": 10**30,
        "state.k": 7,
        "state.name": "name",
        "state.nothing": None,
    }
    again = put_together(state(4, seed=1), "state", arrays, numbers)
    assert everything(again) == everything(whole)
    assert (type(again), type(again.inner), type(again.inner.pair)) == (Outer, Inner, tuple)


def test_what_is_neither_array_nor_number_is_named() -> None:
    with pytest.raises(TypeError, match=r"arrays and numbers, but state\.inner is of type dict"):
        taken_apart(state(2)._replace(inner={}), "state")  # type: ignore[arg-type]


def test_a_copy_shares_nothing_and_its_memory_is_used_again() -> None:
    whole = state(4)
    first = copied(whole)
    assert everything(first) == everything(whole)
    assert not np.shares_memory(first.x, whole.x)
    second = copied(state(4, seed=1), first)
    assert everything(second) == everything(state(4, seed=1))
    assert second.x is first.x


def written(root: Path, ranks: int, n: int, arrays: Arrays, piece: int | None = None) -> Path:
    """A checkpoint that so many ranks have written."""
    bounds = even_bounds(n, ranks)

    def write(communicator: ThreadCommunicator) -> Path:
        collective = AgentCollective(communicator, bounds)
        own = slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        mine = {name: files.Rows(array[own], own.start, n) for name, array in arrays.items()}
        if communicator.rank == 0:
            mine |= {"one": files.Rows(np.arange(3.0), 0, 3), "two": files.Rows(np.zeros((0, 2)), 0, 0)}
        files.write(root / "000000005", 2, mine, {"fact": 1}, collective)
        return root / "000000005"

    return on_ranks(ranks, write)[0]


def read(path: Path, ranks: int, n: int) -> Arrays:
    """What so many ranks read of it, put together."""
    bounds = even_bounds(n, ranks)

    def slices(communicator: ThreadCommunicator) -> Arrays:
        manifest = files.read_manifest(path, AgentCollective(communicator, bounds))
        files.check_sizes(manifest)
        assert manifest.facts == {"fact": 1}
        assert files.read(manifest, "one", slice(0, 3)).tolist() == [0.0, 1.0, 2.0]
        assert files.read(manifest, "two", slice(0, 0)).shape == (0, 2)
        own = slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        return {name: files.read(manifest, name, own) for name in manifest.arrays if name not in ("one", "two")}

    parts = on_ranks(ranks, slices)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def as_bytes(arrays: Arrays) -> dict[str, Any]:
    """Arrays with their types and shapes."""
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 12),
    writers=st.integers(1, 5),
    readers=st.integers(1, 5),
    kinds=st.lists(st.sampled_from(files.KINDS), min_size=1, max_size=3),
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=2), min_size=3, max_size=3),
    piece=st.integers(1, 200),
    seed=st.integers(0, 99),
)
def test_any_ranks_and_numpy_read_what_any_ranks_wrote(
    n: int, writers: int, readers: int, kinds: list[str], shapes: list[list[int]], piece: int, seed: int, tmp_path_factory: Any
) -> None:
    """Bit for bit, whatever the types, the shapes and where pieces end."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for number, (kind, shape) in enumerate(zip(kinds, shapes, strict=False)):
        raw = rng.integers(0, 2 if kind == "|b1" else 256, (n, *shape, np.dtype(kind).itemsize), dtype=np.uint8)
        arrays[f"a{number}"] = raw.view(kind)[..., 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PIECE_BYTES", piece)
        path = written(tmp_path_factory.mktemp("written"), min(writers, n), n, arrays)
    assert as_bytes(read(path, min(readers, n), n)) == as_bytes(arrays)
    assert as_bytes({name: np.load(path / f"{name}.npy", allow_pickle=False) for name in arrays}) == as_bytes(arrays)


def test_a_reader_looks_only_at_the_rows_with_its_agents(tmp_path: Path) -> None:
    """Ranks 0 and 1 of three can read though the last rank's rows are damaged."""
    path = written(tmp_path, 3, 9, {"x": np.arange(9.0)})
    spoil(path / "x.npy", -1)
    manifest = files.parsed(path, (path / files.MANIFEST).read_bytes())
    assert files.read(manifest, "x", slice(2, 6)).tolist() == [2.0, 3.0, 4.0, 5.0]
    with pytest.raises(ValueError, match=r"x\.npy is damaged: rows 6 to 8 do not have the checksum in manifest\.json"):
        files.read(manifest, "x", slice(2, 7))


def spoil(path: Path, place: int) -> None:
    """Flip a bit of a byte of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


drfgt = partial(DRFGT, step_size="constant")


def run(folder: Path | None = None, iterations: int = 60, algorithm: Any = None, W: Any = RING, **options: Any) -> Result:
    """A run on PCA, with checkpoints every 20 iterations unless told otherwise."""
    if folder is not None and "checkpoints" not in options:
        options["checkpoints"] = Checkpoints(folder, every=20)
    return solve(pca().problem, drfgt() if algorithm is None else algorithm, W, iterations=iterations, **options)


def test_numpy_integers_are_written_as_others_are(tmp_path: Path) -> None:
    counted = run(tmp_path, iterations=np.int64(4), seed=np.int64(0))  # type: ignore[arg-type]
    assert bits(counted) == bits(run(iterations=4, seed=0))


def names(folder: Path) -> list[int]:
    """The iterations of the checkpoints in a folder."""
    return sorted(int(path.name) for path in kept(folder))


def test_checkpoints_change_nothing(tmp_path: Path) -> None:
    assert bits(run(tmp_path, checkpoints=Checkpoints(tmp_path, every=1))) == bits(run())
    assert names(tmp_path) == [58, 59, 60]


@pytest.mark.slow_cases("0")
@pytest.mark.parametrize("stop", [0, 1, 19, 20, 33, 59, 60])
def test_a_run_goes_on_without_a_seam(stop: int, tmp_path: Path) -> None:
    """With equally spaced rows nothing tells an extended run from one without a stop; seconds add up."""
    whole = run(record_every=1)
    first = run(tmp_path, stop, record_every=1)
    again = run(tmp_path, record_every=1, resume=tmp_path)
    assert bits(again) == bits(whole)
    seconds = again.history["seconds"]
    assert seconds[: stop + 1].tobytes() == first.history["seconds"].tobytes()
    assert (np.diff(seconds) >= 0).all()
    assert again.seconds["compute"] >= first.seconds["compute"]
    assert sum(again.seconds[part] for part in ("compute", "wait", "metrics", "checkpoints")) <= again.seconds["total"]


def test_a_run_that_was_cut_off_has_the_rows_of_its_schedule(tmp_path: Path) -> None:
    """The log-spaced rows follow from the number of iterations, which stays the same here."""
    whole = run(tmp_path, 300, checkpoints=Checkpoints(tmp_path, every=80))
    for path in kept(tmp_path):
        assert bits(run(iterations=300, resume=path)) == bits(whole)


@pytest.mark.slow
def test_an_extended_run_keeps_its_rows_and_takes_the_new_schedule_from_there_on(tmp_path: Path) -> None:
    run(tmp_path, 100)
    again = run(iterations=900, resume=tmp_path)
    expected = [*schedule(100, None, None), *(k for k in schedule(900, None, None) if k > 100)]
    assert again.history["iteration"].tolist() == expected
    assert everything(again.state) == everything(run(iterations=900).state)


def test_a_row_that_is_due_where_a_run_goes_on_is_recorded(tmp_path: Path) -> None:
    run(tmp_path, 33, record_every=11)
    run(tmp_path / "b", 33, record_every=30, checkpoints=Checkpoints(tmp_path / "b", every=22), stopping=None)
    again = run(iterations=44, record_every=11, resume=tmp_path / "b" / "000000022")
    assert again.history["iteration"].tolist() == [0, 22, 33, 44]


@pytest.mark.slow
def test_a_converged_run_stops_where_it_was_unless_asked_for_more(tmp_path: Path) -> None:
    first = run(tmp_path, 5000, stopping=GradientNorm(1e-3))
    assert first.status == "converged"
    assert bits(run(iterations=5000, resume=tmp_path, stopping=GradientNorm(1e-3))) == bits(first)
    further = run(iterations=5000, resume=tmp_path, stopping=GradientNorm(1e-6))
    assert bits(further) == bits(run(iterations=5000, stopping=GradientNorm(1e-6)))
    assert further.state.k > first.state.k


@pytest.mark.slow
def test_one_process_and_ranks_take_turns(tmp_path: Path) -> None:
    """Written by 1, then 3, then 2 ranks, among whom the agents are divided differently."""

    def until(iterations: int, communicator: Any) -> tuple[str, dict[str, list[float]]]:
        result = run(tmp_path, iterations, comm=communicator, record_every=1, resume=tmp_path if kept(tmp_path) else None)
        return result.collective.sha256(result.x), {
            name: column.tolist() for name, column in result.history.items() if name != "seconds"
        }

    until(13, "serial")
    on_ranks(3, lambda communicator: until(29, communicator))
    on_ranks(2, lambda communicator: until(44, communicator))
    whole = run(record_every=1)
    history = {name: column.tolist() for name, column in whole.history.items() if name != "seconds"}
    assert until(60, "serial") == (whole.iterates_sha256, history)


@pytest.mark.slow
def test_a_time_varying_network_goes_on_with_its_round(tmp_path: Path) -> None:
    import topologies as tp

    def go(**options: Any) -> Result:
        algorithm = DRFGT(step_size=0.05, penalty=1.0, order="adapt-then-combine")
        return run(algorithm=algorithm, W=tp.sequence_from_name("random_matching", N, 3), **options)

    whole = go(record_every=1)
    go(folder=tmp_path, iterations=23, record_every=1)
    assert bits(go(resume=tmp_path, record_every=1)) == bits(whole)


class Late(Network):
    """A network whose messages arrive a round late; in the first round everybody hears oneself alone."""

    queue: Array

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        xs += push
        sent = np.concatenate([mixed.reshape(self.n_local, -1) for mixed in super().mix(*xs, rounds=rounds)], axis=1)
        arrived = self.queue if self.queue.size else np.concatenate([x.reshape(self.n_local, -1) for x in xs], axis=1)
        self.queue = sent
        parts = np.split(arrived, np.cumsum([x[0].size for x in xs])[:-1], axis=1)
        return tuple(np.ascontiguousarray(part).reshape(x.shape) for part, x in zip(parts, xs, strict=True))

    def in_flight(self) -> dict[str, Array]:
        return {"queue": self.queue}

    def restore(self, rounds: int, messages: int, bytes: int, in_flight: Mapping[str, Array]) -> None:
        super().restore(rounds, messages, bytes, {})
        self.queue = in_flight["queue"]


def test_what_is_in_flight_goes_on_too(tmp_path: Path) -> None:
    """On another number of ranks, from the middle of a run and from where it began, when nothing had been sent."""

    def go(communicator: Any, iterations: int, folder: Path | None = None, resume: Path | None = None) -> tuple[str, bytes]:
        late = set_up(pca().problem, DRFGT(step_size=0.02, penalty=1.0, order="combine-then-adapt"), RING, comm=communicator)
        late.network = Late(RING, communicator)
        late.network.queue = np.zeros((late.network.n_local, 0))
        checkpoints = None if folder is None else Checkpoints(folder)
        result = late.solve(Options(iterations=iterations, record_every=5, checkpoints=checkpoints, resume=resume))
        return result.collective.sha256(result.x), result.history["objective"].tobytes()

    whole = go("serial", 40)
    for number, first in enumerate((0, 15)):
        folder = tmp_path / str(number)
        on_ranks(2, lambda communicator, first=first, folder=folder: go(communicator, first, folder))  # type: ignore[misc]
        assert go("serial", 40, resume=folder) == whole
    with pytest.raises(CheckpointError, match=r"the state: network\.queue is in flight there and missing here"):
        run(iterations=40, algorithm=DRFGT(step_size=0.02, penalty=1.0, order="combine-then-adapt"), resume=folder)


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    run(tmp_path, 100, checkpoints=Checkpoints(tmp_path, every=10, keep=2))
    assert names(tmp_path) == [90, 100]
    run(tmp_path, 130, checkpoints=Checkpoints(tmp_path, every=10, keep=4), resume=tmp_path / "000000090")
    assert names(tmp_path) == [100, 110, 120, 130]
    assert not list(tmp_path.glob(".*"))


def test_later_ones_of_an_abandoned_future_go(tmp_path: Path) -> None:
    run(tmp_path, 60)
    for name in ("000000060", "000000040"):
        (tmp_path / name / files.MANIFEST).write_text("{")
    run(tmp_path, 25, resume=tmp_path)
    assert names(tmp_path) == [20, 25]


def test_checkpoints_of_another_run_are_not_touched(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(CheckpointError, match="has the checkpoints of another run: resume from it, choose another folder"):
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


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (100, (100, np.inf)),
        ("30s", (np.inf, 30)),
        ("1.5m", (np.inf, 90)),
        ("2h", (np.inf, 7200)),
    ],
)
def test_intervals(every: Any, expected: tuple[float, float]) -> None:
    assert interval("every", every) == expected


@pytest.mark.parametrize("every", [0, -1, "0s", "s", "1d", "1e-3", "", "inf s", 1.5, "9" * 400 + "s"])
def test_what_is_no_interval(every: Any) -> None:
    with pytest.raises(ValueError, match=r"every must be a number of iterations \(100\) or a time \(30s, 10m, 2h\), got"):
        Checkpoints("a", every=every)


class Sends:
    """A metric that sends this process a signal at an iteration."""

    columns = ()

    def __init__(self, number: int, k: int) -> None:
        self.number, self.k = number, k

    def __call__(self, problem: Any, state: Any, collective: Collective) -> tuple[float, ...]:
        if state.k == self.k:
            os.kill(os.getpid(), self.number)
        return ()


@contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """The signal has that handler inside, whoever started these tests."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.slow
def test_sigusr1_writes_a_checkpoint_and_the_run_goes_on(tmp_path: Path) -> None:
    kept_all = Checkpoints(tmp_path, keep=100)
    result = run(tmp_path, record_every=1, metrics=[Sends(signal.SIGUSR1, 1)], checkpoints=kept_all)
    first, last = names(tmp_path)
    assert 1 <= first < 60
    assert last == 60
    assert bits(result) == bits(run(record_every=1))
    assert bits(run(record_every=1, resume=tmp_path / f"{first:09d}")) == bits(result)


@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_a_signal_ends_the_run_with_a_checkpoint(ending: signal.Signals, tmp_path: Path) -> None:
    with handled(ending, signal.SIG_DFL):
        handlers = [signal.getsignal(number) for number in (*ENDINGS, signal.SIGUSR1)]
        ended = run(tmp_path, 10**6, record_every=1, metrics=[Sends(ending, 30)], checkpoints=Checkpoints(tmp_path))
        assert [signal.getsignal(number) for number in (*ENDINGS, signal.SIGUSR1)] == handlers
    assert (ended.status, ended.converged) == ("terminated", False)
    assert f"ended by {ending.name} after iteration {ended.state.k}" in ended.message
    assert ended.state.k >= 30
    assert names(tmp_path) == [ended.state.k]
    more = ended.state.k + 20
    assert bits(run(iterations=more, record_every=1, resume=tmp_path)) == bits(run(iterations=more, record_every=1))


def test_a_second_interrupt_ends_the_run_at_once(tmp_path: Path) -> None:
    twice = [Sends(signal.SIGINT, 30), Sends(signal.SIGINT, 30)]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 10**6, record_every=1, metrics=twice, checkpoints=Checkpoints(tmp_path))
    assert names(tmp_path) == []


def test_an_ending_that_comes_too_late_for_the_run_takes_effect_after_it(tmp_path: Path) -> None:
    """Nobody looks for signals after the last row: SIGINT is raised where the last checkpoint is written."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 60, record_every=1, metrics=[Sends(signal.SIGINT, 60)], checkpoints=Checkpoints(tmp_path))
    assert names(tmp_path) == [60]


def test_what_the_process_ignores_stays_ignored(tmp_path: Path) -> None:
    """As nohup does with SIGHUP."""
    with handled(signal.SIGHUP, signal.SIG_IGN):
        result = run(tmp_path, 60, record_every=1, metrics=[Sends(signal.SIGHUP, 30)], checkpoints=Checkpoints(tmp_path))
    assert (result.status, result.state.k) == ("iterations", 60)


def test_a_signal_in_an_inner_context_waits_for_the_end_of_the_outer_one() -> None:
    signals, reached = PendingSignals(), []

    def interrupted() -> None:
        with signals:
            with signals:
                os.kill(os.getpid(), signal.SIGINT)
            reached.append(signals.seen)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == [{signal.SIGINT}]


def test_a_signal_between_rows_is_seen_soon(tmp_path: Path) -> None:
    """Rows are seldom, looks are not: the row of iteration 0 sends the signal, the next row would be a million iterations later."""
    ended = run(tmp_path, 10**6, rows=2, metrics=[Sends(signal.SIGTERM, 0)], checkpoints=Checkpoints(tmp_path))
    assert ended.state.k < 1000
    assert ended.history["iteration"].tolist() == [0]


def test_a_diverging_run_leaves_its_last_finite_state(tmp_path: Path) -> None:
    """Checkpoints of iterations that are no longer finite are not written; the one left is of the last row, and goes on alike."""
    algorithm = DRFGT(step_size=1.0)
    problem = procrustes().problem
    arguments: Any = {"iterations": 2000, "record_every": 2}
    whole = solve(problem, algorithm, RING, **arguments)
    assert whole.status == "diverged"
    result = solve(problem, algorithm, RING, checkpoints=Checkpoints(tmp_path, every=1, keep=1000), **arguments)
    assert bits(result)["message"] == whole.message
    last = names(tmp_path)[-1]
    assert whole.row.iteration <= last < whole.state.k
    seldom = solve(problem, algorithm, RING, checkpoints=Checkpoints(tmp_path / "seldom"), **arguments)
    assert names(tmp_path / "seldom") == [whole.row.iteration]
    again = solve(problem, algorithm, RING, resume=tmp_path / "seldom", **arguments)
    assert (again.message, seldom.message) == (whole.message, whole.message)
    assert again.history["objective"].tobytes() == whole.history["objective"].tobytes()


def other_data() -> Any:
    data = samples(UNEVEN[:5], 12, 0)
    data[3][0, 0] += 1e-5
    return PCA(data, 3, weights="agents")


DIFFERENT: list[tuple[Callable[[Path], Any], str]] = [
    (
        lambda folder: run(algorithm=drfgt(penalty=3.0), resume=folder),
        "algorithm: penalty is 'auto' there and 3.0 here",
    ),
    (
        lambda folder: run(algorithm=drfgt(safe=True), resume=folder),
        "algorithm: safe is False there and True here",
    ),
    (lambda folder: run(W=GRAPHS["path"](N), resume=folder), "W: directed edges is 10 there and 8 here"),
    (
        lambda folder: run(W=0.5 * (RING + np.eye(N)), resume=folder),
        "W: least and largest self weight is [0.6, 0.6] there and [0.8, 0.8] here",
    ),
    (lambda folder: run(resume=folder, seed=8), "seed: seed is 0 there and 8 here"),
    (lambda folder: run(resume=folder, x0=np.eye(12, 3)), "the starting points differ by up to"),
    (
        lambda folder: solve(pca(r=2).problem, drfgt(), RING, resume=folder),
        "problem: shape is [12, 3] there and [12, 2] here",
    ),
    (
        lambda folder: solve(procrustes().problem, drfgt(), RING, resume=folder),
        "problem: type is PCA there and Procrustes here",
    ),
    (
        lambda folder: solve(other_data(), drfgt(), RING, resume=folder),
        "the data of agent 3 differ: its objective at the start is",
    ),
]


@pytest.mark.parametrize(("go", "difference"), DIFFERENT)
def test_another_run_is_refused_with_the_difference(go: Callable[[Path], Any], difference: str, tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        go(tmp_path)
    assert f"{tmp_path / '000000060'} is of another run: {difference}" in str(caught.value)


def test_fewer_iterations_than_were_made(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(ValueError, match="is at iteration 60, beyond the 59 iterations that are asked for"):
        run(iterations=59, resume=tmp_path)


def test_other_metrics_are_refused(tmp_path: Path) -> None:
    class Twice:
        columns = ("twice",)

        def __call__(self, problem: Any, state: Any, collective: Collective) -> tuple[float, ...]:
            return (2.0 * state.k,)

    run(tmp_path, 20)
    with pytest.raises(ValueError, match=r"a resumed run keeps its metrics, objective, .*; it was given objective, .*, twice"):
        run(resume=tmp_path, metrics=[Twice()])


def test_numbers_that_are_not_finite_at_the_start_are_compared_as_they_are(tmp_path: Path) -> None:
    """A user's objective may be infinite, or no number, where it is not defined."""
    values = [np.inf, np.nan, 1.0, 0.0, -np.inf]
    problem = FunctionProblem(lambda agent, x: values[agent], lambda agent, x: -0.1 * np.ones_like(x), Stiefel(4, 2), N)
    arguments: Any = {"iterations": 9, "record_every": 3}
    algorithm = DRFGT(step_size=0.1, penalty=1.0)
    first = solve(problem, algorithm, RING, checkpoints=Checkpoints(tmp_path), **arguments)
    assert bits(solve(problem, algorithm, RING, resume=tmp_path, **arguments)) == bits(first)
    values[2] = 2.0
    with pytest.raises(CheckpointError, match="data of agent 2 differ: its objective at the start is 1 there and 2 here"):
        solve(problem, algorithm, RING, resume=tmp_path, **arguments)


def test_another_rounding_is_accepted_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, 20)
    data = samples(UNEVEN[:5], 12, 0)
    near = PCA([a * (1.0 + 1e-13) for a in data], 3, weights="agents")
    with caplog.at_level(logging.WARNING):
        solve(near, drfgt(), RING, iterations=40, resume=tmp_path)
    assert "was written where arithmetic rounds differently" in caplog.text


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of iterations 20, 40 and 60, for copying."""
    folder = tmp_path_factory.mktemp("good")
    run(folder)
    return folder


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest, and give it the checksum that it then must have."""
    path = folder / files.MANIFEST
    whole = json.loads(path.read_text())
    change(whole["checkpoint"])
    canonical = json.dumps(whole["checkpoint"], sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**whole, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}))


def replace(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update({key: value})


HUGE = 10**15


def stored(kind: str, *shape: int, **changes: Any) -> dict[str, Any]:
    """The description of an array, with one checksum."""
    return {"kind": kind, "shape": [*shape], "rows": [[0, shape[0], "0" * 64]]} | changes


def array(name: str, *description: Any, **changes: Any) -> Callable[[dict[str, Any]], Any]:
    """Describe an array in another way."""
    return lambda body: body["arrays"].__setitem__(name, stored(*description, **changes))


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "huge agents": lambda body: [
        one.update(stored(one["kind"], HUGE, *one["shape"][1:])) for one in body["arrays"].values() if one["shape"][0] == 5
    ],
    "huge point": array("state.x", "<f8", 5, HUGE, HUGE),
    "huge history": array("history.counts", "<i8", HUGE, 5),
    "objects": array("state.x", "|O", 5, 12, 3),
    "other shape": array("state.x", "<f8", 5, 3, 12),
    "other agents": array("state.x", "<f8", 12, 5, 3),
    "field missing": lambda body: body["arrays"].pop("state.x"),
    "an array for an agent": array("state.x", "<f8", 1, 12, 3),
    "a path for a name": array("../../etc/passwd", "<f8", 5, 12, 3),
    "rows that overlap": array("state.x", "<f8", 5, 12, 3, rows=[[0, 5, ""], [0, 5, ""]]),
    "too few checksums": array("state.x", "<f8", 5, 12, 3, rows=[]),
    "a future history": replace("numbers", {"state.k": 3, "state.gradients": 61}),
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
def test_a_manifest_that_lies_with_the_right_checksum_is_refused(name: str, good: Path, tmp_path: Path) -> None:
    path = tmp_path / "000000060"
    shutil.copytree(good / "000000060", path)
    changed(path, HOSTILE[name])
    with little_memory(), pytest.raises(CheckpointError, match=str(path)):
        set_up(pca().problem, drfgt(), RING).resume(path)  # which makes no iteration


def test_what_is_in_flight_has_the_shape_that_the_channel_gave_it(tmp_path: Path) -> None:
    """The method's own start does not tell it; the network does, once it is read."""
    run(tmp_path, 20, channel="delay:rounds=1")

    def turn(body: dict[str, Any]) -> None:
        shape = body["arrays"]["network.messages"]["shape"]
        shape[1:] = [2, shape[1] // 2]
        path = tmp_path / "000000020" / "network.messages.npy"
        description = files.Stored(**body["arrays"]["network.messages"])._replace(shape=tuple(shape))
        path.write_bytes(description.header + path.read_bytes()[files.HEADER_BYTES :])

    changed(tmp_path / "000000020", turn)
    with pytest.raises(CheckpointError, match=r"cannot resume .*000000020: the messages in flight must be 5 x \d+ numbers, got"):
        run(resume=tmp_path, channel="delay:rounds=1")


def test_the_change_itself_is_not_what_is_refused(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "000000060", tmp_path / "000000060")
    changed(tmp_path / "000000060", lambda body: None)
    assert run(resume=tmp_path).state.k == 60


MANIFESTS = {
    "text": b"\xff\xfe\x00",
    "another format": b'{"format": "zip"}',
    "deep": b"[" * 100_000,
    "deep inside": b'{"format": "decentorth checkpoint", "version": 2, "checkpoint": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a number without end": b'{"format": "decentorth checkpoint", "version": ' + b"1" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_what_is_no_manifest(name: str, good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "000000060", tmp_path / "000000060")
    (tmp_path / "000000060" / files.MANIFEST).write_bytes(MANIFESTS[name])
    with little_memory(), pytest.raises(CheckpointError, match=r"000000060 cannot be read: manifest\.json is not usable"):
        run(resume=tmp_path)


def test_a_manifest_that_was_changed_without_its_checksum_is_refused(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "000000060", tmp_path / "000000060")
    path = tmp_path / "000000060" / files.MANIFEST
    whole = json.loads(path.read_text())
    whole["checkpoint"]["numbers"]["state.gradients"] += 1
    path.write_text(json.dumps(whole))
    with pytest.raises(CheckpointError, match=r"000000060 cannot be read: .*manifest\.json"):
        run(resume=tmp_path)


def test_another_version_of_the_format_is_named(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "000000060", tmp_path / "000000060")
    path = tmp_path / "000000060" / files.MANIFEST
    path.write_text(path.read_text().replace('"version": 2', '"version": 1'))
    message = "its format is 1, and this decentorth reads format 2: resume with the version of decentorth that wrote it"
    with pytest.raises(CheckpointError, match=message):
        run(resume=tmp_path)


def test_a_manifest_of_gigabytes_is_not_read(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "000000060", tmp_path / "000000060")
    os.truncate(tmp_path / "000000060" / files.MANIFEST, 10 << 30)
    with little_memory(), pytest.raises(CheckpointError, match="must have at most 16777216 bytes, and has 10737418240"):
        run(resume=tmp_path)


@pytest.mark.parametrize("name", [files.MANIFEST, "start.npy", "state.x.npy"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["FIFO", "device"])
def test_what_is_no_regular_file_is_not_read(make: Callable[[Path], None], name: str, good: Path, tmp_path: Path) -> None:
    """A FIFO would be waited for; a device has no end."""
    shutil.copytree(good / "000000060", tmp_path / "000000060")
    (tmp_path / "000000060" / name).unlink()
    make(tmp_path / "000000060" / name)
    with little_memory(), pytest.raises(CheckpointError, match=rf"000000060 cannot be read: {name} is not a regular file"):
        run(resume=tmp_path)
    with little_memory(), pytest.raises(ValueError, match=rf"000000060 cannot be read: {name} is not a regular file"):
        newest_notes(tmp_path)


def test_the_notes_are_those_of_files_of_the_right_sizes(good: Path, tmp_path: Path) -> None:
    """What decides about memory, the number of agents, is not believed before."""
    shutil.copytree(good, tmp_path, dirs_exist_ok=True)
    assert newest_notes(tmp_path) == ({}, N)
    changed(tmp_path / "000000060", HOSTILE["huge agents"])
    os.truncate(tmp_path / "000000040" / "state.x.npy", 17)
    assert newest_notes(tmp_path) == ({}, N)
    shutil.rmtree(tmp_path / "000000020")
    with pytest.raises(ValueError, match=r"000000040 cannot be read: state\.x\.npy is damaged: it has 17 bytes instead of"):
        newest_notes(tmp_path)


def files_of(checkpoint: Path) -> list[str]:
    return sorted(path.name for path in checkpoint.iterdir())


SPOILT: dict[str, Callable[[Path], Any]] = {
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b" "),
    "first bit": lambda path: spoil(path, 0),
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
    for number, name in enumerate(files_of(good / "000000060")):
        folder = tmp_path / str(number)
        shutil.copytree(good / "000000060", folder / "000000060")
        if name == files.MANIFEST and how in ("longer", "last bit", "cut short"):
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


@pytest.mark.parametrize("size", [0, 1000, 3000])
def test_a_full_disk_leaves_the_last_good_one(size: int, good: Path, tmp_path: Path) -> None:
    """Before the first byte, or in the middle."""
    root = tmp_path / "root"
    shutil.copytree(good, root)
    sizes = sorted(path.stat().st_size for path in (good / "000000060").iterdir())
    assert sizes[0] < 1000 < sizes[-3] < 3000 < sizes[-1]
    message = rf"cannot write the checkpoint of iteration 80: .*File too large.*; the last good one is {root}/000000060$"
    with small_files(size), pytest.raises(CheckpointError, match=message):
        run(root, 90, resume=root)
    assert names(root) == [20, 40, 60]
    assert not list(root.glob(".*"))
    assert everything(run(root, 90, resume=root).state) == everything(run(iterations=90).state)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write the checkpoint of iteration 20: Not a directory"):
        run(tmp_path / "file" / "folder")


def test_an_array_that_cannot_be_held(tmp_path: Path) -> None:
    collective = AgentCollective(SerialCommunicator(), np.array([0, 2]))
    with pytest.raises(CheckpointError, match="cannot hold z of type <c16"):
        files.write(tmp_path / "000000001", 1, {"z": files.Rows(np.zeros(2, dtype=complex), 0, 2)}, {}, collective)


def test_what_was_interrupted_in_writing_is_not_seen_and_goes(good: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(good, root)
    shutil.copytree(good / "000000060", root / ".000000080.part")
    assert files.found(root)[0].name == "000000060"
    run(root, 70, resume=root)
    assert names(root) == [40, 60, 70]
    assert not list(root.glob(".*"))


class Counting(SerialCommunicator):
    """A process that is alone and counts how often it is asked for a maximum."""

    def __init__(self) -> None:
        self.asked = 0

    def max(self, values: Array) -> Array:
        self.asked += 1
        return values


@pytest.mark.slow
def test_looks_are_seldom(tmp_path: Path) -> None:
    """In a quarter of a second, however short the iterations: at 1, 5, 21, 85, 341 and 1365, where spans have grown fourfold."""
    alone, watched = Counting(), Counting()
    run(iterations=1500, rows=2, comm=alone)
    result = run(iterations=1500, rows=2, comm=watched, checkpoints=Checkpoints(tmp_path))
    assert alone.asked < watched.asked <= alone.asked + 7 + result.seconds["total"] / 0.25
