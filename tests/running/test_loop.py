"""The loop: what it records and when, how it ends, and that measuring changes nothing."""

from __future__ import annotations

import dataclasses
import re
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import topologies as tp
from decentorth import CDADT, DGD, DPRGT, DRFGT, DRGTA, Checkpoints, Landing, Result, iterate, solve
from decentorth.commands.run.command import main
from decentorth.problems import CCASettings, Deferred, FunctionProblem, ProcrustesSettings
from decentorth.protocols import Array, Collective, Row, Stop, StoppingRule
from decentorth.running.history import schedule
from decentorth.sets import Euclidean, Stiefel
from decentorth.stopping import Consensus, Feasibility, GradientNorm, ObjectiveBelow, Time
from tests.support.mpi import HUNG
from tests.support.problems import GRAPHS, pca, point, procrustes
from tests.support.threads import on_ranks

N = 5
RING = GRAPHS["ring"](N)


@pytest.mark.slow
@settings(max_examples=60)
@given(iterations=st.integers(0, 100_000), rows=st.integers(2, 400))
def test_the_schedule_is_log_spaced_from_first_to_last(iterations: int, rows: int) -> None:
    """About as many rows as asked for, never more; where integers allow it, their ratios are
    equal."""
    due = list(schedule(iterations, rows, None))
    assert (due[0], due[-1]) == (0, iterations)
    assert all(a < b for a, b in pairwise(due))
    assert min(iterations + 1, rows) - 0.1 * rows - 1 <= len(due) <= rows + 1
    if len(due) < iterations + 1:
        apart = np.array([k for k in due if k > 0])
        ratios, gaps = apart[1:] / apart[:-1], np.diff(apart)
        assert np.all(gaps[:-1] <= gaps[1:] + 1 + 0.01 * gaps[1:])
        coarse = ratios[gaps > 50]
        assert coarse.size == 0 or coarse.max() / coarse.min() < 1.05


@pytest.mark.parametrize(
    ("iterations", "every", "expected"),
    [
        (10, 3, [0, 3, 6, 9, 10]),
        (9, 3, [0, 3, 6, 9]),
        (2, 5, [0, 2]),
        (0, 4, [0]),
        (3, 1, [0, 1, 2, 3]),
    ],
)
def test_every_so_many(iterations: int, every: int, expected: list[int]) -> None:
    assert list(schedule(iterations, 200, every)) == expected


@pytest.mark.parametrize("iterations", [0, 1, 63, 64, 1000, 100_000])
def test_rows_apart_are_rows_of_the_schedule(iterations: int) -> None:
    """They grow no rarer than the given distance, or the schedule, asks."""
    every = list(schedule(iterations, None, None))
    due = list(schedule(iterations, None, None, apart=64))
    assert set(due) <= set(every)
    assert (due[0], due[-1]) == (0, iterations)
    for a, b in pairwise(due[:-1]):
        assert b == next(k for k in every if k >= a + 64)
    # rows that are asked for are all recorded
    assert list(schedule(iterations, None, 3, apart=64)) == list(schedule(iterations, None, 3))
    assert list(schedule(iterations, 30, None, apart=64)) == list(schedule(iterations, 30, None))


def test_a_run_records_what_is_due() -> None:
    result = solve(pca().problem, DRFGT(step_size=0.1), RING, iterations=300, rows=40)
    due = list(schedule(300, 40, None))
    assert result.history["iteration"].tolist() == due
    assert (result.status, result.converged, result.message) == (
        "iterations",
        False,
        "stopped at the limit of 300 iterations",
    )
    assert (result.state.k, result.row) == (300, result.history.rows[-1])
    np.testing.assert_array_equal(result.history["rounds"], due)
    np.testing.assert_array_equal(result.history["messages"], 2 * N * np.array(due))
    np.testing.assert_array_equal(result.history["bytes"], 2 * N * 2 * 8 * 36 * np.array(due))
    np.testing.assert_array_equal(result.history["gradients"], 1 + np.array(due))
    assert np.all(np.diff(result.history["seconds"]) >= 0)


