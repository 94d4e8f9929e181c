"""The averaging operator, the adaptive proximal map and the surrogate measure of stationarity of
RSSM's analysis.

Cheung, Wang, Yue, So, "Randomized submanifold subgradient method for optimization over Stiefel
manifolds", first version (paper 000), Section 4, for l >= 2 blocks of the columns of x in St(n, p):

    A_x(xi)    = (1/(l - 1)) sum_{i < j} (I - x_{-ij} x_{-ij}^T) xi_ij I_ij^T                (19)
               = x (Q . x^T xi) / (l - 1) + (I - x x^T) xi                                   (20)
    f_lam(x)   = min over y in St of f(y) + ||y - x||_{A_x^{-1}}^2 / (2 lam)                  (27)
    P(x)       = its minimiser                                                               (28)
    Theta(x)   = ||P(x) - x||_F / lam                                                        (29)

Q is l - 1 on diagonal blocks and 1 elsewhere, so A_x has the eigenvalues 1 and 1/(l - 1) (Lemma
A.2). The mean over pairs of blocks, with which the later version (paper 002) works, is 2/l times
that. For lam < 1 / (tau + (2l - 1) L), f tau-weakly convex and L-Lipschitz, P(x) is unique, and x
is stationary if and only if Theta(x) = 0 (Proposition 4.6).

P(x) is found for small problems by a proximal bundle method in the frame of ManPL (Chen and others
2020): f + tau/2 ||.||^2 lies above its tangents at the points tried, of whose maximum plus the
quadratic terms the minimiser over the tangent space is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from decentorth.protocols import Array, Index
from tests.reference.naive import polar

Value = Callable[[Array], float]
Subgradient = Callable[[Array], Array]


@dataclass(frozen=True)
class Averaging:
    """A_x at a feasible x, for l >= 2 blocks, a partition of the columns."""

    x: Array
    blocks: tuple[Index, ...]

    def _weighted(self, xi: Array, weight: float) -> Array:
        """xi with its part x B, B = x^T xi outside the diagonal blocks, multiplied by
        ``weight``."""
        outside: Array = self.x.T @ xi
        for block in self.blocks:
            outside[np.ix_(block, block)] = 0.0
        return xi + (weight - 1.0) * (self.x @ outside)

    def __call__(self, xi: Array) -> Array:
        """``(n, p)``: A_x(xi) (20)."""
        return self._weighted(xi, 1.0 / (len(self.blocks) - 1))

    def inverse(self, xi: Array) -> Array:
        """``(n, p)``: A_x^{-1}(xi)."""
        return self._weighted(xi, len(self.blocks) - 1.0)

    def norm(self, xi: Array) -> float:
        """||xi||_{A_x^{-1}} = sqrt(<A_x^{-1}(xi), xi>)."""
        return float(np.sqrt((self.inverse(xi) * xi).sum()))

    def spectrum(self) -> tuple[tuple[float, int], tuple[float, int]]:
        """The two eigenvalues and their multiplicities (Lemma A.2)."""
        n, p = self.x.shape
        inside = sum(len(block) ** 2 for block in self.blocks)
        return (1.0, (n - p) * p + inside), (1.0 / (len(self.blocks) - 1), p * p - inside)


class Proximal(NamedTuple):
    """P(x) and what is known of it."""

    point: Array  # ``(n, p)``: P(x)
    envelope: float  # f_lam(x), at that point
    stationarity: float  # Theta(x) = ||P(x) - x||_F / lam
    subgradient: Array
    """``(n, p)``: a convex combination of subgradients near P(x) whose tangent part nearly cancels
    A_x^{-1}(P(x) - x) / lam."""
    residual: float  # the norm of what is left of the two


def largest_parameter(blocks: int, weak_convexity: float, lipschitz_value: float) -> float:
    """1 / (tau + (2l - 1) L): below it the adaptive proximal map is single-valued (Lemma 4.5)."""
    return 1.0 / (weak_convexity + (2 * blocks - 1) * lipschitz_value)


def surrogate_stationarity(
    problem: Any, x: Array, blocks: Sequence[Index], parameter: float | None = None
) -> Proximal:
    """P(x) and Theta(x) for a small problem of one agent that is `WeaklyConvex`; lam is half of
    `largest_parameter` by default."""
    tau, steep = float(problem.weak_convexity[0]), float(problem.lipschitz_value[0])
    if parameter is None:
        parameter = 0.5 * largest_parameter(len(blocks), tau, steep)
    return proximal(
        lambda y: float(problem.value(y[None])[0]),
        lambda y: problem.gradient(y[None])[0],
        Averaging(x, tuple(blocks)),
        parameter,
        weak_convexity=tau,
    )


def proximal(
    value: Value,
    subgradient: Subgradient,
    averaging: Averaging,
    parameter: float,
    *,
    weak_convexity: float = 0.0,
    tolerance: float = 1e-7,
    iterations: int = 500,
) -> Proximal:
    """P(x) (28) for the x of ``averaging``, by cutting planes; for np of at most some hundreds.

    The tolerance is that of Theta, relative to 1 + Theta, as far as the last digits of f allow:
    about 2e-7 sqrt((1 + |f|) / lam).
    """
    lam, tau, x = parameter, weak_convexity, averaging.x
    model = _Planes(value, subgradient, tau)

    def quadratic(y: Array) -> float:
        return averaging.norm(y - x) ** 2 / (2.0 * lam) - 0.5 * tau * float((y * y).sum())

    y, curvature, before = x, 1.0 / lam, -np.inf
    objective = model.touch(y) + quadratic(y)
    for _ in range(iterations):
        basis = _tangent_basis(y)
        images = [averaging.inverse(b.reshape(x.shape)).ravel() for b in basis]
        hessian = basis @ np.array(images).T / lam + (curvature - tau) * np.eye(len(basis))
        slope = averaging.inverse(y - x) / lam - tau * y
        v, bound, combined = model.lowest(y, basis, basis @ slope.ravel(), hessian)
        step = (v @ basis).reshape(x.shape)
        predicted = objective - (bound + quadratic(y))
        theta, digits = float(np.linalg.norm(y - x)) / lam, 1e-15 * (1.0 + abs(objective))
        stalled = bound <= before + digits  # the last planes were there already
        near = 0.5 * lam * (tolerance * (1.0 + theta)) ** 2 / (1.0 + curvature * lam)
        if stalled or predicted <= max(near, 20.0 * digits):
            left = combined - tau * y + averaging.inverse(y - x) / lam
            residual = float(np.linalg.norm(basis @ left.ravel()))
            return Proximal(y, objective, theta, combined - tau * y, residual)
        ahead = (
            model.touch(y + step)
            + quadratic(y + step)
            + 0.5 * curvature * float((step * step).sum())
        )
        landed = polar(y + step)
        there = model.touch(landed) + quadratic(landed)
        before = -np.inf
        if there <= objective - 0.1 * predicted:
            y, objective, curvature = landed, there, 0.5 * curvature
        elif ahead <= objective - 0.5 * predicted:
            curvature *= 4.0  # the planes are right, the tangent space is not
        else:
            before = bound
    raise AssertionError(
        f"{iterations} cutting planes are not enough for a tolerance of {tolerance:g}"
    )


class _Planes:
    """Tangents of the convex F = f + tau/2 ||.||^2, which lie below it."""

    def __init__(self, value: Value, subgradient: Subgradient, tau: float) -> None:
        self._value, self._subgradient, self._tau = value, subgradient, tau
        self._offsets: list[float] = []
        self._slopes: list[Array] = []
        self._support: list[int] = []

    def touch(self, y: Array) -> float:
        """F(y), whose tangent at y joins the others."""
        found = self._value(y) + 0.5 * self._tau * float((y * y).sum())
        slope = self._subgradient(y) + self._tau * y
        self._offsets.append(found - float((slope * y).sum()))
        self._slopes.append(slope.ravel())
        return found

    def lowest(
        self, y: Array, basis: Array, linear: Array, hessian: Array
    ) -> tuple[Array, float, Array]:
        """The minimiser v of max_j plane_j(y + v basis) + <linear, v> + <v, hessian v> / 2, the
        minimum, and the slope that does it, a convex combination of the planes'."""
        slopes = np.array(self._slopes)
        heights = np.array(self._offsets) + slopes @ y.ravel()
        inside = slopes @ basis.T
        solved = np.linalg.solve(hessian, np.column_stack((inside.T, linear)))
        # of the planes' own size, so that differences keep their digits
        gain = heights - heights.max() - inside @ solved[:, -1]
        weights, self._support = simplex_minimum(inside @ solved[:, :-1], gain, self._support)
        v: Array = -(solved[:, :-1] @ weights) - solved[:, -1]
        lowest = float(weights @ heights + (weights @ inside + linear) @ v + 0.5 * v @ hessian @ v)
        return v, lowest, (weights @ slopes).reshape(y.shape)


