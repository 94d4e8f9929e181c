"""Comparisons: all methods get the same, the table has the numbers of the runs, failures are
counted, steps are tuned fairly."""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth import DRFGT
from decentorth.commands.line.config_files import InputError
from decentorth.compare import (
    NETWORKS,
    Comparison,
    ComparisonPlan,
    Entry,
    Rules,
    compare,
    load,
    wall_time,
)
from decentorth.lab.compare.command import main
from decentorth.lab.compare.notes import ending
from decentorth.lab.compare.trials import Store, Trace, fingerprint
from decentorth.lab.compare.tuning import Candidate, at_edge, best, beyond, candidates, merit
from decentorth.lab.compare.workers import processes
from decentorth.lab.study.command import main as study
from decentorth.network.transport.communicator import SerialCommunicator
from decentorth.problems import CCASettings, Procrustes
from tests.lab.compare.cases import AGENTS, ATC, CTA, RULES, graph, pca, procrustes, small

WILD = "drfgt:step_size=5"
COUNTED = ("iterations", "rounds", "bytes", "gradients")
ORDERS: dict[str, Any] = {CTA: "combine-then-adapt", ATC: "adapt-then-combine"}


@pytest.fixture(scope="module")
def found() -> Comparison:
    return small(algorithms=(CTA, ATC, WILD))


@pytest.mark.slow
def test_every_method_gets_the_same_data_start_and_network(found: Comparison) -> None:
    digests = [[trace.digest for trace in entry.traces] for entry in found.entries]
    assert digests[0] == digests[1] == digests[2]
    assert len(set(digests[0])) == RULES.trials
    run = do.api.set_up(procrustes(1), DRFGT(), graph(1), seed=1)
    assert fingerprint(run) == digests[0][1]
    ring = tp.metropolis_weights(tp.ring(AGENTS))
    for problem, W, seed in (
        (procrustes(1), ring, 1),
        (procrustes(1), graph(1), 2),
        (procrustes(2), graph(1), 1),
    ):
        assert fingerprint(do.api.set_up(problem, DRFGT(), W, seed=seed)) != digests[0][1]


def test_a_problem_that_is_another_each_time_is_refused() -> None:
    rng = np.random.default_rng(0)

    def careless(seed: int) -> Procrustes:
        return Procrustes(rng.standard_normal((AGENTS, 8, 5)), rng.standard_normal((AGENTS, 3, 8)))

    with pytest.raises(
        ValueError,
        match=r"combine-then-adapt and .* did not get the same data, start and network for seed 0",
    ):
        compare(careless, (CTA, ATC), graph(0), Rules(trials=1, iterations=3))


@pytest.mark.slow
def test_a_problem_is_a_function_of_the_seed() -> None:
    settings = do.problems.PCASettings(data="synthetic", rank=2)
    for given in (settings, settings.problem(4, 0), "pca", type(settings)):
        with pytest.raises(TypeError, match="problem must be a function of the seed, such as"):
            compare(given, "drfgt", "ring")  # type: ignore[arg-type]


def test_the_table_is_made_of_the_histories(found: Comparison) -> None:
    """Every number again, from runs by `solve` with every iteration looked at, and a median by
    sorting."""
    for label, order in ORDERS.items():
        results = [
            do.solve(
                procrustes(seed),
                DRFGT(order=order),
                graph(seed),
                seed=seed,
                iterations=400,
                record_every=1,
            )
            for seed in range(3)
        ]
        for tolerance in RULES.tolerances:
            (line,) = [
                each
                for each in found.lines
                if (each.algorithm, each.tolerance) == (label, tolerance)
            ]
            exact: dict[str, list[float]] = {name: [] for name in COUNTED}
            for result in results:
                inside = [
                    row
                    for row in result.history.rows
                    if row.values["gradient_norm"] <= tolerance
                    and row.values["consensus_rms"] <= tolerance
                ]
                for name in COUNTED:
                    column = "iteration" if name == "iterations" else name
                    exact[name].append(getattr(inside[0], column) if inside else math.inf)
            assert line.reached == sum(math.isfinite(count) for count in exact["iterations"])
            for name, counts in exact.items():
                for shown, true in zip(
                    line.counts[name], (sorted(counts)[1], min(counts), max(counts)), strict=True
                ):
                    # gradients and rounds go on from what the start took
                    assert (
                        shown == true if math.isinf(true) else true <= shown <= 1.0101 * true + 1e-9
                    )


