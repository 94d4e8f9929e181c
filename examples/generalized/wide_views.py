"""
How do agents correlate wide views?
===================================

Canonical correlations of wide views where no agent sees the covariance: how
many columns the agents' sketch should have. ::

    # 3000 iterations from the starts 0, 1 and 2, several minutes
    python examples/generalized/wide_views.py
    # 100 iterations, one start, 1000 images
    python examples/generalized/wide_views.py 100 1 1000

The images are made: scikit-learn's digits enlarged to 28 x 28 pixels and
deformed at random, whose halves without constant columns have 299 and 318
columns and covariances, with their ridges, of condition 823 and 808. Ten agents
in a ring have one digit each. For each sketch this prints the condition of P B,
the rounds until the correlations' sum is within 1e-2, 1e-3 and 1e-4, and
megabytes.

Explained in ``docs/generalized.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from sklearn.datasets import load_digits

import decentorth as do
import topologies as tp

SIDE = 28
VARIANTS = {
    "15 columns": do.CDADT(sketch_columns=15),
    "60 columns, the default": do.CDADT(),
    "149 columns": do.CDADT(sketch_columns=149),
    "the covariance": do.CDADT(preconditioner="covariance"),
}


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    digits = load_digits()
    rows, columns = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    made = np.empty((count, SIDE, SIDE), np.float32)
    for k in range(count):
        angle = np.deg2rad(rng.normal(0, 12))
        scale = 1 + rng.normal(0, 0.1, 2)
        shift = rng.normal(0, 0.7, 2)
        u = (rows - 13.5) / scale[0]
        v = (columns - 13.5) / scale[1]
        bend = [
            gaussian_filter(rng.standard_normal((SIDE, SIDE)), 2.0) * 9.204
            for _ in range(2)
        ]
        at = (
            np.cos(angle) * u - np.sin(angle) * v + shift[0] + bend[0],
            np.sin(angle) * u + np.cos(angle) * v + shift[1] + bend[1],
        )
        image = map_coordinates(
            digits.images[k % len(digits.images)] / 16,
            [0.4 * one + 3.5 for one in at],
            order=3,
        )
        image = np.clip(2.2 * (image - 0.25), 0, 1)
        made[k] = np.where(image < 0.02, 0, image)
    return made, digits.target[np.arange(count) % len(digits.target)]


def standardized(view: np.ndarray) -> np.ndarray:
    view = view.reshape(len(view), -1).astype(float)
    view = view[:, (view > 0).mean(0) > 0.002]
    return (view - view.mean(0)) / view.std(0)


def condition(
    problem: do.problems.CCA,
    state: Any,
) -> float:
    """Of P B, for the first agent's P."""
    found = []
    for rows, part in zip(
        problem.constraint.rows, problem.constraint.parts, strict=True
    ):
        P = (
            np.diag(state.weights[0, rows])
            - state.basis[0, rows] @ state.basis[0, rows].T
        )
        values = np.linalg.eigvals(P @ part.operator.stack[0]).real
        found.append(values.max() / values.min())
    return max(found)


def main(iterations: int = 3000, starts: int = 3, count: int = 6000) -> None:
    made, labels = images(count)
    halves = [
        standardized(half)
        for half in (made[:, :, : SIDE // 2], made[:, :, SIDE // 2 :])
    ]
    problem = do.problems.CCA(
        *[[half[labels == digit] for digit in range(10)] for half in halves],
        rank=5,
        ridge=0.01,
    )
    own = ", ".join(
        f"{np.linalg.cond(part.operator.stack[0]):.0f}"
        for part in problem.constraint.parts
    )
    print(
        f"{halves[0].shape[1]} and {halves[1].shape[1]} columns, condition "
        f"{own}"
    )
    for name, method in VARIANTS.items():
        for seed in range(starts):
            result = do.solve(
                problem,
                method,
                tp.metropolis_weights(tp.ring(10)),
                iterations=iterations,
                record_every=min(50, iterations),
                seed=seed,
            )
            rounds, gap, sent = (
                result.history[column]
                for column in ("rounds", "error", "bytes")
            )
            near = [
                str(int(rounds[gap < goal][0])) if (gap < goal).any() else "-"
                for goal in (1e-2, 1e-3, 1e-4)
            ]
            print(
                f"{name}, start {seed}: condition of P B "
                f"{condition(problem, result.state):.1f}; rounds "
                f"{' '.join(near)}; "
                f"gap {gap[-1]:.1e} after {rounds[-1]:.0f} rounds, "
                f"{sent[-1] / 1e6:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
