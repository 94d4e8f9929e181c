"""Loops over pairs of rows, compiled by numba; `subproblem` derives the mathematics of `minimise`.

All functions work on one agent's matrices, ``(n, n)``, in place. ``first`` and ``second`` are the
rows of k pairs, ``(k,)`` each, ``v`` the factors ``(k, 2, 2)`` and ``signs`` the diagonal of J,
``(n,)``. Except for `gauss_seidel`, pairs have no row in common.

Compiled code is cached on disk for the next process if a folder is writable. The kernels use one
thread, so that the bits of a run do not depend on the number of processors. Without numba Python
runs the same loops, some hundred times slower.
"""

from __future__ import annotations

from math import atan2, copysign, cos, hypot, inf, nan, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decentorth.numerics.kernels.decorators import COMPILES as COMPILES
from decentorth.numerics.kernels.decorators import exact, fast
from decentorth.protocols import Array, Index

from .subproblem import CERTAIN, EPS, MOST, NEAR, STEEPEST, TINY, Solution, Sweep

Three = tuple[float, float, float]
Four = tuple[float, float, float, float]
Found = tuple[float, float, float, int]
"""c, s, the minimum and the ray of one family."""
Turn = tuple[float, float, float, float, float, int]
"""The rows of V, the minimum and the ray."""
SQRT2 = sqrt(2.0)


@exact
def _root(y: float, r: float) -> float:
    if y < 0.0:
        near = sqrt(3.42 * max(-y - 1.0, 0.0) / -y) + (3.42 * r / -y) ** (1.0 / 3.0)
        t = r - y
        if y > -1.0:
            t = min(t, r / (1.0 + y))
        if near <= 1.0:
            t = min(t, near)
    elif 1.0 + y / SQRT2 < r:
        gap = r - y
        if gap >= 0.0:
            t = max(gap, (y / 3.42) ** (1.0 / 3.0), 1.0)
        else:
            t = max(min((y / 6.84) ** (1.0 / 3.0), sqrt(y / (6.84 * -gap))), 1.0)
    else:
        t = r / (1.0 + y)
    side = 1.0 if y < 0.0 else -1.0
    for step in range(MOST):
        h = hypot(1.0, t)
        cube = h * h * h
        if t <= 1.0:
            value = t * ((1.0 + y) + t * t / (1.0 + h)) / h - r
            slope = ((1.0 + y) + (h * h + h + 1.0) * t * t / (1.0 + h)) / cube
        else:
            value = t + y * (t / h) - r
            slope = 1.0 + y / cube
        following = t - value / (slope if slope > 0.0 else 1.0)
        if step > 0 and not side * (t - following) > EPS * t:
            break
        t = max(following, 0.0)
    return t


@exact
def _hyperbolic(a: float, b: float, q: float, e: float, d: float) -> Found:
    w = q + e
    flat = EPS * (abs(q) + abs(e) + abs(d))
    level = EPS * (abs(a) + abs(b))
    up = w + d
    down = w - d
    push = a + b
    pull = a - b
    falls_up = up < -flat or (up <= flat and abs(push) > level)
    falls_down = down < -flat or (down <= flat and abs(pull) > level)
    if falls_up and (up <= down or not falls_down):
        return nan, nan, -inf, 1
    if falls_down:
        return nan, nan, -inf, -1
    if up > flat and down > flat:
        rho = sqrt(sqrt(up) / sqrt(down))
        big = sqrt(up) * sqrt(down)
        even = 0.5 * (push / rho + pull * rho)
        odd = 0.5 * (push / rho - pull * rho)
        t = _root(-abs(even) / (2.0 * big), abs(odd) / (2.0 * big))
        h = hypot(1.0, t)
        sign = -1.0 if even > 0.0 else 1.0
        u = (1.0 / (h + t) if sign * odd > 0.0 else h + t) / rho
        value = -abs(even) * h - abs(odd) * t + 0.5 * big * (1.0 + 2.0 * t * t)
    else:
        steep, force = (down, pull) if up <= down else (up, push)
        z = max(abs(force) / steep, NEAR) if steep > flat else 1.0
        u = 1.0 / z if up <= down else z
        sign = -1.0 if force > 0.0 else 1.0
        value = 0.25 * steep * z * z - 0.5 * abs(force) * z
    s = 0.5 * (u - 1.0 / u)
    return sign * hypot(1.0, s), sign * s, value + 0.5 * (q - e), 0


