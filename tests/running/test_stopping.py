"""When a run ends: rules, their combinations, and agents that decide themselves, in which no
observer has a say."""

from __future__ import annotations

import contextlib
import operator
import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.algorithms import CDADT
from decentorth.api import Run, set_up
from decentorth.network import SerialCommunicator
from decentorth.network.collective import AgentCollective
from decentorth.numerics.states import copied, mapped
from decentorth.problems import RSRSettings, Spread
from decentorth.protocols import Agreed, Array, Collective, Row, Stop
from decentorth.running.checkpoint import Snapshot, kept
from decentorth.running.local_stopping import Agreement, Tally
from decentorth.stopping import (
    Consensus,
    Error,
    Feasibility,
    GradientNorm,
    Iterations,
    LocalMaximum,
    ObjectiveBelow,
    Rule,
    Time,
    rules_of,
)
from tests.reference import naive
from tests.support.distributed import own_pencils
from tests.support.marks import first_row_is_quick
from tests.support.networks import Recording, Replaying
from tests.support.problems import GRAPHS, pca, procrustes
from tests.support.threads import on_ranks

GROWING = ("drgta", "dprgt", "rextra", "rfextra", "drfgt", "destiny")
ALONE = AgentCollective(SerialCommunicator(), np.array([0, 4]))


def row(iteration: int = 10, seconds: float = 2.0, **values: float) -> Row:
    return Row(iteration, iteration, 0, 0, iteration, seconds, values)


@dataclass
class Says(Rule):
    """A rule with one answer, which counts how often it was asked."""

    answer: Stop | None
    asked: int = field(default=0, compare=False)

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        self.asked += 1
        return self.answer


GOOD = Stop("converged", True, "small enough")
BETTER = Stop("converged", True, "smaller still")
LATE = Stop("time_limit", False, "too late")
DONE = Stop("iterations", False, "all done")


def test_the_floor_of_an_objective() -> None:
    floor = ObjectiveBelow(-1e3)
    assert floor(row(objective=-999.0), ALONE) is None
    assert floor(row(objective=-1e3), ALONE) == Stop(
        "objective_floor", False, "objective -1000 <= -1000"
    )
    with pytest.raises(ValueError, match="floor must be finite, got nan"):
        ObjectiveBelow(np.nan)


@pytest.mark.parametrize("other", [1e-3, True, None, Consensus])
def test_what_is_no_rule_does_not_combine(other: Any) -> None:
    for combine in (operator.and_, operator.or_):
        with pytest.raises(
            TypeError, match=r"combine rules such as do\.stopping\.GradientNorm\(1e-6\), got "
        ):
            combine(GradientNorm(1e-6), other)


def test_a_function_in_a_combination_answers_true_or_false() -> None:
    answers: Any = lambda row, collective: row.iteration > 10  # noqa: E731
    either, both = GradientNorm(1e-6) | answers | Iterations(99), GradientNorm(1e-6) & answers
    stopped = Stop("stopped", False, "the stopping rule ended the run at iteration 11")
    assert (either(row(gradient_norm=1.0), ALONE), both(row(gradient_norm=1.0), ALONE)) == (
        None,
        None,
    )
    assert (either(row(11, gradient_norm=1.0), ALONE), both(row(11, gradient_norm=1.0), ALONE)) == (
        stopped,
        None,
    )
    found = both(row(11, gradient_norm=0.0), ALONE)
    assert found is not None
    assert (found.status, found.converged) == ("stopped", False)


@pytest.mark.parametrize(
    ("one", "two", "either", "both"),
    [
        (None, None, None, None),
        (GOOD, None, GOOD, None),
        (None, GOOD, GOOD, None),
        (LATE, None, LATE, None),
        (GOOD, BETTER, GOOD, ("converged", True)),
        (GOOD, LATE, GOOD, ("time_limit", False)),
        (LATE, GOOD, GOOD, ("time_limit", False)),
        (DONE, LATE, LATE, ("time_limit", False)),
    ],
)
def test_either_and_both(
    one: Stop | None, two: Stop | None, either: Stop | None, both: tuple[str, bool] | None
) -> None:
    """The run has converged where either rule means it, or where both do; both are asked, since
    asking may communicate."""
    first, second = Says(one), Says(two)
    assert (first | second)(row(), ALONE) == either
    found = (first & second)(row(), ALONE)
    assert (first.asked, second.asked) == (2, 2)
    assert (found is None) == (both is None)
    if one and two and both:
        assert found == Stop(*both, f"{one.message}, {two.message}")


