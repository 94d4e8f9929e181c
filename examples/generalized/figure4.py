"""
Paper 003: stochastic ICA
=========================

Figure 4 of paper 003: independent components of samples that are not whitened,
n = 10 sources, an orthogonal mixing matrix. ::

    # 100,000 samples, ten seeds
    python examples/generalized/figure4.py figure4.png
    python examples/generalized/figure4.py figure4.png --samples 20000 \\
        --seeds 2

The settings are the paper's: batches of r = 512, the step eta = 0.1 and the
penalty omega = 1 for all methods. Online landing takes one batch an iteration
for the gradient and B. The others take the mean of the covariances seen, which
is exact from the second pass on. RGD's gradient is half as long as landing's
field Psi_B, so RGD is here with twice the step too. Each seed has Laplace
sources and a mixing matrix of its own.

Prints Amari distances after one pass and in the end, and after the seconds that
RGD takes for a pass. Seconds are of the processor, one thread; medians and
ranges over the seeds. The table has scikit-learn's FastICA on the same data,
and the estimator here.

All numbers: ``docs/papers/003.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time

import numpy as np
from sklearn.decomposition import FastICA

import decentorth as do
from decentorth.estimators import ICA
from decentorth.figures import (
    band,
    legend_below,
    logarithmic,
    panels,
    publish,
    style,
    whole_decades,
)
from decentorth.problems import amari_distance

BATCH = 512
STEP = 0.1
PENALTY = 1.0
PASSES = 3
METHODS = {
    "landing, online": do.GeneralizedLanding(
        step_size=STEP,
        penalty=PENALTY,
        batch_size=BATCH,
        covariance="sampled",
        batches="one",
    ),
    "landing, rolling mean": do.GeneralizedLanding(
        step_size=STEP, penalty=PENALTY, batch_size=BATCH, covariance="rolling"
    ),
    "RGD, rolling mean": do.RGD(
        step_size=STEP, batch_size=BATCH, covariance="rolling"
    ),
    "RGD, twice the step": do.RGD(
        step_size=2 * STEP, batch_size=BATCH, covariance="rolling"
    ),
}
ESTIMATORS = {
    "FastICA": lambda X, seed: FastICA(
        whiten="unit-variance", random_state=seed
    ).fit(X),
    "ICA, fit": lambda X, seed: ICA(random_state=seed).fit(X),
}


def curve(problem, method, seed):
    """Columns of a run: passes, processor seconds of the method, Amari
    distance, distance from the set.
    """
    states = do.iterate(problem, method, comm="serial", seed=seed)
    spent = 0.0
    rows = []
    per_pass = -(-len(problem.samples) // BATCH)
    for k in range(PASSES * per_pass + 1):
        begun = time.process_time()
        state = next(states)
        spent += time.process_time() - begun
        if k and (k % per_pass == 0 or k % max(per_pass // 40, 1) == 0):
            distance = problem.constraint.feasibility(state.x)[0]
            rows.append(
                (
                    k / per_pass,
                    spent,
                    problem.error(problem.constraint.project(state.x)[0]),
                    distance,
                )
            )
    return np.array(rows).T


def written(values):
    """The median and the range."""
    return f"{np.median(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def report(name, runs, one, limit):
    """Print what a method has after a pass, after the seconds of RGD's pass and
    in the end.
    """
    after = [
        run[2][max(np.searchsorted(run[1], limit, side="right") - 1, 0)]
        for run in runs
    ]
    spent = 1e3 * np.median([run[1][one] for run in runs])
    ends = written([run[2][-1] for run in runs])
    distances = [run[3][one] for run in runs]
    print(
        f"{name}: Amari distance after a pass "
        f"{written([run[2][one] for run in runs])}, {spent:.0f} ms"
    )
    print(
        f"    after the {1e3 * limit:.0f} ms of RGD {written(after)}; "
        f"after {PASSES} passes {ends}"
    )
    print(f"    distance from the set after a pass {np.median(distances):.1e}")


def draw(axes, place, name, runs):
    """A method's curves in the three panels."""
    passes = runs[0][0]
    seconds = np.median([run[1] for run in runs], axis=0)
    errors = np.array([run[2] for run in runs])
    infeasible = np.array([run[3] for run in runs])
    band(axes[0], passes, errors, place, name, linewidth=1.2)
    band(axes[1], seconds, errors, place, name, linewidth=1.2)
    band(axes[2], passes, infeasible, place, name, linewidth=1.2)


def report_estimators(problems):
    """Print what FastICA and the estimator here reach on the same samples."""
    for name, fit in ESTIMATORS.items():
        errors = []
        begun = time.process_time()
        for seed, problem in enumerate(problems):
            unmixing = fit(problem.samples, seed).components_
            errors.append(amari_distance(unmixing @ problem.mixing))
        spent = 1e3 * (time.process_time() - begun) / len(problems)
        print(f"{name}: {written(errors)}, {spent:.0f} ms")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", default="figure4.png")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=10)
    return parser.parse_args()


@style()
def main():
    given = arguments()
    settings = do.problems.ICASettings(samples=given.samples, whiten=False)
    problems = [
        do.solve(settings.problem(1, seed), do.RGD(), iterations=0).problem
        for seed in range(given.seeds)
    ]
    found = {
        name: [
            curve(problem, method, seed)
            for seed, problem in enumerate(problems)
        ]
        for name, method in METHODS.items()
    }
    one = int(np.searchsorted(found["RGD, rolling mean"][0][0], 1.0))
    limit = np.median([run[1][one] for run in found["RGD, rolling mean"]])
    print(
        f"{given.samples} samples, r = {BATCH}, eta = {STEP}, omega = "
        f"{PENALTY:g}, {given.seeds} seeds"
    )
    figure, (row,) = panels(1, 3, (7.16, 2.9))
    for place, (name, runs) in enumerate(found.items()):
        report(name, runs, one, limit)
        draw(row, place, name, runs)
    report_estimators(problems)
    logarithmic(row[0], "passes over the samples", "Amari distance")
    logarithmic(row[1], "seconds of the processor", "Amari distance")
    logarithmic(row[2], "passes over the samples", r"$\|x^\top B x - I\|_F$")
    for panel in row[:2]:
        panel.set_ylim(*whole_decades(*panel.get_ylim()))
    if given.seeds < 5:
        print("few seeds decide nothing where methods are close: --seeds 10")
    legend_below(figure, row[:1], 4)
    publish(
        figure,
        given.figure,
        f"""Independent components of {given.samples} samples of 10 sources that
        are not whitened, batches of {BATCH}, eta = {STEP}, omega = {PENALTY:g}:
        Amari distances and the distance from the set. Medians and ranges of
        {given.seeds} seeds from 0 on. Seconds are of the processor, one thread.
        Made by examples/generalized/figure4.py.""",
    )


if __name__ == "__main__":
    main()
