"""Agents that leave for good: the others' problem, network, state and bits, in one process and on
ranks that die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies as tp
from decentorth import DGD, DPRGT, DRFGT, DRSGD, CheckpointError, Checkpoints, Result, solve
from decentorth.algorithms.common.schedules import Diminishing
from decentorth.api import set_up
from decentorth.api.losses import Loss, LostError
from decentorth.api.rank_loss import restarted
from decentorth.problems import GEVP, FunctionProblem, RSRSettings
from decentorth.protocols import Array, Declared, LocalProducts
from decentorth.running.checkpoint import Snapshot, kept
from decentorth.running.history import History
from decentorth.running.rank_loss_rewind import Rewind, RunState
from decentorth.sets import Stiefel
from tests.algorithms.test_contract import METHODS, Method
from tests.reference import naive
from tests.support.building import built, prepared
from tests.support.distributed import own_pencils
from tests.support.losses import replayed, sha256
from tests.support.mortal import MortalCommunicator, on_mortal_ranks
from tests.support.problems import CASES, GRAPHS, UNEVEN, pca, samples
from tests.support.threads import on_ranks


@pytest.fixture(autouse=True)
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A communicator of this kind survives by itself."""
    monkeypatch.setattr("decentorth.api.rank_loss.surviving", lambda comm: comm)


N = 10
LOST = np.array([3, 4, 8])
LEFT = np.setdiff1d(np.arange(N), LOST)
D, R = 12, 3


def points(n: int) -> Array:
    near = np.linalg.qr(np.eye(D, R) + 0.05 * np.random.default_rng(0).standard_normal((n, D, R)))[
        0
    ]
    return np.ascontiguousarray(near)


def own_functions() -> FunctionProblem[Stiefel]:
    """f_i(x) = i tr(x^T x) / 2, from functions of an agent's number."""
    return FunctionProblem(
        lambda i, x: 0.5 * i * float((x * x).sum()), lambda i, x: i * x, Stiefel(D, R), N
    )


def rows(n: int = N) -> Any:
    settings = RSRSettings(dimension=D, rank=R, inliers=60, outliers=40, partition="dirichlet")
    return prepared(built(settings.problem(n, 0)))


