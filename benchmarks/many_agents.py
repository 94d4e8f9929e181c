"""Cost per agent of 10,000 agents against 1,000, and memory: DRFGT on Procrustes 50 x 20 over a torus, in one process.

    python benchmarks/many_agents.py

Each size runs in a process of its own (peak memory is a process's), three times in turn; the ratio of the medians is printed.
Memory beyond the problem's data is counted in state-sized arrays (n x 50 x 20 float64), as NumPy
reports its allocations.
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

SIDES = {1_000: (25, 40), 10_000: (100, 100)}
ITERATIONS = {1_000: 40, 10_000: 8}


def measure(n: int) -> dict[str, float]:
    """Microseconds per agent and iteration, and the peak of allocated arrays during a run, the starting point included."""
    import topologies as tp
    from decentorth import DRFGT
    from decentorth.api import Run
    from decentorth.problems import ProcrustesSettings

    W = tp.uniform_weights(tp.torus(*SIDES[n]))
    run = Run(ProcrustesSettings().problem(n, 0), DRFGT(step_size=1e-6, penalty=10.0), W, comm="serial")
    states = run.states()
    for _ in range(3):
        next(states)
    times = []
    for _ in range(ITERATIONS[n]):
        begun = time.perf_counter()
        next(states)
        times.append(time.perf_counter() - begun)
    states.close()
    tracemalloc.start()
    run.solve(iterations=2, rows=3)
    arrays = tracemalloc.get_traced_memory()[1] / run.x0.nbytes + 1.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"us": statistics.median(times) / n * 1e6, "arrays": arrays, "peak": peak}


def main() -> None:
    results: dict[int, list[dict[str, float]]] = {n: [] for n in SIDES}
    for _ in range(3):
        for n in SIDES:
            done = subprocess.run([sys.executable, __file__, str(n)], check=True, stdout=subprocess.PIPE, text=True)
            results[n].append(json.loads(done.stdout))
    cost = {n: statistics.median(r["us"] for r in rows) for n, rows in results.items()}
    for n, us in cost.items():
        row = results[n][0]
        print(
            f"{n:6d} agents: {us:6.2f} us an agent and iteration; {row['arrays']:.1f} state-sized arrays at the peak "
            f"(start, state, step and metrics); process {row['peak']:.0f} MiB"
        )
    print(f"ratio of the cost per agent, 10,000 / 1,000: {cost[10_000] / cost[1_000]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        main()
