"""
How sensitive are landing and PLAM to their parameters?
=======================================================

How landing and PLAM on CCA depend on their two parameters (what figures 8 and
10 of paper 003 ask on eigenvalue problems). ::

    # 3 seeds, a minute
    python examples/generalized/sensitivity.py sensitivity.png
    # 1 seed, 2 passes
    python examples/generalized/sensitivity.py sensitivity.png 1 2

Halves of the digits, p = 5: the share of the sum of the canonical correlations
after ten passes over the samples in batches of 64, three of which an iteration
of landing on samples takes, or as many iterations with exact gradients and
covariances. Steps eta are relative to 1 / (beta_1 ||C12||), those of PLAM,
whose field is shorter, to 1 / ||C12||, and penalties omega to 1 / (beta_1 eta);
beta_1 is the largest eigenvalue of the covariances. Medians over the seeds;
black where most runs diverged.

Explained in ``docs/generalized.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys

import numpy as np

import decentorth as do
from decentorth.figures import panels, publish, style

STEPS = 2.0 ** np.arange(-6, 3)
PENALTIES = 2.0 ** np.arange(-7, 2)
BATCH = 64
METHODS = {
    "landing on samples": lambda **steps: do.GeneralizedLanding(
        batch_size=BATCH, covariance="sampled", **steps
    ),
    "landing, rolling mean": lambda **steps: do.GeneralizedLanding(
        batch_size=BATCH, covariance="rolling", **steps
    ),
    "landing, exact": lambda **steps: do.GeneralizedLanding(
        safe=False, **steps
    ),
    "landing, exact, safe steps": lambda **steps: do.GeneralizedLanding(
        safe=True, **steps
    ),
    "PLAM, exact": lambda **steps: do.PLAM(**steps),
}


def share(problem, method, seed, iterations):
    """In percent; NaN for a run that diverged."""
    result = do.solve(problem, method, iterations=iterations, rows=2, seed=seed)
    if (
        result.status == "diverged"
        or not result.row.values["feasibility"] < 1e3
    ):
        return np.nan
    best = problem.optimum.correlations[: problem.shape[1]].sum()
    return 100 * (1 - result.row.values["error"] / best)


def shares(problem, name, iterations, seeds):
    """The medians over the seeds, by rows of penalties and columns of steps; -1
    where most runs diverged.
    """
    largest = problem.constraint.largest
    scale = problem.lipschitz[0]
    if name != "PLAM, exact":
        scale *= largest
    found = np.empty((len(PENALTIES), len(STEPS), seeds))
    for (i, j, seed), _ in np.ndenumerate(found):
        eta = STEPS[j] / scale
        penalty = PENALTIES[i] / (largest * eta)
        method = METHODS[name](step_size=eta, penalty=penalty)
        found[i, j, seed] = share(problem, method, seed, iterations)
    return np.median(np.nan_to_num(found, nan=-1.0), axis=-1)


def draw(axes, name, iterations, median):
    """A panel of the medians; returns its image."""
    image = axes.pcolormesh(
        np.log2(STEPS),
        np.log2(PENALTIES),
        np.ma.masked_less(median, 0.0),
        vmin=40,
        vmax=100,
        cmap="viridis",
    )
    axes.set_facecolor("black")
    scale = r"\|C_{12}\|"
    if name != "PLAM, exact":
        scale = r"\beta_1 " + scale
    axes.set(
        title=f"{name}, {iterations} iterations",
        xlabel=rf"$\log_2 \eta\, {scale}$",
    )
    axes.title.set_fontsize(7)
    return image


@style()
def main(path="sensitivity.png", seeds=3, passes=10):
    problem = do.solve(
        do.problems.CCASettings(scale="view").problem(1, 0),
        do.RGD(),
        iterations=0,
    ).problem
    figure, grid = panels(2, 3, (7.16, 4.6), sharey=True)
    grid[1][2].remove()
    axes = [*grid[0], *grid[1][:2]]
    for axis, name in zip(axes, METHODS, strict=True):
        batch = 3 * BATCH if name == "landing on samples" else BATCH
        iterations = passes * int(problem.n_samples[0]) // batch
        median = shares(problem, name, iterations, seeds)
        good = median >= 0.9 * median.max()
        print(
            f"{name}: best {median.max():.1f}; {good.sum()} of {good.size} "
            f"pairs within a tenth of it; "
            f"{(median < 0).sum()} diverged on most seeds"
        )
        image = draw(axis, name, iterations, median)
    for row in grid:
        row[0].set(ylabel=r"$\log_2 \omega \beta_1 \eta$")
    figure.colorbar(image, ax=axes, label="share of the correlations, percent")
    if seeds < 5:
        print("few seeds decide nothing where methods are close: 10 seeds")
    publish(
        figure,
        path,
        f"""The share of the sum of the canonical correlations of the halves of
        the digits, p = 5, after {passes} passes in batches of {BATCH}, for
        {len(STEPS)} steps and {len(PENALTIES)} penalties: medians of {seeds}
        seeds from 0 on; black where most runs diverged. Made by
        examples/generalized/sensitivity.py.""",
    )


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:4]))
