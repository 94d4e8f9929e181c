"""Proximal points along tangents of {x : x^T x = I}, for objectives with a convex term h that has a
proximal map.

At a feasible x, for a point y and a step t, the tangent proximal point is

    w = argmin_w ||w - y||^2 / 2 + t h(w)   where w - x is tangent at x: sym(x^T w) = I

Its multiplier is the symmetric S of order r with w = prox_{t h}(y + x S) that minimises the convex
function <z, w> - ||w||^2/2 - t h(w) - tr S, z = y + x S, whose gradient is e(S) = sym(x^T w) - I.
Semismooth Newton steps solve e(S) = 0, as in ManPG (Chen, Ma, So, Zhang, "Proximal gradient method
for nonsmooth optimization over the Stiefel manifold", SIAM J. Optim. 2020), regularized more until
||e|| or that function falls (Levenberg, Marquardt): where few entries are left, e' is nearly
singular. From the multiplier of the iteration before, a step or two are enough.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..protocols import Array, Regularizer, Two

_MOST = 50
"""The largest number of Newton steps; two in the median."""
_ROUNDING = 1e-14
"""The share of sqrt(r) below which ||e|| is at the level of rounding."""
_LEAST = 1e-10
"""The least regularization: e' is 0 on skew matrices, and where all entries are zero."""
_FACTOR = 4.0
"""The factor of the regularization from one try to the next, up to 1, the norm of e'; beyond it
rounding errors decide."""


class _Dual(NamedTuple):
    """The dual function of the problem at S: z = y + x S, w = prox(z), its gradient e, and its
    value, which is convex."""

    z: Array
    w: Array
    e: Array
    dual: float


def tangent_proximal(h: Regularizer, x: Array, y: Array, step: Array, multiplier: Array) -> Two:
    """The tangent proximal points w, like ``x``, and their multipliers, ``(n_local, r, r)``, both
    fresh.

    Parameters
    ----------
    step
        t > 0, ``(n_local,)``.
    multiplier
        Where Newton's steps start; they are the same for an agent whoever else is in the process.
    """
    points = np.empty_like(x)
    multipliers = np.empty_like(multiplier)
    for agent, own in enumerate(zip(x, y, step.tolist(), multiplier, strict=True)):
        points[agent], multipliers[agent] = _of_one(h, *own)
    return points, multipliers


def stationarity(h: Regularizer, x: Array, gradient: Array) -> float:
    """The generalized gradient ||w - x|| / t of a point ``(d, r)``, w the tangent proximal point
    of x - t ``gradient``.

    It is zero exactly at stationary points of the composite objective. t is 1 over the spectral
    norm of the gradient, so that it has the gradient's unit.
    """
    size = float(np.linalg.norm(gradient, 2)) or 1.0
    w, _ = _of_one(h, x, x - gradient / size, 1.0 / size, np.zeros((x.shape[1], x.shape[1])))
    return size * float(np.linalg.norm(w - x))


def _of_one(h: Regularizer, x: Array, y: Array, step: float, s: Array) -> Two:
    r = x.shape[1]
    here = _excess(h, x, y, step, s)
    raised = 0.0
    for _ in range(_MOST):
        size = float(np.linalg.norm(here.e))
        if not size > _ROUNDING * math.sqrt(r):
            break
        slope = _slope(x, h.slopes(here.z, step))
        floor = 1e-15 * abs(here.dual)
        least = min(max(1e-3 * size, _LEAST), 1e-3)
        regularization = max(least, raised / _FACTOR)
        while regularization <= 1.0:
            move = _newton(slope, regularization, here.e)
            new = _excess(h, x, y, step, s + move)
            falls = float((here.e * move).sum())
            lower = new.dual <= here.dual + 1e-4 * falls and -falls > floor
            if lower or float(np.linalg.norm(new.e)) < (1.0 - 1e-4) * size:
                break
            regularization *= _FACTOR
        else:
            break
        raised = regularization if regularization > least else 0.0
        s = s + move
        here = new
    return here.w, s


def _excess(h: Regularizer, x: Array, y: Array, step: float, s: Array) -> _Dual:
    z = y + x @ s
    w = h.proximal(z, step)
    product: Array = x.T @ w
    dual = float((z * w).sum() - 0.5 * (w * w).sum() - step * h.value(w[None])[0] - np.trace(s))
    return _Dual(z, w, 0.5 * (product + product.T) - np.eye(x.shape[1]), dual)


def _slope(x: Array, slopes: Array) -> Array:
    """The derivative of e as a matrix of order r^2: e'(S) = sym(x^T V), row i of V being J_i S x_i,
    ``slopes`` J."""
    d, r = x.shape
    rows = slopes[:, :, :, None] * x[:, None, None, :]  # J_i[b, c] x_ie
    k: Array = (x.T @ rows.reshape(d, -1)).reshape(r, r, r, r)
    k = k + k.transpose(1, 0, 2, 3)
    return 0.25 * (k + k.transpose(0, 1, 3, 2)).reshape(r * r, r * r)


def _newton(slope: Array, regularization: float, e: Array) -> Array:
    """The symmetric S with e'(S) + ``regularization`` S = -e."""
    r = len(e)
    found = np.linalg.solve(slope + regularization * np.eye(r * r), -e.reshape(-1)).reshape(r, r)
    return 0.5 * (found + found.T)
