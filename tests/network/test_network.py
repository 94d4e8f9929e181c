"""Global sums and decisions, and runs, in one process and over ranks that are threads: the same
bits, the same errors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from decentorth import DRFGT, solve
from decentorth.network import Network, SerialCommunicator, connect
from decentorth.network.collective import AgentCollective
from decentorth.network.halo import even_bounds
from decentorth.problems import PCA, Procrustes
from decentorth.protocols import Array
from decentorth.running.checkpoint.state_arrays import taken_apart
from decentorth.stopping import Consensus, GradientNorm
from tests.support.problems import GRAPHS, UNEVEN, pca, samples
from tests.support.threads import ThreadCommunicator, on_ranks

N = 10
RANKS = (2, 3, 7, 10)


def points(*shapes: tuple[int, ...], n: int = N, seed: int = 0) -> list[Array]:
    """Stacked points of very different sizes, so that the order of additions shows."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-6, 6, n)
    return [
        rng.standard_normal((n, *shape)) * scale.reshape(-1, *[1] * len(shape)) for shape in shapes
    ]


def split(ranks: int, work: Callable[[AgentCollective, slice], Any], n: int = N) -> list[Any]:
    bounds = even_bounds(n, ranks)

    def on_rank(communicator: ThreadCommunicator) -> Any:
        own = slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        return work(AgentCollective(communicator, bounds), own)

    return on_ranks(ranks, on_rank)


def whole(n: int = N) -> AgentCollective:
    return AgentCollective(SerialCommunicator(), np.array([0, n]))


@pytest.mark.parametrize("ranks", RANKS)
def test_sums_are_added_in_agent_order_on_any_number_of_ranks(ranks: int) -> None:
    xs = points((4, 3), (), (7,))
    expected = []
    for x in xs:
        total = np.zeros(x.shape[1:])
        for agent in range(N):
            total = total + x[agent]
        expected.append(total)
    assert sum(xs[0][::-1], start=np.zeros((4, 3))).tobytes() != expected[0].tobytes(), (
        "an order that does not matter"
    )
    for found in (
        whole().sum(*xs),
        *split(ranks, lambda collective, own: collective.sum(*(x[own] for x in xs))),
    ):
        assert [f.tobytes() for f in found] == [e.tobytes() for e in expected]
        assert [f.shape for f in found] == [e.shape for e in expected]


@pytest.mark.parametrize("ranks", RANKS)
def test_fold_visits_the_agents_in_order(ranks: int) -> None:
    (x,) = points((3,))

    def folded(collective: AgentCollective, own: slice) -> Array:
        def add(total: Array) -> None:
            for agent in range(own.start, own.stop):
                total *= 0.5
                total += x[agent]

        return collective.fold(3, add)

    expected = folded(whole(), slice(0, N))
    assert all(found.tobytes() == expected.tobytes() for found in split(ranks, folded))


@pytest.mark.parametrize("ranks", [1, *RANKS])
def test_maxima_and_decisions(ranks: int) -> None:
    assert (
        split(ranks, lambda c, own: c.max(float(own.start)))
        == [float(even_bounds(N, ranks)[-2])] * ranks
    )
    assert split(ranks, lambda c, own: c.max(-float(own.start) - 1)) == [-1.0] * ranks
    assert split(ranks, lambda c, own: c.max(float("-inf"))) == [float("-inf")] * ranks
    with_nan = split(ranks, lambda c, own: c.max(float("nan") if c.rank == c.size - 1 else 1e300))
    assert np.isnan(with_nan).all()
    assert split(ranks, lambda c, own: c.decide(c.rank == 0)) == [True] * ranks
    assert split(ranks, lambda c, own: c.decide(c.rank > 0)) == [False] * ranks


