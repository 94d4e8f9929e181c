"""The findings of one process: versions, BLAS, optional packages, and the main job without ranks."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ..cli.environment import blas, cpu_model, versions
from .findings import Finding
from .job import ITERATIONS, short_run

EXTRAS = {"plot": "matplotlib", "data": "sklearn", "weights": "cvxpy", "fast": "numba"}
"""The optional extras, with the module that shows that each is installed."""
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def host_findings() -> Iterator[Finding]:
    """The findings that need no run."""
    yield _packages()
    yield _arithmetic(blas(), os.environ)
    yield _extras()


def _packages() -> Finding:
    found = versions()
    needed = found.keys() - {"decentorth", *EXTRAS.values()}
    missing = sorted(name for name in needed if found[name] == "not installed")
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    if missing:
        return Finding("packages", "fault", listed, f"pip install {' '.join(missing)}")
    return Finding("packages", "works", listed)


def _arithmetic(libraries: list[Mapping[str, Any]], environ: Mapping[str, str]) -> Finding:
    """The finding on BLAS threads: two in place of one cost a factor of 20 where ranks share cores."""
    if not libraries:
        return Finding(
            "BLAS",
            "warning",
            "unknown to threadpoolctl, so that its threads cannot be limited",
            f"set its own variable for one thread, beside {', '.join(_THREADS)}; or install NumPy from PyPI, which brings OpenBLAS",
        )
    found = "; ".join(
        f"{one['library']} {one['version']} ({one['architecture']}), {one['threads']} thread{'s' * (one['threads'] != 1)}"
        for one in libraries
    )
    if any(one["threads"] != 1 for one in libraries):
        several = [name for name in _THREADS if environ.get(name, "1") != "1"]
        remedy = f"unset {' '.join(several)}" if several else "set OPENBLAS_NUM_THREADS=1 where your own script starts"
        return Finding("BLAS", "note", f"{found}; one while an algorithm runs", remedy)
    return Finding("BLAS", "works", f"{found}; {cpu_model()}")


def _extras() -> Finding:
    missing = [name for name, module in EXTRAS.items() if importlib.util.find_spec(module) is None]
    there = ", ".join(name for name in EXTRAS if name not in missing) or "none"
    if missing:
        return Finding("extras", "note", f"{there}; without {', '.join(missing)}", f'pip install "decentorth[{",".join(missing)}]"')
    return Finding("extras", "works", there)


def one_process() -> Finding:
    """The finding on the main job without ranks."""
    try:
        digest = short_run("serial", 10)
    except Exception as error:  # any failure is a finding
        return Finding("one process", "fault", f"the main job raises {type(error).__name__}: {error}", "install decentorth anew")
    return Finding("one process", "works", f"{ITERATIONS} iterations of the main job; sha256 {digest[:16]}")
