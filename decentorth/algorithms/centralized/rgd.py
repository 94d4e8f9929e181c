"""RGD: Riemannian gradient descent, the centralized method with retractions.

Absil, Mahony, Sepulchre, "Optimization algorithms on matrix manifolds", 2008, Section 4.2; on {x :
x^T B x = I} the rival of paper 003 (Vary, Ablin, Gao, Absil, ICML 2024), with the retractions of
its appendix A:

    x <- R_x(-eta grad f(x))

    eta   step_size               grad f   constraint.tangent, or natural_gradient
    x     state.x                 R_x      constraint.retract, or retract_with

On {x : x^T B x = I} there are two metrics. ``metric="natural"`` is tr(u^T B v), grad f = B^{-1}
G - x sym(x^T G) (Sato & Aihara, "Cholesky QR-based retraction on the generalized Stiefel manifold",
2019): the set is a Stiefel manifold in it, so that the number of iterations does not depend on the
condition of B. B grad f comes with grad f, so only one iteration in 64 computes a product with B,
against rounding errors. ``metric="euclidean"`` is tr(u^T v), the direction (7) of paper 003:
products with B only.

``covariance="rolling"`` is the online variant of paper 003's experiments: the gradient of a batch,
and for B the mean of the samples seen, all of them from the second pass on.

For a problem with `protocols.Whitening` the natural metric's iteration takes place in the variables
y = U x, B = U^T U, on a Stiefel manifold, without solves; x = U^{-1} y is computed only when it is
recorded (`protocols.Completing`).

On {x : x^T J x = J} the metric is the set's, tr(a^T b) of tangents a x and b x, and the retraction
Cayley's whatever its name.

Beyond the papers: automatic steps 0.7 / Lhat, Lhat as in `curvature.curvature`,
`curvature.embedded_curvature` or `curvature.group_curvature`; Barzilai-Borwein steps, whose inner
products are those of the metric (on {x : x^T J x = J} Euclidean ones).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, cast

from ...protocols import (
    Array,
    ByProducts,
    MetricName,
    Network,
    Problem,
    Streams,
    Two,
    Whitening,
    WithMatrices,
)
from ...protocols.sets import Retractable, RetractableManifold, Retraction, Riemannian, Signature
from ..common import Carries, RetractionName, can, measured, measured_in_metric, start
from ..common.curvature import Spent, curvature, embedded_curvature, group_curvature
from .samples import Field, OnMatrices, nothing_seen

_MEASURES: dict[MetricName, Callable[..., Spent]] = {
    "natural": partial(curvature, metric="natural"),
    "euclidean": embedded_curvature,
}
"""The curvature measure of automatic steps in each metric."""
REFRESHED = 64
"""The number of iterations after which B x, otherwise updated from iteration to iteration, is
recomputed."""


class RGDState(NamedTuple):
    """The changing arrays x and field (grad f at x), each ``(1, n, p)``; product (B x) and image (B
    grad f), the same, or ``(1, 0, 0)`` where they are not used; matrices (the running mean of B, or
    nothing) ``(1, n, w)`` and step_size ``(1,)``; the constant base. In the variables y = U x
    product is y, field is grad f there, and image is not used."""

    x: Array
    field: Array
    product: Array
    image: Array
    matrices: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


def whitened(problem: object) -> Any:
    """The problem in the variables in which its set is a Stiefel manifold, if it has such."""
    return problem.whitened if can(problem, Whitening) else None


P = Problem[RetractableManifold]


@dataclass(frozen=True, kw_only=True)
class RGD(OnMatrices):
    """Riemannian gradient descent for a single agent.

    Parameters
    ----------
    metric
        On {x : x^T B x = I}: natural solves with B, euclidean multiplies with it; on other sets the
        set's own.
    covariance
        Where B comes from: exact (the set's own) or rolling (mean of the samples seen).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.RGD()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True
    set_needs: ClassVar[tuple[type, ...]] = (Riemannian, Retractable)

    retraction: RetractionName = "polar"
    metric: MetricName = "natural"
    covariance: Literal["exact", "rolling"] = "exact"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> RGDState:
        def automatic() -> tuple[Array, int]:
            measure = _MEASURES[self.metric]
            if isinstance(problem.constraint, Signature):
                measure = group_curvature
            mean, spent = measure(problem, network, streams, x0)
            return 0.7 / mean, spent

        step, base, spent = start(self.step_size, len(x0), automatic)
        changed = self._whitened(problem)
        nothing = nothing_seen(len(x0))
        x = x0
        if changed is not None:
            problem = changed
            x = changed.changed(x0)
        found = self._gradient(problem, streams, 0, x, nothing, nothing)
        if changed is not None:
            found = found._replace(product=x)
        return RGDState(x0.copy(), *found, step, base, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: RGDState) -> RGDState:
        k = state.k + 1
        eta = state.step_size[:, None, None]
        changed = self._whitened(problem)
        if changed is not None:
            y = _retracted(changed.constraint, state.product, -eta * state.field, self.retraction)
            found = self._gradient(changed, streams, k, y, state.image, state.matrices)
            following = measured(self.step_size, state._replace(x=state.product), y, found.field)
            found = found._replace(product=y)
            return RGDState(state.x, *found, following, state.base, k, state.gradients + 1)
        x, bx = self._moved(problem.constraint, state, eta)
        found = self._gradient(problem, streams, k, x, bx, state.matrices)
        following = measured_in_metric(self.step_size, state, x, found)
        return RGDState(x, *found, following, state.base, k, state.gradients + 1)

    def completed(self, problem: P, state: RGDState) -> RGDState:
        """The state with the point x of the problem's own set from the variables of the
        iteration."""
        changed = self._whitened(problem)
        if changed is None or state.k == 0:
            return state
        return state._replace(x=changed.back(state.product))

    def _whitened(self, problem: P) -> Any:
        """The problem in the variables in which its set is a Stiefel manifold, if it has such, for
        exact gradients and B."""
        exact = self.metric == "natural" and self.covariance == "exact" and not self.batch_size
        return whitened(problem) if exact else None

    def _moved(self, constraint: RetractableManifold, state: RGDState, eta: Array) -> Two:
        """The next point, and its product with B if used."""
        if self.covariance == "rolling":
            constraint = cast(WithMatrices, constraint).with_matrices(state.matrices)
        if not can(constraint, ByProducts):
            return constraint.retract(state.x, -eta * state.field, self.retraction), state.product
        y = state.x - eta * state.field
        if self.metric == "natural":
            return constraint.retract_with(y, state.product - eta * state.image, self.retraction)
        return constraint.retract_with(y, constraint.product(y), self.retraction)

    def _gradient(
        self, problem: P, streams: Streams, k: int, x: Array, bx: Array, mean: Array
    ) -> Field:
        nothing = nothing_seen(len(x))
        fresh = k % REFRESHED == 0 or self.covariance == "rolling"
        constraint, g, matrices = self.drawn(problem, streams, k, x, mean)
        if not can(constraint, ByProducts):
            return Field(constraint.tangent(x, g), nothing, nothing, matrices)
        if fresh:
            bx = constraint.product(x)
        if self.metric == "natural":
            field, image = constraint.natural_gradient(x, g, bx)
            return Field(field, bx, image, matrices)
        return Field(constraint.tangent(x, g, bx), bx, nothing, matrices)


def _retracted(constraint: Any, y: Array, v: Array, retraction: Retraction) -> Array:
    """The point reached from y along the tangent v, by the matrix of order p that brings y + v back
    where that is accurate."""
    found = (
        constraint.retract_both(y + v, y[:, :0], retraction) if can(constraint, Carries) else None
    )
    return constraint.retract(y, v, retraction) if found is None else found[0]
