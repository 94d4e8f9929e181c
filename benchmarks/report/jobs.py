"""Jobs of MPI ranks: the parts of ``benchmarks/ranks.py``."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from .rows import Unmeasured, output

SCRIPT = Path(__file__).parents[1] / "ranks.py"
SECONDS = 180.0
"""Of a job, after which it counts as hung."""


def job(ranks: int, *part: object) -> dict[str, Callable[[], float]]:
    """By name, works whose blocks a job on that many ranks has measured in turn; ``part`` are the
    words of ``ranks.py``.

    Raises
    ------
    Unmeasured
        Where there is no mpirun, or the job fails or hangs.
    """
    beside = Path(sys.executable).with_name("mpirun")
    launcher = str(beside) if beside.exists() else shutil.which("mpirun")
    if launcher is None:
        raise Unmeasured('there is no mpirun here: pip install "mpich>=5"')
    found = json.loads(
        output([launcher, "-n", ranks, sys.executable, SCRIPT, *part], SECONDS).splitlines()[-1]
    )
    return {name: iter(blocks).__next__ for name, blocks in found.items()}
