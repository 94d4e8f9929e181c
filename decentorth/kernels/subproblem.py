"""The subproblem of block coordinate descent under J-orthogonality (paper 001, (6)), solved exactly, all pairs at once.

    min_V  1/2 vec(V)^T Q vec(V) + <V, P>   subject to   V^T J_BB V = J_BB,   V in R^{2 x 2}

V = c E1 + s E2 runs through four families: with J_BB = diag(1, -1) up to sign, c^2 - s^2 = 1 and (E1, E2) = (I, X) or (-Z, R); with
J_BB = I up to sign, c^2 + s^2 = 1 and (I, R), the rotations, or (Z, X), the reflections, where X = [[0, 1], [1, 0]],
Z = diag(1, -1), R = [[0, -1], [1, 0]]. On a family the objective is a c + b s + q c^2 + d c s + e s^2 with a = <E1, P>,
b = <E2, P>, q = <E1, E1>_Q / 2, e = <E2, E2>_Q / 2, d = <E1, E2>_Q.

Paper 001 solves quartics. They are not needed: each family has one equation with one root. For a hyperbolic family, with
w = q + e > |d|, the shift nu = mu + log(rho), rho^4 = (w + d) / (w - d), takes c = +-cosh(mu), s = +-sinh(mu) to

    D cosh(2 nu)/2 + a' cosh(nu) + b' sinh(nu) + const,   D = sqrt(w^2 - d^2)                                      (1)

(for c > 0). The better sign of c is that of -a', the better sign of s that of -b', and the rest is convex beyond the last
stationary point, so t = |sinh(nu)| is the largest root of 2 D t - |a'| t / sqrt(1 + t^2) = |b'|. On the circle a rotation of the
angle likewise leads to -K cos(2 phi) - p cos(phi) - r sin(phi), p, r, K >= 0, whose minimum on the first quadrant is where
t = tan(phi) solves p t + 4 K t / sqrt(1 + t^2) = r. `_root` solves both, by Newton's method from the side where it is monotone.

A hyperbolic family is bounded below iff w > |d|, or w = |d| and the linear term of that end vanishes: a + b = 0 with w = -d,
a - b = 0 with w = d. Equality is judged to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array

EPS = 4.0 * float(np.finfo(np.float64).eps)
"""The rounding error of the coefficients, relative to their terms."""
CERTAIN = 1e-9
"""The excess of |d| over w, relative to both, from which a method takes an objective for unbounded. It computes w and d from
products of a point that may be large, so that rounding can make a subproblem with a minimum seem unbounded."""
NEAR = 1e-6
"""The value of exp(-|mu|) where the infimum is only approached as mu goes to infinity."""
STEEPEST = 1e-6
"""The least sqrt(1 - tanh(2 mu)^2) of a Jacobi step."""
MOST = 100
"""The largest number of Newton steps; about 8 are made."""
TINY = 1e-200

BASIS = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, -1.0], [0.0, 1.0, -1.0, 0.0]])
"""The vectors vec(E), column by column, of E = I, X, Z and R."""
HYPERBOLIC = ((0, 1, 1.0), (2, 3, -1.0))
"""The entries (E1, E2, sign of E1) of both families, as rows of `BASIS`."""
ORTHOGONAL = ((0, 3, 1.0), (2, 1, 1.0))


class Solution(NamedTuple):
    """The minimisers of k subproblems."""

    v: Array
    """The minimisers ``(k, 2, 2)``; NaN where there is none."""
    value: Array
    """The minima ``(k,)``, -inf where there is none."""
    ray: NDArray[np.int64]
    """The rays ``(k,)``: 0, or the curve along which the objective is unbounded: 1 and -1 for [[cosh, sinh], [sinh, cosh]](mu) as
    mu goes to plus and to minus infinity, 2 and -2 for [[-cosh, -sinh], [sinh, cosh]](mu)."""


class Sweep(NamedTuple):
    """The Q of each pair in a sweep of Gauss-Seidel steps, and where the sweep ends."""

    theta: float
    """The multiple of I that is added to Q."""
    exact: bool
    """True if Q is the pair's own quadratic form, False if it is varsigma I."""
    constant: float
    scaled: float
    """The terms of varsigma = ``constant + scaled * lambda_max(product_BB)``, which also serves an exact pair whose form seems
    unbounded, but not with certainty."""
    limit: float
    """The squared norm of both rows of a pair above which the sweep stops before it."""


def ray_matrix(ray: int, mu: float) -> Array:
    """The factor V(mu) ``(2, 2)``, mu > 0, of a ray other than 0."""
    c, s = np.cosh(mu), np.copysign(np.sinh(mu), ray)
    return np.array([[c, s], [s, c]] if abs(ray) == 1 else [[-c, -s], [s, c]])


