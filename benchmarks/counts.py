"""What an iteration of each method counts, beside what is stored: function calls, messages, bytes,
and memory.

    python benchmarks/counts.py
    python benchmarks/counts.py --store

The counts do not depend on the speed of the machine. Calls are those of Python and of C functions,
as cProfile counts them; they depend on the versions of Python and NumPy, which are stored too.
Arrays are the memory that an iteration takes at its peak beyond the state, in arrays of the size of
x, as NumPy reports its allocations.

A number that has grown by 5 % or more is marked. A commit that raises one says so, and stores the
new ones.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import platform
import pstats
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import decentorth as do
import topologies as tp
from decentorth.api import Run, set_up
from decentorth.problems.stiefel.procrustes import Procrustes, published_rows

STORED = Path(__file__).with_name("counts.json")
GROWN = 1.05
WARM, ITERATIONS = 20, 200
PLAIN: Any = {"order": "combine-then-adapt"}
METHODS: dict[str, Any] = {
    "gradient_tracking": do.GradientTracking(step_size=1e-3, penalty=1.0, **PLAIN),
    "drfgt": do.DRFGT(step_size=1e-3, penalty=10.0, **PLAIN),
    "drfgt, accelerated": do.DRFGT(step_size=1e-3, penalty=10.0, order="accelerated"),
    "drfgt, growing steps": do.DRFGT(),
    "drfgt, batches": do.DRFGT(step_size=1e-3, penalty=10.0, batch_size=2, **PLAIN),
    "destiny": do.DESTINY(step_size=1e-3, penalty=10.0, **PLAIN),
    "dgd": do.DGD(step_size=1e-3, penalty=1.0),
    "drgta": do.DRGTA(step_size=1e-3),
    "rfextra": do.RFEXTRA(step_size=1e-3, penalty=10.0),
    "push_pull": do.PushPull(step_size=1e-3, penalty=10.0),
    "ef_landing, sums": do.EFLanding(step_size=1e-3, penalty=10.0, server=True),
}
Counts = dict[str, float]


def started(method: Any, width: int) -> Run:
    """A run of ten agents on a ring, with points of 50 x ``width``."""
    data = published_rows(slice(0, 10), 10, 50, width, 0)
    return set_up(Procrustes(*data), method, tp.uniform_weights(tp.ring(10)), comm="serial")


def counted(method: Any) -> Counts:
    """The counts of an iteration, a mean over `ITERATIONS`."""
    run = started(method, 20)
    states = run.states()
    for _ in range(WARM):
        next(states)
    network = run.network
    before = np.array([network.rounds, network.messages, network.bytes])
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(ITERATIONS):
        next(states)
    profile.disable()
    sent = np.array([network.rounds, network.messages, network.bytes]) - before
    rounds, messages, size = (sent / ITERATIONS).tolist()
    calls = pstats.Stats(profile).total_calls / ITERATIONS
    return {
        "calls": round(calls, 1),
        "rounds": rounds,
        "messages": messages,
        "bytes": size,
        "arrays": arrays(method),
    }


def arrays(method: Any) -> float:
    """The memory of an iteration beyond the state, in arrays of the size of x, of agents with
    points of 50 x 50."""
    run = started(method, 50)
    states = run.states()
    for _ in range(WARM):
        next(states)
    tracemalloc.start()
    next(states)
    held, most = tracemalloc.get_traced_memory()[0], 0
    for _ in range(WARM):
        tracemalloc.reset_peak()
        next(states)
        most = max(most, tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    return round((most - held) / run.x0.nbytes, 1)


def versions() -> dict[str, str]:
    """The versions on which the calls depend."""
    return {"python": platform.python_version(), "numpy": np.__version__}


def shown(now: float, before: float | None) -> str:
    """A number, the stored one where it differs, and a mark where it has grown."""
    if before is None:
        return f"{now:g} (new)"
    if now == before:
        return f"{now:g}"
    mark = " !" if now >= GROWN * before else ""
    return f"{now:g} ({before:g}){mark}"


def main() -> None:
    """Count, print and, if asked for, store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", action="store_true", help="store these counts")
    store = parser.parse_args().store
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"versions": {}, "counts": {}}
    found = {name: counted(method) for name, method in METHODS.items()}
    columns = ["calls", "rounds", "messages", "bytes", "arrays"]
    print(f"an iteration; stored counts in brackets, {stored['versions']}; ! grown by 5 %")
    print(f"{'':22s}" + "".join(f"{column:>18s}" for column in columns))
    for name, counts in found.items():
        before = stored["counts"].get(name, {})
        cells = [shown(counts[column], before.get(column)) for column in columns]
        print(f"{name:22s}" + "".join(f"{cell:>18s}" for cell in cells))
    if store:
        text = json.dumps({"versions": versions(), "counts": found}, indent=1)
        STORED.write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
