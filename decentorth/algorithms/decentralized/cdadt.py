"""CDADT: constraint dissolving with double tracking, for constraints that are themselves
distributed.

Wang, Xiao, Liu, "A double tracking method for optimization with decentralized generalized
orthogonality constraints", 2024. The problem min (1/n) sum_i f_i(x) over {x : x^T B x = I}, B =
(1/n) sum_i B_i, agent i knowing f_i and B_i, is replaced by

    h(x) = (1/n) sum_i f_i(A(x)) + beta/4 ||x^T B x - I||_F^2,    A(x) = x (3 I - x^T B x)/2

whose minimisers near the set are those of the problem. With e = x^T B x - I and G the gradient of
f,

    grad h(x) = G(A(x)) (I - e/2) - B x sym(x^T G(A(x))) + beta B x e                               (a)

and each agent follows (a) with g_i, the tracker of G_i(a_i), for G, and d_i, that of B_i x_i, for B
x, where a_i = A(x_i) is made with d_i too: equations (1)-(3) of `double_tracking`.

    beta   penalty       A(x)   constraint.dissolve_with(x, d)       (a)   constraint.dissolved_with(x, g, d, beta)

The paper's text was not at hand. The penalty function h and the two trackers come from a
description of it; (a) is derived. Not verified: that its direction has all three terms of (a),
where its iteration mixes points and trackers, and how its trackers start. Its promises, means that
are conserved, limits that are first-order points and the order 1/K, are tested
(``test_theorems.py``). The paper has B = sum_i B_i and no momentum, preconditioner, averaged start
or automatic step: these are additions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...protocols import Array, TrackedProducts
from .double_tracking import DoubleTracking


@dataclass(frozen=True, kw_only=True)
class CDADT(DoubleTracking):
    """Constraint dissolving with double tracking (Wang, Xiao, Liu 2024).

    Parameters
    ----------
    penalty
        beta > 0, or auto: from the multiplier.
    momentum
        Heavy-ball momentum in [0, 1); the published method has none.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.CCASettings(data="digits", rank=2).problem(10, seed=0)
    >>> method = do.CDADT()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    penalties: ClassVar[float] = 1.5
    gap_share: ClassVar[float] = 4.5

    def _point(self, constraint: TrackedProducts, x: Array, bx: Array) -> Array:
        return constraint.dissolve_with(x, bx)

    def _field(
        self, constraint: TrackedProducts, x: Array, g: Array, bx: Array, penalty: Array
    ) -> Array:
        return constraint.dissolved_with(x, g, bx, penalty)  # (a)
