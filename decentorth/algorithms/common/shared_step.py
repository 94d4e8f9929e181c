"""The automatic step of methods whose limit point depends on the step: one number, equal on all
agents up to rounding.

Where each agent weighs its own gradient by its step (decentralized gradient descent, EXTRA), agents
with different steps minimise a weighted mean of the f_i instead of (1/n) sum_i f_i. So the
quantities that determine the step are averaged by counted rounds until they differ by rounding
only. The step is the smaller of two:

- ``largest / Lhat`` keeps the iteration stable where the agents are equal: with h the curvature,
  decentralized gradient descent needs ``a h < 1 + w`` for every eigenvalue w of W; EXTRA, whose
  characteristic polynomial is z^2 - (1 + w - a h) z + (1 + w)/2 - a h, needs ``a h < (5 + 3 w)/4``.
  Lhat is the fourth-power mean of max(L_i, ||G_i(x0)||_2), the second being the largest multiplier
  that this gradient can have at any feasible point.
- Where the agents differ, an agent's own objective may have negative curvature -nu_i although the
  mean has none. Mixing keeps that agent stable while ``a nu_i < 1 - W_ii`` (decentralized gradient
  descent) or ``a nu_i < (1 - W_ii)/2`` (EXTRA): the conditions above with w = W_ii and h = -nu_i.
  Where the mean curves upwards, nu_i is at most the deviation of the agent's curvature from the
  mean. This deviation is estimated by sqrt(eta_i) L_i, the geometric mean of L_i and eta_i L_i,
  where eta_i = ||G_i - G||_F / ||G_i||_F at x0; nu_i was 0.1 to 0.4 of eta_i L_i at the minimisers
  of Procrustes and PCA. So ``a sqrt(eta_i) L_i`` is at most ``hold (1 - W_ii)`` and, since similar
  neighbours stabilise each other less, at most ``0.8 sqrt(1 - lambda_2)``; an eighth-power mean
  combines the agents. Where an agent's gradient is almost zero at x0, as with zero data, eta_i is
  at most 64: nu_i is at most 2 L_i, and no method needs more for that.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.ordered_sums import norms
from ...protocols import Array, Network, Streams
from .curvature import P, Spent, largest_multiplier, lipschitz, power_means
from .mixing import average, effective

Rounds = tuple[int, bool]
ONE: Rounds = (1, False)
"""Mixing by W, in one round."""
_UNLIKE = 64.0
"""The largest eta_i."""


def agreed(
    problem: P,
    network: Network,
    streams: Streams,
    x0: Array,
    largest: float,
    hold: float,
    mixing: Rounds = ONE,
    added: float = 0.0,
) -> Spent:
    """The automatic step ``(n_local,)``, equal on all agents up to rounding, and the gradients
    spent per agent.

    Parameters
    ----------
    largest
        The product of step and curvature to aim at where the agents are equal.
    hold
        The product of step and deviating curvature, as a multiple of 1 - W_ii, the weight of the
        neighbours.
    mixing
        The method's rounds in an iteration, and True for `chebyshev`.
    added
        Further curvature, added to that of the objectives.
    """
    gradient = problem.gradient(x0)
    own, spent = lipschitz(problem, streams, x0, gradient)
    steepness = np.maximum(own, largest_multiplier(problem.constraint, x0, gradient))
    tiny = np.finfo(np.float64).tiny
    if network.n_agents == 1:
        return largest / np.maximum(steepness + added, tiny), spent + 1
    spectrum = effective(network.spectrum, *mixing)
    n = network.n_agents
    held = 1.0 - network.self_weights
    # a polynomial of W with these eigenvalues has P_ii <= 1 / n + (1 - 1 / n) lambda_2
    if mixing != ONE:
        held = np.full(len(x0), (1.0 - 1.0 / n) * (1.0 - spectrum.lambda_2))
    holds = np.minimum(hold * held, 0.8 * math.sqrt(1.0 - spectrum.lambda_2))
    deviation = norms(gradient - average(network, gradient, 0.1))
    unlike = deviation / np.maximum(norms(gradient), np.maximum(deviation / _UNLIKE, tiny))
    curvatures = np.stack([steepness, np.sqrt(unlike) * steepness / holds], axis=-1)
    steep, apart = power_means(network, curvatures, (4.0, 8.0), 1e-15).columns()
    return np.minimum(largest / (steep.root(0.25) + added), apart.root(-0.125)), spent + 1
