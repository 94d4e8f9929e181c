"""The methods that DRFGT is compared with, formula by formula: loops over agents, dense matrices,
nothing of the package.

Every method is ``method(gradients, mixing, x0, step_size, ..., iterations)`` and returns a
`Trajectory`. ``gradients(i, k, x)`` is agent i's Euclidean gradient at ``x`` (d, r) from its
samples of iteration k (`full` makes one of plain functions); ``mixing`` is the dense matrix of an
exchange: W itself, or `power` or `chebyshev` of it; ``x0`` is common (d, r) or one start for each
agent (n, d, r); ``step_size`` is a number, a list or a function of k: the step that leads from
iterate k to iterate k + 1.

DRGTA, DRSGD       Chen, Garcia, Hong, Shahrampour, "Decentralized Riemannian gradient descent on the Stiefel manifold", ICML 2021
DESTINY            Wang, Liu, "Decentralized optimization over the Stiefel manifold by an approximate augmented Lagrangian
                   function", IEEE Trans. Signal Process. 2022
DPRGD, DPRGT       Deng, Hu, "Decentralized projected Riemannian gradient method for smooth optimization on compact submanifolds",
                   2023
EXTRA, REXTRA      Shi, Ling, Wu, Yin, "EXTRA", SIAM J. Optim. 2015, with a projection after each step; RF-EXTRA has none and
                   follows the landing field
DeEPCA             Ye, Zhang, "DeEPCA: decentralized exact PCA with linear convergence rate", JMLR 2021
DGD, tracking      Nedic, Ozdaglar 2009; Xu, Zhu, Soh, Xie 2015, Di Lorenzo, Scutari 2016
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev
from numpy.typing import ArrayLike

from tests.reference.naive import (
    Array,
    Gradient,
    Order,
    accelerated,
    landing_field,
    polar,
    sym,
    tangent_projection,
)

Gradients = Callable[[int, int, Array], Array]
Steps = float | Array | Sequence[float] | Callable[[int], float]
Factor = Callable[[Array], Array]
Variant = Literal["dissolved", "direct"]
Iterates = list[Array]


class Trajectory(NamedTuple):
    """All iterates from 0 on, each ``(iterations + 1, n, d, r)``."""

    x: Array
    tracker: Array  # what the agents go by: their trackers or, in methods without, their fields


def last(x: Iterates, tracker: Iterates) -> Trajectory:
    """The last iterate alone, ``(1, n, d, r)``."""
    return Trajectory(np.array([x]), np.array([tracker]))


def full(gradients: Sequence[Gradient]) -> Gradients:
    """The same gradients in every iteration."""
    return lambda i, k, x: gradients[i](x)


def step_at(step_size: Steps, k: int) -> Any:
    """The step from iterate ``k`` to iterate ``k + 1``, one for all agents or one for each."""
    if callable(step_size):
        return step_size(k)
    return float(step_size[k]) if isinstance(step_size, Sequence) else step_size


def combine(mixing: Array, points: Iterates) -> Iterates:
    """``sum_j mixing_ij points_j`` for every agent i."""
    n = len(points)
    return [
        sum((mixing[i, j] * points[j] for j in range(n)), np.zeros_like(points[i]))
        for i in range(n)
    ]


def starts(x0: Array, mixing: Array) -> Iterates:
    """Each agent's first point."""
    return [x0[i] if x0.ndim == 3 else x0 for i in range(len(mixing))]


def trajectory(
    x: Iterates,
    tracker: Iterates,
    step: Callable[[int, Iterates, Iterates], tuple[Iterates, Iterates]],
    iterations: int,
) -> Trajectory:
    """``(x, tracker) <- step(k, x, tracker)`` for k = 0, 1, ..."""
    points, trackers = [x], [tracker]
    for k in range(iterations):
        x, tracker = step(k, x, tracker)
        points.append(x)
        trackers.append(tracker)
    return Trajectory(np.array(points), np.array(trackers))


# Mixing in several rounds, from the eigendecomposition of the symmetric W.


def spectral(W: Array, polynomial: Callable[[Array], Array]) -> Array:
    """``polynomial(W) = V diag(polynomial(w)) V^T``."""
    eigenvalues, vectors = np.linalg.eigh(W)
    return (vectors * polynomial(eigenvalues)) @ vectors.T


def power(W: Array, rounds: int) -> Array:
    """``W^rounds``."""
    return spectral(W, lambda w: w**rounds)


def chebyshev_polynomial(low: float, high: float, rounds: int) -> Callable[[Array], Array]:
    """``P(w) = T_t(z(w)) / T_t(z(1))``, ``z`` the linear map of [low, high] onto [-1, 1]; least
    there of degree t with P(1) = 1."""
    if high == low:
        return lambda w: ((w - low) / (1 - low)) ** rounds
    T = Chebyshev.basis(rounds, domain=(low, high))
    return lambda w: np.asarray(T(w) / T(1.0))


