"""The kernels in NumPy: the reference for the compiled ones, and their replacement without numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..protocols import Array, Index
from .subproblem import CERTAIN, STEEPEST, Sweep, exact_form, isotropic, largest_eigenvalue, linear_term, minimise

__all__ = ["blocks", "congruence", "gauss_seidel", "jacobi_sweep", "minimise", "signed_scores", "turn_rows"]

TINY = 1e-20
"""Added to 0 / 0, which is then 1."""


def blocks(a: Array, b: Array, first: Index, second: Index) -> Array:
    """See `Kernels`."""
    pair, other = (a[first], a[second]), (b[first], b[second])
    return np.stack([np.stack([(p * q).sum(-1) for q in other], -1) for p in pair], -2)


def turn_rows(x: Array, v: Array, first: Index, second: Index) -> None:
    """See `Kernels`."""
    p, q = x[first], x[second]
    x[first] = v[:, 0, :1] * p + v[:, 0, 1:] * q
    x[second] = v[:, 1, :1] * p + v[:, 1, 1:] * q


def congruence(m: Array, v: Array, first: Index, second: Index) -> None:
    """See `Kernels`."""
    turn_rows(m, v, first, second)
    p, q = m[:, first], m[:, second]
    m[:, first] = v[:, 0, 0] * p + v[:, 0, 1] * q
    m[:, second] = v[:, 1, 0] * p + v[:, 1, 1] * q


def gauss_seidel(x: Array, product: Array, form: Array, signs: Array, first: Index, second: Index, sweep: Sweep) -> tuple[int, int]:
    """See `Kernels`."""
    theta, exact, constant, scaled, limit = sweep
    for k, (i, j) in enumerate(zip(first, second, strict=True)):
        one, other = first[k : k + 1], second[k : k + 1]
        m = product[np.ix_((i, j), (i, j))][None]
        if m[0, 0, 0] + m[0, 1, 1] > limit:
            return k, 0
        t, hyperbolic = blocks(form, product, one, other), signs[one] != signs[other]
        curvature = isotropic(constant + scaled * largest_eigenvalue(m[:, 0, 0], m[:, 0, 1], m[:, 1, 1]) + theta)
        if exact:
            own = exact_form(form[np.ix_((i, j), (i, j))][None], m, theta)
            ray = int(minimise(hyperbolic, linear_term(t, own), own).ray[0])
            a, b = (0, 1) if abs(ray) == 1 else (2, 3)
            w, d = 0.5 * (own[0, a, a] + own[0, b, b]), abs(own[0, a, b])
            if ray != 0 and w - d < -CERTAIN * (abs(w) + d):
                return k, ray
            curvature = own if ray == 0 else curvature
        found = minimise(hyperbolic, linear_term(t, curvature), curvature)
        turn_rows(x, found.v, one, other)
        congruence(product, found.v, one, other)
    return len(first), 0


def round_robin(n: int, turn: int) -> tuple[Index, Index]:
    """The disjoint pairs i < j of round ``turn`` of ``n - 1`` (``n`` for odd n) of a round robin; odd n leave one index out."""
    even = n + n % 2
    p = np.arange(even // 2)
    i, j = (turn + p) % (even - 1), (turn - p) % (even - 1)
    j[0] = even - 1
    there = np.maximum(i, j) < n
    return np.minimum(i, j)[there], np.maximum(i, j)[there]


def jacobi_sweep(xt: Array, gram: Array, signs: Array) -> tuple[float, int, int]:
    """See `Kernels`."""
    n, fallen = len(gram), 0.0
    for turn in range(n + n % 2 - 1):
        i, j = round_robin(n, turn)
        a, b, d = gram[i, i], gram[i, j], gram[j, j]
        alike, total, lean = signs[i] == signs[j], a + d, d - a
        endless = np.flatnonzero(~alike & (total - 2.0 * np.abs(b) < -CERTAIN * (np.abs(total) + 2.0 * np.abs(b))))
        if len(endless):
            return fallen, int(i[endless[0]]), int(j[endless[0]])
        with np.errstate(invalid="ignore", divide="ignore"):  # each formula is used only for its kind of pair
            t = np.where(b != 0.0, np.copysign(2.0 * b / (np.abs(lean) + np.hypot(lean, 2.0 * b)), b * lean), 0.0)
            root = np.sqrt(np.maximum((total - 2.0 * b) * (total + 2.0 * b), (STEEPEST * total) ** 2))
            s = np.where(b != 0.0, np.where(alike, t / np.hypot(1.0, t), -2.0 * b / np.sqrt(2.0 * root * (total + root))), 0.0)
            falls = np.where(~alike & (b != 0.0), 4.0 * b * b / (total + root), 0.0)
        c = np.where(alike, 1.0 / np.hypot(1.0, t), np.hypot(1.0, s))
        v = np.stack([np.stack([c, np.where(alike, -s, s)], -1), np.stack([s, c], -1)], -2)
        congruence(gram, v, i, j)
        turn_rows(xt, v, i, j)
        fallen += float(falls.sum())
    return fallen, 0, 0


def signed_scores(products: Any, scale: float, slopes: Any) -> None:
    """See `Kernels`; z = arccos(min(v, 1))^2 - arccosh(max(v, 1))^2 - pi min(u, 0) for v = max(u, 0). In any precision."""
    u = products / -scale
    v = np.maximum(u, 0.0)
    off = v - 1.0
    above = np.maximum(off, 0.0)
    far, near = np.log1p(above + np.sqrt(above * (above + 2.0))), np.arccos(np.minimum(v, 1.0))
    products[:] = scale * (near * near - far * far - np.pi * np.minimum(u, 0.0))
    slopes[:] = 2.0 * (far + near + TINY) / (np.sqrt(np.abs(off * (off + 2.0))) + TINY)
