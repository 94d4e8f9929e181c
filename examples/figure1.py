"""
Figure 1 of paper 004, ten seeds
================================

Figure 1 of paper 004 with ten seeds: DRFGT, DRGTA and DESTINY on the published Procrustes problem, each at its tuned step. ::

    python examples/figure1.py figure1.png                # ten seeds, 3000 iterations, a minute or two
    python examples/figure1.py figure1.png 2 300          # two seeds, 300 iterations

Every method tries the same steps, 1e-2 times powers of two; the tuned one has the smallest median gradient norm in the end, over
the seeds and without a divergence. The landing direction is half the Riemannian gradient, so equal steps would compare nothing.
Prints final values, the slope fitted to each curve and the order of the methods seed by seed; draws medians and ranges.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import matplotlib.pyplot as plt
import numpy as np

import decentorth as do
import topologies as tp

STEPS = [1e-2 * 2.0**power for power in (-3, -2, -1, 0, 1)]
METHODS = {
    "DRFGT": lambda step: do.DRFGT(step_size=step),  # penalty 0.1 / step, as published
    "DRGTA": lambda step: do.DRGTA(step_size=step),
    "DESTINY": lambda step: do.DESTINY(step_size=step, penalty=10.0, order="combine-then-adapt"),
}
PANELS = {
    "local_gradient_sum": r"$\sum_i \|\mathrm{grad} f_i(x_i)\|_F$",
    "gradient_norm": r"$\|\mathrm{grad} f(\hat x)\|_F$",
    "consensus_error": r"$\sum_i \|x_i - \bar x\|_F$",
    "distance_to_manifold": r"$\sum_i \|x_i - \mathrm{polar}(x_i)\|_F$",
}
W = tp.uniform_weights(tp.ring(10), self_weight=0.8)


def curves(task):
    """The history of one run as plain arrays, with the worst feasibility of all its rows; None if it diverged."""
    name, step, seed, iterations = task
    problem = do.problems.ProcrustesSettings().problem(10, seed)
    result = do.solve(problem, METHODS[name](step), W, seed=seed, iterations=iterations, rows=120, comm="serial")
    if result.status == "diverged":
        return None
    return {column: result.history[column] for column in ("iteration", "seconds", "feasibility", *PANELS)}


def slope(iteration, values):
    """The fitted exponent of values ~ iteration^slope over the last decade and a half."""
    late = iteration >= iteration[-1] / 30
    return np.polyfit(np.log(iteration[late]), np.log(np.maximum(values[late], 1e-300)), 1)[0]


def main(path="figure1.png", seeds=10, iterations=3000):
    tasks = [(name, step, seed, iterations) for name, step, seed in product(METHODS, STEPS, range(seeds))]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(tasks, pool.map(curves, tasks), strict=True))
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
    finals = {}
    for name, colour in zip(METHODS, ("C0", "C1", "C2"), strict=True):
        runs = {step: [found[name, step, seed, iterations] for seed in range(seeds)] for step in STEPS}
        whole = {step: kept for step, kept in runs.items() if None not in kept}
        tuned = min(whole, key=lambda step: np.median([run["gradient_norm"][-1] for run in whole[step]]))
        best, iteration = whole[tuned], whole[tuned][0]["iteration"][1:]
        finals[name] = [run["gradient_norm"][-1] for run in best]
        print(f"{name}: tuned step {tuned:g}, {sum(None in kept for kept in runs.values())} of {len(STEPS)} steps diverged")
        for axis, (metric, label) in zip(axes, PANELS.items(), strict=True):
            values = np.array([run[metric][1:] for run in best])
            median = np.median(values, axis=0)
            axis.loglog(iteration, median, color=colour, label=f"{name}, step {tuned:g}")
            axis.fill_between(iteration, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, linewidth=0)
            axis.set(xlabel="iteration", title=label)
            last = values[:, -1]
            fitted = f", slope {slope(iteration, median):.2f}" if median[-1] > 1e-10 else ""
            print(f"  {metric:22s} {np.median(last):.2e} ({last.min():.2e} to {last.max():.2e}){fitted}")
        squares = [np.cumsum(run["gradient_norm"][1:] ** 2 * np.diff(run["iteration"])) / iteration for run in best]
        print(f"  mean squared gradient norm over the run, slope {slope(iteration, np.median(squares, axis=0)):.2f}")
        print(f"  feasibility, worst of all agents and rows {max(run['feasibility'].max() for run in best):.1e}")
    axes[3].set_ylim(bottom=1e-14)
    axes[0].legend()
    order = [" < ".join(sorted(finals, key=lambda name: finals[name][seed])) for seed in range(seeds)]
    for one in sorted(set(order), key=order.count, reverse=True):
        print(f"final gradient norm {one}: {order.count(one)} of {seeds} seeds")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
