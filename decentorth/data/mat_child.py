"""The process that reads one matrix of a MATLAB file, run as a script by `decentorth.data.mat`."""

import json
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import io, sparse

if sys.platform != "win32":
    import resource

_BITS = (8, 16, 32, 64)
NUMBERS = {"sparse", "double", "single", "logical"} | {
    f"{kind}{n}" for kind in ("int", "uint") for n in _BITS
}
"""MATLAB's classes of matrices of numbers."""


def limit(seconds: int, memory: int) -> None:
    """Limit the time and the memory of this process, where the system can."""
    if sys.platform != "win32":
        for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
            hard = resource.getrlimit(kind)[1]
            if hard == resource.RLIM_INFINITY or most < hard:
                with suppress(OSError, ValueError):  # macOS has no such limit of memory
                    resource.setrlimit(kind, (most, hard))


def read(path: str, key: str, written: bool) -> list[Any]:
    """Write the matrix named ``key``, or the only one, to standard output if it must be
    ``written``; return name, shape and class of each."""
    every: list[Any] = [one for one in io.whosmat(path) if one[2] in NUMBERS]
    names = [name for name, _, _ in every]
    wanted = key
    if not key and len(names) == 1:
        wanted = names[0]
    if written and wanted in names:
        found: Any = io.loadmat(path, variable_names=[wanted])[wanted]
        output: Any = sys.stdout.buffer
        if isinstance(found, np.ndarray):
            np.save(output, found, allow_pickle=False)
        else:
            sparse.save_npz(output, found, compressed=False)
        output.flush()
    return every


if __name__ == "__main__":
    path, key, seconds, memory, written = sys.argv[1:]
    limit(int(seconds), int(memory))
    try:
        sys.stderr.write("\n" + json.dumps(read(path, key, written == "True")))
    except Exception as error:  # SciPy's reader has many ways to fail on a damaged file
        sys.exit(" ".join(str(error).split())[:200] or type(error).__name__)
