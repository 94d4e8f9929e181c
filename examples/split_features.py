"""
What if the features are split over agents?
===========================================

Eight agents hold eight pixels each of all the digits, and find principal
components that none of them holds whole.

LOBPCG sums exactly over a tree of the ring; tracked landing mixes with its
neighbours, and could also lose messages. Prints iterations and MB to a gradient
of 1e-6 of the first, at most 2000, and draws the gradient against the MB that
an agent sends. ::

    python examples/split_features.py split_features.png

Explained in ``docs/features.md``.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import decentorth as do

# %%
# The data
# --------
#
# Agent i holds eight of the 64 columns.

digits = load_digits().data
digits -= digits.mean(axis=0)
problem = do.problems.SplitPCA(np.array_split(digits, 8, axis=1), 5)
# %%
# Two methods
# -----------

figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
for name, method, style in (
    ("LOBPCG", do.LOBPCG(), "-"),
    ("tracked landing", do.TrackedLanding(), "--"),
):
    stopping = do.stopping.GradientNorm(1e-6, relative=True)
    result = do.solve(
        problem,
        method,
        "ring",
        iterations=2000,
        stopping=stopping,
        record_every=1 if name == "LOBPCG" else 20,
    )
    sent = result.history["bytes"] / 8e6
    _, certificate = do.certify(result)
    k = result.row.iteration
    apart = certificate.orthonormality
    print(
        f"{name:16s} {k:5d} iterations, {sent[-1]:6.2f} MB an agent, |x^T x - "
        f"I| {apart:.0e}"
    )
    axis.loglog(
        sent[1:], result.history["gradient_norm"][1:], style, label=name
    )
axis.set(xlabel="MB sent by an agent", ylabel="gradient norm")
axis.legend()
figure.savefig(
    sys.argv[1] if len(sys.argv) > 1 else "split_features.png", dpi=150
)
