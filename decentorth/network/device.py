"""Mixing of arrays on a device, and their sums for metrics; all agents are in one process."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..numerics.devices import is_on_device
from ..numerics.ordered_sums import Csr
from ..protocols import Array
from .collective import AgentCollective
from .ledger import Contents
from .network import Network, Plan


class DevicePlan(Plan):
    """The plan of one matrix, with the matrix, or both of a directed network, on the device."""

    def __init__(self, W: Csr, network: Any) -> None:
        super().__init__(W, network)
        place = partial(network.device.mixing, W.indptr, W.indices)
        self.pull = place(W.data)
        self.push = self.pull if W.push is None else place(W.push)


class DeviceNetwork(Network):
    """A network that mixes arrays of the host as every network does, for automatic steps, and those
    of ``device`` there."""

    plan_type = DevicePlan
    steady = False

    def __init__(self, W: Any, device: Any) -> None:
        super().__init__(W, "serial")
        self.device = device

    def _mix(self, xs: tuple[Any, ...], alike: bool = False, pushed: int = 0) -> tuple[Array, ...]:
        if isinstance(xs[0], np.ndarray):
            return super()._mix(xs, alike, pushed)
        plan: Any = self._plan()
        pulled = len(xs) - pushed
        out = (*map(plan.pull, xs[:pulled]), *map(plan.push, xs[pulled:]))
        size = sum(x.size for x in xs) // self.n_local
        plan.used[Contents("mix", tuple([x.size // self.n_local for x in xs]))] += 1
        self.rounds, self.messages = self.rounds + 1, self.messages + plan.directed_edges
        self.bytes += 8 * plan.directed_edges * size
        return out


class DeviceCollective(AgentCollective):
    """The collective of a process that holds all agents, on a device."""

    def sum(self, *per_agent: Array) -> tuple[Array, ...]:
        return tuple([x.sum(0) for x in per_agent])

    def max(self, value: float) -> float:
        return value if is_on_device(value) else super().max(value)
