"""Asynchronous DRFGT with 30 % one-way loss, an agent ten times slower and delays: time to a
gradient of 1e-8 for several seeds.

    python benchmarks/asynchronous.py                      the table: ten seeds of each problem and delay, half an hour
    python benchmarks/asynchronous.py --seeds 2 --delays 3
    mpirun -n 4 python benchmarks/asynchronous.py          ranks: seconds against DRFGT, one rank ten times slower

A period is the mean time between two activations of a fast agent. The seed is of the data, the
start and the schedule. R^2 is that of the straight line through log gradient against time, from the
last row above 1e-2 of the first gradient to 1e-7 of it: where a run passes a saddle point the
gradient rises again, and the line begins after that. Rows are 22 periods apart. Steps are
automatic. The synchronous column is the median of DRFGT with constant automatic steps and no loss
at all, each of whose iterations takes the slowest agent's period and the longest delay. On ranks
there are three agents each, and a gradient takes 2 ms, of an agent of rank 0 20 ms, in which the
core is free.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

import decentorth as do
import topologies as tp
from decentorth.problems import ICA, PCA, Procrustes
from decentorth.stopping import Consensus, Feasibility, GradientNorm

N, SLOWNESS, LOSS = 10, 10.0, 0.3
GRADIENT_SECONDS, PER_RANK, END = 0.002, 3, 4e-8
W = tp.metropolis_weights(tp.ring(N))
STOP = GradientNorm(1e-8, relative=True) & Consensus(1e-7) & Feasibility(1e-7)
RATE = N - 1 + 1 / SLOWNESS
"""The activations of all agents in a period."""


def pca(seed: int) -> Any:
    """PCA of 10 x 3 points: Gaussian samples whose variances have a gap after the third."""
    rng = np.random.default_rng(seed)
    spread = np.sqrt([1.0, 0.8, 0.6, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])
    return PCA([rng.standard_normal((100, 10)) * spread for _ in range(N)], 3)


def procrustes(seed: int) -> Any:
    """Procrustes problems of 10 x 3 points with common targets and noise."""
    rng = np.random.default_rng(seed)
    x, _ = np.linalg.qr(rng.standard_normal((10, 3)))
    A = [rng.standard_normal((30, 10)) / np.sqrt(30) for _ in range(N)]
    return Procrustes(A, [(a @ x + 0.1 * rng.standard_normal((30, 3))).T for a in A])


def ica(seed: int) -> Any:
    """ICA of four mixtures of signs, each agent with 200 samples."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    return ICA([np.sign(rng.standard_normal((200, 4))) @ q for _ in range(N)])


PROBLEMS = {"pca": pca, "procrustes": procrustes, "ica": ica}


class Trial(NamedTuple):
    """One run: periods and messages of an edge to the tolerances, R^2, and microseconds of an
    activation."""

    converged: bool
    periods: float
    messages: float
    straight: float
    microseconds: float


def straightness(time: Any, gradient: Any) -> float:
    """R^2 of log gradient against time, from the last row above 1e-2 of the first gradient to 1e-7
    of it."""
    part = (np.arange(len(time)) > np.flatnonzero(gradient > 1e-2 * gradient[0])[-1]) & (
        gradient > 1e-7 * gradient[0]
    )
    t, y = time[part], np.log(gradient[part])
    return float(np.corrcoef(t, y)[0, 1] ** 2) if len(t) > 2 else float("nan")


def trial(problem: str, delay: float, seed: int, activations: int = 1_000_000) -> Trial:
    """A run with the seed."""
    method = do.AsynchronousDRFGT(
        activations=activations, delay=delay, slow_agents=1, slowness=SLOWNESS
    )
    made = PROBLEMS[problem](seed)
    began = time.process_time()
    result = do.solve(
        made, method, W, seed=seed, channel=f"loss:p={LOSS}", stopping=STOP, record_every=200
    )
    spent = time.process_time() - began
    k = result.row.iteration
    return Trial(
        result.converged,
        k / RATE,
        result.row.messages / (2 * N),
        straightness(result.history["iteration"] / RATE, result.history["gradient_norm"]),
        1e6 * spent / k,
    )


def synchronous(problem: str, delay: float, seed: int) -> float:
    """Periods that DRFGT takes without loss."""
    result = do.solve(
        PROBLEMS[problem](seed),
        do.DRFGT(step_size="constant"),
        W,
        seed=seed,
        stopping=STOP,
        iterations=100_000,
        record_every=10,
    )
    return result.row.iteration * (SLOWNESS + delay) if result.converged else float("inf")


class Slowed(PCA):
    """PCA whose gradients take a while, those of the first three agents ten times longer."""

    def gradient(self, x: Any) -> Any:
        time.sleep(
            GRADIENT_SECONDS * self.n_local * (SLOWNESS if self.agents.start < PER_RANK else 1.0)
        )
        return super().gradient(x)


def on_ranks(ranks: int) -> None:
    """Print seconds to a gradient of 1e-8 of the first, three agents on each rank."""
    rng = np.random.default_rng(0)
    agents = PER_RANK * ranks
    data = [
        rng.standard_normal((100, 10))
        * np.sqrt([1.0, 0.8, 0.6, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])
        for _ in range(agents)
    ]
    problem, links = Slowed(data, 3), tp.metropolis_weights(tp.ring(agents))
    spent: dict[str, float] = {}
    for name, method, options in (
        (
            "synchronous, no loss",
            do.DRFGT(step_size="constant"),
            {"stopping": STOP, "iterations": 5000, "record_every": 10},
        ),
        ("asynchronous, no loss", do.AsynchronousDRFGT(end_tolerance=END, activations=400_000), {}),
        (
            "asynchronous, 30 % lost",
            do.AsynchronousDRFGT(end_tolerance=END, activations=400_000),
            {"channel": f"loss:p={LOSS}"},
        ),
    ):
        result = do.solve(problem, method, links, **options)
        spent[name] = result.row.seconds
        if result.collective.rank == 0:
            gradient = result.history["gradient_norm"]
            print(
                f"{name:<24} {result.status} {result.row.seconds:.2f} s, {result.row.iteration} "
                f"iterations or activations, {result.row.messages} messages, gradient "
                f"{gradient[-1] / gradient[0]:.1e} of the first, "
                f"{spent['synchronous, no loss'] / result.row.seconds:.2f} times as fast as "
                "synchronous",
                flush=True,
            )


def main() -> None:
    """Print the table, or on ranks the times."""
    if (ranks := do.connect().size) > 1:
        return on_ranks(ranks)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--delays", default="0.01,3,30")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    given = parser.parse_args()
    print(
        "| problem, delay | converged | periods (least..most) | worst R^2 | messages an edge | "
        "synchronous | us an activation |"
    )
    print("|---|---|---|---|---|---|---|")
    for problem in given.problems.split(","):
        for delay in map(float, given.delays.split(",")):
            trials = [trial(problem, delay, seed) for seed in range(given.seeds)]
            periods = [one.periods for one in trials]
            print(
                f"| {problem}, {delay:g} | {sum(one.converged for one in trials)} of "
                f"{len(trials)} | {np.median(periods):.0f} "
                f"({min(periods):.0f}..{max(periods):.0f}) | "
                f"{min(one.straight for one in trials):.4f} | "
                f"{np.median([one.messages for one in trials]):.0f} | "
                f"{np.median([synchronous(problem, delay, seed) for seed in range(given.seeds)]):.0f} | {np.median([one.microseconds for one in trials]):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
