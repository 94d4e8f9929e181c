"""Gradient tracking in Euclidean space: a baseline without a constraint, or with a soft one.

Nedic, Olshevsky & Shi, "Achieving geometric convergence for distributed optimization over
time-varying graphs", SIAM J. Optim. 2017 (DIGing); Qu & Li, "Harnessing smoothness to accelerate
distributed optimization", 2018. From a common start x_i(0) = x_0 and y_i(0) = F_i(x_i(0)), every
agent repeats

    x_i <- sum_j W_ij x_j - alpha y_i                                                  (1)
    y_i <- sum_j W_ij y_j + F_i(new x_i) - F_i(old x_i)                                (2)

with F_i(x) = G_i(x) + lambda x (x^T x - I), the Euclidean gradient of f_i + lambda/4 ||x^T x -
I||_F^2; lambda = 0 leaves the gradient of f_i. Both sums use the values of the same iteration, so
one message per neighbour carries x and y.

    W_ij    network.mix             alpha   step_size  (n_local,)
    x_i     state.x                 lambda  penalty
    y_i     state.tracker           F_i     constraint.penalised(x, gradient, penalty), state.field

Nothing brings the points to the constraint set: the metrics project the agents' mean, and report
the feasibility of the points as it is. Without a penalty the points go to a minimiser of the
unconstrained problem (PCA has none); with one, to a minimiser of the penalised problem, at a
distance of order 1/lambda from the set. The other orders are those of DRFGT.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from ...numerics.ordered_sums import subtract_scaled
from ...protocols import Array, Network, Oracle, Problem, Streams
from ..common import (
    Momenta,
    Ordered,
    Soft,
    blockwise,
    following,
    mix_loopless,
    refresh,
    schedule,
    soft,
    steepness,
)
from ..common.automatic_steps import Order, start, tracking_share
from .tracking import TrackingState as State

P = Problem[object]


@dataclass(frozen=True, kw_only=True)
class GradientTracking(Ordered, Soft):
    """Gradient tracking in Euclidean space (DIGing), the control without a constraint.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.GradientTracking(penalty=2.0, step_size=1e-2)
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    gradient_factor: ClassVar[float] = 1.0
    on_devices: ClassVar[bool] = True

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        def automatic() -> tuple[Array, int]:
            steep, spent = steepness(problem, network, streams, x0)
            slow = fast = steep.lipschitz
            if self.penalty > 0.0:  # where the sum is least, lambda (x^T x - I) is -sym(x^T G)
                slow, fast = np.maximum(*steep), slow + 3.0 * steep.multiplier + 2.0 * self.penalty
            share = 0.7
            root = math.sqrt(self.gap(network.spectrum))
            if network.n_agents > 1:
                share = tracking_share(network.spectrum, cast(Order, self.order))
            return np.minimum(share / fast, root / slow) / schedule(self.step_size).most, spent

        step, base, spent = start(self.step_size, len(x0), automatic)
        field = blockwise(self._field, self.oracle(problem, streams, 0), x0)
        momenta = self.at_rest(x0)
        return State(x0.copy(), field.copy(), field, step, base, 0, spent + 1, momenta)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        f = self.oracle(problem, streams, state.k + 1)
        alpha = state.step_size
        y = state.tracker
        momenta = state.momenta
        if self.order == "accelerated":
            # x_i <- sum_j V_ij (p_j + eta u_j),  p_i = x_i - alpha y_i
            p = state.x - alpha[:, None, None] * y
            x, mixed = mix_loopless(network, p, y, momenta)
            momenta = Momenta(x - p, mixed - y)
            # y_i <- sum_j V_ij (y_j + eta v_j) + F_i(new x_i) - F_i(old x_i)
            field = refresh(self._field, f, x, mixed, state.field)
        elif self.order == "combine-then-adapt":
            x, mixed = network.mix(state.x, y)
            # x_i <- sum_j W_ij x_j - alpha y_i  (1)
            subtract_scaled(alpha, y, x)
            # y_i <- sum_j W_ij y_j + F_i(new x_i) - F_i(old x_i)  (2)
            field = refresh(self._field, f, x, mixed, state.field)
        else:
            # x_i <- sum_j W_ij (x_j - alpha y_j)
            (x,) = network.mix(state.x - alpha[:, None, None] * y)
            # y_i <- sum_j W_ij (y_j + F_j(new x_j) - F_j(old x_j))
            field = refresh(self._field, f, x, y, state.field)
            (mixed,) = network.mix(y)
        step = following(self.step_size, state)
        k = state.k + 1
        return State(x, mixed, field, step, state.base, k, state.gradients + 1, momenta)

    def _field(self, problem: Oracle[object], x: Array) -> Array:
        """The gradient F_i."""
        return soft(problem, x, self.penalty)