@exact
def _orthogonal(a: float, b: float, q: float, e: float, d: float) -> Found:
    k = 0.5 * hypot(q - e, d)
    turn = 0.5 * atan2(-d, e - q) if k > 0.0 else 0.0
    x = cos(turn)
    y = sin(turn)
    even = a * x + b * y
    odd = b * x - a * y
    p = abs(even)
    r = abs(odd)
    size = max(p, TINY * (4.0 * k + r))
    if size == 0.0:
        size = 1.0
    t = _root(4.0 * k / size, r / size)
    h = hypot(1.0, t)
    near = 1.0 / h
    far = t / h
    value = -k * (near - far) * (near + far) - p * near - r * far + 0.5 * (q + e)
    near = -near if even > 0.0 else near
    far = -far if odd > 0.0 else far
    return near * x - far * y, far * x + near * y, value, 0


@exact
def _pair(hyperbolic: bool, linear: Four, squares: Four, mixed: Four) -> Turn:
    """The better family: ``linear`` and ``squares`` are <E, P> and <E, E>_Q for I, X, Z, R,
    ``mixed`` is <I, X>_Q, <Z, R>_Q, <I, R>_Q, <Z, X>_Q."""
    p_i, p_x, p_z, p_r = linear
    i, x, z, r = squares
    if hyperbolic:
        c, s, value, end = _hyperbolic(p_i, p_x, 0.5 * i, 0.5 * x, mixed[0])
        if end != 0:
            return nan, nan, nan, nan, -inf, end
        c2, s2, value2, end = _hyperbolic(-p_z, p_r, 0.5 * z, 0.5 * r, -mixed[1])
        if end != 0:
            return nan, nan, nan, nan, -inf, 2 * end
        if value2 < value:
            return -c2, -s2, s2, c2, value2, 0
        return c, s, s, c, value, 0
    c, s, value, end = _orthogonal(p_i, p_r, 0.5 * i, 0.5 * r, mixed[2])
    c2, s2, value2, end = _orthogonal(p_z, p_x, 0.5 * z, 0.5 * x, mixed[3])
    if value2 < value:
        return c2, s2, s2, -c2, value2, 0
    return c, -s, s, c, value, 0


@exact
def _minimise(
    hyperbolic: Any, linear: Array, curvature: Array, v: Array, value: Array, ray: Index
) -> None:
    for k in range(len(hyperbolic)):
        p = linear[k]
        n = curvature[k]
        v[k, 0, 0], v[k, 0, 1], v[k, 1, 0], v[k, 1, 1], value[k], ray[k] = _pair(
            hyperbolic[k],
            (p[0], p[1], p[2], p[3]),
            (n[0, 0], n[1, 1], n[2, 2], n[3, 3]),
            (n[0, 1], n[2, 3], n[0, 3], n[2, 1]),
        )


def minimise(hyperbolic: NDArray[np.bool_], linear: Array, curvature: Array) -> Solution:
    """The minimisers of 1/2 vec(V)^T Q vec(V) + <V, P>, with P and Q in the `BASIS`.

    ``hyperbolic``, ``(k,)``, is True where J_BB has two signs; ``linear``, ``(k, 4)``, is <E, P>;
    ``curvature``, ``(k, 4, 4)``, has the forms <E, F>_Q.
    """
    k = len(hyperbolic)
    solution = Solution(np.empty((k, 2, 2)), np.empty(k), np.empty(k, dtype=np.int64))
    _minimise(hyperbolic, np.ascontiguousarray(linear), np.ascontiguousarray(curvature), *solution)
    return solution


@fast
def _products(a: Array, b: Array, i: int, j: int) -> tuple[float, float, float, float]:
    """The products a_i . b_i, a_i . b_j, a_j . b_i, a_j . b_j."""
    ai = a[i]
    aj = a[j]
    bi = b[i]
    bj = b[j]
    ii = ij = ji = jj = 0.0
    for k in range(a.shape[1]):
        ii += ai[k] * bi[k]
        ij += ai[k] * bj[k]
        ji += aj[k] * bi[k]
        jj += aj[k] * bj[k]
    return ii, ij, ji, jj


@fast
def _combine(row: Array, other: Array, v00: float, v01: float, v10: float, v11: float) -> None:
    for k in range(len(row)):
        p = row[k]
        q = other[k]
        row[k] = v00 * p + v01 * q
        other[k] = v10 * p + v11 * q


@fast
def _blocks(a: Array, b: Array, first: Index, second: Index, out: Array) -> None:
    for k in range(len(first)):
        out[k, 0, 0], out[k, 0, 1], out[k, 1, 0], out[k, 1, 1] = _products(
            a, b, first[k], second[k]
        )