def test_measuring_changes_nothing() -> None:
    case = procrustes()
    x0 = point(case.problem)
    arguments: Any = {"x0": x0, "iterations": 50}
    never = solve(case.problem, DRFGT(step_size=5e-3), RING, x0=x0, iterations=0)
    assert (never.history["iteration"].tolist(), never.x.tobytes()) == (
        [0],
        np.repeat(x0[None], N, axis=0).tobytes(),
    )
    often = solve(case.problem, DRFGT(step_size=5e-3), RING, record_every=1, **arguments)
    seldom = solve(case.problem, DRFGT(step_size=5e-3), RING, rows=2, **arguments)
    state = next(islice(iterate(case.problem, DRFGT(step_size=5e-3), RING, x0=x0), 50, None))
    assert often.x.tobytes() == seldom.x.tobytes() == state.x.tobytes()
    assert often.history["objective"][-1] == seldom.history["objective"][-1]


def test_recorders_see_every_row_and_further_metrics_join() -> None:
    class Recorded(list[Row]):
        record = list.append

    class FirstEntry:
        columns = ("first_entry", "twice")

        def __call__(self, problem: Any, state: Any, collective: Collective) -> tuple[float, ...]:
            (total,) = collective.sum(state.x[:, 0, 0])
            return float(total) / problem.n_agents, 2.0 * state.k

    recorder = Recorded()
    result = solve(
        pca().problem, DRFGT(), RING, iterations=20, recorders=[recorder], metrics=[FirstEntry()]
    )
    assert tuple(recorder) == result.history.rows
    assert result.history["first_entry"][-1] == pytest.approx(result.x[:, 0, 0].mean(), rel=1e-14)
    np.testing.assert_array_equal(result.history["twice"], 2.0 * result.history["iteration"])


def test_a_run_stops_at_the_first_row_that_is_good_enough() -> None:
    rule = GradientNorm(1e-3) & Consensus(1e-2) & Feasibility(1e-3)
    result = solve(pca().problem, DRFGT(), RING, iterations=5000, record_every=4, stopping=rule)
    h = result.history
    good = (h["gradient_norm"] <= 1e-3) & (h["consensus_rms"] <= 1e-2) & (h["feasibility"] <= 1e-3)
    assert good.tolist() == [False] * (len(good) - 1) + [True]
    assert (result.status, result.converged) == ("converged", True)
    gradient, consensus, feasibility = (
        h[name][-1] for name in ("gradient_norm", "consensus_rms", "feasibility")
    )
    assert result.message == (
        f"gradient norm {gradient:.2e} <= 0.001, consensus rms {consensus:.2e} <= 0.01, "
        f"feasibility {feasibility:.2e} <= 0.001, not yet after {result.state.k - 4} iterations"
    )
    assert result.state.k == h["iteration"][-1] < 5000


@dataclasses.dataclass(frozen=True)
class WithoutComma(DRFGT):
    def step(self, problem: Any, network: Any, streams: Any, state: Any) -> Any:
        x = network.mix(state.x)
        return state._replace(x=x - 0.1 * state.x, k=state.k + 1)


def test_a_step_that_takes_the_tuple_of_mix_for_x_is_refused_at_once() -> None:
    words = r"step returned x of shape \(1, .* returns a tuple: \(x,\) = network.mix\(x\)"
    with pytest.raises(ValueError, match=words):
        solve(pca().problem, WithoutComma(), RING, iterations=5)


def test_a_run_that_records_every_iteration_knows_the_first_that_is_good_enough() -> None:
    rule = GradientNorm(1e-3)
    seldom = solve(pca().problem, DRFGT(), RING, iterations=5000, stopping=rule)
    always = solve(pca().problem, DRFGT(), RING, iterations=5000, record_every=1, stopping=rule)
    before, last = seldom.history["iteration"][-2:]
    assert before < always.row.iteration <= last
    assert seldom.message.endswith(f"<= 0.001, not yet after {before} iterations")
    assert always.message.endswith("<= 0.001")


@dataclasses.dataclass(frozen=True)
class Sated(Landing):
    enough: int = 7

    def ending(self, problem: Any, state: Any) -> Stop | None:
        return Stop("converged", True, f"enough at {state.k}") if state.k >= self.enough else None


