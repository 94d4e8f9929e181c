"""Gradient tracking on ||x - b_i||^2 / 2: decentorth's run, and the same in plain NumPy, for
`python -m benchmarks`."""

from __future__ import annotations

from typing import Any

import numpy as np

from decentorth import GradientTracking
from decentorth.api import Run, set_up
from decentorth.problems import FunctionProblem
from decentorth.sets import Euclidean

STEP = 0.05


class StackedTracking:
    """All agents' arrays, and one product with W for each array that is sent."""

    def __init__(self, W: Any, targets: np.ndarray, step: float = STEP) -> None:
        self.W, self.targets, self.alpha = W, targets, step
        self.x = np.zeros_like(targets)
        self.field = self.x - targets
        self.y = self.field.copy()

    def step(self) -> None:
        self.x = self.W @ self.x - self.alpha * self.y
        field = self.x - self.targets
        self.y = self.W @ self.y + field - self.field
        self.field = field


def targets(n: int, width: int) -> np.ndarray:
    """``(n, width)``: the minimisers b_i."""
    return np.random.default_rng(0).standard_normal((n, width))


def tracking(b: np.ndarray, W: Any, comm: str | None = "serial") -> Run:
    """Decentorth's run on the minimisers ``b``, in one process or (None) on the ranks of the
    job."""
    n, width = b.shape
    stacked = b[:, :, None]
    problem = FunctionProblem(
        lambda agents, x: 0.5 * ((x - stacked[agents]) ** 2).sum((-2, -1)),
        lambda agents, x: x - stacked[agents],
        Euclidean(width, 1),
        n,
        stacked=True,
    )
    method = GradientTracking(step_size=STEP, order="combine-then-adapt")
    return set_up(problem, method, W, comm=comm, x0=np.zeros((width, 1)))
