"""Mixing and landing fields, compiled by numba: an iteration of DRFGT in one pass over the arrays
of each agent.

`accumulate` and `product` add in the order of SciPy's ``csr_matvecs``, one multiplication and one
addition at a time, so they give its bits. `landing_change` agrees with NumPy's form to rounding. An
agent's numbers do not depend on the other agents. `compiled` has the kernels for pairs of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...protocols import Array, Index
from .decorators import exact

NOTHING, NONE = np.empty((0, 0, 0)), np.empty(0)
"""In the place of arrays that are not used."""


@exact
def accumulate(
    rows: int,
    columns: int,
    width: int,
    indptr: Index,
    indices: Index,
    data: Array,
    x: Array,
    out: Array,
) -> None:
    """SciPy's ``csr_matvecs``: ``out += matrix @ x``, with ``width`` numbers per row; the same bits
    for finite numbers.

    Three columns are added in a pass, so that ``out`` is read and written once for them.
    """
    for i in range(rows):
        row = out[i * width : (i + 1) * width]
        entry = indptr[i]
        end = indptr[i + 1]
        while end - entry > 2:
            at = indices[entry] * width
            to = indices[entry + 1] * width
            last = indices[entry + 2] * width
            first = x[at : at + width]
            second = x[to : to + width]
            third = x[last : last + width]
            a = data[entry]
            b = data[entry + 1]
            c = data[entry + 2]
            for k in range(width):
                row[k] = ((row[k] + a * first[k]) + b * second[k]) + c * third[k]
            entry += 3
        for rest in range(entry, end):
            a = data[rest]
            first = x[indices[rest] * width : (indices[rest] + 1) * width]
            for k in range(width):
                row[k] += a * first[k]


@exact
def product(
    rows: int,
    columns: int,
    width: int,
    indptr: Index,
    indices: Index,
    data: Array,
    x: Array,
    out: Array,
) -> None:
    """The same with ``out = matrix @ x``."""
    out[:] = 0.0
    accumulate(rows, columns, width, indptr, indices, data, x, out)


@exact
def _landing_change(
    a: Array,
    b: Array,
    twice: Array,
    gradient: Array,
    x: Array,
    y: Array,
    old: Array,
    penalty: Array,
    alpha: Array,
    tracker: Array,
) -> None:
    n, d, r = x.shape
    m = a.shape[1]
    residual = np.empty((m, r))
    g = np.empty((d, r))
    s = np.empty((r, r))
    t = np.empty((r, r))
    field = np.empty((d, r))
    inward = np.empty((d, r))
    for i in range(n):
        point = x[i]
        if len(alpha) > 0:
            entries = point.reshape(-1)
            along = tracker[i].reshape(-1)
            step = alpha[i]
            for k in range(d * r):
                entries[k] -= step * along[k]
        if m > 0:
            weight = twice[i, 0, 0]
            targets = b[i].reshape(-1)
            misfit = residual.reshape(-1)
            np.dot(a[i], point, residual)
            for k in range(m * r):
                misfit[k] = weight * (misfit[k] - targets[k])
            np.dot(a[i].T, residual, g)
        else:
            g[:] = gradient[i]
        np.dot(point.T, point, s)  # S = x^T x
        np.dot(g.T, point, t)  # T = g^T x
        squares = s.reshape(-1)
        others = t.reshape(-1)
        for k in range(r * r):
            others[k] = penalty[i] * squares[k] - 0.5 * others[k]
            squares[k] *= 0.5
        for k in range(r):
            t[k, k] -= penalty[i]
        np.dot(g, s, field)
        np.dot(point, t, inward)  # the field is g S/2 + x (penalty (S - I) - T/2)
        now = y[i].reshape(-1)
        before = old[i].reshape(-1)
        change = field.reshape(-1)
        rest = inward.reshape(-1)
        for k in range(d * r):
            new = change[k] + rest[k]
            now[k] = (now[k] + new) - before[k]
            before[k] = new


def landing_change(
    problem: Any,
    x: Array,
    y: Array,
    old: Array,
    penalty: Array,
    alpha: Array = NONE,
    tracker: Array = NOTHING,
) -> Array:
    """Move x by -alpha times ``tracker``, if these are given, and add the change of the landing
    field of St(d, r) to y, in place.

    Parameters
    ----------
    problem
        An `protocols.Oracle`; one with `protocols.RowForm` has its gradients computed in the same
        pass.
    x, y, tracker
        ``(n, d, r)``, float64, C-contiguous.
    old
        The field at the last points, like x; it is overwritten with the new one.
    penalty, alpha
        ``(n,)``.

    Returns
    -------
    Array
        The new field, in ``old``.
    """
    if hasattr(problem, "row_form") and (form := problem.row_form()) is not None:
        a, b, twice = form
        _landing_change(a, b, twice, NOTHING, x, y, old, penalty, alpha, tracker)
        return old
    if len(alpha):
        x -= alpha[:, None, None] * tracker
    gradient = problem.gradient(x)
    _landing_change(NOTHING, NOTHING, NOTHING, gradient, x, y, old, penalty, NONE, NOTHING)
    return old


def prepare() -> None:
    """Compile everything, by a call on one agent."""
    one = np.zeros((1, 1, 1))
    number = np.zeros(1)
    column = np.zeros(1, dtype=np.int64)
    x, y, old = np.zeros((3, 1, 1, 1))
    accumulate(1, 1, 1, np.array([0, 1]), column, number, number.copy(), number.copy())
    product(1, 1, 1, np.array([0, 1]), column, number, number.copy(), number.copy())
    _landing_change(one, one, one, NOTHING, x, y, old, number, number, one)
