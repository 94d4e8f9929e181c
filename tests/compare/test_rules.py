"""The rules of a comparison: seeds, grids, resolution, and when a tolerance is reached."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentorth.compare import Rules
from decentorth.compare.words import goal
from decentorth.protocols import Row
from decentorth.running.history import schedule


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
    """A metric that falls just after a row is seen at the next: at most ``resolution`` later, an iteration apart."""
    rows = list(schedule(iterations, Rules(resolution=resolution).rows(iterations), None))
    for before, after in itertools.pairwise(rows):
        assert after - (before + 1) <= resolution * (before + 1)
    assert rows[:2] == [0, 1]


def history(**columns: list[float]) -> dict[str, Any]:
    return {name: np.array(column) for name, column in columns.items()}


def test_a_tolerance_is_reached_where_the_agents_are_too() -> None:
    run = history(gradient_norm=[9.0, 0.5, 0.05, 0.5, 0.01], consensus_rms=[0.0, 3.0, 0.4, 0.2, 0.09])
    assert [Rules().reached(run, tolerance) for tolerance in (10.0, 1.0, 0.5, 0.1, 0.05)] == [0, 2, 2, 4, None]
    apart = Rules(consensus_factor=None)
    assert [apart.reached(run, tolerance) for tolerance in (1.0, 0.05, 0.01, 1e-3)] == [1, 2, 4, None]
    assert Rules(consensus_factor=4.0).reached(run, 0.1) == 2


@settings(deadline=None, derandomize=True)
@given(st.floats(1e-6, 10.0), st.floats(1e-6, 10.0), st.sampled_from([None, 0.5, 1.0, 10.0]))
def test_a_run_stops_exactly_where_the_smallest_tolerance_is_reached(metric: float, consensus: float, factor: float | None) -> None:
    rules = Rules(tolerances=(1.0, 0.1), consensus_factor=factor)
    values = {"gradient_norm": metric, "consensus_rms": consensus}
    stopped = rules.stop()(Row(1, 0, 0, 0, 0, 0.0, values), None)  # type: ignore[arg-type]  # these rules ask no other rank
    reached = rules.reached(history(gradient_norm=[metric], consensus_rms=[consensus]), 0.1)
    assert (stopped is not None) == (reached is not None)


def test_objectives_are_reached_by_feasible_points() -> None:
    """Tolerances of any sign, nothing asked of the agents' distance, and the end at the smallest value or the time limit."""
    rules = Rules(metric="objective", tolerances=(-3.0, 1.0, -1.0), feasibility=1e-6, time_limit=5.0)
    assert rules.tolerances == (1.0, -1.0, -3.0)
    run = history(objective=[2.0, -4.0, -1.0, -3.5], feasibility=[0.0, 1e-3, 1e-6, 1e-9], consensus_rms=[9.0, 9.0, 9.0, 9.0])
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


def test_tolerances_are_put_in_order() -> None:
    assert Rules(tolerances=(1e-3, 1.0, 1e-3)).tolerances == (1.0, 1e-3)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"trials": 0}, "trials must be at least 1"),
        ({"tolerances": ()}, "tolerances must be at least one number"),
        ({"metric": "objective", "tolerances": (-np.inf,)}, "tolerances must be finite, got -inf"),
        ({"metric": "loss"}, "metric must be one of gradient_norm, stationarity, error or objective, got 'loss'"),
        ({"resolution": 1.0}, "resolution must be at least 0 and below 1"),
        ({"resolution": 0.0, "iterations": 30_000}, "checks 30001 of 30000 iterations, and a history holds 20000"),
    ],
)
def test_what_is_no_comparison(given_: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the words are compared below
        Rules(**given_)
    assert words in str(caught.value)
