"""Row c: iterations of decentralized methods: automatic steps, constant and growing, against the
best one; methods compared.

Iterations are those of ``benchmarks/auto_steps.py``, until the gradient at the projected mean and
the consensus error are small.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product

from ..auto_steps import GRAPHS, METHODS, Task, ratio
from .peers import Peers
from .rows import Case, Unmeasured, Works

PROBLEMS = ("Procrustes", "PCA, digits even", "PCA, digits by label")
LIMIT = 20_000
"""Iterations, of which a run without an answer has infinitely many."""


def counted(
    methods: tuple[str, ...], problem: str, graph: str, limit: int
) -> dict[str, list[float]]:
    """Iterations of each method with the constant automatic step, with growing steps and with the
    tuned step."""
    tasks = [Task(method, problem, graph, 0, limit) for method in methods]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return {task.method: counts for task, *counts in pool.map(ratio, tasks)}


def constant(value: float, limit: int) -> Callable[[], float]:
    """A work that has been measured."""

    def work() -> float:
        if not math.isfinite(value):
            raise Unmeasured(f"not there after {limit} iterations")
        return value

    return work


class Cell:
    """A problem on a graph; its iterations are counted once, when they are first asked for."""

    def __init__(self, problem: str, graph: str, limit: int) -> None:
        self.name, self.given, self.limit = (
            f"{problem}, {graph}",
            (METHODS, problem, graph, limit),
            limit,
        )
        self._found: dict[str, list[float]] | None = None

    def works(self, method: str) -> Works:
        """The iterations of a method with the constant automatic step, with growing steps, and with
        the tuned one."""
        if self._found is None:
            self._found = counted(*self.given)
        names = ("constant automatic step", "growing steps", "tuned step")
        return {
            name: constant(value, self.limit)
            for name, value in zip(names, self._found[method], strict=True)
        }

    def tuned(self) -> Works:
        """DRFGT against the others, all with tuned steps."""
        return {method: self.works(method)["tuned step"] for method in METHODS}


def cases(quick: bool, peers: Peers) -> list[Case]:
    """The section's cases."""
    found = []
    for problem, graph in product(PROBLEMS[:1], ["random"]) if quick else product(PROBLEMS, GRAPHS):
        cell = Cell(problem, graph, LIMIT)
        found.append(Case(f"tuned steps, {cell.name}", cell.tuned, 1, unit="iterations"))
        for method in METHODS:
            found.append(
                Case(
                    f"{method}, {cell.name}",
                    partial(cell.works, method),
                    1,
                    own=2,
                    goal=1.5,
                    unit="iterations",
                )
            )
    return found
