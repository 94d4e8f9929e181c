"""DESTINY: decentralized Stiefel optimization by an approximate augmented Lagrangian, without
retractions.

Wang & Liu, "Decentralized optimization over the Stiefel manifold by an approximate augmented
Lagrangian function", IEEE Trans. Signal Process. 2022. From a common start X_i(0) = X_0 and
D_i(0) = H_i(X_i(0)), every agent repeats

    X_i <- sum_j W_ij X_j - eta D_i                                                    (1)
    D_i <- sum_j W_ij D_j + H_i(new X_i) - H_i(old X_i)                                (2)
    H_i(X) = G_i(Y) (3I - X^T X)/2 - X sym(X^T G_i(Y)) + beta X (X^T X - I)            (3)

Both sums use the values of the same iteration, so one message per neighbour carries X and D. The
gradient in (3) is taken

- ``variant="direct"``: at Y = X, where it is known anyway. H_i is the gradient of the augmented
  Lagrangian f_i(X) - <sym(X^T G_i(X)), X^T X - I>/2 + beta/4 ||X^T X - I||_F^2 without the term
  that has the Hessian of f_i;
- ``variant="dissolved"``: at Y = X (3I - X^T X)/2. H_i is the gradient of f_i(Y) + beta/4 ||X^T X -
  I||_F^2 (Xiao, Liu & Toh, "Dissolving constraints for Riemannian optimization", 2023).

On the manifold both are P_X(G_i), the Riemannian gradient; DRFGT's landing field has half of it.

    W_ij    network.mix             eta     step_size  (n_local,)
    X_i     state.x                 beta    penalty    (n_local,)
    D_i     state.tracker           H_i     constraint.dissolved(x, gradient, penalty), state.field
    Y       constraint.dissolve(x)

The paper's text was not at hand: which of the two gradients it takes, and its order of mixing, are
not verified. Its promises, a merit function that falls and least squared errors of order 1/K, are
tested for all four (``tests/.../test_theorems.py``). ``order="adapt-then-combine"`` is X_i <- sum_j
W_ij (X_j - eta D_j), and the same for D; ``safe=True`` (see `safe`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, cast, runtime_checkable

import numpy as np

from ...numerics.ordered_sums import subtract_scaled
from ...protocols import Array, Network, Oracle, Problem, Spectrum, Streams
from ..common import (
    Momenta,
    blockwise,
    following,
    mix_loopless,
    refresh,
    schedule,
    steepness,
)
from ..common.automatic_steps import (
    Order,
    consensus_gap,
    curved_step,
    given_or,
    landing_share,
    penalty_limit,
    penalty_share,
    tracking_limit,
)
from .tracking import PenalisedState as State
from .tracking import PenalisedTracking

Variant = Literal["direct", "dissolved"]


@runtime_checkable
class Dissolvable(Protocol):
    """A penalised set with a smooth map A of the space onto itself that fixes its points and,
    there, flattens what leaves it."""

    def dissolve(self, x: Array) -> Array:
        """The image A(x), fresh."""

    def dissolved(self, x: Array, g: Array, penalty: Array) -> Array:
        """The gradient ``DA(x)^T g + penalty grad p(x)`` of f(A(x)) + penalty p(x), where ``g`` is
        the gradient of f at A(x)."""


P = Problem[Dissolvable]


@dataclass(frozen=True, kw_only=True)
class DESTINY(PenalisedTracking):
    """Decentralized Stiefel optimization by an approximate augmented Lagrangian (Wang & Liu 2022).

    Parameters
    ----------
    penalty
        beta > 0 (about 1 in the paper's experiments, whose objectives are scaled), or auto: from
        the agents' Lipschitz constants, and 0.1 / step_size beside a given step_size, smaller on
        sparse graphs.
    variant
        Where gradients are taken: direct, at the iterate; dissolved, at the iterate x (3I - x^T
        x)/2, nearer to the manifold.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DESTINY()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (Dissolvable,)

    variant: Variant = "direct"

    def aim(self, spectrum: Spectrum, order: Order) -> float:
        """The target product of step and M for an automatic penalty: a seventh of `_share`, at most
        sqrt(gap)."""
        return min(_share(spectrum, order) / 7.0, math.sqrt(consensus_gap(spectrum, order)))

    @property
    def penalty_follows(self) -> bool:
        """True if the penalty is a multiple of 1 / step."""
        return self.penalty == "auto" and schedule(self.step_size).initial != "auto"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        base, penalty, spent = self._constants(problem, network, streams, x0)
        field = blockwise(self.field, self.oracle(problem, streams, 0), x0, penalty)
        step = base * schedule(self.step_size).scale(0)
        x = x0.copy()
        tracker = field.copy()
        momenta = self.at_rest(x0)
        return State(x, tracker, field, step, base, penalty, 0, spent + 1, momenta)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        f = self.oracle(problem, streams, state.k + 1)
        alpha = state.step_size
        d = state.tracker
        momenta = state.momenta
        if self.order == "accelerated":
            # x_i <- sum_j V_ij (p_j + eta u_j),  p_i = x_i - alpha d_i
            p = state.x - alpha[:, None, None] * d
            x, mixed = mix_loopless(network, p, d, momenta)
            momenta = Momenta(x - p, mixed - d)
            # d_i <- sum_j V_ij (d_j + eta v_j) + H_i(new x_i) - H_i(old x_i)
            field = refresh(self.field, f, x, mixed, state.field, state.penalty)
        elif self.order == "combine-then-adapt":
            x, mixed = network.mix(state.x, d)
            # x_i <- sum_j W_ij x_j - alpha d_i  (1)
            subtract_scaled(alpha, d, x)
            # d_i <- sum_j W_ij d_j + H_i(new x_i) - H_i(old x_i)  (2)
            field = refresh(self.field, f, x, mixed, state.field, state.penalty)
        else:
            # x_i <- sum_j W_ij (x_j - alpha d_j)
            (x,) = network.mix(state.x - alpha[:, None, None] * d)
            # d_i <- sum_j W_ij (d_j + H_j(new x_j) - H_j(old x_j))
            field = refresh(self.field, f, x, d, state.field, state.penalty)
            (mixed,) = network.mix(d)
        step = following(self.step_size, state)
        k = state.k + 1
        spent = state.gradients + 1
        return State(x, mixed, field, step, state.base, state.penalty, k, spent, momenta)

    def field(self, problem: Oracle[Dissolvable], x: Array, penalty: Array) -> Array:
        """The field H_i (3), with the gradient at x or at the point A(x) nearer to the manifold."""
        constraint = problem.constraint
        gradient = problem.gradient(x if self.variant == "direct" else constraint.dissolve(x))
        return constraint.dissolved(x, gradient, penalty)

    def _constants(
        self, problem: P, network: Network, streams: Streams, x0: Array
    ) -> tuple[Array, Array, int]:
        """The first steps, the penalties, and the gradients spent.

        In the directions off the manifold H_i grows at a stationary point by 2 beta - 3 (m_j +
        m_k)/2, with the eigenvalues m of sym(X^T G). With M at least their size, beta = 2 M leaves
        between M and 7 M, and steps of `_product` / M are stable.
        """
        steps = schedule(self.step_size)
        order = cast(Order, self.order)
        if steps.initial != "auto":
            base = np.full(len(x0), float(steps.initial))
            automatic = penalty_share(penalty_limit(network, order)) / base
            return base, given_or(self.penalty, automatic), 0
        steep, spent = steepness(problem, network, streams, x0)
        most = np.maximum(*steep)
        c = landing_share(problem, self.aim(network.spectrum, order), self.batch_size)
        base = curved_step(steep, c, self.gap(network.spectrum))
        penalty = given_or(self.penalty, 2.0 * most)
        if self.penalty != "auto":
            base = np.minimum(base, _share(network.spectrum, order) / (2.0 * penalty + 3.0 * most))
        return base / steps.most, penalty, spent


def _share(spectrum: Spectrum, order: Order) -> float:
    """The automatic share, 0.8, of the tracking limit."""
    return 0.8 * tracking_limit(spectrum, order)
