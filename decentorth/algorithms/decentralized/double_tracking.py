"""Double tracking: the common parts of methods on {x : x^T B x = I} with B = (1/n) sum_i B_i, where
agent i knows only B_i.

No agent alone can check if its point is feasible. So each keeps two trackers, d_i of the product
B x and g_i of the gradient, and computes its field F from them. With P_i a preconditioner
(`preconditioning`) and m the momentum it repeats

    x_i <- sum_j W_ij (x_j - alpha_j P_j F(x_j, g_j, d_j)) + m (x_i - previous x_i)                 (1)
    d_i <- sum_j W_ij d_j + B_i (new x_i - old x_i)                                                 (2)
    g_i <- sum_j W_ij g_j + G_i(new a_i) - G_i(old a_i),   a_i = A(x_i, d_i)                        (3)

x, g and d travel in one message per neighbour. The means of the trackers stay the means of B_i x_i
and G_i(a_i). Where the agents rest, g_i and d_i are those means, and F = 0 at their common point,
whatever P_i > 0, alpha_i > 0 and m.

In (1) the points step before they are mixed and the trackers change after. So one exchange is
enough for the product of step and curvature to be up to `heavy_ball_limit`, for m = 0 min(2, (1 -
w^2)/|w|) with w the smallest eigenvalue of W, if that is negative; the orders of `tracking` allow
(1 + w)^2 / 2 with one exchange, or 2 with two. m > 0 is heavy-ball momentum (Polyak 1964), which
needs no exchange either.

Before the start, the agents average in counted rounds: the quantities that P needs; B Z, by which
any x_0 = Z of full rank becomes the feasible Z (Z^T B Z)^{-1/2}, unless it is feasible already
(||x^T B x - I|| <= 0.1); and d_i and g_i. So no agent needs to know a feasible point: a set's
``random`` makes one from Z and B, the agents do it without knowing B. Since the trackers agree at
the start, the first steps can be as long as the last. Automatic steps are

    alpha = (1 - m) min(0.35 u, c min(1, 0.22 (1 + m)/(1 - m)) sqrt(1 - lambda_2)) / Lhat

with u `heavy_ball_limit`, c the method's `gap_share`, and Lhat the fourth-power mean of max(L_i, M
beta_i). L_i and beta_i are the largest curvature of f_i and the largest eigenvalue of B_i in the
metric tr(u^T P^{-1} v), and M = 1.5 ||sym(y^T G(y))||_2 at the feasible y = P G(x_0) S stands for
the largest multiplier at a solution. Automatic penalties are multiples of M. Beside a given
penalty, rho times the automatic one, M in Lhat is at least rho M, so that the step times the
penalty is what it is beside the automatic one; and with rho < 1 the step is multiplied by
max(sqrt(rho), `soft`): momentum makes points leave the set that a small penalty is slow to bring
back. The factors are measured, on canonical correlations and eigenvalue problems, over rings,
paths, stars, complete and random graphs.

    W_ij   network.mix         x_i   state.x         G_i(a_i), g_i   state.field, state.tracker
    m      momentum            P_i   state.weights, state.basis      B_i x_i, d_i    state.product, state.product_tracker
    alpha  step_size           previous x_i          state.before
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from ...protocols import (
    Array,
    LocalProducts,
    Network,
    Problem,
    Spectrum,
    Streams,
    TrackedProducts,
    Two,
)
from ...settings import Count, Positive, Probability
from ..common import (
    Auto,
    Method,
    average,
    blockwise,
    changed,
    given_or,
    gradient,
    power_mean,
    power_method,
)
from .preconditioning import Kind, Preconditioner, preconditioner, probe

_AGREED = 1e-8
"""The agents' accuracy in averaging the quantities that determine P."""
_CLOSE = 1e-3
"""The accuracy to which the trackers agree at the start."""
_ROUGHLY = 1e-2
"""The agents' accuracy in averaging the quantities that determine the automatic step."""
_FEASIBLE = 0.1
"""A start that is this near to the set is left as it is."""


