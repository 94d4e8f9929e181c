"""The findings of one process: versions, BLAS threads, and the main job without ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...api import Options
from ...commands.line.config import Command
from ...commands.run.execution import made
from ...network import connect
from ...records.machine import blas, cpu_model, versions
from .findings import Finding

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
ITERATIONS = 20


def host_findings() -> Iterator[Finding]:
    """The findings that need no run."""
    listed = ", ".join(f"{name} {version}" for name, version in versions().items())
    yield Finding("packages", "works", listed)
    yield _threads()


def _threads() -> Finding:
    """The finding on BLAS threads: two in place of one cost a factor of 20 where ranks share
    cores."""
    libraries = blas()
    if not libraries:
        unknown = "unknown to threadpoolctl: its threads cannot be limited"
        return Finding("BLAS", "warning", unknown, "install NumPy from PyPI")
    words = "{library} {version} ({architecture}), threads: {threads}"
    found = "; ".join(words.format(**one) for one in libraries)
    if all(one["threads"] == 1 for one in libraries):
        return Finding("BLAS", "works", f"{found}; {cpu_model()}")
    several = [name for name in _THREADS if os.environ.get(name, "1") != "1"]
    remedy = "set OPENBLAS_NUM_THREADS=1 where your own script starts"
    if several:
        remedy = f"unset {' '.join(several)}"
    return Finding("BLAS", "note", f"{found}; one while an algorithm runs", remedy)


def one_process() -> Finding:
    """The finding on the main job without ranks."""
    try:
        digest = short_run("serial", 10)
    except Exception as error:  # any failure is a finding
        why = f"the main job raises {type(error).__name__}: {error}"
        return Finding("one process", "fault", why, "reinstall decentorth")
    found = f"{ITERATIONS} iterations of the main job; sha256 {digest[:16]}"
    return Finding("one process", "works", found)


def short_run(comm: object, agents: int) -> str:
    """The SHA-256 of the points after the first iterations of ``python -m decentorth.run
    --algorithm drfgt --agents agents``."""
    run, _ = made(
        Command(["--agents", str(agents), "--algorithm", "drfgt"]).resolve(), connect(comm)
    )
    return run.solve(Options(iterations=ITERATIONS)).iterates_sha256
