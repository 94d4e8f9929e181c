"""Decentralized landing on {x : x^T B x = I}, where B = (1/n) sum_i B_i is distributed: agent i
knows only its own B_i.

The landing field of paper 003 (Vary, Ablin, Gao, Absil, "Optimization without retraction on the
random generalized Stiefel manifold", ICML 2024) from the two trackers of `double_tracking`, (1)-(3)
there, g of the gradient and d of B x:

    F(x, g, d) = g (x^T d) - d (g^T x) + 2 omega d (x^T d - I)                                      (a)

At agreement P F with P = B^{-1} is the direction psi-br, (12) of that paper, and the gradient of
the penalty in the metric tr(u^T B v). F vanishes at the same points for any P > 0, so no agent has
to solve with B, and P = I needs products only. The method is not from a paper; `GeneralizedLanding`
is that for one agent, and DRFGT that for constraints that all agents know.

    omega   penalty       (a)   constraint.landing_image(x, g, d, omega)

The direction psi-b, (11) there, is left out: g (d^T d) - d (g^T d) has the square of B's condition
number, does not depend on the agent's own point, and needs steps at least four times shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from decentorth.algorithms.decentralized.double_tracking import DoubleTracking
from decentorth.protocols import Array, TrackedProducts


@dataclass(frozen=True, kw_only=True)
class GeneralizedDRFGT(DoubleTracking):
    """Landing with double tracking, where no agent knows the B of the constraint x^T B x = I.

    Parameters
    ----------
    penalty
        omega > 0, or auto: from the multiplier.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.CCASettings(data="digits", rank=2).problem(10, seed=0)
    >>> method = do.GeneralizedDRFGT()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-1 * norm[0])
    True
    """

    penalties: ClassVar[float] = 1.0
    gap_share: ClassVar[float] = 2.2
    soft: ClassVar[float] = 1.0 / 32.0

    def _point(self, constraint: TrackedProducts, x: Array, bx: Array) -> Array:
        return x

    def _field(
        self, constraint: TrackedProducts, x: Array, g: Array, bx: Array, penalty: Array
    ) -> Array:
        return constraint.landing_image(x, g, bx, penalty)  # (a)
