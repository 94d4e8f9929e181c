"""The base class of settings of problems over {x : x^T J x = J}: a single agent, samples in blocks,
and the signs of J."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from decentorth.problems.common.division import Sourced
from decentorth.problems.deferred import Deferred

from ..sets.j_orthogonal import JOrthogonal


@dataclass(frozen=True, kw_only=True)
class SignedSettings(Sourced, ABC):
    """Settings of a problem for a single agent over {x : x^T J x = J}.

    Parameters
    ----------
    positive
        How many signs of J are +1, the first ones; by default half.
    """

    positive: int | None = None

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem, which is built on the rank of its single agent; a ValueError for several
        agents."""
        if n_agents != 1:
            name = type(self).__name__.removesuffix("Settings")
            raise ValueError(f"{name} is for one agent: n_agents must be 1, got {n_agents}")
        return self.in_blocks(1, seed)

    @abstractmethod
    def in_blocks(self, n_blocks: int, seed: int) -> Deferred:
        """The problem of ``n_blocks`` agents, one for each block of the samples, with the same
        mean: for `Spread`."""

    def _constraint(self, n: int, most: int) -> JOrthogonal:
        """The constraint set of order n, with at most ``most`` signs +1."""
        p = n // 2 if self.positive is None else self.positive
        if not 0 <= p <= most:
            raise ValueError(f"positive must lie between 0 and {most}, got {p}")
        return JOrthogonal(p, n - p)
