"""Automatic steps, constant and growing, against the best constant one: iterations for every exact
method, problem and graph.

    python benchmarks/auto_steps.py [--problem "PCA, digits by label"] [--seed 0] [--limit 12000] [method ...]
    python benchmarks/auto_steps.py --seed 3 --problem "PCA, offset" --problem "Procrustes, 30 x 4" [method ...]
    python benchmarks/auto_steps.py --random 1000 [--limit 400] [method ...]

For each problem and graph each method runs with ``step_size="constant"``, with ``"growing"`` (what
``"auto"`` is here) and with constant steps about the first, in the same order of communication, of
which the best is the tuned step. Printed, as a table in Markdown: iterations(constant) /
iterations(tuned) → iterations(growing) / iterations(tuned). Iterations are counted to 1 %, until
the gradient norm at the projected mean and the consensus error are small.

With ``--random`` both run on that many random problems, graphs and scales from 1e-6 to 1e6, and
divergences are counted.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import topologies as tp
from decentorth import registry
from decentorth.api import Run, set_up, solve
from decentorth.problems import PCA, MatrixCompletionSettings, PCASettings, Procrustes
from decentorth.running.metrics import RUNAWAY

AGENTS, TOLERANCE = 10, 1e-6
METHODS = ("drfgt", "rfextra", "destiny", "drgta", "dprgt", "rextra")


def procrustes(seed: int) -> Any:
    """Ten agents with 10 rows each in 20 columns, five columns to find."""
    rng = np.random.default_rng((seed, 1))
    data = [rng.standard_normal((10, 20)) for _ in range(AGENTS)]
    return Procrustes(data, [rng.standard_normal((5, 10)) for _ in range(AGENTS)])


def offset(seed: int) -> PCA:
    """Ten agents whose samples have means far from zero and from each other."""
    rng = np.random.default_rng((seed, 5))
    return PCA(
        [rng.standard_normal((30, 12)) + 3 * rng.standard_normal(12) for _ in range(AGENTS)], 3
    )


def one_large(seed: int) -> PCA:
    """Ten agents, of which the first has data 30 times as large as the others."""
    rng = np.random.default_rng((seed, 6))
    return PCA(
        [(30.0 if agent == 0 else 1.0) * rng.standard_normal((20, 15)) for agent in range(AGENTS)],
        2,
    )


def sized(seed: int) -> Procrustes:
    """Ten agents with 12 rows each of three sizes in 30 columns, four columns to find."""
    rng = np.random.default_rng((seed, 8))
    data = [rng.standard_normal((12, 30)) * (1 + agent % 3) for agent in range(AGENTS)]
    return Procrustes(data, [rng.standard_normal((4, 12)) for _ in range(AGENTS)])


PROBLEMS: dict[str, Callable[[int], Any]] = {
    "Procrustes": procrustes,
    "PCA, synthetic": lambda seed: PCASettings(data="synthetic").problem(AGENTS, seed),
    "PCA, digits even": lambda seed: PCASettings(weighting="agents").problem(AGENTS, seed),
    "PCA, digits by label": lambda seed: PCASettings(
        partition="by-label", weighting="agents"
    ).problem(AGENTS, seed),
    "PCA, digits centred by label": lambda seed: PCASettings(
        center=True, partition="by-label", rank=5
    ).problem(AGENTS, seed),
    "matrix completion": lambda seed: MatrixCompletionSettings(dimension=40, rank=3).problem(
        AGENTS, seed
    ),
}
FURTHER: dict[str, Callable[[int], Any]] = {
    "PCA, offset": offset,
    "PCA, one large": one_large,
    "matrix completion, 30 x 2": lambda seed: MatrixCompletionSettings(
        dimension=30, rank=2
    ).problem(AGENTS, seed),
    "Procrustes, 30 x 4": sized,
}
"""Harder problems. The rule for growing steps was chosen on cells with seed 0; with another seed
they are held out."""
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
    """Iterations until the gradient norm at the projected mean and the consensus error are at most
    the tolerance; else infinite.

    The former relative to the mean objective's Lipschitz constant where that is above 1, so that a
    scaled problem is asked no more.
    """
    problem, scale = (
        run.problem,
        max(1.0, float(run.problem.lipschitz.mean()) if hasattr(run.problem, "lipschitz") else 1.0),
    )
    due = 0
    with np.errstate(all="ignore"):
        for state in run.states():
            if state.k >= due:
                if not (np.abs(state.x) < RUNAWAY).all():
                    return math.inf
                mean = state.x.mean(0)
                hat = problem.constraint.project(mean[None])
                gradient = problem.gradient(np.repeat(hat, len(state.x), axis=0)).mean(0)[None]
                small = (
                    np.linalg.norm(problem.constraint.tangent(hat, gradient)) <= TOLERANCE * scale
                )
                if small and np.linalg.norm(state.x - mean) <= TOLERANCE * math.sqrt(len(state.x)):
                    return float(state.k)
                due = state.k + max(1, state.k // 100)
            if state.k >= limit:
                return math.inf
    return math.inf


def tuned(automatic: float, count: Callable[[float, float], float]) -> float:
    """The fewest iterations with a constant step, from those with the automatic one and
    ``count(multiple of it, limit)``.

    The search goes up by factors of two until two in a row are no better, down while that is
    better, and then to the best one's neighbours by factors of sqrt(2).
    """
    found = {0: automatic}

    def better(half_powers: int) -> bool:
        least = min(found.values())
        found[half_powers] = count(2.0 ** (half_powers / 2), least)
        return found[half_powers] < least

    up, worse, down = 0, 0, 0
    while worse < 2:
        worse = 0 if better(up := up + 2) else worse + 1
    while min(found, key=found.__getitem__) == down and better(down := down - 2):
        pass
    best = min(found, key=found.__getitem__)
    for neighbour in (best + 1, best - 1):
        better(neighbour)
    return min(found.values())


def ratio(task: Task) -> tuple[Task, float, float, float]:
    """The task, iterations with the constant automatic step, with growing ones and with the best
    constant step found."""
    method = registry.algorithms.get(task.method)(step_size="constant")
    problem, W = (PROBLEMS | FURTHER)[task.problem](task.seed), GRAPHS[task.graph](task.seed)

    def run(algorithm: Any) -> Run:
        return set_up(problem, algorithm, W, seed=task.seed, comm="serial")

    with threadpool_limits(1):
        automatic = run(method)
        state, resolved = next(automatic.states()), automatic.algorithm
        follows = task.method != "destiny"

        def count(factor: float, limit: float) -> float:
            numbers = {"step_size": factor * float(state.step_size.mean())}
            if hasattr(state, "penalty"):
                numbers["penalty"] = float(state.penalty.mean()) / (factor if follows else 1.0)
            return iterations(run(replace(resolved, **numbers)), int(min(limit, task.limit)))

        first = iterations(automatic, task.limit)
        return (
            task,
            first,
            iterations(run(replace(resolved, step_size="growing")), task.limit),
            tuned(first, count),
        )


def table(methods: Iterable[str], outcomes: Iterable[tuple[Task, float, float, float]]) -> None:
    """Print the table while its cells, by rows, come in, and what the worst of them are."""
    methods, cells, row = list(methods), [], []
    print(f"| problem | graph | {' | '.join(methods)} |\n|---|---|{'---|' * len(methods)}")
    for task, automatic, grown, best in outcomes:
        if math.isfinite(best):
            cells.append((automatic / best, grown / best))
            row.append(" → ".join(f"{one:.2f}" if math.isfinite(one) else "-" for one in cells[-1]))
        else:
            row.append("")
        if len(row) == len(methods):
            print(f"| {task.problem} | {task.graph} | {' | '.join(row)} |", flush=True)
            row = []
    print()
    for name, ratios in zip(("constant", "growing"), zip(*cells, strict=True), strict=True):
        print(
            f"{name}: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, "
            f"above 1.5 in {sum(one > 1.5 for one in ratios)} of {len(ratios)} cells"
        )
    lost = [grown / constant for constant, grown in cells if math.isfinite(constant)]
    print(
        f"growing over constant: worst {max(lost):.2f}, above 1.2 in "
        f"{sum(one > 1.2 for one in lost)} cells"
    )


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
        problem = Procrustes(
            [scale * a for a in data],
            [far * scale * rng.standard_normal((r, len(a))) for a in data],
        )
    graphs = (
        lambda: tp.metropolis_weights(tp.ring(n)),
        lambda: tp.uniform_weights(tp.ring(n)),
        lambda: tp.metropolis_weights(tp.path(n)),
        lambda: tp.metropolis_weights(tp.star(n)),
        lambda: tp.metropolis_weights(tp.erdos_renyi(n, 0.4, seed=seed)),
    )
    return problem, graphs[int(rng.integers(5))]()


def outcome(task: tuple[str, int, int]) -> list[tuple[bool, float]]:
    """For constant and growing steps: true if the run diverged, and the last gradient norm."""
    name, seed, limit = task
    problem, W = random_case(seed)
    found = []
    for step in ("constant", "growing"):
        result = solve(
            problem,
            registry.algorithms.get(name)(step_size=step),
            W,
            iterations=limit,
            seed=seed,
            rows=50,
            comm="serial",
        )
        found.append((result.status == "diverged", float(result.row.values["gradient_norm"])))
    return found


def main() -> None:
    """Print the table, or the counts of divergences."""
    arguments = argparse.ArgumentParser(
        description="Automatic steps, constant and growing, against the best constant ones."
    )
    arguments.add_argument("methods", nargs="*", default=METHODS)
    arguments.add_argument(
        "--problem",
        action="append",
        choices=PROBLEMS | FURTHER,
        help="several times for several; by default all",
    )
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--limit", type=int, default=12_000)
    arguments.add_argument("--random", type=int, default=0)
    given = arguments.parse_args()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        if not given.random:
            cells = product(given.problem or PROBLEMS, GRAPHS, given.methods)
            table(
                given.methods,
                pool.map(
                    ratio,
                    [
                        Task(m, problem, graph, given.seed, given.limit)
                        for problem, graph, m in cells
                    ],
                ),
            )
            return
        for method in given.methods:
            ends = list(
                pool.map(
                    outcome,
                    [(method, seed, given.limit) for seed in range(given.random)],
                    chunksize=10,
                )
            )
            lost = [sum(end[which][0] for end in ends) for which in (0, 1)]
            nearer = sum(grown < constant / 3.0 for (_, constant), (_, grown) in ends)
            farther = sum(grown > constant * 3.0 for (_, constant), (_, grown) in ends)
            print(
                f"{method}: of {given.random} problems diverged: constant {lost[0]}, growing "
                f"{lost[1]}; the gradient after {given.limit} iterations is less than a third "
                f"with growing {nearer} times, with constant {farther} times"
            )


if __name__ == "__main__":
    main()
