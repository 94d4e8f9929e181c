"""Every transport does what `tests.support.conformance` asks of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.network import AlongEdges, SerialCommunicator, connect
from tests.support.conformance import CHECKS, failing
from tests.support.edges import along_edges, ring
from tests.support.mpi import run_ranks
from tests.support.threads import on_ranks

SUITE = ("-m", "tests.support.conformance")
TRANSPORTS = "tests/support/edges.py"


@pytest.mark.parametrize("size", [3, 4])
def test_threads(size: int) -> None:
    assert on_ranks(size, failing) == [[]] * size


@pytest.mark.parametrize("size", [3, 4])
def test_threads_along_edges(size: int) -> None:
    assert along_edges(size, ring(size), failing) == [[]] * size


@pytest.mark.ranks
@pytest.mark.parametrize("transport", ["mpi", "mpi_along_ring"])
def test_mpi(transport: str) -> None:
    job = run_ranks(4, [*SUITE, f"{TRANSPORTS}:{transport}"])
    assert job.returncode == 0, job.report()
    lines = f"{len(CHECKS)} checks on 4 ranks\n"
    assert job.stdout == lines * (4 if "along" in transport else 1)


@pytest.mark.ranks
@pytest.mark.parametrize("how", ["kill", "stop", "leave"])
def test_mpi_ends_when_a_rank_is_lost(how: str) -> None:
    """In finite time, and not well."""
    job = run_ranks(3, [*SUITE, f"{TRANSPORTS}:mpi", "--lose", how])
    assert job.returncode != 0
    assert "has not noticed" not in job.stderr


def test_a_failing_check_is_named() -> None:
    """Of a transport that rounds what it sends, that of the bits of messages."""

    class Rounding(AlongEdges):
        def give(self, target: int, kind: bytes, data: bytes) -> None:
            if kind == b"e":
                data = np.frombuffer(data).astype(np.float32).astype(np.float64).tobytes()
            super().give(target, kind, data)

    def rounded(communicator: AlongEdges) -> list[str]:
        communicator.__class__ = Rounding
        return failing(communicator)

    found = along_edges(3, ring(3), rounded)
    for rank, lines in enumerate(found):
        assert [line.startswith(f"rank {rank}: Each of 100 rounds") for line in lines] == [True]


GRAPHS: dict[str, Callable[[int], Any]] = {
    "path": tp.path,
    "ring": tp.ring,
    "star": tp.star,
    "complete": tp.complete,
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("method", ["drfgt", "gradient_tracking", "deepca", "lbfgs", "direct"])
def test_sites_send_to_neighbours_only_and_count_it(graph: str, method: str) -> None:
    """With the bits and the history of one process; what leaves a site is what it has counted."""
    made, n = GRAPHS[graph](4), 4
    edges = [(int(i), int(j)) for i, j in made.edges]
    W = tp.metropolis_weights(made)
    rng = np.random.default_rng(0)
    names = ("north", "south", "west", "east")
    samples = {name: rng.normal(size=(20, 5)) * np.arange(1.0, 6.0) for name in names}

    def run(communicator: Any) -> do.Result:
        problem = do.problems.PCA.from_sites(samples, 2, scale=True)
        given: dict[str, Any] = {"iterations": 20, "record_every": 10, "clear_sums": True}
        return do.solve(problem, method, W, comm=communicator, **given)

    whole = run("serial")
    own: list[tuple[do.Result, AlongEdges]] = along_edges(
        n, edges, lambda communicator: (run(communicator), communicator)
    )
    for rank, (result, communicator) in enumerate(own):
        assert np.asarray(result.x).tobytes() == np.asarray(whole.x)[rank : rank + 1].tobytes()
        assert {*result.history} == {*whole.history}
        for name in {*whole.history} - {"seconds"}:
            np.testing.assert_array_equal(result.history[name], whole.history[name])
        near = {target for target, _ in communicator.bytes}
        assert near <= {*made.neighbors(rank)}
        sums = dict.fromkeys(near, 0)
        for (target, use), size in communicator.bytes.items():
            if use == "iterations and sums":
                sums[target] += size
        listed = dict.fromkeys(near, 0)
        for row in result.sent():
            if row.site == names[rank]:
                listed[names.index(row.to)] = listed.get(names.index(row.to), 0) + row.bytes
        assert listed == sums


def test_sites_keep_words_points_and_hosts() -> None:
    """The words of an error reach nobody else; each site has its own point."""
    W = tp.metropolis_weights(tp.path(3))
    samples = {name: np.eye(4) * (k + 1.0) for k, name in enumerate(("a", "b", "c"))}

    def run(communicator: Any) -> str:
        mine = dict(samples)
        if communicator.rank == 2:
            mine["c"] = np.full((4, 4), np.nan)
        problem = do.problems.PCA.from_sites(mine, 1)
        with pytest.raises(ValueError, match=r"nan|screen") as caught:
            do.solve(problem, "drfgt", W, iterations=2, comm=communicator, clear_sums=True)
        return str(caught.value)

    *others, own = along_edges(3, [(0, 1), (1, 2)], run)
    assert "nan" in own
    assert others == ["site c cannot continue: the reason is on its own screen"] * 2


@pytest.mark.parametrize(
    ("W", "words"),
    [
        (tp.metropolis_weights(tp.ring(4)), "each is one agent"),
        (tp.directed_weights(tp.directed_ring(3)), "undirected and does not change"),
        ("link_failures:p=0.1@path", "undirected and does not change"),
    ],
)
def test_what_sites_refuse(W: Any, words: str) -> None:
    n = getattr(W, "shape", (3,))[0]
    method = "push_pull" if isinstance(W, tp.DirectedWeights) else "drfgt:step_size=0.01,penalty=1"

    def run(communicator: Any) -> str:
        problem = do.problems.PCA([np.eye(4)] * n, 1)
        try:
            do.solve(problem, method, W, iterations=2, comm=communicator, clear_sums=True)
        except ValueError as error:
            return str(error)
        return ""

    for found in along_edges(3, [(0, 1), (1, 2)], run):
        assert words in found


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("drfgt", "secure sums are for methods by exact sums, and DRFGT sends points to neighb"),
        ("direct", ""),
        ("auto", ""),
    ],
)
def test_ranks_that_are_sites_add_by_masked_sums_unless_they_need_not(
    method: str, words: str
) -> None:
    samples = {name: np.random.default_rng(k).normal(size=(20, 5)) for k, name in enumerate("abc")}

    def run(communicator: Any, **more: Any) -> set[str]:
        problem = do.problems.PCA.from_sites(samples, 2)
        result = do.solve(problem, method, "path", iterations=2, comm=communicator, **more)
        return {row.quantity for row in result.sent()}

    def masked(communicator: Any) -> str:
        try:
            found = run(communicator)
        except ValueError as error:
            return str(error)
        assert {one for one in found if one[:7] != "masked "} == {"public keys"}
        return ""

    def clear(communicator: Any) -> set[str]:
        return run(communicator, clear_sums=True)

    path = [(0, 1), (1, 2)]
    for found in along_edges(3, path, masked):
        assert found.startswith(words)
        assert "\n" not in found
        assert bool(found) == bool(words)
    for sent in along_edges(3, path, clear):
        assert not any(one.startswith("masked") for one in sent)
    with pytest.raises(ValueError, match="secure and clear_sums contradict each other"):
        do.solve(do.problems.PCA.from_sites(samples, 2), secure=True, clear_sums=True)


def test_no_exchange_with_a_rank_that_is_no_neighbour() -> None:
    def run(communicator: AlongEdges) -> None:
        far = [(2, np.zeros(1))]
        if communicator.rank != 0:
            return
        for call in (
            lambda: communicator.exchange(far, []),
            lambda: communicator.exchange([], far),
            lambda: communicator.send(far[0][1], 2),
            lambda: communicator.receive(far[0][1], 2),
        ):
            with pytest.raises(ValueError, match="0 and 2 are no neighbours"):
                call()
        assert not communicator.bytes

    along_edges(3, [(0, 1), (1, 2)], run)


def test_a_transport_without_a_name_of_the_protocol_is_refused() -> None:
    class Half:
        rank, size = 0, 1
        exchange = allgather_bytes = None

    with pytest.raises(TypeError, match=r"it lacks bcast, .*: derive Half from decentorth"):
        connect(Half())
    assert connect(SerialCommunicator()).failures == ()