@pytest.mark.parametrize(
    ("rule", "metric", "words"),
    [
        (GradientNorm, "gradient_norm", "gradient norm"),
        (Consensus, "consensus_rms", "consensus rms"),
        (Feasibility, "feasibility", "feasibility"),
        (Error, "error", "error"),
    ],
)
def test_tolerances(rule: Any, metric: str, words: str) -> None:
    others: dict[str, Any] = dict.fromkeys(
        ("gradient_norm", "consensus_rms", "feasibility", "error"), 1.0
    )
    small = rule(1e-3)
    assert small(row(**{**others, metric: 1e-3}), ALONE) == Stop(
        "converged", True, f"{words} 1.00e-03 <= 0.001"
    )
    assert small(row(**{**others, metric: np.nextafter(1e-3, 1)}), ALONE) is None
    assert small(row(**{**others, metric: float("nan")}), ALONE) is None
    assert small(row(**others), ALONE) is None
    with pytest.raises(
        ValueError, match="an error tolerance needs a problem whose answer is known"
    ):
        Error(1e-3)(row(gradient_norm=0.0), ALONE)
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"tolerance must be positive and finite, got {bad}"):
            rule(bad)


FIRST = row(0, gradient_norm=10.0, error=4.0, consensus_rms=0.0, feasibility=0.0)
SIZE = 2.0


@pytest.mark.parametrize(
    ("rule", "bound"),
    [
        (GradientNorm(1e-3), 2e-4),  # 1e-4 of the first gradient norm
        (GradientNorm(1e-4, relative=True), 2e-4),
        (GradientNorm(1e-9), 2e-6),
        (GradientNorm(1e-9, relative=True), 2e-6),
        (Error(4e-3), 2e-3),
        (GradientNorm(1e-3) & Error(4e-5), 2e-5),  # the smaller share
        (GradientNorm(1e-3) & Feasibility(1e-9), 2e-4),
        (GradientNorm(1e-3) | Iterations(11), 2e-4),
        (GradientNorm(1e-3) & Consensus(0.5), 0.5),
        (Consensus(0.5) & Error(4e-3), 0.5),
    ],
)
def test_convergence_needs_agents_that_agree(rule: Rule, bound: float) -> None:
    begun = rule.since(FIRST).agreed(FIRST, SIZE)
    assert rules_of(Iterations, begun) == rules_of(Iterations, rule)
    solved: dict[str, Any] = {"gradient_norm": 1e-12, "error": 1e-12, "feasibility": 0.0}
    near, far = (row(consensus_rms=bound * one, **solved) for one in (0.999, 1.001))
    stop = begun(near, ALONE)
    assert stop is not None
    assert (stop, begun.missed(near)) == (rule.since(FIRST)(near, ALONE), [])
    assert stop.converged
    assert begun(far, ALONE) is None
    assert begun.missed(far)[0].startswith(f"consensus rms {bound * 1.001:.3g} is 1 times ")


def test_agents_that_need_not_agree() -> None:
    for rule in (ObjectiveBelow(1.0), Iterations(3), Time(9.0), Feasibility(1e-3)):
        assert rule.agreed(FIRST, SIZE) is rule
    limited = (GradientNorm(1e-3) | Iterations(11)).agreed(FIRST, SIZE)
    stop = limited(row(11, gradient_norm=1e-9, consensus_rms=1.0), ALONE)
    assert stop == Stop("iterations", False, "stopped at the limit of 11 iterations")


