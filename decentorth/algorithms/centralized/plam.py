"""PLAM: the proximal linearised augmented Lagrangian method, centralized, retraction-free.

Gao, Liu, Yuan, "Parallelizable algorithms for optimization problems with orthogonality
constraints", SIAM Journal on Scientific Computing 2019, Algorithm 2; on {x : x^T B x = I} Gao, Hu,
Kuang, Liu 2022, as in paper 003 (Vary, Ablin, Gao, Absil, ICML 2024):

    x <- x - eta (G - B x sym(x^T G) + beta B x (x^T B x - I))

a gradient step on the augmented Lagrangian, whose multiplier is the closed form that it has at a
solution.

    eta   step_size       beta   penalty       x   state.x       the field   constraint.augmented_gradient

Beyond the papers, which tune both numbers and whose code runs ``bb:cap=inf``: automatic penalties
and steps (`PLAM.constants`). A penalty smaller than the largest eigenvalue of the multiplier at the
solution can repel the iteration from the manifold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...protocols import Array, AugmentedLagrangian, ByProducts, Known, Network, Problem, Streams
from ...settings import Positive
from ..common import Auto, Landed, Measuring, curvature, given_or, measured, schedule, start
from .landing import LandingState

PLAMState = LandingState
"""The state of `Landing`, where the field is the augmented Lagrangian's gradient at x."""


P = Problem[AugmentedLagrangian]


@dataclass(frozen=True, kw_only=True)
class PLAM(Measuring):
    """Proximal linearised augmented Lagrangian for a single agent (Gao, Liu, Yuan 2019; Gao, Hu,
    Kuang, Liu 2022).

    Parameters
    ----------
    penalty
        beta > 0, larger than the multiplier at the solution; auto: from the curvature at the start.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.PLAM()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True
    requires_set: ClassVar[tuple[type, ...]] = (AugmentedLagrangian,)

    penalty: Positive | Auto = "auto"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> PLAMState:
        base, penalty, spent = self.constants(problem, network, streams, x0)
        step = base * schedule(self.step_size).scale(0)
        field = self._field(problem, streams, 0, x0, penalty)
        return PLAMState(x0.copy(), field, step, base, penalty, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: PLAMState) -> PLAMState:
        k = state.k + 1
        ahead = state.x - state.step_size[:, None, None] * state.field
        x, bx = self._moved(problem.constraint, ahead)
        field = self._field(problem, streams, k, x, state.penalty, bx)
        step_size = measured(self.step_size, state, x, field)
        return PLAMState(x, field, step_size, state.base, state.penalty, k, state.gradients + 1)

    def _moved(self, constraint: AugmentedLagrangian, y: Array) -> tuple[Array, Known]:
        """The next point, from the result of the gradient step, and its product with B where it is
        known."""
        return y, None

    def _field(
        self, problem: P, streams: Streams, k: int, x: Array, penalty: Array, bx: Known = None
    ) -> Array:
        g = self.oracle(problem, streams, k).gradient(x)
        return problem.constraint.augmented_gradient(x, g, penalty, bx)

    def constants(
        self, problem: Problem[object], network: Network, streams: Streams, x0: Array
    ) -> Landed:
        """The base steps and the penalties, each ``(n_local,)``, and the gradients spent.

        Automatic penalties are Lhat in the metric tr(u^T B v), to compare with the multiplier
        sym(x^T G); automatic steps 0.7 / (Lhat + beta_1 penalty) with the Euclidean Lhat and the
        largest eigenvalue beta_1 of B, which bound the curvature of the objective and of the
        penalty. Beside a smaller penalty they stay at those of the automatic one where B can be
        solved with: the multiplier's term curves as much, and on {x : x^T B x = I} the multiplier
        can grow from x0 on.
        """
        spent = 0
        constraint = problem.constraint
        natural = np.zeros(len(x0))
        largest, curved = 1.0, False
        if isinstance(constraint, ByProducts):
            largest = constraint.largest
            curved = schedule(self.step_size).initial == "auto" and constraint.solvable
        if self.penalty == "auto" or curved:
            natural, spent = curvature(problem, network, streams, x0, "natural")
        penalty = given_or(self.penalty, natural)

        def automatic() -> tuple[Array, int]:
            mean, more = curvature(problem, network, streams, x0)
            return 0.7 / (mean + largest * np.maximum(penalty, natural)), more

        _, base, more = start(self.step_size, len(x0), automatic)
        return base, penalty, spent + more
