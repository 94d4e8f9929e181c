"""The common parts of decentralized gradient descent methods, in which agents mix points and follow their own gradients.

Nothing corrects for the differences between the agents' objectives. With a constant step a the points stop within a distance of
order a of a minimiser and of each other; with diminishing steps they approach one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..protocols import Array, Network, Problem, Streams
from .agreed import agreed
from .mixing import effective
from .step_sizes import policy
from .steps import start


class DescentState(NamedTuple):
    """The point x ``(n_local, d, r)`` and step_size ``(n_local,)`` change; base, the steps at the start, does not."""

    x: Array
    step_size: Array
    base: Array
    k: int
    gradients: int


def descent_limit(network: Network, rounds: int = 1, chebyshev: bool = False) -> float:
    """The largest stable product of step and curvature where the agents are alike: 1 + w for the smallest eigenvalue w."""
    return 1.0 + effective(network.spectrum, rounds, chebyshev).lambda_min


def step_on_manifold(algorithm: Any, problem: Problem[object], network: Network, streams: Streams, x0: Array) -> tuple[Array, int]:
    """The first steps ``(n_local,)`` of a method on a manifold, given or automatic (half the limit), and the gradients spent."""
    rounds, chebyshev = algorithm.rounds, algorithm.chebyshev

    def automatic() -> tuple[Array, int]:
        largest = 0.5 * descent_limit(network, rounds, chebyshev)
        return agreed(problem, network, streams, x0, largest, 1.6, rounds=rounds, chebyshev=chebyshev)

    return start(policy(algorithm.step_size), len(x0), automatic)