def message(error: type[Exception], work: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        work()
    return str(caught.value)


def test_a_difference_is_told_on_every_rank() -> None:
    def differ(collective: AgentCollective, own: slice) -> str:
        collective.same("W", b"equal")
        digest = b"other" if collective.rank in (2, 5) else b""
        return message(ValueError, lambda: collective.same("the starting point", digest))

    expected = (
        "the starting point must be the same on every rank; it differs from rank 0's on rank 2, 5"
    )
    assert split(7, differ) == [expected] * 7
    many = split(
        10, lambda c, own: message(ValueError, lambda: c.same("W", b"0" if c.rank == 0 else b"1"))
    )
    assert {found.partition("on rank ")[2] for found in many} == {"1, 2, 3, 4, 5, 6, 7, 8 and more"}


def test_what_fails_on_one_rank_fails_on_all() -> None:
    """The rank itself raises its own exception; the others name the first rank that failed."""

    def fail(collective: AgentCollective, own: slice) -> str:
        def load() -> None:
            with collective.together():
                if collective.rank == 1:
                    raise KeyError(f"agent {own.start}")
                if collective.rank == 3:
                    raise RuntimeError

        said = message({1: KeyError, 3: RuntimeError}.get(collective.rank, ValueError), load)
        with collective.together():
            return said

    told = "on rank 1: KeyError: 'agent 2'"
    assert split(5, fail) == [told, "'agent 2'", told, "", told]
    silent = split(2, lambda c, own: message([RuntimeError, ValueError][c.rank], lambda: refuse(c)))
    assert silent == ["", "on rank 0: RuntimeError"]


def refuse(collective: AgentCollective) -> None:
    with collective.together():
        if collective.rank == 0:
            raise RuntimeError


@pytest.mark.parametrize("ranks", [1, *RANKS])
def test_gather_and_hash_in_agent_order(ranks: int) -> None:
    (x,) = points((4, 3))
    digest = hashlib.sha256(x.tobytes()).hexdigest()
    assert split(ranks, lambda c, own: c.sha256(x[own])) == [digest] * ranks
    gathered = split(ranks, lambda c, own: c.gather(x[own]))
    assert gathered[0].tobytes() == x.tobytes()
    assert gathered[1:] == [None] * (ranks - 1)


def loaded(agent: int) -> Array:
    return samples(UNEVEN, 12, 0)[agent]


def wide_procrustes() -> Procrustes:
    """Some agents keep rows, others Gram matrices."""
    rows, rng = (150, 3, 40, 200, 3, 40, 3, 90, 1, 60), np.random.default_rng(1)
    return Procrustes(samples(rows, 90, 0), [rng.standard_normal((15, m)) for m in rows])


PROBLEMS: dict[str, tuple[int, Callable[[], Any]]] = {
    "pca, each rank loading its own": (3, lambda: PCA.from_loader(loaded, N, 3)),
    "procrustes, wide": (7, wide_procrustes),
    "scalar points": (10, lambda: PCA([np.full((3, 1), 2.0 + i) for i in range(N)], 1)),
}


@pytest.mark.slow_cases("procrustes, wide")
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_over_ranks_has_the_bits_of_one_process(name: str) -> None:
    """Iterates, state, history and reason to stop; stopping at a row that only the metrics
    decide."""
    rule = GradientNorm(0.6, relative=True) & Consensus(0.3)
    ranks, problem = PROBLEMS[name]
    given: dict[str, Any] = {"iterations": 60, "record_every": 3, "stopping": rule, "seed": 4}

    def run(comm: Any) -> Any:
        return solve(
            problem(),
            DRFGT(order="combine-then-adapt"),
            GRAPHS["erdos-renyi"](N),
            comm=comm,
            **given,
        )

    one = run("serial")
    assert one.converged
    whole, numbers = taken_apart(one.state, "state")
    results = on_ranks(
        ranks,
        lambda communicator: (one := run(communicator), one.collective.sha256(one.x), one.gather()),
    )
    for result, digest, _ in results:
        assert digest == one.iterates_sha256
        assert (result.status, result.converged, result.message) == (
            one.status,
            one.converged,
            one.message,
        )
        assert set(result.history) == set(one.history)
        for column in set(one.history) - {"seconds"}:
            assert result.history[column].tobytes() == one.history[column].tobytes(), column
        mine, counted = taken_apart(result.state, "state")
        assert counted == numbers
        for field, value in whole.items():
            assert mine[field].tobytes() == value[result.network.agents].tobytes(), field
    assert results[0][2].tobytes() == one.x.tobytes()


def test_ranks_that_were_called_with_different_arguments_say_so() -> None:
    W, problem = GRAPHS["ring"](N), pca(rows=UNEVEN).problem

    def differing(**arguments: Callable[[int], Any]) -> list[str]:
        def work(communicator: ThreadCommunicator) -> str:
            given = {name: argument(communicator.rank) for name, argument in arguments.items()}
            full = {"algorithm": DRFGT(), "W": W, **given}
            return message(
                ValueError, lambda: solve(problem, comm=communicator, iterations=1, **full)
            )

        return on_ranks(3, work)

    def told(what: str, **arguments: Callable[[int], Any]) -> bool:
        """Whether every rank says the same, and what."""
        (said,) = {*differing(**arguments)}
        return what in said and said.endswith(
            "must be the same on every rank; it differs from rank 0's on rank 2"
        )

    assert told("seed", seed=lambda rank: rank // 2)
    assert told("algorithm", algorithm=lambda rank: DRFGT(penalty=1.0 + rank // 2))
    assert told("W", W=lambda rank: GRAPHS["star" if rank == 2 else "ring"](N))
    assert told("starting point", x0=lambda rank: np.eye(12, 3) * (1 - 1e-15 * (rank == 2)))


def test_a_process_alone_has_nobody_to_talk_to() -> None:
    alone = connect("serial")
    assert (alone.rank, alone.size) == (0, 1)
    for call in (
        lambda: alone.exchange([], []),
        lambda: alone.send(np.ones(1), 1),
        lambda: alone.receive(np.ones(1), 1),
    ):
        with pytest.raises(ValueError, match="a single process"):
            call()
    with pytest.raises(
        ValueError,
        match="comm must be None, 'serial', 'torch', 'world' or an mpi4py communicator, got 'mpi'",
    ):
        connect("mpi")


def test_wrong_placements_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="placement must be 'even' or 'fewer-cuts', got 'best'"):
        Network(GRAPHS["ring"](4), "serial", "best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="W is for 4 agents, but the problem has 5"):
        solve(pca().problem, DRFGT(), GRAPHS["ring"](4))
    with pytest.raises(ValueError, match="the problem has 5 agents, so W is needed"):
        solve(pca().problem, DRFGT())
    with pytest.raises(ValueError, match="7 ranks for 4 agents"):
        on_ranks(7, lambda communicator: Network(GRAPHS["ring"](4), communicator))
