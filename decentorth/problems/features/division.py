"""The division of the features of samples over agents, for the settings of problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...protocols import Array, Collective
from ..base import Deferred, Outline


def by_features(whole: Array, n_agents: int) -> list[Array]:
    """The columns of ``(m, d)`` in consecutive runs, one for each agent, whose sizes differ by at most one."""
    if whole.shape[1] < n_agents:
        raise ValueError(f"{n_agents} agents cannot share {whole.shape[1]} features: n_agents must be at most {whole.shape[1]}")
    return np.array_split(whole, n_agents, axis=1)


def split_features(n_agents: int, build: Callable[[], Any], numbers: Callable[[], int], partition: str = "even") -> Deferred:
    """The problem that each rank builds whole, and of which it keeps its own agents' features.

    Each rank holds the ``numbers`` of the samples twice while it divides them. A ``partition`` divides samples, which all agents
    share here: any but the default is a ValueError.
    """
    if partition != "even":
        raise ValueError("partition divides samples, and here all agents have all samples: leave partition out")

    def on_rank(agents: slice, collective: Collective) -> Any:
        with collective.together():
            return build().restrict(agents)

    return Deferred(n_agents, on_rank, lambda: Outline([0] * n_agents, 0, more=lambda own: 2 * numbers()))
