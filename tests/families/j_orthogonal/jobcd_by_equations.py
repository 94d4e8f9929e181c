"""JOBCD of paper 001, and its rivals CSDM, ADMM and UMCM (appendix F), formula by formula: dense
matrices, nothing of the package.

The subproblem is solved as a quartic in z = exp(mu) or z = exp(i theta), by the roots of a
companion matrix: another way than the package's. Functions of the rivals take a value f or a
gradient G of f as a function of x, and J as a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[int, int]
Value = Callable[[Array], float]
Gradient = Callable[[Array], Array]


def vec(v: Array) -> Array:
    return v.reshape(-1, order="F")


def mat(v: Array) -> Array:
    return v.reshape(2, 2, order="F")


def minimiser(P: Array, Q: Array, signs: tuple[float, float]) -> Array:
    """argmin 1/2 vec(V)^T Q vec(V) + <V, P>, V^T J V = J."""
    swap, turn = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, -1.0], [1.0, 0.0]])
    hyperbolic = signs[0] != signs[1]
    families = (
        ((np.eye(2), swap), (np.diag([-1.0, 1.0]), turn))
        if hyperbolic
        else ((np.eye(2), turn), (np.diag([1.0, -1.0]), swap))
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
        # -a sin + b cos - (q - e) sin(2 theta) + d cos(2 theta) = 0 in z = exp(i theta), times 2
        # z^2
        else:
            roots = np.roots([d + 1j * (q - e), b + 1j * a, 0.0, b - 1j * a, d - 1j * (q - e)])
            for theta in (0.0, np.pi, *np.angle(roots)):
                candidates.append(np.cos(theta) * one + np.sin(theta) * two)
    return min(candidates, key=lambda v: float(0.5 * vec(v) @ Q @ vec(v) + (v * P).sum()))


def step(
    x: Array,
    gradient: Array,
    pairs: Sequence[Pair],
    signs: Array,
    theta: float,
    quadratic: Sequence[Array],
) -> Array:
    """x after the disjoint pairs B have been multiplied by their V, with Q of each; (6) and
    (12)."""
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


def hyperbolic(mu: Array, p: int, q: int) -> Array:
    """H(mu): rows and columns i and p + i hold [[cosh mu_i, sinh mu_i], [sinh mu_i, cosh mu_i]]."""
    h = np.eye(p + q)
    for i, one in enumerate(mu):
        h[i, i] = h[p + i, p + i] = np.cosh(one)
        h[i, p + i] = h[p + i, i] = np.sinh(one)
    return h


def sym(m: Array) -> Array:
    return (m + m.T) / 2


def skew(m: Array) -> Array:
    return (m - m.T) / 2


def blocks(m: Array, p: int) -> Array:
    """The diagonal blocks of m, zeros elsewhere."""
    out = np.zeros_like(m)
    out[:p, :p], out[p:, p:] = m[:p, :p], m[p:, p:]
    return out


def csdm_slopes(U: Array, V: Array, mu: Array, G: Array, p: int) -> tuple[Array, Array, Array]:
    """Of f(U H V^T) along U A, V A (A skew and block-diagonal) and mu: left-trivialised
    gradients."""
    n, H = len(U), hyperbolic(mu, p, len(U) - p)
    T = U.T @ G @ V
    slope = np.empty(len(mu))
    for i in range(len(mu)):
        slope[i] = np.sinh(mu[i]) * (T[i, i] + T[p + i, p + i]) + np.cosh(mu[i]) * (
            T[i, p + i] + T[p + i, i]
        )
    assert H.shape == (n, n)
    return blocks(skew(T @ H.T), p), blocks(skew(T.T @ H), p), slope


def cayley(U: Array, A: Array) -> Array:
    """U (I - A/2) (I + A/2)^{-1}, a step along -A."""
    one = np.eye(len(U))
    return U @ (one - A / 2) @ np.linalg.inv(one + A / 2)


def adagrad(slope: Array, squares: Array, rate: float) -> Array:
    """The step of Adagrad, to be subtracted, once slope^2 is among the squares."""
    return rate * slope / (np.sqrt(squares) + 1e-10)


def lagrangian(
    value: float, X: Array, Y: Array, Z: Array, W: Array, J: Array, beta: float
) -> float:
    """L(X, Y; Z, W), f(X) replaced by a value."""
    first, second = X.T @ Y - J, J @ X - Y
    return float(
        value
        + (first * Z).sum()
        + (second * W).sum()
        + beta / 2 * (first * first).sum()
        + beta / 2 * (second * second).sum()
    )


def majorised(X: Array, X0: Array, G0: Array, length: float) -> float:
    """f's majoriser at X0 without its constant: <X - X0, G0> + l/2 ||X - X0||^2."""
    return float(((X - X0) * G0).sum() + length / 2 * ((X - X0) ** 2).sum())


def admm(
    X: Array, Y: Array, Z: Array, W: Array, gradient: Gradient, J: Array, length: float, beta: float
) -> tuple[Array, ...]:
    """An iteration; the printed formulas with their slips mended."""
    one = np.eye(len(X))
    left = np.linalg.inv(length * one + beta * (Y @ Y.T + one))
    X = left @ (length * X - gradient(X) - Y @ Z.T - J @ W + beta * Y @ J + beta * J @ Y)
    Y = np.linalg.inv(beta * (X @ X.T + one)) @ (-X @ Z + W + beta * X @ J + beta * J @ X)
    return X, Y, Z + beta * (X.T @ Y - J), W + beta * (J @ X - Y)


def umcm_value(value: Value, gradient: Gradient, X: Array, J: Array, beta: float) -> float:
    """f - <J X^T G, E>/2 + beta/2 ||E||^2, E = X^T J X - J."""
    E = X.T @ J @ X - J
    return float(value(X) - ((J @ X.T @ gradient(X)) * E).sum() / 2 + beta / 2 * (E * E).sum())


def umcm_quadratic(C: Array, X: Array, J: Array, beta: float) -> Array:
    """Its gradient for f = tr(X^T C X)."""
    S, E = X.T @ C @ X, X.T @ J @ X - J
    return 2 * C @ X - 2 * C @ X @ sym(J @ E) - 2 * J @ X @ sym(S @ J) + 2 * beta * J @ X @ E
