"""Decentralized landing on {x : x^T B x = I} where B = (1/n) sum_i B_i is itself distributed, agent i knowing its own B_i.

The landing field of paper 003 (Vary, Ablin, Gao, Absil, "Optimization without retraction on the random generalized Stiefel
manifold", ICML 2024) from the two trackers of `double_tracking`, (1)-(3) there, g of the gradient and d of B x. In the direction

    psi-br   P (g (x^T d) - d (g^T x) + 2 omega d (x^T d - I))                                      (a)
    psi-b    g (d^T d) - d (g^T d) + 2 omega d (x^T d - I)                                          (b)

At agreement (a) with P = B^{-1} is (12) of that paper and the gradient of the penalty in the metric tr(u^T B v); it vanishes at the
same points for every P > 0, so B need not be solved with exactly. (b) is (11) and (13): products only, no P. Not from a paper;
`GeneralizedLanding` is the method for one agent, and DRFGT that for constraints that all agents know.

    omega   penalty       (a)   constraint.landing_image(x, g, d, omega)
                          (b)   constraint.landing_from_products(x, g, d, d, omega)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..protocols import Array
from .double_tracking import DoubleTracking
from .policies import check_choice


@dataclass(frozen=True, kw_only=True)
class GeneralizedDRFGT(DoubleTracking):
    """Landing with double tracking, where nobody knows the B of the constraint x^T B x = I.

    Parameters
    ----------
    step_size
        alpha > 0, or auto: from the agents' curvatures in the metric of the preconditioner and the spectrum of W.
    penalty
        omega > 0, or auto: from the multiplier.
    momentum
        Heavy-ball momentum in [0, 1).
    preconditioner
        What agents learn of B before the start: sketch (its products with a few random columns), diagonal, none, or covariance,
        all of B, which then everybody sees.
    columns
        Of the sketch; by default three times those of a point, and at most half of those of B.
    direction
        psi-br, or psi-b, which goes with preconditioner none only.
    """

    penalties: ClassVar[float] = 1.0
    gap_share: ClassVar[float] = 2.2

    direction: Literal["psi-br", "psi-b"] = "psi-br"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("direction", self.direction, ("psi-br", "psi-b"))
        if self.direction == "psi-b" and self.preconditioner != "none":
            raise ValueError(f"direction 'psi-b' has no preconditioner: give 'none', got {self.preconditioner!r}")

    def _point(self, constraint: Any, x: Array, bx: Array) -> Array:
        return x

    def _length(self, largest: Array) -> Array:
        return largest if self.direction == "psi-b" else np.ones_like(largest)

    def _field(self, constraint: Any, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        field: Array
        if self.direction == "psi-br":
            field = constraint.landing_image(x, g, bx, penalty)  # (a)
        else:
            field = constraint.landing_from_products(x, g, bx, bx, penalty)  # (b)
        return field
