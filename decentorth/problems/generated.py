"""The random streams of generated data: each agent's own, so that every rank draws for its own agents, and one that all share."""

from __future__ import annotations

import numpy as np

_SHARED = 0xFFFFFFFF
"""In place of an agent's number; its stream 0 is that of the common start (`AgentProblem.start`)."""


def stream(seed: int, agent: int | None = None) -> np.random.Generator:
    """The generator of an agent's data; without an agent that of what all of them share, the same on every rank."""
    key = (_SHARED, 1) if agent is None else (agent, 0)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
