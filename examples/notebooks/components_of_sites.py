"""
Your own data: what are the components of four sites?
=====================================================

Four laboratories have analysed wines. They want the principal components of
all wines, as if all rows were in one table, but no row may leave its
laboratory. This notebook asks three questions:

1. How wrong is the answer of a laboratory alone?
2. Do the four find the answer of the joint table by talking to neighbours?
3. What do they send?

It needs ``pip install ".[plot,data,frames]"`` in a checkout.

Explained in ``docs/own_data.md``.
"""

# %%
# The data
# --------
#
# scikit-learn's wines: 178 rows, 13 measurements, three cultivars. Rows are
# sorted by cultivar before they are divided, so that the laboratories see
# different wines. This is the usual case with real sites, and the hard one.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

wine = load_wine(as_frame=True)
order = np.argsort(wine.target.to_numpy(), kind="stable")
table = wine.data.iloc[order]
rows = {"north": 30, "south": 70, "east": 48, "west": 30}
stops = np.cumsum([0, *rows.values()])
sites = {
    name: table.iloc[first:last]
    for name, first, last in zip(rows, stops, stops[1:], strict=False)
}
sites["south"].describe().loc[["mean", "std"]].iloc[:, :5].round(2)

# %%
# The measurements have different units: proline is in the hundreds, and the
# hue is about one. Without a common unit the first component is proline and
# nothing else. ``scale=True`` divides each column by its standard deviation
# over all sites; the sites find it by exchanging sums.
#
# The answer to compare with
# --------------------------
#
# Here we have all rows in one place, so we can compute what the sites want.

pooled = (table - table.mean()) / table.std(ddof=0)
target = np.linalg.svd(pooled.to_numpy(), full_matrices=False)[2][:2].T


def angle(basis):
    """The largest principal angle to the pooled components, in degrees."""
    q = np.linalg.qr(basis)[0]
    cosines = np.linalg.svd(q.T @ target, compute_uv=False)
    return np.degrees(np.arccos(np.clip(cosines.min(), -1, 1)))


for name, frame in sites.items():
    own = (frame - frame.mean()) / frame.std(ddof=0)
    basis = np.linalg.svd(own.to_numpy(), full_matrices=False)[2][:2].T
    print(f"{name:6} alone: {angle(basis):5.1f} degrees from the answer")

# %%
# An angle of 90 degrees means that a direction of one answer is perpendicular
# to the other answer. The laboratories alone are far off: each sees one or two
# cultivars, and misses the differences between the others.
#
# Four agents on a ring
# ---------------------
#
# A problem of sites takes the frames as they are. Each laboratory is an agent
# and talks to two others. DeEPCA sends an estimate of the components to the
# neighbours in each iteration, never a row.

import decentorth as do

problem = do.problems.PCA.from_sites(sites, 2, center=True, scale=True)
result = do.solve(problem, do.DeEPCA(), "ring", iterations=400, stopping=1e-10)
result

# %%
# The last value of a cell is shown: the end of the run with its numbers. The
# points of the agents are in ``result.x``, one matrix of two columns for each.

for name, x in zip(sites, result.x, strict=True):
    print(f"{name:6} with the others: {angle(x):.1e} degrees from the answer")

# %%
# On the way
# ----------
#
# Three curves tell whether a run is done. The gradient norm says how far the
# mean of the points is from a solution, the disagreement how far the agents
# are from each other, and the last panel how far points are from orthonormal.

figure = result.plot(width="page")

# %%
# What was sent
# -------------
#
# Every message is counted. This table has the quantities, where they went, and
# how many bytes they took.

pd.DataFrame(result.sent())

# %%
# The picture that the laboratories wanted
# ----------------------------------------
#
# Each laboratory can draw its own wines in the common coordinates. Together
# the drawings are the picture of the joint table, and nobody has made that
# table.

scaled = {
    name: (frame - table.mean()) / table.std(ddof=0)
    for name, frame in sites.items()
}
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, frame), x in zip(scaled.items(), result.x, strict=True):
    scores = frame.to_numpy() @ x
    axes.plot(scores[:, 0], scores[:, 1], "o", alpha=0.7, label=name)
axes.set(xlabel="first component", ylabel="second component")
axes.legend()

# %%
# Exercises
# ---------
#
# 1. Replace the ring by ``"path"`` and by ``"complete"``. How many iterations
#    does each take, and how many messages?
# 2. Leave ``scale=True`` out. What is the first component now?
# 3. Write the frames to four files, and give
#    ``"north.csv,south.csv,east.csv,west.csv"`` in place of ``sites``. Then
#    run the script with ``mpirun -n 4``: each process opens one file.
