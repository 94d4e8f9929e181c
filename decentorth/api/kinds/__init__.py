"""The kinds of runs, a file each, and the choice of one."""

from __future__ import annotations

from ..arguments import AnySetup
from .asynchronous import Agents, Restarting
from .on_device import OnDevice
from .plain import Run
from .replicated import Replicated, ReplicatedUnreliable
from .summed import Summed
from .surviving import Surviving
from .unreliable import Unreliable

KINDS = (
    Summed,
    OnDevice,
    Restarting,
    Agents,
    Surviving,
    ReplicatedUnreliable,
    Replicated,
    Unreliable,
    Run,
)
"""In order of precedence: a kind refuses arguments of the kinds after it that it cannot have."""


def run_of(arguments: AnySetup) -> Run:
    """The run of these arguments, built and checked: of the first kind that fits."""
    return next(kind for kind in KINDS if kind.fits(arguments))(arguments)
