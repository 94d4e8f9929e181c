"""The method that a run chooses for itself, by the table in `api.automatic`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..protocols import Array, Network, Streams
from .common import Method


@dataclass(frozen=True, kw_only=True)
class AutoMethod(Method):
    """The first method of a table that fits the problem, the network and its faults.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.PCASettings(data="digits", rank=3).problem(5, seed=0)
    >>> result = do.solve(problem, W="ring")
    >>> result.algorithm
    Direct()
    """

    directed: ClassVar[bool] = True
    only_sums: ClassVar[bool] = True

    def init(self, problem: Any, network: Network, streams: Streams, x0: Array) -> Any:
        raise TypeError("auto stands for a method that a run chooses: take solve, or iterate")

    step = init
