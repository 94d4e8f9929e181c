"""Cheung, Wang, Yue, So, "Randomized submanifold subgradient method for optimization over Stiefel
manifolds", formula by formula.

One agent, ``x`` is ``(n, p)``; d x d matrices are formed, and nothing is shared with the package
under test. Numbers in parentheses are the equations of the paper's first version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.reference.naive import Array, Gradient, polar, sym, tangent_projection

Columns = Sequence[int] | NDArray[np.int64]


def partial_riemannian(x: Array, z: Array, columns: Columns) -> Array:
    """``x_C skew(x_C^T z) + (I - x x^T) z`` (15), for the columns C of a Euclidean subgradient."""
    own = x[:, list(columns)]
    product = own.T @ z
    return own @ (product - sym(product)) + (np.eye(len(x)) - x @ x.T) @ z


def rssm(gradient: Gradient, x: Array, steps: Sequence[float], columns: Sequence[Columns]) -> Array:
    """Algorithm 1 with these steps and these columns, from x."""
    x = x.copy()
    for step, c in zip(steps, columns, strict=True):
        z = gradient(x)[:, list(c)]
        x[:, list(c)] = polar(x[:, list(c)] - step * partial_riemannian(x, z, c))  # (16)
    return x


def rsm(
    gradient: Gradient, x: Array, steps: Sequence[float], retract: Callable[[Array], Array] = polar
) -> Array:
    """The Riemannian subgradient method."""
    for step in steps:
        x = retract(x - step * tangent_projection(x, gradient(x)))
    return x


def averaging(x: Array, blocks: Sequence[Columns], xi: Array) -> Array:
    """``1/(l - 1) sum_{i < j} (I - x_{-ij} x_{-ij}^T) xi_ij I_ij^T`` (19)."""
    n, p = x.shape
    total = np.zeros((n, p))
    for i in range(len(blocks)):
        for j in range(i):
            c = [*blocks[i], *blocks[j]]
            others = x[:, [k for k in range(p) if k not in c]]
            total[:, c] += (np.eye(n) - others @ others.T) @ xi[:, c]
    return total / (len(blocks) - 1)


def l1_subgradient(a: Array, x: Array) -> Array:
    """``a^T sign(a x)``."""
    return a.T @ np.sign(a @ x)


def row_norms_subgradient(a: Array, x: Array) -> Array:
    """``(1/m) sum_j a_j (x^T a_j)^T / ||x^T a_j||``."""
    terms = [np.outer(row, x.T @ row) / np.sqrt(np.sum((x.T @ row) ** 2)) for row in a]
    return np.mean(terms, axis=0)
