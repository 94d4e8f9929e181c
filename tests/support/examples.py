"""Examples as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.mpi import HUNG, ROOT


def run(*arguments: str, ranks: int = 1) -> str:
    """The output of Python with these arguments, under mpirun where there are several ranks; it
    must succeed."""
    launcher = [str(Path(sys.prefix, "bin", "mpirun")), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(
        [*launcher, sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def drawn(script: str, folder: Path, *words: str) -> str:
    """The output of a script with a figure as its first argument, or after the ``words`` before
    ``FIGURE``; it is drawn."""
    figure = folder / "figure.png"
    place = words.index("FIGURE") if "FIGURE" in words else 0
    rest = [word for word in words if word != "FIGURE"]
    said = run(script, *rest[:place], str(figure), *rest[place:])
    assert figure.stat().st_size > 10_000
    return said
