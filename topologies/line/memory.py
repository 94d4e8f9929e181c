"""Comparison of a number of bytes with the memory that is free, before anything of that size is
made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SMALL = 1 << 24
"""The bytes that are taken without reading the system's files: 16 MiB."""
_GROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""The limit of a control group, its use, and what of that the kernel can free: version 2 and
version 1."""


def require(needed: float, what: str, *, on_host: float = 0.0) -> None:
    """Raise MemoryError where ``needed`` bytes exceed what this process can get, or ``on_host``
    bytes what its host has free.

    Parameters
    ----------
    needed
        Bytes that this process is about to take.
    what
        The subject of the message, as "the data".
    on_host
        Bytes that all processes of this host together are about to take, at least those of this
        one.
    """
    whole = max(needed, on_host)
    if whole <= SMALL:
        return
    for taken, room in ((needed, _of_process()), (whole, _of_host())):
        if room is not None and taken > room:
            host = " on this host" if taken > needed else ""
            raise MemoryError(f"{what} would take {size(taken)}{host}, and {size(room)} are free")


def dense(matrix: Any) -> NDArray[np.float64]:
    """A sparse matrix as an array; MemoryError where there is too little memory for it."""
    rows, columns = matrix.shape
    require(8.0 * rows * columns, f"a dense matrix of {rows} x {columns}")
    array: NDArray[np.float64] = matrix.toarray()
    return array


def size(number: float) -> str:
    """Bytes in the unit that fits."""
    units = ("B", "kB", "MB", "GB", "TB", "PB")
    power = 0
    while number >= 999.5 and power < len(units) - 1:
        number = number / 1000.0
        power = power + 1
    return f"{number:.3g} {units[power]}"


def _of_host() -> int | None:
    """The bytes that are free for all processes of this host, or of its container; None where the
    system does not say."""
    rooms = [*_groups(), *_job()]
    known = _fields("/proc/meminfo")
    if "MemAvailable" in known:
        rooms.append(1024 * (known["MemAvailable"] + known.get("SwapFree", 0)))
    elif sys.platform != "win32" and "SC_PHYS_PAGES" in os.sysconf_names:
        rooms.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(rooms, default=None)


def _of_process() -> int | None:
    """The bytes that the limit of this process's address space leaves (``ulimit -v``); None without
    a limit."""
    if sys.platform != "win32":
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            return max(limit - 1024 * _fields("/proc/self/status").get("VmSize", 0), 0)
    return None


def _job() -> Iterator[int]:
    """The bytes that SLURM grants the job on this host, but those of this process; nothing outside
    of a job or without a limit."""
    granted = _number("SLURM_MEM_PER_NODE") or _number("SLURM_MEM_PER_CPU") * _number(
        "SLURM_CPUS_ON_NODE"
    )
    if granted:
        yield max((granted << 20) - 1024 * _fields("/proc/self/status").get("VmRSS", 0), 0)


def _number(variable: str) -> int:
    """The whole number in a variable of the environment; 0 without it."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else 0


def _groups() -> Iterator[int]:
    """The bytes that each limit of this process's control groups leaves."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        place = Path("/sys/fs/cgroup", controllers, name.lstrip("/"))
        for folder in (place, *place.parents):
            yield from _left(folder)


def _left(folder: Path) -> Iterator[int]:
    for limit, used, idle in _GROUPS:
        most = _text(folder / limit).strip()
        now = _text(folder / used).strip()
        if most.isdigit() and now.isdigit():
            yield max(int(most) - int(now) + _fields(folder / "memory.stat").get(idle, 0), 0)


def _fields(path: str | Path) -> dict[str, int]:
    """The numbers in a file of lines "name number", with or without a colon."""
    pairs = [line.replace(":", " ").split()[:2] for line in _text(path).splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _text(path: str | Path) -> str:
    """The content of a file of the system; nothing where there is no such file."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
