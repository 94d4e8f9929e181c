"""Local tracking: several local steps between two exchanges, whose drift is corrected, with a
projection.

After the abstract of Zhang, Hu, So, Johansson, "Nonconvex federated learning on compact smooth
submanifolds with heterogeneous data", NeurIPS 2024 (arXiv 2406.08465), which is for a server: local
steps, a projection in the place of a retraction, a correction of the drift. The text was not at
hand. Between neighbours the correction is that of K-GT (Liu, Lin, Koloskova, Stich, "Decentralized
gradient tracking with local steps", 2023). From a common feasible start, with c_i = sum_j W_ij
g_j - g_i, g_i = grad f_i(x_0), every agent repeats

    z_i <- z_i - eta (grad f_i(P_M(z_i)) + c_i)    K times, from z_i = x_i               (1)
    y_i <- (x_i - z_i) / (K eta)                                                        (2)
    c_i <- c_i - y_i + sum_j [W^t]_ij y_j                                               (3)
    x_i <- P_M(sum_j [W^t]_ij z_j)                                                      (4)

One message carries z_j and y_j, whatever K is. The c_i add up to zero, so the y_i have the mean of
the agents' gradients along their own paths. Where everything rests, c_i = -grad f_i(x): local steps
stay at x, and x is stationary for the mean, with a constant step. That holds for any agents that
sit an iteration out, as they keep x_i and c_i, and the weights of those awake are symmetric. K = 1
is tracking of gradients with steps before the mixing. Where all weights are 1/n, (3) is -c_i = the
mean of agent i's own gradients less that of everyone's steps: agents then do what a server would
have them do.

    [W^t]_ij  network.mix, rounds t     eta  step_size  (n_local,)     P_M     constraint.project
    x_i       state.x                   K    local_steps               grad f  constraint.tangent(x, gradient)
    c_i       state.correction

Mini-batches are drawn for each local step, so K steps of a batch have the noise of one step with K
batches. Automatic steps are 1/K of those of push-pull with A = B = W^t, so a round moves as far for
every K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from ...protocols import Array, Network, Projection, Riemannian, Spectrum, Streams
from ...settings import Count
from ..common import Mixing, advanced, blockwise, riemannian, schedule, steepness
from ..common.automatic_steps import curved_step, start
from .tracking import Manifold


class LocalState(NamedTuple):
    """The arrays that change are x and correction (c), each ``(n_local, d, r)``, and step_size
    (eta) ``(n_local,)``; base, the steps at the start, does not."""

    x: Array
    correction: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class LocalTracking(Mixing):
    """Local steps with corrected drift, after the abstract of Zhang, Hu, So, Johansson 2024.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.LocalTracking()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)

    local_steps: Annotated[Count, "K, the steps of an agent between two exchanges."] = 4

    def init(self, problem: Manifold, network: Network, streams: Streams, x0: Array) -> LocalState:
        def automatic() -> tuple[Array, int]:
            c, gap = 0.7, 1.0
            if network.n_agents > 1:
                gap, c = _gap_and_aim(self.mixing(network.spectrum))
            steep, spent = steepness(problem, network, streams, x0)
            step = curved_step(steep, c, gap) / schedule(self.step_size).most
            return (1.0 / self.local_steps) * step, spent

        step, base, spent = start(self.step_size, len(x0), automatic)
        g = blockwise(riemannian, self.oracle(problem, streams, 0), x0)
        (mixed,) = self.mix(network, g)
        return LocalState(x0.copy(), mixed - g, step, base, 0, spent + 1)

    def step(
        self, problem: Manifold, network: Network, streams: Streams, state: LocalState
    ) -> LocalState:
        eta = state.step_size[:, None, None]
        steps = self.local_steps
        project = problem.constraint.project
        x = z = state.x
        for t in range(steps):
            if t > 0:
                x = project(z, "polar")
            oracle = self.oracle(problem, streams, steps * state.k + t)
            g = blockwise(riemannian, oracle, x)
            z = z - eta * (g + state.correction)  # (1)
        y = (state.x - z) / (steps * eta)  # (2)
        mixed, mean = self.mix(network, z, y)
        # (4), (3)
        x = project(mixed, "polar")
        c = state.correction - y + mean
        return advanced(self.step_size, state, steps, x=x, correction=c)


def _gap_and_aim(mixing: Spectrum) -> tuple[float, float]:
    """The gap, and the target of automatic steps for the product of step and curvature."""
    limit = 2.0
    w = mixing.lambda_min
    if w < 0.0:
        limit = min(limit, (1.0 - w * w) / -w)
    gap = 1.0 - max(mixing.lambda_2, -w)
    return gap, min(0.35 * limit, math.sqrt(gap))