@pytest.mark.parametrize(
    ("quantities", "status"),
    [
        ((), "converged"),
        (("gradient", "disagreement"), "converged"),
        (("gradient",), "stopped"),
        (("movement", "feasibility"), "stopped"),
    ],
)
def test_agents_that_have_not_compared_their_points(quantities: Any, status: str) -> None:
    """They end the run together; what they call convergence is one where they agree."""
    usual = ("gradient", "disagreement", "feasibility")
    maxima = dict.fromkeys((*usual, "movement"), 1e-4)
    rule = LocalMaximum(1e-3, quantities).agreed(FIRST, SIZE)
    for apart, expected in ((1e-4, "converged"), (1e-2, status)):
        met = row(consensus_rms=apart)._replace(agreed=Agreed(10, 3, maxima, usual))
        stop = rule(met, ALONE)
        assert stop is not None
        assert (stop.status, stop.converged) == (expected, expected == "converged")
        words = ", but consensus rms 0.01 is 50 times the 0.0002 of agreement"
        assert stop.message.endswith(words) is (expected == "stopped")
        assert rule(met._replace(agreed=None), ALONE) is None


FOUND_APART = [(4, "drgta"), *[(seed, name) for seed in range(12) for name in GROWING]]


@pytest.mark.parametrize(("seed", "name"), first_row_is_quick(FOUND_APART))
def test_agents_of_equal_data_have_not_converged_apart(seed: int, name: str) -> None:
    """Moves of like agents show no sign that a step is too large for their consensus, until
    rounding has grown: each agent's answer was off by 5e-2 where the mean was solved."""
    scales = np.linspace(2.0, 0.5, 6)
    data = np.random.default_rng(seed).standard_normal((12, 6)) * scales
    ring, problem = tp.metropolis_weights(tp.ring(5)), do.problems.PCA([data] * 5, 2)
    found = do.solve(problem, name, ring, iterations=3000, stopping=1e-9)
    assert found.status == "converged"
    assert found.row["consensus_rms"] <= 1e-6 * np.sqrt(2.0)
    for x in found.x:
        assert problem.error(x) < 1e-5


def test_agents_on_ranks_agree_like_those_of_one_process() -> None:
    def run(comm: Any) -> tuple[str, int, Any]:
        problem = pca().problem
        method = do.DPRGD(step_size=1e-3)
        rule = GradientNorm(1e-2, relative=True)
        found = do.solve(problem, method, "ring", iterations=2000, stopping=rule, comm=comm)
        return found.message, found.row.iteration, found.row["consensus_rms"]

    alone = run("serial")
    assert on_ranks(2, run) == [alone, alone]


def test_iterations_and_time() -> None:
    assert [Iterations(10)(row(k), ALONE) is None for k in (9, 10, 11)] == [True, False, False]
    assert Iterations(10)(row(10), ALONE) == Stop(
        "iterations", False, "stopped at the limit of 10 iterations"
    )
    assert Time("2m") == Time(120)  # type: ignore[arg-type]  # text is read
    assert Time(2.5)(row(seconds=2.0), ALONE) is None
    assert Time(2.0)(row(seconds=2.0), ALONE) == Stop(
        "time_limit", False, "stopped at the time limit of 2 s"
    )
    for make, words in (
        (Iterations, "number must be at least 0, got -1"),
        (Time, "seconds must be positive and finite, got -1"),
    ):
        with pytest.raises(ValueError, match=words):
            make(-1)


def test_the_clock_of_rank_0_decides_for_all() -> None:
    bounds = np.array([0, 1, 2, 3])

    def asked(fast: int) -> list[bool]:
        """Whether each rank stops when rank ``fast`` alone has more time left."""

        def on_rank(communicator: Any) -> bool:
            seconds = 1.0 if communicator.rank == fast else 3.0
            return (
                Time(2.0)(row(seconds=seconds), AgentCollective(communicator, bounds)) is not None
            )

        return on_ranks(3, on_rank)

    assert asked(0) == [False] * 3
    assert asked(1) == [True] * 3


def test_and_or_and_not_name_the_signs_that_combine_rules() -> None:
    """Python's own words would keep one rule and drop the other without a word."""
    one, two = GradientNorm(1e-6), Consensus(1e-6)
    for combined in (lambda: one and two, lambda: one | two or one, lambda: not one & two):
        with pytest.raises(
            TypeError, match=r"neither true nor false: write & for 'and' and \| for 'or'"
        ):
            combined()


