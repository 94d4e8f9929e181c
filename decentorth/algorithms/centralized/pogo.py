"""POGO: a gradient step and one normal step to the Stiefel manifold, for one agent, by products
alone.

Javaloy, Vergari, "POGO", PMLR 306, 2026 (arXiv 2602.14656); the update was at hand, with plain
gradients in the place of those of a base optimizer:

    M <- x - eta R(x),    R(x) = skew(G x^T) x                                         (1)
    x <- M + (M - M M^T M) / 2                                                         (2)

    x   state.x      eta  step_size      R  constraint.relative_gradient, state.field      (2)  constraint.dissolve

(1) is the step of `landing` without a penalty. (2) is one Newton-Schulz step towards the nearest
point. From a feasible x the distance to the manifold after it is of the order of eta^4 ||R||^4, so
there is no penalty to choose. Where ||M||_2 >= sqrt(3), (2) does not lead to the nearest point:
steps must be short against the gradient.

Beyond the paper: automatic steps, those of `landing`. Barzilai-Borwein steps are refused, since
some are too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from ...protocols import Array, Landing, Network, Oracle, Problem, Streams
from ..common import Measuring, StepSize, advanced, curvature, landing_scale, landing_share, start
from ..decentralized.destiny import Dissolvable


class POGOState(NamedTuple):
    """The state of POGO.

    The changing arrays are x and field (R at x), each ``(1, d, r)``, and step_size ``(1,)``.
    ``base`` is constant.
    """

    x: Array
    field: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


class Normal(Landing, Dissolvable, Protocol):
    """A set with a landing field and a normal step."""


def _field(problem: Oracle[Normal], x: Array) -> Array:
    return problem.constraint.relative_gradient(x, problem.gradient(x))


P = Problem[Normal]


@dataclass(frozen=True, kw_only=True)
class POGO(Measuring):
    """A gradient step and a normal step, for a single agent (Javaloy, Vergari 2026).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.POGO()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing, Dissolvable)

    step_size: StepSize = "auto"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> POGOState:
        def automatic() -> tuple[Array, int]:
            mean, spent = curvature(problem, network, streams, x0)
            share = landing_share(problem, 0.7, self.batch_size)
            return 2.0 * share / (landing_scale(problem.constraint) * mean), spent

        step, base, spent = start(self.step_size, len(x0), automatic)
        field = _field(self.oracle(problem, streams, 0), x0)
        return POGOState(x0.copy(), field, step, base, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: POGOState) -> POGOState:
        moved = state.x - state.step_size[:, None, None] * state.field  # (1)
        x = problem.constraint.dissolve(moved)  # (2)
        field = _field(self.oracle(problem, streams, state.k + 1), x)
        return advanced(self.step_size, state, x=x, field=field)
