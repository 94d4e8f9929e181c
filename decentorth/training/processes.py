"""The links of this process to its neighbours in a group of torch.distributed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from .links import Request, Rounds, combined, neighbours

_ENDED = -1
"""The number of the round in the last message of a process."""
_HEADER = 8
"""The bytes of the number of the round, before the numbers of a message."""


class Processes:
    """The links of this process: messages to its neighbours, without waiting for other processes.

    Each message has the number of its round, so that processes which take different numbers of
    steps end with an error. Messages are on the GPU with NCCL, otherwise on the host.
    """

    def __init__(self, group: dist.ProcessGroup | None, device: torch.device) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise ValueError(
                "there is no process group: start the script with torchrun and call "
                "torch.distributed.init_process_group('gloo') first, or give group=agent for each "
                "agent of decentorth.training.Agents(n); for one process take Landing"
            )
        self._group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.sent = 0
        on_device = f"{device.type}:nccl" in dist.get_backend_config(group)
        self._place = device if on_device else torch.device("cpu")
        self._round = 0
        self._pending: tuple[Tensor, dict[int, Tensor], list[dist.Work]] | None = None

    def connect(self, row: Mapping[int, float], sent_as: torch.dtype, width: int) -> None:
        self._row = neighbours(row, self.rank)
        self._sent_as = sent_as
        self._width = width

    def check_ready(self) -> None:
        pass  # calls end before they return

    def run(self, call: str, rounds: Rounds) -> None:
        request, x = next(rounds)
        while True:
            answer = self._answer(request, x)
            try:
                request, x = rounds.send(answer)
            except StopIteration:
                return

    def _answer(self, request: Request, x: Tensor) -> Tensor:
        match request:
            case Request.MIX:
                return self._mixed(x)
            case Request.MEAN:
                return self._mean(x)
            case Request.FIRST:
                return self._joined(x, lambda first, _: first).to(x.device)
            case Request.ALL:
                every = x.new_zeros((self.size, *x.shape))
                every[self.rank] = x
                return self._joined(every, self._with_own_row).to(x.device)

    def ahead(self, x: Tensor) -> None:
        self._round += 1
        self._start(x, self._round)

    def _start(self, x: Tensor, number: int) -> None:
        """Start to send the array to all neighbours, and to receive theirs."""
        length = len(x) * self._sent_as.itemsize
        message = torch.empty(_HEADER + length, dtype=torch.uint8, device=self._place)
        message[:_HEADER].view(torch.int64).fill_(number)
        message[_HEADER:].view(self._sent_as).copy_(x)
        into = {agent: torch.empty_like(message) for agent in self._row}
        calls = [self._call(dist.irecv, buffer, agent) for agent, buffer in into.items()]
        calls += [self._call(dist.isend, message, agent) for agent in into]
        works = dist.batch_isend_irecv(calls) if calls else []
        self._pending = message, into, works
        self.sent += len(into) * (message.nbytes - _HEADER)

    def _mixed(self, x: Tensor) -> Tensor:
        if self._pending is None:
            self.ahead(x)
        own, *others = [
            message[_HEADER:].view(self._sent_as).to(x.device, x.dtype) for message in self._taken()
        ]
        return combined(x, own, zip(self._row.values(), others, strict=True))

    def _taken(self) -> list[Tensor]:
        """The message of this process and those of its neighbours, once these are here; none if
        nothing is under way."""
        if self._pending is None:
            return []
        message, into, works = self._pending
        self._pending = None
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise RuntimeError(
                f"process {self.rank} waits in round {self._round} for its neighbours "
                f"{', '.join(map(str, into))}, of which one has ended or does not answer"
            ) from error
        own = int(message[:_HEADER].view(torch.int64))
        for agent, buffer in into.items():
            other = int(buffer[:_HEADER].view(torch.int64))
            if other != own:
                raise RuntimeError(
                    f"process {self.rank} {_at(own)}, but process {agent} {_at(other)}: all must "
                    "take as many steps; loop over optimizer.batches(loader)"
                )
        return [message, *into.values()]

    def forget(self) -> None:
        self._taken()

    def end(self) -> None:
        self.forget()
        self._start(torch.zeros(self._width, device=self._place), _ENDED)
        self._taken()

    def _mean(self, x: Tensor) -> Tensor:
        """The mean of all arrays, added from process to process in their order."""
        total = self._joined(x + 0.0, torch.add)
        return (total / self.size).to(x.device)

    def shortest(self, length: int) -> int:
        return int(self._joined(torch.tensor([length]), torch.minimum))

    def _with_own_row(self, every: Tensor, own: Tensor) -> Tensor:
        every[self.rank] = own[self.rank]
        return every

    def _joined(self, own: Tensor, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return what ``join`` makes of the arrays of all processes, passed along them in order and
        back; on the place of messages.

        Calls of all processes at once leave the arrays to threads of gloo, which abort if they
        release them while Python ends.
        """
        x = own.to(self._place, copy=True)
        if self.rank > 0:
            before = torch.empty_like(x)
            self._wait(dist.irecv, before, self.rank - 1)
            x = join(before, x)
        if self.rank < self.size - 1:
            self._wait(dist.isend, x, self.rank + 1)
            self._wait(dist.irecv, x, self.rank + 1)
        if self.rank > 0:
            self._wait(dist.isend, x, self.rank - 1)
        return x

    def _wait(self, operation: object, x: Tensor, agent: int) -> None:
        for work in dist.batch_isend_irecv([self._call(operation, x, agent)]):
            work.wait()

    def _call(self, operation: object, x: Tensor, agent: int) -> dist.P2POp:
        return dist.P2POp(operation, x, self._global(agent), group=self._group)

    def _global(self, agent: int) -> int:
        """The number of a process of the group among all processes."""
        return agent if self._group is None else dist.get_global_rank(self._group, agent)


def _at(number: int) -> str:
    return "has ended its training" if number == _ENDED else f"is in round {number}"