def test_an_incomplete_rule_says_so() -> None:
    class Nothing(Rule):
        pass

    with pytest.raises(TypeError, match="Nothing is not a complete rule: it must define __call__"):
        Nothing()(row(), ALONE)


N = 5
RING = GRAPHS["ring"](N)


def quantities(states: list[Any], W: Array, factor: float | None) -> dict[str, float]:
    """The largest of each over the agents, from the last two states, agent by agent."""
    before, now = states
    neighbours = [[j for j in range(len(W)) if W[i, j] != 0] for i in range(len(W))]
    found = {
        "disagreement": [
            naive.norm(x - sum(W[i, j] * now.x[j] for j in neighbours[i]))
            for i, x in enumerate(now.x)
        ],
        "feasibility": [naive.infeasibility(x) for x in now.x],
    }
    if factor is not None:
        found["gradient"] = [factor * naive.norm(y) for y in now.tracker]
    else:
        steps = getattr(before, "step_size", np.ones(len(W)))
        found["movement"] = [
            naive.norm(x - old) / step for x, old, step in zip(now.x, before.x, steps, strict=True)
        ]
    return {name: max(values) for name, values in found.items()}


def first_stop(
    run: Run, W: Array, rule: LocalMaximum, every: int, factor: float | None
) -> tuple[int, dict[str, float]]:
    """The first iteration at which the agents meet and all quantities are within the tolerance, and
    the largest of them."""
    states = run.states()
    before = None
    for state in states:
        if state.k % every == 0 and before is not None:
            found = quantities([before, state], W, factor)
            if max(found.values()) <= rule.tolerance:
                return state.k, found
        before = copied(state)
    raise AssertionError


METHODS: dict[str, tuple[Any, float | None]] = {
    "DRFGT": (do.DRFGT(), 2.0),
    "DESTINY": (do.DESTINY(), 1.0),
    "DPRGT": (do.DPRGT(rounds=2), 1.0),
    "REXTRA": (do.REXTRA(), None),
    "DeEPCA": (do.DeEPCA(), None),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "graph"),
    [("DRFGT", "ring"), ("DESTINY", "path"), ("REXTRA", "star"), ("DeEPCA", "ring")],
)
def test_they_stop_where_they_first_meet_with_all_of_them_done(name: str, graph: str) -> None:
    """Never early, and no later than `every` iterations after; the points are those of a run that
    nobody stops."""
    algorithm, factor = METHODS[name]
    W = GRAPHS[graph](N)
    every, rule = 7, LocalMaximum(1e-3, every=7)
    result = do.solve(pca().problem, algorithm, W, iterations=5000, stopping=rule)
    k, found = first_stop(set_up(pca().problem, algorithm, W), W.toarray(), rule, every, factor)
    assert (result.status, result.converged, result.state.k, result.row.iteration) == (
        "converged",
        True,
        k,
        k,
    )
    agreed = result.row.agreed
    assert agreed is not None
    assert agreed.maxima == pytest.approx(found, rel=1e-9, abs=1e-14)
    said = ", ".join(f"{word} {value:.2e}" for word, value in agreed.maxima.items())
    assert (
        result.message
        == f"the agents agreed by {tp.flooding_rounds(W)} rounds of max-consensus: local {said} <= "
        "0.001"
    )
    state = next(islice(set_up(pca().problem, algorithm, W).states(), k, None))
    assert state.x.tobytes() == result.x.tobytes()