def blocks(a: Array, b: Array, first: Index, second: Index) -> Array:
    """The blocks [a b^T]_BB of the pairs B, ``(k, 2, 2)``."""
    out = np.empty((len(first), 2, 2))
    _blocks(a, b, first, second, out)
    return out


@fast
def turn_rows(x: Array, v: Array, first: Index, second: Index) -> None:
    """Set ``x[B] <- V x[B]``, in place."""
    for k in range(len(first)):
        _combine(x[first[k]], x[second[k]], v[k, 0, 0], v[k, 0, 1], v[k, 1, 0], v[k, 1, 1])


@fast
def _turn_entries(row: Array, v: Array, first: Index, second: Index) -> None:
    for k in range(len(first)):
        i = first[k]
        j = second[k]
        p = row[i]
        q = row[j]
        row[i] = v[k, 0, 0] * p + v[k, 0, 1] * q
        row[j] = v[k, 1, 0] * p + v[k, 1, 1] * q


@fast
def congruence(m: Array, v: Array, first: Index, second: Index) -> None:
    """Set ``m[B] <- V m[B]`` and then ``m[:, B] <- m[:, B] V^T``, in place: one pair of rows at a
    time, which stays in cache."""
    alone = np.ones(len(m), dtype=np.bool_)
    for k in range(len(first)):
        i = first[k]
        j = second[k]
        alone[i] = alone[j] = False
        mi = m[i]
        mj = m[j]
        _combine(mi, mj, v[k, 0, 0], v[k, 0, 1], v[k, 1, 0], v[k, 1, 1])
        for other in range(len(first)):
            a = first[other]
            b = second[other]
            v00 = v[other, 0, 0]
            v01 = v[other, 0, 1]
            v10 = v[other, 1, 0]
            v11 = v[other, 1, 1]
            p = mi[a]
            q = mi[b]
            mi[a], mi[b] = v00 * p + v01 * q, v10 * p + v11 * q
            p = mj[a]
            q = mj[b]
            mj[a], mj[b] = v00 * p + v01 * q, v10 * p + v11 * q
    for i in range(len(m)):
        if alone[i]:
            _turn_entries(m[i], v, first, second)


@exact
def _isotropic(m1: float, m2: float, m3: float, sweep: Sweep) -> tuple[Four, Four, float]:
    """The values of `_own_form` for Q = (varsigma + theta) I."""
    largest = 0.5 * (m1 + m3) + hypot(0.5 * (m1 - m3), m2)
    kappa = 2.0 * (sweep.constant + sweep.scaled * largest + sweep.theta)
    return (kappa, kappa, kappa, kappa), (0.0, 0.0, 0.0, 0.0), 0.0


@exact
def _own_form(h: Three, m1: float, m2: float, m3: float, theta: float) -> tuple[Four, Four, float]:
    """The ``squares`` and ``mixed`` of `_pair`, and <I, Z>_Q, for Q = M_BB kron H_BB + theta I."""
    h1, h2, h3 = h
    same = h1 * m1 + h3 * m3
    cross = 2.0 * h2 * m2
    swap = h3 * m1 + h1 * m3
    t = 2.0 * theta
    squares = (same + cross + t, swap + cross + t, same - cross + t, swap - cross + t)
    n_ix = h2 * (m1 + m3) + m2 * (h1 + h3)
    n_ir = h2 * (m1 - m3) + m2 * (h3 - h1)
    n_zr = h2 * (m1 + m3) - m2 * (h1 + h3)
    n_zx = h2 * (m1 - m3) + m2 * (h1 - h3)
    return squares, (n_ix, n_zr, n_ir, n_zx), h1 * m1 - h3 * m3


@exact
def _best(hyperbolic: bool, t: Four, squares: Four, mixed: Four, n_iz: float) -> Turn:
    """The result of `_pair` for the block ``t`` of the gradient times x^T."""
    t00, t01, t10, t11 = t
    linear = (t00 + t11 - squares[0], t01 + t10 - mixed[0], t00 - t11 - n_iz, t10 - t01 - mixed[2])
    return _pair(hyperbolic, linear, squares, mixed)


@exact
def _turn_pair(
    x: Array, m: Array, i: int, j: int, v00: float, v01: float, v10: float, v11: float
) -> None:
    """Set ``x[B] <- V x[B]`` and ``m <- V m V^T`` for the rows and columns B = (i, j) of a
    symmetric m."""
    _combine(x[i], x[j], v00, v01, v10, v11)
    mi = m[i]
    mj = m[j]
    _combine(mi, mj, v00, v01, v10, v11)
    p = mi[i]
    q = mi[j]
    mi[i], mi[j] = v00 * p + v01 * q, v10 * p + v11 * q
    p = mj[i]
    q = mj[j]
    mj[i], mj[j] = v00 * p + v01 * q, v10 * p + v11 * q
    for row in range(len(m)):
        m[row, i] = mi[row]
        m[row, j] = mj[row]