def test_what_fails_is_counted_and_never_dropped(found: Comparison) -> None:
    wild = [line for line in found.lines if line.algorithm == WILD]
    assert all((line.trials, line.reached, line.diverged) == (3, 0, 3) for line in wild)
    assert all(
        spread == (math.inf, math.inf, math.inf) for line in wild for spread in line.counts.values()
    )
    assert found.shown == RULES.tolerances[:-1]
    said = " ".join(found.notes())
    assert f"{WILD} did not reach 1e-40 in 3 of 3 trials: 3 diverged." in said
    assert "No method reached 1e-40." in said


def ended(
    gradient: list[float], apart: float = 0.0, error: float = 0.0, status: str = "iterations"
) -> Trace:
    rows = len(gradient)
    history = {
        "iteration": np.arange(rows) * 100,
        "gradient_norm": np.array(gradient),
        "consensus_rms": np.full(rows, apart),
    }
    history |= dict.fromkeys(("rounds", "bytes", "gradients", "seconds"), history["iteration"])
    history |= {
        "feasibility": np.full(rows, 0.5),
        "error": np.full(rows, error),
        "objective": np.array(gradient),
    }
    return Trace(history, status, "", {}, 0.0, "")


@pytest.mark.parametrize(
    ("trace", "rules", "said"),
    [
        (ended([9.0, 1.0, 1e30], status="diverged"), {}, "diverged"),
        (ended([9.0, 0.5, 0.49]), {}, "stalled with gradient norm 0.49"),
        (ended([9.0, 0.5, 0.3]), {}, "still improved at the end, with gradient norm 0.3"),
        (ended([9.0, 0.5, 0.1], apart=0.2), {}, "ended with agents 0.2 apart"),
        (ended([9.0, 0.5, 0.1]), {"feasibility": 1e-3}, "ended with feasibility 0.5"),
        (
            ended([9.0, 0.5, 0.1], error=1.4),
            {"metric": "error"},
            "came to another critical point, with error 1.4",
        ),
    ],
)
def test_a_trial_that_fails_says_why(trace: Trace, rules: dict[str, Any], said: str) -> None:
    given = Rules(tolerances=(0.1,), trials=2, **rules)
    why, value = ending(trace, given)
    assert why.format(f"{value:g}") == said
    step = Candidate(1.0, None, "0.1")
    entry = Entry("A", "0.1", (step,), step, (trace, trace))
    lines = Comparison(given, (entry,), {}, 5).notes()
    assert f"A did not reach 0.1 in 2 of 2 trials: 2 {said}." in lines


def test_a_method_is_added_without_repeating_the_others(tmp_path: Path) -> None:
    rules = Rules(trials=2, iterations=80, tolerances=(1.0, 1e-2), tune=True, grid=2, tune_seeds=1)
    both = small(algorithms=(CTA, ATC), rules=rules)
    one = small(algorithms=CTA, rules=rules)
    one.save(tmp_path, plot=False)
    more = compare(procrustes, ATC, graph, extending=load(tmp_path))
    assert [entry.label for entry in more.entries] == [CTA, ATC]
    for line, other in zip(both.lines, more.lines, strict=True):
        assert [line.counts[name] for name in COUNTED] == [other.counts[name] for name in COUNTED]
    assert (
        more.entries[0].traces[0].history["seconds"].tobytes()
        == one.entries[0].traces[0].history["seconds"].tobytes()
    )
    with pytest.raises(
        ValueError, match="combine-then-adapt is in the comparison already: give it another label"
    ):
        compare(procrustes, CTA, graph, extending=one)
    with pytest.raises(
        ValueError, match="a comparison that is extended has rules and networks: leave them out"
    ):
        compare(procrustes, ATC, graph, rules, extending=one)
    with pytest.raises(ValueError, match="did not get the same data, start and network for seed"):
        compare(procrustes, ATC, graph(9), extending=one)


def test_modelled_seconds_have_the_median_of_the_measured_computing(found: Comparison) -> None:
    entry = found.entries[1]
    model = replace(
        NETWORKS["wan"], compute=float(np.median([trace.computing for trace in entry.traces]))
    )
    for seed, trace in zip(RULES.seeds, entry.traces, strict=True):
        assert np.array_equal(
            found.column(entry, seed, "seconds on wan"), wall_time(model, AGENTS, trace.history)
        )
        assert (
            trace.computing * AGENTS * trace.history["iteration"][-1]
            <= trace.history["seconds"][-1]
        )