PROBLEMS: dict[str, Callable[[], Any]] = {
    "pca": lambda: pca(UNEVEN).problem,
    "procrustes": lambda: CASES["procrustes"](UNEVEN).problem,
    "functions": own_functions,
    "rows": rows,
    "operators": lambda: GEVP([a.T @ a / len(a) for a in samples(UNEVEN, D, 0)], np.eye(D), R),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("lost", [LOST, np.array([9]), np.array([], dtype=np.int64)])
def test_the_others_keep_their_objectives(name: str, lost: Array) -> None:
    problem, x = PROBLEMS[name](), points(N)
    left = np.setdiff1d(np.arange(N), lost)
    others = problem.without(lost)
    assert (others.n_agents, others.agents) == (len(left), slice(0, len(left)))
    assert others.value(x[left]).tobytes() == problem.value(x)[left].tobytes()
    assert others.gradient(x[left]).tobytes() == problem.gradient(x)[left].tobytes()
    if hasattr(problem, "lipschitz"):
        assert others.lipschitz.tobytes() == problem.lipschitz[left].tobytes()
    for local, part in others.blocks():
        assert part.gradient(x[left][local]).tobytes() == problem.gradient(x)[left][local].tobytes()
    if getattr(problem, "n_samples", None) is not None:
        batch = np.random.default_rng(1).integers(0, problem.n_samples[:, None], (N, 4))
        assert (
            others.gradient_on(x[left], batch[left]).tobytes()
            == problem.gradient_on(x, batch)[left].tobytes()
        )


def test_the_others_of_a_rank_are_numbered_anew() -> None:
    problem, x = own_functions(), points(3)
    others = problem.restrict(slice(4, 9)).without(LOST)
    assert (others.n_agents, others.agents) == (7, slice(3, 6))
    assert (
        others.gradient(x).tobytes()
        == problem.without(LOST).restrict(slice(3, 6)).gradient(x).tobytes()
    )
    with pytest.raises(ValueError, match="agents 3 to 4 have all left"):
        problem.restrict(slice(3, 5)).without(LOST)


LEAVABLE = [
    method
    for method in METHODS
    if method.name != "drfgt-numba"  # with the bits of drfgt
    and method.algorithm().network == "decentralized"
    and not isinstance(method.problem(), LocalProducts)
    and not isinstance(method.W(3), tp.DirectedWeights)
]


@pytest.mark.parametrize("method", LEAVABLE, ids=lambda method: method.name)
def test_every_method_goes_on_from_unlike_points(method: Method) -> None:
    problem = method.problem()
    n = problem.n_agents
    safe = Declared.of(method.algorithm()).safe
    for iterations in (8, 9, 20):
        state = replayed(
            set_up(problem, method.algorithm(), method.W(n)), [Loss(8, (1,), (n - 1,))], iterations
        )
        assert (len(state.x), state.k) == (n - 1, iterations)
        assert np.isfinite(state.x).all()
        if method.tracks and not (safe and iterations == 9):  # agents have other labels there
            gap = np.linalg.norm(naive.mean(state.tracker) - naive.mean(state.field))
            assert gap < 1e-13 * np.linalg.norm(state.field)


@pytest.mark.slow_cases("algorithm1")
@pytest.mark.parametrize("algorithm", [DRFGT(), DPRGT()])
def test_the_others_find_their_own_answer(algorithm: Any) -> None:
    problem = pca(UNEVEN).problem
    state = replayed(
        set_up(problem, algorithm, GRAPHS["complete"](N)),
        [Loss(20, (1,), tuple(LOST.tolist()))],
        1500,
    )
    matrices = [a.T @ a / len(a) for a in samples(UNEVEN, D, 0)]
    answer, before = (
        np.linalg.eigh(naive.mean([matrices[i] for i in some]))[1][:, -R:]
        for some in (LEFT, range(N))
    )
    xhat = naive.polar(naive.mean(state.x))
    np.testing.assert_allclose(xhat @ xhat.T, answer @ answer.T, atol=1e-7)
    assert np.linalg.norm(before @ before.T - answer @ answer.T) > 1e-2


def test_steps_that_fall_go_on_falling_and_numbers_go_on() -> None:
    steps = Diminishing(initial=0.1)
    run = set_up(
        pca(UNEVEN).problem, DRSGD(step_size=steps, batch_size=1), GRAPHS["complete"](N), seed=3
    )
    left = run.without(LOST)
    x = points(len(LEFT))
    state: Any = restarted(left, x, 99, 250)
    np.testing.assert_allclose(state.step_size, 0.1 / 10.0, rtol=1e-15)
    assert (state.k, state.gradients) == (99, 250)
    moved = left.algorithm.step(left.problem, left.network, left.streams, state)
    np.testing.assert_allclose(moved.step_size, 0.1 * steps.scale(100), rtol=1e-15)


@settings(max_examples=40)
@given(ranks=st.integers(2, 9), start=st.integers(0, 40), data=st.data())
def test_whenever_ranks_stop_they_have_a_copy_in_common(
    ranks: int, start: int, data: st.DataObject
) -> None:
    """No two ranks are further apart than there are ranks, whatever lies between."""
    fastest = start + data.draw(st.integers(0, 60))
    made = [max(start, fastest - data.draw(st.integers(0, ranks - 1))) for _ in range(ranks)]

    class State:
        gradients = 0

        def __init__(self, k: int) -> None:
            self.k, self.x = k, np.full((1, 1), float(k))

    rewinds = []
    for last in made:
        rewind = Rewind(
            ranks, RunState(start, np.full((1, 1), float(start)), (0, 0, 0), 0), History()
        )
        for k in range(start, last + 1):
            if k >= rewind.next:
                rewind.look(Snapshot(cast(Any, State(k)), (k, k, k), {}, {}))
        rewinds.append(rewind)
    back = min(rewind.latest for rewind in rewinds)
    assert max(made) - back < 2 * ranks or back == start
    for rewind in rewinds:
        assert rewind.at(back).k == back == rewind.at(back).x[0, 0]


SETTINGS: Any = {"iterations": 120, "record_every": 15, "seed": 2}


def outlived(
    letters: dict[int, int], algorithm: Any, W: Any, ranks: int = 4, **further: Any
) -> dict[int, Result]:
    problem = pca(UNEVEN).problem

    def work(communicator: MortalCommunicator) -> Result:
        return solve(
            problem, algorithm, W, comm=communicator, on_rank_loss="shrink", **SETTINGS, **further
        )

    return on_mortal_ranks(ranks, letters, work)


def gathered(results: dict[int, Result]) -> Array:
    return np.concatenate([results[rank].x for rank in sorted(results)])


@pytest.mark.slow_cases("dying1-1", "dying2-2", "dying3-3")
@pytest.mark.parametrize(("dying", "seed"), [((0,), 0), ((1,), 1), ((1, 2), 2), ((0, 3), 3)])
def test_ranks_that_are_left_have_the_bits_of_one_process(
    dying: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    W = tp.metropolis_weights(tp.complete(N))
    algorithm: Any = [DRFGT(), DGD(step_size=0.05, batch_size=2)][seed % 2]
    letters = {rank: int(rng.integers(60, 420)) for rank in dying}
    results = outlived(letters, algorithm, W)
    assert sorted(results) == [rank for rank in range(4) if rank not in dying]
    one = results[min(results)]
    assert {result.losses for result in results.values()} == {one.losses}
    assert sorted(rank for loss in one.losses for rank in loss.ranks) == list(dying)
    borders = [0, 3, 6, 8, 10]
    agents = [agent for rank in dying for agent in range(borders[rank], borders[rank + 1])]
    assert sorted(agent for loss in one.losses for agent in loss.agents) == sorted(agents)
    state = replayed(
        set_up(pca(UNEVEN).problem, algorithm, W, seed=2, comm="serial"), one.losses, 120
    )
    assert sha256(gathered(results)) == sha256(state.x)
    assert one.network.n_agents == N - len(agents)
    assert one.history["iteration"].tolist() == [*range(0, 121, 15)]
    np.testing.assert_array_equal(np.diff(one.history["rounds"]) > 0, True)


@pytest.mark.slow
def test_nothing_lost_changes_nothing() -> None:
    W = tp.metropolis_weights(tp.ring(N))
    results = outlived({}, DRFGT(), W)
    alone = solve(pca(UNEVEN).problem, DRFGT(), W, on_rank_loss="shrink", **SETTINGS)
    assert sha256(gathered(results)) == sha256(alone.x)
    assert results[0].losses == alone.losses == ()


def test_others_that_fall_apart_say_so(tmp_path: Path) -> None:
    words = (
        r"lost ranks 1, with agents 3 to 5, after iteration \d+, and the others cannot continue: "
        r".* 0 to 2; 6 to 9; the last "
    )
    with pytest.raises(LostError, match=f"{words}checkpoint is .*000000040"):
        outlived(
            {1: 400},
            DRFGT(),
            tp.metropolis_weights(tp.path(N)),
            checkpoints=Checkpoints(tmp_path, every=40),
        )
    assert kept(tmp_path)


TWO: Any = {"problem": pca((4, 5)).problem, "W": np.full((2, 2), 0.5)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            TWO | {"on_rank_loss": "survive"},
            "on_rank_loss must be one of abort, shrink or restart, got 'survive'",
        ),
        (
            TWO | {"channel": "loss:p=0.1"},
            "on_rank_loss shrink is not for a channel that is simulated",
        ),
        (
            TWO | {"W": tp.PeriodicSequence([np.eye(2), np.full((2, 2), 0.5)])},
            "agents cannot leave a time-varying network",
        ),
        (
            {"problem": own_pencils(), "W": GRAPHS["ring"](5)},
            "its constraint set is the mean of what all agents know",
        ),
    ],
)
def test_what_cannot_go_together_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        solve(algorithm=DRFGT(step_size=0.1), **{"on_rank_loss": "shrink", **arguments})


@pytest.mark.slow
def test_what_is_left_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """On any number of ranks that each have somebody left, with the bits of a run without a stop;
    and can lose more."""
    W = tp.metropolis_weights(tp.complete(N))
    stopped = outlived({1: 200}, DRFGT(), W, checkpoints=Checkpoints(tmp_path, every=40))[0]
    (loss,) = stopped.losses

    def work(communicator: Any) -> Result:
        return solve(
            pca(UNEVEN).problem,
            DRFGT(),
            W,
            comm=communicator,
            resume=tmp_path,
            **{**SETTINGS, "iterations": 200},
        )

    state = replayed(set_up(pca(UNEVEN).problem, DRFGT(), W, seed=2, comm="serial"), [loss], 200)
    for ranks in (1, 2):
        results = on_ranks(ranks, work)
        assert sha256(np.concatenate([result.x for result in results])) == sha256(state.x)
        assert results[0].losses == (loss,)
        assert (
            results[0].history["objective"][:9].tobytes() == stopped.history["objective"].tobytes()
        )
    with pytest.raises(
        CheckpointError,
        match=r"of 7 agents that are left, the ranks 0, 1, 2, 3 have \[3, 0, 2, 2\]",
    ):
        on_ranks(4, work)
