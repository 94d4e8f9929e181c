"""The measure of block stationarity of paper 001 (Definition 4.4), which its Theorems 4.6 and 4.7
bound.

    E(x) = mean over pairs B of rows of ||V_B - I||_F^2,   V_B the minimiser of (6) of `jobcd`

It is zero if and only if no pair of rows can be improved. For n/2 disjoint pairs at once
(VR-J-JOBCD) the paper has the mean over all groupings of the sum over their pairs; each pair is in
the same share of groupings, so that is n/2 times E(x).
"""

from __future__ import annotations

import numpy as np

from decentorth.protocols import Array

from ..kernels import pair_kernels
from ..kernels.subproblem import isotropic, largest_eigenvalue, linear_term


def block_stationarity(
    x: Array,
    gradient: Array,
    signs: Array,
    varsigma: float,
    theta: float = 1e-6,
    *,
    scaled: bool = True,
) -> float:
    """Return E(x) for Q = varsigma I, at one point.

    Parameters
    ----------
    x, gradient
        ``(n, n)``: the point and the gradient there.
    signs
        ``(n,)``: the diagonal of J.
    varsigma
        The number varsigma; times lambda_max((x x^T)_BB) if ``scaled``, as ``varsigma="pair"`` of
        the methods with L_f.
    theta
        Added to the diagonal of Q.
    """
    first, second = np.triu_indices(len(x), 1)
    rows = np.stack((first, second), axis=-1)
    linear = (gradient @ x.T)[rows[:, :, None], rows[:, None, :]]
    m = x @ x.T
    level = np.full(len(rows), varsigma)
    if scaled:
        level *= largest_eigenvalue(m[first, first], m[first, second], m[second, second])
    curvature = isotropic(level + theta)
    hyperbolic = signs[first] != signs[second]
    linear = linear_term(linear, curvature)
    v = pair_kernels().minimise(hyperbolic, linear, curvature).v
    return float(np.square(v - np.eye(2)).reshape(len(v), 4).sum(-1).mean(-1))
