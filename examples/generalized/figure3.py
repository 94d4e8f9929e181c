"""
Paper 003: stochastic CCA
=========================

Figures 3 and 6 of paper 003: canonical correlations of the left and right
halves of images, p = 5 and 10. ::

    # 10,000 made images, ten seeds
    python examples/generalized/figure3.py figure3.png
    python examples/generalized/figure3.py figure3.png --seeds 2
    # MNIST
    python examples/generalized/figure3.py figure3.png \\
        --data train-images-idx3-ubyte.gz

The settings are the paper's: batches of r = 512, the step eta = 0.1 and the
penalty omega = 1 for all methods. Online landing takes one batch an iteration
for the gradient and B. The others take the mean of the covariances seen, which
is exact from the second pass on. The paper does not name the metric of its RGD:
both are here. Pixels are divided by 255 and centred; the ridge is a hundredth
of the mean variance, since pixels of the border never change. Without a file
the images are scikit-learn's digits, enlarged to 28 x 28 pixels and deformed
(wide_views.py).

Prints the share of the best sum of correlations after one pass, and after the
seconds that each RGD takes for its pass. Seconds are of the processor, one
thread. Medians and ranges over the seeds.

All numbers: ``docs/papers/003.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time

import numpy as np
from wide_views import images

import decentorth as do
from decentorth.data import resolve
from decentorth.figures import (
    band,
    legend_below,
    logarithmic,
    panels,
    publish,
    style,
)

BATCH = 512
STEP = 0.1
PENALTY = 1.0
COMMON = {"step_size": STEP, "batch_size": BATCH}
METHODS = {
    "landing, online": do.GeneralizedLanding(
        penalty=PENALTY, covariance="sampled", batches="one", **COMMON
    ),
    "landing, rolling mean": do.GeneralizedLanding(
        penalty=PENALTY, covariance="rolling", **COMMON
    ),
    "RGD Euclidean, rolling mean": do.RGD(
        metric="euclidean",
        retraction="cholesky-qr",
        covariance="rolling",
        **COMMON,
    ),
    "RGD natural, rolling mean": do.RGD(
        metric="natural",
        retraction="cholesky-qr",
        covariance="rolling",
        **COMMON,
    ),
}
RIVALS = list(METHODS)[2:]


def halves(data, count):
    """The centred halves of the images, without constant pixels."""
    if data is None:
        pixels = images(count)[0].astype(float)
    else:
        file = resolve(data)
        rows = file.rows(np.arange(file.shape[0]))
        side = int(np.sqrt(rows.shape[1]))
        pixels = rows.reshape(len(rows), side, side) / 255
    views = [
        half.reshape(len(pixels), -1) for half in np.split(pixels, 2, axis=2)
    ]
    around = [view - view.mean(axis=0) for view in views]
    return [
        view[:, (view**2).mean(axis=0) > 1e-3 * (view**2).mean()]
        for view in around
    ]


def curve(problem, method, seed, iterations):
    """Columns of a run: samples seen, processor seconds of the method, share of
    the correlations, distance from the set.
    """
    best = problem.optimum.correlations[: problem.shape[1]].sum()
    states = do.iterate(problem, method, comm="serial", seed=seed)
    spent = 0.0
    rows = []
    with np.errstate(all="ignore"):
        for k in range(iterations + 1):
            begun = time.process_time()
            state = next(states)
            spent += time.process_time() - begun
            feasibility = problem.constraint.feasibility(state.x)[0]
            if not feasibility < 1e6:
                return None
            share = (
                1 - problem.error(problem.constraint.project(state.x)[0]) / best
            )
            rows.append(
                (
                    min(k * BATCH / problem.n_samples[0], k),
                    spent,
                    share,
                    feasibility,
                )
            )
    return np.array(rows).T


def at(curves, column, limit):
    """The median and the range of the shares where a column, 0 for passes or 1
    for seconds, has come to a limit.
    """
    shares = [
        one[2][max(np.searchsorted(one[column], limit, side="right") - 1, 0)]
        for one in curves
    ]
    return f"{np.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})"


def report(p, found):
    """Print what each method has after one pass, and after the seconds of a
    pass of each RGD.
    """
    passes = {
        name: np.median(
            [one[1][np.searchsorted(one[0], 1.0)] for one in found[name]]
        )
        for name in METHODS
        if found[name]
    }
    for name, curves in found.items():
        if not curves:
            print(f"p = {p}, {name}: diverged on all seeds")
            continue
        seconds = ", ".join(
            f"after the {passes[rival]:.2f} s of {rival} "
            f"{at(curves, 1, passes[rival])}"
            for rival in RIVALS
        )
        ends = [one[3][np.searchsorted(one[0], 1.0)] for one in curves]
        print(
            f"p = {p}, {name}: after a pass {at(curves, 0, 1.0)} in "
            f"{passes[name]:.2f} s; {seconds}"
        )
        print(f"    distance from the set after a pass {np.median(ends):.1e}")


def draw(axes, p, found):
    """A row of panels: medians and ranges of the gap against passes and
    seconds, and the distance from the set.
    """
    for place, (name, curves) in enumerate(found.items()):
        if not curves:
            continue
        gaps = np.array([1 - one[2][1:] for one in curves])
        distances = np.array([one[3][1:] for one in curves])
        passes = curves[0][0][1:]
        seconds = np.median([one[1][1:] for one in curves], axis=0)
        for axis, across, values in zip(
            axes,
            (passes, seconds, passes),
            (gaps, gaps, distances),
            strict=True,
        ):
            band(axis, across, values, place, name, linewidth=1.2)
    logarithmic(
        axes[0], "passes over the samples", f"gap of the correlations, p = {p}"
    )
    logarithmic(axes[1], "seconds of the processor", "gap of the correlations")
    logarithmic(axes[2], "passes over the samples", r"$\|x^\top B x - I\|_F$")
    for axis in (axes[0], axes[2]):
        axis.axvline(1, color="0.4", linestyle=":", linewidth=0.8)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", default="figure3.png")
    parser.add_argument(
        "--data",
        help="an idx file of images, as MNIST's; by default made images",
    )
    parser.add_argument(
        "--images", type=int, default=10_000, help="number of made images"
    )
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=10)
    return parser.parse_args()


@style()
def main():
    given = arguments()
    left, right = halves(given.data, given.images)
    print(
        f"{given.data or 'made images'}: {len(left)} x ({left.shape[1]} + "
        f"{right.shape[1]}), r = {BATCH}, eta = {STEP}"
    )
    figure, grid = panels(2, 3, (7.16, 4.8))
    for p, axes in zip((5, 10), grid, strict=True):
        problem = do.problems.CCA([left], [right], rank=p, ridge=0.01)
        iterations = given.passes * -(-len(left) // BATCH)
        found = {
            name: [
                one
                for seed in range(given.seeds)
                if (one := curve(problem, method, seed, iterations)) is not None
            ]
            for name, method in METHODS.items()
        }
        report(p, found)
        draw(axes, p, found)
    if given.seeds < 5:
        print("few seeds decide nothing where methods are close: --seeds 10")
    legend_below(figure, grid[0][:1], 2)
    publish(
        figure,
        given.figure,
        f"""Canonical correlations of the halves of {len(left)} images
        ({given.data or "made images"}), batches of {BATCH}, eta = {STEP}, omega
        = {PENALTY:g}: the gap of the sum of correlations and the distance from
        the set, for 5 and 10 components. Medians and ranges of {given.seeds}
        seeds from 0 on. Seconds are of the processor, one thread; the dotted
        line ends the first pass. Made by examples/generalized/figure3.py.""",
    )


if __name__ == "__main__":
    main()
