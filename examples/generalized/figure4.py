"""
Paper 003: stochastic ICA
=========================

Figure 4 of paper 003: stochastic ICA of samples that are not whitened, n = 10 Laplace sources, an orthogonal mixing matrix. ::

    python examples/generalized/figure4.py figure4.png                # 20,000 samples, 5 seeds, seconds
    python examples/generalized/figure4.py figure4.png 10 100000      # the paper's size, 10 seeds

Landing on samples alone, with three independent batches of 333 an iteration, against landing and RGD with a rolling mean of the
covariances of batches of 1000, all of whose samples are in it from the second pass on. Steps 0.3 (0.6 for RGD, whose direction is
half as long) and penalty 0.1 throughout; each seed has data of its own. Medians and ranges; the dotted line is one pass. The table
has scikit-learn's FastICA on the same data, and the estimators here.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import FastICA

import decentorth as do
from decentorth.estimators import ICA
from decentorth.problems import amari_distance

DRAWN = 300_000
"""Samples that a run draws."""
METHODS = {
    "landing on samples": (3, do.GeneralizedLanding(step_size=0.3, penalty=0.1, batch_size=333, covariance="sampled")),
    "landing, rolling mean": (1, do.GeneralizedLanding(step_size=0.3, penalty=0.1, batch_size=1000, covariance="rolling")),
    "RGD, rolling mean": (1, do.RGD(step_size=0.6, batch_size=1000, covariance="rolling")),
}
"""With the batches that an iteration draws."""


def in_batches(X, seed):
    """The estimator after one pass in batches of 1000."""
    found = ICA(random_state=seed)
    for first in range(0, len(X), 1000):
        found.partial_fit(X[first : first + 1000])
    return found


ESTIMATORS = {
    "FastICA": lambda X, seed: FastICA(whiten="unit-variance", random_state=seed).fit(X),
    "ICA, fit": lambda X, seed: ICA(random_state=seed).fit(X),
    "ICA, partial_fit": in_batches,
}


def main(path="figure4.png", seeds=5, samples=20_000):
    settings = do.problems.ICASettings(samples=samples, whiten=False)
    problems = [do.solve(settings.problem(1, seed), do.RGD(), iterations=0).problem for seed in range(seeds)]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    print(f"{'':22s} {'Amari distance':>28s} {'passes':>7s} {'seconds':>8s}")
    for colour, (name, (draws, method)) in enumerate(METHODS.items()):
        drawn = draws * method.batch_size
        runs = [
            do.solve(problem, method, iterations=DRAWN // drawn, record_every=5, seed=seed).history
            for seed, problem in enumerate(problems)
        ]
        passes, seconds = drawn * runs[0]["iteration"] / samples, np.median([run["seconds"] for run in runs], axis=0)
        errors, infeasible = (np.array([run[column] for run in runs]) for column in ("error", "feasibility"))
        infeasible = np.maximum(infeasible, 1e-16)
        panels = (passes, errors), (1e3 * seconds, errors), (passes, infeasible)
        for axis, (across, values) in zip(axes, panels, strict=True):
            axis.semilogy(across, np.median(values, axis=0), color=f"C{colour}", label=name)
            axis.fill_between(across, values.min(axis=0), values.max(axis=0), color=f"C{colour}", alpha=0.2, linewidth=0)
        for end in (np.searchsorted(passes, 1.0 - 1e-9), -1):
            line(name, errors[:, end], passes[end], seconds[end])
    for name, fit in ESTIMATORS.items():
        found = []
        for seed, problem in enumerate(problems):
            X, begun = problem.samples, time.perf_counter()
            estimator = fit(X, seed)
            seconds = time.perf_counter() - begun
            passes = 1 if name == "ICA, partial_fit" else 1 + estimator.n_iter_  # one of them whitens
            found.append((amari_distance(estimator.components_ @ problem.mixing), passes, seconds))
        errors, passes, seconds = np.array(found).T
        line(name, errors, np.median(passes), np.median(seconds))
    axes[0].set(xlabel="samples drawn / samples there are", ylabel="Amari distance")
    axes[1].set(xlabel="milliseconds", xscale="symlog", ylabel="Amari distance")
    axes[2].set(xlabel="samples drawn / samples there are", ylabel=r"$\|X^\top B X - I\|_F$")
    for axis in (axes[0], axes[2]):
        axis.axvline(1, color="black", linestyle=":", linewidth=0.8)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    print(f"figure in {path}")


def line(name, errors, passes, seconds):
    """A row of the table: median and range over the seeds."""
    error = f"{np.median(errors):.4f} ({errors.min():.4f} to {errors.max():.4f})"
    print(f"{name:22s} {error:>28s} {passes:7.1f} {seconds:8.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
