"""Seconds and memory of DRFGT on tori from 12 agents to 10,000 (``--full``: 100,000), 10 x 3
variables each, constant step.

    python benchmarks/scaling.py [--full]

Procrustes with 10 rows an agent. Seconds of an iteration are the median over blocks of iterations;
peak memory is that of the process so far, so sizes go from small to large. The last line compares
an edge at the largest size with one at 1000 agents.
"""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import topologies as tp
from decentorth import DRFGT
from decentorth.api import set_up
from decentorth.commands.run.dryrun import held
from decentorth.problems import Procrustes

SIDES = ((3, 4), (5, 6), (10, 10), (15, 20), (25, 40), (50, 60), (100, 100), (150, 200), (250, 400))
DIMENSION, RANK, ROWS = 10, 3, 10
BLOCKS, BLOCK_SECONDS = 5, 0.3


def measure(a: int, b: int) -> tuple[int, float]:
    """Print the row of one torus; return its agents and the seconds of an iteration per edge."""
    n, begun = a * b, time.perf_counter()
    W = tp.metropolis_weights(tp.adjacency_from_name(f"torus:{a}x{b}"))
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(n,)))
    problem = Procrustes(
        rng.standard_normal((n, ROWS, DIMENSION)), rng.standard_normal((n, RANK, ROWS))
    )
    run = set_up(problem, DRFGT(step_size="constant", order="combine-then-adapt"), W, comm="serial")
    states = run.states()
    state = next(states)
    setup = time.perf_counter() - begun
    times: list[float] = []
    length = 1
    while len(times) < BLOCKS:
        begun = time.perf_counter()
        state = next(itertools.islice(states, length - 1, None))
        seconds = time.perf_counter() - begun
        if seconds < BLOCK_SECONDS and not times:
            length *= 2  # a warm-up, until a block is long enough for the clock's resolution
        else:
            times.append(seconds / length)
    edges, cost = (W.nnz - n) // 2, statistics.median(times)
    megabytes = [
        held(state) / 1e6,
        held(problem) / 1e6,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    ]
    memory = "{:>10.1f}{:>9.1f}{:>9.0f}".format(*megabytes)
    print(f"{n:8}{edges:9}{cost:13.3g}{1e9 * cost / edges:9.0f}{setup:10.2f}{memory}", flush=True)
    return n, cost / edges


def main() -> None:
    sides = (
        SIDES
        if "--full" in sys.argv[1:]
        else [sides for sides in SIDES if sides[0] * sides[1] <= 10_000]
    )
    print(
        f"{'agents':>8}{'edges':>9}{'s/iteration':>13}{'ns/edge':>9}{'set-up s':>10}{'state MB':>10}{'data MB':>9}{'peak MB':>9}"
    )
    costs = dict(measure(*size) for size in sides)
    largest = max(costs)
    print(
        f"an edge at {largest} agents costs {costs[largest] / costs[1000]:.2f} times what it "
        "costs at 1000 (1: linear)"
    )


if __name__ == "__main__":
    main()
