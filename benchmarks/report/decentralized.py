"""Row c: iterations of decentralized methods, with automatic steps against the best constant one, and against each other.

Iterations are those of ``benchmarks/auto_steps.py``, until the gradient at the projected mean and the consensus error are small.
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


def counted(methods: tuple[str, ...], problem: str, graph: str, limit: int) -> dict[str, tuple[float, float]]:
    """Iterations of each method with the automatic and with the tuned step."""
    tasks = [Task(method, problem, graph, 0, limit) for method in methods]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return {task.method: (automatic, best) for task, automatic, _, best in pool.map(ratio, tasks)}


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
        self.name, self.given, self.limit = f"{problem}, {graph}", (METHODS, problem, graph, limit), limit
        self._found: dict[str, tuple[float, float]] | None = None

    def works(self, method: str) -> tuple[Callable[[], float], Callable[[], float]]:
        """The iterations of a method with the automatic and with the tuned step."""
        if self._found is None:
            self._found = counted(*self.given)
        automatic, best = (constant(value, self.limit) for value in self._found[method])
        return automatic, best

    def automatic(self, method: str) -> Works:
        """Automatic against tuned steps."""
        automatic, best = self.works(method)
        return {"automatic step": automatic, "tuned step": best}

    def tuned(self) -> Works:
        """DRFGT against the others, all with tuned steps."""
        return {method: self.works(method)[1] for method in METHODS}


def cases(quick: bool, peers: Peers) -> list[Case]:
    """The section's cases."""
    found = []
    for problem, graph in product(PROBLEMS[:1], ["random"]) if quick else product(PROBLEMS, GRAPHS):
        cell = Cell(problem, graph, LIMIT)
        found.append(Case(f"tuned steps, {cell.name}", cell.tuned, 1, unit="iterations"))
        for method in METHODS:
            found.append(Case(f"{method}, {cell.name}", partial(cell.automatic, method), 1, goal=1.5, unit="iterations"))
    return found
