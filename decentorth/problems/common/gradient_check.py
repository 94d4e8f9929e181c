"""The Taylor test of gradients: the error of f(x + t v) ~ f(x) + t <g, v> falls with slope 2 in t
if g is the gradient at x."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...numerics.ordered_sums import norms, sums
from ...protocols import Array, Collective

RIGHT = 1.5
"""The slope above which a gradient is right: 2 for smooth functions, at least 1.58 where a kink is
crossed, 1 for a wrong one."""
_STEPS = 2.0 ** -np.arange(1.0, 41.0)
_CLEAR = 50.0
"""How many times larger than rounding an error must be for its slope to mean something."""
_STEEP = 100.0
"""More than any slope but infinity, for which twice this number stands in sums, which may be
masked."""


Function = Callable[[Array], Array]
"""A function of the agents' points."""


@dataclass(frozen=True)
class GradientCheck:
    """The result of a Taylor test of the agents' gradients.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> check = problem.check_gradient()
    >>> round(float(check.slope))
    2
    """

    slope: float
    """The slope of the worst agent: 2 where the gradient is right, 1 where it is wrong, infinite
    where the expansion is exact, and NaN where the value or the gradient is not finite."""
    agent: int
    """The number of the worst agent."""
    slopes: Array = field(repr=False)
    """The slopes of the agents in this process, ``(n_local,)``."""

    @property
    def right(self) -> bool:
        """True if all agents' gradients fit their values."""
        return bool(self.slope > RIGHT)

    def __repr__(self) -> str:
        slope = f"Taylor slope {self.slope:.2f}"
        if self.right:
            return f"GradientCheck: right, {slope} (2 is expected; the worst is agent {self.agent})"
        if np.isnan(self.slope):
            return f"GradientCheck: the value or the gradient of agent {self.agent} is not finite"
        return (
            f"GradientCheck: WRONG, the gradient of agent {self.agent} does not fit its value: "
            f"{slope}, 2 is expected"
        )


def worst(slopes: Array, first_agent: int, own: Array) -> GradientCheck:
    """The check of slopes ``(n,)`` of which the first is that of ``first_agent``; ``own`` are those
    of this process."""
    at = int(np.argmin(np.where(np.isnan(slopes), -np.inf, slopes)))
    return GradientCheck(float(slopes[at]), first_agent + at, own)


def check_attached(problem: Any, start: Array) -> None:
    """Raise ValueError if an agent's gradient is zero although its objective changes with x.

    The gradients are taken at the start and near it.
    """
    near = start + 0.1 * random_direction(start, 1)
    for point in (start, near):
        gradient = problem.gradient(np.repeat(point[None], problem.n_local, axis=0))
        zero = np.abs(gradient).reshape(problem.n_local, -1).max(-1) == 0.0
        if not len(np.flatnonzero(zero)):
            return
    slopes = problem.check_gradient(near).slopes
    wrong = np.flatnonzero(zero & ~(slopes > RIGHT))
    if len(wrong):
        raise ValueError(
            f"the gradient of agent {problem.agents.start + wrong[0]} is zero, although its "
            "objective changes with x: does the function cut its value off from x, by "
            "x.detach() or NumPy?"
        )


def checked(problem: Any, seed: int, collective: Collective) -> GradientCheck:
    """Return the check of all agents' gradients near the start given by the seed.

    Every rank calls it and gets the same result.

    Raises
    ------
    ValueError
        A gradient does not fit its value, or is not finite; names the worst agent.
    """
    with collective.together():
        slopes = problem.check_gradient(seed=seed).slopes

    every = np.zeros((len(slopes), problem.n_agents))
    every[:, problem.agents] = np.diag(np.minimum(slopes, 2.0 * _STEEP))
    pooled = collective.each(problem.n_agents, every)
    found = worst(np.where(pooled > _STEEP, np.inf, pooled), 0, slopes)
    if not found.right:
        raise ValueError(f"{found!r}: correct the functions that give the value and the gradient")
    return found


def taylor_slopes(value: Function, gradient: Function, x: Array, direction: Array) -> Array:
    """Return the slope of each agent's Taylor error, ``(n_local,)``.

    It is measured at the two smallest steps whose error is well above rounding. The functions
    take points ``(n_local, *shape)``, such as ``x``; the direction v has a ``shape``.
    """
    with np.errstate(all="ignore"):
        f = value(x)
        along = sums(gradient(x) * direction)
        scatter = [np.abs(value(x + k * 2.0**-49 * direction) - f) for k in (-2.0, -1.0, 1.0, 2.0)]
        rounding = np.max(scatter, axis=0) + 4.0 * np.finfo(np.float64).eps * np.abs(f)
        errors = np.array([np.abs(value(x + t * direction) - f - t * along) for t in _STEPS])
        slopes = np.full(len(x), np.inf)
        for i in range(len(x)):
            own = errors[:, i]
            clear = np.flatnonzero(np.isfinite(own) & (own > _CLEAR * rounding[i]))
            if not np.isfinite(f[i] + along[i]):
                slopes[i] = np.nan
            elif len(clear) > 1:
                large, small = clear[-2:]
                steps = np.log(_STEPS[large] / _STEPS[small])
                slopes[i] = np.log(own[large] / own[small]) / steps
    return slopes


def random_direction(x: Array, seed: int) -> Array:
    """Return a random direction with the shape and the norm of the point ``x``.

    Its norm is 1 if x is zero.
    """
    v = np.random.default_rng(seed).standard_normal(x.shape)
    return v * ((norms(x[None])[0] or 1.0) / norms(v[None])[0])
