"""Vary, Ablin, Gao, Absil, "Optimization without retraction on the random generalized Stiefel
manifold", formula by formula.

One agent, ``x`` is ``(n, p)``, ``B`` ``(n, n)``; every n x n matrix of the formulas is formed, and
nothing is shared with the package under test. Numbers in parentheses are the paper's equations.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]
Gradient = Callable[[Array], Array]


def norm(a: Array) -> float:
    """The Frobenius norm."""
    return float(np.sqrt(np.sum(a * a)))


def sym(a: Array) -> Array:
    """``(a + a^T)/2``."""
    return (a + a.T) / 2


def skew(a: Array) -> Array:
    """``(a - a^T)/2``."""
    return (a - a.T) / 2


def gap(B: Array, x: Array) -> Array:
    """``h(x) = x^T B x - I``."""
    return x.T @ B @ x - np.eye(x.shape[1])


def psi_b(B: Array, x: Array, g: Array) -> Array:
    """``2 skew(g x^T B) B x`` (11)."""
    return 2 * skew(g @ x.T @ B) @ B @ x


def psi_br(B: Array, x: Array, g: Array) -> Array:
    """``2 skew(B^{-1} g x^T) B x`` (12)."""
    return 2 * skew(np.linalg.inv(B) @ g @ x.T) @ B @ x


def riemannian(B: Array, x: Array, g: Array) -> Array:
    """``g - Dh(x)^* (Dh(x)^*)^+ g`` (7), by a basis of the normal space {2 B x S : S symmetric}
    (33)."""
    p = x.shape[1]
    basis = []
    for i in range(p):
        for j in range(i, p):
            s = np.zeros((p, p))
            s[i, j] = s[j, i] = 1.0
            basis.append((2 * B @ x @ s).reshape(-1))
    adjoint = np.array(basis).T
    rest: Array = g.reshape(-1) - adjoint @ (np.linalg.pinv(adjoint) @ g.reshape(-1))
    return rest.reshape(g.shape)


DIRECTIONS = {"psi-b": psi_b, "psi-br": psi_br, "riemannian": riemannian, "natural": psi_br}


def penalty_gradient(B: Array, x: Array) -> Array:
    """``grad N(x) = 2 B x (x^T B x - I)``, of ``N = ||h||^2 / 2``."""
    return 2 * B @ x @ gap(B, x)


def landing_field(B: Array, x: Array, g: Array, penalty: float, direction: str = "psi-b") -> Array:
    """``Lambda(x) = Psi(x) + omega grad N(x)`` (8), (13); for natural with ``B^{-1} grad N(x)``."""
    pull = penalty_gradient(B, x)
    return DIRECTIONS[direction](B, x, g) + penalty * (
        np.linalg.solve(B, pull) if direction == "natural" else pull
    )


def sampled_field(B: Array, B2: Array, x: Array, g: Array, penalty: float) -> Array:
    """``2 skew(G x^T B) B' x + 2 omega B x (x^T B' x - I)`` (2), (3)."""
    return 2 * skew(g @ x.T @ B) @ B2 @ x + 2 * penalty * B @ x @ (
        x.T @ B2 @ x - np.eye(x.shape[1])
    )


def safe_step(B: Array, x: Array, field: Array, eps: float) -> float:
    """The first step at which ``||h(x - eta field)|| = eps``, for ``||h(x)|| <= eps``: on a grid,
    then by bisection.

    No point of the region is farther than ``2 sqrt(p (1 + eps))`` from x in the metric of B.
    """
    p = x.shape[1]
    farthest = 2 * np.sqrt(p * (1 + eps)) / np.sqrt(np.trace(field.T @ B @ field))
    grid = np.linspace(0, farthest, 20001)[1:]
    points = x - grid[:, None, None] * field
    gaps = points.transpose(0, 2, 1) @ B @ points - np.eye(p)
    first = int(np.flatnonzero((gaps * gaps).sum(axis=(1, 2)) > eps**2)[0])
    low, high = grid[first] - grid[0], grid[first]
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if norm(gap(B, x - middle * field)) <= eps else (low, middle)
    return float(low)


def lemma_2_4(B: Array, x: Array, field: Array, penalty: float, eps: float) -> float:
    """The safe step that Lemma 2.4 proves with ``L_N = 2 beta_1 (2 + 3 eps)``, for ``||h(x)|| <=
    eps``."""
    curvature = 2 * np.linalg.eigvalsh(B)[-1] * (2 + 3 * eps)
    pull = penalty * norm(penalty_gradient(B, x)) ** 2
    bend = curvature * norm(field) ** 2
    return float((pull + np.sqrt(pull**2 + bend * max(eps**2 - norm(gap(B, x)) ** 2, 0.0))) / bend)


def natural_gradient(B: Array, x: Array, g: Array) -> Array:
    """``B^{-1} g - x sym(x^T g)``, the Riemannian gradient of ``tr(u^T B v)``."""
    return np.linalg.inv(B) @ g - x @ sym(x.T @ g)


def polar(B: Array, y: Array) -> Array:
    """``y (y^T B y)^{-1/2}`` (15), from ``B^{1/2}``: the nearest point in the norm ``||B^{1/2}
    .||``."""
    root = scipy.linalg.sqrtm(B).real
    u, _, vt = np.linalg.svd(root @ y, full_matrices=False)
    return np.linalg.solve(root, u @ vt)


def cholesky_qr(B: Array, y: Array) -> Array:
    """``y R^{-1}``, ``R^T R = y^T B y`` (16)."""
    return y @ np.linalg.inv(np.linalg.cholesky(y.T @ B @ y).T)


RETRACTIONS = {
    "polar": polar,
    "polar-svd": polar,
    "polar-eigh": polar,
    "qr": cholesky_qr,
    "cholesky-qr": cholesky_qr,
}


def augmented_gradient(B: Array, x: Array, g: Array, penalty: float) -> Array:
    """``g - B x sym(x^T g) + beta B x (x^T B x - I)``: PLAM's field."""
    return g - B @ x @ sym(x.T @ g) + penalty * B @ x @ gap(B, x)


