"""Matrices in MATLAB's ``.mat`` files, read by SciPy in a process of its own.

SciPy's reader ends its process where the places of a damaged sparse matrix point outside of it, and
takes as much memory as a compressed variable says that it needs. So a child reads the file, with
limits of memory and time, and writes the matrix in NumPy's format. Its crash, like any other fault,
becomes one line.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from decentorth.data.arrays import ArrayReader, Content
from decentorth.data.formats import chosen
from topologies.matrix_files import EXPANSION, Header, checked, load_sparse, reading
from topologies.memory import SMALL, require

SECONDS = 600
"""The most time that a file may take."""
MEMORY = 4 * 2**30
"""The bytes of memory that any file may take: 4 GiB. A larger one may take 100 times its size."""
_CHILD = Path(__file__).with_name("mat_child.py")
_JOB = ("PMI", "OMPI_", "MPI", "HYD", "PRTE_")
"""The beginnings of the variables by which a launcher numbers ranks: the child is not a rank."""


def read_mat(path: Path, key: str | None) -> Content:
    """Read the matrix named ``key`` from a MATLAB file up to version 7.

    Without ``key`` the file must hold one numeric matrix only.
    """
    found: Any = None
    with TemporaryDirectory() as folder:
        with reading(path, " as a .mat file"):
            names = [name for name, _, _ in _read(path, key or "", folder)]
            for file in Path(folder).iterdir():
                require(float(file.stat().st_size), "its matrix")
                found = load_sparse(file) if file.suffix == ".npz" else np.load(file)
        name = chosen(path, key, names)
    return Content(checked(found, f"{path}:{name}"))


class MatReader(ArrayReader):
    """A dense or sparse matrix of a MATLAB file."""

    def _header(self) -> Header | None:
        if self.path.stat().st_size <= SMALL:  # the child reads it as quickly
            return None
        with reading(self.path, " as a .mat file"):
            every = {name: (shape, kind) for name, shape, kind in _read(self.path, "", "")}
        shape, kind = every[chosen(self.path, self._key, list(every))]
        if kind == "sparse":
            return None
        size = np.dtype(kind.replace("logical", "bool")).itemsize
        return Header(tuple(shape), float(math.prod(shape) * size))


def _read(path: Path, key: str, folder: str) -> list[Any]:
    """Name, shape and class of the matrices; the one named ``key``, or the only one, is in
    ``folder`` then, if that is named."""
    with path.open("rb") as file:
        if file.read(19) == b"MATLAB 7.3 MAT-file":
            raise ValueError(
                f"version 7.3 is not read: save it in MATLAB by save('{path.name}', 'A', '-v7')"
            )
    limits = [str(SECONDS), str(max(MEMORY, EXPANSION * path.stat().st_size))]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_JOB)}
    environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a thread takes memory
    words = [sys.executable, "-P", "-W", "ignore", str(_CHILD), str(path), key, folder, *limits]
    quiet: Any = {"capture_output": True, "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(words, env=environ, timeout=SECONDS, check=False, **quiet)
    except subprocess.TimeoutExpired:
        raise ValueError(f"it was not read in {SECONDS} s: it is damaged, or too large") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").splitlines()[-1:]
        crashed = f"it is damaged: SciPy's reader ended with {_ended(done.returncode)}"
        raise ValueError("".join(last) or crashed)
    found: list[Any] = json.loads(done.stdout)
    return found


def _ended(code: int) -> str:
    """The name of the signal, or the exit code, with which a process ended."""
    if -code in set(signal.Signals):
        return signal.Signals(-code).name
    return f"code {code}"
