"""What the figures of paper 003's generalized eigenvalue problem share: one
run, a step out of a grid, medians and ranges.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

import decentorth as do
from decentorth import figures
from decentorth.authoring import on_host
from decentorth.problems import GEVPSettings

TUNING_SEED = 1000
"""No figure shows it."""


class Task(NamedTuple):
    """A run: the problem and the method by their settings, so that it can be
    sent to another process.
    """

    settings: GEVPSettings
    method: Any
    seed: int
    iterations: int
    device: str | None = None
    limit: float = float("inf")
    """The seconds after which it ends."""


def task_of(given: argparse.Namespace, method: Any, seed: int) -> Task:
    """The run of a method that a command line asks for."""
    return Task(
        given.settings,
        method,
        seed,
        given.iterations,
        given.device,
        given.limit,
    )


@lru_cache(maxsize=2)
def solved(settings: GEVPSettings, seed: int) -> Any:
    """The problem with its answer, made once for all methods."""
    problem: Any = do.solve(
        settings.problem(1, seed),
        do.RGD(step_size=1.0),
        iterations=0,
        seed=seed,
        comm="serial",
    ).problem
    start = problem.start(seed)
    problem.prepare = lambda collective: None
    problem.start = lambda seed: start
    return problem


def states_of(task: Task) -> Iterator[Any]:
    """The states of a task's run, on its device, which is warmed up."""

    def begun() -> Iterator[Any]:
        return do.iterate(
            solved(task.settings, task.seed),
            task.method,
            seed=task.seed,
            comm="serial",
            device=task.device,
        )

    kind = (
        type(task.method),
        getattr(task.method, "direction", ""),
        getattr(task.method, "metric", ""),
        task.settings,
    )
    if task.device is not None and kind not in _WARM:
        _WARM.add(kind)
        with np.errstate(over="ignore", invalid="ignore"):
            for state in islice(begun(), 4):
                clock(state, task.device)
    return begun()


def marks(last: int, number: int) -> list[int]:
    """About ``number`` log-spaced iterations from 0 to the last."""
    between = np.arange(1, last + 1)
    points = number - 2
    if last > points:
        between = np.array([])
    while len(between) < min(number - 2, last):
        # small integers coincide, so more points are needed
        between = np.unique(np.geomspace(1, last, points).round().astype(int))
        points += 1
    return [0, *between.tolist()]


_WARM: set[Any] = set()
"""The kinds of methods whose kernels this process has loaded."""


def clock(state: Any, device: str | None) -> float:
    """Seconds of the processor; on a device of the clock, once the state is
    there.
    """
    if device is None:
        return time.process_time()
    if state is not None:
        float(state.x[0, 0, 0])
    return time.perf_counter()


def run(task: Task) -> dict[str, Any]:
    """What a run did: arrays over about 40 log-spaced iterations, up to where
    it diverged, its first step size and its penalty.

    ``gap`` is (f - f*) / |f*| at a point of the set with the same span,
    ``feasibility`` ||x^T B x - I||_F, and ``seconds`` are those of `clock` from
    the first state on, of the method alone.
    """
    problem = solved(task.settings, task.seed)
    least = problem.optimal_value
    constraint = problem.constraint
    states = states_of(task)
    state = next(states)
    penalty = getattr(state, "penalty", np.zeros(1))
    found: dict[str, Any] = {
        "step_size": float(state.step_size[0]),
        "penalty": float(penalty[0]),
    }
    rows = []
    spent = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for k in marks(task.iterations, 40):
            begun = clock(None, task.device)
            while state.k < k:
                state = next(states)
            if k > 0:
                spent += clock(state, task.device) - begun
            x = on_host(state.x)
            product = constraint.product(x)
            point, _ = constraint.retract_with(x, product, "cholesky-qr")
            gap = (float(problem.value(point)[0]) - least) / abs(least)
            feasibility = float(constraint.feasibility(x)[0])
            rows.append((k, spent, gap, feasibility))
            if not np.isfinite(feasibility) or spent > task.limit:
                break
    names = ("iteration", "seconds", "gap", "feasibility")
    return found | dict(zip(names, np.array(rows).T, strict=True))


@cache
def processes(jobs: int) -> ProcessPoolExecutor:
    """So many processes, which stay, since the first run on a device takes
    seconds.
    """
    return ProcessPoolExecutor(jobs)


def parallel(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    jobs: int | None = None,
    together: int = 1,
) -> list[Any]:
    """The function of each task, in ``jobs`` processes, by default one for each
    core. Each process takes ``together`` tasks in turn.
    """
    return list(
        processes(jobs or os.cpu_count() or 1).map(
            function, tasks, chunksize=together
        )
    )


def last(history: dict[str, Any], name: str = "gap") -> float:
    """The gap in the end; infinite for a run that diverged."""
    end = float(history[name][-1])
    return end if np.isfinite(end) else np.inf


