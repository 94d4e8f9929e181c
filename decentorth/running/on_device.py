"""A run on a device: its refusals, and its method, which starts on the host, with the steps and penalties of NumPy's run, and
iterates on the device."""

from __future__ import annotations

from typing import Any

from .. import registry
from ..numerics.devices import on_host
from ..protocols import Array, Completing, Declared, Network, Problem, Streams
from ..stopping import LocalMaximum, rules_of
from .capabilities import running
from .checkpoint.states import mapped
from .watchers import Options


def check_method(algorithm: Any) -> None:
    """Raise a ValueError for a method, or settings of it, that do not run on a device."""
    declared = Declared.of(algorithm)
    if not declared.on_devices:
        known = [registry.algorithms.get(one) for one in registry.algorithms.names()]
        able = ", ".join(sorted(one.__name__ for one in known if Declared.of(one).on_devices))
        raise ValueError(f"{type(algorithm).__name__} does not run on a device: {able} do; or leave device out")
    if running(algorithm) is not algorithm:
        raise ValueError("safe and growing steps do not run on a device: take another step size, or leave device out")
    if declared.kernel == "numba":
        raise ValueError("the kernel numba is for arrays of NumPy, not of a device: leave kernel or device out")


def check_run(alone: bool, **given: bool) -> None:
    """Raise a ValueError unless one process holds all agents' samples (``alone``), and for arguments that are ``given`` to a run on
    a device, which has none of them."""
    if not alone:
        raise ValueError("a device is for a run in one process, of all agents: start it without mpirun and without spread samples")
    for name, is_given in given.items():
        if is_given:
            raise ValueError(f"{name} is not for a run on a device: leave it or device out")


def check_options(options: Options) -> None:
    """Raise a ValueError for options that a run on a device cannot have."""
    check_run(True, checkpoints=options.checkpoints is not None, resume=options.resume is not None)
    if rules_of(LocalMaximum, options.stopping):
        raise ValueError("LocalMaximum (local_tolerance) is not for a run on a device: take another rule, or leave device out")


class OnDevice:
    """A method whose states are on a device; ``problem`` is on the host, for the first state."""

    def __init__(self, method: Any, problem: Problem[Any], device: Any) -> None:
        self._method, self._problem, self._device = method, problem, device
        self.step = method.step
        if isinstance(method, Completing):
            self.completed = method.completed

    def init(self, problem: Problem[Any], network: Network, streams: Streams, x0: Array) -> Any:
        """The method's first state, on the device."""
        state = self._method.init(self._problem, network, streams, x0)
        return mapped(state, "", lambda _, entry: self._device.put(entry))


def brought_back(state: Any) -> Any:
    """A state whose arrays are on the host."""
    return mapped(state, "", lambda _, entry: on_host(entry))
