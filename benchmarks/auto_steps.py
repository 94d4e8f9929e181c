"""Automatic and growing steps against tuned ones: iterations for every exact method, problem and graph, over seeds.

    python benchmarks/auto_steps.py [--problem "PCA, digits by label"] [--seeds 1] [--limit 20000] [method ...]
    python benchmarks/auto_steps.py --random 1000 [--limit 400] [method ...]

For each problem, graph and seed the method runs with ``step_size="auto"``, with ``"growing"`` and with each step of a grid about
the automatic one; the best of the grid and the automatic one is the tuned step. Printed: iterations(growing), and the medians over
seeds of iterations(auto) / iterations(tuned) and iterations(growing) / iterations(tuned). Iterations are counted to 1 %, until the
gradient norm at the projected mean and the consensus error are small.

With ``--random`` both run on that many random problems, graphs and scales from 1e-6 to 1e6, and divergences are counted.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import topologies as tp
from decentorth import registry
from decentorth.api import Run, solve
from decentorth.problems import PCA, MatrixCompletionSettings, PCASettings, Procrustes
from decentorth.running.metrics import RUNAWAY

AGENTS, TOLERANCE = 10, 1e-6
METHODS = ("drfgt", "rfextra", "destiny", "drgta", "dprgt", "rextra")
FACTORS = (2.0, 4.0, 2.0**0.5, 8.0**0.5, 8.0, 32.0**0.5, 0.5)
"""Of the automatic step; smaller ones only while they win."""


def procrustes(seed: int, size: float = 1.0) -> Any:
    """Ten agents with 10 rows each in 20 columns, five columns to find."""
    rng = np.random.default_rng((seed, 1))
    data = [rng.standard_normal((10, 20)) for _ in range(AGENTS)]
    return Procrustes(data, [size * rng.standard_normal((5, 10)) for _ in range(AGENTS)])


PROBLEMS: dict[str, Callable[[int], Any]] = {
    "Procrustes": procrustes,
    "Procrustes, B x 100": lambda seed: procrustes(seed, 100.0),
    "PCA, synthetic": lambda seed: PCASettings(data="synthetic").problem(AGENTS, seed),
    "PCA, digits even": lambda seed: PCASettings(weighting="agents").problem(AGENTS, seed),
    "PCA, digits by label": lambda seed: PCASettings(partition="by-label", weighting="agents").problem(AGENTS, seed),
    "matrix completion": lambda seed: MatrixCompletionSettings().problem(AGENTS, seed),
}
GRAPHS: dict[str, Callable[[int], Any]] = {
    "ring": lambda seed: tp.metropolis_weights(tp.ring(AGENTS)),
    "random": lambda seed: tp.metropolis_weights(tp.erdos_renyi(AGENTS, 0.4, seed=seed)),
    "star": lambda seed: tp.metropolis_weights(tp.star(AGENTS)),
    "ring, 0.8": lambda seed: tp.uniform_weights(tp.ring(AGENTS)),
}


class Task(NamedTuple):
    """One cell of the table and a seed."""

    method: str
    problem: str
    graph: str
    seed: int
    limit: int


def iterations(run: Run, limit: int) -> float:
    """Iterations until the gradient norm at the projected mean and the consensus error are at most the tolerance; else infinite.

    The former relative to the mean objective's Lipschitz constant where that is above 1, so that a scaled problem is asked no more.
    """
    problem, scale = run.problem, max(1.0, float(run.problem.lipschitz.mean()) if hasattr(run.problem, "lipschitz") else 1.0)
    due = 0
    with np.errstate(all="ignore"):
        for state in run.states():
            if state.k >= due:
                if not (np.abs(state.x) < RUNAWAY).all():
                    return math.inf
                mean = state.x.mean(0)
                hat = problem.constraint.project(mean[None])
                gradient = problem.gradient(np.repeat(hat, len(state.x), axis=0)).mean(0)[None]
                small = np.linalg.norm(problem.constraint.tangent(hat, gradient)) <= TOLERANCE * scale
                if small and np.linalg.norm(state.x - mean) <= TOLERANCE * math.sqrt(len(state.x)):
                    return float(state.k)
                due = state.k + max(1, state.k // 100)
            if state.k >= limit:
                return math.inf
    return math.inf


def ratio(task: Task) -> tuple[Task, float, float, float]:
    """The task, iterations with the automatic step, with growing ones and with the best step found."""
    method = registry.algorithms.get(task.method)()
    problem, W = PROBLEMS[task.problem](task.seed), GRAPHS[task.graph](task.seed)
    with threadpool_limits(1):
        run = Run(problem, method, W, seed=task.seed, comm="serial")
        state = next(run.states())
        found = float(state.step_size.mean())
        follows = hasattr(state, "penalty") and task.method != "destiny"
        automatic = best = iterations(run, task.limit)
        grown = iterations(Run(problem, replace(run.algorithm, step_size="growing"), W, seed=task.seed, comm="serial"), task.limit)
        grid = list(FACTORS)
        while grid:
            factor = grid.pop(0)
            numbers: dict[str, Any] = {"step_size": found * factor}
            if hasattr(state, "penalty"):
                numbers["penalty"] = float(state.penalty.mean()) / (factor if follows else 1.0)
            other = Run(problem, replace(run.algorithm, **numbers), W, seed=task.seed, comm="serial")
            taken = iterations(other, int(min(best, task.limit)))
            if taken < best and factor <= 0.5:
                grid.append(factor / 2)
            best = min(best, taken)
    return task, automatic, grown, best


def table(method: str, outcomes: list[tuple[Task, float, float, float]]) -> Table:
    """The table of a method."""

    def quotient(a: float, b: float) -> float:
        return a / b if math.isfinite(b) else math.nan

    found = Table(title=f"{method}: iterations with growing steps: auto / tuned -> growing / tuned")
    found.add_column("problem")
    for graph in GRAPHS:
        found.add_column(graph, justify="right")
    for name in dict.fromkeys(task.problem for task, *_ in outcomes):
        cells = []
        for graph in GRAPHS:
            here = [counts for task, *counts in outcomes if (task.problem, task.graph) == (name, graph)]
            before = statistics.median(quotient(auto, best) for auto, _, best in here)
            after = statistics.median(quotient(grown, best) for _, grown, best in here)
            cells.append(f"{statistics.median(grown for _, grown, _ in here):.0f}: {before:.2f} -> {after:.2f}")
        found.add_row(name, *cells)
    return found


def random_case(seed: int) -> tuple[Any, Any]:
    """A problem and W: PCA or Procrustes, agents alike or not, on one of five graphs."""
    rng = np.random.default_rng((seed, 7))
    n, d = int(rng.integers(4, 13)), int(rng.integers(4, 16))
    r = int(rng.integers(1, min(4, d - 1) + 1))
    unlike = rng.random() < 0.5
    data = [rng.standard_normal((int(rng.integers(2, 30)), d)) for _ in range(n)]
    if unlike:
        data = [10.0 ** rng.uniform(-1, 1) * a * 10.0 ** rng.uniform(-0.5, 0.5, d) for a in data]
    scale = math.sqrt(10.0 ** rng.uniform(-6, 6))
    if rng.random() < 0.5:
        problem: Any = PCA([scale * a for a in data], r)
    else:
        far = 100.0 if rng.random() < 0.2 else 1.0
        problem = Procrustes([scale * a for a in data], [far * scale * rng.standard_normal((r, len(a))) for a in data])
    graphs = (
        lambda: tp.metropolis_weights(tp.ring(n)),
        lambda: tp.uniform_weights(tp.ring(n)),
        lambda: tp.metropolis_weights(tp.path(n)),
        lambda: tp.metropolis_weights(tp.star(n)),
        lambda: tp.metropolis_weights(tp.erdos_renyi(n, 0.4, seed=seed)),
    )
    return problem, graphs[int(rng.integers(5))]()


def outcome(task: tuple[str, int, int]) -> list[tuple[bool, float]]:
    """For auto and growing: true if the run diverged, and the last gradient norm."""
    name, seed, limit = task
    problem, W = random_case(seed)
    found = []
    for step in ("auto", "growing"):
        result = solve(
            problem, registry.algorithms.get(name)(step_size=step), W, iterations=limit, seed=seed, rows=50, comm="serial"
        )
        found.append((result.status == "diverged", float(result.row.values["gradient_norm"])))
    return found


def main() -> None:
    """Print a table for each method, or the counts of divergences."""
    arguments = argparse.ArgumentParser(description="Automatic and growing steps against tuned ones.")
    arguments.add_argument("methods", nargs="*", default=METHODS)
    arguments.add_argument("--problem", action="append", choices=PROBLEMS, help="several times for several; by default all")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--limit", type=int, default=20_000)
    arguments.add_argument("--random", type=int, default=0)
    given = arguments.parse_args()
    console = Console(width=140)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for method in given.methods:
            if given.random:
                ends = list(pool.map(outcome, [(method, seed, given.limit) for seed in range(given.random)], chunksize=10))
                lost = [sum(end[which][0] for end in ends) for which in (0, 1)]
                nearer = sum(grown < auto / 3.0 for (_, auto), (_, grown) in ends)
                farther = sum(grown > auto * 3.0 for (_, auto), (_, grown) in ends)
                console.print(
                    f"{method}: of {given.random} problems diverged: auto {lost[0]}, growing {lost[1]}; the gradient after "
                    f"{given.limit} iterations is less than a third with growing {nearer} times, with auto {farther} times"
                )
                continue
            cells = product(given.problem or PROBLEMS, GRAPHS, range(given.seeds))
            console.print(table(method, list(pool.map(ratio, [Task(method, *cell, given.limit) for cell in cells]))))


if __name__ == "__main__":
    main()
