"""What a checkpoint costs against its size: written and read, beside a plain file of as many bytes
with one fsync, and beside their SHA-256. Wall time (processor time).

    python benchmarks/checkpoints.py [FOLDER]
    mpirun -n 3 python benchmarks/checkpoints.py [FOLDER]

States of DRFGT on 50 x 20 (three such arrays an agent). The page cache is warm when files are read.
Medians of five; ranks write at the same time, and the plain file is rank 0's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import decentorth as do
from decentorth.network.collective import AgentCollective
from decentorth.network.halo import even_bounds
from decentorth.running.checkpoint import checkpoint_files

AGENTS = (10, 1_000, 10_000)
REPEATS = 5


def median(work: Callable[[], object]) -> str:
    """Milliseconds on the wall, and in brackets this process's on the processor."""
    wall, used = [], []
    for _ in range(REPEATS):
        begun, spent = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - begun)
        used.append(time.process_time() - spent)
    return f"{statistics.median(wall) * 1e3:.1f} ms ({statistics.median(used) * 1e3:.1f})"


def plain(path: Path, data: memoryview) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())


def main() -> None:
    communicator = do.connect()
    place = tempfile.mkdtemp(dir=(sys.argv[1:] or [None])[0]) if communicator.rank == 0 else ""
    root = Path(communicator.bcast_bytes(place.encode()).decode())
    for n in AGENTS:
        bounds = even_bounds(n, communicator.size)
        collective = AgentCollective(communicator, bounds)
        own = slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        x = np.random.default_rng(0).standard_normal((own.stop - own.start, 50, 20))
        state = {name: checkpoint_files.Rows(x, own.start, n) for name in ("x", "tracker", "field")}
        path = root / "000000001"
        write = median(lambda: checkpoint_files.write(path, 1, state, {}, collective))  # noqa: B023  # called here
        manifest = checkpoint_files.read_manifest(path, collective)
        read = median(lambda: [checkpoint_files.read(manifest, name, own) for name in state])  # noqa: B023
        size = n * 3 * 50 * 20 * 8
        if communicator.rank == 0:
            data = memoryview(bytes(size))
            floor = median(lambda: plain(root / "plain", data))  # noqa: B023
            back = median((root / "plain").read_bytes)
            hashed = median(lambda: hashlib.sha256(data).digest())  # noqa: B023
            print(
                f"{n:6d} agents, {size / 1e6:6.2f} MB: written in {write}, a plain file {floor}; "
                f"read in {read}, plain {back}; SHA-256 {hashed}",
                flush=True,
            )
        communicator.allgather_bytes(b"")
    if communicator.rank == 0:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