@pytest.mark.parametrize("record_every", [1, 5])
@pytest.mark.parametrize("enough", [0, 7])
def test_a_method_may_end_its_run_at_any_iteration(enough: int, record_every: int) -> None:
    """Between two rows that were due too, and then there is a row of the end; before any rule is
    asked."""
    one = pca().problem.pooled()
    result = solve(
        one,
        Sated(enough=enough),
        iterations=1000,
        record_every=record_every,
        stopping=Feasibility(1e-30) & Time(1e6),
    )
    assert (result.status, result.converged, result.message, result.state.k) == (
        "converged",
        True,
        f"enough at {enough}",
        enough,
    )
    assert result.history["iteration"][-1] == enough


def slow(after: int) -> FunctionProblem[Stiefel]:
    """Three agents, of which the first takes 0.05 s for each gradient after so many."""
    calls: list[int] = []

    def gradient(agent: int, x: Array) -> Array:
        if agent == 0:
            calls.append(agent)
            time.sleep(0.05 if len(calls) > after else 0.0)
        return -x

    return FunctionProblem(lambda agent, x: 0.0, gradient, Stiefel(4, 2), 3)


def ended_by_time(
    after: int, stopping: StoppingRule, comm: Any = "serial", **arguments: Any
) -> Result:
    method, W = DGD(step_size=0.01), GRAPHS["ring"](3)
    return solve(
        slow(after),
        method,
        W,
        iterations=2000,
        record_every=1000,
        stopping=stopping,
        comm=comm,
        **arguments,
    )


@pytest.mark.parametrize("after", [0, 40])
def test_a_limit_of_time_is_held_to_an_iteration(after: int, tmp_path: Path) -> None:
    """Also where iterations become slow on the way, and checkpoints are due in between; a slower
    machine makes fewer iterations."""
    for checkpoints in (None, Checkpoints(tmp_path, every=8)):
        result = ended_by_time(after, Time(0.3), checkpoints=checkpoints)
        assert (result.status, result.message) == (
            "time_limit",
            "stopped at the time limit of 0.3 s",
        )
        assert result.history["iteration"].tolist() == [0, result.state.k]
        assert result.state.k <= after + 6
        assert result.row.seconds >= 0.3


def test_a_limit_of_time_is_that_of_the_job_that_resumes(tmp_path: Path) -> None:
    first = ended_by_time(0, Time(0.3), checkpoints=Checkpoints(tmp_path, every=1000))
    for rule in (Time(0.3), ObjectiveBelow(-1.0) | Time(0.3) & Time(0.1)):
        again = ended_by_time(0, rule, resume=tmp_path)
        assert (again.status, again.state.k > first.state.k) == ("time_limit", True)
        assert again.message.startswith("stopped at the time limit of 0.3 s")
        assert again.row.seconds >= first.row.seconds + 0.3


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_limit_of_time_that_does_not_end_the_run_adds_one_row(ranks: int) -> None:
    unmet = ObjectiveBelow(-1.0)

    def ended(communicator: Any) -> tuple[str, list[int], str]:
        rule = Time(0.1) & unmet | Time(0.2) & unmet | Time(0.3)
        result = ended_by_time(0, rule, communicator)
        return (
            result.status,
            result.history["iteration"].tolist(),
            result.collective.sha256(result.x),
        )

    first, *others = on_ranks(ranks, ended)
    assert others == [first] * (ranks - 1)
    assert first[0] == "time_limit"
    assert len(first[1]) == len(set(first[1])) <= 4
    assert first[1][-1] <= 6


def exploding() -> FunctionProblem[Stiefel]:
    """Gradients of size one, but for those of agent 3, of 1e60."""

    def gradient(agent: int, x: Array) -> Array:
        return (1e60 if agent == 3 else 1.0) * np.arange(x.size, dtype=np.float64).reshape(x.shape)

    return FunctionProblem(lambda agent, x: 0.0, gradient, Stiefel(4, 2), N)


def test_divergence_names_agent_iteration_and_a_smaller_step_once() -> None:
    method = DRFGT(step_size=0.5, penalty=1.0, order="combine-then-adapt")
    with pytest.warns(RuntimeWarning, match=r"^diverged: the point of agent 3 [^\n]*$") as warned:
        result = solve(exploding(), method, RING, iterations=100, record_every=1)
    assert [warning.filename for warning in warned] == [__file__]
    assert (result.status, result.converged, result.state.k) == ("diverged", False, 1)
    words = (
        r"diverged: the point of agent 3 is not finite at iteration 1\b.* 0 *\)?.*0\.5 .*try "
        r"0\.1, or 'auto'"
    )
    assert re.search(words, result.message), result.message
    assert result.history["iteration"].tolist() == [0]