def test_every_round_message_and_byte_is_counted_in_all_and_apart() -> None:
    """Per attempt: one exchange of points, diameter rounds of three numbers; the default is ten
    iterations for each round."""
    algorithm = do.DRFGT(step_size=0.02, penalty=1.0, order="combine-then-adapt")
    result = do.solve(pca().problem, algorithm, RING, iterations=100, stopping=LocalMaximum(1e-9))
    agreement = result.agreement
    assert agreement is not None
    assert (agreement.every, agreement.rounds, agreement.exchanges) == (30, 2, 3)
    attempts, edges, size = 4, 2 * N, 36  # at 0, 30, 60, 90
    apart = Tally(
        attempts, 3 * attempts, 3 * attempts * edges, attempts * edges * 8 * (size + 2 * 3)
    )
    assert agreement.tally == apart
    row = result.row
    assert (row.rounds, row.messages) == (100 + apart.rounds, 100 * edges + apart.messages)
    assert row.bytes == 100 * edges * 8 * 2 * size + apart.bytes
    only = do.solve(
        pca().problem,
        do.DRFGT(),
        RING,
        iterations=90,
        stopping=LocalMaximum(1e-9, ("gradient",), 30, 4),
    ).agreement
    assert only is not None
    assert only.tally == Tally(4, 16, 16 * edges, 16 * edges * 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "graph", "tolerance"),
    [("DRFGT", "ring", 1e-5), ("DESTINY", "star", 1e-5), ("DPRGT", "ring", 1e-2)],
)
def test_what_a_local_tolerance_implies(name: str, graph: str, tolerance: float) -> None:
    """Inequalities (2) to (4) of `agreement`, with the steepest secant of the fields for L."""
    algorithm, c = METHODS[name]
    assert c is not None
    for case in (pca(), procrustes()) if graph == "ring" else (procrustes(),):
        W, problem = GRAPHS[graph](N), case.problem
        result = do.solve(
            problem, algorithm, W, iterations=40_000, stopping=LocalMaximum(tolerance, every=5)
        )
        assert result.converged
        gap = 1.0 - tp.spectrum(W).lambda_2
        mean = result.x.mean(0)
        hat = naive.polar(mean)
        r = tolerance / gap
        s = np.hypot(r, r + tolerance)
        assert np.sqrt(np.mean([naive.norm(x - mean) ** 2 for x in result.x])) <= r
        assert result.row.values["consensus_rms"] <= s
        here, there = (
            tracked(name, problem, result.state, x)
            for x in (result.x, np.repeat(hat[None], N, axis=0))
        )
        L = max(
            naive.norm(f - g) / naive.norm(x - hat)
            for f, g, x in zip(here, there, result.x, strict=True)
        )
        assert result.row.values["gradient_norm"] <= tolerance + c * L * s
        rest = np.mean([naive.norm(f - g) for f, g in zip(here, there, strict=True)])
        assert result.row.values["gradient_norm"] <= tolerance + c * rest


def tracked(name: str, problem: Any, state: Any, x: Array) -> Any:
    gradient = problem.gradient(x)
    if name == "DPRGT":
        return problem.constraint.tangent(x, gradient)
    of_penalty = problem.constraint.landing if name == "DRFGT" else problem.constraint.dissolved
    return of_penalty(x, gradient, state.penalty)


@pytest.mark.parametrize(
    ("algorithm", "field"),
    [
        (do.DRFGT(), "landing"),
        (do.DRGTA(), "tangent"),
        (do.DESTINY(), "dissolved"),
        (do.DPRGT(), "tangent"),
        (do.GradientTracking(penalty=5.0), "penalised"),
    ],
)
def test_how_much_shorter_than_the_riemannian_gradient_a_field_may_be(
    algorithm: Any, field: str
) -> None:
    """Where x^T x = I; for one gradient, orthogonal to x, it is as short as that."""
    assert algorithm.gradient_factor is not None
    constraint, rng = pca().problem.constraint, np.random.default_rng(0)
    x = constraint.project(rng.standard_normal((200, *constraint.shape)))
    g = rng.standard_normal(x.shape)
    g[0] -= x[0] @ (x[0].T @ g[0])
    penalty = [] if field == "tangent" else [np.full(200, 3.0)]
    fields = getattr(constraint, field)(x, g, *penalty)
    ratios = [
        naive.norm(naive.tangent_projection(a, b)) / naive.norm(f)
        for a, b, f in zip(x, g, fields, strict=True)
    ]
    assert max(ratios) <= algorithm.gradient_factor * (1 + 1e-12)
    assert ratios[0] == pytest.approx(algorithm.gradient_factor, rel=1e-12)


