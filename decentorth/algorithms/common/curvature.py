"""The curvature of the agents' objectives, which determines automatic steps.

An agent uses its own Lipschitz constant L_i, or an estimate, and the largest multiplier M_i that
its gradient can have. All agree on one number: a mean of powers over the network, by counted rounds
before the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics.ordered_sums import norms, sums
from ...protocols import SETUP, Array, Index, Known, Network, Oracle, Problem, Smooth, Streams
from ...protocols.sets import ByProducts, Landing, MetricName, ProductLanding, Projection
from .mixing import averages

Gradients = Oracle[object]
P = Problem[object]
Spent = tuple[Array, int]
"""A number of each agent, ``(n_local,)``, and the gradients spent on them."""
Map = Callable[[Array], Array]
_ROUNDS = 12
"""The rounds of the power method."""
_ORDERS = 240
"""The number of binary orders of magnitude whose eighth powers fit into float64."""
_PARTS = (-2, -1, 0, 1, 2)
"""The centres of the ranges of `_ORDERS` orders of magnitude, as multiples of `_ORDERS`."""


def lipschitz(problem: Gradients, streams: Streams, x0: Array, gradient: Known = None) -> Spent:
    """Return a Lipschitz constant of each agent's gradient, ``(n_local,)``, and the gradients
    spent.

    The problem's own constant is used if it is known. Otherwise the power method estimates the
    largest eigenvalue of the Hessian at x0.
    """
    if isinstance(problem, Smooth):
        return problem.lipschitz, 0
    at_x0 = problem.gradient(x0) if gradient is None else gradient
    found, spent = power_method(problem.gradient, streams, x0, at_x0)
    return found, spent + (gradient is None)


def power_method(
    gradient: Map, streams: Streams, x0: Array, at_x0: Array, solve: Map | None = None
) -> Spent:
    """The largest eigenvalue ``(n_local,)`` of the derivative of ``gradient`` at x0, from
    differences, and the gradients spent.

    It is a lower bound that is close after a dozen rounds. ``at_x0`` is the gradient at x0, and
    ``solve`` the map B^{-1}, for the constant of B^{-1} G in the metric tr(u^T B v).
    """
    words = streams.integers("start", 0, x0[0].size, 1 << 30)

    def unit(image: Array) -> tuple[Array, Array]:
        direction = image if solve is None else solve(image)
        length = np.sqrt(sums(direction * image))
        return direction / np.where(length > 0.0, length, 1.0)[:, None, None], length

    direction, _ = unit((words / float(1 << 30) - 0.5).reshape(x0.shape))
    step = 1e-5 * np.maximum(norms(x0), 1.0)[:, None, None]
    estimate = np.zeros(len(x0))
    for number in range(_ROUNDS):
        SETUP.info("Lipschitz constants by the power method, %d of %d", number + 1, _ROUNDS)
        direction, length = unit((gradient(x0 + step * direction) - at_x0) / step)
        estimate = np.maximum(estimate, length)
    return estimate, _ROUNDS


def steepest(problem: Gradients, streams: Streams, x0: Array) -> Spent:
    """The constants of `lipschitz`, never zero, without a given gradient."""
    found, spent = lipschitz(problem, streams, x0)
    return np.maximum(found, np.finfo(np.float64).tiny), spent


class Means(NamedTuple):
    """Means of powers p, which may exceed the range of float64.

    The means are ``mean * 2**(p * exponent)``. Both arrays have the shape of the averaged
    numbers.
    """

    mean: Array
    exponent: Index

    def root(self, inverse: float) -> Array:
        """The means to the power ``1 / p``, or ``-1 / p``."""
        return np.ldexp(self.mean**inverse, self.exponent if inverse > 0.0 else -self.exponent)

    def columns(self) -> list[Means]:
        """The means of each entry of the last axis."""
        return [Means(self.mean[..., j], self.exponent[..., j]) for j in range(self.mean.shape[-1])]


def power_means(network: Network, local: Array, powers: ArrayLike, accuracy: float) -> Means:
    """Return means of powers of the agents' numbers over the network, by counted rounds.

    The numbers ``(n_local, ...)`` are non-negative. There is one power, at most 8, for all of
    them, or one for each entry of the last axis. Powers have the accuracy of `average`.

    No agent can see the scale of the others' numbers. The range from 2^-600 to 2^600 is
    therefore divided into five parts of 240 binary orders of magnitude. A number counts in its
    own part, divided by a power of two, and is zero in the others. The result is that of the
    highest nonzero part, plus the contribution of the part below.
    """
    p = np.array(powers)
    part = np.clip(np.rint(np.frexp(local)[1] / _ORDERS), _PARTS[0], _PARTS[-1])
    scaled = [np.ldexp(np.where(part == k, local, 0.0), -k * _ORDERS) ** p for k in _PARTS]
    middle = scaled.pop(len(scaled) // 2)
    rest = np.stack(scaled, axis=-1)
    ordinary, others = averages(network, accuracy, middle, rest)
    sums_of_parts = [others[..., 0], others[..., 1], ordinary, others[..., 2], others[..., 3]]
    mean = np.full(local.shape, np.finfo(np.float64).tiny)
    exponent = np.full(local.shape, _PARTS[0] * _ORDERS)
    for k, found in zip(_PARTS, sums_of_parts, strict=True):
        below = np.ldexp(mean, (p * (exponent - k * _ORDERS)).astype(np.int64))
        seen = found != 0.0
        mean = np.where(seen, np.maximum(found + below, np.finfo(np.float64).tiny), mean)
        exponent = np.where(seen, k * _ORDERS, exponent)
    return Means(mean, exponent)


def power_mean(network: Network, local: Array) -> Array:
    """The fourth-power means over the network of the agents' numbers ``local``, ``(n_local, ...)``,
    by counted rounds."""
    # the powers to 5 % of their mean
    return power_means(network, local, 4.0, 0.05 / math.sqrt(network.n_agents)).root(0.25)


def _measured(
    problem: P, streams: Streams, x0: Array, metric: MetricName = "euclidean"
) -> tuple[Array, Array, int]:
    """The constants L_i and the multipliers M_i of `curvature`, each ``(n_local,)``, and the
    gradients spent."""
    gradient = problem.gradient(x0)
    constraint = problem.constraint
    if metric == "natural" and isinstance(constraint, ByProducts):
        own, spent = power_method(problem.gradient, streams, x0, gradient, constraint.solve)
        return own, largest_multiplier(constraint, x0, gradient, metric), spent + 1
    own, spent = lipschitz(problem, streams, x0, gradient)
    return own, largest_multiplier(constraint, x0, gradient), spent + 1


def curvature(
    problem: P, network: Network, streams: Streams, x0: Array, metric: MetricName = "euclidean"
) -> Spent:
    """Lhat ``(n_local,)``, the agents' common measure of the curvature of their objectives, and the
    gradients spent per agent.

    It is the fourth-power mean over the network of max(L_i, M_i), M_i the `largest_multiplier` of
    G_i(x0), ||G_i(x0)||_2 on St. With L_i alone badly scaled Procrustes problems diverge, as they
    do with ||sym(x0^T G_i(x0))||_2 on a star; with the plain mean, runs with heterogeneous agents
    diverge.

    Parameters
    ----------
    metric
        On {x : x^T B x = I} natural is tr(u^T B v), in which that set is a Stiefel manifold: L_i is
        that of B^{-1} G_i, and M_i does not have the largest eigenvalue of B as a factor. Other
        sets have one metric.
    """
    own, multiplier, spent = _measured(problem, streams, x0, metric)
    return power_mean(network, np.maximum(own, multiplier)), spent


def embedded_curvature(problem: P, network: Network, streams: Streams, x0: Array) -> Spent:
    """Return Lhat for Riemannian gradients of the Euclidean metric, and the gradients spent per
    agent.

    On {x : x^T B x = I} it is Lhat + beta_1 Lhat'. Here beta_1 is the largest eigenvalue of B,
    and Lhat' is Lhat in the natural metric. Lhat' also bounds the multiplier at a solution,
    which can be much larger than at x0. If B cannot be solved with, the result is Lhat alone.
    """
    mean, spent = curvature(problem, network, streams, x0)
    constraint = problem.constraint
    if not (isinstance(constraint, ByProducts) and constraint.solvable):
        return mean, spent
    natural, more = curvature(problem, network, streams, x0, "natural")
    return mean + constraint.largest * natural, spent + more


def group_curvature(problem: P, network: Network, streams: Streams, x0: Array) -> Spent:
    """Lhat ``(n_local,)`` of f along exp(a) x0 in the group's metric tr(a^T a), L ||x0||_2^2 + ||G
    x0^T||_2, and the gradients spent per agent."""
    gradient = problem.gradient(x0)
    own, spent = lipschitz(problem, streams, x0, gradient)
    both = x0, gradient @ x0.swapaxes(-1, -2)
    size, multiplier = (np.linalg.norm(one, 2, axis=(-2, -1)) for one in both)
    return power_mean(network, own * size * size + multiplier), spent + 1


class Steepness(NamedTuple):
    """The agents' common measures of their objectives, each ``(n_local,)``."""

    lipschitz: Array
    """The mean L of the Lipschitz constants of their gradients."""
    multiplier: Array
    """The mean G of the largest multipliers that their gradients at x0 can have."""


