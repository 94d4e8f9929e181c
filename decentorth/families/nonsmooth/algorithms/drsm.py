"""DRSM: the decentralized Riemannian subgradient method.

Wang, Hu, Chen, Deng, So, "Decentralized weakly convex optimization over the Stiefel manifold", 2023
(cited by paper 000). From a common feasible start, every agent repeats

    x_i <- R_{x_i}(a P_{x_i}(sum_j [W^t]_ij x_j - x_i) - gamma_k P_{x_i}(G_i(x_i)))                   (1)

with a subgradient G_i of the weakly convex f_i. That is the iteration of `drsgd`, which explains
the symbols; only the steps differ. A subgradient does not vanish at a minimiser, so gamma_k must:
like 1 / sqrt(k) in general, geometrically where the minimum is sharp (f rises in proportion to the
distance), as in robust subspace recovery and dictionary learning.

    gamma_k   step_size  (n_local,), gamma_0 base

``step_size="auto"`` is gamma_0 r^k. gamma_0 is the first step that the problem recommends for a
subgradient method; otherwise 1 / L with L the mean over the network of the agents' Lipschitz
constants of f_i, or of their subgradients' norms at the start. Steps must not shrink faster than
the consensus error: r = max(0.97, 1 - (1 - lambda_2) / 4), lambda_2 the second eigenvalue of an
iteration's mixing. With 1 - lambda_2 in place of a quarter of it, agents on a ring with different
data, or dictionary learning from a random start, do not reach a minimiser. Where no minimum is
sharp, geometric steps stop short of it: give diminishing ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from decentorth.algorithms.common import Geometric, StepSize, average, schedule
from decentorth.algorithms.decentralized.descent import DescentState, begun
from decentorth.algorithms.decentralized.drsgd import DRSGD
from decentorth.protocols import Array, Network, Problem, Recommends, Streams

from .subgradient import steepness

P = Problem[object]


@dataclass(frozen=True, kw_only=True)
class DRSM(DRSGD):
    """Decentralized Riemannian subgradient method (Wang, Hu, Chen, Deng, So 2023).

    Parameters
    ----------
    step_size
        gamma_0 > 0; auto: geometric, from the problem's recommendation and the spectrum of W; or a
        schedule: geometric, diminishing, square-summable, annealed, piecewise, horizon.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.RSRSettings(dimension=30).problem(10, seed=0)
    >>> method = do.DRSM()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> error = result.history["error"]
    >>> bool(error[-1] < 1e-2 * error[0])
    True
    """

    nonsmooth: ClassVar[bool] = True

    step_size: StepSize = "auto"

    def for_network(self, network: Network) -> DRSM:
        """This method with the ratio of automatic steps resolved for this network."""
        if self.step_size != "auto":
            return self
        ratio = 0.97
        if network.n_agents > 1:
            ratio = max(ratio, 1.0 - (1.0 - self.mixing(network.spectrum).lambda_2) / 4.0)
        return replace(self, step_size=Geometric(ratio=min(round(ratio, 6), 1.0 - 1e-6)))

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> DescentState:
        return begun(self.step_size, x0, lambda: _automatic(problem, network, x0))


def _automatic(problem: P, network: Network, x0: Array) -> tuple[Array, int]:
    """The first step gamma_0 ``(n_local,)``, and the gradients spent."""
    if isinstance(problem, Recommends):
        recommended = schedule(problem.subgradient_settings(1).step_size)
        if recommended.initial != "auto":
            return np.full(len(x0), recommended.initial * recommended.scale(0)), 0
    steep, spent = steepness(problem, x0)
    return 1.0 / average(network, steep, 1e-15), spent
