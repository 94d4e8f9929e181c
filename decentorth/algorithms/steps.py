"""Automatic step sizes and penalties, and the steps of given schedules.

``auto`` uses each agent's own Lipschitz constant (L_i, or an estimate), the spectrum of W, which every agent knows in advance
(lambda_2 and lambda_min), and one number averaged over the network by counted rounds before the start. With h the curvature of an
agent's objective, gradient tracking is stable in the direction of an eigenvalue w of W for

- combine-then-adapt: ``a h < (1 + w)^2 / 2``,
- adapt-then-combine: ``a h < min(2, (1 + w)^2 / (2 w^2))``, where only a negative w can be below 2,

so only lambda_min matters; the slowest consensus mode requires ``a h`` of the order of ``sqrt(1 - lambda_2)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np

from ..protocols import (
    SETUP,
    Array,
    ByProducts,
    Index,
    Landing,
    MetricName,
    Network,
    ProductLanding,
    Projection,
    Retraction,
    Smooth,
    Spectrum,
    Streams,
)
from ..sums import norms, sums
from .mixing import averages, effective
from .policies import Auto
from .step_sizes import StepPolicy, policy

Order = Literal["combine-then-adapt", "adapt-then-combine"]
MixingOrder = Annotated[
    Order | Auto,
    "combine-then-adapt (one exchange an iteration); adapt-then-combine is stable at larger steps (two exchanges); auto is the "
    "former, but with step_size auto the other where W is such that it needs fewer rounds.",
]
RetractionName = Annotated[Retraction, "The map from a step to the manifold."]
Ordered = TypeVar("Ordered", bound=Any)
"""A method with an order and a step size."""
_ORDERS = 240
"""The number of binary orders of magnitude whose eighth powers fit into float64."""
_PARTS = (-2, -1, 0, 1, 2)
"""The centres of the ranges of `_ORDERS` orders of magnitude, as multiples of `_ORDERS`."""


def lipschitz(
    problem: Any,
    streams: Streams,
    x0: Array,
    gradient: Array,
    rounds: int = 12,
    solve: Callable[[Array], Array] | None = None,
) -> tuple[Array, int]:
    """A Lipschitz constant of each agent's gradient, ``(n_local,)``, and the number of gradients spent.

    It is the problem's own where it has one; otherwise the power method estimates the largest eigenvalue of the Hessian at x0 from
    differences of gradients (a lower bound that is close after a dozen rounds).

    Parameters
    ----------
    solve
        The map B^{-1}, for the constant of B^{-1} G in the metric tr(u^T B v), always by the power method.
    """
    if solve is None and isinstance(problem, Smooth):
        return problem.lipschitz, 0
    size = x0[0].size
    words = streams.integers("start", 0, size, 1 << 30)

    def unit(image: Array) -> tuple[Array, Array]:
        direction = image if solve is None else solve(image)
        length = np.sqrt(sums(direction * image))
        return direction / np.where(length > 0.0, length, 1.0)[:, None, None], length

    direction, _ = unit((words / float(1 << 30) - 0.5).reshape(x0.shape))
    step = 1e-5 * np.maximum(norms(x0), 1.0)[:, None, None]
    estimate = np.zeros(len(x0))
    for number in range(rounds):
        SETUP.info("Lipschitz constants by the power method, %d of %d", number + 1, rounds)
        direction, length = unit((problem.gradient(x0 + step * direction) - gradient) / step)
        estimate = np.maximum(estimate, length)
    return estimate, rounds


def steepest(problem: Any, streams: Streams, x0: Array) -> tuple[Array, int]:
    """The constants of `lipschitz`, never zero, without a given gradient."""
    if isinstance(problem, Smooth):
        found, spent = problem.lipschitz, 0
    else:
        found, spent = lipschitz(problem, streams, x0, problem.gradient(x0))
        spent += 1
    return np.maximum(found, np.finfo(np.float64).tiny), spent


def tracking_limit(spectrum: Spectrum, order: Order) -> float:
    """The largest stable product of step and curvature for gradient tracking on W, at most 2."""
    w = spectrum.lambda_min
    if order == "combine-then-adapt":
        return (1.0 + w) ** 2 / 2.0
    return min(2.0, (1.0 + w) ** 2 / (2.0 * w * w)) if w < 0.0 else 2.0


def tracking_share(spectrum: Spectrum, order: Order) -> float:
    """The share of the limit that ``auto`` aims at."""
    return (0.5 if order == "combine-then-adapt" else 0.35) * tracking_limit(spectrum, order)


def tracking_step(spectrum: Spectrum, order: Order) -> float:
    """The product of step and curvature that ``auto`` aims at: a share of the limit, at most the bound from consensus."""
    return min(tracking_share(spectrum, order), math.sqrt(1.0 - spectrum.lambda_2))


def better_order(spectrum: Spectrum, product: Callable[[Spectrum, Order], float] = tracking_step) -> Order:
    """Adapt-then-combine where its step is more than twice as large, so that it needs fewer rounds as well as fewer bytes.

    Parameters
    ----------
    product
        The method's product of step and curvature.
    """
    larger = product(spectrum, "adapt-then-combine") > 2.0 * product(spectrum, "combine-then-adapt")
    return "adapt-then-combine" if larger else "combine-then-adapt"


def with_order(algorithm: Ordered, network: Network, product: Callable[[Spectrum, Order], float] = tracking_step) -> Ordered:
    """The method with ``order="auto"`` resolved for this network: with an automatic step `better_order`, otherwise the default."""
    if algorithm.order != "auto":
        return algorithm
    automatic = policy(algorithm.step_size).initial == "auto"
    return replace(algorithm, order=better_order(network.spectrum, product) if automatic else "combine-then-adapt")


class Means(NamedTuple):
    """The means of powers p, which may exceed the range of float64: ``mean * 2**(p * exponent)``, each like the numbers."""

    mean: Array
    exponent: Index

    def root(self, inverse: float) -> Array:
        """The means to the power ``1 / p``, or ``-1 / p``."""
        found: Array = np.ldexp(self.mean**inverse, self.exponent if inverse > 0.0 else -self.exponent)
        return found

    def columns(self) -> list[Means]:
        """The means of each entry of the last axis."""
        return [Means(self.mean[..., j], self.exponent[..., j]) for j in range(self.mean.shape[-1])]


def power_means(network: Network, local: Array, powers: float | tuple[float, ...], accuracy: float) -> Means:
    """The means over the network of each of an agent's numbers to a power of at most 8, by counted rounds.

    No agent knows the scale of the others' numbers. So the range from 2^-600 to 2^600 is divided into five parts of 240 binary
    orders of magnitude; a number counts in its part, divided by a power of two, and is zero in the others. The result is that of
    the highest part that is not zero, plus the contribution of the part below.

    Parameters
    ----------
    local
        ``(n_local, ...)``, not negative.
    powers
        One power for all numbers, or one for each entry of the last axis.
    accuracy
        The accuracy of the powers, as in `average`.
    """
    p = np.array(powers)
    part = np.clip(np.rint(np.frexp(local)[1] / _ORDERS), _PARTS[0], _PARTS[-1])
    scaled = [np.ldexp(np.where(part == k, local, 0.0), -k * _ORDERS) ** p for k in _PARTS]
    ordinary, others = averages(network, accuracy, scaled.pop(len(scaled) // 2), np.stack(scaled, axis=-1))
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
    """The fourth-power means over the network of the agents' numbers ``local``, ``(n_local, ...)``, by counted rounds."""
    return power_means(network, local, 4.0, 0.05 / math.sqrt(network.n_agents)).root(0.25)  # the powers to 5 % of their mean