@pytest.mark.slow
def test_movement_bounds_the_mean_field_of_descent() -> None:
    """x_i <- sum_j W_ij x_j - alpha F_i(x_i): the mean movement over alpha is the mean field,
    though no F_i vanishes."""
    problem, alpha = pca().problem, 0.02
    algorithm = do.DGD(step_size=alpha, penalty=20.0)
    result = do.solve(
        problem,
        algorithm,
        RING,
        iterations=20_000,
        stopping=LocalMaximum(1e-7, ("movement",), every=10),
    )
    assert (result.status, result.converged) == ("stopped", False)
    assert "of agreement; DGD does not agree exactly" in result.message
    fields = problem.constraint.penalised(result.x, problem.gradient(result.x), np.full(N, 20.0))
    assert naive.norm(naive.mean(fields)) <= 1.1e-7
    assert min(naive.norm(each) for each in fields) > 1e-2


class _Meets:
    """What agents that meet know of their network beforehand, and what it has cost."""

    flooding_rounds, period = 2, 1
    rounds = messages = bytes = 0
    reliable = contextlib.nullcontext


class Meeting(_Meets, Recording):
    pass


class MeetingAgain(_Meets, Replaying):
    pass


@pytest.mark.parametrize(("algorithm", "case"), [(do.DRFGT(), procrustes), (do.REXTRA(), pca)])
def test_an_agent_knows_only_what_its_neighbours_tell_it(algorithm: Any, case: Any) -> None:
    """Every exchange of the agents that meet is recorded; each alone, told the same, comes to the
    same conclusion."""
    rule = LocalMaximum(0.3, every=40)
    setup = set_up(case().problem, algorithm, RING)
    recording: Any = Meeting(setup.network)
    together = Agreement((rule,), setup.problem, algorithm, recording)
    states, verdicts = [], []
    for state in islice(setup.states(), 401):
        states.append(copied(state))
        if state.k == together.next:
            together.look(Snapshot(state, (0, 0, 0), {}, {}))
            verdicts.append((state.k, together.wanted == state.k, together.latest))
    assert {met for _, met, _ in verdicts} == {False, True}
    for agent in range(N):
        own = slice(agent, agent + 1)
        network: Any = MeetingAgain(recording, agent)
        problem = setup.problem.restrict(own)
        alone = Agreement((rule,), problem, algorithm, network)
        for k, met, latest in verdicts:
            state = of_agents(states[k], own)
            assert alone.next == k
            alone.look(Snapshot(state, (0, 0, 0), {}, {}))
            assert (alone.wanted == k, alone.latest) == (met, latest)
        assert network.exhausted()


def of_agents(state: Any, own: slice) -> Any:
    """The state of some agents."""

    def taken(_: str, entry: Any) -> Any:
        return entry[own] if isinstance(entry, np.ndarray) else entry

    return mapped(state, "", taken)


@pytest.mark.slow
@pytest.mark.parametrize(
    "channel", [("bursts:p=0.2,length=5,bad=1",), ("sleep:p=0.1", "topk:share=0.3")]
)
def test_on_a_bad_channel_they_wait_for_each_other(channel: tuple[str, ...]) -> None:
    """What is lost is sent again, so that they decide alike, in one iteration, and what they say is
    true."""
    algorithm, rule = (
        do.DRFGT(step_size=0.02, penalty=1.0, order="combine-then-adapt"),
        LocalMaximum(1e-3, every=20),
    )
    W = tp.uniform_weights(tp.ring(N), 0.8)
    result = do.solve(
        pca().problem, algorithm, W, iterations=20_000, stopping=rule, channel=do.Channel(*channel)
    )
    assert result.converged
    assert result.row.agreed is not None
    found = quantities([result.state, result.state], W.toarray(), 2.0)
    assert result.row.agreed.maxima == pytest.approx(
        {name: found[name] for name in result.row.agreed.maxima}, rel=1e-9
    )
    agreement = result.agreement
    assert agreement is not None
    assert result.row.rounds == result.state.k + agreement.tally.rounds
    if "sleep" not in channel[0]:
        assert agreement.tally.rounds > 3 * agreement.tally.attempts
        assert agreement.tally.messages > 3 * agreement.tally.attempts * 2 * N


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one_peer_exponential:8", "periodic@ring:8|star:8"])
def test_on_a_network_that_repeats_itself(name: str) -> None:
    """Disagreement is that with what a whole period makes of the points; with one peer at a time it
    is x_i - xbar."""
    sequence = tp.sequence_from_name(name)
    problem = pca((6,) * 8).problem
    result = do.solve(
        problem,
        do.DRFGT(step_size=0.02, penalty=1.0),
        sequence,
        iterations=20_000,
        stopping=LocalMaximum(1e-3, every=10),
    )
    assert result.converged
    agreed = result.row.agreed
    assert agreed is not None
    assert agreed.rounds == tp.flooding_rounds(sequence)
    spread = [naive.norm(x - result.x.mean(0)) for x in result.x]
    if name.startswith("one"):
        assert agreed.maxima["disagreement"] == pytest.approx(max(spread), rel=1e-6)
    period = sequence.period
    assert period is not None
    worst = max(tp.joint_contraction(sequence, start) for start in range(period))
    assert np.sqrt(np.mean(np.square(spread))) <= 1e-3 / (1.0 - worst)


