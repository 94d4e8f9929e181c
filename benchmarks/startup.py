"""The start of the main job on ten ranks against ten bare interpreters that import NumPy and
mpi4py.

    python benchmarks/startup.py

Both are started by the same ``mpirun``, in turn; the processor seconds of all their processes (user
and system) are compared, so a busy machine disturbs the ratio little. The seconds of ``--help`` and
of ``import decentorth`` are printed beside those of Python.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RANKS, REPEATS = 10, 5
MPIRUN = str(Path(sys.executable).parent / "mpirun")


def seconds(command: Sequence[str]) -> float:
    """Processor seconds of a command and its children."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it every process compiles every module
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    python, ranks = [sys.executable], [MPIRUN, "-n", str(RANKS), sys.executable]
    commands = {
        "bare": [*ranks, "-c", "import numpy; from mpi4py import MPI"],
        "run": [*ranks, "-m", "decentorth", "run", "--iterations", "1"],
        "python": [*python, "-c", "pass"],
        "import": [*python, "-c", "import decentorth"],
        "numpy": [*python, "-c", "import numpy"],
        "help": [*python, "-m", "decentorth", "run", "--help"],
    }
    for command in commands.values():
        seconds(command)  # compiles what is not compiled yet
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPEATS):
        for name, command in commands.items():
            times[name].append(seconds(command))
    middle = {name: statistics.median(all_of) for name, all_of in times.items()}
    ratio = statistics.median(a / b for a, b in zip(times["run"], times["bare"], strict=True))
    print(
        f"{RANKS} ranks, one iteration: {middle['run']:.2f} s; bare: {middle['bare']:.2f} s; "
        f"ratio {ratio:.2f}"
    )
    print(f"run --help {middle['help']:.2f} s, import decentorth {middle['import']:.2f} s")
    print(f"Python {middle['python']:.2f} s, with NumPy {middle['numpy']:.2f} s")


if __name__ == "__main__":
    main()
