"""Block coordinate descent under J-orthogonality: its subproblems, its steps, and paper 001's
formulation beside ours.

    python benchmarks/jobcd.py              # everything; or some of:
    python benchmarks/jobcd.py subproblem   # 2 x 2 problems a second, compiled and in NumPy
    python benchmarks/jobcd.py steps        # a step of GS-JOBCD, an iteration of J-JOBCD, a sweep of the hyperbolic Jacobi method
    python benchmarks/jobcd.py speed        # time to objective values, n = 1000, against the full gradient in each step
    python benchmarks/jobcd.py printed      # paper 001's form, unbounded: time to the objective values of its table
    python benchmarks/jobcd.py exact        # gap to sum |eig(J C)| against seconds, n = 20, 100, 500
    python benchmarks/jobcd.py few          # the same for n = 20 and 100 alone, a second each
    python benchmarks/jobcd.py samples      # VR-J-JOBCD: gradients of samples to an accuracy
    python benchmarks/jobcd.py drift        # feasibility after a million row updates

Times are of the processor (one thread), so that other work on the machine counts less; the least of
several. The paper's formulation is written as well as we can: the whole gradient H x by one BLAS
product in each step, its rows by pairs, the exact subproblem, and the update of two rows by our
compiled kernels, in place; same varsigma, same pairs, so the same iterates.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from decentorth import GSJOBCD, JJOBCD, VRJJOBCD, HyperbolicJacobi, iterate
from decentorth.families.j_orthogonal.algorithms.gs_jobcd import LEAST
from decentorth.families.j_orthogonal.algorithms.jobcd import disjoint_pairs
from decentorth.families.j_orthogonal.kernels import pair_kernels
from decentorth.families.j_orthogonal.kernels.subproblem import (
    BASIS,
    isotropic,
    largest_eigenvalue,
    linear_term,
)
from decentorth.network import SerialCommunicator
from decentorth.network.collective import AgentCollective
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import HEVP, HEVPSettings

STREAMS = CounterStreams(0, slice(0, 1))
THETA = 1e-6


def hevp(n: int, **settings: Any) -> HEVP:
    """Generated, well posed, condition 1000."""
    made: HEVP = (
        HEVPSettings(dimension=n, **settings)
        .problem(1, 0)
        .build(slice(0, 1), AgentCollective(SerialCommunicator(), np.array([0, 1])))
    )
    return made


def least(work: Callable[[], object], times: int = 5) -> float:
    """Processor seconds."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def subproblem() -> None:
    k, rng = 100_000, np.random.default_rng(0)
    a = rng.standard_normal((k, 4, 4))
    hyperbolic, linear = rng.random(k) < 0.5, rng.standard_normal((k, 4))
    for name, curvature in (
        ("any Q", BASIS @ a @ a.swapaxes(-1, -2) @ BASIS.T),
        ("Q = varsigma I", isotropic(np.ones(k))),
    ):
        seconds = least(partial(pair_kernels().minimise, hyperbolic, linear, curvature), 3)
        print(f"{name:15s} {k / seconds / 1e6:6.2f} million subproblems a second")


