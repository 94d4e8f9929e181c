"""Automatic steps against tuned ones: iterations to a gradient norm, for every exact method, problem and graph, over seeds.

    python benchmarks/auto_steps.py [method ...]

For each problem, graph and seed the method runs with ``step_size="auto"`` and with each step of a grid about it, factors of two
apart; the best of them all is the tuned step. Printed: the median and the worst over seeds of iterations(auto) / iterations(tuned),
and how many automatic runs diverged or did not arrive. Iterations are counted to 1 %.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import statistics
import sys
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
from decentorth.api import Run
from decentorth.problems import MatrixCompletionSettings, PCASettings, Procrustes

AGENTS, SEEDS, TOLERANCE, LIMIT = 10, 5, 1e-6, 20_000
METHODS = ("drfgt", "rfextra", "destiny", "drgta", "dprgt", "rextra", "gradient_tracking")
FACTORS = (0.5, 2.0, 4.0, 8.0)
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
}


class Task(NamedTuple):
    """One cell of the table and a seed."""

    method: str
    problem: str
    graph: str
    seed: int


def iterations(run: Run, limit: int) -> float:
    """Iterations until the gradient norm at the projected mean is at most the tolerance; infinite when it never is.

    Relative to the mean objective's Lipschitz constant where that is above 1, so that a scaled problem is asked no more.
    """
    problem, scale = run.problem, max(1.0, float(run.problem.lipschitz.mean()) if hasattr(run.problem, "lipschitz") else 1.0)
    due = 0
    with np.errstate(all="ignore"):
        for state in run.states():
            if state.k >= due:
                if not np.isfinite(state.x).all() or np.abs(state.x).max() > 1e6:
                    return math.inf
                hat = problem.constraint.project(state.x.mean(0)[None])
                gradient = problem.gradient(np.repeat(hat, len(state.x), axis=0)).mean(0)[None]
                if np.linalg.norm(problem.constraint.tangent(hat, gradient)) <= TOLERANCE * scale:
                    return float(state.k)
                due = state.k + max(1, state.k // 100)
            if state.k >= limit:
                return math.inf
    return math.inf


def ratio(task: Task) -> tuple[Task, float, float]:
    """The task, iterations with the automatic step and with the best step found."""
    method = registry.algorithms.get(task.method)()
    problem, W = PROBLEMS[task.problem](task.seed), GRAPHS[task.graph](task.seed)
    with threadpool_limits(1):
        run = Run(problem, method, W, seed=task.seed, comm="serial")
        state = next(run.states())
        found = float(state.step_size.mean())
        fixed = {"penalty": float(state.penalty.mean())} if hasattr(state, "penalty") else {}
        automatic = best = iterations(run, LIMIT)
        grid = list(FACTORS)
        while grid:
            factor = grid.pop(0)
            numbers: dict[str, Any] = {"step_size": found * factor}
            numbers |= {name: value / factor for name, value in fixed.items()}
            other = Run(problem, replace(run.algorithm, **numbers), W, seed=task.seed, comm="serial")
            taken = iterations(other, int(min(best, LIMIT)))
            if taken < best and factor <= 0.5:
                grid.append(factor / 2)
            best = min(best, taken)
    return task, automatic, best


def main(methods: list[str]) -> None:
    """Print a table for each method."""
    console = Console()
    for method in methods or METHODS:
        tasks = [Task(method, *cell) for cell in product(PROBLEMS, GRAPHS, range(SEEDS))]
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            outcomes = list(pool.map(ratio, tasks))
        table = Table(title=f"{method}: iterations(auto) / iterations(tuned), median (worst) of {SEEDS} seeds")
        table.add_column("problem")
        for graph in GRAPHS:
            table.add_column(graph, justify="right")
        failures = 0
        for name in PROBLEMS:
            cells = []
            for graph in GRAPHS:
                here = [(a, b) for task, a, b in outcomes if (task.problem, task.graph) == (name, graph)]
                failures += sum(math.isinf(a) for a, _ in here)
                ratios = [a / b if b > 0 and math.isfinite(b) else math.inf for a, b in here]
                cells.append(f"{statistics.median(a for a, _ in here):.0f}: {statistics.median(ratios):.2f} ({max(ratios):.2f})")
            table.add_row(name, *cells)
        console.print(table)
        console.print(f"{method}: {failures} of {len(outcomes)} automatic runs diverged or did not arrive in {LIMIT} iterations")


if __name__ == "__main__":
    main(sys.argv[1:])
