"""
How do agents find canonical correlations?
==========================================

Canonical correlations where no agent sees the covariance: ten agents in a ring,
each with the images of one digit. ::

    # 4000 iterations, about a minute
    python examples/generalized/decentralized_cca.py figure.png
    python examples/generalized/decentralized_cca.py figure.png 300

The two views are the left and the right halves of scikit-learn's digits. What
the agents learn of the covariances before the start decides how long it takes:
nothing, their diagonals (columns are scaled here, so that is the same), their
products with a few random columns, or all of them, which then everybody sees.
Draws the gap to the pooled canonical correlations against rounds of messages,
those before the start included, and prints when each variant is within 1e-6.

Explained in ``docs/generalized.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys

import matplotlib.pyplot as plt
import numpy as np

import decentorth as do
import topologies as tp

VARIANTS = {
    "CDADT as described: no momentum, no preconditioner": do.CDADT(
        momentum=0.0, preconditioner="none"
    ),
    "CDADT, momentum": do.CDADT(preconditioner="none"),
    "CDADT, momentum, 13 random columns": do.CDADT(),
    "landing, momentum, 13 random columns": do.GeneralizedDRFGT(),
    "CDADT, momentum, all of the covariance": do.CDADT(
        preconditioner="covariance"
    ),
    "landing, momentum, all of the covariance": do.GeneralizedDRFGT(
        preconditioner="covariance"
    ),
}


def main(path: str, iterations: int = 4000) -> None:
    W = tp.metropolis_weights(tp.ring(10))
    fig, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
    for name, method in VARIANTS.items():
        problem = do.problems.CCASettings(partition="by-label").problem(
            10, seed=0
        )
        history = do.solve(
            problem, method, W, iterations=iterations, record_every=10
        ).history
        rounds = history["rounds"][1:]
        gap = history["error"][1:]
        sent = history["bytes"][1:]
        ax.semilogy(rounds, np.maximum(gap, 1e-13), label=name)
        near = np.flatnonzero(gap < 1e-6)
        when = (
            f"within 1e-6 after {rounds[near[0]]:.0f} rounds, "
            f"{sent[near[0]] / 1e6:.0f} MB"
            if len(near)
            else "not within 1e-6"
        )
        print(
            f"{name}: {when}; gap {gap[-1]:.1e} after {rounds[-1]:.0f} rounds"
        )
    ax.set(
        xlabel="rounds of messages",
        ylabel="gap to the pooled canonical correlations",
    )
    ax.axhline(1e-6, color="gray", linewidth=0.5)
    fig.legend(loc="outside lower center", ncols=2, fontsize=8)
    fig.savefig(path, dpi=150)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
