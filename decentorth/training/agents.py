"""Several agents in one process, with the bits of as many processes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import Parameter

from .links import Request, Rounds, combined, neighbours


class Agent:
    """One of several agents in this process; `Agents` makes them."""

    def __init__(self, agents: Agents, rank: int, size: int) -> None:
        self._agents = agents
        self.rank = rank
        self.size = size
        self.sent = 0
        self._parameters: list[Parameter] = []

    def take(self, parameters: list[Parameter]) -> None:
        """Take the parameters of this agent's optimizer, which no other agent has."""
        own = {id(p) for p in parameters}
        for other in self._agents:
            if other is not self and any(id(p) in own for p in other._parameters):
                raise ValueError(
                    f"agents {other.rank} and {self.rank} have the same parameters: make a model "
                    f"for each agent, models = [Net() for _ in range({self.size})]"
                )
        self._parameters = parameters

    def connect(self, row: Mapping[int, float], sent_as: torch.dtype, width: int) -> None:
        self.row = neighbours(row, self.rank)
        self.sent_as = sent_as

    def run(self, call: str, rounds: Rounds) -> None:
        self._agents.run(self.rank, call, rounds)

    def check_ready(self) -> None:
        self._agents.check_ready(self.rank)

    def ahead(self, x: Tensor) -> None:
        pass

    def end(self) -> None:
        pass

    def forget(self) -> None:
        pass

    def shortest(self, length: int) -> int:
        raise ValueError(
            "agents in one process share a loop: write for batches in zip(*loaders, strict=True), "
            "with loaders of equal length"
        )


class Agents(list[Agent]):
    """``n`` agents in this process, to try on one machine what n processes will compute.

    Each agent has its own model and optimizer, with ``group=agent``. Steps are taken together: an
    optimizer's parameters change when the last of the n optimizers has been called.

    Parameters
    ----------
    n
        The number of agents.

    Examples
    --------
    >>> import torch
    >>> from decentorth.training import DRFGT, Agents
    >>> models = [torch.nn.Linear(6, 2) for agent in range(4)]
    >>> optimizers = [
    ...     DRFGT(model.parameters(), lr=0.1, orthonormal=True, group=agent)
    ...     for model, agent in zip(models, Agents(4), strict=True)
    ... ]
    >>> for model, optimizer in zip(models, optimizers, strict=True):
    ...     model(torch.randn(5, 6)).square().mean().backward()
    ...     optimizer.step()
    >>> optimizers[0].feasibility() < 0.1
    True
    """

    def __init__(self, n: int) -> None:
        super().__init__(Agent(self, rank, n) for rank in range(n))
        self._call = ""
        self._waiting: dict[int, tuple[Rounds, tuple[Request, Tensor]]] = {}

    def run(self, rank: int, call: str, rounds: Rounds) -> None:
        """Take part in a call with the agent ``rank``; the last of all agents answers them all."""
        self.check_ready(rank, call)
        self._call = call
        self._waiting[rank] = rounds, next(rounds)
        if len(self._waiting) < len(self):
            return
        waiting = [self._waiting[agent] for agent in range(len(self))]
        self._waiting.clear()
        while waiting:
            requests = [request for _, request in waiting]
            if len({request for request, _ in requests}) > 1:
                raise RuntimeError("the optimizers of all agents must be called in the same way")
            answers = self._answers(requests[0][0], [x for _, x in requests])
            waiting = [
                (rounds, following)
                for (rounds, _), answer in zip(waiting, answers, strict=True)
                if (following := _next(rounds, answer)) is not None
            ]

    def check_ready(self, rank: int, call: str | None = None) -> None:
        """Refuse an agent that waits, and a call unless it is the one that others wait in."""
        if rank in self._waiting or (self._waiting and call not in (None, self._call)):
            late = next(agent for agent in range(len(self)) if agent not in self._waiting)
            raise RuntimeError(
                f"agent {min(self._waiting)} waits in {self._call} for agent {late}: call "
                f"{self._call} for each of the {len(self)} agents first"
            )

    def _answers(self, request: Request, xs: list[Tensor]) -> list[Tensor]:
        match request:
            case Request.MIX:
                return self._mixed(xs)
            case Request.MEAN:
                total = torch.zeros_like(xs[0])
                for x in xs:
                    total += x
                return [total / len(xs)] * len(xs)
            case Request.FIRST:
                return [xs[0]] * len(xs)
            case Request.ALL:
                return [torch.stack(xs)] * len(xs)

    def _mixed(self, xs: list[Tensor]) -> list[Tensor]:
        messages = [x.to(agent.sent_as) for agent, x in zip(self, xs, strict=True)]
        rounded = [message.to(xs[0].dtype) for message in messages]
        for agent, message in zip(self, messages, strict=True):
            agent.sent += len(agent.row) * message.nbytes
        return [
            combined(x, own, [(weight, rounded[j]) for j, weight in agent.row.items()])
            for agent, x, own in zip(self, xs, rounded, strict=True)
        ]


def _next(rounds: Rounds, answer: Tensor) -> tuple[Request, Tensor] | None:
    """The next request of an agent, None at its end."""
    try:
        return rounds.send(answer)
    except StopIteration:
        return None
