"""The findings of one process: versions, BLAS threads, optional packages, and the main job without ranks."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

from ...api import Options, set_up
from ...network import connect
from ...records.environment import blas, cpu_model, versions
from ..line import wiring
from ..line.config import Command
from .findings import Finding

EXTRAS = {"plot": "matplotlib", "data": "sklearn", "frames": "pandas", "weights": "cvxpy", "fast": "numba"}
"""The optional extras, with the module that shows that each is installed."""
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
ITERATIONS = 20


def host_findings() -> Iterator[Finding]:
    """The findings that need no run."""
    found = versions()
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    needed = found.keys() - {"decentorth", "mpi4py", *EXTRAS.values()}
    missing = sorted(name for name in needed if found[name] == "not installed")
    if missing:
        yield Finding("packages", "fault", listed, f"pip install {' '.join(missing)}")
    else:
        yield Finding("packages", "works", listed)
    yield _threads()
    missing = [name for name, module in EXTRAS.items() if importlib.util.find_spec(module) is None]
    if missing:
        listed = ",".join(missing)
        yield Finding("extras", "note", f"not installed: {listed}", f'pip install "decentorth[{listed}]"')


def _threads() -> Finding:
    """The finding on BLAS threads: two in place of one cost a factor of 20 where ranks share cores."""
    libraries = blas()
    if not libraries:
        return Finding("BLAS", "warning", "unknown to threadpoolctl: its threads cannot be limited", "install NumPy from PyPI")
    found = "; ".join("{library} {version} ({architecture}), threads: {threads}".format(**one) for one in libraries)
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
        return Finding("one process", "fault", f"the main job raises {type(error).__name__}: {error}", "reinstall decentorth")
    return Finding("one process", "works", f"{ITERATIONS} iterations of the main job; sha256 {digest[:16]}")


def short_run(comm: object, agents: int) -> str:
    """The SHA-256 of the points after the first iterations of ``python -m decentorth.run --agents agents``."""
    communicator = connect(comm)
    configuration = Command(["--agents", str(agents)]).resolve()
    settings = configuration.run
    shared = wiring.make(settings) if communicator.rank == 0 else None
    W = wiring.share(settings, shared, communicator).W
    problem = configuration.problem.problem(settings.agents, settings.seed)
    run = set_up(problem, configuration.algorithm, W, seed=settings.seed, comm=communicator)
    return run.solve(Options(iterations=ITERATIONS)).iterates_sha256