def chebyshev(W: Array, rounds: int) -> Array:
    """The Chebyshev polynomial for the interval of W's eigenvalues other than the simple 1, at
    W."""
    eigenvalues = np.linalg.eigvalsh(W)[:-1]
    low, high = (float(eigenvalues[0]), float(eigenvalues[-1])) if len(W) > 1 else (0.0, 0.0)
    return spectral(W, chebyshev_polynomial(low, high if high - low > 1e-12 else low, rounds))


# Feasible points beside x + v, for a tangent v at x; `naive.polar` is the nearest.


def qr_factor(y: Array) -> Array:
    """The orthogonal factor of ``y``, the triangular one's diagonal positive."""
    q, upper = np.linalg.qr(y)
    return q * np.sign(np.diag(upper))


def cholesky_qr_factor(y: Array) -> Array:
    """``y L^{-T}`` with ``y^T y = L L^T``."""
    return y @ np.linalg.inv(np.linalg.cholesky(y.T @ y)).T


def riemannian_field(gradients: Gradients) -> Gradients:
    """``P_x(G)``."""
    return lambda i, k, x: tangent_projection(x, gradients(i, k, x))


def canonical_landing_field(gradients: Gradients, penalty: ArrayLike) -> Gradients:
    """``skew(G x^T) x + penalty x (x^T x - I)``, a penalty for all agents or one for each."""
    own = np.ravel(penalty)
    return lambda i, k, x: landing_field(x, gradients(i, k, x), float(own[i % len(own)]))


def soft_field(gradients: Gradients, penalty: float = 0.0) -> Gradients:
    """The gradient of ``f_i + penalty/4 ||x^T x - I||^2``."""
    return lambda i, k, x: gradients(i, k, x) + penalty * x @ (x.T @ x - np.eye(x.shape[1]))


def dissolved_point(x: Array) -> Array:
    """``x (3I - x^T x)/2``."""
    return x @ (3 * np.eye(x.shape[1]) - x.T @ x) / 2


def dissolved_field(gradients: Gradients, penalty: float, variant: Variant = "direct") -> Gradients:
    """``G (3I - x^T x)/2 - x sym(x^T G) + penalty x (x^T x - I)``, G at `dissolved_point`
    ("dissolved") or x ("direct")."""

    def field(i: int, k: int, x: Array) -> Array:
        g, eye = (
            gradients(i, k, dissolved_point(x) if variant == "dissolved" else x),
            np.eye(x.shape[1]),
        )
        return g @ (3 * eye - x.T @ x) / 2 - x @ sym(x.T @ g) + penalty * x @ (x.T @ x - eye)

    return field


def descent(
    field: Gradients, mixing: Array, x0: Array, step_size: Steps, iterations: int
) -> Trajectory:
    """``x_i+ = sum_j mixing_ij x_j - a_k field_i(x_i)``."""
    x = starts(x0, mixing)
    agents = range(len(x))

    def step(k: int, x: Iterates, fields: Iterates) -> tuple[Iterates, Iterates]:
        mixed, a = combine(mixing, x), step_at(step_size, k)
        x = [mixed[i] - a * fields[i] for i in agents]
        return x, [field(i, k + 1, x[i]) for i in agents]

    return trajectory(x, [field(i, 0, x[i]) for i in agents], step, iterations)


