"""Links of an agent to its neighbours, and the requests of an optimizer.

An optimizer writes everything that needs other agents as a generator: it yields a `Request` and an
array, and is sent the answer. A process answers at once, by messages (`processes`). Agents that
share one process answer when all of them have asked (`agents`). Both compute the same sums in the
same order, so their bits are equal.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from enum import Enum, auto
from typing import Protocol, TypeAlias

import torch
from torch import Tensor


class Request(Enum):
    """A request of an optimizer; all agents have the same one at the same time."""

    MIX = auto()
    """The sum of the neighbours' arrays with the weights of W."""
    MEAN = auto()
    """The mean of all agents' arrays."""
    FIRST = auto()
    """Agent 0's array."""
    ALL = auto()
    """The arrays of all agents, stacked."""


Rounds: TypeAlias = Generator[tuple[Request, Tensor], Tensor, None]


class Links(Protocol):
    """An agent's links, of this process or of one of several agents in it."""

    rank: int
    size: int
    sent: int
    """The bytes that this agent has sent to neighbours."""

    def connect(self, row: Mapping[int, float], sent_as: torch.dtype, width: int) -> None:
        """Take this agent's row of W, and the type and number of the entries of a message."""

    def run(self, call: str, rounds: Rounds) -> None:
        """Answer the requests of a call such as ``step()``."""

    def check_ready(self) -> None:
        """Refuse to go on while a call waits for other agents."""

    def ahead(self, x: Tensor) -> None:
        """Send ``x``, for which MIX will be asked next, before the answer is needed."""

    def end(self) -> None:
        """Say that this agent takes no further steps."""

    def forget(self) -> None:
        """Drop the array that was sent ahead."""

    def shortest(self, length: int) -> int:
        """The smallest length over all agents."""


def combined(x: Tensor, own: Tensor, others: Iterable[tuple[float, Tensor]]) -> Tensor:
    """x_i + sum_j W_ij (q_j - q_i), where q are the numbers that were sent.

    It is sum_j W_ij x_j if q = x. The mean over the agents stays exact if q is rounded.
    """
    total = x.clone()
    for weight, other in others:
        total.add_(other - own, alpha=weight)
    return total


def neighbours(row: Mapping[int, float], rank: int) -> dict[int, float]:
    """The weights of the others in a row of W, in the order of the agents."""
    return {agent: weight for agent, weight in sorted(row.items()) if agent != rank and weight}
