"""The exact linear rate of gradient tracking (and DRFGT) near a minimiser, as a score of mixing
matrices.

Agent i holds a quadratic with Hessian H_i; x are the agents' errors, y their trackers, a the step.
Two mixing orders:

    combine then adapt:  x+ = W x - a y,    y+ = W y + H (x+ - x)        (DRFGT, DIGing)
    adapt then combine:  x+ = W (x - a y),  y+ = W (y + H (x+ - x))

Both are linear, ``[x; y]+ = M [x; y]`` with, in turn,

    M = [[W, -a I], [H (W - I), W - a H]]    and    M = [[W, -a W], [W H (W - I), W - a W H W]].

``sum_i (y_i - H_i x_i)`` never changes and starts at zero, so the eigenvalue 1 of that sum is left
out: M is restricted to the subspace where the sum vanishes. The rate is the largest modulus of an
eigenvalue of the restriction.

Recursions: Nedic, Olshevsky and Shi, "Achieving geometric convergence for distributed optimization
over time-varying graphs" (2017); Xu, Zhu, Soh and Xie, "Augmented distributed gradient methods"
(2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topologies.canonical import WeightsLike, canonical_weights
from topologies.line.later import optimize
from topologies.line.memory import dense

Matrix: TypeAlias = NDArray[np.float64]
Order: TypeAlias = Literal["combine-then-adapt", "adapt-then-combine"]

COMBINE: Literal["combine-then-adapt"] = "combine-then-adapt"
_PER_DECADE = 20
_DECADES_BELOW = 6
_RELATIVE = 1e-10


@dataclass(frozen=True)
class TrackingScore:
    """The best linear rate of gradient tracking with a mixing matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import topologies as tp
    >>> W = tp.metropolis_weights(tp.ring(10))
    >>> score = tp.tracking_score(W, np.linspace(0.2, 1.8, 10))
    >>> round(score.rate, 3)
    0.938
    """

    rate: float
    """The least linear rate over constant steps: the error shrinks by this factor per iteration."""
    step: float
    """The step that attains it."""
    largest_step: float
    """The least step that does not converge; all smaller ones converge."""

    def iterations_for(self, reduction: float) -> float:
        """Iterations that reduce the error by ``reduction`` in (0, 1]: log(reduction) / log(rate);
        inf if rate >= 1."""
        if not 0 < reduction <= 1:
            raise ValueError(f"reduction must be in (0, 1], for example 1e-6, got {reduction}")
        if self.rate >= 1:
            return float("inf")
        if self.rate == 0:
            return 0.0
        return float(np.log(reduction) / np.log(self.rate))


def tracking_rate(
    W: WeightsLike, curvatures: ArrayLike, step: float, order: Order = COMBINE
) -> float:
    """The exact linear rate of gradient tracking with a constant ``step``.

    Equal scalar curvatures need the eigenvalues of W. Other curvatures need those of the
    iteration matrix, of order 2 n d. Raises ValueError if ``W`` is not a mixing matrix (see
    `canonical_weights`), or a curvature, the step or the order makes no sense.

    Parameters
    ----------
    W : array or sparse array, shape (n, n)
    curvatures : array
        One for all agents, shape (); one for each, shape (n,); or the agents' symmetric Hessians,
        shape (n, d, d).
    step : float
    order : {"combine-then-adapt", "adapt-then-combine"}
    """
    if not (np.isfinite(step) and step > 0):
        raise ValueError(f"step must be positive, got {step}")
    return Recursion(W, curvatures, order).rate(step)


def tracking_score(W: WeightsLike, curvatures: ArrayLike, order: Order = COMBINE) -> TrackingScore:
    """The best rate of gradient tracking over constant steps, its step, and the least step that
    does not converge.

    The rate is searched over steps on a logarithmic grid, then refined to a relative 1e-10 around
    its least value.

    Raises the errors of `tracking_rate`, and ValueError if no step converges.
    """
    return worst_score([Recursion(W, curvatures, order)])


def worst_score(recursions: Sequence[Recursion]) -> TrackingScore:
    """The score of the slowest of several recursions at one common step; errors as
    `tracking_score`."""

    def rate(step: float) -> float:
        return max(recursion.rate(step) for recursion in recursions)

    scale = max(recursion.largest_curvature for recursion in recursions)
    grid = np.geomspace(10.0**-_DECADES_BELOW, 10.0, (_DECADES_BELOW + 1) * _PER_DECADE + 1) / scale
    rates = np.array([rate(step) for step in grid])
    while rates[-1] < 1:
        grid = np.append(grid, grid[-1] * 10 ** (1 / _PER_DECADE))
        rates = np.append(rates, rate(grid[-1]))
    best = int(np.argmin(rates))
    if rates[best] >= 1 or rates[0] >= 1:
        raise ValueError(
            f"no step in [{grid[0]:.3g}, {grid[-1]:.3g}] converges (best rate {rates[best]:.12g}); "
            "the sum of the curvatures must be positive and W must average (see check_weights)"
        )
    above = best + int(np.argmax(rates[best:] > rates[best]))
    bracket = (grid[best - 1] if best else 0.0, grid[best], grid[above])
    found = optimize.minimize_scalar(rate, bracket, method="golden", tol=_RELATIVE)
    unstable = int(np.argmax(rates >= 1))
    low, high = grid[unstable - 1 : unstable + 1]
    xtol = _RELATIVE * grid[0]
    largest = optimize.brentq(lambda step: rate(step) - 1, low, high, (), xtol, _RELATIVE)
    return TrackingScore(float(found.fun), float(found.x), float(largest))


class Recursion:
    """Gradient tracking on quadratics with ``W`` and ``curvatures`` prepared, so that many steps
    can be tried.

    Arguments and errors as `tracking_rate`.

    Examples
    --------
    >>> import numpy as np
    >>> import topologies as tp
    >>> W = tp.metropolis_weights(tp.ring(10))
    >>> recursion = tp.Recursion(W, np.linspace(0.2, 1.8, 10))
    >>> round(float(recursion.rate(0.0667)), 3)
    0.938
    """

    def __init__(self, W: WeightsLike, curvatures: ArrayLike, order: Order = COMBINE) -> None:
        matrix = canonical_weights(W)
        n = matrix.shape[0]
        if order not in get_args(Order):
            raise ValueError(f"order must be one of {', '.join(get_args(Order))}, got {order!r}")
        hessians = _hessians(curvatures, n)
        d = hessians.shape[-1]
        self._mean_curvature: float | None = None
        self.largest_curvature = float(np.abs(np.linalg.eigvalsh(hessians)).max())
        if self.largest_curvature == 0:
            raise ValueError(
                "some curvature must not be zero: nothing pulls the agents to a minimiser"
            )
        if d == 1 and np.all(hessians == hessians[0]):
            self._prepare_blocks(dense(matrix), float(hessians[0, 0, 0]), order)
        else:
            base, slope = iteration_pencil(dense(matrix), hessians, order)
            basis = conserved_complement(hessians)
            self._base = basis.T @ base @ basis
            self._slope = basis.T @ slope @ basis

    def rate(self, step: float) -> float:
        """The rate with this step."""
        matrices = self._base - step * self._slope
        rate = float(np.abs(np.linalg.eigvals(matrices)).max()) if matrices.size else 0.0
        if self._mean_curvature is None:
            return rate
        return max(rate, abs(1 - step * self._mean_curvature))

    def _prepare_blocks(self, W: Matrix, curvature: float, order: Order) -> None:
        """Prepare a 2 x 2 block for each eigenvalue w of W other than the constant vector's, whose
        rate is |1 - a c|."""
        w = np.linalg.eigvalsh(_off_mean(W))
        one = np.ones_like(w)
        zero = np.zeros_like(w)
        late = one if order == COMBINE else w
        base = np.array([[w, zero], [curvature * late * (w - 1), w]])
        slope = np.array([[zero, late], [zero, curvature * late * late]])
        self._base = np.moveaxis(base, -1, 0)
        self._slope = np.moveaxis(slope, -1, 0)
        self._mean_curvature = curvature


def iteration_pencil(W: Matrix, hessians: Matrix, order: Order) -> tuple[Matrix, Matrix]:
    """The matrices ``base`` and ``slope``, shape (2 n d, 2 n d), with M = base - step * slope."""
    n, d, _ = hessians.shape
    mix = np.kron(W, np.eye(d))
    size = len(mix)
    identity = np.eye(size)
    nothing = np.zeros((size, size))
    H = (np.eye(n)[:, None, :, None] * hessians[:, :, None, :]).reshape(size, size)
    if order == COMBINE:
        base = np.block([[mix, nothing], [H @ (mix - identity), mix]])
        return base, np.block([[nothing, identity], [nothing, H]])
    inner = mix @ H
    base = np.block([[mix, nothing], [inner @ (mix - identity), mix]])
    return base, np.block([[nothing, mix], [nothing, inner @ mix]])


def push_pull_pencil(A: Matrix, B: Matrix, hessians: NDArray[np.float64]) -> tuple[Matrix, Matrix]:
    """The matrices of `iteration_pencil` for push-pull on a directed graph, x+ = A (x - a y), y+ =
    B y + H (x+ - x)."""
    n, d, _ = hessians.shape
    pull = np.kron(A, np.eye(d))
    push = np.kron(B, np.eye(d))
    nothing = np.zeros_like(pull)
    H = (np.eye(n)[:, None, :, None] * hessians[:, :, None, :]).reshape(pull.shape)
    base = np.block([[pull, nothing], [H @ (pull - np.eye(len(pull))), push]])
    return base, np.block([[nothing, pull], [nothing, H @ pull]])


def conserved_complement(hessians: NDArray[np.float64]) -> Matrix:
    """Orthonormal basis, shape (2 n d, 2 n d - d), of the pairs (x, y) with sum_i (y_i - H_i
    x_i) = 0."""
    n, d, _ = hessians.shape
    conserved = np.concatenate([-hessians.reshape(n * d, d), np.tile(np.eye(d), (n, 1))])
    basis: Matrix = np.linalg.qr(conserved, mode="complete")[0][:, d:]
    return basis


def _off_mean(W: Matrix) -> Matrix:
    """``W`` in an orthonormal basis of the vectors that sum to zero, shape (n - 1, n - 1)."""
    n = len(W)
    basis = np.linalg.qr(np.ones((n, 1)), mode="complete")[0][:, 1:]
    restricted: Matrix = basis.T @ W @ basis
    return (restricted + restricted.T) / 2


def _hessians(curvatures: ArrayLike, n: int) -> NDArray[np.float64]:
    """The agents' Hessians, shape (n, d, d)."""
    given = np.asarray(curvatures, dtype=np.float64)
    if not np.isfinite(given).all():
        raise ValueError("curvatures must be finite")
    if given.ndim == 0:
        return np.full((n, 1, 1), float(given))
    if given.shape == (n,):
        return given[:, None, None]
    if given.ndim == 3 and given.shape[0] == n and given.shape[1] == given.shape[2] > 0:
        if not np.array_equal(given, given.transpose(0, 2, 1)):
            raise ValueError(
                "the agents' Hessians must be symmetric; use (H + H.transpose(0, 2, 1)) / 2"
            )
        return given
    raise ValueError(
        f"curvatures must be one number, {n} numbers or {n} square Hessians, got shape "
        f"{given.shape}"
    )
