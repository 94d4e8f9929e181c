"""The safety region ||x^T x - I||_F <= eps of St(d, r) (paper 004 (6)): its points, and the suprema
of gradients on it.

A point of the region is x = U diag(sigma) V^T with sigma_j^2 = 1 + t_j and ||t||_2 <= eps. For
f(x) = <x, H x>/2 - <x, K> with the absolute eigenvalues h_1 >= h_2 >= ... of H and the singular
values k_j of K, von Neumann's trace inequality and Horn's inequalities for products give

    sup ||H x||_F^2      = sum_j h_j^2 + eps (sum_j h_j^4)^(1/2),          j = 1..r,
    sup ||x^T H x||_F    = max over ||t|| <= eps of (sum_j h_j^2 (1 + t_j)^2)^(1/2)
    sup ||sym(x^T K)||_F <= (sum_j k_j^2 + eps (sum_j k_j^4)^(1/2))^(1/2),

the first two attained where the columns of U are eigenvectors (the second, for H of one sign).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ...algorithms.decentralized.safe import Eps
from ...numerics.ordered_sums import norms
from ...protocols import Array, Problem, Quadratic
from ...settings import check

_POINTS = 64
_POWER_ROUNDS = 4
_DIFFERENCE = 1e-5
_ROUNDING = 1e-12
_TINY = np.finfo(np.float64).tiny


class Suprema(NamedTuple):
    """The suprema of the agents' gradients on the safety region, the largest over all agents, so
    valid for each f_i and for f.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> from decentorth import theory
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> theory.suprema(problem, eps=0.5).kind
    'exact'
    """

    lipschitz: float
    """The constant L, a Lipschitz constant of every G_i (Assumption III.4)."""
    gradient: float
    """The supremum of ||G_i(x)||_F."""
    symmetric: float
    """The supremum s of ||sym(x^T G_i(x))||_F (9)."""
    kind: Literal["exact", "bound", "sampled"]
    """The kind of the suprema: exact (attained), a proved upper bound, or the largest of a sample
    (which may be too small)."""


def suprema(
    problem: Problem[object], eps: float, *, points: int = _POINTS, seed: int = 0
) -> Suprema:
    """The suprema L, sup ||G_i|| and s over ``||x^T x - I||_F <= eps``, for the local agents of
    ``problem``.

    Exact for PCA; for other quadratic objectives (`Quadratic`; Procrustes) L is exact and the
    suprema are proved bounds, the linear part added by the triangle inequality; for any other
    problem all three are sampled at ``points`` random points. Raises ValueError unless 0 < eps <
    3/4.
    """
    eps = check("eps", Eps, eps)
    if not isinstance(problem, Quadratic):
        return _sampled(problem, eps, points, seed)
    d, r = problem.shape
    hessian = problem.hessian()
    eigenvalues = np.linalg.eigvalsh(hessian).astype(np.float64, copy=False)
    curvatures = -np.sort(-np.abs(eigenvalues), axis=-1)[:, :r]
    linear = -problem.gradient(np.zeros((len(hessian), d, r)))
    targets = np.linalg.svd(linear, compute_uv=False).astype(np.float64, copy=False)
    gradient = _stretched(curvatures, eps) + norms(linear)
    symmetric = np.array([_scaled(h, eps) for h in curvatures]) + _stretched(targets, eps)
    rounding = _ROUNDING * np.abs(eigenvalues).max(-1)
    one_sign = np.all((eigenvalues[:, 0] >= -rounding) | (eigenvalues[:, -1] <= rounding))
    lipschitz = float(np.abs(eigenvalues).max())
    found = Suprema(lipschitz, float(gradient.max()), float(symmetric.max()), "bound")
    if one_sign and not linear.any():
        found = found._replace(kind="exact")
    return found


def region_points(
    shape: tuple[int, ...],
    eps: float,
    count: int,
    rng: np.random.Generator,
    *,
    boundary: bool = False,
) -> Array:
    """``(count, d, r)``: random points of the region; singular vectors uniform, t uniform in the
    ball of radius eps.

    With ``boundary``, t is uniform on the sphere of radius eps: ||x^T x - I||_F = eps.
    """
    d, r = shape
    u = np.linalg.qr(rng.standard_normal((count, d, r)))[0]
    v = np.linalg.qr(rng.standard_normal((count, r, r)))[0]
    t = rng.standard_normal((count, r))
    radius = np.ones(count)
    if not boundary:
        radius = rng.uniform(size=count) ** (1.0 / r)
    t *= (eps * radius / norms(t))[:, None]
    points: Array = (u * np.sqrt(1.0 + t)[:, None, :]) @ v.swapaxes(-1, -2)
    return np.ascontiguousarray(points)


def _stretched(values: Array, eps: float) -> Array:
    """The number (sum_j v_j^2 + eps (sum_j v_j^4)^(1/2))^(1/2) along the last axis."""
    squares = values * values
    return np.sqrt(squares.sum(-1) + eps * np.sqrt((squares * squares).sum(-1)))


def _scaled(values: Array, eps: float) -> float:
    """The largest ||values * (1 + t)|| over ||t|| <= eps: t_j = v_j^2 / (mu - v_j^2) with mu such
    that ||t|| = eps."""
    squares = (values / (values.max() or 1.0)) ** 2  # zeros where all are
    low = 1.0 + 1.0 / eps
    high = 1.0 + np.sqrt(len(values)) / eps
    for _ in range(100):
        mu = 0.5 * (low + high)
        t = squares / (mu - squares)
        low, high = (mu, high) if t @ t > eps * eps else (low, mu)
    return float(np.linalg.norm(values * (1.0 + squares / (low - squares))))


def _sampled(problem: Problem[object], eps: float, points: int, seed: int) -> Suprema:
    """The largest values at random points, half of them on the boundary; L comes from a few power
    steps on differences."""
    rng = np.random.default_rng(seed)
    lipschitz = gradient = symmetric = 0.0
    for number in range(points):
        point = region_points(problem.shape, eps, 1, rng, boundary=number % 2 == 0)
        x = np.repeat(point, problem.n_local, axis=0)
        g = problem.gradient(x)
        product = x.swapaxes(-1, -2) @ g
        gradient = max(gradient, float(norms(g).max()))
        symmetric = max(symmetric, float(norms(0.5 * (product + product.swapaxes(-1, -2))).max()))
        change = rng.standard_normal(x.shape)
        for _ in range(_POWER_ROUNDS):
            change *= (_DIFFERENCE / np.maximum(norms(change), _TINY))[:, None, None]
            change = problem.gradient(x + change) - g
            lipschitz = max(lipschitz, float(norms(change).max()) / _DIFFERENCE)
    return Suprema(lipschitz, gradient, symmetric, "sampled")