def form(quadratic: Array) -> Array:
    """The forms <E, F>_Q ``(k, 4, 4)`` for E, F in the basis I, X, Z, R, from Q (which acts on vec(V), column by column)."""
    product: Array = BASIS @ quadratic @ BASIS.T
    return product


def exact_form(h: Array, m: Array, theta: float) -> Array:
    """The `form` of Q = M kron H + theta I, from tr(x^T H x)/2 under x[B] <- V x[B], with the blocks H_BB and M_BB, M = x x^T.

    ``h`` and ``m`` are ``(k, 2, 2)``, symmetric.
    """
    kron = m[:, :, None, :, None] * h[:, None, :, None, :]
    return form(kron.reshape(-1, 4, 4)) + 2.0 * theta * np.eye(4)


def isotropic(kappa: Array) -> Array:
    """The `form` of Q = kappa I, for kappa ``(k,)``."""
    return 2.0 * kappa[:, None, None] * np.eye(4)


def largest_eigenvalue(ii: Array, ij: Array, jj: Array) -> Array:
    """The largest eigenvalues of [[ii, ij], [ij, jj]], ``(k,)``."""
    largest: Array = 0.5 * (ii + jj) + np.hypot(0.5 * (ii - jj), ij)
    return largest


def linear_term(t: Array, curvature: Array) -> Array:
    """The linear terms <E, P> ``(k, 4)`` for E in the basis, P = T - mat(Q vec(I)).

    ``t`` holds the blocks T = [grad f(x) x^T]_BB, ``(k, 2, 2)``, and ``curvature`` is a `form`, ``(k, 4, 4)``.
    """
    projected: Array = t.swapaxes(-1, -2).reshape(-1, 4) @ BASIS.T
    return projected - curvature[:, 0]


def minimise(hyperbolic: NDArray[np.bool_], linear: Array, curvature: Array) -> Solution:
    """The minimisers of 1/2 vec(V)^T Q vec(V) + <V, P>, with P and Q in the basis.

    ``hyperbolic``, ``(k,)``, is True where J_BB has two signs; ``linear``, ``(k, 4)``, is <E, P>; ``curvature`` is the `form` of Q.
    """
    k = len(hyperbolic)
    solution = Solution(np.empty((k, 2, 2)), np.empty(k), np.zeros(k, dtype=np.int64))
    for kind, families, minimum in ((True, HYPERBOLIC, _hyperbolic), (False, ORTHOGONAL, _orthogonal)):
        chosen = np.flatnonzero(hyperbolic == kind)
        p, n = linear[chosen], curvature[chosen]
        best, value, ray = np.zeros((len(chosen), 4)), np.full(len(chosen), np.inf), np.zeros(len(chosen), dtype=np.int64)
        for number, (first, second, sign) in enumerate(families, start=1):
            q, e, d = 0.5 * n[:, first, first], 0.5 * n[:, second, second], sign * n[:, first, second]
            c, s, found, end = minimum(sign * p[:, first], p[:, second], q, e, d)
            better = found < value
            v = (sign * c)[:, None] * BASIS[first] + s[:, None] * BASIS[second]
            best, value = np.where(better[:, None], v, best), np.where(better, found, value)
            ray = np.where((ray == 0) & (end != 0), number * end, ray)
        best[ray != 0], value[ray != 0] = np.nan, -np.inf
        solution.v[chosen] = best.reshape(-1, 2, 2).swapaxes(-1, -2)
        solution.value[chosen], solution.ray[chosen] = value, ray
    return solution


def _hyperbolic(a: Array, b: Array, q: Array, e: Array, d: Array) -> tuple[Array, Array, Array, NDArray[np.int64]]:
    """The minimiser c, s, the minimum and the end (1, -1; 0 if bounded) of a c + b s + q c^2 + d c s + e s^2 on c^2 - s^2 = 1."""
    w = q + e
    flat, level = EPS * (np.abs(q) + np.abs(e) + np.abs(d)), EPS * (np.abs(a) + np.abs(b))
    up, down, push, pull = w + d, w - d, a + b, a - b  # the ends mu -> inf and mu -> -inf: curvatures and linear terms
    falls_up = (up < -flat) | ((up <= flat) & (np.abs(push) > level))
    falls_down = (down < -flat) | ((down <= flat) & (np.abs(pull) > level))
    end = np.where(falls_up & (~falls_down | (up <= down)), 1, np.where(falls_down, -1, 0))

    inner = (up > flat) & (down > flat)
    with np.errstate(all="ignore"):  # where the ends are flat, what follows is not used
        rho = np.sqrt(np.sqrt(up) / np.sqrt(down))
        big = np.sqrt(up) * np.sqrt(down)
        even, odd = 0.5 * (push / rho + pull * rho), 0.5 * (push / rho - pull * rho)
        t = _root(np.where(inner, -np.abs(even) / (2.0 * big), 0.0), np.where(inner, np.abs(odd) / (2.0 * big), 0.0))
        h = np.hypot(1.0, t)
        sign = np.where(even > 0.0, -1.0, 1.0)
        falling = sign * odd > 0.0  # sinh(nu) < 0
        u = np.where(falling, 1.0 / (h + t), h + t) / rho
        value = -np.abs(even) * h - np.abs(odd) * t + 0.5 * big * (1.0 + 2.0 * t * t)

        flat_up = up <= down  # at a flat end there is z = exp(-mu) or exp(mu) to be found, on the other side
        steep, force = np.where(flat_up, down, up), np.where(flat_up, pull, push)
        z = np.where(steep > flat, np.maximum(np.abs(force) / steep, NEAR), 1.0)
        edge = 0.25 * steep * z * z - 0.5 * np.abs(force) * z
    u = np.where(inner, u, np.where(flat_up, 1.0 / z, z))
    sign = np.where(inner, sign, np.where(force > 0.0, -1.0, 1.0))
    s = 0.5 * (u - 1.0 / u)
    return sign * np.hypot(1.0, s), sign * s, np.where(inner, value, edge) + 0.5 * (q - e), end


