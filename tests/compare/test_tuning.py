"""Tuning: the chosen step is the argmin of its grid, every method has the same budget, and nobody loses to its own step."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import decentorth as do
from decentorth import DRFGT
from decentorth.compare import Rules
from decentorth.compare.comparison import Comparison
from decentorth.compare.trials import Trace
from decentorth.compare.tuning import Candidate, at_edge, best, candidates, merit
from tests.compare.cases import ATC, CTA, graph, procrustes, small

TUNED = Rules(trials=2, iterations=500, tolerances=(1.0, 1e-1, 1e-3), tune=True, grid=5, tune_seeds=2)


@pytest.fixture(scope="module")
def tuned() -> Comparison:
    return small(rules=TUNED)


def counted(history: Any, tolerance: float) -> float:
    for k, gradient, consensus in zip(history["iteration"], history["gradient_norm"], history["consensus_rms"], strict=True):
        if gradient <= tolerance and consensus <= tolerance:
            return float(k)
    return math.inf


@pytest.mark.slow
def test_the_choice_is_the_argmin_of_its_grid(tuned: Comparison) -> None:
    """With the tuning runs made again outside: the fewest iterations to the smallest tolerance in the median over the seeds."""
    for entry in tuned.entries:
        found = []
        for one in entry.tried:
            histories = [
                do.solve(
                    procrustes(seed),
                    one.algorithm,
                    graph(seed),
                    seed=seed,
                    iterations=TUNED.iterations,
                    rows=TUNED.rows(TUNED.iterations),
                    stopping=TUNED.stop(),
                ).history
                for seed in (2, 3)
            ]
            counts = [np.median([counted(history, tolerance) for history in histories]) for tolerance in (1e-3, 1e-1, 1.0)]
            found.append((*counts, np.median([history["gradient_norm"][-1] for history in histories])))
        least = min(found)
        assert found[entry.tried.index(entry.chosen)] == least
        assert math.isfinite(least[0])
        assert len({each[0] for each in found}) > 1


@pytest.mark.slow
def test_every_method_has_the_same_budget_about_its_own_step(tuned: Comparison) -> None:
    for label, entry in zip((CTA, ATC), tuned.entries, strict=True):
        order: Any = label.partition("=")[2]
        state = next(do.iterate(procrustes(2), DRFGT(order=order), graph(2), seed=2))
        centre = float(f"{state.step_size.mean():.3g}")
        assert [one.factor for one in entry.tried] == list(TUNED.factors)
        for one in entry.tried:
            assert len(one.traces) == 2
            assert all(trace.history["iteration"][-1] <= TUNED.iterations for trace in one.traces)
            step: Any = "auto" if one.factor == 1.0 else centre * one.factor
            assert one.algorithm == DRFGT(order=order, step_size=step)


@pytest.mark.slow
def test_the_tuned_method_is_what_the_trials_run(tuned: Comparison) -> None:
    for entry in tuned.entries:
        for seed, trace in zip((0, 1), entry.traces, strict=True):
            algorithm = entry.chosen.algorithm
            result = do.solve(
                procrustes(seed), algorithm, graph(seed), seed=seed, iterations=TUNED.iterations, rows=TUNED.rows(TUNED.iterations)
            )
            shown = len(trace.history["iteration"])
            assert np.array_equal(result.history["gradient_norm"][:shown], trace.history["gradient_norm"])


def trace(end: float, reached: dict[float, int], status: str = "iterations") -> Trace:
    """A run of which the gradient norm falls to each tolerance at an iteration."""
    falls = sorted((k, tolerance) for tolerance, k in reached.items())
    history = {
        "iteration": np.array([0, *[k for k, _ in falls], 1000]),
        "gradient_norm": np.array([9.0, *[tolerance for _, tolerance in falls], end]),
        "consensus_rms": np.zeros(len(falls) + 2),
    }
    return Trace(history, status, "", {}, 0.0, "")


RULES = Rules(tolerances=(1.0, 0.1), tune=True)


def test_merits_by_hand() -> None:
    both = [trace(0.1, {1.0: 10, 0.1: 50}), trace(0.5, {1.0: 30})]
    assert merit(both, RULES) == (math.inf, 20.0, 0.3)
    assert merit([both[0]], RULES) == (50.0, 10.0, 0.1)
    assert merit([both[0], both[0], both[1]], RULES) == (50.0, 10.0, 0.1)
    assert merit([trace(2.0, {}, "diverged")], RULES) == merit([trace(math.nan, {})], RULES) == (math.inf, math.inf, math.inf)


def tried(*traces: Trace) -> list[Candidate]:
    return [Candidate(2.0**place, DRFGT(step_size=2.0**place), f"{2.0**place:g}", (one,)) for place, one in enumerate(traces)]


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        ([trace(0.1, {1.0: 90, 0.1: 100}), trace(0.5, {1.0: 1})], 1.0),  # only one comes to the smallest tolerance
        ([trace(0.5, {1.0: 9}), trace(0.9, {1.0: 8})], 2.0),  # neither does: the next one counts
        ([trace(5.0, {}), trace(3.0, {}), trace(4.0, {})], 2.0),  # nothing is reached: how far each came
        ([trace(2.0, {}, "diverged"), trace(8.0, {})], 2.0),  # a run that ended early is not a good one
        ([trace(0.1, {0.1: 50}), trace(0.1, {0.1: 50})], 1.0),  # alike: the smaller step
    ],
)
def test_which_step_is_best(traces: list[Trace], expected: float) -> None:
    assert best(tried(*traces), RULES).factor == expected


def test_a_best_step_at_the_edge_is_told() -> None:
    grid = tried(*[trace(float(end), {}) for end in (1, 2, 3)])
    assert [at_edge(grid, one) for one in grid] == ["smallest", "", "largest"]
    assert at_edge(grid[:1], grid[0]) == ""


def test_the_step_in_words() -> None:
    """Automatic steps grow where the method can judge them, and stay otherwise."""
    found = small(algorithms="drfgt,drgta:step_size=constant,drfgt:safe=true,drsgd", rules=Rules(trials=2, iterations=9))
    ranges = [
        r"auto, growing \(\S+ to \S+\)",
        r"constant \(\S+ to \S+\)",
        r"auto, constant \(\S+ to \S+\)",
        r"diminishing \(\S+ to \S+\)",
    ]
    for entry, words in zip(found.entries, ranges, strict=True):
        assert re.fullmatch(words, entry.step), entry.step


@pytest.mark.slow
def test_a_step_that_is_worse_in_the_trials_is_told() -> None:
    label = "drfgt:step_size=0.002"
    tuned = small(algorithms=label, rules=TUNED)
    (first,) = tuned.entries
    assert first.chosen.factor > 1.0
    for seed, trace in zip((0, 1), first.untuned, strict=True):
        options: dict[str, Any] = {"iterations": 500, "rows": TUNED.rows(500), "stopping": TUNED.stop()}
        result = do.solve(procrustes(seed), DRFGT(step_size=0.002), graph(seed), seed=seed, **options)
        assert np.array_equal(result.history["gradient_norm"], trace.history["gradient_norm"])
    assert "does better with its own step" not in " ".join(tuned.notes())
    own, chosen = (merit(runs, TUNED)[:3] for runs in (first.untuned, first.traces))
    place = next(place for place in range(3) if own[place] != chosen[place])
    swapped = replace(first, traces=first.untuned, untuned=first.traces)
    said = [note for note in replace(tuned, entries=(swapped,)).notes() if "own step" in note]
    counts = f"{chosen[place]:g} iterations to {(1e-3, 1e-1, 1.0)[place]:g}, not {own[place]:g}"
    assert said == [f"In the trials {label} does better with its own step (0.002): {counts}."]


def test_a_given_step_is_the_centre() -> None:
    run = do.solve(procrustes(0), DRFGT(step_size=0.003), graph(0), iterations=0)
    rules = Rules(tune=True, grid=3)
    for step, made in ((0.003, lambda s: s), ("diminishing:initial=0.003", lambda s: f"diminishing:initial={s}")):
        method = DRFGT(step_size=step)
        grid = candidates("drfgt", method, method, run, rules)
        assert [one.algorithm for one in grid] == [DRFGT(step_size=made(s)) for s in (0.0015, 0.003, 0.006)]


def test_an_automatic_policy_is_centred_where_it_starts() -> None:
    """The horizon's step is its start divided by the square root of the horizon."""
    method = DRFGT(step_size="horizon:iterations=400")
    run = do.solve(procrustes(0), method, graph(0), iterations=0)
    grid = candidates("drfgt", method, method, run, Rules(tune=True, grid=2))
    automatic = do.solve(procrustes(0), DRFGT(), graph(0), iterations=0).state.step_size.mean()
    assert grid[1].algorithm.step_size.initial == pytest.approx(2.0 * automatic, rel=5e-3)
