"""
Which of eleven methods is fastest on the digits?
=================================================

Five principal components of scikit-learn's digits. Each of ten agents holds the
images of one digit, the hardest division. Choose methods by name, or leave them
out for all eleven::

    python examples/digits.py figure.png
    python examples/digits.py figure.png deepca rfextra
    mpirun -n 10 python examples/digits.py figure.png drfgt

The figure has the distance from the components of all images against the bytes
sent. Methods with gradient tracking reach it to rounding. DGD and gradient
tracking without a manifold are controls. DRSGD and DPRGD need steps that
shrink.

Explained in ``docs/comparing.md``.
"""

import sys

import decentorth as do
import topologies as tp

# %%
# The methods
# -----------

METHODS = {
    "deepca": (do.DeEPCA(), 400),  # tracked power iterations, no step size
    "destiny": (
        do.DESTINY(),
        6000,
    ),  # tracking an approximate augmented Lagrangian
    "dgd": (do.DGD(penalty=100.0), 2000),  # a soft penalty in Euclidean space
    "dprgd": (do.DPRGD(step_size="diminishing"), 2000),  # projected gradients
    "dprgt": (do.DPRGT(), 4000),  # projected gradient tracking
    "drfgt": (
        do.DRFGT(),
        2000,
    ),  # no retraction; the landing field comes back to the manifold
    "drgta": (
        do.DRGTA(rounds=3, chebyshev=True),
        2000,
    ),  # tracking on the manifold, three rounds an iteration
    "drsgd": (
        do.DRSGD(step_size="diminishing", batch_size=16),
        2000,
    ),  # mini-batches of 16 images
    "gradient_tracking": (
        do.GradientTracking(penalty=100.0, order="adapt-then-combine"),
        6000,
    ),  # a soft penalty, with tracking
    "rextra": (do.REXTRA(), 3500),  # only points are sent, and projected
    "rfextra": (
        do.RFEXTRA(),
        3000,
    ),  # only points are sent, half of DRFGT's bytes
}
"""Each method with the iterations that it gets."""


# %%
# The runs
# --------
#
# One division of the images and one graph for all methods.


def main(path, *names):
    problem = do.problems.PCASettings(rank=5, partition="by-label").problem(
        10, seed=0
    )
    W = tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=0))
    curves = {}
    for name in names or METHODS:
        method, iterations = METHODS[name]
        result = do.solve(problem, method, W, iterations=iterations)
        curves[name] = result.history
        row = result.row
        reached = row.values["error"]
        apart = row.values["consensus_rms"]
        if result.collective.rank == 0:
            print(
                f"{name:18} distance {reached:.1e}, consensus {apart:.1e}, "
                f"{row.bytes / 1e6:.0f} MB"
            )
    if result.collective.rank == 0:
        draw(curves, path)


# %%
# The figure
# ----------


def draw(curves, path):
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for place, (name, history) in enumerate(curves.items()):
        style = ("-", "--", ":")[place // 4]
        ax.loglog(
            history["bytes"][1:] / 1e6, history["error"][1:], style, label=name
        )
    ax.set(
        xlabel="MB sent by all agents",
        ylabel="distance from the components of all images",
    )
    ax.legend(fontsize=8, ncols=2)
    fig.savefig(path, dpi=150)


# %%
# All methods
# -----------

if __name__ == "__main__":
    main(*sys.argv[1:])
