"""Matrices in MATLAB's ``.mat`` files, read by SciPy in a process of its own.

SciPy's reader ends its process where the places of a damaged sparse matrix point outside of it, and
takes as much memory as a compressed variable says that it needs. So a child reads the file, with
limits of memory and time, and writes the matrix in NumPy's format. Its crash, like any other fault,
becomes one line. The matrix passes through a file without a name, of which nothing is left when the
processes end.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from decentorth.data.array_files import ArrayReader, Content
from decentorth.data.formats import chosen
from topologies.line.matrix_files import EXPANSION, Header, checked, load_sparse, reading
from topologies.line.memory import SMALL, require

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
    with TemporaryFile() as output:  # it has no name, so that nothing is left of it
        with reading(path, " as a .mat file"):
            every = _read(path, key or "", output)
            if size := output.seek(0, os.SEEK_END):
                require(float(size), "its matrix")
                output.seek(0)
                dense = output.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
                output.seek(0)
                found = np.load(output) if dense else load_sparse(output)
        name = chosen(path, key, [name for name, _, _ in every])
    return Content(checked(found, f"{path}:{name}"))


class MatReader(ArrayReader):
    """A dense or sparse matrix of a MATLAB file."""

    def _header(self) -> Header | None:
        if self.path.stat().st_size <= SMALL:  # the child reads it as quickly
            return None
        with reading(self.path, " as a .mat file"):
            every = {name: (shape, kind) for name, shape, kind in _read(self.path, "")}
        shape, kind = every[chosen(self.path, self._key, list(every))]
        if kind == "sparse":
            return None
        size = np.dtype(kind.replace("logical", "bool")).itemsize
        return Header(tuple(shape), float(math.prod(shape) * size))


def _read(path: Path, key: str, output: IO[bytes] | None = None) -> list[Any]:
    """Name, shape and class of the matrices; the one named ``key``, or the only one, is written to
    ``output``."""
    with path.open("rb") as file:
        if file.read(19) == b"MATLAB 7.3 MAT-file":
            raise ValueError(
                f"version 7.3 is not read: save it in MATLAB by save('{path.name}', 'A', '-v7')"
            )
    limits = [str(SECONDS), str(max(MEMORY, EXPANSION * path.stat().st_size))]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_JOB)}
    environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a thread takes memory
    words = [
        sys.executable,
        "-P",
        "-W",
        "ignore",
        str(_CHILD),
        str(path),
        key,
        *limits,
        str(bool(output)),
    ]
    files: Any = {"stdin": subprocess.DEVNULL, "stdout": output or subprocess.DEVNULL}
    try:
        done = subprocess.run(
            words, env=environ, timeout=SECONDS, check=False, stderr=subprocess.PIPE, **files
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"it was not read in {SECONDS} s: it is damaged, or too large") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").splitlines()[-1:]
        crashed = f"it is damaged: SciPy's reader ended with {_ended(done.returncode)}"
        raise ValueError("".join(last) or crashed)
    found: list[Any] = json.loads(done.stderr.splitlines()[-1])
    return found


def _ended(code: int) -> str:
    """The name of the signal, or the exit code, with which a process ended."""
    if -code in set(signal.Signals):
        return signal.Signals(-code).name
    return f"code {code}"