def tracking(
    field: Gradients,
    mixing: Array,
    x0: Array,
    step_size: Steps,
    iterations: int,
    order: Order = "combine-then-adapt",
) -> Trajectory:
    """Gradient tracking of any field.

    combine-then-adapt: ``x_i+ = sum_j mixing_ij x_j - a_k y_i``, ``y_i+ = sum_j mixing_ij y_j +
    field_i(x_i+) - field_i(x_i)``; adapt-then-combine: ``x_i+ = sum_j mixing_ij (x_j - a_k y_j)``,
    ``y_i+ = sum_j mixing_ij (y_j + field_j(x_j+) - field_j(x_j))``; accelerated, with older copies
    x' and y' of both, V and eta as in `naive.accelerated`: ``p_i = x_i - a_k y_i``, ``p'_i = x'_i -
    a_k y_i``, ``x_i+ = sum_j V_ij (p_j + eta (p_j - p'_j))``, ``x'_i+ = p_i``, ``y_i+ = sum_j V_ij
    (y_j + eta (y_j - y'_j)) + d_i``, ``y'_i+ = y_i + d_i`` with d_i = field_i(x_i+) - field_i(x_i).
    """
    x = starts(x0, mixing)
    agents = range(len(x))
    older = {"x": x, "y": [field(i, 0, x[i]) for i in agents]}
    eigenvalues = np.linalg.eigvalsh(mixing)
    g, eta, _ = accelerated(float(eigenvalues[-2]), float(eigenvalues[0]))
    V = (1 - g) * np.eye(len(x)) + g * mixing

    def step(k: int, x: Iterates, y: Iterates) -> tuple[Iterates, Iterates]:
        a = np.broadcast_to(step_at(step_size, k), len(x))
        if order == "accelerated":
            p = [x[i] - a[i] * y[i] for i in agents]
            before = [older["x"][i] - a[i] * y[i] for i in agents]
            new = combine(V, [p[i] + eta * (p[i] - before[i]) for i in agents])
            change = [field(i, k + 1, new[i]) - field(i, k, x[i]) for i in agents]
            mixed = combine(V, [y[i] + eta * (y[i] - older["y"][i]) for i in agents])
            older.update(x=p, y=[y[i] + change[i] for i in agents])
            return new, [mixed[i] + change[i] for i in agents]
        if order == "combine-then-adapt":
            mixed = combine(mixing, x)
            new = [mixed[i] - a[i] * y[i] for i in agents]
        else:
            new = combine(mixing, [x[j] - a[j] * y[j] for j in agents])
        change = [field(i, k + 1, new[i]) - field(i, k, x[i]) for i in agents]
        if order == "combine-then-adapt":
            mixed = combine(mixing, y)
            return new, [mixed[i] + change[i] for i in agents]
        return new, combine(mixing, [y[j] + change[j] for j in agents])

    return trajectory(x, [field(i, 0, x[i]) for i in agents], step, iterations)


Method = Callable[..., Trajectory]


def descending(field: Callable[..., Gradients]) -> Method:
    """Descent along a field that has settings."""
    return lambda gradients, *given, **settings: descent(field(gradients, **settings), *given)


def tracked(field: Callable[..., Gradients]) -> Method:
    """Tracking of a field that has settings."""

    def method(
        gradients: Gradients, *given: Any, order: Order = "combine-then-adapt", **settings: Any
    ) -> Trajectory:
        return partial(tracking, order=order)(field(gradients, **settings), *given)

    return method


dgd, gradient_tracking = descending(soft_field), tracked(soft_field)
drfgt, destiny = tracked(canonical_landing_field), tracked(dissolved_field)


def on_manifold(
    tracks: bool,
    move: Callable[[Array, Array, Array], Array],
    gradients: Gradients,
    mixing: Array,
    x0: Array,
    step_size: Steps,
    iterations: int,
) -> Trajectory:
    """``x_i+ = move(x_i, sum_j mixing_ij x_j, a_k P_{x_i}(y_i))`` with y_i = g_i, g_i =
    P_{x_i}(G_i(x_i)).

    Where it ``tracks``, ``y_i+ = sum_j mixing_ij y_j + g_i(x_i+) - g_i(x_i)``.
    """
    field = riemannian_field(gradients)
    x = starts(x0, mixing)
    agents = range(len(x))

    def step(k: int, x: Iterates, y: Iterates) -> tuple[Iterates, Iterates]:
        mixed, tracked, a = combine(mixing, x), combine(mixing, y), step_at(step_size, k)
        new = [move(x[i], mixed[i], a * tangent_projection(x[i], y[i])) for i in agents]
        if not tracks:
            return new, [field(i, k + 1, new[i]) for i in agents]
        return new, [tracked[i] + field(i, k + 1, new[i]) - field(i, k, x[i]) for i in agents]

    return trajectory(x, [field(i, 0, x[i]) for i in agents], step, iterations)


def retracting(
    tracks: bool, *given: Any, consensus_step: float = 1.0, retract: Factor = polar
) -> Trajectory:
    """``x_i+ = retract(x_i + consensus_step P_{x_i}(sum_j mixing_ij x_j - x_i) - d_i)``: DRSGD, and
    DRGTA where it tracks."""
    return on_manifold(
        tracks,
        lambda x, c, d: retract(x + consensus_step * tangent_projection(x, c - x) - d),
        *given,
    )


def projecting(tracks: bool, *given: Any) -> Trajectory:
    """``x_i+ = polar(sum_j mixing_ij x_j - d_i)``: DPRGD, and DPRGT where it tracks."""
    return on_manifold(tracks, lambda x, c, d: polar(c - d), *given)


