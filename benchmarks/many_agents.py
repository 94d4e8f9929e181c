"""Cost per agent of many agents, and memory: DRFGT on Procrustes over a torus, in one process.

    python benchmarks/many_agents.py
    python benchmarks/many_agents.py 100000

The first compares 10,000 agents of 50 x 20 with 1,000. Each size runs in a process of its own (peak
memory is a process's), three times in turn; the ratio of the medians is printed. Memory beyond the
problem's data is counted in state-sized arrays (n x 50 x 20 float64), as NumPy reports its
allocations.

The second has so many agents of 10 x 3: the processor's time of an iteration, of its mixing and its
matrix products alone, and of what is beyond them, in alternating blocks. The number of agents is
that of a torus (1000, 10000 or 100000).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import tracemalloc
from collections.abc import Callable

SIDES = {1_000: (25, 40), 10_000: (100, 100), 100_000: (250, 400)}
SMALL, BLOCKS = (10, 3), 9
"""Rows and columns of a small point, and the number of blocks."""
ITERATIONS = {1_000: 40, 10_000: 8}


def measure(n: int) -> dict[str, float]:
    """Microseconds per agent and iteration, and the peak of allocated arrays during a run, the
    starting point included."""
    import topologies as tp
    from decentorth import DRFGT
    from decentorth.api import Options, set_up
    from decentorth.problems import ProcrustesSettings

    W = tp.uniform_weights(tp.torus(*SIDES[n]))
    run = set_up(
        ProcrustesSettings().problem(n, 0),
        DRFGT(step_size=1e-6, penalty=10.0, order="combine-then-adapt"),
        W,
        comm="serial",
    )
    states = run.states()
    for _ in range(3):
        next(states)
    times = []
    for _ in range(ITERATIONS[n]):
        begun = time.perf_counter()
        next(states)
        times.append(time.perf_counter() - begun)
    del states
    tracemalloc.start()
    run.solve(Options(iterations=2, rows=3))
    arrays = tracemalloc.get_traced_memory()[1] / run.x0.nbytes
    tracemalloc.stop()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"us": statistics.median(times) / n * 1e6, "arrays": arrays, "peak": peak}


def beyond(n: int) -> None:
    """Print an iteration's microseconds per agent, those of its mixing and products, and the
    rest."""
    import numpy as np

    import topologies as tp
    from decentorth import DRFGT
    from decentorth.api import set_up
    from decentorth.problems import ProcrustesSettings

    (d, r), rows = SMALL, 10
    W = tp.uniform_weights(tp.torus(*SIDES[n]))
    problem = ProcrustesSettings(dimension=d, rank=r, rows=rows).problem(n, 0)
    run = set_up(
        problem, DRFGT(step_size=1e-6, penalty=10.0, order="combine-then-adapt"), W, comm="serial"
    )
    states = run.states()
    next(states)
    alone = set_up(
        problem, DRFGT(step_size=1e-6, penalty=10.0, order="combine-then-adapt"), W, comm="serial"
    )
    rng = np.random.default_rng(0)
    x, a = rng.standard_normal((n, d, r)), rng.standard_normal((n, rows, d))
    y, size = x.copy(), (1 << 18) // (8 * d * r)

    def arithmetic() -> None:
        """Both arrays mixed, and in the method's blocks a x, a^T (.), x^T x, g^T x, g s and x t."""
        alone.network.mix(x, y)
        for i in range(0, n, size):
            own, other, data = x[i : i + size], y[i : i + size], a[i : i + size]
            g = data.swapaxes(-1, -2) @ (data @ own)
            # of one array with itself NumPy's is slower
            s, t = other.swapaxes(-1, -2) @ own, g.swapaxes(-1, -2) @ own
            _ = g @ s, own @ t

    def spent(work: Callable[[], object]) -> float:
        begun = time.process_time()
        work()
        return (time.process_time() - begun) / n * 1e6

    pairs = [(spent(states.__next__), spent(arithmetic)) for _ in range(BLOCKS)]
    whole, least = (statistics.median(times) for times in zip(*pairs, strict=True))
    rest = sorted(one - other for one, other in pairs)
    print(
        f"{n} agents of {d} x {r}: {whole:.2f} us an agent and iteration, its mixing and "
        f"products {least:.2f}, beyond them {statistics.median(rest):.2f} ({rest[0]:.2f} to "
        f"{rest[-1]:.2f})"
    )


def main() -> None:
    results: dict[int, list[dict[str, float]]] = {n: [] for n in ITERATIONS}
    for _ in range(3):
        for n in ITERATIONS:
            done = subprocess.run(
                [sys.executable, __file__, str(n), "50x20"],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            results[n].append(json.loads(done.stdout))
    cost = {n: statistics.median(r["us"] for r in rows) for n, rows in results.items()}
    for n, us in cost.items():
        row = results[n][0]
        print(
            f"{n:6d} agents: {us:6.2f} us an agent and iteration; {row['arrays']:.1f} "
            "state-sized arrays at the peak (start, state, step and metrics); process "
            f"{row['peak']:.0f} MiB"
        )
    print(f"ratio of the cost per agent, 10,000 / 1,000: {cost[10_000] / cost[1_000]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        beyond(int(sys.argv[1]))
    elif len(sys.argv) > 2:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        main()
