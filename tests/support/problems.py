"""Small problems beside their naive values and gradients, agent by agent, and mixing matrices of
several graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import topologies as tp
from decentorth.problems import PCA, Procrustes
from tests.reference import naive
from tests.reference.naive import Array, Gradient, Value

UNEVEN = (2, 30, 3, 9, 30, 1, 4, 25, 3, 12)
"""Samples of agents 0, 1, ...: with d = 12, some are kept as rows and some as a Gram matrix."""

Weights = Any
"""A mixing matrix, ``scipy.sparse.csr_array``."""


@dataclass(frozen=True)
class Case:
    """A problem of the package and the same objectives as plain functions of one agent's point."""

    problem: Any
    values: list[Value]
    gradients: list[Gradient]
    lipschitz: list[float]


def samples(rows: Sequence[int], d: int, seed: int, ratio: float = 0.8) -> list[Array]:
    """Gaussian A_i ``(rows[i], d)`` whose columns shrink by ``ratio``."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((m, d)) * ratio ** np.arange(d) for m in rows]


def pca(rows: Sequence[int] = UNEVEN[:5], d: int = 12, r: int = 3, seed: int = 0) -> Case:
    """PCA with ``len(rows)`` agents."""
    data = samples(rows, d, seed)
    return Case(
        PCA(data, r, weights="agents"),
        [partial(naive.pca_value, a) for a in data],
        [partial(naive.pca_gradient, a) for a in data],
        [float(np.linalg.eigvalsh(a.T @ a / len(a))[-1]) for a in data],
    )


def procrustes(rows: Sequence[int] = UNEVEN[:5], d: int = 12, r: int = 3, seed: int = 0) -> Case:
    """Procrustes with ``len(rows)`` agents."""
    data = samples(rows, d, seed)
    rng = np.random.default_rng(seed + 1)
    targets = [rng.standard_normal((r, len(a))) for a in data]
    return Case(
        Procrustes(data, targets),
        [partial(naive.procrustes_value, a, b) for a, b in zip(data, targets, strict=True)],
        [partial(naive.procrustes_gradient, a, b) for a, b in zip(data, targets, strict=True)],
        [2 * float(np.linalg.eigvalsh(a.T @ a)[-1]) for a in data],
    )


CASES: dict[str, Callable[..., Case]] = {"pca": pca, "procrustes": procrustes}

GRAPHS: dict[str, Callable[[int], Weights]] = {
    "ring": lambda n: tp.uniform_weights(tp.ring(n), 0.6),
    "path": lambda n: tp.metropolis_weights(tp.path(n)),
    "star": lambda n: tp.metropolis_weights(tp.star(n)),
    "complete": lambda n: tp.metropolis_weights(tp.complete(n)),
    "erdos-renyi": lambda n: tp.metropolis_weights(tp.erdos_renyi(n, 0.5, seed=3)),
}


def stack(point: Array, n: int) -> Array:
    """``(n, *shape)``: the same point for every agent."""
    return np.repeat(point[None], n, axis=0)


def point(problem: Any, seed: int = 0) -> Array:
    """A random feasible point of the problem's set."""
    return problem.constraint.random(np.random.default_rng(seed))


def relative(found: Array, expected: Array) -> float:
    """||found - expected|| / ||expected||."""
    return float(np.linalg.norm((found - expected).ravel()) / np.linalg.norm(expected.ravel()))
