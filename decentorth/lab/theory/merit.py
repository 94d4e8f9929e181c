"""The merit function of paper 004 (8): L(x) = f(x) + h(x) + gamma p(x), with f the mean of the
agents' objectives, G its gradient,

    h(x) = -1/2 <sym(x^T G(x)), x^T x - I>,    p(x) = 1/4 ||x^T x - I||_F^2.

Its gradient is G - 1/2 (G N + H[x N]) - x sym(x^T G) + gamma x N with N = x^T x - I and H the
Hessian of f; on St(d, r) that is G - x sym(x^T G), the Riemannian gradient of the Euclidean metric
(the paper states grad f of the canonical metric, which is half of it in the directions normal to
the columns of x).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...numerics.ordered_sums import norms, sums
from ...protocols import Array, Collective, Problem, Quadratic

_DIFFERENCE = 1e-5


def merit(x: Array, value: float, gradient: Array, gamma: float) -> float:
    """The merit function L(x) (8) at one point, ``(d, r)``, from f(x), the gradient of f there,
    ``(d, r)``, and the weight of p."""
    gap = x.T @ x - np.eye(x.shape[1])
    product = x.T @ gradient
    symmetric = 0.5 * (product + product.T)
    return float(value - 0.5 * (symmetric * gap).sum() + 0.25 * gamma * (gap * gap).sum())


def merit_at(problem: Problem[object], x: Array, gamma: float) -> float:
    """The merit function of the mean objective at ``x``, ``(d, r)``, with all agents in this
    process."""
    points = np.repeat(x[None], problem.n_local, axis=0)
    return merit(x, float(problem.value(points).mean()), problem.gradient(points).mean(0), gamma)


def merit_gradient(problem: Problem[object], x: Array, gamma: float) -> Array:
    """``(d, r)``: the gradient at ``x`` of the mean objective's merit function, with all agents in
    this process.

    The Hessian of f is exact for `Quadratic` problems, otherwise it comes from central differences
    of gradients.
    """
    points = np.repeat(x[None], problem.n_local, axis=0)
    gradient = problem.gradient(points).mean(0)
    gap = x.T @ x - np.eye(x.shape[1])
    product = x.T @ gradient
    direction = np.repeat((x @ gap)[None], problem.n_local, axis=0)
    along = hessian_product(problem, points, direction).mean(0)
    symmetric = 0.5 * x @ (product + product.T)
    return gradient - 0.5 * (gradient @ gap + along) - symmetric + gamma * x @ gap


def hessian_product(problem: Problem[object], x: Array, direction: Array) -> Array:
    """``(n_local, d, r)``: the Hessian of each f_i at x_i times ``direction``, like ``x``."""
    if isinstance(problem, Quadratic):
        return problem.hessian() @ direction
    length = norms(direction)[:, None, None]
    unit = direction / np.where(length > 0.0, length, 1.0) * _DIFFERENCE
    change = problem.gradient(x + unit) - problem.gradient(x - unit)
    return change * (length / (2.0 * _DIFFERENCE))


class Merit:
    """The merit function at the mean iterate, as a metric: ``solve(..., metrics=[Merit(gamma)])``.

    Columns: ``merit``, and ``consensus_square``, ||x - xbar||_F^2 over all agents, and
    ``mean_tracker_square``, ||ybar||_F^2 (NaN for methods without a tracker), the terms of the
    descent lemma (15) and of the bounds of Theorem IV.7. The weight ``gamma`` of p must be
    positive, see `merit_weight`.

    Examples
    --------
    >>> import decentorth as do
    >>> from decentorth.lab.theory import Merit
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, "drfgt", "ring", metrics=[Merit(1.0)])
    >>> merit = result.history["merit"]
    >>> bool(merit[-1] < merit[0])
    True
    """

    columns = ("merit", "consensus_square", "mean_tracker_square")

    def __init__(self, gamma: float) -> None:
        if not gamma > 0.0:
            raise ValueError(f"gamma must be positive, got {gamma}")
        self.gamma = gamma

    def __call__(
        self, problem: Problem[object], state: Any, collective: Collective
    ) -> tuple[float, ...]:
        """The columns, the same on every rank, from two ordered sums over the agents."""
        n = problem.n_agents
        tracks = hasattr(state, "tracker")
        total = collective.sum(state.x, *((state.tracker,) if tracks else ()))
        mean = total[0] / n
        gradients = np.empty_like(state.x)
        scalars = np.empty((len(state.x), 2))
        for block, part in problem.blocks():
            points = np.repeat(mean[None], part.n_local, axis=0)
            gradients[block] = part.gradient(points)
            scalars[block, 0] = part.value(points)
            apart = state.x[block] - mean
            scalars[block, 1] = sums(apart * apart)
        gradient, (value, consensus) = collective.sum(gradients, scalars)
        tracker = float(norms(total[1][None] / n)[0]) ** 2 if tracks else float("nan")
        return merit(mean, float(value / n), gradient / n, self.gamma), float(consensus), tracker
