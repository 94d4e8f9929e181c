"""The methods of the field since 2024, formula by formula: loops over agents, dense matrices, nothing of the package.

As in `rivals`: ``gradients(i, k, x)``, the dense matrix W, a common start ``x0``, a `Trajectory`. The source of a method, and what
of it was derived, stands in the docstring of its module in the package.
"""

from __future__ import annotations

import numpy as np

from tests.reference.naive import Array, Gradient, canonical_gradient, polar, tangent_projection
from tests.reference.rivals import Gradients, Steps, Trajectory, combine, starts, step_at


def rmtracking(
    gradients: Gradients, W: Array, x0: Array, step_size: Steps, iterations: int, momentum: float, first: bool = False
) -> Trajectory:
    """``m_i+ = momentum m_i + s_i``, ``s_i`` the tracker of the Riemannian gradients, ``x_i+ = polar(sum W x - a P(m_i))``.

    With ``first`` the order is the other: agents have momenta of their own gradients, and track these.
    """
    n, x = len(W), starts(x0, W)
    g = [tangent_projection(x[i], gradients(i, 0, x[i])) for i in range(n)]
    s, m = list(g), list(g)
    points, trackers = [x], [s]
    for k in range(iterations):
        a = step_at(step_size, k)
        along = s if first else m
        mixed = combine(W, x)
        x = [polar(mixed[i] - a * tangent_projection(x[i], along[i])) for i in range(n)]
        new = [tangent_projection(x[i], gradients(i, k + 1, x[i])) for i in range(n)]
        if first:
            own = [momentum * m[i] + new[i] for i in range(n)]
            s = [c + own[i] - m[i] for i, c in enumerate(combine(W, s))]
            m = own
        else:
            s = [c + new[i] - g[i] for i, c in enumerate(combine(W, s))]
            m = [momentum * m[i] + s[i] for i in range(n)]
        g = new
        points.append(x)
        trackers.append(s)
    return Trajectory(np.array(points), np.array(trackers))


def matrix_sign(v: Array) -> Array:
    """``sum_k u_k v_k^T`` over the singular values that are not zero."""
    left, values, right = np.linalg.svd(v, full_matrices=False)
    total = np.zeros_like(v)
    for k, value in enumerate(values):
        if value > 1e-12 * values[0]:
            total += np.outer(left[:, k], right[k])
    return total


def nuclear_norm(v: Array) -> float:
    """The sum of the singular values."""
    return float(sum(np.linalg.svd(v, compute_uv=False)))


def demuon(
    gradients: Gradients, W: Array, x0: Array, step_size: Steps, iterations: int, weight: float, scaled: bool, free: bool = False
) -> Trajectory:
    """``V+ = W (V + M+ - M)``, ``X+ = W (X - eta msgn(V))``, ``M+ = (1 - weight) M + weight g``; in Euclidean space if ``free``.

    On the Stiefel manifold g and the V under msgn are projected to tangent spaces, and X+ to the manifold; where it is ``scaled``,
    eta is multiplied by the nuclear norm of that V.
    """
    n, x = len(W), starts(x0, W)
    tangent = (lambda x, u: u) if free else tangent_projection
    m = [tangent(x[i], gradients(i, 0, x[i])) for i in range(n)]
    v = combine(W, m)
    points, trackers = [x], [v]
    for k in range(iterations):
        moved = []
        for i in range(n):
            along = tangent(x[i], v[i])
            length = step_at(step_size, k) * (nuclear_norm(along) if scaled else 1.0)
            moved.append(x[i] - length * matrix_sign(along))
        x = combine(W, moved)
        x = x if free else [polar(y) for y in x]
        new = [(1 - weight) * m[i] + weight * tangent(x[i], gradients(i, k + 1, x[i])) for i in range(n)]
        v = combine(W, [v[i] + new[i] - m[i] for i in range(n)])
        m = new
        points.append(x)
        trackers.append(v)
    return Trajectory(np.array(points), np.array(trackers))


def pogo(gradient: Gradient, x0: Array, step_size: Steps, iterations: int) -> Array:
    """``m = x - eta skew(g x^T) x``, ``x+ = m + (m - m m^T m) / 2``: the last point."""
    x = x0
    for k in range(iterations):
        m = x - step_at(step_size, k) * canonical_gradient(x, gradient(x))
        x = m + (m - m @ m.T @ m) / 2
    return x