@pytest.mark.slow
def test_parallel_processes_take_functions_of_any_kind() -> None:
    data = np.random.default_rng(3).standard_normal((AGENTS, 9, 6))

    def counts(workers: int) -> list[Any]:
        rules = Rules(trials=2, iterations=60, tolerances=(10.0, 1.0))
        found = compare(
            lambda seed: do.problems.PCA(data + seed, 2),
            "drfgt,deepca",
            graph,
            rules,
            workers=workers,
        )
        return [line.counts[name] for line in found.lines for name in COUNTED]

    assert counts(2) == counts(1)


def test_several_workers_need_joblib(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert processes(None) == 1
    assert main(["--algorithms", "drfgt", "--workers", "2"]) == 2
    said = "decentorth compare: 2 workers need joblib: pip install joblib, or give 1 worker\n"
    assert capsys.readouterr() == ("", said)
    assert study(["spectral", "--workers", "2"]) == 2
    assert capsys.readouterr() == ("", said.replace("compare", "study"))
    with pytest.raises(InputError, match="2 workers need joblib"):
        compare(procrustes, CTA, graph, RULES, workers=2)


def test_the_error_can_be_the_metric() -> None:
    rules = Rules(
        trials=1, iterations=800, metric="error", tolerances=(1e-1, 1e-3), consensus_factor=None
    )
    found = compare(pca, ATC, graph, rules)
    trace = found.entries[0].traces[0]
    row = rules.reached(trace.history, 1e-3)
    assert row is not None
    assert trace.history["error"][row] <= 1e-3 < trace.history["error"][row - 1]
    assert trace.status == "converged"
    with pytest.raises(ValueError, match="metric: error needs a problem whose answer is known"):
        compare(procrustes, ATC, graph, rules)


def test_different_minimisers_are_named(found: Comparison) -> None:
    """The objectives at the end are set apart by 2 in 1000 of their fall for one method in one
    trial, then by less than 1.

    A noise-free problem, whose least objective is zero, has no other minimisers because of its
    rounding.
    """
    rules = Rules(**{**RULES.__dict__, "tolerances": (1.0,)})
    first, second = found.entries[:2]
    start, end = first.traces[1].history["objective"][[0, -1]]
    said = (
        "In 1 of 3 trials (seed 1) methods that reached 1 ended at objectives that differ by "
        "more than 0.1 % of their fall: "
    )
    said += f"they found different minimisers, the worse ones {ATC} in 1."
    for share, expected in ((0.002, [said]), (0.0009, [])):
        for shift in (0.0, -end):
            entries = []
            for entry, last in ((first, end), (second, end + share * (start - end))):
                traces = list(entry.traces)
                objective = traces[1].history["objective"].copy()
                objective[-1] = last
                traces[1] = replace(
                    traces[1], history={**traces[1].history, "objective": objective + shift}
                )
                entries.append(replace(entry, traces=tuple(traces)))
            changed = replace(found, rules=rules, entries=tuple(entries))
            assert [note for note in changed.notes() if "different minimisers" in note] == expected


@pytest.mark.slow
def test_a_time_varying_network_needs_given_steps() -> None:
    sequence = tp.sequence_from_name("random_matching", AGENTS)
    rules = Rules(trials=1, iterations=400, tolerances=(4.0, 2.0, 1.0, 0.1))
    with pytest.raises(ValueError, match="a time-varying network lacks the eigenvalues"):
        compare(procrustes, "drgta", sequence, rules)
    found = compare(procrustes, "drfgt,drgta:step_size=0.004", sequence, rules)
    assert found.shown


@pytest.mark.slow
def test_runs_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    def run(rules: Rules, about: dict[str, Any]) -> tuple[Comparison, list[Path]]:
        plan = ComparisonPlan(procrustes, (CTA, ATC), graph, rules)
        said: list[str] = []
        before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
        made = plan.run(store=Store(tmp_path, about, SerialCommunicator()), advance=said.append)
        assert len(said) == plan.total
        return made, [
            path for path in tmp_path.glob("*.json") if before.get(path) != path.stat().st_mtime_ns
        ]

    rules = Rules(**{**RULES.__dict__, "iterations": 100})
    one, fresh = run(rules, {"data": "x"})
    again, more = run(rules, {"data": "x"})
    assert (len(fresh), more) == (6, [])
    one.save(tmp_path / "one", plot=False)
    again.save(tmp_path / "again", plot=False)
    for name in ("comparison.csv", "comparison.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert len(run(Rules(**{**rules.__dict__, "trials": 4}), {"data": "x"})[1]) == 2
    assert len(run(Rules(**{**rules.__dict__, "iterations": 99}), {"data": "x"})[1]) == 6
    assert len(run(rules, {"data": "y"})[1]) == 6


def test_a_changed_file_or_method_is_run_again(tmp_path: Path) -> None:
    data, source = tmp_path / "data.npy", tmp_path / "mine.py"
    data.write_bytes(b"1")
    source.write_text("")
    plan = ComparisonPlan(procrustes, CTA, graph, RULES)
    job = plan._job(CTA, plan.grids[CTA][0], 0)
    first = Store(tmp_path, {"data": str(data)}, SerialCommunicator()).path(job)
    assert first == Store(tmp_path, {"data": str(data)}, SerialCommunicator()).path(job)
    data.write_bytes(b"12")
    assert first != Store(tmp_path, {"data": str(data)}, SerialCommunicator()).path(job)


TUNED = Rules(
    trials=2, iterations=500, tolerances=(1.0, 1e-1, 1e-3), tune=True, grid=5, tune_seeds=2
)


@pytest.fixture(scope="module")
def tuned() -> Comparison:
    return small(rules=TUNED)


def counted(history: Any, tolerance: float) -> float:
    for k, gradient, consensus in zip(
        history["iteration"], history["gradient_norm"], history["consensus_rms"], strict=True
    ):
        if gradient <= tolerance and consensus <= tolerance:
            return float(k)
    return math.inf


@pytest.mark.slow
def test_the_choice_is_the_argmin_of_its_grid(tuned: Comparison) -> None:
    """With the tuning runs made again outside: the fewest iterations to the smallest tolerance in
    the median over the seeds."""
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
            counts = [
                np.median([counted(history, tolerance) for history in histories])
                for tolerance in (1e-3, 1e-1, 1.0)
            ]
            found.append(
                (*counts, np.median([history["gradient_norm"][-1] for history in histories]))
            )
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
        factors = [one.factor for one in entry.tried]
        assert factors[: TUNED.grid] == list(TUNED.factors)
        assert at_edge(entry.tried, entry.chosen) == ""
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
                procrustes(seed),
                algorithm,
                graph(seed),
                seed=seed,
                iterations=TUNED.iterations,
                rows=TUNED.rows(TUNED.iterations),
            )
            shown = len(trace.history["iteration"])
            assert np.array_equal(
                result.history["gradient_norm"][:shown], trace.history["gradient_norm"]
            )


def trace(end: float, reached: dict[float, int], status: str = "iterations") -> Trace:
    falls = sorted((k, tolerance) for tolerance, k in reached.items())
    iterations = np.array([0, *[k for k, _ in falls], 1000])
    history = {
        **dict.fromkeys(("rounds", "bytes", "gradients", "seconds", "objective"), iterations),
        "iteration": iterations,
        "gradient_norm": np.array([9.0, *[tolerance for _, tolerance in falls], end]),
        "consensus_rms": np.zeros(len(falls) + 2),
    }
    return Trace(history, status, "", {}, 0.0, "")


JUDGED = Rules(tolerances=(1.0, 0.1), tune=True)


def test_merits_by_hand() -> None:
    both = [trace(0.1, {1.0: 10, 0.1: 50}), trace(0.5, {1.0: 30})]
    assert merit(both, JUDGED) == (1, math.inf, 0, 20.0, 0.3)
    assert merit([both[0]], JUDGED) == (0, 50.0, 0, 10.0, 0.1)
    assert merit([both[0], both[0], both[1]], JUDGED) == (1, 50.0, 0, 10.0, 0.1)
    assert (
        merit([trace(2.0, {}, "diverged")], JUDGED)
        == merit([trace(math.nan, {})], JUDGED)
        == (1, math.inf, 1, math.inf, math.inf)
    )


def tried(*traces: Trace) -> list[Candidate]:
    return [
        Candidate(2.0**place, DRFGT(step_size=2.0**place), f"{2.0**place:g}", (one,))
        for place, one in enumerate(traces)
    ]


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        # only one comes to the smallest tolerance
        ([trace(0.1, {1.0: 90, 0.1: 100}), trace(0.5, {1.0: 1})], 1.0),
        ([trace(0.5, {1.0: 9}), trace(0.9, {1.0: 8})], 2.0),  # neither does: the next one counts
        # nothing is reached: how far each came
        ([trace(5.0, {}), trace(3.0, {}), trace(4.0, {})], 2.0),
        # a run that ended early is not a good one
        ([trace(2.0, {}, "diverged"), trace(8.0, {})], 2.0),
        ([trace(0.1, {0.1: 50}), trace(0.1, {0.1: 50})], 1.0),  # alike: the smaller step
    ],
)
def test_which_step_is_best(traces: list[Trace], expected: float) -> None:
    assert best(tried(*traces), JUDGED).factor == expected


