"""Quasi-Newton minimisation of functions with kinks, such as the largest modulus of an eigenvalue.

BFGS with the weak Wolfe line search by bisection of Lewis and Overton, "Nonsmooth optimization via
quasi-Newton methods" (2013).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Objective: TypeAlias = Callable[[Vector], tuple[float, Vector]]

_ARMIJO, _WOLFE = 1e-4, 0.9
_TRIALS = 40


def minimise_nonsmooth(function: Objective, start: Vector, iterations: int) -> tuple[Vector, float]:
    """A local minimiser of ``function``, which returns its value and gradient (defined almost
    everywhere), and the value there.

    It stops when the gradient vanishes, when no step decreases the value, or after ``iterations``.
    """
    at = start
    value, gradient = function(at)
    inverse = np.eye(len(at))
    for iteration in range(iterations):
        direction = -(inverse @ gradient)
        slope = float(gradient @ direction)
        if not slope < 0:
            break
        found = _line_search(function, at, value, slope, direction)
        if found is None:
            break
        step, value, new_gradient = found
        moved = step * direction
        change = new_gradient - gradient
        curvature = float(moved @ change)
        if curvature > 0:
            if iteration == 0:
                inverse *= curvature / float(change @ change)
            project = np.eye(len(at)) - np.outer(moved, change) / curvature
            inverse = project @ inverse @ project.T + np.outer(moved, moved) / curvature
        at = at + moved
        gradient = new_gradient
    return at, value


def _line_search(
    function: Objective, at: Vector, value: float, slope: float, direction: Vector
) -> tuple[float, float, Vector] | None:
    """A step with the value and the gradient after it; it meets Armijo's condition and, if found in
    time, the weak Wolfe one."""
    lower = 0.0
    upper = np.inf
    step = 1.0
    best: tuple[float, float, Vector] | None = None
    for _ in range(_TRIALS):
        new_value, new_gradient = function(at + step * direction)
        if not new_value < value + _ARMIJO * step * slope:
            upper = step
        else:
            best = step, new_value, new_gradient
            if float(new_gradient @ direction) >= _WOLFE * slope:
                return best
            lower = step
        step = 2 * lower if np.isinf(upper) else (lower + upper) / 2
    return best