def curvature(problem: Any, network: Network, streams: Streams, x0: Array, metric: MetricName = "euclidean") -> tuple[Array, int]:
    """Lhat ``(n_local,)``, the agents' common measure of the curvature of their objectives, and the gradients spent per agent.

    It is the fourth-power mean over the network of max(L_i, M_i), M_i the `largest_multiplier` of G_i(x0), ||G_i(x0)||_2 on St.
    With L_i alone badly scaled Procrustes problems diverge, as they do with ||sym(x0^T G_i(x0))||_2 on a star; with the plain mean,
    runs with heterogeneous agents diverge.

    Parameters
    ----------
    metric
        On {x : x^T B x = I} natural is tr(u^T B v), in which that set is a Stiefel manifold: L_i is that of B^{-1} G_i, and M_i
        does not have the largest eigenvalue of B as a factor. Elsewhere there is one metric.
    """
    gradient, constraint = problem.gradient(x0), problem.constraint
    natural = metric == "natural" and isinstance(constraint, ByProducts)
    own, spent = lipschitz(problem, streams, x0, gradient, solve=constraint.solve if natural else None)
    multiplier = largest_multiplier(constraint, x0, gradient, *((metric,) if natural else ()))
    return power_mean(network, np.maximum(own, multiplier)), spent + 1


