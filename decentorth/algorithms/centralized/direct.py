"""The answer by linear algebra (LAPACK), where a problem has one.

Over several agents the sums on which the problem depends are added once (`protocols.Moments`), and
every agent computes the answer for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ...protocols import Array, Network, Solvable, Stop, Streams
from ..common import SingleAgentMethod


class DirectState(NamedTuple):
    """The point x, ``(1, *shape)``: the start, then the answer."""

    x: Array
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class Direct(SingleAgentMethod):
    """The answer by linear algebra: eigenvectors or singular vectors of the pooled moments.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.PCASettings(data="digits", rank=3).problem(5, seed=0)
    >>> result = do.solve(problem, do.algorithms.Direct(), "ring")
    >>> result.status, result.row.iteration, bool(result.row.values["error"] < 1e-10)
    ('converged', 1, True)
    """

    requires: ClassVar[tuple[type, ...]] = (Solvable,)
    by_moments: ClassVar[bool] = True

    def init(self, problem: Any, network: Network, streams: Streams, x0: Array) -> DirectState:
        return DirectState(x0.copy(), 0, 0)

    def step(
        self, problem: Any, network: Network, streams: Streams, state: DirectState
    ) -> DirectState:
        return DirectState(problem.answer()[None], state.k + 1, state.gradients)

    def ending(self, problem: Any, state: DirectState) -> Stop | None:
        """The end, once the answer is there."""
        if state.k == 0:
            return None
        return Stop("converged", True, "the answer by linear algebra")
