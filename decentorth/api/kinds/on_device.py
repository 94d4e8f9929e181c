"""A run on a device: its refusals, and its method, which starts on the host, with the steps and
penalties of NumPy's run, and iterates on the device."""

from __future__ import annotations

from typing import Any

from ... import registry
from ...network import connect
from ...network.device import DeviceCollective, DeviceNetwork
from ...numerics.devices import on_host, open_device
from ...numerics.states import mapped
from ...problems import FunctionProblem
from ...protocols import Array, Completing, Declared, Network, Problem, Streams
from ...running.loop import Outcome
from ...running.options import Options
from ...running.parts import Method, Parts
from ...stopping import LocalMaximum, rules_of
from .. import steps
from ..arguments import AnySetup
from ..result import Result
from .plain import Run


class OnDevice(Run):
    """The network mixes on the device, and the iterations have a problem, a state and sums there;
    the result is on the host."""

    precedence = 10

    @staticmethod
    def fits(arguments: AnySetup) -> bool:
        return arguments.device is not None

    def _network(self) -> DeviceNetwork:
        given = self.arguments
        if connect(self.comm).size > 1 or given.blocks is not None:
            raise ValueError(
                "a device is for a run in one process, of all agents: start it without mpirun "
                "and without spread samples"
            )
        shrinks = given.on_rank_loss != "abort"
        cuts = given.placement != "even"
        _refuse(placement=cuts, channel=given.channel, on_rank_loss=shrinks)
        self.device = open_device(given.device or "")
        return DeviceNetwork(given.mixing[0], self.device)

    def _check_method(self) -> None:
        _check_method(self.algorithm)

    def _place(self) -> None:
        on_host: Any = self.problem
        self.placed: Problem[Any] = on_host.on(self.device.put)
        if isinstance(self.problem, FunctionProblem):
            self.problem = self.placed  # its functions take nothing but the device's tensors

    def _options(self, options: Options) -> Options:
        _refuse(checkpoints=options.checkpoints, resume=options.resume)
        if rules_of(LocalMaximum, options.rule):
            raise ValueError(
                "LocalMaximum (local_tolerance) is not for a run on a device: take another rule, "
                "or leave device out"
            )
        return options

    @property
    def parts(self) -> Parts:
        collective = DeviceCollective(self.network.communicator, self.network.bounds)
        stepper = FromHost(self.method, self.problem, self.device)
        return Parts(
            self.placed, self.method, self.network, collective, self.streams, self.start, stepper
        )

    def result(self, outcome: Outcome) -> Result:
        state = mapped(outcome.state, "", lambda _, entry: on_host(entry))
        return super().result(outcome._replace(state=state))


class FromHost:
    """A method whose states are on a device; ``problem`` is on the host, for the first state."""

    def __init__(self, method: Any, problem: Problem[Any], device: Any) -> None:
        self._method = method
        self._problem = problem
        self._device = device
        self.step = method.step
        if isinstance(method, Completing):
            self.completed = method.completed

    def init(self, problem: Problem[Any], network: Network, streams: Streams, x0: Array) -> Any:
        """The method's first state, on the device."""
        state = self._method.init(self._problem, network, streams, x0)
        return mapped(state, "", lambda _, entry: self._device.put(entry))


def _check_method(algorithm: Method) -> None:
    """Raise a ValueError for a method, or settings of it, that do not run on a device."""
    declared = Declared.of(algorithm)
    if not declared.on_devices:
        known = [registry.algorithms.get(one) for one in registry.algorithms.names()]
        able = ", ".join(sorted(one.__name__ for one in known if Declared.of(one).on_devices))
        name = type(algorithm).__name__
        raise ValueError(f"{name} does not run on a device: {able} do; or leave device out")
    if steps.wrapped(algorithm) is not algorithm:
        raise ValueError(
            "safe and growing steps do not run on a device: take another step size, or leave "
            "device out"
        )
    if declared.kernel == "numba":
        raise ValueError(
            "the kernel numba is for arrays of NumPy, not of a device: leave kernel or device out"
        )


def _refuse(**given: object) -> None:
    """Raise a ValueError for arguments that are given to a run on a device, which has none of
    them."""
    for name, value in given.items():
        if value not in (None, False):
            raise ValueError(f"{name} is not for a run on a device: leave it or device out")
