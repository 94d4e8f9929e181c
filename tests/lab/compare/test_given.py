"""What a comparison is given: names of methods with parameters, rules, and models of networks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decentorth as do
import topologies as tp
from decentorth import DRFGT, Landing
from decentorth.algorithms.common.schedules import BarzilaiBorwein, Diminishing
from decentorth.compare import Rules
from decentorth.lab.compare.methods import called, methods, with_step
from decentorth.lab.compare.model import NETWORKS, NetworkModel, wall_time
from decentorth.lab.compare.notes import goal
from decentorth.protocols import Row
from decentorth.running.history import schedule
from tests.support import problems

NAMED: list[tuple[Any, dict[str, Any]]] = [
    ("drfgt", {"drfgt": DRFGT()}),
    ("DRFGT,landing", {"drfgt": DRFGT(), "landing": Landing()}),
    (
        "drfgt:order=adapt-then-combine,penalty=10,landing:safe=true,eps=0.25",
        {
            "drfgt:order=adapt-then-combine,penalty=10": DRFGT(
                order="adapt-then-combine", penalty=10.0
            )
        }
        | {"landing:safe=true,eps=0.25": Landing(safe=True, eps=0.25)},
    ),
    (
        "landing:step_size=bb:cap=3",
        {"landing:step_size=bb:cap=3": Landing(step_size=BarzilaiBorwein(cap=3.0))},
    ),
    (
        [DRFGT(penalty=2.0), "landing"],
        {"drfgt:penalty=2.0": DRFGT(penalty=2.0), "landing": Landing()},
    ),
    (
        {"ours": "drfgt:penalty=2", "theirs": Landing()},
        {"ours": DRFGT(penalty=2.0), "theirs": Landing()},
    ),
    ({"ours": DRFGT, "theirs": "landing"}, {"ours": DRFGT(), "theirs": Landing()}),
    ([DRFGT, Landing()], {"drfgt": DRFGT(), "landing": Landing()}),
    (DRFGT(penalty=2.0), {"drfgt:penalty=2.0": DRFGT(penalty=2.0)}),
    (DRFGT, {"drfgt": DRFGT()}),
]


@pytest.mark.parametrize(("named", "expected"), NAMED)
def test_methods_by_name(named: Any, expected: dict[str, Any]) -> None:
    assert methods(named) == expected
    if isinstance(named, str):
        assert methods(named.split(",")) == expected  # cut at every comma


@pytest.mark.parametrize("named", [5, [5], {"ours": 5}, [np.eye(4)]])
def test_what_is_no_method_is_refused(named: Any) -> None:
    with pytest.raises(TypeError, match="algorithm"):
        methods(named)


def test_a_label_names_its_own_method() -> None:
    for algorithm in (
        DRFGT(),
        DRFGT(step_size=0.5, order="adapt-then-combine"),
        DRFGT(step_size="diminishing:power=0.75"),
    ):
        assert methods(called(algorithm)) == {called(algorithm): algorithm}


def test_another_step_leaves_everything_else() -> None:
    assert with_step(DRFGT(penalty=2.0), 0.5) == DRFGT(penalty=2.0, step_size=0.5)
    policy = DRFGT(step_size=Diminishing(power=0.75))
    assert with_step(policy, 0.5) == DRFGT(step_size=Diminishing(initial=0.5, power=0.75))


def test_no_seed_is_both_tuned_on_and_measured_on() -> None:
    rules = Rules(seed=4, trials=3, tune=True, tune_seeds=2)
    assert (list(rules.seeds), list(rules.tuning_seeds)) == ([4, 5, 6], [7, 8])
    assert list(Rules(trials=3).tuning_seeds) == []


@pytest.mark.parametrize("grid", range(2, 12))
def test_steps_are_powers_of_two_about_the_methods_own(grid: int) -> None:
    factors = Rules(grid=grid).factors
    assert len(factors) == grid
    assert 1.0 in factors
    assert all(b == 2.0 * a for a, b in itertools.pairwise(factors))
    assert factors[0] * factors[-1] in (1.0, 2.0)


@pytest.mark.slow
@settings(deadline=None, derandomize=True)
@given(st.integers(1, 50_000), st.sampled_from([0.003, 0.01, 0.05, 0.3]))
def test_counts_are_too_high_by_the_resolution_at_most(iterations: int, resolution: float) -> None:
    """A metric that falls just after a row is seen at the next: at most ``resolution`` later, an
    iteration apart."""
    rows = list(schedule(iterations, Rules(resolution=resolution).rows(iterations), None))
    for before, after in itertools.pairwise(rows):
        assert after - (before + 1) <= resolution * (before + 1)
    assert rows[:2] == [0, 1]


def history(**columns: list[float]) -> dict[str, Any]:
    return {name: np.array(column) for name, column in columns.items()}


def test_a_tolerance_is_reached_where_the_agents_are_too() -> None:
    run = history(
        gradient_norm=[9.0, 0.5, 0.05, 0.5, 0.01], consensus_rms=[0.0, 3.0, 0.4, 0.2, 0.09]
    )
    assert [Rules().reached(run, tolerance) for tolerance in (10.0, 1.0, 0.5, 0.1, 0.05)] == [
        0,
        2,
        2,
        4,
        None,
    ]
    apart = Rules(consensus_factor=None)
    assert [apart.reached(run, tolerance) for tolerance in (1.0, 0.05, 0.01, 1e-3)] == [
        1,
        2,
        4,
        None,
    ]
    assert Rules(consensus_factor=4.0).reached(run, 0.1) == 2


@settings(deadline=None, derandomize=True)
@given(st.floats(1e-6, 10.0), st.floats(1e-6, 10.0), st.sampled_from([None, 0.5, 1.0, 10.0]))
def test_a_run_stops_exactly_where_the_smallest_tolerance_is_reached(
    metric: float, consensus: float, factor: float | None
) -> None:
    rules = Rules(tolerances=(1.0, 0.1), consensus_factor=factor)
    values = {"gradient_norm": metric, "consensus_rms": consensus}
    stopped = rules.stop()(Row(1, 0, 0, 0, 0, 0.0, values), None)  # type: ignore[arg-type]  # these rules ask no other rank
    reached = rules.reached(history(gradient_norm=[metric], consensus_rms=[consensus]), 0.1)
    assert (stopped is not None) == (reached is not None)


def test_objectives_are_reached_by_feasible_points() -> None:
    """Tolerances of any sign, nothing asked of the agents' distance, and the end at the smallest
    value or the time limit."""
    rules = Rules(
        metric="objective", tolerances=(-3.0, 1.0, -1.0, -3.0), feasibility=1e-6, time_limit=5.0
    )
    assert rules.tolerances == (1.0, -1.0, -3.0)
    run = history(
        objective=[2.0, -4.0, -1.0, -3.5],
        feasibility=[0.0, 1e-3, 1e-6, 1e-9],
        consensus_rms=[9.0, 9.0, 9.0, 9.0],
    )
    assert [rules.reached(run, value) for value in (*rules.tolerances, -4.0)] == [2, 2, 3, None]
    assert goal(rules) == "objective <= t and feasibility <= 1e-06"

    class Alone:
        def decide(self, on_root: bool) -> bool:
            return on_root

    def stopped(objective: float, feasibility: float, seconds: float) -> str | None:
        row = Row(1, 0, 0, 0, 0, seconds, {"objective": objective, "feasibility": feasibility})
        stop = rules.stop()(row, Alone())  # type: ignore[arg-type]  # one rank decides
        return stop and stop.status

    assert stopped(-3.5, 1e-9, 1.0) == "objective_floor"
    assert stopped(-3.5, 1e-3, 1.0) is None
    assert stopped(-2.0, 1e-9, 1.0) is None
    assert stopped(-2.0, 1e-9, 5.0) == "time_limit"


@pytest.mark.parametrize("compute", [None, 0.7])
def test_the_wall_time_of_a_run_is_the_sum_of_its_parts(compute: float | None) -> None:
    """On a ring an agent sends two messages in a round: set-up rounds of five numbers, then two
    rounds of 36 in an iteration."""
    W = tp.metropolis_weights(tp.ring(5))
    result = do.solve(
        problems.procrustes().problem,
        do.DRFGT(order="adapt-then-combine"),
        W,
        iterations=30,
        record_every=1,
    )
    history, model = result.history, NetworkModel(latency=0.01, bandwidth=1e5, compute=compute)
    before, k = int(history["rounds"][0]), history["iteration"]
    assert before > 0
    assert (history["rounds"] == before + 2 * k).all()
    computing = history["seconds"] / 5
    if compute is not None:
        computing = compute * (k + 1.0)
    communicating = before * (0.01 + 2 * 8 * 5 / 1e5) + k * 2 * (0.01 + 2 * 8 * 36 / 1e5)
    np.testing.assert_allclose(wall_time(model, 5, history), computing + communicating, rtol=1e-12)


def test_a_run_of_one_agent_computes_alone() -> None:
    result = do.solve(problems.procrustes(rows=(12,)).problem, do.Landing(), iterations=20)
    found = wall_time(NetworkModel(latency=1.0, compute=0.5), 1, result.history)
    np.testing.assert_allclose(found, 0.5 * (1 + result.history["iteration"]), rtol=1e-12)


def test_names_and_parameters() -> None:
    assert NetworkModel.named("wan") == NETWORKS["wan"]
    assert NetworkModel.named("wan:latency=0.1,compute=1e-3") == NetworkModel(
        latency=0.1, bandwidth=1.25e7, compute=1e-3
    )
    assert NetworkModel.named("latency=1e-3,bandwidth=1e8") == NetworkModel(
        latency=1e-3, bandwidth=1e8
    )
    assert str(NETWORKS["wan"]) == "latency 0.04, bandwidth 1.25e+07"


def rules(given: dict[str, Any]) -> Rules:
    return Rules(**given)


REFUSED: list[tuple[Callable[[Any], Any], Any, str]] = [
    (methods, "drfg", "algorithms: unknown algorithm 'drfg'; did you mean 'drfgt'?"),
    (
        methods,
        "drfgt:ordr=auto",
        "algorithms: 'drfgt:ordr=auto': drfgt has no parameter 'ordr'; did you mean 'order'? its "
        "parameters: ",
    ),
    (methods, "drfgt:penalty=-1", "algorithms: 'drfgt:penalty=-1': penalty must be positive"),
    (
        methods,
        "drfgt,asynchronous_drfgt:delay=1",
        "asynchronous_drfgt:delay=1 has activations of single agents, not iterations: use",
    ),
    (
        methods,
        "lobpcg",
        "lobpcg is for features split over agents: use decentorth run --split features",
    ),
    (methods, "drfgt,landing,drfgt", "algorithms: drfgt is named twice: give it other parameters"),
    (NetworkModel.named, "wam", "unknown network 'wam'; did you mean 'wan'?"),
    (
        NetworkModel.named,
        "wan:latncy=1",
        "network 'wan:latncy=1': wan has no parameter 'latncy'; did you mean 'latency'?",
    ),
    (NetworkModel.named, "bandwidth=0", "network 'bandwidth=0': bandwidth must be"),
    (rules, {"trials": 0}, "trials must be at least 1"),
    (rules, {"tolerances": ()}, "tolerances must be at least one number"),
    (rules, {"tolerances": 1e-3}, "tolerances must be at least one number, such as (1e-3,)"),
    (rules, {"tolerances": (1e-3,) * 101}, "tolerances must be at most 100 numbers, got 101"),
    (
        rules,
        {"metric": "objective", "tolerances": (-np.inf,)},
        "tolerances must be finite, got -inf",
    ),
    (
        rules,
        {"metric": "loss"},
        "metric must be one of gradient_norm, stationarity, error or objective, got 'loss'",
    ),
    (rules, {"resolution": 1.0}, "resolution must be at least 0 and below 1"),
    (
        rules,
        {"resolution": 0.0, "iterations": 30_000},
        "checks 30001 of 30000 iterations, and a history holds 20000",
    ),
]


@pytest.mark.parametrize(("read", "wrong", "words"), REFUSED)
def test_what_is_refused(read: Callable[[Any], Any], wrong: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the words are compared below
        read(wrong)
    assert words in str(caught.value)
