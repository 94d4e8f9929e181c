"""
Paper 003: stochastic CCA
=========================

Figures 3 and 6 of paper 003: stochastic CCA on the left and right halves of images, p = 5 and 10. ::

    python examples/generalized/figure3.py figure3.png                                          # digits, batches of 64, 10 seeds
    python examples/generalized/figure3.py figure3.png 3 512 train-images-idx3-ubyte.gz         # MNIST, batches of 512, 3 seeds

Landing on samples alone, with three independent batches an iteration, against landing and RGD with a rolling mean of the
covariances, all of whose samples are in it from the second pass on. Medians and ranges over the seeds, at the steps that were best
on the digits (benchmarks/stochastic_cca.py). The dotted line is one pass of the methods that draw one batch an iteration.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys

import matplotlib.pyplot as plt
import numpy as np

import decentorth as do

PASSES = 20
METHODS = {"landing on samples": 3, "landing, rolling mean": 1, "RGD, rolling mean": 1}
"""Batches that an iteration draws."""


def method(name, problem, batch):
    """At a step that is relative to the largest eigenvalue of the covariances and to the norm of C12."""
    largest, norm = problem.constraint.largest, problem.lipschitz[0]
    if name == "RGD, rolling mean":
        step = 1 / (largest + norm)
        return do.RGD(step_size=step, batch_size=batch, covariance="rolling", metric="euclidean", retraction="cholesky-qr")
    sampled = name == "landing on samples"
    step = (0.5 if sampled else 0.25) / (largest * norm)
    covariance = "sampled" if sampled else "rolling"
    return do.GeneralizedLanding(step_size=step, penalty=0.1 / (largest * step), batch_size=batch, covariance=covariance)


def main(path="figure3.png", seeds=10, batch=64, data="digits"):
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
    for p, row in zip((5, 10), axes, strict=True):
        settings = do.problems.CCASettings(data=data, rank=p, scale="view")
        problem = do.solve(settings.problem(1, 0), do.RGD(), iterations=0).problem
        best, samples = problem.optimum.correlations[:p].sum(), problem.n_samples[0]
        for colour, (name, draws) in enumerate(METHODS.items()):
            iterations = PASSES * samples // (draws * batch)
            made = method(name, problem, batch)
            runs = [do.solve(problem, made, iterations=iterations, rows=60, seed=seed).history for seed in range(seeds)]
            drawn = draws * batch * runs[0]["iteration"][1:] / samples
            seconds = np.median([run["seconds"][1:] for run in runs], axis=0)
            gaps = np.array([run["error"][1:] for run in runs]) / best
            infeasible = np.array([run["feasibility"][1:] for run in runs])
            panels = (drawn, gaps), (1e3 * seconds, gaps), (drawn, infeasible)
            for axis, (across, values) in zip(row, panels, strict=True):
                axis.loglog(across, np.median(values, axis=0), color=f"C{colour}", label=name)
                axis.fill_between(across, values.min(axis=0), values.max(axis=0), color=f"C{colour}", alpha=0.2, linewidth=0)
            last = gaps[:, -1]
            print(
                f"p = {p}, {name}: relative gap {np.median(last):.3f} ({last.min():.3f} to {last.max():.3f}), "
                f"feasibility {np.median(infeasible[:, -1]):.1e}, after {PASSES} passes"
            )
        row[0].set(xlabel="samples drawn / samples there are", ylabel=f"relative gap of the correlations, p = {p}")
        row[1].set(xlabel="milliseconds")
        row[2].set(xlabel="samples drawn / samples there are", ylabel=r"$\|X^\top B X - I\|_F$", ylim=(1e-4, 10))
        for axis in (row[0], row[2]):
            axis.axvline(1, color="black", linestyle=":", linewidth=0.8)
    axes[0, 0].legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(path, dpi=150)
    print(f"figure in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:4]), *sys.argv[4:5])