def embedded_curvature(problem: Any, network: Network, streams: Streams, x0: Array) -> tuple[Array, int]:
    """Lhat for Riemannian gradients of the Euclidean metric, and the gradients spent per agent.

    On {x : x^T B x = I} it is Lhat + beta_1 Lhat', beta_1 the largest eigenvalue of B and Lhat' in the natural metric, which
    bounds the multiplier at a solution too: that can be much larger than at x0. Where B cannot be solved with it is Lhat alone.
    """
    mean, spent = curvature(problem, network, streams, x0)
    constraint = problem.constraint
    if not (isinstance(constraint, ByProducts) and constraint.solvable):
        return mean, spent
    natural, more = curvature(problem, network, streams, x0, "natural")
    return mean + constraint.largest * natural, spent + more


def group_curvature(problem: Any, network: Network, streams: Streams, x0: Array) -> tuple[Array, int]:
    """Lhat ``(n_local,)`` of f along exp(a) x0 in the group's metric tr(a^T a), L ||x0||_2^2 + ||G x0^T||_2, and the gradients
    spent per agent."""
    gradient = problem.gradient(x0)
    own, spent = lipschitz(problem, streams, x0, gradient)
    size, multiplier = (np.linalg.norm(one, 2, axis=(-2, -1)) for one in (x0, gradient @ x0.swapaxes(-1, -2)))
    return power_mean(network, own * size * size + multiplier), spent + 1


def start(step_size: StepPolicy, n_local: int, automatic: Callable[[], tuple[Array, int]]) -> tuple[Array, int]:
    """The first steps ``(n_local,)`` of a policy, given or by the method's automatic rule, and the gradients spent."""
    if step_size.initial == "auto":
        return automatic()
    return np.full(n_local, float(step_size.initial)), 0


class Steepness(NamedTuple):
    """The agents' common measures of their objectives, each ``(n_local,)``."""

    lipschitz: Array
    """The mean L of the Lipschitz constants of their gradients."""
    multiplier: Array
    """The mean G of the largest multipliers that their gradients at x0 can have."""


def steepness(problem: Any, network: Network, streams: Streams, x0: Array) -> tuple[Steepness, int]:
    """The `Steepness`, of fourth-power means by the same counted rounds for both, and the gradients spent per agent."""
    gradient = problem.gradient(x0)
    own, spent = lipschitz(problem, streams, x0, gradient)
    means = power_mean(network, np.stack((own, largest_multiplier(problem.constraint, x0, gradient)), axis=-1))
    return Steepness(means[:, 0], means[:, 1]), spent + 1


def largest_multiplier(constraint: Any, x0: Array, gradient: Array, *metric: MetricName) -> Array:
    """A bound ``(n_local,)`` on the curvature that a gradient G can add at any feasible point.

    It is ||sym(x^T G)||_2 at the point nearest to G, on St ||G||_2; at x0 where the set has no projection; and ||G||_2 where it has
    no multipliers.
    """
    if isinstance(constraint, Landing):
        nearest = constraint.project(gradient) if isinstance(constraint, Projection) else x0
        return constraint.multiplier_norm(nearest, gradient, *metric)
    norm: Array = np.linalg.norm(gradient, 2, axis=(-2, -1))
    return norm


def curved_step(steep: Steepness, c: float, gap: float) -> Array:
    """The steps ``c / max(L, G)`` ``(n_local,)``, at most ``2 gap / G``, for methods whose points stay on a manifold.

    Until the trackers agree, the consensus error is of the order of ``step G / gap``. On a curved set agents that are too far apart
    do not reach consensus again; a linear space has no such limit.
    """
    step: Array = c / np.maximum(steep.lipschitz, max(1.0, c / (2.0 * gap)) * steep.multiplier)
    return step


