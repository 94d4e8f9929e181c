"""The kinds of runs, a file each, and the choice of one."""

from __future__ import annotations

from ...network import connect
from ...process.abort import patience
from ..arguments import AnySetup
from ..same import check_arguments
from .asynchronous import Agents, Restarting
from .on_device import OnDevice
from .plain import Run
from .replicated import Replicated, ReplicatedUnreliable
from .surviving import Surviving
from .unreliable import Unreliable

KINDS = (OnDevice, Restarting, Agents, Surviving, ReplicatedUnreliable, Replicated, Unreliable, Run)
"""In order of precedence: a kind refuses arguments of the kinds after it that it cannot have."""


def run_of(arguments: AnySetup) -> Run:
    """The run of these arguments, built and checked: of the first kind that fits."""
    waiting = patience("rank_timeout", arguments.rank_timeout)
    check_arguments(connect(arguments.comm, waiting), arguments, type(arguments))
    return next(kind for kind in KINDS if kind.fits(arguments))(arguments)
