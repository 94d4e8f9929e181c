"""Double tracking on {x : x^T B x = I} with B = (1/n) sum_i B_i, agent by agent, from the formulas.

One agent's ``x`` is ``(d, p)``; ``B_i`` ``(d, d)``, a product of sets being block-diagonal with the
blocks at the rows ``parts``. Every matrix of the formulas is formed, and nothing is shared with the
package under test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np

from tests.reference.generalized import Array, Gradient, sym

Method = Literal["dissolving", "psi-br"]
Parts = Sequence[slice]


def dissolve(x: Array, d: Array) -> Array:
    """``x (3 I - x^T d)/2``, x^T d made symmetric."""
    return x @ (3 * np.eye(x.shape[1]) - sym(x.T @ d)) / 2


def penalty_function(value: Callable[[Array], float], B: Array, beta: float, x: Array) -> float:
    """``h(x) = f(A(x)) + beta/4 ||x^T B x - I||^2``."""
    excess = x.T @ B @ x - np.eye(x.shape[1])
    return value(dissolve(x, B @ x)) + beta / 4 * float(np.sum(excess * excess))


def field(method: Method, penalty: float, x: Array, g: Array, d: Array) -> Array:
    """What an agent makes of the gradient ``g`` and the product ``d``; P is applied to it."""
    eye = np.eye(x.shape[1])
    if method == "dissolving":
        excess = sym(x.T @ d) - eye
        return g @ (eye - excess / 2) - d @ sym(x.T @ g) + penalty * d @ excess
    return (g @ x.T @ d - d @ g.T @ x) + 2 * penalty * d @ (x.T @ d - eye)


def by_parts(parts: Parts, function: Callable[..., Array], *arrays: Array) -> Array:
    """The function of each part's rows, stacked."""
    return np.concatenate([function(*[array[rows] for array in arrays]) for rows in parts])


def nystrom(B: Array, omega: Array) -> Array:
    """``R (U (1/L - 1/l) U^T + I/l) R`` with R = diag(B)^{-1/2}, S = R B R U L U^T = S w (w^T S
    w)^+ w^T S, w = R^{-1} omega."""
    r = np.diag(1 / np.sqrt(np.diag(B)))
    s, w = r @ B @ r, np.linalg.inv(r) @ omega
    approximation = s @ w @ np.linalg.pinv(w.T @ s @ w, hermitian=True) @ (s @ w).T
    values, vectors = np.linalg.eigh(approximation)
    values, vectors = values[-omega.shape[1] :], vectors[:, -omega.shape[1] :]
    return (
        r
        @ (vectors @ np.diag(1 / values - 1 / values[0]) @ vectors.T + np.eye(len(B)) / values[0])
        @ r
    )


def iterate(
    method: Method,
    gradients: Sequence[Gradient],
    B: Sequence[Array],
    W: Array,
    parts: Parts,
    P: Sequence[Array],
    start: tuple[Array, Array, Array],
    step: Sequence[float],
    penalty: Sequence[float],
    momentum: float,
    iterations: int,
) -> tuple[Array, Array, Array]:
    """Points and trackers of gradient and product, each ``(n, d, p)``, from those in ``start``."""
    n = len(B)

    def at(x: Array, d: Array) -> Array:
        return by_parts(parts, dissolve, x, d) if method == "dissolving" else x

    x, g, d = (list(array) for array in start)
    before = x
    own = [gradients[i](at(x[i], d[i])) for i in range(n)]
    for _ in range(iterations):
        fields = [
            by_parts(parts, partial(field, method, penalty[i]), x[i], g[i], d[i]) for i in range(n)
        ]
        moved = [x[i] - step[i] * P[i] @ fields[i] for i in range(n)]
        new = [
            sum(W[i, j] * moved[j] for j in range(n)) + momentum * (x[i] - before[i])
            for i in range(n)
        ]
        d = [sum(W[i, j] * d[j] for j in range(n)) + B[i] @ (new[i] - x[i]) for i in range(n)]
        latest = [gradients[i](at(new[i], d[i])) for i in range(n)]
        g = [sum(W[i, j] * g[j] for j in range(n)) + latest[i] - own[i] for i in range(n)]
        x, before, own = new, x, latest
    return np.array(x), np.array(g), np.array(d)