def _orthogonal(a: Array, b: Array, q: Array, e: Array, d: Array) -> tuple[Array, Array, Array, NDArray[np.int64]]:
    """The minimiser c, s, the minimum and zeros for a c + b s + q c^2 + d c s + e s^2 on c^2 + s^2 = 1."""
    k = 0.5 * np.hypot(q - e, d)
    turn = np.where(k > 0.0, 0.5 * np.arctan2(-d, e - q), 0.0)  # phi = theta - turn
    cos, sin = np.cos(turn), np.sin(turn)
    even, odd = a * cos + b * sin, b * cos - a * sin
    p, r = np.abs(even), np.abs(odd)
    size = np.maximum(p, TINY * (4.0 * k + r))
    size = np.where(size > 0.0, size, 1.0)
    t = _root(4.0 * k / size, r / size)
    h = np.hypot(1.0, t)
    near, far = 1.0 / h, t / h
    value = -k * (near - far) * (near + far) - p * near - r * far + 0.5 * (q + e)
    x, y = np.where(even > 0.0, -near, near), np.where(odd > 0.0, -far, far)
    return x * cos - y * sin, y * cos + x * sin, value, np.zeros(len(a), dtype=np.int64)


def _start(y: Array, r: Array) -> Array:
    """The start of Newton's method for `_root`, within a small factor of the root: above it for y < 0, below it for y >= 0."""
    size = np.maximum(np.abs(y), TINY)
    near = np.sqrt(3.42 * np.maximum(-y - 1.0, 0.0) / size) + np.cbrt(3.42 * r / size)  # t - t/h >= t^3/3.42 for t <= 1
    above = np.where(y > -1.0, np.minimum(r - y, r / np.maximum(1.0 + y, TINY)), r - y)
    beyond = np.where(near <= 1.0, np.minimum(above, near), above)
    gap = r - y
    late = np.where(  # 1/(3.42 t^2) <= 1 - t/h <= 1/(2 t^2) for t >= 1
        gap >= 0.0,
        np.maximum(gap, np.cbrt(size / 3.42)),
        np.minimum(np.cbrt(size / 6.84), np.sqrt(size / (6.84 * np.maximum(-gap, TINY)))),
    )
    before = np.where(1.0 + y / np.sqrt(2.0) < r, np.maximum(late, 1.0), r / (1.0 + np.maximum(y, 0.0)))
    return np.where(y < 0.0, beyond, before)


@np.errstate(over="ignore", invalid="ignore")  # each formula is used where it is finite
def _root(y: Array, r: Array) -> Array:
    """The largest t >= 0 with t + y t / sqrt(1 + t^2) = r, where r >= 0; ``y`` may have either sign.

    The left-hand side is convex from its last minimum on for y < 0, and concave for y >= 0: Newton's method is monotone from the
    right, or from the left. The iteration of an entry ends when it reverses or no longer moves.
    """
    t = _start(y, r)
    side = np.where(y < 0.0, 1.0, -1.0)
    moving = np.ones(len(t), dtype=np.bool_)
    for step in range(MOST):
        h = np.hypot(1.0, t)
        small = (1.0 + y) + t * t / (1.0 + h)  # h (1 + y/h) without cancellation at small t
        near = t <= 1.0
        value = np.where(near, t * small / h, t + y * (t / h)) - r
        slope = np.where(near, ((1.0 + y) + (h * h + h + 1.0) * t * t / (1.0 + h)) / (h * h * h), 1.0 + y / (h * h * h))
        next_t = t - value / np.where(slope > 0.0, slope, 1.0)
        moving &= (side * (t - next_t) > EPS * t) | (step == 0)
        if not moving.any():
            break
        t = np.where(moving, np.maximum(next_t, 0.0), t)
    return t
