"""The random streams of generated data: one for each agent, so that a rank draws for its own agents only, and a shared one."""

from __future__ import annotations

import numpy as np

_SHARED = 0xFFFFFFFF
"""The key of the shared stream, in place of an agent's number; stream 0 of it gives the start (`AgentProblem.start`)."""


def stream(seed: int, agent: int | None = None, purpose: int = 0) -> np.random.Generator:
    """The generator of an agent's data, or of another ``purpose``; without an agent, of shared data, the same on every rank."""
    key = (_SHARED, 1) if agent is None else (agent, purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
