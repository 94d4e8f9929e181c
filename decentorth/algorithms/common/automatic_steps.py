"""Automatic step sizes and penalties, and the steps of given schedules.

``auto`` uses each agent's own Lipschitz constant (L_i, or an estimate), the spectrum of W, which
every agent knows in advance (lambda_2 and lambda_min), and one number averaged over the network by
counted rounds before the start. With h the curvature of an agent's objective, gradient tracking is
stable in the direction of an eigenvalue w of W for

- combine-then-adapt: ``a h < (1 + w)^2 / 2``,
- adapt-then-combine: ``a h < min(2, (1 + w)^2 / (2 w^2))``, where only a negative w can be below 2,

so only lambda_min matters; the slowest consensus mode requires ``a h`` of the order of ``sqrt(1 -
lambda_2)``. Accelerated mixing (`loopless`) is stable up to 0.7 on every network, and its gap
stands in the place of 1 - lambda_2.

On a network that changes or loses messages (`cautious_step`) products of different matrices decide.
Independently drawn ones obey this limit in the mean. Matrices in a fixed order can drive each other:
where the edges of a path mix in two alternating rounds, tracking is unstable from ``a h = 1.1 gap``
on, with 10, 20 or 40 agents.

On a directed graph the common point moves by ``a h gain``, and the limit is that of
`topologies.PushPullSpectrum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ...protocols import (
    Array,
    Declared,
    JointSpectrum,
    Network,
    Nonsmooth,
    ProductLanding,
    PushPullSpectrum,
    Spectrum,
    Streams,
)
from .curvature import P, Spent, Steepness, curvature
from .loopless import loopless
from .step_sizes import StepSize, schedule

Order = Literal["combine-then-adapt", "adapt-then-combine", "accelerated"]
Landed = tuple[Array, Array, int]
Rule = Callable[[], Spent]
"""A method's rule for its automatic steps."""
_CAUTIOUS = 0.5
"""The share of the slowest mode's limit on a network that varies. With twice as much 10 of 500
random periodic sequences have a growing mode, with this none
(`tests/algorithms/common/test_cautious_steps.py`)."""
_ROUGH = 0.1
"""The largest product of automatic step and curvature of landing methods for subgradients, and
gradients of a single sample."""
_CAP = 2.0**1.5
"""The longest step of tracking with one exchange, in units of sqrt(gap) / curvature, beyond which
the network is too slow for it. With 2, DRGTA takes 2.3 in place of 1.5 times the iterations of the
best constant step on Procrustes over a ring with self-weights of 0.8."""


def tracking_limit(spectrum: Spectrum, order: Order) -> float:
    """The largest stable product of step and curvature for gradient tracking on W, at most 2."""
    if order == "accelerated":
        return 0.7
    w = spectrum.lambda_min
    if order == "combine-then-adapt":
        return (1.0 + w) ** 2 / 2.0
    if w >= 0.0:
        return 2.0
    return min(2.0, (1.0 + w) ** 2 / (2.0 * w * w))


def consensus_gap(spectrum: Spectrum, order: Order) -> float:
    """The share of the slowest disagreement that an exchange removes."""
    if order == "accelerated":
        return loopless(spectrum).gap
    return 1.0 - spectrum.lambda_2


def penalty_limit(network: Network, order: Order) -> float:
    """Four times the largest product of step and penalty; 2 on a time-varying network.

    It is the `tracking_limit`. Accelerated mixing takes its gap: the penalty's curvature, twice the
    penalty, slows the agreement of the normal directions down, and they need not be faster than it.
    """
    if order == "accelerated":
        return consensus_gap(network.spectrum, order)
    try:
        return tracking_limit(network.spectrum, order)
    except ValueError:
        return 2.0


def penalty_share(limit: float) -> float:
    """The product of step and automatic penalty: at most a quarter of the limit."""
    return min(0.1, limit / 4.0)


def push_pull_step(spectrum: PushPullSpectrum, late: bool = False) -> float:
    """The product of common step and curvature that ``auto`` aims at with A and B; ``late`` where
    the steps are not mixed."""
    limit = spectrum.late_limit if late else spectrum.limit
    return min(0.35 * limit, math.sqrt(1.0 - spectrum.sigma))


def tracking_share(spectrum: Spectrum, order: Order) -> float:
    """The share of the limit that ``auto`` aims at."""
    share = 0.35 if order == "adapt-then-combine" else 0.5
    return share * tracking_limit(spectrum, order)


def tracking_step(spectrum: Spectrum, order: Order) -> float:
    """The product of step and curvature that ``auto`` aims at: a share of the limit, at most the
    bound from consensus."""
    return min(tracking_share(spectrum, order), math.sqrt(consensus_gap(spectrum, order)))


def most_growth(gap: float, aim: float, cap: float = _CAP) -> float:
    """The largest m of tracking with one exchange, whose first step times curvature is ``aim``."""
    return round(6.0 * math.log2(cap * math.sqrt(gap) / aim))


def start(step_size: StepSize, n_local: int, automatic: Rule) -> tuple[Array, Array, int]:
    """The steps of iteration 0, the base steps that a schedule multiplies, each ``(n_local,)``, and
    the gradients spent.

    The base steps are given, or those of the ``automatic`` rule.
    """
    steps = schedule(step_size)
    spent = 0
    if steps.initial == "auto":
        base, spent = automatic()
    else:
        base = np.full(n_local, float(steps.initial))
    return base * steps.scale(0), base, spent


