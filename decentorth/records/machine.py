"""The environment of a run: versions and machine, so that a difference in the last bits can be
traced."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from threadpoolctl import threadpool_info

from .._version import __version__

PACKAGES = ("numpy", "scipy", "networkx", "mpi4py", "numba")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages whose arithmetic or messages a run uses."""
    from importlib import metadata

    found = {"python": platform.python_version(), "decentorth": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    return found


def blas() -> list[dict[str, object]]:
    """The loaded BLAS libraries: name, version, chosen kernels and number of threads of each."""
    names = {"library": "internal_api", "threads": "num_threads"}
    names |= {name: name for name in ("version", "architecture")}
    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    found = [{ours: info.get(name) for ours, name in names.items()} for info in libraries]
    return sorted(found, key=str)


def cpu_model() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def environment() -> dict[str, object]:
    """Versions, BLAS libraries and processor, for the summary of a run."""
    found = {"versions": versions(), "blas": blas(), "cpu": cpu_model()}
    return {**found, "system": platform.platform()}
