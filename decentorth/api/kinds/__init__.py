"""The kinds of runs, a file each, and the choice of one."""

from __future__ import annotations

from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from ..._lazy import families
from ...network import connect
from ...process.abort import patience
from ..arguments import AnySetup
from ..rank_agreement import check_arguments
from .on_device import OnDevice
from .plain import Run
from .replicated import Replicated, ReplicatedUnreliable
from .summed import Summed
from .surviving import Surviving
from .unreliable import Unreliable

if TYPE_CHECKING:
    from ...families.asynchronous.kinds import *  # noqa: F403


@cache
def kinds() -> tuple[type[Run], ...]:
    """In order of precedence: a kind refuses arguments of the kinds after it that it cannot
    have."""
    found = [Run, Summed, OnDevice, Surviving, ReplicatedUnreliable, Replicated, Unreliable]
    found += [resolve_name(f"{module}:{name}") for name, module in families(__name__).items()]
    return tuple(sorted(found, key=lambda kind: kind.precedence))


def run_of(arguments: AnySetup) -> Run:
    """The run of these arguments, built and checked: of the first kind that fits."""
    waiting = patience("rank_timeout", arguments.rank_timeout)
    check_arguments(connect(arguments.comm, waiting), arguments, type(arguments))
    return next(kind for kind in kinds() if kind.fits(arguments))(arguments)
