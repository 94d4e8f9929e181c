"""The methods of the field since 2024, formula by formula: loops over agents, dense matrices, nothing of the package.

As in `rivals`: ``gradients(i, k, x)``, the dense matrix W, a common start ``x0``, a `Trajectory`. The source of a method, and what
of it was derived, stands in the docstring of its module in the package.
"""

from __future__ import annotations

import numpy as np

from tests.reference.naive import Array, polar, tangent_projection
from tests.reference.rivals import Gradients, Steps, Trajectory, combine, starts, step_at


def rmtracking(
    gradients: Gradients, W: Array, x0: Array, step_size: Steps, iterations: int, momentum: float, first: bool = False
) -> Trajectory:
    """``m_i+ = momentum m_i + s_i``, ``s_i`` the tracker of the Riemannian gradients, ``x_i+ = polar(sum W x - a P(m_i))``.

    With ``first`` the order is the other: agents have momenta of their own gradients, and track these.
    """
    n, x = len(W), starts(x0, W)
    g = [tangent_projection(x[i], gradients(i, 0, x[i])) for i in range(n)]
    s, m = list(g), list(g)
    points, trackers = [x], [s]
    for k in range(iterations):
        a = step_at(step_size, k)
        along = s if first else m
        mixed = combine(W, x)
        x = [polar(mixed[i] - a * tangent_projection(x[i], along[i])) for i in range(n)]
        new = [tangent_projection(x[i], gradients(i, k + 1, x[i])) for i in range(n)]
        if first:
            own = [momentum * m[i] + new[i] for i in range(n)]
            s = [c + own[i] - m[i] for i, c in enumerate(combine(W, s))]
            m = own
        else:
            s = [c + new[i] - g[i] for i, c in enumerate(combine(W, s))]
            m = [momentum * m[i] + s[i] for i in range(n)]
        g = new
        points.append(x)
        trackers.append(s)
    return Trajectory(np.array(points), np.array(trackers))
