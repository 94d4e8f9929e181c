"""
What if links have one direction?
=================================

Push-pull and DRGTA on a directed graph, and DRFGT on the same edges used both
ways.

Sixteen agents find principal components of unlike data. Prints iterations and
MB to a gradient of 1e-8, and draws the gradient against both. ::

    python examples/directed.py directed.png

Explained in ``docs/directed.md``.
"""

import sys

import matplotlib.pyplot as plt

import decentorth as do
import topologies as tp

# %%
# The problem and the graph
# -------------------------
#
# A directed ring with 16 chords. The same edges, used both ways, are the graph
# of DRFGT.

agents = 16
problem = do.problems.PCASettings(
    data="synthetic", dimension=20, rank=3, gap=0.5, heterogeneity=0.5
).problem(agents, seed=0)
chords = tp.directed_ring(agents, chords=16, seed=0)
runs = {
    "push-pull, one way": (do.PushPull(), chords),
    "DRGTA, one way": (do.DRGTA(), chords),
    "DRFGT, both ways": (
        do.DRFGT(step_size="constant"),
        chords.to_undirected(),
    ),
}
# %%
# Iterations and bytes
# --------------------

figure, axes = plt.subplots(
    1, 2, figsize=(7, 3), sharey=True, layout="constrained"
)
for (name, (method, graph)), style in zip(
    runs.items(), ("-", "--", ":"), strict=True
):
    result = do.solve(problem, method, graph, iterations=4000, stopping=1e-8)
    history = result.history
    print(
        f"{name:20s} {result.row.iteration:5d} iterations, "
        f"{result.row.bytes / 1e6:5.1f} MB, {result.message}"
    )
    axes[0].semilogy(
        history["iteration"], history["gradient_norm"], style, label=name
    )
    axes[1].semilogy(history["bytes"] / 1e6, history["gradient_norm"], style)
axes[0].set(xlabel="iteration", ylabel="gradient norm")
axes[1].set(xlabel="MB sent by all agents")
axes[0].legend()
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "directed.png", dpi=150)
