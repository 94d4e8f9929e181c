"""Stochastic CCA: landing on samples alone against methods with a rolling mean of the covariances (paper 003, Section 4).

    python benchmarks/stochastic_cca.py            # small problems, under a minute
    python benchmarks/stochastic_cca.py full       # 100,000 samples, five seeds; half an hour
    python benchmarks/stochastic_cca.py memory     # 2 x 20,000 columns

1. How much of the sum of the p = 5 largest canonical correlations is within the column spaces of X and Y (100: all) after as many
   samples as there are (digits: ten times as many), and after as many seconds of the processor as RGD in the Euclidean metric takes
   for that. Landing on samples draws three batches an iteration, the others one. Steps are those of a grid that are best on a seed
   of their own; then the median and the range over other seeds. Where the mean of the first batches is singular, RGD in the natural
   metric, which solves with it, cannot start.
2. Memory that an iteration takes beside the samples, where a covariance would be 3.2 GB.

Times are of the processor (one thread), without measuring.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg  # noqa: F401  # before memory is traced
from threadpoolctl import threadpool_limits

from decentorth import RGD, GeneralizedLanding
from decentorth.api import Run
from decentorth.problems import CCA, CCASettings

P = 5
TUNING, CHECKS = 1000, 25
"""The seed of the grid, and how often the correlations are looked at."""


class Case(NamedTuple):
    """A problem, the batches for it, and how many times all samples are passed."""

    name: str
    settings: CCASettings
    batches: tuple[int, ...]
    passes: int = 1


def generated(samples: int, columns: int, ridge: float = 0.0) -> CCASettings:
    return CCASettings(data="synthetic", samples=samples, dimension=columns, dimension_y=columns, ridge=ridge, scale="view", rank=P)


DIGITS = Case("digits, left and right halves, 1797 x (26 + 30)", CCASettings(scale="view", rank=P), (64, 512), 10)
SMALL = (
    DIGITS,
    Case("generated, 10,000 x (40 + 40)", generated(10_000, 40), (32,)),
    Case("generated, 3000 x (250 + 250)", generated(3000, 250, 0.01), (32,)),
)
FULL = (
    DIGITS,
    Case("generated, 100,000 x (100 + 100)", generated(100_000, 100), (64, 512)),
    Case("generated, 6400 x (1000 + 1000)", generated(6400, 1000, 0.01), (64,)),
)


class Curve(NamedTuple):
    """After so many samples and seconds: the share of the optimal correlations, in percent."""

    samples: list[int]
    seconds: list[float]
    shares: list[float]

    def share(self, spent: str, limit: float) -> float:
        """The share at the last look before so many samples or seconds are spent."""
        looks = [share for used, share in zip(getattr(self, spent), self.shares, strict=True) if used <= limit]
        return looks[-1] if looks else 0.0


class Method(NamedTuple):
    """A method by a step relative to what its curvature allows, and a penalty relative to the step."""

    name: str
    make: Callable[[CCA, int, float, float], Any]
    steps: tuple[float, ...]
    penalties: tuple[float, ...] = (0.0,)
    draws: int = 1


def landing(covariance: Any, policy: str) -> Callable[[CCA, int, float, float], Any]:
    def make(problem: CCA, batch: int, step: float, penalty: float) -> Any:
        largest = problem.constraint.largest
        eta = step / (largest * float(problem.lipschitz[0]))
        written = policy.format(eta) if policy else eta
        return GeneralizedLanding(step_size=written, penalty=penalty / (largest * eta), batch_size=batch, covariance=covariance)

    return make


def rgd(metric: Any) -> Callable[[CCA, int, float, float], Any]:
    def make(problem: CCA, batch: int, step: float, penalty: float) -> Any:
        scale = 1.0 if metric == "natural" else problem.constraint.largest + float(problem.lipschitz[0])
        return RGD(step_size=step / scale, batch_size=batch, covariance="rolling", metric=metric, retraction="cholesky-qr")

    return make


LANDING = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
EUCLIDEAN = Method("RGD rolling, Euclidean", rgd("euclidean"), (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 4.0))
METHODS = (
    EUCLIDEAN,
    Method("RGD rolling, natural", rgd("natural"), (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)),
    Method("landing rolling", landing("rolling", ""), LANDING, (0.02, 0.1)),
    Method("landing on samples", landing("sampled", ""), LANDING, (0.02, 0.1), 3),
    Method("the same, 1/sqrt(k)", landing("sampled", "diminishing:initial={}"), (1 / 8, 1 / 4, 1 / 2, 1.0), (0.1,), 3),
)


def curve(problem: CCA, method: Any, per_iteration: int, total: int, seconds: float, seed: int) -> Curve | None:
    """Until ``total`` samples are drawn and the seconds are over; None where that cannot be."""
    best = float(problem.optimum.correlations[:P].sum())
    found = Curve([], [], [])
    states = Run(problem, method, comm="serial", seed=seed).states()
    spent, drawn, due, k = 0.0, 0, 1.0, 0
    grow = (total / per_iteration) ** (1.0 / CHECKS)
    with np.errstate(all="ignore"):
        while drawn + per_iteration <= total or spent < seconds:
            begun = time.process_time()
            try:
                state = next(states)
            except ValueError:  # a singular mean of the first batches
                return None
            spent += time.process_time() - begun
            k, drawn = k + 1, drawn + per_iteration
            if k < due and drawn + per_iteration <= total:
                continue
            due = max(due * grow, k + 1.0)
            if not problem.constraint.feasibility(state.x)[0] < 1e3:
                return None
            share = 100.0 * (1.0 - problem.error(problem.constraint.project(state.x)[0]) / best)
            for column, value in zip(found, (drawn, spent, share), strict=True):
                column.append(value)
    return found


def compare(case: Case, seeds: int) -> None:
    problem = Run(case.settings.problem(1, 0), GeneralizedLanding(), comm="serial").problem
    total = case.passes * int(problem.n_samples[0])
    condition = max(float(np.linalg.cond(part.operator.stack[0])) for part in problem.constraint.parts)
    print(f"{case.name}; condition {condition:.0f}, correlations {problem.optimum.correlations[:P].round(2)}")
    for batch in case.batches:
        begun = curve(problem, EUCLIDEAN.make(problem, batch, 0.1, 0.0), batch, total, 0.0, TUNING)
        assert begun is not None
        limits = {"samples": float(total), "seconds": begun.seconds[-1]}
        print(f"  batch {batch}: after {total} samples (step, omega)            after {limits['seconds']:.2f} s (step, omega)")
        for method in METHODS:
            told = "   ".join(reached(problem, method, batch, limits, seeds))
            print(f"    {method.name:22s} {told}", flush=True)


def reached(problem: CCA, method: Method, batch: int, limits: dict[str, float], seeds: int) -> list[str]:
    """What the step that is best on the tuning seed reaches on others, for each way to count."""

    def run(step: float, penalty: float, seed: int) -> Curve | None:
        made = method.make(problem, batch, step, penalty)
        return curve(problem, made, method.draws * batch, int(limits["samples"]), limits["seconds"], seed)

    grid = [(step, penalty) for step in method.steps for penalty in method.penalties]
    tried = {pair: found for pair in grid if (found := run(*pair, TUNING)) is not None}
    if not tried:
        return ["cannot start: the first batches' mean is singular" if "natural" in method.name else "diverges at every step"]
    told = []
    runs: dict[tuple[float, float], list[Curve | None]] = {}
    for spent, limit in limits.items():
        best = max(tried, key=lambda pair: tried[pair].share(spent, limit))
        if best not in runs:
            runs[best] = [run(*best, seed) for seed in range(seeds)]
        shares = [found.share(spent, limit) for found in runs[best] if found is not None] or [math.nan]
        settings = f"({best[0]:.3g}{f', {best[1]:g}' if best[1] else ''})"
        diverged = f" {seeds - len(shares)} diverged" if len(shares) < seeds else ""
        told.append(f"{statistics.median(shares):5.1f} [{min(shares):5.1f}, {max(shares):5.1f}] {settings:14s}{diverged}")
    return told


def memory(samples: int, columns: int, batch: int) -> None:
    """What landing on samples, and landing on all of them, take beside the samples."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((samples, 2 * P))
    first, second = (common @ rng.standard_normal((2 * P, columns)) + rng.standard_normal((samples, columns)) for _ in range(2))
    point = 2 * columns * P * 8
    print(
        f"{samples} samples of {columns} + {columns} columns, {2 * first.nbytes / 1e6:.0f} MB; a covariance would be "
        f"{columns * columns * 8e-9:.1f} GB, a point is {point / 1e6:.1f} MB"
    )
    problem = CCA([first], [second], P, ridge=0.01)
    for name, method in (
        (f"on samples, batch {batch}", GeneralizedLanding(step_size=1e-4, penalty=1.0, batch_size=batch, covariance="sampled")),
        ("on all samples", GeneralizedLanding(step_size="bb:cap=inf")),
    ):
        states = Run(problem, method, comm="serial").states()
        next(states)
        tracemalloc.start()
        begun = time.process_time()
        for _ in range(10):
            state = next(states)
        spent = (time.process_time() - begun) / 10
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        drawn = 2 * batch * columns * 8 if "batch" in name else 0
        print(
            f"  landing {name}: {peak / 1e6:.1f} MB, of which {drawn / 1e6:.1f} MB are a batch, beside the state: "
            f"{(peak - drawn) / point:.1f} points; {1e3 * spent:.0f} ms an iteration; k = {state.k}"
        )


def main(what: str = "small") -> None:
    with threadpool_limits(1):
        if what == "memory":
            memory(2000, 20_000, 64)
            return
        for case in FULL if what == "full" else SMALL:
            compare(case, 5 if what == "full" else 3)
        memory(*((2000, 20_000, 64) if what == "full" else (200, 4000, 64)))


if __name__ == "__main__":
    main(*sys.argv[1:])