def test_a_faster_step_that_fails_more_often_is_not_the_best() -> None:
    sure, fast, broken = (
        trace(0.1, {1.0: 9, 0.1: 90}),
        trace(0.1, {1.0: 1, 0.1: 10}),
        trace(math.inf, {}, "diverged"),
    )
    own = Candidate(1.0, None, "auto, growing", (sure, sure, sure))
    wild = Candidate(2.0, None, "2", (fast, fast, broken))
    assert best([own, wild], JUDGED) is own
    assert best([replace(own, traces=(sure, sure, broken)), wild], JUDGED) is wild

    entry = Entry("drfgt", "2", (own, wild), wild, wild.traces, own.traces)
    comparison = Comparison(replace(JUDGED, trials=3), (entry,), {}, 5)
    said = " ".join(comparison.notes())
    assert (
        "In the trials drfgt does better with its own step (auto, growing): 3 of 3 trials reach "
        "0.1, not 2."
    ) in said


def test_a_best_step_at_the_edge_is_told() -> None:
    grid = tried(*[trace(float(end), {}) for end in (1, 2, 3)])
    assert [at_edge(grid, one) for one in grid] == ["smallest", "", "largest"]
    assert at_edge(grid[:1], grid[0]) == ""


@pytest.mark.parametrize(
    ("ends", "expected"), [((1, 2, 3), [0.5]), ((2, 1, 3), []), ((3, 2, 1), [8.0])]
)
def test_the_grid_goes_on_where_its_best_step_is_an_edge(
    ends: tuple[float, ...], expected: list[float]
) -> None:
    grid = tried(*[trace(float(end), {}) for end in ends])
    grid[0] = replace(grid[0], algorithm=DRFGT())  # its step is automatic
    further = beyond(grid, Rules(tune=True, grid=3))
    assert [one.factor for one in further] == expected
    assert [one.algorithm.step_size for one in further] == expected
    assert beyond([*grid, grid[1]], Rules(tune=True, grid=2)) == ()  # four were tried