def bits(result: do.Result) -> tuple[Any, ...]:
    history = {
        name: column.tobytes() for name, column in result.history.items() if name != "seconds"
    }
    assert result.agreement is not None
    return (
        result.x.tobytes(),
        history,
        result.status,
        result.message,
        result.agreement.tally,
        result.agreement.latest,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "channel"), [(do.DRFGT(), None), (do.REXTRA(), "loss:p=0.1")]
)
def test_a_run_that_goes_on_is_one_that_never_stopped(
    algorithm: Any, channel: str | None, tmp_path: Path
) -> None:
    def go(iterations: int, **options: Any) -> do.Result:
        arguments: Any = {
            "stopping": LocalMaximum(1e-2, every=10),
            "record_every": 1,
            "channel": channel,
        }
        return do.solve(
            pca().problem, algorithm, RING, iterations=iterations, **arguments, **options
        )

    whole = go(3000)
    assert whole.converged
    assert whole.state.k > 40
    for cut in (18, 19, 20, 21):
        folder = tmp_path / str(cut)
        go(cut, checkpoints=do.Checkpoints(folder))
        assert bits(go(3000, resume=folder)) == bits(whole)
    go(3000, checkpoints=do.Checkpoints(tmp_path / "end", every=10))
    assert bits(go(3000, resume=tmp_path / "end")) == bits(whole)
    assert bits(go(3000, resume=kept(tmp_path / "end")[1])) == bits(whole)


def test_a_run_that_goes_on_may_be_judged_anew(tmp_path: Path) -> None:
    problem = pca().problem

    def go(rule: Any, **options: Any) -> do.Result:
        return do.solve(
            problem, do.DRFGT(), RING, iterations=5000, stopping=rule, record_every=5000, **options
        )

    first = go(LocalMaximum(1e-2, every=10), checkpoints=do.Checkpoints(tmp_path))
    further = go(LocalMaximum(1e-4, every=10), resume=tmp_path)
    assert further.state.k == go(LocalMaximum(1e-4, every=10)).state.k > first.state.k
    again = go(LocalMaximum(1e-2, ("feasibility",), every=10), resume=tmp_path)
    assert again.state.k == first.state.k
    assert again.message.startswith(
        "the agents agreed by 2 rounds of max-consensus: local feasibility"
    )


@pytest.mark.parametrize("algorithm", [do.RGD(), do.DRFGT()])
def test_an_agent_alone_is_the_global_rule(algorithm: Any) -> None:
    problem = pca().problem.pooled()
    mine = do.solve(
        problem, algorithm, iterations=20_000, stopping=LocalMaximum(1e-4, ("gradient",), every=10)
    )
    theirs = do.solve(
        problem, algorithm, iterations=20_000, stopping=GradientNorm(1e-4), record_every=10
    )
    assert mine.state.k == theirs.state.k
    assert mine.row.agreed is not None
    assert mine.row.agreed.maxima == {"gradient": theirs.row.values["gradient_norm"]}
    assert mine.message.startswith("the agent decided alone: local gradient ")
    assert mine.row.rounds == theirs.row.rounds


@pytest.mark.slow
def test_an_agent_whose_samples_are_spread_decides_the_same_on_all_ranks() -> None:
    def stopped(communicator: Any) -> tuple[int, str]:
        algorithm = do.Landing(step_size=0.05, penalty=1.0)
        result = do.solve(
            Spread(pca().problem),
            algorithm,
            comm=communicator,
            iterations=5000,
            stopping=LocalMaximum(1e-3),
        )
        return result.state.k, result.message

    alone = stopped("serial")
    assert alone[1].startswith("the agent decided alone")
    assert on_ranks(2, stopped) == [alone] * 2


