"""Tracked landing for agents that hold features: one round of mixing an iteration, on graphs that
change or lose messages too.

For the problem of `LOBPCG`, min -1/2 tr(x^T M x) on {x : x^T B x = I} with M = D^T J D and B = D^T
E D + diag(ridge): agent i holds the columns D_i and the rows x_i. It tracks T = D x and S = x^T
diag(ridge) x, of all agents, by one array [P_i; S_i]:

    G_i = -D_i^T J P_i,    b_i = D_i^T E P_i + ridge x_i,    N = P_i^T J P_i,    C = P_i^T E P_i + S_i                       (1)
    F_i = (G_i C + b_i N) / 2 + lambda b_i (C - I)                                                                           (2)
    v_i <- mu v_i - alpha B_ii^{-1} F_i,    x_i <- x_i + v_i,    B_ii the agent's own block of B                             (3)
    [P_i; S_i] <- sum_j W_ij ([P_j; S_j] + n [D_j x_j; x_j^T ridge x_j] - n (the same before the step))                      (4)

The mean of the P_i is T at all times, and that of the S_i is S, as W is doubly stochastic. (2) is
the landing field (Ablin & Peyre 2022; on {x : x^T B x = I} Vary et al. 2024) with G = -M x: as x^T
G = -T^T J T is a sum that every agent tracks, no agent needs x. Where the P_i agree, F = 0 means
x^T B x = I and M x = B x N.

    P_i, S_i   state.tracker        n D_i x_i, n x_i^T ridge x_i   state.field        v_i   state.velocity
    alpha      step_size            lambda   penalty               mu   momentum

Automatic settings, tried and not proved: L is the largest eigenvalue of M v = w B v, found by
LOBPCG, l the largest of all agents' own blocks of M against their B_ii, K that of P^{-1} B, P the
agents' blocks of B, and g the spectral gap of W. Then lambda = L / 4, and alpha = min(.5, .6 g L /
l) / L without momentum for PCA, half of that over K with mu = .9 otherwise; again half where
messages are lost. The sums of this start are exact, and counted. The first P_i and S_i are mixed
for several rounds, and the random x_i then multiplied by C^{-1/2}, so that x^T B x is about I.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from decentorth.algorithms.common import Auto, Method, fewest_rounds, given_or, mix
from decentorth.numerics.ordered_sums import norms
from decentorth.protocols import Array, Network, SplitFeatures, Streams
from decentorth.settings import Positive, Probability

from .lobpcg import LOBPCG, SplitProblem, forms, random_rows, ridge_products

_START = 1e-3
"""The share of the agents' differences that the first rounds of mixing leave."""
_START_ROUNDS = 100
"""The first rounds of mixing where the spectrum of W is not known, as it changes."""
_POWERS = 15
"""Iterations for the largest eigenvalues."""


class TrackedLandingState(NamedTuple):
    """The rows x and velocity, ``(n_local, most, r)``, and tracker and field, ``(n_local, k + r,
    r)``, P over S; step and penalty, ``(n_local,)``."""

    x: Array
    velocity: Array
    tracker: Array
    field: Array
    step_size: Array
    penalty: Array
    k: int
    gradients: int


P = SplitProblem
State = TrackedLandingState


