"""DDRS: decentralized Douglas-Rachford splitting, with tracked reflections and inner gradient
steps.

After the abstract of Deng, Hu, Wang, "Decentralized Douglas-Rachford splitting methods for smooth
optimization over compact submanifolds", 2023 (arXiv 2311.16399): nonconvex Douglas-Rachford
splitting with tracking and a projection, and a form without closed proximal points of f_i. The text
was not at hand; this is that form, derived from the splitting of sum_i f_i(x_i) and of the set of
points that agree and are feasible. From a common feasible start, with z_i = x_0 + gamma G_i(x_0)
and d_i = s_i = x_0 - gamma G_i(x_0), every agent repeats

    z_i <- z_i + x_i - u_i                                                              (1)
    u_i <- u_i - (2/3)(gamma G_i(u_i) + u_i - z_i)      J times                         (2)
    d_i <- sum_j V_ij (d_j + new s_j - old s_j),        s_i = 2 u_i - z_i               (3)
    x_i <- P_M(d_i)                                                                     (4)

The steps (2) lead from the last u_i to the proximal point of gamma f_i at z_i, which is unique
where gamma L_i < 1. Step (3) tracks the mean of the reflections s_i, by V = (I + W^t)/2: with a V
that has an eigenvalue below -1/3, (3) is unstable. Where all rests, u_i = x_i, z_i = x_i + gamma
G_i(x_i), and d_i = x - gamma times the mean gradient, so that x is stationary, with a constant
gamma. One array is sent, half of what trackers of gradients need beside x, for J gradients.

    W^t   network.mix, rounds t     gamma  step_size  (n_local,)    d_i  state.tracker
    x_i   state.x                   J      inner_steps              s_i  state.field
    z_i   state.center              P_M    constraint.project       u_i  (s_i + z_i)/2

Automatic steps have gamma L = min(0.35, sqrt(gap of V)), found by experiments: exact proximal
points lead agents apart above gamma L_i = 1/2. The bounds of `shared_step` apply too. All agents
have one gamma, since d_i weighs each G_i by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from ...protocols import Array, Network, Projection, Streams
from ...settings import Count
from ..common import ConstantStepSize, Mixing, agreed, blockwise, gradient, start
from .tracking import Manifold


class DDRSState(NamedTuple):
    """The arrays that change are x, tracker (d), field (s) and center (z), each ``(n_local, d,
    r)``; step_size (gamma) ``(n_local,)`` does not."""

    x: Array
    tracker: Array
    field: Array
    center: Array
    step_size: Array
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class DDRS(Mixing):
    """Decentralized Douglas-Rachford splitting, after the abstract of Deng, Hu, Wang 2023.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DDRS()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Projection,)

    step_size: ConstantStepSize = "auto"
    inner_steps: Annotated[Count, "J, the gradient steps to a proximal point."] = 3

    def init(self, problem: Manifold, network: Network, streams: Streams, x0: Array) -> DDRSState:
        def automatic() -> tuple[Array, int]:
            largest = 0.35
            if network.n_agents > 1:
                largest = min(
                    largest, math.sqrt(0.5 * (1.0 - self.mixing(network.spectrum).lambda_2))
                )
            return agreed(
                problem, network, streams, x0, largest, 1.6, mixing=(self.rounds, self.chebyshev)
            )

        gamma, _, spent = start(self.step_size, len(x0), automatic)
        move = gamma[:, None, None] * problem.gradient(x0)
        s = x0 - move
        return DDRSState(x0.copy(), s, s.copy(), x0 + move, gamma, 0, spent + 1)

    def step(
        self, problem: Manifold, network: Network, streams: Streams, state: DDRSState
    ) -> DDRSState:
        gamma = state.step_size[:, None, None]
        steps = self.inner_steps
        old = state.field
        u = 0.5 * (old + state.center)
        z = state.center + state.x - u  # (1)
        for t in range(steps):
            oracle = self.oracle(problem, streams, steps * state.k + t)
            u = u - 2.0 / 3.0 * (gamma * blockwise(gradient, oracle, u) + u - z)  # (2)
        s = 2.0 * u - z
        ahead = state.tracker + s - old
        (mixed,) = self.mix(network, ahead)
        d = 0.5 * (ahead + mixed)  # (3)
        x = problem.constraint.project(d, "polar")  # (4)
        return DDRSState(x, d, s, z, state.step_size, state.k + 1, state.gradients + steps)
