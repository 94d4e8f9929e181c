"""The subproblem of block coordinate descent under J-orthogonality (paper 001, (6)), which
`compiled.minimise` solves exactly.

    min_V  1/2 vec(V)^T Q vec(V) + <V, P>   subject to   V^T J_BB V = J_BB,   V in R^{2 x 2}

V = c E1 + s E2 runs through four families: with J_BB = diag(1, -1) up to sign, c^2 - s^2 = 1 and
(E1, E2) = (I, X) or (-Z, R); with J_BB = I up to sign, c^2 + s^2 = 1 and (I, R), the rotations, or
(Z, X), the reflections, where X = [[0, 1], [1, 0]], Z = diag(1, -1), R = [[0, -1], [1, 0]]. On a
family the objective is a c + b s + q c^2 + d c s + e s^2 with a = <E1, P>, b = <E2, P>, q = <E1,
E1>_Q / 2, e = <E2, E2>_Q / 2, d = <E1, E2>_Q.

Paper 001 solves quartics. They are not needed: each family has one equation with one root. For a
hyperbolic family, with w = q + e > |d|, the shift nu = mu + log(rho), rho^4 = (w + d) / (w - d),
takes c = +-cosh(mu), s = +-sinh(mu) to

    D cosh(2 nu)/2 + a' cosh(nu) + b' sinh(nu) + const,   D = sqrt(w^2 - d^2)                                      (1)

(for c > 0). The better sign of c is that of -a', the better sign of s that of -b', and the rest is
convex beyond the last stationary point, so t = |sinh(nu)| is the largest root of 2 D t - |a'| t /
sqrt(1 + t^2) = |b'|. On the circle a rotation of the angle likewise leads to -K cos(2 phi) - p
cos(phi) - r sin(phi), p, r, K >= 0, whose minimum on the first quadrant is where t = tan(phi)
solves p t + 4 K t / sqrt(1 + t^2) = r. `compiled` solves both, by Newton's method from the monotone
side.

A hyperbolic family is bounded below iff w > |d|, or w = |d| and the linear term of that end
vanishes: a + b = 0 with w = -d, a - b = 0 with w = d. Equality is judged to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decentorth.protocols import Array

EPS = 4.0 * float(np.finfo(np.float64).eps)
"""The rounding error of the coefficients, relative to their terms."""
CERTAIN = 1e-9
"""The excess of |d| over w, relative to both, from which a method takes an objective for unbounded.
It computes w and d from products of a point that may be large, so that rounding can make a
subproblem with a minimum seem unbounded."""
NEAR = 1e-6
"""The value of exp(-|mu|) where the infimum is only approached as mu goes to infinity."""
STEEPEST = 1e-6
"""The least sqrt(1 - tanh(2 mu)^2) of a Jacobi step."""
MOST = 100
"""The largest number of Newton steps; about 8 are made."""
TINY = 1e-200

BASIS = np.array([[1.0, 0, 0, 1], [0, 1, 1, 0], [1, 0, 0, -1], [0, 1, -1, 0]])
"""The vectors vec(E), column by column, of E = I, X, Z and R."""


class Solution(NamedTuple):
    """The minimisers of k subproblems."""

    v: Array
    """The minimisers ``(k, 2, 2)``; NaN where there is none."""
    value: Array
    """The minima ``(k,)``, -inf where there is none."""
    ray: NDArray[np.int64]
    """The rays ``(k,)``: 0, or the curve along which the objective is unbounded: 1 and -1 for
    [[cosh, sinh], [sinh, cosh]](mu) as mu goes to plus and to minus infinity, 2 and -2 for [[-cosh,
    -sinh], [sinh, cosh]](mu)."""


class Sweep(NamedTuple):
    """The Q of each pair in a sweep of Gauss-Seidel steps, and where the sweep ends."""

    theta: float
    """The multiple of I that is added to Q."""
    exact: bool
    """True if Q is the pair's own quadratic form, False if it is varsigma I."""
    constant: float
    scaled: float
    """The terms of varsigma = ``constant + scaled * lambda_max(product_BB)``, which also serves an
    exact pair whose form seems unbounded, but not with certainty."""
    limit: float
    """The squared norm of both rows of a pair above which the sweep stops before it."""


def ray_matrix(ray: int, mu: float) -> Array:
    """The factor V(mu) ``(2, 2)``, mu > 0, of a ray other than 0."""
    c = np.cosh(mu)
    s = np.copysign(np.sinh(mu), ray)
    return np.array([[c, s], [s, c]] if abs(ray) == 1 else [[-c, -s], [s, c]])


def isotropic(kappa: Array) -> Array:
    """The forms <E, F>_Q ``(k, 4, 4)``, E and F in the `BASIS`, of Q = kappa I, for kappa
    ``(k,)``."""
    return 2.0 * kappa[:, None, None] * np.eye(4)


def largest_eigenvalue(ii: Array, ij: Array, jj: Array) -> Array:
    """The largest eigenvalues of [[ii, ij], [ij, jj]], ``(k,)``."""
    return 0.5 * (ii + jj) + np.hypot(0.5 * (ii - jj), ij)


def linear_term(t: Array, curvature: Array) -> Array:
    """The linear terms <E, P> ``(k, 4)`` for E in the basis, P = T - mat(Q vec(I)).

    ``t`` holds the blocks T = [grad f(x) x^T]_BB, ``(k, 2, 2)``, and ``curvature`` the forms <E,
    F>_Q, ``(k, 4, 4)``.
    """
    projected: Array = t.swapaxes(-1, -2).reshape(-1, 4) @ BASIS.T
    return projected - curvature[:, 0]
