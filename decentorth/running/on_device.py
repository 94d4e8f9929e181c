"""A method on a device: it starts on the host, with the steps and penalties of NumPy's run, and iterates on the device."""

from __future__ import annotations

from typing import Any

from ..numerics.devices import on_host
from ..protocols import Array, Network, Problem, Streams
from .checkpoint.states import mapped


class OnDevice:
    """A method whose states are on a device.

    Parameters
    ----------
    method
        The method.
    problem
        The problem on the host, for the first state.
    device
        Holds the arrays of all states.
    """

    def __init__(self, method: Any, problem: Problem[Any], device: Any) -> None:
        self._method, self._problem, self._device = method, problem, device
        self.step = method.step
        if hasattr(method, "completed"):
            self.completed = method.completed

    def init(self, problem: Problem[Any], network: Network, streams: Streams, x0: Array) -> Any:
        """The method's first state, on the device."""
        state = self._method.init(self._problem, network, streams, x0)
        return mapped(state, "", lambda _, entry: self._device.put(entry))


def brought_back(state: Any) -> Any:
    """A state whose arrays are on the host."""
    return mapped(state, "", lambda _, entry: on_host(entry))
