"""Every quantity that crosses ranks beside the counted messages, by the code that asks for it: as
JSON, of runs with samples of sites."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import decentorth as do
from decentorth.network import connect
from decentorth.running.metrics import AgentErrors

PACKAGE = Path(do.__file__).parent
CARRIERS = ("collective.py", "mpi.py", "tree.py", "network.py", "halo.py", "traffic.py")
"""The files of the network's layer, which only carry what others ask for."""
ADDING = ("total", "symmetric_total", "gram")
"""Functions that add up what their caller asks for."""
CALLS = ("send", "bcast", "bcast_bytes", "allgather_bytes", "max")
SITES = ("north", "south", "west")
FOUND: set[tuple[str, str]] = set()


def asking() -> str:
    """The function of the package that asks for the quantity: "folder/file.py: function"."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        outside = PACKAGE not in path.parents
        carries = path.parent.name in ("network", "transport") and path.name in CARRIERS
        if not outside and not carries and frame.f_code.co_name not in ADDING:
            return f"{path.relative_to(PACKAGE)}: {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "outside"


def watch(communicator: Any) -> None:
    """Wrap the calls of the communicator that carry uncounted quantities."""

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            if name != "send" or np.size(arguments[0]):
                FOUND.add((asking(), name))
            return call(*arguments)

        return noted

    for name in CALLS:
        setattr(communicator, name, wrapped(name, getattr(communicator, name)))


def samples() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((40, 6)) * np.arange(1.0, 7.0) for name in SITES}


def lda_of_sites() -> Any:
    """A file of each site, with a column of classes."""
    folder = Path(sys.argv[1])
    for name, x in samples().items():
        table = np.column_stack((x, np.arange(len(x)) % 3))
        head = ",".join([*"abcdef", "kind"])
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header=head, comments="")
    MPI.COMM_WORLD.Barrier()
    data = ",".join(str(folder / f"{name}.csv") for name in SITES)
    return do.problems.LDASettings(data=data, label_column="kind", rank=2).problem(3, seed=0)


def views() -> dict[str, Any]:
    return {name: (x[:, :3], x[:, 3:]) for name, x in samples().items()}


def dependent() -> dict[str, Any]:
    """Samples whose first column is there twice."""
    return {name: x[:, [0, 0, 1, 2, 3, 4, 5]] for name, x in samples().items()}


def dependent_views() -> dict[str, Any]:
    return {name: (x[:, :4], x[:, 4:]) for name, x in dependent().items()}


RUNS: dict[str, Callable[[], Any]] = {
    "pca": lambda: do.problems.PCA.from_sites(samples(), 2),
    "scaled pca": lambda: do.problems.PCA.from_sites(samples(), 2, scale=True),
    "cca": lambda: do.problems.CCA.from_sites(views(), 1, ridge=0.1),
    "maxvar": lambda: do.problems.MAXVAR.from_sites(samples(), (3, 3), 1, ridge=0.1),
    "dependent cca": lambda: do.problems.CCA.from_sites(dependent_views(), 1, ridge=0.0),
    "dependent maxvar": lambda: do.problems.MAXVAR.from_sites(dependent(), (4, 3), 1, ridge=0.0),
    "sums": lambda: do.problems.PCA.from_sites(samples(), 2, center=True),
    "direct": lambda: do.problems.CCA.from_sites(views(), 1, ridge=0.1),
    "ica": lambda: do.problems.ICASettings(data="digits", sources=3).problem(3, seed=0),
    "rsr": lambda: do.problems.RobustSubspaceRecovery.from_sites(samples(), 2),
    "lda": lambda: lda_of_sites(),
    "bundled lda": lambda: do.problems.LDASettings(data="digits", rank=2).problem(3, seed=0),
}
METHODS = {
    "rsr": "drsm",
    "cca": "cdadt",
    "maxvar": "cdadt",
    "dependent cca": "cdadt",
    "dependent maxvar": "cdadt",
    "lda": "cdadt",
    "bundled lda": "cdadt",
    "sums": "lbfgs",
    "direct": "direct",
}

if __name__ == "__main__":
    communicator = connect()
    watch(communicator)
    every = {}
    for name, problem in RUNS.items():
        FOUND.clear()
        method, metrics = METHODS.get(name, "drfgt"), []
        if name == "pca":
            metrics = [AgentErrors(3, (6, 2))]
        do.solve(problem(), method, "path", iterations=5, check=True, metrics=metrics)
        every[name] = sorted(FOUND)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(every))
