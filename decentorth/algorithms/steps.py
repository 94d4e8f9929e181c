"""Step sizes: what a number given by the user means, and how ``auto`` finds one.

``auto`` uses what each agent knows of its own objective (L_i, or an estimate), what the network's design tells everybody
(lambda_2 and lambda_min of W), and one number averaged over the network by counted rounds before the start. With h the curvature
an agent sees, gradient tracking is stable in the direction of an eigenvalue w of W for

- combine-then-adapt: ``a h < (1 + w)^2 / 2``,
- adapt-then-combine: ``a h < min(2, (1 + w)^2 / (2 w^2))``, where only a negative w can be below 2,

so only lambda_min matters; the slowest consensus mode asks for ``a h`` of the order of ``sqrt(1 - lambda_2)``.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..protocols import Array, Network, Smooth, Spectrum, Streams
from ..sums import norms

Order = Literal["combine-then-adapt", "adapt-then-combine"]
Auto = Literal["auto"]


def check_positive(name: str, value: float | str) -> None:
    """Refuse what is neither ``"auto"`` nor a positive number.

    Raises
    ------
    ValueError, TypeError
        With the name of the parameter.
    """
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"{name} must be a positive number or 'auto', got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a positive number or 'auto', got {type(value).__name__}")
    elif not (value > 0.0 and math.isfinite(value)):
        raise ValueError(f"{name} must be positive and finite, got {value}")


def landing_field(problem: Any, x: Array, penalty: Array) -> Array:
    """Lambda_i(x_i) for all local agents, in blocks that stay in cache; fresh."""
    field = np.empty_like(x)
    for block, part in problem.blocks():
        field[block] = part.constraint.landing(x[block], part.gradient(x[block]), penalty[block])
    return field


def average(network: Network, values: Array, accuracy: float = 1e-2) -> Array:
    """``(n_local,)``: the network mean of one number per agent, by Chebyshev-accelerated averaging rounds.

    Enough rounds are made that no agent's error exceeds ``accuracy`` times the root mean square deviation of the numbers: about
    ``log(2 sqrt(n) / accuracy) / sqrt(2 gap)``, where plain averaging would need the order of ``1 / gap``.
    """
    if network.n_agents == 1:
        return values.copy()
    low, high = network.spectrum.lambda_min, network.spectrum.lambda_2
    target = math.sqrt(network.n_agents) / accuracy
    x = values.reshape(-1, 1).copy()
    if high - low < 1e-12:  # one eigenvalue beside 1: exact in one round
        (mixed,) = network.mix(x)
        return ((mixed - high * x) / (1.0 - high)).reshape(-1)
    # P_t(w) = T_t(z(w)) / T_t(z(1)) with z mapping [low, high] to [-1, 1]; T_t grows like cosh(t arccosh z(1))
    at_one = (2.0 - high - low) / (high - low)
    before, now = 1.0, at_one
    previous = x
    (mixed,) = network.mix(x)
    x = ((2.0 * mixed - (high + low) * x) / (high - low)) / at_one
    while now < target:
        (mixed,) = network.mix(x)
        image = (2.0 * mixed - (high + low) * x) / (high - low)
        after = 2.0 * at_one * now - before
        previous, x = x, (2.0 * now * image - before * previous) / after
        before, now = now, after
    return x.reshape(-1)


def lipschitz(problem: Any, streams: Streams, x0: Array, gradient: Array, rounds: int = 12) -> tuple[Array, int]:
    """``(n_local,)``: a Lipschitz constant of each agent's gradient, and how many gradients that took.

    The problem's own where it knows one; otherwise the power method on the Hessian at x0 by finite differences of gradients
    (a lower bound that is close after a dozen rounds).
    """
    if isinstance(problem, Smooth):
        return problem.lipschitz, 0
    size = x0[0].size
    words = streams.integers("start", 0, size, 1 << 30)
    direction = (words / float(1 << 30) - 0.5).reshape(x0.shape)
    estimate = np.zeros(len(x0))
    for _ in range(rounds):
        length = norms(direction)
        direction = direction / np.where(length > 0.0, length, 1.0)[:, None, None]
        step = 1e-5 * np.maximum(norms(x0), 1.0)[:, None, None]
        direction = (problem.gradient(x0 + step * direction) - gradient) / step
        estimate = np.maximum(estimate, norms(direction))
    return estimate, rounds


def tracking_limit(spectrum: Spectrum, order: Order) -> float:
    """The largest stable product of step and curvature for gradient tracking on W, at most 2."""
    w = spectrum.lambda_min
    if order == "combine-then-adapt":
        return (1.0 + w) ** 2 / 2.0
    return min(2.0, (1.0 + w) ** 2 / (2.0 * w * w)) if w < 0.0 else 2.0


def tracking_step(spectrum: Spectrum, order: Order) -> float:
    """The product of step and curvature that ``auto`` aims at: a share of the limit, and no more than consensus keeps up with."""
    share = 0.5 if order == "combine-then-adapt" else 0.35
    return min(share * tracking_limit(spectrum, order), math.sqrt(1.0 - spectrum.lambda_2))


def better_order(spectrum: Spectrum) -> Order:
    """Adapt-then-combine where its step is more than twice as large, so that it needs fewer rounds as well as fewer bytes."""
    ratio = tracking_step(spectrum, "adapt-then-combine") / tracking_step(spectrum, "combine-then-adapt")
    return "adapt-then-combine" if ratio > 2.0 else "combine-then-adapt"


def automatic(problem: Any, network: Network, streams: Streams, x0: Array, order: Order | None) -> tuple[Array, Array, int]:
    """``auto`` for landing methods: step sizes and penalties per agent, and gradients spent.

    Lhat is the fourth root of the network mean of max(L_i, ||sym(x0^T G_i(x0))||_2)^4 (L_i alone diverges on badly scaled
    Procrustes; the plain mean diverges where agents are unlike), u the tracking limit,
    ``c = min(0.5 u (combine-then-adapt) or 0.35 u (adapt-then-combine), sqrt(1 - lambda_2))``, for a single agent u = 2 and
    c = 0.7; ``step = 2 c / Lhat`` (the landing direction is half the Riemannian gradient) and ``penalty = min(0.1, u / 4) / step``.

    Parameters
    ----------
    order
        Of tracking; None where nothing is tracked (a single agent), with u = 2.
    """
    gradient = problem.gradient(x0)
    own, spent = lipschitz(problem, streams, x0, gradient)
    local = np.maximum(own, problem.constraint.multiplier_norm(x0, gradient))
    mean = average(network, local**4, 0.05 / math.sqrt(network.n_agents)) ** 0.25  # to 5 % of the mean, so 1.3 % of its root
    limit, c = 2.0, 0.7
    if order is not None and network.n_agents > 1:
        limit, c = tracking_limit(network.spectrum, order), tracking_step(network.spectrum, order)
    step = 2.0 * c / np.maximum(mean, np.finfo(np.float64).tiny)
    return step, min(0.1, limit / 4.0) / step, spent + 1


def resolve(
    algorithm: Any, problem: Any, network: Network, streams: Streams, x0: Array, order: Order | None
) -> tuple[Array, Array, int]:
    """Step sizes and penalties ``(n_local,)`` of a landing method from its ``step_size`` and ``penalty``, and gradients spent.

    A given step size with ``penalty="auto"`` takes penalty = 0.1 / step_size, as paper 004 does in its experiment.
    """
    n, given, penalty = len(x0), algorithm.step_size, algorithm.penalty
    spent = 0
    if given == "auto":
        step, weight, spent = automatic(problem, network, streams, x0, order)
    else:
        step = np.full(n, float(given))
        weight = 0.1 / step
    if penalty != "auto":
        weight = np.full(n, float(penalty))
    return step, weight, spent
