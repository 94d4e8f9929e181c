"""Features split over agents: LOBPCG and tracked landing against DASF and sending the data, in
bytes; samples in turn for PCA.

    python benchmarks/features.py

Digits, centred, eight agents with eight of the 64 features each on a ring with weights 1/3, r = 5.
PCA; GEVP: the discriminants, between- against total scatter + 1e-2 I, the largest eigenvalue of the
total scatter being 1; CCA: left and right halves, each with largest covariance eigenvalue 1, + 1e-2
I. Angle: the sine of the largest principal angle to the pooled answer. Bytes: what an agent sends
on average, all rounds of the start included, the final certificate not. Tracked landing is run on
the samples' coordinates in an orthonormal basis of their span, which are the same iterates, and its
bytes are scaled to all samples.

DASF is the algorithm of Musluoglu and Bertrand, "A unified algorithmic framework for distributed
adaptive signal and feature fusion problems, part I", IEEE Transactions on Signal Processing 2023,
in its batch form: one node q after the other solves the whole problem on its own features and, for
each neighbour's branch of the tree, the compressed samples sum_k D_k x_k of that branch, which then
turns its x_k by an r x r block of the solution (two for CCA, whose views have their own). A node
sends its branch's sum, k r numbers, towards q, and q's blocks go the other way, along the tree of
shortest paths to q. All m samples are used in every iteration, as by the others; the exact solution
of the local problem is free.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from typing import Any

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

import decentorth as do
import topologies as tp
from decentorth.problems import SplitCCA, SplitGEVP, SplitPCA
from decentorth.protocols import Array

N, RANK, RIDGE, MOST = 8, 5, 1e-2, 4000
STEPS = {
    "PCA": do.TrackedLanding(step_size=0.0028),
    "GEVP": do.TrackedLanding(step_size=0.11),
    "CCA": do.TrackedLanding(step_size=0.12),
}
"""Steps found by trials, beside the automatic ones: 0.5 / L for PCA."""


def problems(basis: bool = False) -> dict[str, Any]:
    """The three problems; agents hold consecutive columns.

    With ``basis`` samples are replaced by their coordinates in an orthonormal basis of their span:
    the same pencil from 64 rows.
    """
    samples, labels = load_digits(return_X_y=True)
    samples = samples - samples.mean(axis=0)
    m = len(samples)
    total = samples / np.linalg.norm(samples, 2)
    between = np.stack(
        [np.sqrt(np.sum(labels == c)) * total[labels == c].mean(axis=0) for c in range(10)]
    )
    grid = samples.reshape(m, 8, 8)
    views = [grid[:, :, half].reshape(m, -1) for half in (slice(4), slice(4, 8))]
    views = [view / np.linalg.norm(view, 2) for view in views]
    if basis:
        axes = np.linalg.qr(samples)[0].T
        samples, total, views = axes @ samples, axes @ total, [axes @ view for view in views]
        samples *= np.sqrt(len(samples) / m)
    views = [view * np.sqrt(len(view)) for view in views]

    def parts(whole: Array) -> list[Array]:
        return np.array_split(whole, N, axis=1)

    return {
        "PCA": SplitPCA(parts(samples), RANK),
        "GEVP": SplitGEVP(parts(between), parts(total), RANK, RIDGE),
        "CCA": SplitCCA(parts(views[0]), parts(views[1]), RANK, (RIDGE, RIDGE)),
    }


def dasf(
    problem: Any, answer: Any, tolerances: tuple[float, ...], seed: int = 0
) -> list[tuple[int, float]]:
    """Iterations and bytes sent by an agent, on average, until each tolerance; NaN bytes if there
    were too few iterations."""
    columns, views = problem._columns, problem._views
    n, k, most = columns.shape
    x = np.random.default_rng(seed).standard_normal((n, most, RANK))
    kinds = np.unique(views)
    found: list[tuple[int, float]] = []
    sent = 0.0
    for iteration in range(1, MOST + 1):
        q = iteration % n
        branches = [
            [(q + side * step) % n for step in range(1, n // 2 + (side > 0))] for side in (1, -1)
        ]
        blocks, ridges = [columns[q]], [np.diag(problem.ridge[q, :, 0])]
        for branch in branches:
            for kind in kinds:
                own = x[branch] * (views[branch] == kind)[:, :, None]
                blocks.append((columns[branch] @ own).sum(axis=0))
                ridges.append(np.einsum("nir,ni,nis->rs", own, problem.ridge[branch, :, 0], own))
        image = np.concatenate(blocks, axis=1)
        objective = image.T @ problem.objective_rows(image[None])[0]
        constraint = image.T @ problem.constraint_rows(image[None])[0] + scipy.linalg.block_diag(
            *ridges
        )
        order = len(constraint)
        _, solution = scipy.linalg.eigh(
            objective, constraint, subset_by_index=[order - RANK, order - 1]
        )
        x[q] = solution[:most]
        start = most
        for branch in branches:
            turned = np.zeros_like(x[branch])
            for kind in kinds:
                turned += (x[branch] * (views[branch] == kind)[:, :, None]) @ solution[
                    start : start + RANK
                ]
                start += RANK
            x[branch] = turned
        # the sums with their ridge parts, and the blocks on the way back
        numbers = k * RANK + len(kinds) * 2 * RANK**2
        sent += 8.0 * (n - 1) * numbers / n
        if iteration % n == 0 or iteration < 100:
            whole = np.concatenate(list(x))
            while len(found) < len(tolerances) and answer(whole) <= tolerances[len(found)]:
                found.append((iteration, sent))
            if len(found) == len(tolerances):
                break
    return found + [(MOST, float("nan"))] * (len(tolerances) - len(found))


def ours(
    problem: Any,
    method: Any,
    iterations: int,
    every: int,
    tolerances: tuple[float, ...],
    scale: float = 1.0,
) -> list[tuple[int, float]]:
    """Iterations and bytes sent by an agent, on average, times ``scale``, until each tolerance."""
    W = tp.uniform_weights(tp.ring(N), self_weight=1 / 3)
    result = do.solve(
        problem,
        method,
        W,
        iterations=iterations,
        record_every=every,
        stopping=do.stopping.Error(1e-8),
    )
    errors, history = result.history["error"], result.history
    found = []
    for tolerance in tolerances:
        row = int(np.argmax(errors <= tolerance))
        reached = errors[row] <= tolerance
        found.append(
            (
                int(history["iteration"][row]),
                scale * history["bytes"][row] / N if reached else float("nan"),
            )
        )
    return found


def main() -> None:
    tolerances = (1e-6, 1e-8)
    table = Table(
        "problem",
        "method",
        "iterations to 1e-6",
        "MB sent by an agent",
        "iterations to 1e-8",
        "MB sent by an agent",
    )
    brief = problems(basis=True)
    for name, problem in problems().items():
        k, kept = (one._columns.shape[1] + RANK for one in (problem, brief[name]))
        prepared = do.solve(problem, "lobpcg", "ring", iterations=0).problem
        rows = {
            "LOBPCG": ours(problem, do.LOBPCG(), 400, 1, tolerances),
            "DASF": dasf(prepared, prepared.error, tolerances),
            "tracked landing": ours(
                brief[name], do.TrackedLanding(), 18_000, 20, tolerances, k / kept
            ),
            "tracked landing, tuned step": ours(
                brief[name], STEPS[name], 9000, 20, tolerances, k / kept
            ),
        }
        if name == "PCA":
            rows["LOBPCG, 100 rows a message"] = ours(
                problem, do.LOBPCG(rows_per_message=100), 400, 1, tolerances
            )
        size = 8e-6 * problem._columns.size * (N - 1) / N * (0.5 if name == "CCA" else 1.0)
        for method, found in rows.items():
            table.add_row(
                name, method, *[text for k, sent in found for text in (f"{k}", f"{sent / 1e6:.2f}")]
            )
        table.add_row(name, "sending the data to everybody", "", f"{size:.2f}", "", f"{size:.2f}")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