def simplex_minimum(
    quadratic: Array, linear: Array, support: Sequence[int] = ()
) -> tuple[Array, list[int]]:
    """The minimiser of <a, K a> / 2 - <r, a> over the simplex, and where it is positive: an active
    set method."""
    size = len(linear)
    # where several minimisers are, one of them
    ridge = 1e-13 * (float(np.abs(quadratic).max()) or 1.0)
    quadratic = quadratic + ridge * np.eye(size)
    chosen = [j for j in support if j < size] or [
        int(np.argmax(linear - 0.5 * np.diagonal(quadratic)))
    ]
    weights = np.zeros(size)
    weights[chosen] = 1.0 / len(chosen)
    scale = 1e-15 * (float(np.abs(linear).max()) + float(np.abs(quadratic).max()))
    for _ in range(20 * size + 100):
        k = len(chosen)
        system = np.ones((k + 1, k + 1))
        system[:k, :k], system[k, k] = quadratic[np.ix_(chosen, chosen)], 0.0
        wanted = np.linalg.solve(system, np.append(linear[chosen], 1.0))[:k]
        if wanted.min() >= -1e-13:
            weights[chosen] = np.maximum(wanted, 0.0)
            slope = quadratic @ weights - linear
            best = int(np.argmin(slope))
            if best in chosen or slope[best] >= slope[chosen].max() - scale:
                break
            chosen.append(best)
            continue
        now = weights[chosen]
        falling = wanted < 0.0
        share = float((now[falling] / (now[falling] - wanted[falling])).min())
        weights[chosen] = now + share * (wanted - now)
        kept = [
            j for j, down in zip(chosen, falling, strict=True) if not (down and weights[j] <= 1e-15)
        ]
        weights[[j for j in chosen if j not in kept]] = 0.0
        chosen = kept
    weights /= weights.sum()
    return weights, [j for j in chosen if weights[j] > 0.0]


def _tangent_basis(y: Array) -> Array:
    """``(np - p (p + 1) / 2, np)``: an orthonormal basis of the tangent space of St(n, p) at y,
    flattened."""
    n, p = y.shape
    normal = np.linalg.qr(y, mode="complete")[0][:, p:]
    vectors = []
    for a in range(p):
        for b in range(a):
            turn = np.zeros((n, p))
            turn[:, a], turn[:, b] = y[:, b] / np.sqrt(2.0), -y[:, a] / np.sqrt(2.0)
            vectors.append(turn.ravel())
        for column in normal.T:
            out = np.zeros((n, p))
            out[:, a] = column
            vectors.append(out.ravel())
    return np.array(vectors)