def test_with_the_rules_of_an_observer() -> None:
    """`&` waits for both, `|` for either; rows are added where the agents agree and the observer
    does not."""
    arguments: Any = {"iterations": 5000, "record_every": 5000}

    def go(rule: Any) -> do.Result:
        return do.solve(
            pca().problem, do.DRFGT(step_size="constant"), RING, stopping=rule, **arguments
        )

    agents, observer = LocalMaximum(1e-2, every=10), GradientNorm(1e-5)
    early = go(agents)
    both = go(agents & observer)
    either = go(observer | agents)
    assert (both.converged, either.converged) == (True, True)
    assert either.state.k == early.state.k < both.state.k
    assert both.state.k % 10 == 0
    assert both.message.startswith("the agents agreed by ")
    assert re.search(", gradient norm .* <= 1e-05$", both.message)
    assert both.history["iteration"].tolist() == [0, *range(early.state.k, both.state.k + 1, 10)]
    two = go(agents & LocalMaximum(1e-3, ("disagreement",), every=10))
    assert two.converged
    assert two.agreement is not None
    assert two.agreement.quantities == ("gradient", "disagreement", "feasibility")
    assert rules_of(LocalMaximum, agents & observer | ObjectiveBelow(0.0)) == (agents,)
    assert rules_of(LocalMaximum, Consensus(1.0)) == rules_of(LocalMaximum, None) == ()


def test_where_nobody_knows_the_constraint_agents_use_what_they_believe() -> None:
    """x_i^T d_i with the tracker d_i of the mean of the B_i x_i."""
    problem = own_pencils()
    result = do.solve(
        problem,
        CDADT(),
        GRAPHS["ring"](problem.n_agents),
        iterations=20_000,
        stopping=LocalMaximum(1e-4, every=20),
    )
    assert result.converged
    agreed, state = result.row.agreed, result.state
    assert agreed is not None
    believed = [
        naive.norm(naive.sym(x.T @ d) - np.eye(x.shape[1]))
        for x, d in zip(state.x, state.product_tracker, strict=True)
    ]
    assert agreed.maxima["feasibility"] == pytest.approx(max(believed), rel=1e-9)
    assert tuple(agreed.maxima) == ("movement", "disagreement", "feasibility")


def test_agents_that_run_away_do_not_agree() -> None:
    result = do.solve(
        pca().problem,
        do.DRFGT(step_size=50.0, penalty=1.0),
        RING,
        iterations=100,
        stopping=LocalMaximum(1e-2, every=3),
    )
    assert result.status == "diverged"


def rsr() -> Any:
    return RSRSettings(dimension=6, rank=2, inliers=30, outliers=30).problem(1, 0)


GRADIENT = LocalMaximum(1e-3, ("gradient",))


@pytest.mark.parametrize(
    ("problem", "algorithm", "W", "rule", "words"),
    [
        (
            pca().problem,
            do.REXTRA(),
            RING,
            GRADIENT,
            "agents of this method have no estimate of the mean gradient",
        ),
        (rsr(), do.Landing(), None, LocalMaximum(1e-3), "needs a differentiable problem"),
        (
            pca().problem,
            do.DRFGT(),
            RING,
            LocalMaximum(1e-3, rounds=1),
            "1 rounds of max-consensus are too few .* it takes 2",
        ),
        (
            pca().problem,
            do.DRFGT(),
            RING,
            LocalMaximum(1e-3) & LocalMaximum(1e-2, every=7),
            "must have the same every and rounds",
        ),
        (
            pca().problem,
            do.DGD(step_size=1e-3, penalty=1.0),
            tp.RandomMatching(N, 0),
            LocalMaximum(1e-3),
            "no number of rounds is sure",
        ),
    ],
)
def test_what_agents_cannot_know(
    problem: Any, algorithm: Any, W: Any, rule: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        do.solve(problem, algorithm, W, iterations=5, stopping=rule)
