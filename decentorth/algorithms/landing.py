"""The landing algorithm: centralized, retraction-free.

Ablin & Peyre, "Fast and accurate optimization on the orthogonal manifold without retraction", AISTATS 2022; paper 004 (Sun, Chen,
Garcia, Shahrampour), equation (4):

    x <- x - eta Lambda(x),    Lambda(x) = skew(G x^T) x + lambda x (x^T x - I)

    eta     step_size               lambda  penalty
    x       state.x                 Lambda  constraint.landing(x, gradient, penalty)

``policy="safe"`` takes min(eta, eta_max(x)) with the largest step proved to keep ||x^T x - I||_F <= eps
(`Stiefel.safe_step`). It is what DRFGT does with one agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..protocols import Array, Network, Streams
from ..protocols import Landing as CanLand
from .steps import Auto, check_positive, landing_field, resolve


class LandingState(NamedTuple):
    """x and landing (the field at x), each ``(1, d, r)``, and the steps, each ``(1,)``."""

    x: Array
    landing: Array
    step_size: Array
    penalty: Array
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class Landing:
    """The landing algorithm for a single agent (Ablin & Peyre 2022).

    Parameters
    ----------
    step_size
        eta > 0, or auto: from the problem's Lipschitz constant.
    penalty
        lambda > 0 of the landing field, or auto: 0.1 / step_size.
    policy
        fixed takes step_size always; safe shortens it where needed to stay within eps of the manifold.
    eps
        The safety region ||x^T x - I||_F <= eps of policy=safe, in (0, 3/4).
    """

    requires: ClassVar[tuple[type, ...]] = ()
    requires_set: ClassVar[tuple[type, ...]] = (CanLand,)
    network: ClassVar[Literal["decentralized", "single-agent"]] = "single-agent"

    step_size: float | Auto = "auto"
    penalty: float | Auto = "auto"
    policy: Literal["fixed", "safe"] = "fixed"
    eps: float = 0.5

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("penalty", self.penalty)
        if self.policy not in ("fixed", "safe"):
            raise ValueError(f"policy must be 'fixed' or 'safe', got {self.policy!r}")
        if not 0.0 < self.eps < 0.75:
            raise ValueError(f"eps must lie in (0, 3/4), got {self.eps}")

    def init(self, problem: Any, network: Network, streams: Streams, x0: Array) -> LandingState:
        step, penalty, spent = resolve(self, problem, network, streams, x0, None)
        return LandingState(x0.copy(), landing_field(problem, x0, penalty), step, penalty, 0, spent + 1)

    def step(self, problem: Any, network: Network, streams: Streams, state: LandingState) -> LandingState:
        eta = state.step_size
        if self.policy == "safe":
            eta = np.minimum(eta, problem.constraint.safe_step(state.x, state.landing, state.penalty, self.eps))
        x = state.x - eta[:, None, None] * state.landing  # (4)
        field = landing_field(problem, x, state.penalty)
        return state._replace(x=x, landing=field, k=state.k + 1, gradients=state.gradients + 1)