def test_a_run_of_the_command_line_that_diverges_warns_of_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            main([*"--problem procrustes --algorithm drfgt --step-size 10 --iterations 50".split()])
            == 3
        )
    assert "too large: try " in capsys.readouterr().out


def test_divergence_from_a_start_off_the_set_names_the_start() -> None:
    problem = FunctionProblem(
        lambda agent, x: float((x * x).sum()) / 2.0, lambda agent, x: x, Stiefel(4, 2), N
    )
    result = solve(
        problem, DRFGT(step_size=0.1, penalty=1.0), RING, x0=18.0 * np.eye(4, 2), iterations=100
    )
    assert result.status == "diverged"
    assert (
        "x0 is not on St(4, 2), with feasibility 457: give problem.constraint.project(x0[None])[0]"
        in result.message
    )


NEAR = np.array([[0.8], [0.6], [0.0], [0.0]])


def spoilt(name: str) -> FunctionProblem[Stiefel]:
    """f_i(x) = tr(x^T D x) / 2, D diagonal, whose gradient or objective agent 2 loses once the
    first entry of x is below 0.3."""
    slopes = np.arange(4.0, 0.0, -1.0)[:, None]

    def value(agent: int, x: Array) -> float:
        half = 0.5 * float((slopes * x * x).sum())
        return np.nan if agent == 2 and name == "value" and x[0, 0] < 0.3 else half

    def gradient(agent: int, x: Array) -> Array:
        return slopes * x * (np.inf if agent == 2 and name == "gradient" and x[0, 0] < 0.3 else 1.0)

    return FunctionProblem(value, gradient, Stiefel(4, 1), 3)


@pytest.mark.slow_cases("DPRGT-sleep:p=0.2", "DRFGT-delay:rounds=2")
@pytest.mark.parametrize(
    ("method", "channel"),
    [
        (DGD(step_size=0.04), None),
        (DPRGT(step_size=0.04), "sleep:p=0.2"),
        (DRFGT(step_size=0.04, penalty=1.0), "delay:rounds=2"),
    ],
    ids=lambda one: str(one) if one is None or isinstance(one, str) else type(one).__name__,
)
def test_a_gradient_that_is_not_finite_is_named_and_not_the_step(
    method: Any, channel: str | None
) -> None:
    """By its agent and the iteration, whatever was measured when, in one process and on ranks; the
    counts are those of the run."""
    W = GRAPHS["ring"](3)
    states = iterate(spoilt(""), method, W, x0=NEAR, channel=channel)
    points = [state.x.copy() for state in islice(states, 200)]
    first = next(k for k, x in enumerate(points) if x[2, 0, 0] < 0.3)
    assert 5 < first < 150
    words = (
        rf"the gradient of agent 2 is not finite at its point of iteration {first}, whose largest entry is "
        rf"{np.abs(points[first][2]).max():.3g}: correct that function"
    )

    def ended(comm: Any, every: int) -> tuple[str, int, int]:
        arguments: Any = {
            "iterations": 200,
            "record_every": every,
            "x0": NEAR,
            "comm": comm,
            "channel": channel,
        }
        result = solve(spoilt("gradient"), method, W, **arguments)
        assert result.status == "diverged"
        assert result.message.endswith(words), result.message
        return result.message, result.state.k, result.network.rounds

    for every in (1, 200):
        alone = ended("serial", every)
        again = solve(spoilt(""), method, W, iterations=alone[1], rows=2, x0=NEAR, channel=channel)
        assert alone[2] == again.network.rounds
    assert on_ranks(3, lambda comm: ended(comm, 200)) == [alone] * 3


def test_a_gradient_that_overflows_far_away_may_be_the_fault_of_the_step() -> None:
    problem = FunctionProblem(
        lambda i, x: 0.0, lambda i, x: -np.exp(np.minimum(x, 1e4)), Euclidean(4, 1), 3
    )
    result = solve(
        problem, DGD(step_size=5.0), GRAPHS["ring"](3), x0=np.ones((4, 1)), iterations=30
    )
    assert result.status == "diverged"
    assert re.search(
        r"largest entry is \S+: correct that function, or try a smaller step size$", result.message
    ), result.message


