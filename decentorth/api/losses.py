"""The ranks that a run has lost, and the error where the others cannot continue."""

from __future__ import annotations

from typing import NamedTuple

from topologies.words import ranges


class Loss(NamedTuple):
    """Ranks and agents that were lost, by their numbers at the start, and the iteration from which the others continued."""

    iteration: int
    ranks: tuple[int, ...]
    agents: tuple[int, ...]

    def __str__(self) -> str:
        """In words."""
        return f"ranks {ranges(self.ranks)}, with agents {ranges(self.agents)}, after iteration {self.iteration}"


class LostError(RuntimeError):
    """Ranks were lost, and the remaining ones cannot continue; ``first`` is True on the first of them."""

    def __init__(self, message: str, first: bool) -> None:
        super().__init__(message)
        self.first = first
