"""REXTRA: Riemannian EXTRA, exact with a constant step while only points are sent.

Wu, Deng, Hu, Su, Wen, "Riemannian EXTRA: communication-efficient decentralized optimization over
compact submanifolds with data heterogeneity", 2025 (arXiv 2505.15537). From a common feasible start
and u_i = 0, every agent repeats

    x_i <- P_M(sum_j W_ij x_j + u_i - alpha grad f_i(x_i))                             (1)
    u_i <- u_i + (sum_j W_ij x_j - x_i)/2                                              (2)

with the old points on the right. The paper has x_i <- P_M(sum_j W_ij x_j + s_i) and s_i <- sum_j
(W - (I + W)/2)_ij x_j + s_i - alpha (grad f_i(new x_i) - grad f_i(x_i)), the same with s_i = u_i -
alpha grad f_i(x_i) (`extra`). Where the points agree and stand still, x = P_M(x + s_i) makes each
s_i normal to the manifold; their sum, -alpha sum_i grad f_i(x), is tangent, and so it is zero.

    W_ij    network.mix             alpha   step_size  (n_local,), equal on all agents
    x_i     state.x                 grad    constraint.tangent(x, gradient), the Riemannian gradient
    u_i     state.dual              P_M     constraint.project

An iteration sends half the bytes of gradient tracking. With one agent it is projected Riemannian
gradient descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...protocols import Array, Network, Projection, Riemannian, Streams
from ..common.fields import blockwise, riemannian
from .extra import Extra, step_along_gradients
from .tracking import Manifold


class REXTRAState(NamedTuple):
    """The changing arrays x and dual (u), each ``(n_local, d, r)``, and the constant step_size
    ``(n_local,)``."""

    x: Array
    dual: Array
    step_size: Array
    k: int
    gradients: int


State = REXTRAState


@dataclass(frozen=True, kw_only=True)
class REXTRA(Extra):
    """Riemannian EXTRA (Wu, Deng, Hu, Su, Wen 2025): exact with a constant step, half the bytes of
    gradient tracking.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.REXTRA()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-3 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (Projection, Riemannian)

    def init(self, problem: Manifold, network: Network, streams: Streams, x0: Array) -> State:
        step, spent = step_along_gradients(self.step_size, problem, network, streams, x0)
        return State(x0.copy(), np.zeros_like(x0), step, 0, spent)

    def step(self, problem: Manifold, network: Network, streams: Streams, state: State) -> State:
        (mixed,) = network.mix(state.x)

        def moved(part: Manifold, x: Array, mixed: Array, u: Array, alpha: Array) -> Array:
            ahead = mixed - alpha[:, None, None] * riemannian(part, x) + u
            u += 0.5 * (mixed - x)  # (2)
            return part.constraint.project(ahead, "polar")  # (1)

        x = blockwise(moved, problem, state.x, mixed, state.dual, state.step_size)
        return State(x, state.dual, state.step_size, state.k + 1, state.gradients + 1)
