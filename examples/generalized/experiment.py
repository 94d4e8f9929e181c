"""What the figures of paper 003's generalized eigenvalue problem share: one
run, a step out of a grid, medians and ranges.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from decentorth import RGD
from decentorth.api import set_up
from decentorth.numerics.devices import opened
from decentorth.problems import GEVPSettings
from decentorth.records import publication
from decentorth.running.history import schedule

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


@lru_cache(maxsize=2)
def solved(settings: GEVPSettings, seed: int, device: str | None) -> Any:
    """The problem with its answer, made once for all methods; its copy on a
    device too.
    """
    problem: Any = set_up(
        settings.problem(1, seed), RGD(step_size=1.0), seed=seed, comm="serial"
    ).problem
    start = problem.start(seed)
    problem.prepare = lambda collective: None
    problem.start = lambda seed: start
    if device is not None:
        placed = problem.on(opened(device).put)
        problem.on = lambda put: placed
    return problem


def set_up_on(task: Task) -> tuple[Any, Any]:
    """The run of a task, and its problem where the iterations are made: on the
    device, warmed up, if there is one.
    """
    prepared: Any = set_up(
        solved(task.settings, task.seed, task.device),
        task.method,
        seed=task.seed,
        comm="serial",
        device=task.device,
    )
    if task.device is None:
        return prepared, prepared.problem
    kind = (
        type(task.method),
        getattr(task.method, "direction", ""),
        getattr(task.method, "metric", ""),
        task.settings,
    )
    if kind not in _WARM:
        _WARM.add(kind)
        with np.errstate(over="ignore", invalid="ignore"):
            for state in islice(prepared.states(), 4):
                clock(state, task.device)
    return prepared, prepared.placed


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
    prepared, problem = set_up_on(task)
    least = problem.optimal_value
    constraint = problem.constraint
    rows = []
    spent = 0.0
    states = prepared.states()
    with np.errstate(over="ignore", invalid="ignore"):
        for k in schedule(task.iterations, 40, None):
            begun = clock(None, task.device)
            state = next(state for state in states if state.k == k)
            if k > 0:
                spent += clock(state, task.device) - begun
            else:
                steps = {
                    "step_size": float(state.step_size[0]),
                    "penalty": float(getattr(state, "penalty", np.zeros(1))[0]),
                }
            point, _ = constraint.retract_with(
                state.x, constraint.product(state.x), "cholesky-qr"
            )
            gap = (float(problem.value(point)[0]) - least) / abs(least)
            rows.append(
                (k, spent, gap, float(constraint.feasibility(state.x)[0]))
            )
            if not np.isfinite(rows[-1][3]) or spent > task.limit:
                break
    columns = np.array(rows).T
    return (
        dict(
            zip(
                ("iteration", "seconds", "gap", "feasibility"),
                columns,
                strict=True,
            )
        )
        | steps
    )


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


def tuned(
    given: argparse.Namespace, methods: dict[str, Any], factors: Sequence[float]
) -> dict[str, Any]:
    """Each method with the best of multiples of its automatic step, and of the
    penalty that goes with a step, on `TUNING_SEED`.

    Prints them, and warns where the best step is the smallest or the largest
    tried.
    """
    settings = given.settings
    iterations = given.iterations
    jobs = given.jobs
    own = parallel(
        run,
        [Task(settings, method, TUNING_SEED, 0) for method in methods.values()],
        jobs,
    )
    starts = {
        name: history["step_size"]
        for name, history in zip(methods, own, strict=True)
    }
    found: dict[str, dict[tuple[float, float], Any]] = {
        name: {} for name in methods
    }
    for name, method in methods.items():
        stepped = {
            factor: replace(method, step_size=factor * starts[name])
            for factor in factors
        }
        own = parallel(
            run,
            [Task(settings, one, TUNING_SEED, 0) for one in stepped.values()],
            jobs,
        )
        for (factor, one), history in zip(stepped.items(), own, strict=True):
            found[name][factor, 1.0] = one
            if "penalty" in {field.name for field in fields(method)}:
                for multiple in (0.3, 3.0):
                    found[name][factor, multiple] = replace(
                        one, penalty=multiple * history["penalty"]
                    )
    tasks = [
        Task(settings, one, TUNING_SEED, iterations, given.device, given.limit)
        for grid in found.values()
        for one in grid.values()
    ]
    gaps = iter(map(last, parallel(run, tasks, jobs)))
    chosen = {}
    for name, grid in found.items():
        ends = {pair: next(gaps) for pair in grid}
        factor, multiple = best = min(ends, key=lambda pair: ends[pair])
        step = factor * starts[name]
        failed = [
            f"{one:g}"
            for one in factors
            if all(
                np.isinf(end) for pair, end in ends.items() if pair[0] == one
            )
        ]
        print(
            f"{name}: step {step:.3g}, {factor:g} times the automatic one, "
            f"penalty {multiple:g} times",
            end="",
        )
        print(
            f"; diverged at {', '.join(failed)} times the step"
            if failed
            else ""
        )
        if factor in (min(factors), max(factors)):
            print(f"{name}: this step is at an end of the grid")
        chosen[name] = grid[best]
    return chosen


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
    publication.band(
        axes, grid, np.exp(logs), place, label, linewidth=1.2, **looks
    )


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
        given.dimension, given.rank = 1000, 500
    given.settings = GEVPSettings(dimension=given.dimension, rank=given.rank)
    return given
