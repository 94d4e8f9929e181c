"""A user's own problem from two functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..protocols import Array, ConstraintSet
from .base import AgentProblem


class FunctionProblem(AgentProblem):
    """Objectives given as functions of one agent's number and point.

    Parameters
    ----------
    value
        ``value(agent, x) -> float`` with x of shape ``constraint.shape``.
    gradient
        ``gradient(agent, x) -> array`` of the same shape: the Euclidean gradient.
    constraint
        The feasible set, e.g. ``Stiefel(d, r)``.
    n_agents
        How many agents there are.
    stacked
        The functions take all local agents at once instead: ``value(agents, x)`` with ``agents`` an index array and x
        ``(len(agents), *shape)`` returns ``(len(agents),)``, and ``gradient`` an array like x. Faster; to get the same bits for
        any number of ranks, treat each agent alone (batched ``@``, elementwise functions, sums over trailing axes).

    Raises
    ------
    TypeError
        When ``value`` or ``gradient`` cannot be called.
    ValueError
        During a run, when what a function returns has the wrong shape; names the agent.
    """

    def __init__(
        self,
        value: Callable[..., float | Array],
        gradient: Callable[..., Array],
        constraint: ConstraintSet,
        n_agents: int,
        *,
        stacked: bool = False,
    ) -> None:
        for name, function in (("value", value), ("gradient", gradient)):
            if not callable(function):
                raise TypeError(f"{name} must be a function, got {type(function).__name__}")
        if n_agents < 1:
            raise ValueError(f"n_agents must be at least 1, got {n_agents}")
        super().__init__(n_agents, slice(0, n_agents), constraint)
        self._value, self._gradient, self._stacked = value, gradient, stacked

    def _take(self, local: slice) -> None:
        """The functions serve any agent."""

    def _numbers(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.arange(self.agents.start, self.agents.stop, dtype=np.int64)

    def value(self, x: Array) -> Array:
        """``(n_local,)``."""
        if self._stacked:
            return self._shaped("value", self._value(self._numbers(), x), x.shape[:1])
        out = np.empty(len(x))
        for i, agent in enumerate(self._numbers()):
            out[i] = self._shaped(f"value of agent {agent}", self._value(int(agent), x[i]), ())
        return out

    def gradient(self, x: Array) -> Array:
        """``(n_local, *shape)``."""
        if self._stacked:
            return self._shaped("gradient", self._gradient(self._numbers(), x), x.shape)
        out = np.empty_like(x)
        for i, agent in enumerate(self._numbers()):
            out[i] = self._shaped(f"gradient of agent {agent}", self._gradient(int(agent), x[i]), self.shape)
        return out

    @staticmethod
    def _shaped(what: str, result: object, shape: tuple[int, ...]) -> Array:
        array = np.array(result, dtype=np.float64, order="C")
        if array.shape != shape:
            raise ValueError(f"{what} must have shape {shape}, got {array.shape}")
        return array
