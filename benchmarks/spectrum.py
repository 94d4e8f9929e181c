"""Seconds and memory for the spectrum of Metropolis weights on large graphs, each in a process of
its own.

    python benchmarks/spectrum.py [GRAPH ...]

Default: a 1000 x 1000 torus, random regular graphs of 100,000 agents and a random geometric one.
Seconds count the graph, the weights with their checks, and the spectrum; peak memory is the
process's. For a torus, the relative error of the gap against its closed form.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

GRAPHS = (
    "torus:1000x1000",
    "random_regular:100000",
    "random_regular:100000,degree=3",
    "random_geometric:100000",
)


def measure(name: str) -> None:
    import topologies as tp

    start = time.perf_counter()
    W = tp.metropolis_weights(tp.adjacency_from_name(name))
    built = time.perf_counter()
    found = tp.spectrum(W)
    end = time.perf_counter()
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    error = ""
    if name.startswith("torus:"):
        sides = [int(side) for side in name.removeprefix("torus:").split("x")]
        expected = 4 * math.sin(math.pi / max(sides)) ** 2 / (2 * len(sides) + 1)
        error = f"{found.gap / expected - 1:.1e}"
    print(
        f"{name:32}{found.sigma:20.15f}{found.lambda_min:12.6f}{built - start:9.1f}{end - built:11.1f}{mebibytes:8.0f} {error}"
    )


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2])
        return
    print(
        f"{'graph':32}{'sigma':>20}{'lambda_min':>12}{'build s':>9}{'spectrum s':>11}{'MiB':>8} "
        "gap error",
        flush=True,
    )
    for name in sys.argv[1:] or GRAPHS:
        subprocess.run([sys.executable, __file__, "--one", name], check=True)


if __name__ == "__main__":
    main()