def steps() -> None:
    for n in (20, 100, 300, 1000):
        problem, pairs = hevp(n), max(LEAST, n // 2)
        for varsigma in ("exact", "pair"):
            states = iterate(problem, GSJOBCD(varsigma=varsigma, pairs=20 * pairs))
            next(states), next(states)
            print(
                f"n = {n:4d}  GS-JOBCD {varsigma:5s}  "
                f"{least(partial(next, states)) / pairs / 20 * 1e6:8.2f} us a step"
            )
        states = iterate(problem, JJOBCD())
        next(states), next(states)
        print(
            f"n = {n:4d}  J-JOBCD          {least(partial(next, states), 20) * 1e6:8.1f} us an "
            f"iteration of {n // 2} pairs"
        )
        states = iterate(problem, HyperbolicJacobi())
        next(states), next(states)
        print(
            f"n = {n:4d}  Jacobi           {least(partial(next, states), 1) * 1e3:8.1f} ms a "
            f"sweep of {n * (n - 1) // 2} pairs"
        )


class Paper:
    """Paper 001's formulation on tr(x^T H x)/2: a gradient in each step, varsigma = L lambda_max((x
    x^T)_BB) of the pair."""

    def __init__(self, problem: HEVP, whole: bool) -> None:
        self.H, self.signs = problem.trace_form()[0], problem.constraint.signs
        self.L, self.whole = float(problem.lipschitz[0]), whole
        self.x = np.eye(len(self.H))

    def step(self, first: Any, second: Any) -> None:
        made = pair_kernels()
        if self.whole:
            t = made.blocks(self.H @ self.x, self.x, first, second)
        else:  # only the rows of the pair
            rows = np.concatenate((first, second))
            t = made.blocks(
                self.H[rows] @ self.x, self.x[rows], *np.arange(len(rows)).reshape(2, -1)
            )
        own = made.blocks(self.x, self.x, first, second)
        size = largest_eigenvalue(own[:, 0, 0], own[:, 0, 1], own[:, 1, 1])
        curvature = isotropic(self.L * size + THETA)
        found = made.minimise(
            self.signs[first] != self.signs[second], linear_term(t, curvature), curvature
        )
        made.turn_rows(self.x, found.v, first, second)

    def value(self) -> float:
        return 0.5 * float((self.x * (self.H @ self.x)).sum())


def reached(states: Any, problem: HEVP, targets: list[float]) -> list[tuple[int, float, float]]:
    """Iterations, processor seconds and value when the objective is first at most each target;
    looked at between iterations."""
    found, spent, remaining = [], 0.0, list(targets)
    H = problem.trace_form()[0]
    state = next(states)
    while remaining:
        begun = time.process_time()
        state = next(states)
        spent += time.process_time() - begun
        value = 0.5 * float((H * state.product[0]).sum())
        while remaining and value <= remaining[0]:
            found.append((state.k, spent, value))
            remaining.pop(0)
    return found


def speed() -> None:
    n, problem = 1000, hevp(1000)
    best, start = problem.optimum, float(problem.value(np.eye(n)[None])[0])
    assert best is not None
    targets = [best + share * (start - best) for share in (0.9, 0.7, 0.5)]

    J = reached(iterate(problem, JJOBCD()), problem, targets)
    paper, done = Paper(problem, whole=True), 0
    spent = 0.0
    print(
        f"J-JOBCD, n = {n}, objective {start:.6g} at the start, {best:.6g} at best, varsigma of "
        "each pair"
    )
    for target, (iterations, ours, value) in zip(targets, J, strict=True):
        begun = time.process_time()
        while done < iterations:
            paper.step(*disjoint_pairs(STREAMS, done, n))
            done += 1
        spent += time.process_time() - begun
        off = abs(paper.value() / value - 1.0)
        print(
            f"  objective {target:10.6g}: {iterations:5d} iterations; ours {ours:7.3f} s, a full "
            f"gradient in each {spent:7.2f} s, {spent / ours:5.1f} times (same objective to "
            f"{off:.0e})"
        )
        if spent > 120.0:
            break

    pairs = 500
    GS = reached(iterate(problem, GSJOBCD(varsigma="pair", pairs=pairs)), problem, targets)
    full, rows, each = Paper(problem, whole=True), Paper(problem, whole=False), {}
    drawn = STREAMS.integers("blocks", 0, pairs, n * (n - 1))[0]
    first, second = drawn // (n - 1), drawn % (n - 1)
    second += second >= first
    for name, method, number in (("full", full, 20), ("rows", rows, pairs)):
        begun = time.process_time()
        for k in range(number):
            method.step(first[k : k + 1], second[k : k + 1])
        each[name] = (time.process_time() - begun) / number
    one = list(islice(iterate(problem, GSJOBCD(varsigma="pair", pairs=pairs)), 2))[1]
    off = np.abs(rows.x - one.x[0]).max()
    print(
        f"GS-JOBCD, same problem, varsigma of each pair; a step takes {each['full'] * 1e6:.0f} "
        "us with the whole gradient, ",
        end="",
    )
    print(
        f"{each['rows'] * 1e6:.0f} us with two rows of it (same x after {pairs} steps to {off:.0e})"
    )
    for target, (iterations, ours, _) in zip(targets, GS, strict=True):
        made = iterations * pairs
        print(
            f"  objective {target:10.6g}: {made:7d} steps; ours {ours:7.3f} s "
            f"({ours / made * 1e6:.1f} us each), whole gradients {made * each['full']:8.1f} s, "
            f"{made * each['full'] / ours:6.0f} times, two rows {made * each['rows']:7.2f} s, "
            f"{made * each['rows'] / ours:5.0f} times (both from the time of a step)"
        )


def printed() -> None:
    """Paper 001's form, unbounded below, from the identity: until the best objective of its table,
    of half our f, in 90 s."""
    for n, published in ((10, -3.01e2), (100, -2.13e4), (1000, -2.84e6)):
        problem = hevp(n, form="as-printed", data=f"randn{n}")
        for name, algorithm in (
            ("J-JOBCD", JJOBCD()),
            ("GS-JOBCD", GSJOBCD(varsigma="pair", pairs=max(1, n // 2))),
        ):
            start = 0.5 * problem.value(np.eye(n)[None])[0]
            ((iterations, seconds, value),) = reached(
                iterate(problem, algorithm), problem, [2.0 * published]
            )
            print(
                f"randn{n:<4d} {name:8s} f/2 from {start:9.3g} to {value / 2:9.3g} <= "
                f"{published:9.3g} after {iterations:4d} iterations of {n // 2} pairs, "
                f"{seconds:7.4f} s"
            )


MARKS = ((20, (0.01, 0.1, 1.0)), (100, (0.1, 1.0, 5.0)), (500, (1.0, 5.0, 20.0)))


def few() -> None:
    exact([(n, tuple(mark for mark in marks if mark <= 1.0)) for n, marks in MARKS[:2]])


def exact(cases: Sequence[tuple[int, tuple[float, ...]]] = MARKS) -> None:
    print(
        "relative gap to sum |eig(J C)|, condition 1000, and feasibility, after processor seconds"
    )
    for n, marks in cases:
        problem = hevp(n)
        for algorithm in (
            HyperbolicJacobi(),
            GSJOBCD(),
            GSJOBCD(varsigma="pair"),
            JJOBCD(),
            VRJJOBCD(),
        ):
            spent, told = 0.0, []
            states = iterate(problem, algorithm)
            state, remaining = next(states), list(marks)
            while remaining:
                begun = time.process_time()
                state = next(states)
                spent += time.process_time() - begun
                ended = (
                    isinstance(algorithm, HyperbolicJacobi)
                    and algorithm.ending(problem, state) is not None
                )
                while remaining and (spent >= remaining[0] or ended):
                    mark = remaining.pop(0)
                    told.append(f"{min(spent, mark):6.3g} s {problem.error(state.x[0]):8.1e}")
                    if ended:
                        remaining = []
            name = type(algorithm).__name__ + (
                " pair" if getattr(algorithm, "varsigma", "") == "pair" else ""
            )
            feasibility = problem.constraint.feasibility(state.x)[0]
            print(
                f"n = {n:3d}  {name:17s} {'   '.join(told)}   after {state.k} iterations, "
                f"feasibility {feasibility:.0e}"
            )


def samples() -> None:
    n = 20
    for N in (10_000, 100_000):
        problem = hevp(n, samples=N, condition=10.0)
        for gap in (1e-2, 1e-3, 1e-4):
            needed = []
            for algorithm in (JJOBCD(), VRJJOBCD()):
                for state in islice(iterate(problem, algorithm), 20_000):
                    if problem.error(state.x[0]) <= gap:
                        needed.append(
                            N * state.gradients if isinstance(algorithm, JJOBCD) else state.samples
                        )
                        break
            print(
                f"N = {N:6d}, gap {gap:g}: J-JOBCD {needed[0]:.2e} gradients of samples, "
                f"VR-J-JOBCD {needed[1]:.2e}, ",
                end="",
            )
            print(f"{needed[0] / needed[1]:.0f} times fewer")


def drift() -> None:
    for n in (20, 100, 1000):
        problem = hevp(n)
        for correction in (0, 100):
            number = 1_000_000 // 2000
            state = next(
                islice(iterate(problem, GSJOBCD(pairs=1000, correction=correction)), number, None)
            )
            print(
                f"n = {n:4d}, 10^6 row updates, {state.corrections:2d} corrections: largest "
                f"entry of |x^T J x - J| {problem.constraint.violation(state.x)[0]:.1e}, "
                f"feasibility {problem.constraint.feasibility(state.x)[0]:.1e}, x x^T drifted by "
                f"{state.drift[0]:.1e} in 200 iterations"
            )


PARTS = {
    part.__name__: part for part in (subproblem, steps, speed, printed, exact, few, samples, drift)
}


def main() -> None:
    pair_kernels()
    with threadpool_limits(1):
        for name in sys.argv[1:] or [name for name in PARTS if name != "few"]:
            PARTS[name]()


if __name__ == "__main__":
    main()
