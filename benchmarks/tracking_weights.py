"""Gradient tracking's best rate per weight rule, and with weights optimised for it, over graph
families of 10 to 30 agents.

    python benchmarks/tracking_weights.py

Curvatures 0.2 to 1.8, evenly spaced, in a random order (seed 0). Per graph and order of mixing:
iterations per factor 1e-6 at each rule's own best step, and the seconds that the optimisation took.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

GRAPHS = ("ring:10", "ring:30", "grid:4x5", "grid:5x6", "random_geometric:20", "random_geometric:30", "watts_strogatz:20",
          "watts_strogatz:30")  # fmt: skip
RULES = ("metropolis", "fmmc", "lazy-fmmc", "lazy-best-constant")


def main() -> None:
    import numpy as np

    import topologies as tp

    orders: tuple[tp.Order, tp.Order] = ("combine-then-adapt", "adapt-then-combine")
    print("iterations per factor 1e-6")
    print(
        f"{'graph':22}{'order':21}"
        + "".join(f"{rule:>20}" for rule in (*RULES, "optimised"))
        + f"{'seconds':>9}"
    )
    for name in GRAPHS:
        graph = tp.graph_from_name(name)
        curvatures = np.random.default_rng(0).permutation(
            np.linspace(0.2, 1.8, graph.number_of_nodes())
        )
        matrices = [tp.weights_from_name(graph, rule) for rule in RULES]
        for order in orders:
            needed = [
                tp.tracking_score(W, curvatures, order).iterations_for(1e-6) for W in matrices
            ]
            start = time.perf_counter()
            needed.append(tp.tracking_weights(graph, curvatures, order).score.iterations_for(1e-6))
            seconds = time.perf_counter() - start
            print(
                f"{name:22}{order:21}"
                + "".join(f"{count:20.0f}" for count in needed)
                + f"{seconds:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