def manifold_step(
    algorithm: Any, problem: Any, network: Network, streams: Streams, x0: Array, consensus_step: float = 1.0
) -> tuple[Array, int]:
    """The first steps ``(n_local,)`` of a method that tracks Riemannian gradients, and the gradients spent.

    Automatic steps are those of `curved_step` with ``c = min(0.5 u, sqrt(gap))``, u the tracking limit (combine-then-adapt), of W
    as ``algorithm.rounds`` and ``algorithm.chebyshev`` make it; for a single agent c = 0.7. Where the points go only the share
    ``consensus_step``, at most 1, of the way to their neighbours' mean, the gap is that much smaller. A policy whose steps may grow
    starts with steps as much smaller: on a curved set larger steps make the agents lose consensus for good.
    """

    given = policy(algorithm.step_size)

    def automatic() -> tuple[Array, int]:
        c, gap = 0.7, 1.0
        if network.n_agents > 1:
            mixing = effective(network.spectrum, algorithm.rounds, algorithm.chebyshev)
            gap = consensus_step * (1.0 - mixing.lambda_2)
            c = tracking_step(Spectrum(1.0 - gap, mixing.lambda_min), "combine-then-adapt")
        steep, spent = steepness(problem, network, streams, x0)
        return curved_step(steep, c, gap) / given.most, spent

    return start(given, len(x0), automatic)


def resolve(
    algorithm: Any,
    problem: Any,
    network: Network,
    streams: Streams,
    x0: Array,
    order: Order | None,
    measure: Callable[[Any, Network, Streams, Array], tuple[Array, int]] = curvature,
    length: float | None = None,
) -> tuple[Array, Array, int]:
    """The first steps of a landing method and its penalties, each ``(n_local,)``, and the gradients spent.

    Automatic steps are ``2 c / Lhat`` (the landing direction is half the Riemannian gradient) with
    ``c = min(0.5 u (combine-then-adapt) or 0.35 u (adapt-then-combine), sqrt(1 - lambda_2))`` and u the tracking limit; for a
    single agent u = 2 and c = 0.7. Automatic penalties are ``min(0.1, u / 4) / step``; beside a given step size
    ``0.1 / step_size``, as in paper 004's experiment. Beside a given penalty, whose curvature is twice the penalty, automatic steps
    are at most ``u / (4 penalty)``. Where the set's landing field is s = ``landing_scale`` times as long, all are divided by s.

    Parameters
    ----------
    order
        The mixing order of tracking; None without tracking (a single agent).
    measure
        The function that finds Lhat.
    length
        The largest ratio of the objective's part of the field to half the Riemannian gradient; by default s.
    """
    given = policy(algorithm.step_size)
    limit, c = 2.0, 0.7
    if given.initial == "auto" and order is not None and network.n_agents > 1:
        limit, c = tracking_limit(network.spectrum, order), tracking_step(network.spectrum, order)
    scale = problem.constraint.landing_scale() if isinstance(problem.constraint, ProductLanding) else 1.0

    def automatic() -> tuple[Array, int]:
        mean, spent = measure(problem, network, streams, x0)
        return 2.0 * c / ((scale if length is None else length) * mean), spent

    step, spent = start(given, len(x0), automatic)
    if algorithm.penalty == "auto":
        return step, min(0.1, limit / 4.0) / (scale * step), spent
    penalty = np.full(len(x0), float(algorithm.penalty))
    if given.initial == "auto":
        step = np.minimum(step, limit / 4.0 / (scale * penalty))
    return step, penalty, spent


def augmented(algorithm: Any, problem: Any, network: Network, streams: Streams, x0: Array) -> tuple[Array, Array, int]:
    """The first steps of a method on the augmented Lagrangian and its penalties, each ``(n_local,)``, and the gradients spent.

    Automatic penalties are Lhat in the metric tr(u^T B v), to compare with the multiplier sym(x^T G);
    automatic steps 0.7 / (Lhat + beta_1 penalty) with the Euclidean Lhat and the largest eigenvalue beta_1 of B, which bound the
    curvature of the objective and of the penalty. Beside a smaller penalty they stay at those of the automatic one where B can be
    solved with: the multiplier's term curves as much, and on {x : x^T B x = I} the multiplier can grow from x0 on.
    """
    steps, spent, constraint = policy(algorithm.step_size), 0, problem.constraint
    natural = np.zeros(len(x0))
    curved = steps.initial == "auto" and isinstance(constraint, ByProducts) and constraint.solvable
    if algorithm.penalty == "auto" or curved:
        natural, spent = curvature(problem, network, streams, x0, "natural")
    penalty = natural if algorithm.penalty == "auto" else np.full(len(x0), float(algorithm.penalty))
    largest = constraint.largest if isinstance(constraint, ByProducts) else 1.0

    def automatic() -> tuple[Array, int]:
        mean, more = curvature(problem, network, streams, x0)
        return 0.7 / (mean + largest * np.maximum(penalty, natural)), more

    step, more = start(steps, len(x0), automatic)
    return step, penalty, spent + more
