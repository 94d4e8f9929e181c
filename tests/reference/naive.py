"""Sun, Chen, Garcia, Shahrampour, "Global convergence of decentralized retraction-free
optimization", formula by formula.

Loops over agents, dense matrices, the d x d matrices of the formulas; nothing is shared with the
package under test. ``x`` is ``(d, r)`` for one agent and ``(n, d, r)``, or a list of points, for a
network; ``W`` is ``(n, n)``; norms are Frobenius norms. Numbers in parentheses are the paper's
equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Points = Sequence[Array] | Array
Gradient = Callable[[Array], Array]
Value = Callable[[Array], float]
Order = Literal["combine-then-adapt", "adapt-then-combine", "accelerated"]


def norm(a: Array) -> float:
    """The Frobenius norm."""
    return float(np.sqrt(np.sum(a * a)))


def mean(points: Points) -> Array:
    """``(1/n) sum_i points_i``."""
    total: Array = np.array(points).sum(axis=0)
    return total / len(points)


def sym(a: Array) -> Array:
    """``(a + a^T)/2``."""
    return (a + a.T) / 2


def polar(y: Array) -> Array:
    """``y (y^T y)^{-1/2}``, the nearest point of St(d, r), from the singular value
    decomposition."""
    u, _, vt = np.linalg.svd(y, full_matrices=False)
    return u @ vt


def tangent_projection(x: Array, u: Array) -> Array:
    """``P_x(u) = u - x sym(x^T u)``."""
    return u - x @ sym(x.T @ u)


def infeasibility(x: Array) -> float:
    """``||x^T x - I||``."""
    return norm(x.T @ x - np.eye(x.shape[1]))


def canonical_gradient(x: Array, g: Array) -> Array:
    """``grad f(x) = skew(g x^T) x`` (3), with the ``(d, d)`` matrix formed."""
    return (g @ x.T - x @ g.T) / 2 @ x


def landing_field(x: Array, g: Array, penalty: float) -> Array:
    """``Lambda(x) = skew(g x^T) x + penalty x (x^T x - I)`` (5)."""
    return canonical_gradient(x, g) + penalty * x @ (x.T @ x - np.eye(x.shape[1]))


def procrustes_value(a: Array, b: Array, x: Array) -> float:
    """``||a x - b^T||^2`` with ``a`` (m, d) and ``b`` (r, m) (16)."""
    return norm(a @ x - b.T) ** 2


def procrustes_gradient(a: Array, b: Array, x: Array) -> Array:
    """``2 a^T (a x - b^T)``."""
    return 2 * a.T @ (a @ x - b.T)


def pca_value(a: Array, x: Array) -> float:
    """``-1/2 tr(x^T C x)``, ``C = a^T a / m`` with ``a`` (m, d)."""
    return -float(np.trace(x.T @ (a.T @ a / a.shape[0]) @ x)) / 2


def pca_gradient(a: Array, x: Array) -> Array:
    """``-C x``."""
    return -(a.T @ a / a.shape[0]) @ x


def check_decay(pooled_gram: Array, ratio: float) -> None:
    """Asserts that the eigenvalues of ``sum_i A_i^T A_i``, largest first, decay by ``ratio`` from
    each to the next."""
    eigenvalues = np.linalg.eigvalsh(pooled_gram)[::-1]
    np.testing.assert_allclose(eigenvalues[1:] / eigenvalues[:-1], ratio, rtol=1e-9)


def landing_safe_step(
    x: Array, direction: Array, penalty: float, eps: float, g: float | None = None
) -> float:
    """eta_max of Landing (Ablin, Vary, Gao, Absil 2023): keeps ``||x^T x - I|| <= eps``; at most
    ``1/(2 penalty)``.

    ``g`` bounds the norm of the landing field ``direction``; by default it is that norm.
    ``penalty`` must be positive.
    """
    d = infeasibility(x)
    g = norm(direction) if g is None else g
    cap = 1 / (2 * penalty)
    inward = penalty * d * (1 - d)
    return (
        cap
        if g == 0
        else float(min(cap, (inward + np.sqrt(inward**2 + g**2 * max(eps - d, 0.0))) / g**2))
    )


def push_pull(
    gradients: Sequence[Gradient],
    A: Array,
    B: Array,
    x0: Array,
    step_size: float,
    penalty: float,
    iterations: int,
) -> tuple[Array, Array]:
    """Pu, Shi, Xu, Nedic 2021, for landing fields: points and trackers, ``(n, d, r)``, agent i
    hearing j where A[i, j] > 0."""
    n = len(gradients)
    x = [x0 for _ in range(n)]
    fields = [landing_field(x0, g(x0), penalty) for g in gradients]
    y = list(fields)
    for _ in range(iterations):
        sent = [(x[j] - step_size * y[j], [B[i, j] * y[j] for i in range(n)]) for j in range(n)]
        x = [sum(A[i, j] * sent[j][0] for j in range(n) if A[i, j] > 0) for i in range(n)]
        mass = [sum(sent[j][1][i] for j in range(n)) for i in range(n)]
        new = [landing_field(x[i], gradients[i](x[i]), penalty) for i in range(n)]
        y = [mass[i] + new[i] - fields[i] for i in range(n)]
        fields = new
    return np.array(x), np.array(y)


def tracking_limit(lambda_2: float, lambda_min: float, order: Order) -> float:
    """The bound u on (step size) * (curvature) for gradient tracking, capped at 2; the extreme
    eigenvalues of W decide it. For accelerated mixing it is 0.7 on every network."""
    if order == "accelerated":
        return 0.7
    if order == "combine-then-adapt":
        return min(2.0, (1 + lambda_min) ** 2 / 2)
    return min([2.0] + [(1 + w) ** 2 / (2 * w**2) for w in (lambda_2, lambda_min) if w != 0])


def accelerated(lambda_2: float, lambda_min: float) -> tuple[float, float, float]:
    """g, eta and the gap of mixing with momentum by V = (1 - g) I + g W.

    eta makes the two roots of z^2 - (1 + eta) h z + eta h at V's second eigenvalue h equal, as long
    as it is at most 0.97 / 1.03; the gap is 1 less the larger root.
    """
    g = min(1.0, 4 / (3 * (1 - lambda_min) + (1 - lambda_2)))
    h = 1 - g * (1 - lambda_2)
    if h < 1e-12:
        return g, 0.0, 1.0
    eta = float((2 - h - 2 * np.sqrt(1 - h)) / h)
    if eta <= 0.97 / 1.03:
        return g, eta, 1 - float(np.sqrt(eta * h))
    eta = 0.97 / 1.03
    return g, eta, 1 - float(np.roots([1, -(1 + eta) * h, eta * h]).max())


def auto_constants(
    L: Sequence[float] | Array,
    x0: Array,
    gradients: Points,
    lambda_2: float,
    lambda_min: float,
    order: Order,
) -> tuple[float, float]:
    """The automatic ``(step_size, penalty)`` from the agents' Lipschitz constants ``L`` and
    ``gradients`` at ``x0``."""
    curvatures = [
        max(float(L[i]), float(np.linalg.norm(gradients[i], ord=2))) for i in range(len(L))
    ]
    u = tracking_limit(lambda_2, lambda_min, order)
    share = 0.35 if order == "adapt-then-combine" else 0.5
    gap, limit = 1 - lambda_2, u
    if order == "accelerated":
        gap = limit = accelerated(lambda_2, lambda_min)[2]
    c = min(share * u, float(np.sqrt(gap)))
    alpha = 2 * c / (sum(curvature**4 for curvature in curvatures) / len(curvatures)) ** 0.25
    return alpha, min(0.1, limit / 4) / alpha


def metrics(
    values: Sequence[Value],
    gradients: Sequence[Gradient],
    x: Points,
    tracker: Points | None = None,
    landing: Points | None = None,
    penalty: ArrayLike | None = None,
) -> dict[str, float]:
    """The metrics by name at the points ``x``; ``local_gradient_sum`` uses the canonical gradient
    (3), as Figure 1 does.

    ``landing`` has the fields ``Lambda_i(x_i)`` that the tracker follows, by default those of
    ``penalty`` (one or n numbers); ``landing_norm`` needs ``penalty``, ``tracking_error`` needs
    ``tracker`` and one of the two.
    """
    n, xbar = len(x), mean(x)
    xhat = polar(xbar)
    out = {
        "objective": sum(values[i](xhat) for i in range(n)) / n,
        "gradient_norm": norm(
            tangent_projection(xhat, mean([gradients[i](xhat) for i in range(n)]))
        ),
        "local_gradient_sum": sum(
            norm(canonical_gradient(x[i], gradients[i](x[i]))) for i in range(n)
        ),
        "consensus_error": sum(norm(x[i] - xbar) for i in range(n)),
        "consensus_rms": float(np.sqrt(sum(norm(x[i] - xhat) ** 2 for i in range(n)) / n)),
        "distance_to_manifold": sum(norm(x[i] - polar(x[i])) for i in range(n)),
        "feasibility": max(infeasibility(x[i]) for i in range(n)),
    }
    if penalty is not None:
        lam = np.broadcast_to(np.asarray(penalty, dtype=np.float64), (n,))
        out["landing_norm"] = norm(
            mean([landing_field(xbar, gradients[i](xbar), float(lam[i])) for i in range(n)])
        )
        if landing is None:
            landing = [landing_field(x[i], gradients[i](x[i]), float(lam[i])) for i in range(n)]
    if tracker is not None and landing is not None:
        out["tracking_error"] = norm(mean(tracker) - mean(landing))
    return out


def conjugate_gradients(gradient: Gradient, x0: Array, steps: Sequence[float]) -> list[Array]:
    """``x+ = polar(x + a d)``, ``d+ = -z+ + beta P(d)`` with the hybrid ``beta`` of
    Hestenes-Stiefel and Dai-Yuan, given steps."""
    x, z = x0, tangent_projection(x0, gradient(x0))
    d, points = -z, [x0]
    for step in steps:
        x = polar(x + step * d)
        old, z = z, tangent_projection(x, gradient(x))
        moved, carried = tangent_projection(x, d), tangent_projection(x, old)
        below = np.sum(z * moved) - np.sum(old * d)
        d = -z + max(0.0, min(np.sum(z * z), np.sum(z * (z - carried))) / below) * moved
        points.append(x)
    return points


def lbfgs(gradient: Gradient, x0: Array, steps: Sequence[float], memory: int) -> list[Array]:
    """``x+ = polar(x + a d)``, ``d+ = -P(H z)``, ``H`` formed by BFGS updates with the last pairs,
    given steps."""
    x, z = x0, tangent_projection(x0, gradient(x0))
    d, points = -z, [x0]
    pairs: list[tuple[Array, Array]] = []
    for step in steps:
        x, before, old = polar(x + step * d), x, z
        z = tangent_projection(x, gradient(x))
        pairs = [*pairs, ((x - before).reshape(-1), (z - old).reshape(-1))][-memory:]
        s, t = pairs[-1]
        inverse, identity = (s @ t) / (t @ t) * np.eye(s.size), np.eye(s.size)
        for s, t in pairs:
            v = identity - np.outer(t, s) / (s @ t)
            inverse = v.T @ inverse @ v + np.outer(s, s) / (s @ t)
        d = -tangent_projection(x, (inverse @ z.reshape(-1)).reshape(x.shape))
        points.append(x)
    return points


def leading_vectors(C: Array, space: Array, count: int) -> Array:
    """The leading eigenvectors of C within an orthonormal basis of a space."""
    values, vectors = np.linalg.eigh(space.T @ C @ space)
    return space @ vectors[:, np.argsort(-values)[:count]]


def block_krylov(C: Array, first: Array, r: int, blocks: int, iterations: int) -> list[Array]:
    """The r leading vectors of C in span(X, C X, ..., C^k X), which begins again from as many
    leading vectors as X has columns where it has ``blocks`` blocks; X are the ``first`` columns."""
    b = first.shape[1]
    space, points = np.linalg.qr(first)[0], []
    for _ in range(iterations):
        if space.shape[1] == blocks * b:
            space = leading_vectors(C, space, b)
        both = np.hstack((space, C @ space / np.linalg.norm(C, 2)))
        space = np.linalg.svd(both)[0][:, : space.shape[1] + b]
        points.append(leading_vectors(C, space, r))
    return points