def test_an_objective_that_is_not_finite_is_named() -> None:
    result = solve(spoilt("value"), DGD(step_size=5.0), GRAPHS["ring"](3), x0=NEAR, iterations=300)
    assert result.status == "diverged"
    assert re.search(
        r"; the objective of agent 2 is not finite at its point of iteration \d+, .*correct .* "
        r"smaller step",
        result.message,
    )


def test_an_objective_that_a_method_does_not_need_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the run goes on, as an objective may be undefined; the same on ranks."""
    arguments: Any = {"x0": NEAR, "iterations": 200, "record_every": 1}
    method, W = DPRGT(step_size=0.04), GRAPHS["ring"](3)
    expected = solve(spoilt(""), method, W, **arguments).iterates_sha256
    assert not caplog.records
    result = solve(spoilt("value"), method, W, **arguments)
    assert result.iterates_sha256 == expected
    first = int(np.flatnonzero(np.isnan(result.history["objective"]))[0])
    assert 5 < first < 150
    words = (
        f"the objective of agent 2 is not finite at iteration {first} (the mean is nan); the run "
        "continues"
    )
    assert [record.message for record in caplog.records] == [words]
    caplog.clear()
    on_ranks(3, lambda comm: solve(spoilt("value"), method, W, comm=comm, **arguments).status)
    assert [record.message for record in caplog.records] == [words]


@pytest.mark.slow
def test_divergence_on_a_bad_channel_names_a_smaller_step_and_no_momentum() -> None:
    problem = CCASettings(data="synthetic").problem(10, 0)
    result = solve(problem, CDADT(), GRAPHS["path"](10), iterations=1000, channel="loss:p=0.5")
    assert result.status == "diverged"
    assert (
        f"try a smaller step size than auto, as {result.state.step_size.max() / 5.0:.2g}, or "
        "momentum 0" in result.message
    )


@pytest.mark.slow
def test_a_run_that_leaves_its_region_stops() -> None:
    case = procrustes()
    L = max(case.lipschitz)
    arguments: Any = {"iterations": 200, "record_every": 1}
    free = solve(case.problem, DRFGT(step_size=0.5 / L, penalty=0.05 * L), RING, **arguments)
    top = free.history["feasibility"].max()
    held = solve(
        case.problem,
        DRFGT(step_size=0.5 / L, penalty=0.05 * L),
        RING,
        safety_region=top / 2,
        **arguments,
    )
    outside = free.history["feasibility"] > top / 2
    first = int(np.argmax(outside))
    assert (held.status, held.converged, held.state.k) == (
        "left_safe_region",
        False,
        free.history["iteration"][first],
    )
    value = free.history["feasibility"][first]
    assert (
        f"feasibility {value:.3g} > {top / 2:g} at iteration {held.state.k}; take a smaller step "
        "size" in held.message
    )
    kept = solve(
        case.problem,
        DRFGT(step_size=0.5 / L, penalty=0.05 * L),
        RING,
        safety_region=top,
        **arguments,
    )
    assert kept.status == "iterations"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"iterations": -1}, "iterations must be at least 0, got -1"),
        ({"x0": np.eye(3)}, "x0 must have the shape of one agent's point, (12, 3), got (3, 3)"),
        ({"x0": np.full((12, 3), np.nan)}, "x0 must be finite"),
        # and no RuntimeWarning
        ({"x0": np.full((12, 3), np.longdouble("1e4000"))}, "x0 must be finite"),
        ({"rows": "9"}, "rows must be a whole number or None, got '9'"),
        ({"x0": 1j * np.eye(12, 3)}, "x0 must hold real numbers, got dtype complex128"),
        (
            {"stopping": True},
            "stopping must be a rule such as do.stopping.GradientNorm(1e-6), or a tolerance",
        ),
        ({"stopping": Time}, "or a tolerance of the gradient norm such as 1e-6, got <class"),
        (
            {"stopping": lambda row: 1.0},
            "must return True or False, decentorth.protocols.Stop(status, converged, message) or "
            "None",
        ),
        (
            {"checkpoints": "folder"},
            """checkpoints must be such as do.Checkpoints("folder", every=1000), got 'folder'""",
        ),
        (
            {"recorders": [print]},
            "recorders must be a list of objects with a function record(row), got [<built-in",
        ),
        ({"callback": "print"}, "callback must be a function of a row, such as print, got 'print'"),
    ],
)
def test_what_cannot_work_is_refused_by_name(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        solve(**{"problem": pca().problem, "algorithm": DRFGT(), "W": RING, **arguments})


@pytest.mark.parametrize("whole", [np.int64, np.uint8])
def test_numbers_of_numpy_make_the_bits_of_python_numbers(whole: Any, tmp_path: Path) -> None:
    def bits(whole: Any, real: Any, truth: Any, wide: Any = int, **more: Any) -> str:
        # 20 * 15 is more than a uint8 holds
        settings = ProcrustesSettings(dimension=whole(20), rank=whole(15))
        method = DRGTA(rounds=whole(2), step_size=real(2.0**-8), chebyshev=truth(True))
        counts = {"iterations": whole(6), "record_every": whole(2), "seed": whole(1), **more}
        problem, W = settings.problem(wide(5), wide(3)), tp.metropolis_weights(tp.ring(whole(5)))
        return solve(problem, method, W, stopping=real(1e-30), **counts).iterates_sha256

    expected = bits(int, float, bool)
    checkpoints = Checkpoints(tmp_path, every=whole(4))
    assert bits(whole, np.float64, np.bool_, np.int64, checkpoints=checkpoints) == expected
    assert bits(int, float, bool, resume=tmp_path / f"{4:09d}") == expected


def test_settings_hold_python_numbers() -> None:
    halves: list[Any] = [kind(0.5) for kind in (np.float16, np.float32, np.float64)]
    found = [
        DRFGT(batch_size=np.uint8(3)).batch_size,  # type: ignore[arg-type]
        *[DRFGT(penalty=half).penalty for half in halves],
    ]
    assert [(type(one), one) for one in found] == [(int, 3), *[(float, 0.5)] * 3]
    assert DRFGT(penalty=np.longdouble(0.5)).penalty == 0.5  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="step_size must be positive and finite, got inf"):
        DRFGT(step_size=np.float32(np.inf))  # type: ignore[arg-type]
    side: Any = np.uint8(200)
    assert repr(Stiefel(side, side).shape) == "(200, 200)"
    with pytest.raises(TypeError, match="rounds must be a whole number, got True"):
        DRGTA(rounds=np.bool_(True))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        solve(pca().problem, DRFGT(), RING, seed=np.int64(-1))  # type: ignore[arg-type]


def ended(comm: Any = "serial", **options: Any) -> tuple[str, str, int, int]:
    result = solve(
        pca().problem, DRFGT(), RING, comm=comm, **{"iterations": 60, "record_every": 1, **options}
    )
    return result.status, result.message, result.state.k, result.row.iteration


def ends(row: Row) -> bool:
    return bool(row.iteration == 7)


def stops(row: Row) -> None:
    if row.iteration == 7:
        raise StopIteration


@pytest.mark.parametrize("callback", [ends, stops, lambda row: np.bool_(row["iteration"] == 7)])
def test_a_callback_ends_the_run(callback: Any) -> None:
    for answer in (None, False, 12, "True"):
        assert ended(callback=lambda row, answer=answer: answer)[0] == "iterations"
    found = ("stopped", "the callback ended the run at iteration 7", 7, 7)
    assert ended(callback=callback, progress=True) == found
    assert (
        on_ranks(3, lambda comm: ended(comm, callback=callback if comm.rank == 0 else None))
        == [found] * 3
    )


@pytest.mark.parametrize(
    "rule", [ends, stops, lambda row, collective: ends(row), GradientNorm(1e-9) | ends]
)
def test_a_function_of_the_row_ends_the_run(rule: Any) -> None:
    status, message, *k = ended(stopping=rule)
    assert (status, k) == ("stopped", [7, 7])
    # a tolerance that is missed stands behind
    assert message.startswith("the stopping rule ended the run at iteration 7")


@pytest.mark.parametrize("answer", [True, Stop("enough", True, "so it is")])
def test_ranks_follow_the_answer_of_rank_0(answer: Any) -> None:
    """The clocks of ranks differ, so a rule that reads one answers at different iterations."""

    def work(comm: Any) -> tuple[str, str, int, int]:
        return ended(
            comm, stopping=lambda row: answer if row.iteration == 3 + 2 * comm.rank else None
        )

    first, *others = on_ranks(3, work)
    assert first[0] == ("stopped" if answer is True else "enough")
    assert first[2:] == (3, 3)
    assert others == [first] * 2


def test_a_row_has_its_columns_by_name_as_the_history() -> None:
    result = solve(pca().problem, DRFGT(), RING, iterations=3)
    assert {name: result.row[name] for name in result.history} == {
        name: result.history[name][-1] for name in result.history
    }
    assert result.row[0] == result.row.iteration
    assert result.row[:2] == (result.row.iteration, result.row.rounds)
    row: Any = result.row
    assert all(name in row for name in result.history)
    assert "gradient" not in row
    with pytest.raises(
        KeyError, match=r"no column 'gradient'; there are iteration, rounds, .*gradient_norm"
    ):
        result.row["gradient"]


def interrupt(row: Row) -> None:
    if row.iteration == 7:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupted_run_returns_its_result() -> None:
    result = solve(
        pca().problem, DRFGT(), RING, iterations=20_000, record_every=7, callback=interrupt
    )
    k = result.state.k
    assert (result.status, result.converged, result.message) == (
        "interrupted",
        False,
        f"interrupted after iteration {k}",
    )
    assert result.history["iteration"][-1] == k
    np.testing.assert_array_equal(result.x, solve(pca().problem, DRFGT(), RING, iterations=k).x)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interruption_is_a_keyboard_interrupt_and_a_users_own_handler_stays() -> None:
    def twice(row: Row) -> None:
        interrupt(row)
        interrupt(row)

    with pytest.raises(KeyboardInterrupt):
        ended(callback=twice)
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    assert before is signal.default_int_handler
    try:
        assert ended(callback=interrupt)[0] == "iterations"
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_one_blas_thread_wherever_bits_are_made() -> None:
    """Products of large matrices depend on the number of threads; the user's own number is back
    afterwards."""
    seen: dict[str, set[int]] = {}

    def look(moment: str, result: Any) -> Any:
        seen.setdefault(moment, set()).update(blas_threads())
        return result

    def build(agents: slice, collective: Collective) -> FunctionProblem[Stiefel]:
        look("build", None)
        return FunctionProblem(
            lambda i, x: look("value", 0.0), lambda i, x: look("gradient", x), Stiefel(4, 2), N
        ).restrict(agents)

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        solve(Deferred(N, build), DRFGT(), RING, iterations=2)
        assert blas_threads() == before
        # and are abandoned
        loops: list[Any] = [iterate(pca().problem, DRFGT(), RING) for _ in range(2)]
        for loop in loops:
            next(loop)
        assert blas_threads() == {1}
        for loop in loops:
            loop.close()
        assert blas_threads() == before
    assert 2 in before
    assert seen == {"build": {1}, "value": {1}, "gradient": {1}}


def test_overlapping_runs_in_threads_leave_the_blas_threads_of_the_process() -> None:
    """The first of two runs to begin is the first to end, by an error; the other one keeps its
    single thread."""
    begun, overlapping, ended = threading.Event(), threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def first(row: Row) -> None:
        if row.iteration == 1:
            begun.set()
            overlapping.wait(HUNG)
            raise ArithmeticError("the end of the first run")

    def second(row: Row) -> None:
        overlapping.set()
        if row.iteration == 1:
            ended.wait(HUNG)
        seen.append(blas_threads())

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(2) as pool:
        before = blas_threads()
        one = pool.submit(solve, pca().problem, DRFGT(), RING, iterations=2, callback=first)
        assert begun.wait(HUNG)
        other = pool.submit(solve, pca().problem, DRFGT(), RING, iterations=2, callback=second)
        assert isinstance(one.exception(HUNG), ArithmeticError)
        ended.set()
        other.result(HUNG)
        assert blas_threads() == before
    assert 2 in before
    assert set().union(*seen) == {1}


@pytest.mark.parametrize("function", [solve, iterate])
def test_missing_and_doubled_arguments_name_the_function(function: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"^{function.__name__}\(\): missing a required argument: 'problem'$"
    ):
        function()
    with pytest.raises(
        TypeError, match=rf"^{function.__name__}\(\): too many positional arguments$"
    ):
        function(CCASettings().problem(3, 0), "drfgt", "ring", 10)
