"""
How are outliers among handwritten digits found?
================================================

Outliers among handwritten digits: images of one digit, and among them images of
the others, unlabelled. ::

    # digits 0 to 9 as the inliers in turn, 30 % outliers
    python examples/nonsmooth/outliers.py outliers.png
    # digits 0 and 1, 40 % outliers
    python examples/nonsmooth/outliers.py outliers.png 2 0.4

A subgradient method looks for the subspace that most images are near
(RobustSubspace): in one place, and by five agents who divide the images and
exchange points only. How far an image is from the subspace ranks outliers;
principal components, of the images and of the images divided by their norms,
are drawn towards them. Printed and drawn is the area under the ROC curve.

Explained in ``docs/nonsmooth.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score, roc_curve

import topologies as tp
from decentorth.estimators import RobustSubspace

COMPONENTS = 4
W = tp.metropolis_weights(tp.ring(5))


def mixture(digit, share, seed=0):
    """Images of one digit, shuffled with those of others, which are that share
    of all; and which are outliers.
    """
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    inliers = np.flatnonzero(y == digit)
    outliers = rng.choice(
        np.flatnonzero(y != digit),
        round(len(inliers) * share / (1 - share)),
        replace=False,
    )
    order = rng.permutation(np.concatenate([inliers, outliers]))
    return X[order], y[order] != digit


def components(X, center):
    """How far samples are from their principal components: of all samples, or,
    not centred, of samples divided by their norms.
    """
    centre = X.mean(axis=0) if center else np.zeros(X.shape[1])
    rows = X - centre if center else X / np.linalg.norm(X, axis=1)[:, None]
    axes = np.linalg.svd(rows, full_matrices=False)[2][:COMPONENTS]
    return np.linalg.norm(rows - rows @ axes.T @ axes, axis=1)


def robust(X, agents):
    """The same for the robust subspace through 0, found in one place or by
    agents.
    """
    estimator = RobustSubspace(
        COMPONENTS, center=False, tol=1e-3, random_state=0
    )
    found = (
        estimator.fit_agents(np.array_split(X, 5), W)
        if agents
        else estimator.fit(X)
    )
    return -found.score_samples(X)


METHODS = {
    "principal components": partial(components, center=True),
    "principal components on the sphere": partial(components, center=False),
    "robust subspace": partial(robust, agents=False),
    "robust subspace, 5 agents": partial(robust, agents=True),
}


def listed(areas):
    """The areas of all methods in a line."""
    return ", ".join(f"{name} {area:.3f}" for name, area in areas.items())


def finish(left, right, areas):
    """Bars of all areas, labels and legends."""
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    left.set(
        xlabel="inliers taken for outliers",
        ylabel="outliers found",
        title="digit 0 (area under the curve)",
    )
    left.legend(loc="lower right")
    digits = np.arange(len(areas))
    for place, name in enumerate(METHODS):
        heights = [one[name] for one in areas]
        right.bar(digits + 0.21 * (place - 1.5), heights, 0.21, label=name)
    right.set(
        xlabel="digit of the inliers",
        ylabel="area under the ROC curve",
        ylim=(0.8, 1.0),
        xticks=digits,
    )


def main(path="outliers.png", digits=10, share=0.3):
    areas = []
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.4), layout="constrained"
    )
    for digit in range(digits):
        X, outlier = mixture(digit, share)
        scores = {name: method(X) for name, method in METHODS.items()}
        areas.append(
            {
                name: roc_auc_score(outlier, score)
                for name, score in scores.items()
            }
        )
        print(f"digit {digit}: {listed(areas[-1])}", flush=True)
        if digit == 0:
            for name, score in scores.items():
                label = f"{name} ({areas[0][name]:.3f})"
                left.plot(*roc_curve(outlier, score)[:2], label=label)
    means = {name: np.mean([one[name] for one in areas]) for name in METHODS}
    print(f"mean:    {listed(means)}")
    finish(left, right, areas)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]), *map(float, sys.argv[3:4]))