class DoubleTrackingState(NamedTuple):
    """The changing arrays x, before (x an iteration ago), tracker (g) and field (the own gradient),
    product_tracker (d) and product (the own B_i x_i), each ``(n_local, d, p)``; the constant
    step_size, penalty ``(n_local,)`` and preconditioner, weights ``(n_local, d)`` and basis
    ``(n_local, d, s)``."""

    x: Array
    before: Array
    tracker: Array
    field: Array
    product_tracker: Array
    product: Array
    step_size: Array
    penalty: Array
    weights: Array
    basis: Array
    k: int
    gradients: int


class DistributedProblem(Problem[TrackedProducts], LocalProducts, Protocol):
    """A problem whose agents each know a part of the constraint's B, on a set that uses their
    products with B."""


P = DistributedProblem
State = DoubleTrackingState


@dataclass(frozen=True, kw_only=True)
class DoubleTracking(Method, ABC):
    """A method with both trackers; each subclass defines its field.

    Parameters
    ----------
    step_size
        alpha > 0, or auto: from the agents' curvatures in the metric of the preconditioner, the
        spectrum of W and a given penalty.
    penalty
        The weight of infeasibility, above 0, or auto: from the multiplier.
    momentum
        Heavy-ball momentum.
    preconditioner
        The part of B that the agents average before the start: sketch (its products with a few
        random columns), diagonal, none, or covariance (all of B, which every agent then knows).
    sketch_columns
        Columns of the sketch; by default twelve times those of a point, and at most half of those
        of B.
    """

    requires: ClassVar[tuple[type, ...]] = (LocalProducts,)
    requires_set: ClassVar[tuple[type, ...]] = (TrackedProducts,)
    penalties: ClassVar[float]
    """The automatic penalty as a multiple of M."""
    gap_share: ClassVar[float]
    """The constant c of the automatic step."""
    soft: ClassVar[float] = 1.0
    """The share of the automatic step that remains with the smallest penalties."""

    step_size: Positive | Auto = "auto"
    penalty: Positive | Auto = "auto"
    momentum: Probability = 0.9
    preconditioner: Kind = "sketch"
    sketch_columns: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sketch_columns is not None and self.preconditioner != "sketch":
            raise ValueError(
                f"sketch_columns needs preconditioner 'sketch', got {self.preconditioner!r}"
            )

    @abstractmethod
    def _point(self, constraint: TrackedProducts, x: Array, bx: Array) -> Array:
        """The point A(x, d) at which gradients are taken."""

    @abstractmethod
    def _field(
        self, constraint: TrackedProducts, x: Array, g: Array, bx: Array, penalty: Array
    ) -> Array:
        """The field F(x, g, d), fresh."""

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        x, metric = self._prepared(problem, network, streams, x0)
        own = blockwise(gradient, problem, x), blockwise(_product, problem, x)
        g, d = average(network, np.stack(own, axis=1), _CLOSE).swapaxes(0, 1)
        step, penalty, spent = self._constants(problem, network, streams, x, own, g, metric)
        field = blockwise(self._own, problem, x, d)
        d = np.ascontiguousarray(d)
        tracker = g + (field - own[0])
        return State(x, x.copy(), tracker, field, d, own[1], step, penalty, *metric, 0, spent + 2)

    def _own(self, problem: P, x: Array, d: Array) -> Array:
        """The gradients G_i(a_i)."""
        return problem.gradient(self._point(problem.constraint, x, d))

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        moved = np.empty_like(state.x)
        for block, part in problem.blocks():
            x = state.x[block]
            g = state.tracker[block]
            d = state.product_tracker[block]
            metric = Preconditioner(state.weights[block], state.basis[block])
            field = self._field(part.constraint, x, g, d, state.penalty[block])
            field = metric.apply(part.constraint.rows, field)
            field *= state.step_size[block, None, None]
            np.subtract(x, field, out=moved[block])
        mixed, tracker, products = network.mix(moved, state.tracker, state.product_tracker)
        for block, part in problem.blocks():
            x = mixed[block]
            before = state.before[block]
            d = products[block]
            g = tracker[block]
            np.subtract(state.x[block], before, out=before)
            before *= self.momentum
            x += before  # (1)
            _exchange(state.product[block], part.local_product(x), d)  # (2)
            _exchange(state.field[block], self._own(part, x, d), g)  # (3)
        mine = {"x": mixed, "before": state.x, "tracker": tracker, "product_tracker": products}
        return changed(state, **mine, k=state.k + 1, gradients=state.gradients + 1)

    def _prepared(
        self, problem: P, network: Network, streams: Streams, x0: Array
    ) -> tuple[Array, Preconditioner]:
        """The start, made feasible, and the preconditioner."""
        constraint = problem.constraint
        p = x0.shape[-1]
        omega = probe(self.preconditioner, self.sketch_columns, constraint.rows, p, streams)
        points = np.concatenate((x0, np.broadcast_to(omega, (len(x0), *omega.shape))), axis=-1)
        own = blockwise(_product, problem, points), problem.local_diagonal()[:, :, None]
        means = average(network, np.concatenate(own, axis=-1), _AGREED)
        bx = np.ascontiguousarray(means[..., :p])
        images = means[..., p:-1]
        diagonal = means[..., -1]
        metric = preconditioner(self.preconditioner, constraint.rows, diagonal, omega, images)
        near = constraint.feasibility(x0, bx) <= _FEASIBLE
        return np.where(near[:, None, None], x0, constraint.retract_with(x0, bx)[0]), metric

    def _constants(
        self,
        problem: P,
        network: Network,
        streams: Streams,
        x: Array,
        own: Two,
        g: Array,
        metric: Preconditioner,
    ) -> tuple[Array, Array, int]:
        """The steps and penalties ``(n_local,)``, and the gradients spent; ``own`` are the own
        gradients and B_i x_i."""
        constraint = problem.constraint
        nothing = np.full(len(x), np.nan)
        step = given_or(self.step_size, nothing)
        penalty = given_or(self.penalty, nothing)
        if "auto" not in (self.step_size, self.penalty):
            return step, penalty, 0

        def solve(y: Array) -> Array:
            return metric.apply(constraint.rows, y)

        y = solve(g)
        by = average(network, problem.local_product(y), _ROUGHLY)
        nearest, _ = constraint.retract_with(y, by)
        nearest = np.where(np.isfinite(nearest).all((-2, -1), keepdims=True), nearest, x)
        mean = average(network, problem.gradient(nearest), _ROUGHLY)
        multiplier = 1.5 * constraint.multiplier_norm(nearest, mean, "natural")
        spent = 0
        penalty = given_or(self.penalty, self.penalties * multiplier)
        if self.step_size == "auto":
            curved, spent = power_method(problem.gradient, streams, x, own[0], solve)
            largest, _ = power_method(problem.local_product, streams, x, own[1], solve)
            spectrum = network.spectrum if network.n_agents > 1 else Spectrum(0.0, 0.0)
            m = self.momentum
            share = self.gap_share * min(1.0, 0.22 * (1.0 + m) / (1.0 - m))
            apart = share * math.sqrt(1.0 - spectrum.lambda_2)
            aim = (1.0 - m) * min(0.35 * heavy_ball_limit(spectrum, m), apart)
            relative = np.ones(len(x))
            if self.penalty != "auto":
                relative = penalty / (self.penalties * multiplier)
            pull = np.maximum(relative, 1.0) * multiplier * largest
            steepest = power_mean(network, np.maximum(curved, pull))
            step = aim * np.clip(np.sqrt(relative), self.soft, 1.0) / steepest
        return step, penalty, spent + 1


def heavy_ball_limit(spectrum: Spectrum, momentum: float) -> float:
    """The largest stable product of step / (1 - m) and curvature for (1)-(3) if the agents are
    equal.

    It is 2 (1 + m)/(1 - m), as for one agent, and (1 - w^2 (1 - m)/(1 + |w| m))/|w| for an
    eigenvalue w < 0 of W: with the product a of step and curvature, (z - w)(z^2 - (w + m) z + m) +
    w a z (z - 1) has its roots in the unit circle (Jury's criterion).
    """
    size = max(-spectrum.lambda_min, 0.0)
    alone = 2.0 * (1.0 + momentum) / (1.0 - momentum)
    if size <= 0.0:
        return alone
    kept = 1.0 - size * size * (1.0 - momentum) / (1.0 + size * momentum)
    return min(alone, kept / size)


def _product(problem: P, x: Array) -> Array:
    return problem.local_product(x)


def _exchange(own: Array, new: Array, tracker: Array) -> None:
    """Set ``tracker += new - own`` and ``own = new``, in place."""
    tracker += new
    tracker -= own
    own[...] = new