@exact
def gauss_seidel(
    x: Array, product: Array, form: Array, signs: Array, first: Index, second: Index, sweep: Sweep
) -> tuple[int, int]:
    """Minimise tr(x^T form x)/2 over the pairs one after the other, in place; ``product`` holds x
    x^T and is kept up to date.

    The result is the number of pairs done, and 0; or the index of the pair whose subproblem is
    unbounded, and its ray.
    """
    for k in range(len(first)):
        i = first[k]
        j = second[k]
        m1 = product[i, i]
        m2 = product[i, j]
        m3 = product[j, j]
        if m1 + m3 > sweep.limit:
            return k, 0
        t = _products(form, product, i, j)
        hyperbolic = signs[i] != signs[j]
        if sweep.exact:
            h = (form[i, i], form[i, j], form[j, j])
            squares, mixed, n_iz = _own_form(h, m1, m2, m3, sweep.theta)
        else:
            squares, mixed, n_iz = _isotropic(m1, m2, m3, sweep)
        v00, v01, v10, v11, _, ray = _best(hyperbolic, t, squares, mixed, n_iz)
        if ray != 0:
            at = 0 if abs(ray) == 1 else 2
            w = 0.5 * (squares[at] + squares[at + 1])
            d = abs(mixed[at // 2])
            if w - d < -CERTAIN * (abs(w) + d):
                return k, ray
            squares, mixed, n_iz = _isotropic(m1, m2, m3, sweep)
            v00, v01, v10, v11, _, ray = _best(True, t, squares, mixed, n_iz)
        _turn_pair(x, product, i, j, v00, v01, v10, v11)
    return len(first), 0


@exact
def jacobi_sweep(xt: Array, gram: Array, signs: Array) -> tuple[float, int, int]:
    """Make one sweep of the hyperbolic Jacobi method over all pairs of columns of x, in rounds of
    disjoint pairs, in place.

    ``xt`` is x^T, in which the columns of x are contiguous; ``gram``, x^T C x for some C, tends to
    a diagonal matrix. The result is the decrease of the trace of ``gram``, and 0, 0; or, if the
    sweep ended early, the columns i < j, i + j > 0, of a pair along which it is unbounded below.
    """
    g = gram
    n = len(gram)
    even = n + n % 2
    first = np.empty(n // 2, dtype=np.int64)
    second = np.empty(n // 2, dtype=np.int64)
    v = np.empty((n // 2, 2, 2))
    fallen = 0.0
    for turn in range(even - 1):
        pairs = 0
        for p in range(even // 2):
            i = (turn + p) % (even - 1)
            j = (turn - p) % (even - 1)
            if p == 0:
                j = even - 1
            if max(i, j) < n:
                first[pairs], second[pairs] = min(i, j), max(i, j)
                pairs += 1
        for k in range(pairs):
            i = first[k]
            j = second[k]
            gii = g[i, i]
            gij = g[i, j]
            gjj = g[j, j]
            if signs[i] == signs[j]:
                lean = gjj - gii
                t = 0.0
                if gij != 0.0:
                    t = copysign(2.0 * gij / (abs(lean) + hypot(lean, 2.0 * gij)), gij * lean)
                c = 1.0 / hypot(1.0, t)
                v[k, 0, 0], v[k, 0, 1], v[k, 1, 0], v[k, 1, 1] = c, -t * c, t * c, c
            else:
                total = gii + gjj
                if total - 2.0 * abs(gij) < -CERTAIN * (abs(total) + 2.0 * abs(gij)):
                    return fallen, i, j
                root = sqrt(max((total - 2.0 * gij) * (total + 2.0 * gij), (STEEPEST * total) ** 2))
                s = -2.0 * gij / sqrt(2.0 * root * (total + root)) if gij != 0.0 else 0.0
                c = hypot(1.0, s)
                v[k, 0, 0], v[k, 0, 1], v[k, 1, 0], v[k, 1, 1] = c, s, s, c
                fallen += 4.0 * gij * gij / (total + root) if gij != 0.0 else 0.0
        congruence(g, v, first[:pairs], second[:pairs])
        turn_rows(xt, v, first[:pairs], second[:pairs])
    return fallen, 0, 0
