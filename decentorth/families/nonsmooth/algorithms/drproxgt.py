"""DR-ProxGT: decentralized Riemannian proximal gradient tracking, for a smooth objective plus a
convex term.

After the abstract of Wang, Bao, Liu, "A decentralized proximal gradient tracking algorithm for
composite optimization on Riemannian manifolds", 2024 (arXiv 2401.11573); the paper's text was not
at hand, and (1) to (3) are derived. The objective of agent i is g_i + h, with h the same for all.
From a common feasible start and s_i(0) = G_i(x_0), G_i the gradient of g_i, every agent repeats

    w_i <- argmin_w <s_i, w> + ||w - x_i||^2 / (2 t) + h(w),   w - x_i tangent at x_i   (1)
    x_i <- P_M(sum_j W_ij w_j)                                                          (2)
    s_i <- sum_j W_ij s_j + G_i(new x_i) - G_i(old x_i)                                 (3)

(1) is the step of ManPG along the tracked gradient. Where agents agree and rest, s is the mean
gradient and w = x. Then x is stationary for the mean of g_i + h, with a constant t. One message
carries w_j and s_j.

    W_ij   network.mix        t    step_size  (n_local,)    w_i  numerics.tangent_proximal
    x_i    state.x            G_i  state.field, of problem.smooth
    s_i    state.tracker      h    problem.regularizer

(1) is solved by Newton's method for a symmetric matrix of order r, which starts at that of the
iteration before, ``state.multiplier``. Automatic steps are those of `drgta` where both arrays are mixed last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from decentorth.algorithms.common import Decentralized, advanced, curvature, gradient, refresh
from decentorth.algorithms.common.automatic_steps import start, tracking_step
from decentorth.numerics.tangent_proximal import tangent_proximal
from decentorth.protocols import (
    Array,
    Composite,
    Network,
    OrthonormalLanding,
    Problem,
    Projection,
    Streams,
)


class Orthonormal(OrthonormalLanding, Projection, Protocol):
    """The set {x : x^T x = I}."""


class CompositeProblem(Problem[Orthonormal], Composite, Protocol):
    """A problem on {x : x^T x = I} with a convex term."""


class ProxState(NamedTuple):
    """The arrays that change are x, tracker (s) and field (G at x), each ``(n_local, d, r)``,
    multiplier (S of (1)) ``(n_local, r, r)``, and step_size (t) ``(n_local,)``; base, the steps at
    the start, does not."""

    x: Array
    tracker: Array
    field: Array
    multiplier: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


P = CompositeProblem


@dataclass(frozen=True, kw_only=True)
class DRProxGT(Decentralized):
    """Decentralized Riemannian proximal gradient tracking, after the abstract of Wang, Bao,
    Liu 2024.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.SparsePCASettings(data="digits", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRProxGT(step_size=0.08)
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> stationarity = result.history["stationarity"]
    >>> bool(stationarity[-1] < 1e-6 * stationarity[0])
    True
    """

    nonsmooth: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (OrthonormalLanding, Projection)

    @property
    def requires(self) -> tuple[type, ...]:
        return (Composite, *super().requires)

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> ProxState:
        def automatic() -> tuple[Array, int]:
            c = 0.7
            if network.n_agents > 1:
                c = tracking_step(network.spectrum, "adapt-then-combine")
            mean, spent = curvature(problem.smooth, network, streams, x0)
            return c / mean, spent

        step, base, spent = start(self.step_size, len(x0), automatic)
        field = self.oracle(problem.smooth, streams, 0).gradient(x0)
        none = np.zeros((len(x0), x0.shape[2], x0.shape[2]))
        return ProxState(x0.copy(), field.copy(), field, none, step, base, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: ProxState) -> ProxState:
        t = state.step_size
        ahead = state.x - t[:, None, None] * state.tracker
        h = problem.regularizer
        w, multiplier = tangent_proximal(h, state.x, ahead, t, state.multiplier)  # (1)
        mixed, s = network.mix(w, state.tracker)
        x = problem.constraint.project(mixed, "polar")  # (2)
        oracle = self.oracle(problem.smooth, streams, state.k + 1)
        field = refresh(gradient, oracle, x, s, state.field)  # (3)
        return advanced(self.step_size, state, x=x, tracker=s, field=field, multiplier=multiplier)