@dataclass(frozen=True, kw_only=True)
class TrackedLanding(Method):
    """Landing with tracked sums for features split over agents: one round of mixing an iteration,
    also on graphs that change.

    Parameters
    ----------
    step_size
        alpha > 0, or auto: from the largest eigenvalue and the spectral gap of W.
    penalty
        lambda > 0 of the landing field, or auto.
    momentum
        mu, at least 0 and below 1, or auto: 0 for PCA, 0.9 otherwise.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((60, 24)) * np.geomspace(1, 0.1, 24)
    >>> problem = do.problems.SplitPCA(np.array_split(samples, 6, axis=1), 3)
    >>> method = do.TrackedLanding()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    requires: ClassVar[tuple[type, ...]] = (SplitFeatures,)
    sends: ClassVar[tuple[str, ...]] = ("tracker",)

    step_size: Positive | Auto = "auto"
    penalty: Positive | Auto = "auto"
    momentum: Probability | Auto = "auto"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        largest = spread = np.ones(len(x0))
        if "auto" in (self.step_size, self.penalty):
            largest, spread = _eigenvalues(problem, network, streams, LOBPCG())
        x = random_rows(problem, streams)
        field = _sums(problem, x)
        if self.step_size != "auto":
            steps = np.full(len(x0), self.step_size)
        else:
            gap = 1.0 - max(abs(network.spectrum.lambda_2), abs(network.spectrum.lambda_min))
            shares = np.minimum(0.5, 0.6 * gap * largest / _own_largest(problem, network, streams))
            halves = (not network.sums_exactly) + (not problem.plain)
            steps = 0.5**halves * shares / (spread * largest)
        penalties = given_or(self.penalty, 0.25 * largest)
        tracker = _mixed(network, field)
        r = x.shape[2]
        _, constraint = forms(problem, np.ascontiguousarray(tracker[:, :-r]), tracker[:, -r:])
        sizes, vectors = np.linalg.eigh(constraint)
        sizes = np.maximum(sizes, 1e-6 * sizes[:, -1:])
        x = x @ (vectors @ (vectors.transpose(0, 2, 1) / np.sqrt(sizes)[:, :, None]))
        field = _sums(problem, x)
        return State(x, np.zeros_like(x), _mixed(network, field), field, steps, penalties, 0, 0)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        x, velocity, tracker, field, step, penalty, k, gradients = state
        momentum = self.momentum
        if momentum == "auto":
            momentum = 0.9 * (not problem.plain)
        r = x.shape[2]
        image = np.ascontiguousarray(tracker[:, :-r])
        objective, constraint = forms(problem, image, tracker[:, -r:])  # (1)
        g = -problem.adjoint(problem.objective_rows(image))
        b = problem.adjoint(problem.constraint_rows(image)) + problem.ridge * x
        # (2)
        landing = 0.5 * (g @ constraint + b @ objective) + penalty[:, None, None] * (
            b @ (constraint - np.eye(r))
        )
        velocity = momentum * velocity - step[:, None, None] * problem.precondition(landing)
        x = x + velocity  # (3)
        fresh = _sums(problem, x)
        (tracker,) = network.mix(tracker + (fresh - field))  # (4)
        return State(x, velocity, tracker, fresh, step, penalty, k + 1, gradients + 1)


def _eigenvalues(
    problem: P, network: Network, streams: Streams, method: LOBPCG
) -> tuple[Array, Array]:
    """``(n_local,)`` each: estimates from below of the largest eigenvalue of the pencil, and of
    that of P^{-1} B, 1 for PCA."""
    x = np.ascontiguousarray(random_rows(problem, streams)[:, :, :1])
    state = method.begun(problem, network, x)
    for _ in range(_POWERS):
        state = method.step(problem, network, streams, state)
    spread = np.ones(len(x))
    for _ in range(0 if problem.plain else _POWERS):
        own = problem.products(x)
        weight = ridge_products(problem, x)
        image, gram, size = network.total(
            own, weight, weight + own.transpose(0, 2, 1) @ problem.constraint_rows(own)
        )
        spread = ((image.transpose(0, 2, 1) @ problem.constraint_rows(image) + gram) / size)[
            :, 0, 0
        ]
        x = problem.precondition(
            problem.adjoint(problem.constraint_rows(image)) + problem.ridge * x
        ) / np.sqrt(size)
    largest = state.values[:, 0]
    return np.where(largest > 0.0, largest, 1.0), spread


def _own_largest(problem: P, network: Network, streams: Streams) -> Array:
    """``(n_local,)``: the largest over all agents of an estimate of the largest eigenvalue of its
    block of M against its B_ii."""
    y = random_rows(problem, streams)[:, :, :1]
    size = np.ones(problem.n_local)
    for _ in range(_POWERS):
        y = problem.precondition(problem.adjoint(problem.objective_rows(problem.products(y))))
        size = np.maximum(norms(y), np.finfo(np.float64).tiny)
        y = y / size[:, None, None]
    here = np.arange(problem.n_agents)[problem.agents, None] == np.arange(problem.n_agents)
    (every,) = network.total(here * size[:, None])
    return every.max(axis=1)


def _sums(problem: P, x: Array) -> Array:
    """``(n_local, k + r, r)``: n D_i x_i over n x_i^T diag(ridge) x_i, whose means over the agents
    are the sums."""
    return problem.n_agents * np.concatenate(
        (problem.products(x), ridge_products(problem, x)), axis=1
    )


def _mixed(network: Network, x: Array) -> Array:
    """The arrays after rounds that bring the agents near their mean, and keep it."""
    try:
        rounds = fewest_rounds(network.spectrum, _START, True)
        chebyshev = True
    except ValueError:  # a time-varying network has no eigenvalues
        rounds = _START_ROUNDS
        chebyshev = False
    (mixed,) = mix(network, rounds, chebyshev, x)
    return mixed
