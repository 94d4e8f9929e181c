"""JOBCD of paper 001, formula by formula: one pair after the other, dense matrices, Kronecker products, nothing of the package.

The subproblem is solved as a quartic in z = exp(mu) or z = exp(i theta), by the roots of a companion matrix: another way than the
package's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[int, int]


def vec(v: Array) -> Array:
    return v.reshape(-1, order="F")


def mat(v: Array) -> Array:
    return v.reshape(2, 2, order="F")


def minimiser(P: Array, Q: Array, signs: tuple[float, float]) -> Array:
    """argmin 1/2 vec(V)^T Q vec(V) + <V, P>, V^T J V = J."""
    swap, turn = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, -1.0], [1.0, 0.0]])
    hyperbolic = signs[0] != signs[1]
    families = (
        ((np.eye(2), swap), (np.diag([-1.0, 1.0]), turn)) if hyperbolic else ((np.eye(2), turn), (np.diag([1.0, -1.0]), swap))
    )
    candidates = []
    for one, two in families:
        a, b = (one * P).sum(), (two * P).sum()
        q, e = 0.5 * vec(one) @ Q @ vec(one), 0.5 * vec(two) @ Q @ vec(two)
        d, w = vec(one) @ Q @ vec(two), q + e
        if hyperbolic:
            for z in np.real(np.roots([w + d, a + b, 0.0, -(a - b), -(w - d)])):
                if z != 0.0:
                    candidates.append((z + 1.0 / z) / 2.0 * one + (z - 1.0 / z) / 2.0 * two)
        else:  # -a sin + b cos - (q - e) sin(2 theta) + d cos(2 theta) = 0 in z = exp(i theta), times 2 z^2
            roots = np.roots([d + 1j * (q - e), b + 1j * a, 0.0, b - 1j * a, d - 1j * (q - e)])
            for theta in (0.0, np.pi, *np.angle(roots)):
                candidates.append(np.cos(theta) * one + np.sin(theta) * two)
    return min(candidates, key=lambda v: float(0.5 * vec(v) @ Q @ vec(v) + (v * P).sum()))


def step(x: Array, gradient: Array, pairs: Sequence[Pair], signs: Array, theta: float, quadratic: Sequence[Array]) -> Array:
    """x after the disjoint pairs B have been multiplied by their V, with Q of each; (6) and (12)."""
    after = x.copy()
    for (i, j), q in zip(pairs, quadratic, strict=True):
        rows = [i, j]
        Q = q + theta * np.eye(4)
        P = (gradient @ x.T)[np.ix_(rows, rows)] - mat(Q @ vec(np.eye(2)))
        after[rows] = minimiser(P, Q, (signs[i], signs[j])) @ x[rows]
    return after


def exact(x: Array, H: Array, pair: Pair) -> Array:
    """(Z^T kron U_B)^T (I kron H) (Z^T kron U_B), Z = x[B]: of f(x) = tr(x^T H x)/2."""
    rows, n = list(pair), len(x)
    U, Z = np.eye(n)[:, rows], x[rows]
    K = np.kron(Z.T, U)
    return K.T @ np.kron(np.eye(n), H) @ K


def isotropic(x: Array, lipschitz: float, pair: Pair) -> Array:
    """L_f ||Z||_2^2 I."""
    return lipschitz * float(np.linalg.norm(x[list(pair)], 2)) ** 2 * np.eye(4)
