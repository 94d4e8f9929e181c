"""PLAM: the proximal linearised augmented Lagrangian method, centralized, retraction-free.

Gao, Liu, Yuan, "Parallelizable algorithms for optimization problems with orthogonality constraints", SIAM Journal on Scientific
Computing 2019, Algorithm 2; on {x : x^T B x = I} Gao, Hu, Kuang, Liu 2022, as in paper 003 (Vary, Ablin, Gao, Absil, ICML 2024):

    x <- x - eta (G - B x sym(x^T G) + beta B x (x^T B x - I))

a gradient step on the augmented Lagrangian, whose multiplier is the closed form that it has at a solution.

    eta   step_size       beta   penalty       x   state.x       the field   constraint.augmented_gradient

Beyond the papers, which tune both numbers and whose code runs ``bb:cap=inf``: automatic penalties and steps (`steps.augmented`). A
penalty smaller than the largest eigenvalue of the multiplier at the solution can repel the iteration from the manifold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..protocols import Array, AugmentedLagrangian, Network, Problem, Streams
from ..settings import Positive
from .fields import BatchSize, on_samples
from .landing import LandingState
from .method import SingleAgentMethod
from .policies import Auto, following
from .step_sizes import MeasuredStepSize, policy
from .steps import augmented

PLAMState = LandingState
"""The state of `Landing`, where the field is the augmented Lagrangian's gradient at x."""


@dataclass(frozen=True, kw_only=True)
class PLAM(SingleAgentMethod):
    """Proximal linearised augmented Lagrangian for a single agent (Gao, Liu, Yuan 2019; Gao, Hu, Kuang, Liu 2022).

    Parameters
    ----------
    step_size
        eta > 0; auto: from the problem's Lipschitz constant and the penalty; or a policy (diminishing, horizon, bb).
    penalty
        beta > 0, larger than the multiplier at the solution; auto: from the curvature at the start.
    """

    requires_set: ClassVar[tuple[type, ...]] = (AugmentedLagrangian,)

    step_size: MeasuredStepSize = "auto"
    penalty: Positive | Auto = "auto"
    batch_size: BatchSize = None

    def init(self, problem: Problem[AugmentedLagrangian], network: Network, streams: Streams, x0: Array) -> PLAMState:
        base, penalty, spent = augmented(self, problem, network, streams, x0)
        field = self._field(problem, streams, 0, x0, penalty)
        return PLAMState(x0.copy(), field, base * policy(self.step_size).scale(0), base, penalty, 0, spent + 1)

    def step(self, problem: Problem[AugmentedLagrangian], network: Network, streams: Streams, state: PLAMState) -> PLAMState:
        k = state.k + 1
        x, bx = self._moved(problem.constraint, state.x - state.step_size[:, None, None] * state.field)
        field = self._field(problem, streams, k, x, state.penalty, bx)
        step_size = following(policy(self.step_size), state, x, field)
        return PLAMState(x, field, step_size, state.base, state.penalty, k, state.gradients + 1)

    def _moved(self, constraint: AugmentedLagrangian, y: Array) -> tuple[Array, Array | None]:
        """The next point, from the result of the gradient step, and its product with B where it is known."""
        return y, None

    def _field(
        self, problem: Problem[AugmentedLagrangian], streams: Streams, k: int, x: Array, penalty: Array, bx: Array | None = None
    ) -> Array:
        g = on_samples(problem, streams, k, self.batch_size).gradient(x)
        return problem.constraint.augmented_gradient(x, g, penalty, bx)