Grid = dict[tuple[float, float], Any]
"""A method with each pair of multiples of its step and its penalty."""


def tuned(
    given: argparse.Namespace, methods: dict[str, Any], factors: Sequence[float]
) -> dict[str, Any]:
    """Each method with the best of multiples of its automatic step, and of the
    penalty that goes with a step, on `TUNING_SEED`.

    Prints them, and warns where the best step is the smallest or the largest
    tried.
    """
    starts = first_steps(given, list(methods.values()))
    steps = [own["step_size"] for own in starts]
    grids = {
        name: grid_of(given, method, step, factors)
        for (name, method), step in zip(methods.items(), steps, strict=True)
    }
    tasks = [
        task_of(given, method, TUNING_SEED)
        for grid in grids.values()
        for method in grid.values()
    ]
    gaps = iter(map(last, parallel(run, tasks, given.jobs)))
    chosen = {}
    for (name, grid), step in zip(grids.items(), steps, strict=True):
        ends = {pair: next(gaps) for pair in grid}
        best = min(ends, key=lambda pair: ends[pair])
        report(name, step, best, ends, factors)
        chosen[name] = grid[best]
    return chosen


def first_steps(given: argparse.Namespace, methods: list[Any]) -> list[Any]:
    """What methods begin with: runs of no iterations."""
    tasks = [Task(given.settings, one, TUNING_SEED, 0) for one in methods]
    return parallel(run, tasks, given.jobs)


def grid_of(
    given: argparse.Namespace,
    method: Any,
    start: float,
    factors: Sequence[float],
) -> Grid:
    """A method with multiples of its first step, and of the penalties that it
    then has.
    """
    stepped = [replace(method, step_size=factor * start) for factor in factors]
    begun = first_steps(given, stepped)
    has_penalty = "penalty" in {field.name for field in fields(method)}
    grid = {}
    for factor, one, own in zip(factors, stepped, begun, strict=True):
        grid[factor, 1.0] = one
        for multiple in (0.3, 3.0) if has_penalty else ():
            penalty = multiple * own["penalty"]
            grid[factor, multiple] = replace(one, penalty=penalty)
    return grid


def report(
    name: str,
    start: float,
    best: tuple[float, float],
    ends: dict[tuple[float, float], float],
    factors: Sequence[float],
) -> None:
    """Print the best pair of multiples, and the steps that all diverged."""
    factor, multiple = best
    failed = []
    for one in factors:
        own = [end for pair, end in ends.items() if pair[0] == one]
        if np.isinf(own).all():
            failed.append(f"{one:g}")
    line = (
        f"{name}: step {factor * start:.3g}, {factor:g} times the automatic "
        f"one, penalty {multiple:g} times"
    )
    if failed:
        line += f"; diverged at {', '.join(failed)} times the step"
    print(line)
    if factor in (min(factors), max(factors)):
        print(f"{name}: this step is at an end of the grid")


def band(
    axes: Any,
    histories: Sequence[dict[str, Any]],
    x: str,
    y: str,
    place: int,
    label: str,
    **looks: Any,
) -> None:
    """The median over runs and, shaded, their range, on logarithmic axes, as
    far as all have come.

    Runs are interpolated, since times differ from run to run.
    """
    grid = np.geomspace(
        max(one[x][1] for one in histories),
        min(one[x][-1] for one in histories),
        200,
    )
    with np.errstate(invalid="ignore"):
        logs = [
            np.interp(
                np.log(grid),
                np.log(one[x][1:]),
                np.log(np.maximum(one[y][1:], 1e-16)),
            )
            for one in histories
        ]
    values = np.exp(logs)
    figures.band(axes, grid, values, place, label, linewidth=1.2, **looks)


def where(device: str | None) -> str:
    """The words of a caption for what seconds are."""
    if device is None:
        return "Seconds are of the processor, one thread"
    return f"Seconds are of the clock, on {device}"


def arguments(
    about: str, figure: str, iterations: int, **sizes: int
) -> argparse.Namespace:
    """The command line: a file, ``--published`` for paper 003's size, and
    numbers of seeds and iterations.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", nargs="?", default=figure)
    parser.add_argument(
        "--published",
        action="store_true",
        help="n = 1000, p = 500, as in the paper",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=iterations)
    parser.add_argument(
        "--dimension", type=int, default=sizes.get("dimension", 200)
    )
    parser.add_argument("--rank", type=int, default=sizes.get("rank", 100))
    parser.add_argument(
        "--device",
        help="cuda, or another device of PyTorch; seconds are those of the "
        "clock then",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        help="processes, by default as many as cores; timed runs on a device "
        "are in one",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=float("inf"),
        help="seconds after which a run ends",
    )
    given = parser.parse_args()
    if given.published:
        given.dimension = 1000
        given.rank = 500
    given.settings = GEVPSettings(dimension=given.dimension, rank=given.rank)
    return given
