"""PCAL: parallelizable column-wise block minimisation of the augmented Lagrangian, centralized.

Gao, Liu, Yuan, "Parallelizable algorithms for optimization problems with orthogonality
constraints", SIAM Journal on Scientific Computing 2019, Algorithm 3, which adds to PLAM that every
column keeps its norm, so that the iterates stay bounded:

    F   <- G - B x sym(x^T G) + beta B x (x^T B x - I)
    F_j <- F_j - theta_j (B x)_j,  theta_j = <(B x)_j, F_j> / ||(B x)_j||^2          for every column j
    y_j <- x_j - eta F_j,  x_j <- y_j / (y_j^T B y_j)^{1/2}

    eta   step_size       beta   penalty       x   state.x
    F     constraint.augmented_gradient, column_tangent             x_j <- ...   constraint.normalized

This is from memory of the paper, with B = I there: its multiplier Psi(G^T x) + Phi(x^T F), with Psi
the symmetric part and Phi the diagonal, is the second line for unit columns. The form for general B
is an addition; automatic steps and penalties are those of `plam`. The method does not project at
the end, as the paper suggests; the metrics and the result's ``project`` do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...protocols import Array, AugmentedLagrangian, Known, Streams
from .plam import PLAM, P


@dataclass(frozen=True, kw_only=True)
class PCAL(PLAM):
    """Column-wise normalised augmented Lagrangian method for a single agent (Gao, Liu, Yuan 2019).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.PCAL()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    def _moved(self, constraint: AugmentedLagrangian, y: Array) -> tuple[Array, Known]:
        return constraint.normalized(y)

    def _field(
        self, problem: P, streams: Streams, k: int, x: Array, penalty: Array, bx: Known = None
    ) -> Array:
        if bx is None:
            bx = problem.constraint.product(x)
        field = super()._field(problem, streams, k, x, penalty, bx)
        return problem.constraint.column_tangent(x, field, bx)