def steepness(problem: P, network: Network, streams: Streams, x0: Array) -> tuple[Steepness, int]:
    """The `Steepness`, of fourth-power means by the same counted rounds for both, and the gradients
    spent per agent."""
    own, multiplier, spent = _measured(problem, streams, x0)
    means = power_mean(network, np.stack((own, multiplier), axis=-1))
    return Steepness(means[:, 0], means[:, 1]), spent


def largest_multiplier(
    constraint: object, x0: Array, gradient: Array, metric: MetricName = "euclidean"
) -> Array:
    """A bound ``(n_local,)`` on the curvature that a gradient G can add at any feasible point.

    It is ||sym(x^T G)||_2 at the point nearest to G, which is ||G||_2 on St. Without a nearest
    point, as on {x : x^T B x = I} if the rank of G is below r, x0 takes its place. On a set without
    multipliers it is ||G||_2. It is NaN for a G that is not finite.
    """
    finite = np.isfinite(gradient)
    usable = np.where(finite.all((-2, -1), keepdims=True), gradient, 0.0)
    return np.where(finite.all((-2, -1)), _multiplier(constraint, x0, usable, metric), np.nan)


def _multiplier(constraint: object, x0: Array, gradient: Array, metric: MetricName) -> Array:
    if not isinstance(constraint, Landing):
        return np.linalg.norm(gradient, 2, axis=(-2, -1))
    nearest = x0
    if isinstance(constraint, Projection):
        nearest = constraint.project(gradient)
        nearest = np.where(np.isfinite(nearest).all((-2, -1), keepdims=True), nearest, x0)
    match constraint:
        case ProductLanding():
            return constraint.multiplier_norm(nearest, gradient, metric)
    return constraint.multiplier_norm(nearest, gradient)