def given_or(setting: float | str, automatic: Array) -> Array:
    """The number of a setting for every agent, like ``automatic``, or that where the setting is
    auto."""
    if setting == "auto":
        return automatic
    return np.full(len(automatic), float(setting))


def curved_step(steep: Steepness, c: float, gap: float) -> Array:
    """The steps ``c / max(L, G)`` ``(n_local,)``, at most ``2 gap / G``, for methods whose points
    stay on a manifold.

    Until the trackers agree, the consensus error is of the order of ``step G / gap``. On a curved
    set, unlike in a linear space, agents that are too far apart do not reach consensus again.
    """
    return c / np.maximum(steep.lipschitz, max(1.0, c / (2.0 * gap)) * steep.multiplier)


def landing_scale(constraint: object) -> float:
    """The largest ratio of the set's landing field to half the Riemannian gradient, 1 on St(d,
    r)."""
    return constraint.landing_scale() if isinstance(constraint, ProductLanding) else 1.0


def landing_share(problem: object, c: float, batch_size: int | None = None) -> float:
    """The product c of automatic step and curvature, smaller where gradients stay large at a
    minimiser.

    Each step leaves the set by the square of its length, of which the penalty takes a fifth back.
    The variance of a batch's gradient falls as its size grows.
    """
    if isinstance(problem, Nonsmooth) and problem.nonsmooth:
        return min(c, _ROUGH)
    if batch_size is None:
        return c
    return min(c, _ROUGH * math.sqrt(batch_size))


class Aim(NamedTuple):
    """The product of step and curvature at which automatic steps aim; by default that of a single
    agent."""

    limit: float = 2.0
    """u, of which penalties take at most a quarter: the largest stable product, or the gap."""
    product: float = 0.7
    """c."""
    gain: float = 1.0
    """The factor by which the network makes steps longer."""


Aims = Callable[[], Aim]


def tracking_aim(network: Network, order: Order, step_size: StepSize) -> Aim:
    """The `Aim` of gradient tracking, for the penalty alone beside a given step."""
    if network.n_agents == 1:
        return Aim()
    if network.varies:
        product = cautious_step(network.joint_spectrum)
        return Aim(product / _CAUTIOUS, product)
    limit = penalty_limit(network, order)
    if schedule(step_size).initial != "auto":
        return Aim(limit)
    return Aim(limit, tracking_step(network.spectrum, order))


def cautious_step(joint: JointSpectrum) -> float:
    """The product of step and curvature that ``auto`` aims at on a network that changes or loses
    messages.

    It is half of what each round's matrix allows, and half of what the slowest mode does: sqrt(gap)
    for matrices that are drawn independently, and gap for others, beyond which tracking undoes the
    agreement of a window before the next begins.
    """
    slowest = math.sqrt(joint.gap) if joint.independent else joint.gap
    return _CAUTIOUS * min((1.0 + joint.lambda_min) ** 2 / 2.0, slowest)


def push_pull_aim(network: Network) -> Aim:
    """The `Aim` of push-pull, also for the penalty beside a given step."""
    if network.n_agents == 1:
        return Aim()
    found = network.push_pull_spectrum
    return Aim(found.limit, push_pull_step(found), found.gain)


def resolve(
    method: Declared,
    problem: P,
    network: Network,
    streams: Streams,
    x0: Array,
    aim: Aims = Aim,
    batch_size: int | None = None,
) -> Landed:
    """The base steps of a landing method and its penalties, each ``(n_local,)``, and the gradients
    spent.

    Automatic steps are ``2 c / Lhat`` (the landing direction is half the Riemannian gradient) with
    ``c = min(0.5 u, or 0.35 u for adapt-then-combine, sqrt(gap))`` and u the tracking limit; for a
    single agent u = 2 and c = 0.7. Where the set's landing field is s =
    ``landing_scale`` times as long, or the network has a gain s, all are divided by s.
    `with_penalties` has the penalties.

    Parameters
    ----------
    aim
        The function that finds u and c, called if the step or the penalty is automatic.
    batch_size
        The samples of each agent in a gradient; None for all.
    """
    found = aim() if "auto" in (schedule(method.step_size).initial, method.penalty) else Aim()
    scale = landing_scale(problem.constraint) * found.gain

    def automatic() -> Spent:
        mean, spent = curvature(problem, network, streams, x0)
        return 2.0 * landing_share(problem, found.product, batch_size) / (scale * mean), spent

    return with_penalties(method, len(x0), automatic, found.limit, scale)


def with_penalties(method: Declared, n: int, automatic: Rule, limit: float, scale: float) -> Landed:
    """The base steps of a landing method, given or ``automatic``, its penalties, and the gradients
    spent.

    Automatic penalties are ``min(0.1, u / 4) / step``, u the ``limit``, also beside a given step
    size; in paper 004's experiment that is ``0.1 / step_size``. Beside a given penalty, whose
    curvature is twice the penalty, automatic steps are at most ``u / (4 penalty)``. Both are
    divided by the ``scale`` of the landing field.
    """

    def bounded() -> Spent:
        base, spent = automatic()
        if method.penalty != "auto":
            base = np.minimum(base, limit / 4.0 / (scale * method.penalty))
        return base, spent

    _, base, spent = start(method.step_size, n, bounded)
    return base, given_or(method.penalty, penalty_share(limit) / (scale * base)), spent