def landing(
    B: Array,
    gradient: Gradient,
    x0: Array,
    step: float,
    penalty: float,
    iterations: int,
    direction: str,
    eps: float | None,
) -> Array:
    """``x+ = x - eta Lambda(x)`` (8), with safe steps where ``eps`` is given."""
    x = x0
    for _ in range(iterations):
        field = landing_field(B, x, gradient(x), penalty, direction)
        x = x - (step if eps is None else min(step, safe_step(B, x, field, eps))) * field
    return x


def rgd(
    B: Array,
    gradient: Gradient,
    x0: Array,
    step: float,
    iterations: int,
    metric: str,
    retraction: str,
) -> Array:
    """``x+ = R_x(-eta grad f(x))``."""
    direction = {"natural": natural_gradient, "euclidean": riemannian}[metric]
    x = x0
    for _ in range(iterations):
        x = RETRACTIONS[retraction](B, x - step * direction(B, x, gradient(x)))
    return x


def plam(
    B: Array, gradient: Gradient, x0: Array, step: float, penalty: float, iterations: int
) -> Array:
    """``x+ = x - eta (g - B x sym(x^T g) + beta B x (x^T B x - I))``."""
    x = x0
    for _ in range(iterations):
        x = x - step * augmented_gradient(B, x, gradient(x), penalty)
    return x


def pcal(
    B: Array, gradient: Gradient, x0: Array, step: float, penalty: float, iterations: int
) -> Array:
    """PLAM's step of every column along the sphere ``x_j^T B x_j = 1``, and back to it."""
    x = x0
    for _ in range(iterations):
        field = augmented_gradient(B, x, gradient(x), penalty)
        columns = []
        for j in range(x.shape[1]):
            normal = B @ x[:, j]
            along = field[:, j] - normal * (normal @ field[:, j]) / (normal @ normal)
            y = x[:, j] - step * along
            columns.append(y / np.sqrt(y @ B @ y))
        x = np.array(columns).T
    return x


def barzilai_borwein(points: list[Array], fields: list[Array], metric: Array) -> list[float]:
    """The alternating steps after each iteration, in the inner product ``tr(u^T metric v)``: long
    first, then short, ..."""
    steps = []
    for k, ((x, y), (f, g)) in enumerate(
        zip(pairwise(points), pairwise(fields), strict=True), start=1
    ):
        s, z = y - x, g - f
        ss, sz, zz = (float(np.sum(a * (metric @ b))) for a, b in ((s, s), (s, z), (z, z)))
        steps.append(ss / abs(sz) if k % 2 == 1 else abs(sz) / zz)
    return steps
