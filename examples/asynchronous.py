"""
What if agents do not wait for each other?
==========================================

Asynchronous DRFGT with lost messages and a slow agent, against DRFGT whose
agents wait for the slowest one.

Ten agents on a ring find principal components. One of them is ten times slower,
and a message takes up to three periods of a fast agent. The asynchronous method
also loses 30 % of its messages; DRFGT loses none, and each of its iterations
takes the slow agent's period and the longest delay. Prints periods and messages
of an edge, and draws the gradient against time. ::

    python examples/asynchronous.py asynchronous.png

Explained in ``docs/asynchronous.md``.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import decentorth as do
import topologies as tp

# %%
# The problem and the ring
# ------------------------

agents = 10
slowness = 10.0
delay = 3.0
rng = np.random.default_rng(0)
spread = np.sqrt([1.0, 0.8, 0.6, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])
problem = do.problems.PCA(
    [rng.standard_normal((100, 10)) * spread for _ in range(agents)], 3
)
W = tp.metropolis_weights(tp.ring(agents))
stopping = do.stopping.GradientNorm(1e-6, relative=True)
# %%
# The two runs
# ------------

method = do.AsynchronousDRFGT(
    activations=40_000, delay=delay, slow_agents=1, slowness=slowness
)
free = do.solve(
    problem,
    method,
    W,
    channel="loss:p=0.3",
    stopping=stopping,
    record_every=500,
)
waiting = do.solve(
    problem,
    do.DRFGT(step_size="constant"),
    W,
    stopping=stopping,
    iterations=10_000,
    record_every=10,
)
# %%
# The gradient against time
# -------------------------
#
# Time is in periods of a fast agent. A synchronous iteration takes the period
# of the slow agent and the longest delay.

activations = agents - 1 + 1 / slowness  # of all agents in a period
figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
for name, result, period, style in (
    ("asynchronous, 30 % lost", free, 1 / activations, "-"),
    ("DRFGT, none lost", waiting, slowness + delay, "--"),
):
    history = result.history
    print(
        f"{name:24s} {result.row.iteration * period:6.0f} periods, "
        f"{result.row.messages / (2 * agents):6.0f} messages of an edge"
    )
    axis.semilogy(
        history["iteration"] * period,
        history["gradient_norm"],
        style,
        label=name,
    )
axis.set(xlabel="periods of a fast agent", ylabel="gradient norm")
axis.legend()
figure.savefig(
    sys.argv[1] if len(sys.argv) > 1 else "asynchronous.png", dpi=150
)
