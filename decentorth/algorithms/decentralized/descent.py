"""The common parts of decentralized gradient descent methods, in which agents mix points and follow
their own gradients.

Nothing corrects for the differences between the agents' objectives. With a constant step a the
points stop within a distance of order a of a minimiser and of each other; with diminishing steps
they approach one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ...protocols import Array, Network, Problem, Streams
from ..common import Mixing, Rule, StepSize, agreed, effective, start


class DescentState(NamedTuple):
    """The point x ``(n_local, d, r)`` and step_size ``(n_local,)`` change; base, the steps at the
    start, does not."""

    x: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


def descent_limit(network: Network, rounds: int = 1, chebyshev: bool = False) -> float:
    """The largest stable product of step and curvature where the agents are equal: 1 + w for the
    smallest eigenvalue w."""
    return 1.0 + effective(network.spectrum, rounds, chebyshev).lambda_min


def begun(step_size: StepSize, x0: Array, automatic: Rule) -> DescentState:
    """The state at the start, with given or ``automatic`` steps."""
    step, base, spent = start(step_size, len(x0), automatic)
    return DescentState(x0.copy(), step, base, 0, spent)


P = Problem[object]


@dataclass(frozen=True, kw_only=True)
class Descent(Mixing):
    """Decentralized gradient descent on a manifold. Automatic first steps are half the
    `descent_limit`."""

    agrees: ClassVar[bool] = False

    step_size: StepSize = "diminishing"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> DescentState:
        def automatic() -> tuple[Array, int]:
            largest = 0.5 * descent_limit(network, self.rounds, self.chebyshev)
            return agreed(
                problem, network, streams, x0, largest, 1.6, mixing=(self.rounds, self.chebyshev)
            )

        return begun(self.step_size, x0, automatic)