def accelerated_on_manifold(
    replace: Callable[[Array, Array], Array],
    gradients: Gradients,
    mixing: Array,
    x0: Array,
    step_size: Steps,
    iterations: int,
) -> Trajectory:
    """``p_i = x_i - a_k P_{x_i}(y_i)``, ``x_i+ = replace(x_i, sum_j V_ij (p_j + eta (x_j - x'_j)))``,
    ``x'_i+ = p_i``, and y as in `tracking`; V and eta as in `naive.accelerated`."""
    field = riemannian_field(gradients)
    x = starts(x0, mixing)
    agents = range(len(x))
    older = {"x": x, "y": [field(i, 0, x[i]) for i in agents]}
    eigenvalues = np.linalg.eigvalsh(mixing)
    g, eta, _ = accelerated(float(eigenvalues[-2]), float(eigenvalues[0]))
    V = (1 - g) * np.eye(len(x)) + g * mixing

    def step(k: int, x: Iterates, y: Iterates) -> tuple[Iterates, Iterates]:
        a = step_at(step_size, k)
        p = [x[i] - a * tangent_projection(x[i], y[i]) for i in agents]
        ahead = combine(V, [p[i] + eta * (x[i] - older["x"][i]) for i in agents])
        new = [replace(x[i], ahead[i]) for i in agents]
        change = [field(i, k + 1, new[i]) - field(i, k, x[i]) for i in agents]
        mixed = combine(V, [y[i] + eta * (y[i] - older["y"][i]) for i in agents])
        older.update(x=p, y=[y[i] + change[i] for i in agents])
        return new, [mixed[i] + change[i] for i in agents]

    return trajectory(x, [field(i, 0, x[i]) for i in agents], step, iterations)


def accelerated_drgta(*given: Any, retract: Factor = polar) -> Trajectory:
    """``replace(x, c) = retract(x + P_x(c - x))``."""
    return accelerated_on_manifold(lambda x, c: retract(x + tangent_projection(x, c - x)), *given)


def accelerated_dprgt(*given: Any) -> Trajectory:
    """``replace(x, c) = polar(c)``."""
    return accelerated_on_manifold(lambda x, c: polar(c), *given)


drsgd, drgta = partial(retracting, False), partial(retracting, True)
dprgd, dprgt = partial(projecting, False), partial(projecting, True)


def extra(
    field: Gradients,
    W: Array,
    x0: Array,
    step_size: float,
    iterations: int,
    project: Factor | None = None,
) -> Trajectory:
    """``x+ = project(W x + s)``, ``s+ = s + (W - V) x - a (field(x+) - field(x))``, ``V = (I +
    W)/2``; ``s(0) = -a field(x)``."""
    x = starts(x0, W)
    agents = range(len(x))
    difference = W - (np.eye(len(W)) + W) / 2

    def step(k: int, x: Iterates, s: Iterates) -> tuple[Iterates, Iterates]:
        mixed, corrected = combine(W, x), combine(difference, x)
        new = [mixed[i] + s[i] if project is None else project(mixed[i] + s[i]) for i in agents]
        change = [field(i, k + 1, new[i]) - field(i, k, x[i]) for i in agents]
        return new, [s[i] + corrected[i] - step_size * change[i] for i in agents]

    return trajectory(x, [-step_size * field(i, 0, x[i]) for i in agents], step, iterations)


def rextra(
    gradients: Gradients, W: Array, x0: Array, step_size: float, iterations: int
) -> Trajectory:
    """EXTRA with the Riemannian gradient and the projection ``polar``."""
    return extra(riemannian_field(gradients), W, x0, step_size, iterations, polar)


def rfextra(
    gradients: Gradients, W: Array, x0: Array, step_size: float, iterations: int, penalty: float
) -> Trajectory:
    """EXTRA with the landing field, without a projection."""
    return extra(canonical_landing_field(gradients, penalty), W, x0, step_size, iterations)


def adjusted(q: Array, x0: Array) -> Array:
    """DeEPCA's SignAdjust: each column of ``q`` turned to have a nonnegative inner product with
    that of ``x0``."""
    return np.array(q * np.where((q * x0).sum(axis=0) < 0, -1.0, 1.0))


def deepca(
    covariances: Sequence[Array],
    mixing: Array,
    x0: Array,
    iterations: int,
    signs: Literal["start", "positive"] = "start",
) -> Trajectory:
    """``s_i+ = sum_j mixing_ij (s_j + C_j x_j - C_j x_j(before))``, ``x_i+ = orth(s_i+)``, where
    ``s_i(0) = x0`` stands for the product before the first as well, so that the first sum is of
    ``C_j x_0``.

    orth is the QR factor with its columns' signs chosen by `adjusted` (the paper's) or by a
    positive diagonal.
    """
    agents = range(len(covariances))
    x = starts(x0, mixing)
    s, before = x, x
    points, sums = [x], [s]
    for _ in range(iterations):
        products = [covariances[i] @ x[i] for i in agents]
        s = combine(mixing, [s[i] + products[i] - before[i] for i in agents])
        q = [qr_factor(s[i]) for i in agents]
        x = [adjusted(q[i], points[0][i]) for i in agents] if signs == "start" else q
        before = products
        points.append(x)
        sums.append(s)
    return Trajectory(np.array(points), np.array(sums))
