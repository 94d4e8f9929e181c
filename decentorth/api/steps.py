"""The steps of a run: those of its method, or steps that another method changes from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ..algorithms.common.schedules import Growing
from ..algorithms.decentralized.growing_steps import GrowingSteps
from ..algorithms.decentralized.safe import Safe
from ..protocols import Declared, Judged
from ..running.parts import Method


def grows(method: Method) -> bool:
    """True if the method is run with growing steps."""
    return isinstance(Declared.of(method).step_size, Growing)


def for_network(method: Method, network: Any) -> Method:
    """The method with the settings chosen that depend on the network.

    Automatic steps grow if several agents on a steady network can judge them.
    """
    chosen: Any = Declared.of(method).for_network(network)
    declared = Declared.of(chosen)
    exact = declared.batch_size is None and not declared.safe
    judges = isinstance(chosen, Judged) and network.steady and network.n_agents > 1
    if judges and exact and declared.step_size == "auto":
        chosen = replace(chosen, step_size=Growing())
    return cast(Method, chosen)


def wrapped(method: Method) -> Method:
    """The method that runs: this one, or `Safe` or `GrowingSteps` around it."""
    if not isinstance(method, Judged):
        return method
    if Declared.of(method).safe:
        return Safe(method)
    return GrowingSteps(method) if grows(method) else method
