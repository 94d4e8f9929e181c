"""RF-EXTRA: EXTRA without retractions, along the landing field; only points are sent.

"A retraction-free EXTRA method for decentralized optimization on the Stiefel manifold", 2026 (arXiv 2604.23754), here with the
landing field Lambda_i of paper 004 as the direction. From a common start and u_i = 0, every agent repeats

    x_i <- sum_j W_ij x_j + u_i - alpha Lambda_i(x_i)                                  (1)
    u_i <- u_i + (sum_j W_ij x_j - x_i)/2                                              (2)

with the old points on the right: REXTRA without its projection (`extra`). Where the points agree and stand still,
sum_i Lambda_i = 0: a critical point on the manifold, since the two parts of Lambda are orthogonal.

    W_ij    network.mix             alpha   step_size  (n_local,), equal on all agents
    x_i     state.x                 lambda  penalty    (n_local,)
    u_i     state.dual              Lambda  constraint.landing(x, gradient, penalty)

The paper's text was not at hand; fixed points, exchanges and the linear rate are tested (``test_theorems.py``).
An iteration sends half the bytes of DRFGT, which sends its trackers too. With one agent it is the landing algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...protocols import Array, Landing, Network, Problem, Streams
from ..common.automatic_steps import given_or, landing_scale
from ..common.fields import blockwise, landing
from ..common.schedules import LandingPenalty
from .extra import Extra, step_along_landing


class RFEXTRAState(NamedTuple):
    """The changing arrays x and dual (u), each ``(n_local, d, r)``, and the constant step_size and penalty, ``(n_local,)``."""

    x: Array
    dual: Array
    step_size: Array
    penalty: Array
    k: int
    gradients: int
    progress: Any = ()
    """Progress of growing steps."""


@dataclass(frozen=True, kw_only=True)
class RFEXTRA(Extra):
    """Retraction-free EXTRA along the landing field: exact with a constant step, half the bytes of DRFGT."""

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    on_devices: ClassVar[bool] = True

    penalty: LandingPenalty = "auto"

    @property
    def follows(self) -> bool:
        """True if the penalty is a multiple of 1 / step."""
        return self.penalty == "auto"

    def init(self, problem: Problem[Landing], network: Network, streams: Streams, x0: Array) -> RFEXTRAState:
        step, spent = step_along_landing(self.step_size, self.penalty, problem, network, streams, x0)
        penalty = given_or(self.penalty, 0.1 / (landing_scale(problem.constraint) * step))
        return RFEXTRAState(x0.copy(), np.zeros_like(x0), step, penalty, 0, spent)

    def step(self, problem: Problem[Landing], network: Network, streams: Streams, state: RFEXTRAState) -> RFEXTRAState:
        (mixed,) = network.mix(state.x)

        def moved(part: Problem[Landing], x: Array, mixed: Array, u: Array, alpha: Array, penalty: Array) -> Array:
            point = mixed - alpha[:, None, None] * landing(part, x, penalty) + u  # (1)
            u += 0.5 * (mixed - x)  # (2)
            return point

        x = blockwise(moved, problem, state.x, mixed, state.dual, state.step_size, state.penalty)
        return state._replace(x=x, k=state.k + 1, gradients=state.gradients + 1)
