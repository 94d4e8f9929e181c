"""The ranks that a run has lost, and the error where the others cannot continue."""

from __future__ import annotations

from typing import NamedTuple

from topologies.line.words import ranges


class Loss(NamedTuple):
    """Ranks and agents that were lost, by their numbers at the start, and the iteration from which
    the others continued.

    Examples
    --------
    >>> import decentorth as do
    >>> do.Loss(iteration=120, ranks=(1,), agents=(5, 6))
    Loss(iteration=120, ranks=(1,), agents=(5, 6))
    """

    iteration: int
    ranks: tuple[int, ...]
    agents: tuple[int, ...]

    def __str__(self) -> str:
        """In words."""
        return (
            f"ranks {ranges(self.ranks)}, with agents {ranges(self.agents)}, after iteration "
            f"{self.iteration}"
        )


class LostError(RuntimeError):
    """Ranks were lost, and the remaining ones cannot continue; ``first`` is True on the first of
    them.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> try:
    ...     result = do.solve(problem, "drfgt", "ring", iterations=100)
    ... except do.LostError as error:
    ...     print(error)
    """

    def __init__(self, message: str, first: bool) -> None:
        super().__init__(message)
        self.first = first
