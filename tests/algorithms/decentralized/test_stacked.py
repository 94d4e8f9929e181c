"""Methods on several J-orthogonal matrices over free rows: each matrix is turned as it would be
alone, free rows go Adam's way."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from decentorth import CSDM, JJOBCD, VRJJOBCD, iterate, solve
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import AgentProblem, UltraESettings
from decentorth.protocols import Array, Index
from decentorth.sets import JOrthogonal, JOrthogonalStack
from tests.families.j_orthogonal import jobcd_by_equations as naive
from tests.support.j_orthogonal import LogCosh, signs
from tests.support.j_orthogonal import states as of_problem

N, COPIES, FREE, SAMPLES, RATE = 7, 3, 2, 40, 0.05
BOUND = COPIES * N


class Stacked(AgentProblem[JOrthogonalStack]):
    """sum_c f_c(x_c) + f_0(rows below), functions `LogCosh` of as many samples; no Lipschitz
    constant."""

    def __init__(self) -> None:
        super().__init__(
            1, slice(0, 1), JOrthogonalStack(JOrthogonal.with_signs(signs(N)), COPIES, FREE)
        )
        rng = np.random.default_rng(0)
        self.each = [LogCosh(rng.standard_normal((SAMPLES, N)), signs(N)) for _ in range(COPIES)]
        self.below = LogCosh(rng.standard_normal((SAMPLES, FREE)), np.ones(FREE))
        self.n_samples = np.array([SAMPLES], dtype=np.int64)

    def _take(self, local: slice) -> None:
        """There is one agent."""

    def _parts(self, x: Array) -> list[tuple[LogCosh, Array]]:
        matrices = [(f, x[:, N * c : N * c + N]) for c, f in enumerate(self.each)]
        return [*matrices, (self.below, x[:, BOUND:])]

    def value(self, x: Array) -> Array:
        return np.add.reduce([f.value(part) for f, part in self._parts(x)])

    def gradient(self, x: Array) -> Array:
        return np.concatenate([f.gradient(part) for f, part in self._parts(x)], axis=1)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        return np.concatenate([f.gradient_on(part, batch) for f, part in self._parts(x)], axis=1)


PROBLEM = Stacked()
START = PROBLEM.start(1)
STREAMS = CounterStreams(0, slice(0, 1))


def states(algorithm: Any, number: int) -> list[Any]:
    return of_problem(PROBLEM, algorithm, number, START)


def pairs_of(k: int) -> list[list[tuple[int, int]]]:
    """Of each matrix: its rows in the order in which a permutation of all rows has them, two by
    two."""
    order = STREAMS.permutation("blocks", k, BOUND).tolist()
    found = []
    for c in range(COPIES):
        own = [row - c * N for row in order if row // N == c]
        found.append([(own[2 * i], own[2 * i + 1]) for i in range(N // 2)])
    return found


class Adam:
    """Entry by entry, from the formulas."""

    def __init__(self, free: Array) -> None:
        self.x, self.m, self.s, self.k = free.copy(), np.zeros_like(free), np.zeros_like(free), 0

    def step(self, g: Array) -> Array:
        self.k += 1
        for place in np.ndindex(*self.x.shape):
            self.m[place] = 0.9 * self.m[place] + 0.1 * g[place]
            self.s[place] = 0.999 * self.s[place] + 0.001 * g[place] ** 2
            mean, square = self.m[place] / (1 - 0.9**self.k), self.s[place] / (1 - 0.999**self.k)
            self.x[place] -= RATE * mean / (np.sqrt(square) + 1e-8)
        return self.x


def turned(x: Array, g: Array, k: int, varsigma: float) -> Array:
    after = x[:BOUND].copy()
    for c, pairs in enumerate(pairs_of(k)):
        own = slice(N * c, N * c + N)
        q = [varsigma * np.eye(4)] * len(pairs)
        after[own] = naive.step(x[own], g[own], pairs, PROBLEM.constraint.each.signs, 1e-6, q)
    return after


def test_j_jobcd_turns_all_matrices_and_adam_moves_the_rest() -> None:
    found = states(JJOBCD(varsigma=30.0, learning_rate=RATE), 8)
    x, adam = START, Adam(START[BOUND:])
    for k in range(8):
        g = PROBLEM.gradient(x[None])[0]
        x = np.concatenate((turned(x, g, k, 30.0), adam.step(g[BOUND:])))
        np.testing.assert_allclose(found[k + 1].x[0], x, atol=1e-11)


def test_rounds_go_down_one_majoriser() -> None:
    """G + L (y - x) is its gradient; after any number of rounds f is below it, and it below f at
    the start."""
    found = states(JJOBCD(varsigma="pair", rounds=4, learning_rate=1e-300), 5)
    L, each = float(found[0].varsigma[0]), PROBLEM.constraint.each.signs
    for k in range(5):
        x = found[k].x[0]
        y, g = x.copy(), PROBLEM.gradient(x[None])[0]
        for number in range(4):
            slope, before = (g + L * (y - x))[:BOUND], y.copy()
            for c, pairs in enumerate(pairs_of(4 * k + number)):
                own = slice(N * c, N * c + N)
                q = [naive.isotropic(before[own], L, pair) for pair in pairs]
                y[own] = naive.step(before[own], slope[own], pairs, each, 1e-6, q)
        np.testing.assert_allclose(found[k + 1].x[0], y, atol=1e-10)
        moved = y - x
        bound = (
            PROBLEM.value(x[None])[0]
            + float((g * moved).sum())
            + 0.5 * L * float((moved * moved).sum())
        )
        assert PROBLEM.value(y[None])[0] <= bound <= PROBLEM.value(x[None])[0]
    one = states(JJOBCD(varsigma="pair", learning_rate=1e-300), 5)
    assert PROBLEM.value(found[-1].x)[0] < PROBLEM.value(one[-1].x)[0]


def test_vr_j_jobcd_moves_all_of_it_along_one_estimate() -> None:
    found = states(VRJJOBCD(varsigma=30.0, learning_rate=RATE, batch_size=6, restart=0.4), 10)
    adam = Adam(START[BOUND:])
    for k in range(10):
        x, g = found[k].x[0], found[k].estimate[0]
        wanted = np.concatenate((turned(x, g, k, 30.0), adam.step(g[BOUND:])))
        np.testing.assert_allclose(found[k + 1].x[0], wanted, atol=1e-11)


def test_vr_backtracks_where_its_estimate_is_new() -> None:
    """There it does what J-JOBCD does; in between it takes a hundred times the largest such L so
    far."""
    wanted = states(JJOBCD(learning_rate=RATE), 8)
    for one, other in zip(
        states(VRJJOBCD(varsigma="backtracking", learning_rate=RATE, restart=1.0), 8),
        wanted,
        strict=True,
    ):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.varsigma, other.varsigma)
    found = states(
        VRJJOBCD(varsigma="backtracking", learning_rate=RATE, batch_size=6, restart=0.0), 6
    )
    np.testing.assert_array_equal(found[1].x, wanted[1].x)
    L, each = float(wanted[1].varsigma[0]), PROBLEM.constraint.each.signs
    for k in range(1, 6):
        x, g = found[k].x[0], found[k].estimate[0]
        for c, pairs in enumerate(pairs_of(k)):
            own = slice(N * c, N * c + N)
            q = [naive.isotropic(x[own], 100.0 * L, pair) for pair in pairs]
            np.testing.assert_allclose(
                found[k + 1].x[0, own], naive.step(x[own], g[own], pairs, each, 1e-6, q), atol=1e-11
            )
        assert found[k + 1].varsigma[0] == L
    often = states(
        VRJJOBCD(varsigma="backtracking", learning_rate=RATE, batch_size=6, restart=0.8), 12
    )
    levels = [float(one.varsigma[0]) for one in often]
    assert any(np.diff(levels[1:]) < 0.0)
    assert [float(one.largest[0]) for one in often[1:]] == np.maximum.accumulate(
        levels[1:]
    ).tolist()


@pytest.mark.slow
def test_vr_does_not_rise_above_its_start_where_curvature_falls_with_the_loss() -> None:
    """A softmax of the signed score: with the L of the last restart in place of the largest the
    loss rises to twice its start."""
    problem = UltraESettings(score="signed", loss="softmax").problem(1, 1)
    losses = solve(
        problem, VRJJOBCD(rounds=15), seed=1, iterations=1000, record_every=100, comm="serial"
    ).history["objective"]
    assert losses.max() == losses[0]
    assert losses[-1] < 1e-2


def test_csdm_is_that_of_each_matrix() -> None:
    """Adagrad knows entries only, so a matrix goes the way that it goes alone."""
    found = states(CSDM(step_size=0.1, learning_rate=RATE), 12)
    adam = Adam(START[BOUND:])
    for k in range(12):
        free = adam.step(PROBLEM.gradient(found[k].x)[0, BOUND:])
        np.testing.assert_allclose(found[k + 1].x[0, BOUND:], free, atol=1e-12)
    for c, f in enumerate(PROBLEM.each):
        own = slice(N * c, N * c + N)
        alone = list(islice(iterate(f, CSDM(step_size=0.1), x0=START[own], comm="serial"), 13))[-1]
        np.testing.assert_allclose(found[-1].x[0, own], alone.x[0], rtol=1e-10, atol=1e-11)


def test_backtracking_looks_at_all_matrices_together() -> None:
    """The value it compares with is that of the point, Adam's step included."""
    for state in states(JJOBCD(learning_rate=RATE), 10):
        assert state.value[0] == pytest.approx(PROBLEM.value(state.x)[0], rel=1e-14)
