"""Examples as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.mpi import HUNG, ROOT


def run(*arguments: str, ranks: int = 1) -> str:
    """The output of Python with these arguments, under mpirun where there are several ranks; it must succeed."""
    launcher = [str(Path(sys.prefix, "bin", "mpirun")), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(
        [*launcher, sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=HUNG, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
