"""The landing algorithm: centralized, retraction-free.

Ablin & Peyre, "Fast and accurate optimization on the orthogonal manifold without retraction",
AISTATS 2022; paper 004 (Sun, Chen, Garcia, Shahrampour), equation (4):

    x <- x - eta Lambda(x),    Lambda(x) = skew(G x^T) x + lambda x (x^T x - I)

    eta     step_size               lambda  penalty
    x       state.x                 Lambda  constraint.landing(x, gradient, penalty)

``safe=True`` takes min(eta, eta_max(x)) with the largest step proved to keep ||x^T x - I||_F <= eps
(`Stiefel.safe_step`). DRFGT with one agent is this method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...protocols import Array, Network, Problem, Streams
from ...protocols import Landing as CanLand
from ..common import LandingPenalty, Measuring, landing, measured, resolve, schedule
from ..decentralized.safe import Eps


class LandingState(NamedTuple):
    """The point x and field (Lambda at x), each ``(1, d, r)``; the step, the first step, and the
    penalty, each ``(1,)``."""

    x: Array
    field: Array
    step_size: Array
    base: Array
    penalty: Array
    k: int
    gradients: int


P = Problem[CanLand]
State = LandingState


@dataclass(frozen=True, kw_only=True)
class Landing(Measuring):
    """The landing algorithm for a single agent (Ablin & Peyre 2022).

    Parameters
    ----------
    safe
        Shorten steps where needed to stay within eps of the manifold.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.Landing()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (CanLand,)
    on_devices: ClassVar[bool] = True

    penalty: LandingPenalty = "auto"
    safe: bool = False
    eps: Eps = 0.5

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        base, penalty, spent = resolve(
            self, problem, network, streams, x0, batch_size=self.batch_size
        )
        step = base * schedule(self.step_size).scale(0)
        field = landing(self.oracle(problem, streams, 0), x0, penalty)
        return State(x0.copy(), field, step, base, penalty, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        k = state.k + 1
        eta = state.step_size
        if self.safe:
            safe = problem.constraint.safe_step(state.x, state.field, state.penalty, self.eps)
            eta = np.minimum(eta, safe)
        x = state.x - eta[:, None, None] * state.field  # (4)
        field = landing(self.oracle(problem, streams, k), x, state.penalty)
        step_size = measured(self.step_size, state, x, field)
        return State(x, field, step_size, state.base, state.penalty, k, state.gradients + 1)