@pytest.mark.parametrize("factor", [2.0**-7, 1.0, 2.0**9])
def test_the_best_step_is_inside_of_those_tried(factor: float) -> None:
    """All come to one step, of three digits, also from one 1000 times too small or 64 times too
    large."""
    rules = Rules(tune=True, grid=8, tune_seeds=1, trials=1, iterations=400, tolerances=(1e-4,))
    (found,) = small(algorithms=f"drfgt:step_size={0.0078125 * factor}", rules=rules).entries
    assert at_edge(found.tried, found.chosen) == ""
    assert found.chosen.algorithm.step_size == pytest.approx(2.0**-4, rel=5e-3)


def test_the_step_in_words() -> None:
    found = small(
        algorithms="drfgt,drgta:step_size=constant,drfgt:safe=true,drsgd",
        rules=Rules(trials=2, iterations=9),
    )
    ranges = [
        r"auto, growing, accelerated \(\S+ to \S+\)",
        r"constant, combine-then-adapt \(\S+ to \S+\)",
        r"auto, constant, accelerated \(\S+ to \S+\)",
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
        options: dict[str, Any] = {
            "iterations": 500,
            "rows": TUNED.rows(500),
            "stopping": TUNED.stop(),
        }
        result = do.solve(
            procrustes(seed), DRFGT(step_size=0.002), graph(seed), seed=seed, **options
        )
        assert np.array_equal(result.history["gradient_norm"], trace.history["gradient_norm"])
    assert "does better with its own step" not in " ".join(tuned.notes())
    own, chosen = (merit(runs, TUNED) for runs in (first.untuned, first.traces))
    place = next(place for place in range(6) if own[place] != chosen[place])
    assert place % 2 == 0  # a number of trials that fail
    swapped = replace(first, traces=first.untuned, untuned=first.traces)
    said = [note for note in replace(tuned, entries=(swapped,)).notes() if "own step" in note]
    step = "0.002, accelerated"
    reached = [2 - int(one[place]) for one in (chosen, own)]
    tolerance = (1e-3, 1e-1, 1.0)[place // 2]
    counts = f"{reached[0]} of 2 trials reach {tolerance:g}, not {reached[1]}"
    assert said == [f"In the trials {label} does better with its own step ({step}): {counts}."]


def test_a_given_step_is_the_centre() -> None:
    run = do.solve(procrustes(0), DRFGT(step_size=0.003), graph(0), iterations=0)
    rules = Rules(tune=True, grid=3)
    for step, made in (
        (0.003, lambda s: s),
        ("diminishing:initial=0.003", lambda s: f"diminishing:initial={s}"),
    ):
        method = DRFGT(step_size=step)
        grid = candidates("drfgt", method, method, run, rules)
        assert [one.algorithm for one in grid] == [
            DRFGT(step_size=made(s)) for s in (0.0015, 0.003, 0.006)
        ]


def test_an_automatic_policy_is_centred_where_it_starts() -> None:
    """The horizon's step is its start divided by the square root of the horizon."""
    method = DRFGT(step_size="horizon:iterations=400")
    run = do.solve(procrustes(0), method, graph(0), iterations=0)
    grid = candidates("drfgt", method, method, run, Rules(tune=True, grid=2))
    automatic = do.solve(procrustes(0), DRFGT(), graph(0), iterations=0).state.step_size.mean()
    assert grid[1].algorithm.step_size.initial == pytest.approx(2.0 * automatic, rel=5e-3)


def test_methods_by_sums_are_compared_with_gossip() -> None:
    """Set-up adds in another order, so the data are the same to six digits."""

    def correlated(seed: int) -> Any:
        return CCASettings(
            data="synthetic", dimension=5, dimension_y=4, rank=2, samples=30
        ).problem(AGENTS, seed)

    rules = Rules(trials=2, iterations=300, tolerances=(1e-6,))
    found = compare(correlated, ("lbfgs", "cdadt", "direct"), graph, rules)
    reached = {entry.label: entry.traces[0].status for entry in found.entries}
    assert reached["lbfgs"] == reached["direct"] == "converged"


def test_auto_is_compared_as_the_method_that_it_takes(tmp_path: Path) -> None:
    """By name in Python: the counts of its choice, which the table names, also when loaded."""
    rules = Rules(trials=2, iterations=300, tolerances=(1e-2, 1e-6))
    found = compare(pca, "auto,direct,block_krylov,lbfgs,drfgt", graph, rules, out=tmp_path)
    names = ("iterations", "rounds", "bytes", "gradients")
    lines = {(line.algorithm, line.tolerance): line for line in found.lines}
    for tolerance in rules.tolerances:
        own, direct, gossip = (lines[name, tolerance] for name in ("auto", "direct", "drfgt"))
        assert [own.counts[name] for name in names] == [direct.counts[name] for name in names]
        assert own.reached == 2
        assert own.counts["bytes"].median < gossip.counts["bytes"].median
    steps = [entry.step for entry in load(tmp_path).entries]
    assert steps == ["takes Direct", "none", "none", "none", found.entries[-1].step]
    objective = compare(procrustes, "auto", graph, rules)
    assert objective.entries[0].step == "takes LBFGS"


def test_sums_are_refused_in_a_comparison_on_changing_graphs() -> None:
    sequence = tp.PeriodicSequence([graph(0), graph(1)])
    with pytest.raises(ValueError, match="this network changes over time"):
        compare(pca, "direct,drfgt:step_size=0.01,penalty=1", sequence, Rules(trials=1))


def test_a_comparison_in_python_continues_and_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs that are in the folder are not made again, unless the problem is another."""
    rules = Rules(trials=2, iterations=20, tolerances=(1.0,))
    first = compare(procrustes, CTA, graph, rules, out=tmp_path, progress=True)
    assert "2/2 trials" in capsys.readouterr().out
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    assert len(kept) == 2
    more = compare(procrustes, f"{CTA},{ATC}", graph, rules, out=tmp_path)
    assert capsys.readouterr().out == ""
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len([*(tmp_path / "runs").iterdir()]) == 4
    assert load(tmp_path).table("csv") == more.table("csv")
    np.testing.assert_equal(more.entries[0].traces[0].history, first.entries[0].traces[0].history)
    changed = compare(pca, CTA, graph, rules, out=tmp_path)
    assert changed.table("csv").splitlines()[1:] != first.table("csv").splitlines()[1:]
    (tmp_path / "comparison.yaml").write_text("")
    with pytest.raises(ValueError, match="holds a comparison of the command line"):
        compare(procrustes, CTA, graph, rules, out=tmp_path)
