"""PR-EXTRA: proximal Riemannian EXTRA, for a smooth objective plus a convex term, while only points
are sent.

After the abstract of Xiong, Ouyang, You, Shi, Wu, "Loopless proximal Riemannian gradient EXTRA for
distributed optimization on compact manifolds", 2026 (arXiv 2603.08367); the paper's text was not at
hand. The objective of agent i is g_i + h, with h the same for all. From a common feasible start and
u_i = 0, every agent repeats

    y_i <- sum_j W_ij x_j + u_i - alpha G_i(x_i)                                        (1)
    u_i <- u_i + (sum_j W_ij x_j - x_i)/2                                               (2)
    x_i <- P_M(w_i)                                                                     (3)

with the old points on the right. w_i is a proximal point of y_i with the step alpha:

- ``proximal="tangent"``: w_i - x_i is tangent at x_i (`numerics.tangent_proximal`). At rest G_i -
  u_i/alpha is in -dh(x) plus the normal space for each i; the u_i add up to zero, so x is
  stationary for the mean of g_i + h.
- ``proximal="loopless"``: of the whole space, as the abstract has it, along Riemannian gradients in
  (1). At rest w_i is x times a symmetric matrix Q_i, and not x: subgradients of h are taken at the
  wrong point. For a single column Q_i is a number, and the subgradients of a norm are those at x;
  for several the points rest where they are not stationary (measured: 0.5 for five sparse
  components of digits, where the other form comes to 1e-9). Whether the paper's method has a remedy
  is not known.

    W_ij   network.mix     alpha  step_size  (n_local,), equal on all agents   h    problem.regularizer
    x_i    state.x         u_i    state.dual                                   G_i  of problem.smooth

On the whole space it is PG-EXTRA (Shi, Ling, Wu, Yin, "A proximal gradient algorithm for
decentralized composite optimization", 2015); without h it is `rextra`, the multiplier of the
tangent space in the place of the projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from decentorth.algorithms.common import ConstantStepSize, Method, blockwise, riemannian
from decentorth.algorithms.decentralized.extra import step_along_gradients
from decentorth.numerics.tangent_proximal import tangent_proximal
from decentorth.protocols import (
    Array,
    Composite,
    Network,
    OrthonormalLanding,
    Projection,
    Riemannian,
    Streams,
)

from .drproxgt import CompositeProblem


class PREXTRAState(NamedTuple):
    """The changing arrays x and dual (u), each ``(n_local, d, r)``, and multiplier ``(n_local, r,
    r)``; the constant step_size ``(n_local,)``."""

    x: Array
    dual: Array
    multiplier: Array
    step_size: Array
    k: int
    gradients: int


P = CompositeProblem
State = PREXTRAState


@dataclass(frozen=True, kw_only=True)
class PREXTRA(Method):
    """Proximal Riemannian EXTRA, after the abstract of Xiong, Ouyang, You, Shi, Wu 2026.

    Parameters
    ----------
    step_size
        alpha > 0; auto: from the agents' gradients and Lipschitz constants and their weights in W.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.SparsePCASettings(data="digits", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.PREXTRA(step_size=0.06)
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> stationarity = result.history["stationarity"]
    >>> bool(stationarity[-1] < 1e-3 * stationarity[0])
    True
    """

    nonsmooth: ClassVar[bool] = True
    on_time: ClassVar[bool] = True
    requires: ClassVar[tuple[type, ...]] = (Composite,)
    requires_set: ClassVar[tuple[type, ...]] = (OrthonormalLanding, Projection, Riemannian)

    step_size: ConstantStepSize = "auto"
    proximal: Annotated[
        Literal["tangent", "loopless"],
        "The proximal point along tangents, exact; or of the whole space.",
    ] = "tangent"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        step, spent = step_along_gradients(self.step_size, problem.smooth, network, streams, x0)
        none = np.zeros((len(x0), x0.shape[2], x0.shape[2]))
        return State(x0.copy(), np.zeros_like(x0), none, step, 0, spent)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        (mixed,) = network.mix(state.x)
        x = state.x
        alpha = state.step_size
        h = problem.regularizer
        multiplier = state.multiplier
        if self.proximal == "tangent":
            y = mixed + state.dual - alpha[:, None, None] * problem.smooth.gradient(x)  # (1)
            w, multiplier = tangent_proximal(h, x, y, alpha, multiplier)
        else:
            y = mixed + state.dual - alpha[:, None, None] * blockwise(riemannian, problem.smooth, x)
            own = zip(y, alpha.tolist(), strict=True)
            w = np.stack([h.proximal(point, step) for point, step in own])
        dual = state.dual + 0.5 * (mixed - x)  # (2)
        moved = problem.constraint.project(w, "polar")  # (3)
        return State(moved, dual, multiplier, alpha, state.k + 1, state.gradients + 1)
