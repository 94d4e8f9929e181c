"""Agents that leave a run for good, and the run that the others go on with.

1. The agents of a lost rank leave the graph. What an agent gave to them, it keeps: W stays symmetric and doubly stochastic
   (`topologies.without_agents`).
2. The objective is the mean over those that are left. Their data and the constraint set stay as they are.
3. All go back to the same iteration (`rewind`), and the method begins anew there, from every agent's own point: so trackers are the
   fields at these points, and their mean is the mean of the fields of those that are left. Whatever is ``auto`` is found anew.
4. Iterations are numbered on; steps that fall with the iteration go on falling, counts and draws go on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from topologies.leaving import ranges

from .protocols import Array, Streams


class Loss(NamedTuple):
    """Ranks that were lost, and what went with them."""

    iteration: int
    """To which the others went back, and from which they went on."""
    ranks: tuple[int, ...]
    """By their numbers at the start."""
    agents: tuple[int, ...]
    """By their numbers at the start."""

    def __str__(self) -> str:
        """In words."""
        return f"ranks {ranges(self.ranks)}, with agents {ranges(self.agents)}, after iteration {self.iteration}"


class LostError(RuntimeError):
    """Ranks were lost, and those that are left cannot go on; the message says why, and what there is instead.

    Parameters
    ----------
    message
        The same on all that are left.
    first
        Whether this is the first of them.
    """

    def __init__(self, message: str, first: bool) -> None:
        super().__init__(message)
        self.first = first


def restarted(algorithm: Any, problem: Any, network: Any, streams: Streams, x: Array, k: int, gradients: int) -> Any:
    """The method's state as it begins at the agents' own points ``x``, ``(n_local, *shape)``, in iteration ``k``.

    Parameters
    ----------
    gradients
        Evaluations made so far, per agent.
    """
    state = algorithm.init(problem, network, streams, x)
    scale = getattr(getattr(algorithm, "step_size", None), "scale", None)
    if scale is not None and hasattr(state, "base"):  # the method begins with the step of iteration 0
        state = state._replace(step_size=state.base * scale(k))
    return state._replace(k=k, gradients=state.gradients + gradients)
